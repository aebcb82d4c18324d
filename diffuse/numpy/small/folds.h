/* Reductions of vectors at hand that the calling thread computes by compiled code. */
#ifndef DIFFUSE_FOLDS_H
#define DIFFUSE_FOLDS_H

#include "small.h"

/* The sum of a vector of floats, or the dot product of two, as small_folds.fold has it.  NULL, without an exception
 * unless one was raised, where Python's code has to see to it: other arrays, no machine code, results that are not
 * finite. */
PyObject *small_fold_vectors(PyArrayObject *one, PyArrayObject *other);
/* The sums along an axis of a C-contiguous array of floats of few dimensions; NULL likewise. */
PyObject *small_fold_along(PyArrayObject *x, int axis);
/* A number or an array that one of these gave, which it steals, divided by a number of elements. */
PyObject *small_divided(PyObject *sum, npy_intp count);
PyObject *small_dot(PyObject *a, PyObject *b); /* at_once.dot of Diffuse's arrays; NULL likewise */
/* Is such an array reduced at once (at_once.immediate)?  More are, if the threads share them. */
int small_folds_now(PyArrayObject *x, int shared);
int small_connect_folds(PyObject *function); /* -1 with an exception */

#endif

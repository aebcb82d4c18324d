/* What the files have in common that draw random numbers in place of NumPy's generators. */
#ifndef DIFFUSE_DRAWS_H
#define DIFFUSE_DRAWS_H

#include "gate.h"
#include <numpy/random/bitgen.h>

enum { FEWEST_INTEGERS = 1000 }; /* for which it is worth a look whether half of a word is left over */

/* A generator of NumPy's while numbers are drawn from its source, whose lock is held. */
typedef struct {
    PyObject *bits, *lock;
    bitgen_t *source;
} Drawing;

int small_begin_drawing(PyObject *generator, Drawing *drawing); /* -1 with an exception */
int small_end_drawing(Drawing *drawing); /* whether it was begun or not; -1 with an exception, one before or its own */
int small_shape_of(PyObject *size, npy_intp *shape); /* the number of dimensions; -1 where that is not plain */

/* Of normals.c and integers.c: the arrays that calls of methods draw from this generator of NumPy's; NULL, without an
 * exception unless one was raised, where NumPy or Diffuse's own function has to draw them. */
PyObject *small_normals(Gate *gate, PyObject *generator, PyObject *const *args, Py_ssize_t n, PyObject *kwnames);
PyObject *small_integers(PyObject *generator, int64_t low, int64_t high, int rank, npy_intp *shape);

#endif

/* What stacks.c and complexes.c share: the operands of products of many small matrices. */
#ifndef DIFFUSE_STACKS_H
#define DIFFUSE_STACKS_H

#include "small.h"

enum { SMALL_MATRIX = 8 }; /* the most rows and columns of a matrix */

/* An operand of products: the strides of a matrix, and of the stack, 0 where all products have the same matrix; whether
 * its elements are real. */
typedef struct {
    const char *data;
    npy_intp stack, down, across;
    int real;
} Stack;

/* Of complexes.c, as `multiply` of stacks.c: products of complex matrices, the right ones of which may be real.  0 if
 * NumPy may have other results: those that are not finite, and zeros in columns that it takes one by one. */
int small_multiply_complex(const Stack *x, const Stack *y, double *out, npy_intp low, npy_intp high, int m, int k,
                           int n);

/* The product of two arrays of NumPy's, a new array, if they are stacks of small matrices of double precision; NULL,
 * without an exception unless one was raised, where NumPy has to compute it. */
PyObject *small_stack_product(PyObject *left, PyObject *right);
/* Of columns.c: the same for the dot product of two long columns of matrices. */
PyObject *small_dot_columns(PyObject *left, PyObject *right);

#endif

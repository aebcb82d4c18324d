/* What operators.c, elements.c, products.c and protocol.c take of one another. */
#ifndef DIFFUSE_OPERATORS_H
#define DIFFUSE_OPERATORS_H

#include "small.h"

/* The names of ufuncs, and of the functions of `core.slow`, as Python's strings. */
enum { ADD, SUBTRACT, MULTIPLY, DIVIDE, FLOOR_DIVIDE, REMAINDER, LEFT_SHIFT, RIGHT_SHIFT, AND, OR, XOR, MATMUL,
       POWER, SQUARE, NEGATIVE, POSITIVE, ABSOLUTE, INVERT, LESS, LESS_EQUAL, EQUAL, NOT_EQUAL, GREATER, GREATER_EQUAL,
       FORWARD, REFLECTED, EQUALITY, ALONE, UPDATE, KNOWN, KNOWN_UNARY, KNOWN_INPLACE, SUBSCRIPT, ASSIGN, NAMES };

extern PyObject *small_ufuncs[FORWARD]; /* NumPy's, by the same numbers */
extern PyNumberMethods small_described_number;
PyObject *small_slowly(int way, PyObject *x, PyObject *y, PyObject *z); /* one of the functions of `core.slow` */
PyObject *small_reflected(PyObject *a, PyObject *b, int name); /* the same, of NumPy's array or number and ours */
PyObject *small_product(PyObject *a, PyObject *b);       /* arithmetic.product; NULL as small_near has it */
PyObject *small_as_index(Array *x);

/* Both operands, if an operation can be done at once: 1, 0 if not, -1 with an exception. */
int small_operands(PyObject *a, PyObject *b, PyObject **left, PyObject **right);

/* Of loops.c.  What NumPy's operator gives of two operands, or of one where `right` is NULL: a new array, or NULL,
 * without an exception, if NumPy has to do it.  In place: 1 if it is done, 0 if NumPy has to do it, -1 with an exception. */
PyObject *small_loop(int name, PyObject *left, PyObject *right);
int small_loop_in_place(int name, PyObject *memory, PyObject *right);
/* Into the memory of an operand that nobody needs any more: 1 if it is done, 0 if not, -1 with an exception. */
int small_loop_over(int name, PyObject *left, PyObject *right, PyObject *memory);
/* Of errors.c: report floating-point errors as NumPy's operator does; -1 with an exception. */
int small_report(int name, unsigned raised);
int small_put(PyObject *target, PyObject *value); /* copy to an array: 1 if it is done, 0 if NumPy has to do it */
int small_types_ready(void); /* -1 with an exception */
void small_find_loops(void);

#endif

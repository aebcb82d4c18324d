/* Of updates.c: an operation whose result an update needs, such as the product in `x -= u * v`. */
#ifndef DIFFUSE_UPDATES_H
#define DIFFUSE_UPDATES_H

#include "operators.h"

extern PyObject *small_put_off_array; /* the array without values; NULL for none */
/* The array of such an operation, without its values, if the update comes next; NULL, without an exception unless one
 * was raised, if the operation has to be done now.  `left` and `right` are the memory of `a` and `b`, or numbers.  There
 * may have been `most` calls on the same views before; with 0 these are not counted. */
PyObject *small_put_off(int name, PyObject *a, PyObject *b, PyObject *left, PyObject *right, long most);
/* Do the update `a` by `b`, which was put off: 1 if it is done; 0 if it has to be done now that `b` has its values, and
 * -1 with an exception. */
int small_update(int name, PyObject *a, PyObject *b);

#endif

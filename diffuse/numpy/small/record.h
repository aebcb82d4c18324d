/* Calls that were recorded before, as record.c finds them. */
#ifndef DIFFUSE_RECORD_H
#define DIFFUSE_RECORD_H

#include "small.h"

/* What a call came to: an exception, found out here, to be found out by Python's code, to be done at once, or to be
 * recorded. */
enum { FAILED = -1, UNKNOWN, DONE, ASK, ALONE, LATER };

extern Py_ssize_t known_template, known_frame, known_values; /* where a Known has them */
extern Py_ssize_t view_token;                                /* and a View */

/* The name of an operand in a key: of an array, whose view has to be known, the token; else the type.  Borrowed;
 * NULL where Python's code has to look. */
PyObject *small_name_of(PyObject *x);
/* Of views.c: the same, and for arrays of the host alone, which have the view of a whole store without having a store
 * yet, as known.token.  A new reference; NULL, without an exception unless one was raised, where it is not known. */
PyObject *small_token_of(PyObject *x);
/* The call of this name, if it may be recorded again; a new reference. */
int small_look_up(PyObject *const *names, Py_ssize_t n, PyObject **found);
PyObject *small_result_of(PyObject *known); /* the array that a call makes, before it has a store */

/* -- alone.c: calls that the program waited for alone ------------------------------------------------------ */

int small_is_alone(PyObject *known); /* was it, often enough? */
/* The same operation done at once, as single.done: DONE, FAILED, ASK, or LATER where it waits for an operand.  And one that writes to an array, or to the part
 * of it that an index selects, as single.written. */
int small_at_once(PyObject *known, PyObject *function, PyObject *const *operands, Py_ssize_t n, PyObject **found);
int small_written(PyObject *known, PyObject *function, PyObject *const *operands, Py_ssize_t n, Array *out,
                  PyObject *index);
int small_connect_alone(PyObject *parts);

/* -- constants.c: what tasks read for small NumPy arrays -------------------------------------------------- */

/* access.snapshot: the operands, where small NumPy arrays with elements that were read before are replaced by the
 * arrays that hold these; others stay as they are, for Python's code.  New references; -1 with an exception. */
int small_read(PyObject *const *operands, Py_ssize_t n, PyObject **read);
void small_let_go(PyObject **read, Py_ssize_t n);
int small_connect_constants(PyObject *parts);

#endif

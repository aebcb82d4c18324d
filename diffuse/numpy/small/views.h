/* Views of NumPy's arrays: of any array by its geometry, and what methods give. */
#ifndef DIFFUSE_VIEWS_H
#define DIFFUSE_VIEWS_H

#include "small.h"

enum { VIEW_RANK = 4 }; /* dimensions of views that are made without NumPy, at most */

/* The view of `of` with this element type and geometry, which lies in its memory, as NumPy makes it. */
PyObject *small_view(PyArrayObject *of, PyArray_Descr *type, int rank, const npy_intp *shape, const npy_intp *strides,
                     char *data);
void small_drop(PyObject *x); /* drop a reference, which may be NULL, and keep a view that dies for the next ones */
int small_native_type(PyArray_Descr *type);

PyObject *small_reversed(PyArrayObject *x); /* with its dimensions in the opposite order */
PyObject *small_component(PyArrayObject *x, int imaginary); /* of a complex array */

/* What a method gives of an array: NULL, without an exception, where NumPy's method has to see to it. */
typedef PyObject *(*Quick)(PyArrayObject *x, PyObject *const *args, Py_ssize_t n);
PyObject *small_ravel(PyArrayObject *x, PyObject *const *args, Py_ssize_t n);
PyObject *small_reshape(PyArrayObject *x, PyObject *const *args, Py_ssize_t n);
PyObject *small_swapaxes(PyArrayObject *x, PyObject *const *args, Py_ssize_t n);
PyObject *small_transpose(PyArrayObject *x, PyObject *const *args, Py_ssize_t n);
PyObject *small_permuted(PyArrayObject *x, PyObject *const *args, Py_ssize_t n); /* the function `transpose` */
PyObject *small_expand_dims(PyArrayObject *x, PyObject *const *args, Py_ssize_t n);
PyObject *small_broadcast_to(PyArrayObject *x, PyObject *const *args, Py_ssize_t n);
PyObject *small_flip(PyArrayObject *x, PyObject *const *args, Py_ssize_t n);
PyObject *small_diagonal(PyArrayObject *x, PyObject *const *args, Py_ssize_t n);
PyObject *small_split(PyArrayObject *x, PyObject *const *args, Py_ssize_t n); /* a list of views */
PyObject *small_array_split(PyArrayObject *x, PyObject *const *args, Py_ssize_t n);
PyObject *small_item(PyArrayObject *x, PyObject *const *args, Py_ssize_t n); /* no view: an element */
PyObject *small_trace(PyArrayObject *x, PyObject *const *args, Py_ssize_t n); /* no view: the sum of a short diagonal */
PyObject *small_shape(PyArrayObject *x, PyObject *const *args, Py_ssize_t n); /* no view: what these functions tell */
PyObject *small_ndim(PyArrayObject *x, PyObject *const *args, Py_ssize_t n);
PyObject *small_size(PyArrayObject *x, PyObject *const *args, Py_ssize_t n);
PyObject *small_retyped(PyArrayObject *x, PyObject *const *args, Py_ssize_t n);

#endif

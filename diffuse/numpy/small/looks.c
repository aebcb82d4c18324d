/* Functions that give views: NumPy's, which are written in Python, in C, for their most frequent arguments. */
#include "views.h"

static PyObject *like(PyArrayObject *x, int rank, const npy_intp *shape, const npy_intp *strides, char *data)
{
    return small_view(x, PyArray_DESCR(x), rank, shape, strides, data);
}

/* The same, read only. */
static PyObject *locked(PyArrayObject *x, int rank, const npy_intp *shape, const npy_intp *strides, char *data)
{
    PyObject *view = like(x, rank, shape, strides, data);
    if (view != NULL)
        PyArray_CLEARFLAGS((PyArrayObject *)view, NPY_ARRAY_WRITEABLE);
    return view;
}

/* A number of Python's between two others, the second one excluded; the second one for all else. */
static npy_intp between(PyObject *x, npy_intp low, npy_intp high)
{
    int over = 0;
    npy_intp found = PyLong_CheckExact(x) ? PyLong_AsLongAndOverflow(x, &over) : high;
    return over || found < low || found > high ? high : found;
}

PyObject *small_expand_dims(PyArrayObject *x, PyObject *const *args, Py_ssize_t n)
{
    int rank = PyArray_NDIM(x);
    npy_intp shape[VIEW_RANK], strides[VIEW_RANK], axis = n == 1 ? between(args[0], -rank - 1, rank + 1) : rank + 1;
    if (axis > rank || rank >= VIEW_RANK || !PyArray_IS_C_CONTIGUOUS(x) || PyArray_SIZE(x) == 0)
        return NULL;
    axis += axis < 0 ? rank + 1 : 0;
    npy_intp width = PyArray_ITEMSIZE(x);
    for (int d = rank; d >= 0; d--) { /* as `reshape` lays it out */
        shape[d] = d == axis ? 1 : PyArray_DIM(x, d - (d > axis));
        strides[d] = width;
        width *= shape[d];
    }
    return like(x, rank + 1, shape, strides, PyArray_BYTES(x));
}

PyObject *small_broadcast_to(PyArrayObject *x, PyObject *const *args, Py_ssize_t n)
{
    npy_intp shape[VIEW_RANK], strides[VIEW_RANK];
    int own = PyArray_NDIM(x), rank = n == 1 && PyTuple_CheckExact(args[0]) ? (int)PyTuple_GET_SIZE(args[0]) : 0;
    if (rank < Py_MAX(own, 1) || rank > VIEW_RANK)
        return NULL;
    for (int d = 0; d < rank; d++) {
        npy_intp extent = d < rank - own ? 1 : PyArray_DIM(x, d - rank + own);
        shape[d] = between(PyTuple_GET_ITEM(args[0], d), 1, INT32_MAX);
        if (shape[d] == INT32_MAX || extent == 0 || (extent != 1 && extent != shape[d]))
            return NULL;
        strides[d] = extent == 1 ? 0 : PyArray_STRIDE(x, d - rank + own);
    }
    if (PyArray_OverflowMultiplyList(shape, rank) < 0)
        return NULL;
    return locked(x, rank, shape, strides, PyArray_BYTES(x));
}

PyObject *small_flip(PyArrayObject *x, PyObject *const *args, Py_ssize_t n)
{
    int rank = PyArray_NDIM(x);
    npy_intp strides[VIEW_RANK], axis = n == 1 && args[0] != Py_None ? between(args[0], -rank, rank) : -rank - 1;
    char *data = PyArray_BYTES(x);
    if (n > 1 || axis == rank || rank == 0 || rank > VIEW_RANK || PyArray_SIZE(x) == 0)
        return NULL;
    axis += axis < -rank ? 0 : axis < 0 ? rank : 0;
    for (int d = 0; d < rank; d++) {
        int turns = axis < 0 || d == axis;
        strides[d] = turns ? -PyArray_STRIDE(x, d) : PyArray_STRIDE(x, d);
        data += turns ? (PyArray_DIM(x, d) - 1) * PyArray_STRIDE(x, d) : 0;
    }
    return like(x, rank, PyArray_DIMS(x), strides, data);
}

PyObject *small_diagonal(PyArrayObject *x, PyObject *const *args, Py_ssize_t n)
{
    if (n != 0 || PyArray_NDIM(x) != 2 || PyArray_SIZE(x) == 0)
        return NULL;
    npy_intp extent = Py_MIN(PyArray_DIM(x, 0), PyArray_DIM(x, 1)), stride = PyArray_STRIDE(x, 0) + PyArray_STRIDE(x, 1);
    return locked(x, 1, &extent, &stride, PyArray_BYTES(x));
}

/* With the dimensions in the order that these numbers say. */
static PyObject *permuted(PyArrayObject *x, PyObject *const *order, Py_ssize_t n)
{
    int rank = PyArray_NDIM(x), seen = 0;
    npy_intp shape[VIEW_RANK], strides[VIEW_RANK];
    if (n != rank || rank == 0 || rank > VIEW_RANK)
        return NULL;
    for (int d = 0; d < rank; d++) {
        npy_intp axis = between(order[d], -rank, rank);
        axis += axis < 0 ? rank : 0;
        if (axis == rank || seen >> axis & 1)
            return NULL;
        seen |= 1 << axis;
        shape[d] = PyArray_DIM(x, axis);
        strides[d] = PyArray_STRIDE(x, axis);
    }
    return like(x, rank, shape, strides, PyArray_BYTES(x));
}

PyObject *small_permuted(PyArrayObject *x, PyObject *const *args, Py_ssize_t n)
{
    if (n == 0 || (n == 1 && args[0] == Py_None))
        return small_reversed(x);
    if (n != 1 || !PyTuple_CheckExact(args[0]))
        return NULL;
    return permuted(x, &PyTuple_GET_ITEM(args[0], 0), PyTuple_GET_SIZE(args[0]));
}

PyObject *small_transpose(PyArrayObject *x, PyObject *const *args, Py_ssize_t n)
{
    return n > 1 ? permuted(x, args, n) : small_permuted(x, args, n);
}

/* Along the first dimension, in so many parts, the first of which may be longer by one. */
static PyObject *parts(PyArrayObject *x, npy_intp count, int equal)
{
    npy_intp shape[VIEW_RANK], extent = PyArray_NDIM(x) ? PyArray_DIM(x, 0) : 0;
    char *data = PyArray_BYTES(x);
    if (PyArray_NDIM(x) > VIEW_RANK || PyArray_SIZE(x) == 0 || count < 1 || count > extent || (equal && extent % count))
        return NULL;
    memcpy(shape, PyArray_DIMS(x), PyArray_NDIM(x) * sizeof *shape);
    PyObject *found = PyList_New(count);
    for (npy_intp k = 0; found != NULL && k < count; k++) {
        shape[0] = extent / count + (k < extent % count);
        PyObject *part = like(x, PyArray_NDIM(x), shape, PyArray_STRIDES(x), data);
        if (part == NULL)
            Py_CLEAR(found);
        else
            PyList_SET_ITEM(found, k, part);
        data += shape[0] * PyArray_STRIDE(x, 0);
    }
    return found;
}

PyObject *small_split(PyArrayObject *x, PyObject *const *args, Py_ssize_t n)
{
    return n == 1 ? parts(x, between(args[0], 1, INT32_MAX), 1) : NULL;
}

PyObject *small_array_split(PyArrayObject *x, PyObject *const *args, Py_ssize_t n)
{
    return n == 1 ? parts(x, between(args[0], 1, INT32_MAX), 0) : NULL;
}

/* Views of NumPy's arrays by whole numbers and slices, which is what most indices are. */
#include "small.h"

enum { RANK = 8 };

/* The first element and the number of elements that a slice selects of `n`, and its step; 0 if NumPy has to look. */
static int sliced(PyObject *index, npy_intp n, npy_intp *start, npy_intp *count, npy_intp *step)
{
    PySliceObject *slice = (PySliceObject *)index;
    PyObject *bounds[] = {slice->start, slice->stop, slice->step};
    for (int k = 0; k < 3; k++)
        if (bounds[k] != Py_None && !PyLong_CheckExact(bounds[k]))
            return 0;
    Py_ssize_t stop;
    if (PySlice_Unpack(index, start, &stop, step) < 0) {
        PyErr_Clear(); /* a step of zero: NumPy says so */
        return 0;
    }
    *count = PySlice_AdjustIndices(n, start, &stop, *step);
    return 1;
}

PyObject *small_part(PyObject *array, PyObject *index)
{
    PyArrayObject *x = (PyArrayObject *)array;
    int tuple = PyTuple_CheckExact(index), dims = 0, rank = PyArray_NDIM(x);
    PyObject *const *parts = tuple ? &PyTuple_GET_ITEM(index, 0) : &index;
    Py_ssize_t n = tuple ? PyTuple_GET_SIZE(index) : 1;
    npy_intp shape[RANK], strides[RANK], start, step;
    char *data = PyArray_BYTES(x);
    if (n == 0 || n > rank || rank > RANK)
        return NULL;
    for (int d = 0; d < rank; d++) {
        npy_intp extent = PyArray_DIM(x, d), stride = PyArray_STRIDE(x, d);
        if (d >= n) {
            shape[dims] = extent;
            strides[dims++] = stride;
        } else if (PyLong_CheckExact(parts[d])) {
            int over;
            long at = PyLong_AsLongAndOverflow(parts[d], &over);
            at += at < 0 ? extent : 0;
            if (over || at < 0 || at >= extent)
                return NULL;
            data += at * stride;
        } else if (PySlice_Check(parts[d]) && sliced(parts[d], extent, &start, &shape[dims], &step)) {
            data += shape[dims] ? start * stride : 0;
            strides[dims++] = stride * step;
        } else
            return NULL;
    }
    if (dims == 0) /* an element */
        return NULL;
    PyArray_Descr *type = PyArray_DESCR(x);
    Py_INCREF(type);
    PyObject *view = PyArray_NewFromDescr(&PyArray_Type, type, dims, shape, strides, data, PyArray_FLAGS(x), NULL);
    if (view != NULL && PyArray_SetBaseObject((PyArrayObject *)view, Py_NewRef(array)) < 0)
        Py_CLEAR(view);
    return view;
}

/* Elements and views of NumPy's arrays by whole numbers, slices, None and ..., which is what most indices are. */
#include "views.h"
#include <numpy/arrayscalars.h>

enum { RANK = 8 };

static int is_whole(PyObject *x) { return PyLong_CheckExact(x) || Py_TYPE(x) == &PyLongArrType_Type; }

/* The value of a whole number, Python's or NumPy's int64; 0 if it is too large. */
static int whole(PyObject *x, npy_intp *found)
{
    int over = 0;
    *found = PyLong_CheckExact(x) ? PyLong_AsLongAndOverflow(x, &over) : PyArrayScalar_VAL(x, Long);
    return !over;
}

/* One bound of a slice, `missing` for None; 0 if NumPy has to look. */
static int bound(PyObject *x, npy_intp missing, npy_intp *found)
{
    *found = missing;
    return x == Py_None || (is_whole(x) && whole(x, found));
}

/* The first element and the number of elements that a slice selects of `n`, and its step; 0 if NumPy has to look. */
static int sliced(PyObject *index, npy_intp n, npy_intp *start, npy_intp *count, npy_intp *step)
{
    PySliceObject *slice = (PySliceObject *)index;
    npy_intp stop;
    if (slice->start == Py_None && slice->stop == Py_None && slice->step == Py_None) { /* the most frequent one */
        *start = 0, *count = n, *step = 1;
        return 1;
    }
    if (!bound(slice->step, 1, step) || *step == 0 || *step < -NPY_MAX_INTP) /* NumPy says that it must not be zero */
        return 0;
    if (!bound(slice->start, *step < 0 ? NPY_MAX_INTP : 0, start)
            || !bound(slice->stop, *step < 0 ? NPY_MIN_INTP : NPY_MAX_INTP, &stop))
        return 0;
    *count = PySlice_AdjustIndices(n, start, &stop, *step);
    if (*count == 0)
        *start = 0, *step = 1; /* as NumPy has it */
    return 1;
}

/* Which of `n` indices a whole number means; -1 if NumPy has to look. */
static npy_intp position(PyObject *index, npy_intp n)
{
    npy_intp at;
    if (!whole(index, &at))
        return -1;
    at += at < 0 ? n : 0;
    return at < 0 || at >= n ? -1 : at;
}

/* The number of dimensions that ... stands for among `n` indices; -1 where there are too many, or it comes twice. */
static int implied(PyObject *const *parts, Py_ssize_t n, int rank)
{
    int taken = 0, seen = 0;
    for (Py_ssize_t k = 0; k < n; k++) {
        taken += parts[k] != Py_None && parts[k] != Py_Ellipsis;
        seen += parts[k] == Py_Ellipsis;
    }
    return taken > rank || seen > 1 ? -1 : rank - taken;
}

HOT PyObject *small_part(PyObject *array, PyObject *index)
{
    PyArrayObject *x = (PyArrayObject *)array;
    int tuple = PyTuple_CheckExact(index), dims = 0, d = 0;
    PyObject *const *parts = tuple ? &PyTuple_GET_ITEM(index, 0) : &index;
    Py_ssize_t n = tuple ? PyTuple_GET_SIZE(index) : 1;
    npy_intp shape[RANK], strides[RANK], start, step;
    char *data = PyArray_BYTES(x);
    if (n == 0 || n + PyArray_NDIM(x) > RANK)
        return NULL;
    int rest = implied(parts, n, PyArray_NDIM(x));
    if (rest < 0)
        return NULL;
    for (Py_ssize_t k = 0; k <= n; k++) {
        if (k == n || parts[k] == Py_Ellipsis)
            for (; rest > 0; rest--, d++) {
                shape[dims] = PyArray_DIM(x, d);
                strides[dims++] = PyArray_STRIDE(x, d);
            }
        else if (parts[k] == Py_None) {
            shape[dims] = 1;
            strides[dims++] = 0;
        } else if (is_whole(parts[k])) {
            npy_intp at = position(parts[k], PyArray_DIM(x, d));
            if (at < 0)
                return NULL;
            data += at * PyArray_STRIDE(x, d++);
        } else if (PySlice_Check(parts[k]) && sliced(parts[k], PyArray_DIM(x, d), &start, &shape[dims], &step)) {
            data += start * PyArray_STRIDE(x, d);
            strides[dims++] = PyArray_STRIDE(x, d++) * step;
        } else
            return NULL;
    }
    return dims == 0 ? NULL : small_view(x, PyArray_DESCR(x), dims, shape, strides, data);
}

int small_same(PyArrayObject *one, PyArrayObject *other)
{
    size_t bytes = PyArray_NDIM(one) * sizeof(npy_intp);
    return PyArray_NDIM(one) == PyArray_NDIM(other) && PyArray_BYTES(one) == PyArray_BYTES(other)
           && PyArray_DESCR(one) == PyArray_DESCR(other) && !memcmp(PyArray_DIMS(one), PyArray_DIMS(other), bytes)
           && !memcmp(PyArray_STRIDES(one), PyArray_STRIDES(other), bytes);
}

char *small_spot(PyObject *array, PyObject *index)
{
    PyArrayObject *x = (PyArrayObject *)array;
    int rank = PyArray_NDIM(x), tuple = PyTuple_CheckExact(index);
    PyObject *const *parts = tuple ? &PyTuple_GET_ITEM(index, 0) : &index;
    char *data = PyArray_BYTES(x);
    if (rank == 0 || rank != (tuple ? PyTuple_GET_SIZE(index) : 1))
        return NULL;
    for (int d = 0; d < rank; d++) {
        npy_intp at = is_whole(parts[d]) ? position(parts[d], PyArray_DIM(x, d)) : -1;
        if (at < 0)
            return NULL;
        data += at * PyArray_STRIDE(x, d);
    }
    return data;
}

PyObject *small_element(PyObject *array, PyObject *index)
{
    PyArrayObject *x = (PyArrayObject *)array;
    char *data = small_spot(array, index);
    if (data == NULL)
        return NULL;
    if (PyArray_TYPE(x) != NPY_DOUBLE || !PyArray_ISALIGNED(x))
        return PyArray_ToScalar(data, x);
    PyObject *found = PyDoubleArrType_Type.tp_alloc(&PyDoubleArrType_Type, 0);
    if (found != NULL)
        PyArrayScalar_ASSIGN(found, Double, *(double *)data);
    return found;
}

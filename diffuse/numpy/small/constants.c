/* What tasks read for small NumPy arrays beside large ones: the look-up of diffuse/numpy/arrays/access.py, snapshot,
 * in C.  The program may change its arrays before the tasks run, so an array is known by its elements. */
#include "record.h"

static PyObject *constants; /* access.constants */
static npy_intp little;     /* access.LITTLE: the most bytes of an array that is known by its elements */

/* May a NumPy array be among the constants: are its elements few, and of a type that kernels have? */
static int few(PyArrayObject *x)
{
    return constants != NULL && PyArray_NBYTES(x) <= little && PyArray_SIZE(x) < state.small
           && (PyArray_ISNUMBER(x) || PyArray_ISBOOL(x)) && PyArray_ISNOTSWAPPED(x);
}

/* The key of an array among the constants; NULL with an exception. */
static PyObject *key_of(PyArrayObject *x)
{
    PyObject *elements = PyArray_ToString(x, NPY_CORDER);
    PyObject *shape = PyArray_IntTupleFromIntp(PyArray_NDIM(x), PyArray_DIMS(x));
    PyObject *strides = PyArray_IntTupleFromIntp(PyArray_NDIM(x), PyArray_STRIDES(x));
    PyObject *type = PyUnicode_FromOrdinal((unsigned char)PyArray_DESCR(x)->type), *key = NULL;
    if (elements != NULL && shape != NULL && strides != NULL && type != NULL)
        key = PyTuple_Pack(4, elements, shape, strides, type);
    Py_XDECREF(elements);
    Py_XDECREF(shape);
    Py_XDECREF(strides);
    Py_XDECREF(type);
    return key;
}

int small_read(PyObject *const *operands, Py_ssize_t n, PyObject **read)
{
    for (Py_ssize_t k = 0; k < n; k++) {
        PyObject *x = operands[k], *found = NULL;
        if (PyArray_CheckExact(x) && few((PyArrayObject *)x)) {
            PyObject *key = key_of((PyArrayObject *)x);
            found = key == NULL ? NULL : PyDict_GetItemWithError(constants, key);
            Py_XDECREF(key);
            if (found == NULL && PyErr_Occurred()) {
                small_let_go(read, k);
                return -1;
            }
        }
        read[k] = Py_NewRef(found == NULL ? x : found);
    }
    return 0;
}

void small_let_go(PyObject **read, Py_ssize_t n)
{
    while (n--)
        Py_DECREF(read[n]);
}

int small_connect_constants(PyObject *parts)
{
    PyObject *size = PyDict_GetItemString(parts, "LITTLE"), *table = PyDict_GetItemString(parts, "constants");
    if (size == NULL || table == NULL) {
        PyErr_SetString(PyExc_KeyError, "the constants of the module `access` are not given");
        return -1;
    }
    Py_XSETREF(constants, Py_NewRef(table));
    little = PyLong_AsLong(size);
    return PyErr_Occurred() ? -1 : 0;
}

/* The protocol by which NumPy's arrays and scalars call ufuncs on ours: `__array_ufunc__`. */
#include "operators.h"
#define PY_UFUNC_UNIQUE_SYMBOL diffuse_small_ufuncs
#define NO_IMPORT_UFUNC
#include <numpy/ufuncobject.h>

/* The only output array, if that is the only option and NumPy's; NULL else. */
static PyObject *only_output(PyObject *const *options, PyObject *names)
{
    if (PyTuple_GET_SIZE(names) != 1 || PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), "out") != 0)
        return NULL;
    PyObject *out = options[0];
    if (!PyTuple_CheckExact(out) || PyTuple_GET_SIZE(out) != 1)
        return NULL;
    out = PyTuple_GET_ITEM(out, 0);
    return PyArray_CheckExact(out) && size_of(out) < state.small ? out : NULL;
}

/* arithmetic.called: NumPy's ufunc if all operands are small and at hand.  NULL as `small_near` has it. */
static PyObject *called(PyObject *ufunc, PyObject *const *inputs, Py_ssize_t n, PyObject *out)
{
    PyObject *values[3] = {NULL, NULL, NULL}, *found = NULL;
    values[0] = small_number_or_near(inputs[0]);
    if (values[0] != NULL && n == 2)
        values[1] = small_number_or_near(inputs[1]);
    if (values[n - 1] != NULL && (n == 1 || !small_spreads(values[0], values[1]))) {
        values[n] = out;
        found = out != NULL ? small_into(ufunc, values, n) : PyObject_Vectorcall(ufunc, values, n, NULL);
        found = out != NULL ? found : small_shown(found);
    }
    Py_XDECREF(values[0]);
    if (n == 2)
        Py_XDECREF(values[1]);
    return found;
}

static int is_call(PyObject *method) { return PyUnicode_CompareWithASCIIString(method, "__call__") == 0; }

/* Is it a call of a ufunc with this many operands, and not of one of its methods? */
static int plain_call(PyObject *ufunc, PyObject *method, Py_ssize_t n)
{
    return n >= 1 && n <= 2 && is_call(method)
           && PySet_Contains(state.ufuncs, ufunc) > 0 && ((PyUFuncObject *)ufunc)->nin == n;
}

/* Is it an array or a number of NumPy's, whose operator with an array of ours on the right is a call of a ufunc? */
static int numpys_own(PyObject *x)
{
    return PyArray_CheckExact(x) || small_is_among(Py_TYPE(x), state.numbers);
}

static PyObject *array_ufunc(PyObject *x, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    if (names == NULL && n == 4 && args[0] == small_ufuncs[MATMUL] && is_call(args[1])) {
        PyObject *found = small_product(args[2], args[3]);
        if (found != NULL || PyErr_Occurred())
            return found;
    }
    if (n >= 3 && plain_call(args[0], args[1], n - 2)) {
        PyObject *out = names == NULL ? NULL : only_output(args + n, names);
        PyObject *found = names == NULL || out != NULL ? called(args[0], args + 2, n - 2, out) : NULL;
        if (found != NULL || PyErr_Occurred())
            return found;
        for (int name = ADD; names == NULL && n == 4 && name <= DIVIDE; name++)
            if (small_ufuncs[name] == args[0] && numpys_own(args[2]))
                return small_reflected(args[2], args[3], name);
    }
    PyObject *function = PyObject_GetAttrString(state.slow, "array_ufunc"), *found = NULL;
    Py_ssize_t given = n + (names ? PyTuple_GET_SIZE(names) : 0);
    PyObject **all = function == NULL ? NULL : PyMem_New(PyObject *, given + 1);
    if (all != NULL) {
        all[0] = x;
        memcpy(all + 1, args, given * sizeof *all);
        found = PyObject_Vectorcall(function, all, n + 1, names);
        PyMem_Free(all);
    } else if (function != NULL)
        PyErr_NoMemory();
    Py_XDECREF(function);
    return found;
}

PyMethodDef small_methods[] = {
    {"__array_ufunc__", (PyCFunction)(void (*)(void))array_ufunc, METH_FASTCALL | METH_KEYWORDS,
     "__array_ufunc__($self, ufunc, method, /, *inputs, **kwargs)\n--\n\n"
     "Compute one of NumPy's ufuncs that NumPy's arrays or scalars, or a library, called."},
    {NULL}};

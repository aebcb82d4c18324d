/* Floating-point errors of an operation whose operands are gone, so that NumPy cannot compute it again: NumPy's ufunc
 * computes numbers that raise the same ones, and warns, raises or calls as the program has chosen. */
#include "operators.h"
#include "flags.h"
#include <float.h>
#include <math.h>

#if defined(__x86_64__)
enum { INVALID = 1, DIVISION = 4, OVERFLOW = 8, UNDERFLOW = 16 };
#else
enum { INVALID = FE_INVALID, DIVISION = FE_DIVBYZERO, OVERFLOW = FE_OVERFLOW, UNDERFLOW = FE_UNDERFLOW };
#endif

static const struct { int name; unsigned raised; double left, right; } PAIRS[] = {
    {ADD, OVERFLOW, DBL_MAX, DBL_MAX}, {ADD, INVALID, INFINITY, -INFINITY},
    {SUBTRACT, OVERFLOW, DBL_MAX, -DBL_MAX}, {SUBTRACT, INVALID, INFINITY, INFINITY},
    {MULTIPLY, OVERFLOW, DBL_MAX, DBL_MAX}, {MULTIPLY, INVALID, INFINITY, 0.0}, {MULTIPLY, UNDERFLOW, DBL_MIN, DBL_MIN},
    {DIVIDE, OVERFLOW, DBL_MAX, DBL_MIN}, {DIVIDE, INVALID, 0.0, 0.0}, {DIVIDE, UNDERFLOW, DBL_MIN, DBL_MAX},
    {DIVIDE, DIVISION, 1.0, 0.0}};

int small_report(int name, unsigned raised)
{
    npy_intp most = sizeof PAIRS / sizeof *PAIRS;
    PyObject *left = PyArray_SimpleNew(1, &most, NPY_DOUBLE), *right = PyArray_SimpleNew(1, &most, NPY_DOUBLE);
    PyObject *found = NULL;
    for (npy_intp k = 0; left != NULL && right != NULL && k < most; k++) {
        int counts = PAIRS[k].name == name && PAIRS[k].raised & raised;
        ((double *)PyArray_DATA((PyArrayObject *)left))[k] = counts ? PAIRS[k].left : 1.0;
        ((double *)PyArray_DATA((PyArrayObject *)right))[k] = counts ? PAIRS[k].right : 1.0;
    }
    if (left != NULL && right != NULL)
        found = PyObject_CallFunctionObjArgs(small_ufuncs[name], left, right, NULL);
    Py_XDECREF(left);
    Py_XDECREF(right);
    Py_XDECREF(found);
    return found == NULL ? -1 : 0;
}

/* Products of matrices and vectors that are done at once: diffuse/numpy/ops/products.py in C. */
#include "operators.h"
#include "folds.h"
#include "stacks.h"

/* Elements of a matrix product.  Where shapes do not fit, NumPy says so. */
static npy_intp product_size(PyObject *left, PyObject *right)
{
    if (!PyArray_CheckExact(left) || !PyArray_CheckExact(right) || size_of(left) * size_of(right) < state.small)
        return 0;
    PyArrayObject *a = (PyArrayObject *)left, *b = (PyArrayObject *)right;
    int n = PyArray_NDIM(a), m = PyArray_NDIM(b);
    npy_intp size = (n > 1 ? PyArray_DIM(a, n - 2) : 1) * (m > 1 ? PyArray_DIM(b, m - 1) : 1);
    for (int k = 3; k <= n || k <= m; k++) { /* the stacks of matrices are broadcast */
        npy_intp one = k <= n ? PyArray_DIM(a, n - k) : 1, other = k <= m ? PyArray_DIM(b, m - k) : 1;
        size *= one == 1 ? other : one;
    }
    return size;
}

enum { BRIEF = 3 << 20 }; /* bytes of a product's result, as products.MOST */

/* The memory of an array at hand, or a small array of NumPy's; NULL of others.  A borrowed reference. */
static PyArrayObject *factor(PyObject *x)
{
    if (Py_TYPE(x) == state.array_class)
        return (PyArrayObject *)(small_readable((Array *)x) > 0 ? ((Array *)x)->memory : NULL);
    int few = PyArray_CheckExact(x) && size_of(x) < state.small && small_native((PyArrayObject *)x);
    return few ? (PyArrayObject *)x : NULL;
}

/* products._at_once: the product of a matrix and a matrix or vector that are at hand, whatever their size. */
static PyObject *brief_product(PyObject *a, PyObject *b)
{
    if (!state.small || !state.sees || (Py_TYPE(a) != state.array_class && Py_TYPE(b) != state.array_class))
        return NULL;
    PyArrayObject *one = factor(a), *other = one == NULL ? NULL : factor(b);
    if (other == NULL)
        return NULL;
    int ranks = PyArray_NDIM(one) + PyArray_NDIM(other);
    if (PyArray_NDIM(one) > 2 || PyArray_NDIM(other) > 2 || ranks < 3 || PyArray_NDIM(one) == 0 || PyArray_NDIM(other) == 0)
        return NULL;
    npy_intp rows = PyArray_NDIM(one) == 2 ? PyArray_DIM(one, 0) : 1;
    npy_intp columns = PyArray_NDIM(other) == 2 ? PyArray_DIM(other, 1) : 1;
    npy_intp width = PyArray_ITEMSIZE(one) > PyArray_ITEMSIZE(other) ? PyArray_ITEMSIZE(one) : PyArray_ITEMSIZE(other);
    if (rows * columns * width > BRIEF)
        return NULL;
    small_looked();
    PyObject *found = PyObject_CallFunctionObjArgs(small_ufuncs[MATMUL], one, other, NULL);
    if (found == NULL || !PyArray_CheckExact(found))
        return found;
    PyObject *x = small_hosted(found, Py_None);
    Py_DECREF(found);
    return x;
}

/* arithmetic.product: NULL without an exception unless both operands, and what they make, are small. */
PyObject *small_product(PyObject *a, PyObject *b)
{
    PyObject *left = small_number_or_near(a), *found = NULL;
    PyObject *right = left == NULL ? NULL : small_number_or_near(b);
    if (right != NULL && product_size(left, right) < state.small) {
        found = small_stack_product(left, right);
        if (found == NULL && !PyErr_Occurred())
            found = small_dot_columns(left, right);
        if (found == NULL && !PyErr_Occurred())
            found = PyNumber_MatrixMultiply(left, right);
        found = small_shown(found);
    }
    Py_XDECREF(left);
    Py_XDECREF(right);
    if (found == NULL && !PyErr_Occurred())
        found = small_dot(a, b);
    return found != NULL || PyErr_Occurred() ? found : brief_product(a, b);
}

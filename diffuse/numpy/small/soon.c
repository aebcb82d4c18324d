/* Operations on large arrays at hand that are done at once, while the program reads a value after every few of
 * them: arrays/soon.py in C, with the same names. */
#include "small.h"

/* Is the elements' type one that an operation may be done at once for?  Functions of REAL types have NumPy's bits for
 * these only, whose kernels are NumPy's arithmetic; of DOUBLE ones, for complex128, too; those of SINGLE ones are slow
 * for all but float32. */
static int fits(PyArrayObject *x, int way)
{
    int type = PyArray_TYPE(x);
    if (!small_native(x) || type == NPY_HALF)
        return 0;
    if (way == SMALL_WHOLE)
        return PyTypeNum_ISINTEGER(type) || PyTypeNum_ISBOOL(type);
    if (way == SMALL_SINGLE)
        return type == NPY_FLOAT;
    return way == SMALL_ANY || !PyTypeNum_ISCOMPLEX(type) || (way == SMALL_DOUBLE && type == NPY_CDOUBLE);
}

static int number_fits(PyObject *x, int way)
{
    PyTypeObject *type = Py_TYPE(x);
    if (type == &PyFloat_Type)
        return way != SMALL_WHOLE;
    if (type == &PyLong_Type || type == &PyBool_Type)
        return 1;
    if (type == &PyComplex_Type)
        return way >= SMALL_DOUBLE;
    if (!small_is_among(type, state.numbers))
        return 0;
    return PyArray_IsScalar(x, Integer) || PyArray_IsScalar(x, Bool)
           || (way != SMALL_WHOLE && (PyArray_IsScalar(x, Float) || PyArray_IsScalar(x, Double)));
}

PyObject *small_soon_operand(PyObject *x, int way, npy_intp *bytes)
{
    if (Py_TYPE(x) == state.array_class) {
        PyObject *memory;
        Array *array = (Array *)x;
        if (absent(array->meta) || !fits((PyArrayObject *)array->meta, way))
            return NULL;
        int now = small_readable(array);
        memory = now > 0 ? Py_NewRef(array->memory) : NULL;
        if (now == 0 && absent(array->memory) && (absent(array->storage) || !small_pending(array->storage, 0)))
            memory = small_asked(state.at_hand, array);
        if (memory != NULL)
            *bytes += PyArray_NBYTES((PyArrayObject *)memory);
        return memory;
    }
    if (PyArray_CheckExact(x)) {
        if (PyArray_SIZE((PyArrayObject *)x) >= state.small || !fits((PyArrayObject *)x, way))
            return NULL;
        *bytes += PyArray_NBYTES((PyArrayObject *)x);
        return Py_NewRef(x);
    }
    return number_fits(x, way) ? Py_NewRef(x) : NULL;
}

/* Would Python's complex number and this array make complex64? */
static int makes_single(PyObject *number, PyObject *x)
{
    return PyComplex_CheckExact(number) && PyArray_CheckExact(x)
           && (PyArray_TYPE((PyArrayObject *)x) == NPY_FLOAT || PyArray_TYPE((PyArrayObject *)x) == NPY_CFLOAT);
}

/* Bytes of what broadcasting two operands makes, if the elements are as wide as theirs. */
static npy_intp made(PyObject *left, PyObject *right)
{
    PyArrayObject *sides[2] = {NULL, NULL};
    npy_intp size = 1, width = 1;
    int rank = 0;
    if (PyArray_CheckExact(left))
        sides[0] = (PyArrayObject *)left;
    if (right != NULL && PyArray_CheckExact(right))
        sides[1] = (PyArrayObject *)right;
    for (int k = 0; k < 2; k++)
        if (sides[k] != NULL) {
            rank = PyArray_NDIM(sides[k]) > rank ? PyArray_NDIM(sides[k]) : rank;
            width = PyArray_ITEMSIZE(sides[k]) > width ? PyArray_ITEMSIZE(sides[k]) : width;
        }
    for (int d = 1; d <= rank; d++) {
        npy_intp extent = 1;
        for (int k = 0; k < 2; k++)
            if (sides[k] != NULL && d <= PyArray_NDIM(sides[k])) {
                npy_intp n = PyArray_DIM(sides[k], PyArray_NDIM(sides[k]) - d);
                extent = n == 1 ? extent : n;
            }
        size *= extent;
    }
    return size * width;
}

enum { TRIED = 16 << 20 };  /* bytes above which an operation is recorded, on trial or not */
enum { CACHED = 8 << 20 };  /* bytes from which on NumPy takes more than twice as long for each as for one of few */

int small_spend(npy_intp bytes)
{
    if (state.trial) {
        if (bytes > TRIED)
            return 0;
        bytes += bytes / 1024 * (bytes / 1024) / (CACHED >> 20);
    }
    bytes += SMALL_CALL;
    state.steps = 0;
    if (bytes > state.left) {
        state.left = state.allowance = 0;
        state.trial = 0;
        return 0;
    }
    state.left -= bytes;
    return small_counts(state.single);
}

enum { GRANTED = 8 << 20 }; /* the most bytes that are granted beforehand */

void small_grant(npy_intp bytes)
{
    if (state.allowance == 0)
        state.left = bytes < 0 ? 0 : state.left < GRANTED ? state.left + bytes : state.left;
}

int small_counts(PyObject *name)
{
    PyObject *count = PyDict_GetItemWithError(state.counters, name);
    PyObject *more = PyLong_FromLong(count == NULL ? 1 : PyLong_AsLong(count) + 1);
    int done = more != NULL && PyDict_SetItem(state.counters, name, more) == 0;
    Py_XDECREF(more);
    return done;
}

int small_soon(PyObject *a, PyObject *b, int way, PyObject **left, PyObject **right)
{
    npy_intp bytes = 0;
    *left = *right = NULL;
    if (state.left <= 0 || way == SMALL_NEVER)
        return 0;
    *left = small_soon_operand(a, way, &bytes);
    if (*left != NULL && b != NULL)
        *right = small_soon_operand(b, way, &bytes);
    if (*right != NULL && way == SMALL_DOUBLE && (makes_single(*left, *right) || makes_single(*right, *left)))
        Py_CLEAR(*right);
    if (*left != NULL && (b == NULL || *right != NULL) && small_spend(bytes + made(*left, *right)))
        return 1;
    Py_CLEAR(*left);
    Py_CLEAR(*right);
    return PyErr_Occurred() ? -1 : 0;
}

/* Operations on two arrays that are broadcast along short rows, in fewer loops than NumPy runs.
 *
 * NumPy's inner loops run along the last dimension.  Where that has two or three elements, and what one operand repeats
 * along the dimension before it keeps both from going on evenly, NumPy starts a loop for every row, which takes longer
 * than its elements.  With the last dimension as the outermost one, and in that order, the loops are longer.  Each element
 * is computed by the same function. */
#include "operators.h"

enum { SHORT = 16 };  /* elements of an inner loop below which NumPy takes longer for the loop than for these */
enum { LOOPS = 1000 }; /* and the fewest such loops that are worth a look */
enum { RANK = 8 };

/* Where the elements of an operand lie, along each dimension of the result: 0, or 1 if they do in the order of the
 * dimensions. */
static int laid_along(PyArrayObject *x, int rank, npy_intp *strides)
{
    npy_intp last = 0;
    int missing = rank - PyArray_NDIM(x);
    for (int d = rank - 1; d >= 0; d--) {
        strides[d] = d < missing || PyArray_DIM(x, d - missing) == 1 ? 0 : PyArray_STRIDE(x, d - missing);
        if (strides[d] < 0 || (strides[d] != 0 && strides[d] < last))
            return 0;
        last = strides[d] != 0 ? strides[d] : last;
    }
    return 1;
}

/* The extents of the result; 0 where the operands do not fit together. */
static int extents_of(PyArrayObject *x, PyArrayObject *y, int rank, npy_intp *shape)
{
    for (int d = 1; d <= rank; d++) {
        npy_intp m = d <= PyArray_NDIM(x) ? PyArray_DIM(x, PyArray_NDIM(x) - d) : 1;
        npy_intp n = d <= PyArray_NDIM(y) ? PyArray_DIM(y, PyArray_NDIM(y) - d) : 1;
        if (m != n && m != 1 && n != 1)
            return 0;
        shape[rank - d] = m == 1 ? n : m;
    }
    return 1;
}

/* A view of an array, with the last dimension before the others. */
static PyObject *turned(PyArrayObject *x, int rank, const npy_intp *shape, const npy_intp *strides)
{
    npy_intp dims[RANK], steps[RANK];
    for (int d = 0; d < rank; d++) {
        dims[d] = shape[(d + rank - 1) % rank];
        steps[d] = strides[(d + rank - 1) % rank];
    }
    PyArray_Descr *type = PyArray_DESCR(x);
    Py_INCREF(type);
    return PyArray_NewFromDescr(&PyArray_Type, type, rank, dims, steps, PyArray_DATA(x), NPY_ARRAY_WRITEABLE, NULL);
}

/* The element type of the result; NULL, without an exception, where that is not that of both operands together. */
static PyArray_Descr *type_of(int name, PyArrayObject *x, PyArrayObject *y)
{
    int plain = name == ADD || name == MULTIPLY || (name == SUBTRACT && !PyArray_ISBOOL(x) && !PyArray_ISBOOL(y))
                || (name == DIVIDE && PyArray_ISFLOAT(x) && PyArray_ISFLOAT(y));
    return plain && PyArray_ISNUMBER(x) && PyArray_ISNUMBER(y)
           ? PyArray_PromoteTypes(PyArray_DESCR(x), PyArray_DESCR(y)) : NULL;
}

PyObject *small_turned(int name, PyObject *left, PyObject *right)
{
    static PyObject *order, *by_rows;
    if (!PyArray_CheckExact(left) || right == NULL || !PyArray_CheckExact(right))
        return NULL;
    PyArrayObject *x = (PyArrayObject *)left, *y = (PyArrayObject *)right;
    int rank = PyArray_NDIM(x) > PyArray_NDIM(y) ? PyArray_NDIM(x) : PyArray_NDIM(y);
    npy_intp shape[RANK], one[RANK], other[RANK];
    if (rank < 2 || rank > RANK || !extents_of(x, y, rank, shape) || shape[rank - 1] < 2 || shape[rank - 1] >= SHORT)
        return NULL;
    npy_intp loops = PyArray_MultiplyList(shape, rank - 1), row = shape[rank - 1], before = shape[rank - 2];
    if (loops < LOOPS || before < 2 * row || !laid_along(x, rank, one) || !laid_along(y, rank, other)
            || (one[rank - 2] == one[rank - 1] * row && other[rank - 2] == other[rank - 1] * row))
        return NULL;
    if (order == NULL && ((order = Py_BuildValue("(s)", "order")) == NULL
                          || (by_rows = PyUnicode_InternFromString("C")) == NULL))
        return NULL;
    PyArray_Descr *type = type_of(name, x, y);
    PyObject *found = type == NULL ? NULL : PyArray_Empty(rank, shape, type, 0);
    if (found == NULL)
        return NULL;
    PyObject *given[4] = {turned(x, rank, shape, one), turned(y, rank, shape, other),
                          turned((PyArrayObject *)found, rank, shape, PyArray_STRIDES((PyArrayObject *)found)), by_rows};
    PyObject *done = given[0] != NULL && given[1] != NULL && given[2] != NULL
                     ? PyObject_Vectorcall(small_ufuncs[name], given, 3, order) : NULL;
    if (done == NULL)
        Py_CLEAR(found);
    Py_XDECREF(done);
    for (int k = 0; k < 3; k++)
        Py_XDECREF(given[k]);
    return found;
}

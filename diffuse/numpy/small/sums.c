/* Sums of small arrays along some of their dimensions, in the order in which NumPy adds.
 *
 * NumPy takes some 10 ns for each row that it adds, whatever its length, and 2 to 4 us to find out what a call has to
 * do.  Arrays in C's order need none of that.  NumPy adds their rows one after another, or the elements of a row of
 * less than eight; all else, and sums that raise floating-point errors, are left to it. */
#include "gate.h"
#include "flags.h"
#include <math.h>

enum { RANK = 8 };    /* the most dimensions */
enum { PAIRS = 8 };   /* the elements of a row from which on NumPy adds them in pairs */
enum { WIDE = 32 };   /* the elements of a row for which the calls of NumPy's loop do not count */

/* An array as runs of neighbouring dimensions that are summed, and of those that are kept. */
typedef struct {
    int runs, summed[RANK];
    npy_intp extents[RANK];
    int kept; /* the dimensions of the result, and their extents */
    npy_intp shape[RANK];
} Runs;

/* Note which dimensions `axis` names, a number or a tuple of them: 0 if NumPy has to look. */
static int named(PyObject *axis, int dims, int *summed)
{
    int tuple = PyTuple_CheckExact(axis);
    Py_ssize_t n = tuple ? PyTuple_GET_SIZE(axis) : 1;
    for (Py_ssize_t k = 0; k < n; k++) {
        PyObject *one = tuple ? PyTuple_GET_ITEM(axis, k) : axis;
        int over = 0;
        long at = PyLong_CheckExact(one) ? PyLong_AsLongAndOverflow(one, &over) : dims;
        at += at < 0 ? dims : 0;
        if (over || at < 0 || at >= dims || summed[at])
            return 0;
        summed[at] = 1;
    }
    return 1;
}

static int found_runs(PyArrayObject *x, PyObject *axis, Runs *found)
{
    int dims = PyArray_NDIM(x), summed[RANK] = {0};
    if (dims > RANK || !named(axis, dims, summed))
        return 0;
    found->runs = found->kept = 0;
    for (int d = 0; d < dims; d++) {
        npy_intp n = PyArray_DIM(x, d);
        int last = found->runs - 1;
        if (!summed[d])
            found->shape[found->kept++] = n;
        if (n == 1)
            continue;
        if (last >= 0 && found->summed[last] == summed[d])
            found->extents[last] *= n;
        else {
            found->summed[found->runs] = summed[d];
            found->extents[found->runs++] = n;
        }
    }
    return 1;
}

/* Add `rows` rows of `width` elements to the sums. */
#define ADD_NARROW(type, width)                                                                                \
    case width: {                                                                                              \
        type sum[width];                                                                                       \
        for (int k = 0; k < width; k++)                                                                        \
            sum[k] = to[k];                                                                                    \
        for (npy_intp row = 0; row < rows; row++, from += width)                                               \
            for (int k = 0; k < width; k++)                                                                    \
                sum[k] += from[k];                                                                             \
        for (int k = 0; k < width; k++)                                                                        \
            to[k] = sum[k];                                                                                    \
        break;                                                                                                 \
    }

#define ADDING(type, name)                                                                                     \
    static void name##_rows(npy_intp rows, npy_intp width, const type *from, type *to)                         \
    {                                                                                                          \
        switch (width) {                                                                                       \
            ADD_NARROW(type, 2)                                                                                \
            ADD_NARROW(type, 3)                                                                                \
            ADD_NARROW(type, 4)                                                                                \
            ADD_NARROW(type, 5)                                                                                \
            ADD_NARROW(type, 6)                                                                                \
            ADD_NARROW(type, 7)                                                                                \
            ADD_NARROW(type, 8)                                                                                \
        default:                                                                                               \
            for (npy_intp row = 0; row < rows; row++, from += width)                                           \
                for (npy_intp k = 0; k < width; k++)                                                           \
                    to[k] += from[k];                                                                          \
        }                                                                                                      \
    }                                                                                                          \
    /* The sums of the elements of each row. */                                                                \
    static void name##_along(npy_intp rows, npy_intp width, const type *from, type *to, type nothing)          \
    {                                                                                                          \
        for (npy_intp row = 0; row < rows; row++, from += width) {                                             \
            type sum = nothing;                                                                                \
            for (npy_intp k = 0; k < width; k++)                                                               \
                sum += from[k];                                                                                \
            to[row] = sum;                                                                                     \
        }                                                                                                      \
    }                                                                                                          \
    /* Go through the runs from number `run` on; returns the memory behind them. */                            \
    static const type *name##_runs(const Runs *runs, int run, const type *from, type *to)                      \
    {                                                                                                          \
        npy_intp n = runs->extents[run], size = 1;                                                             \
        if (run == runs->runs - 2 && !runs->summed[run + 1]) {                                                 \
            name##_rows(n, runs->extents[run + 1], from, to);                                                  \
            return from + n * runs->extents[run + 1];                                                          \
        }                                                                                                      \
        for (int k = run + 1; k < runs->runs; k++)                                                             \
            size *= runs->summed[k] ? 1 : runs->extents[k];                                                    \
        for (npy_intp k = 0; k < n; k++, to += runs->summed[run] ? 0 : size)                                   \
            from = name##_runs(runs, run + 1, from, to);                                                       \
        return from;                                                                                           \
    }                                                                                                          \
    static void name##_sum(const Runs *runs, const type *from, type *to, npy_intp size, type nothing)          \
    {                                                                                                          \
        if (runs->summed[runs->runs - 1]) {                                                                    \
            name##_along(runs->extents[0], runs->extents[1], from, to, nothing);                               \
            return;                                                                                            \
        }                                                                                                      \
        for (npy_intp k = 0; k < size; k++)                                                                    \
            to[k] = nothing;                                                                                   \
        name##_runs(runs, 0, from, to);                                                                        \
    }

ADDING(double, doubles)
ADDING(float, floats)
ADDING(npy_ulong, wholes)

/* What NumPy begins a sum with, 0 or -0, which is seen where all elements are -0; NaN with an exception. */
static double beginning(void)
{
    static double known = NAN;
    npy_intp shape[] = {2, 2};
    if (isnan(known)) {
        PyObject *zeros = PyArray_SimpleNew(2, shape, NPY_DOUBLE), *sums = NULL;
        for (int k = 0; zeros != NULL && k < 4; k++)
            ((double *)PyArray_DATA((PyArrayObject *)zeros))[k] = -0.0;
        if (zeros != NULL)
            sums = PyArray_Sum((PyArrayObject *)zeros, 0, NPY_DOUBLE, NULL);
        if (sums != NULL && PyArray_CheckExact(sums))
            known = *(double *)PyArray_DATA((PyArrayObject *)sums);
        Py_XDECREF(zeros);
        Py_XDECREF(sums);
    }
    return known;
}

PyObject *small_sum(PyObject *given, PyObject *axis)
{
    PyArrayObject *x = (PyArrayObject *)given;
    Runs runs;
    if (!PyArray_CheckExact(given) || !PyArray_ISCARRAY_RO(x) || PyArray_SIZE(x) == 0 || !found_runs(x, axis, &runs))
        return NULL;
    int last = runs.runs - 1, type = PyArray_TYPE(x);
    if (last < 1 || (runs.summed[last] ? last > 1 || runs.extents[last] >= PAIRS : runs.extents[last] > WIDE)
            || (type != NPY_DOUBLE && type != NPY_FLOAT && type != NPY_LONG))
        return NULL;
    double nothing = beginning();
    PyArrayObject *found = isnan(nothing) ? NULL : (PyArrayObject *)PyArray_SimpleNew(runs.kept, runs.shape, type);
    if (found == NULL)
        return NULL;
    npy_intp size = PyArray_SIZE(found);
    small_clear();
    if (type == NPY_DOUBLE)
        doubles_sum(&runs, PyArray_DATA(x), PyArray_DATA(found), size, nothing);
    else if (type == NPY_FLOAT)
        floats_sum(&runs, PyArray_DATA(x), PyArray_DATA(found), size, (float)nothing);
    else
        wholes_sum(&runs, PyArray_DATA(x), PyArray_DATA(found), size, 0);
    if (small_raised())
        Py_CLEAR(found);
    return (PyObject *)found;
}

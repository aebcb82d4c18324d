/* Sums and dot products of vectors at hand, and sums along an axis, by the machine code that small_folds.py lays out: its
 * `fold` in C. */
#include "folds.h"
#include "team.h"
#include <numpy/arrayscalars.h>
#include <math.h>

enum { KEPT = 128, WORDS = 32, RANK = 4 };
enum { SUM, DOT, SQUARES, ALONG };
static const char *const names[] = {"sum", "dot", "squares", "sum"};

/* The calls that were laid out, by their kind, axis and extents. */
static struct Call {
    int fold, type, axis, rank;
    npy_intp shape[RANK];
    Point run;
    Finish finish;
    npy_intp leaf;
    int64_t alone;
    Py_ssize_t words, places[2], target;
    int64_t block[WORDS];
    PyObject *code; /* as long as which the machine code stays */
} calls[KEPT];

static PyObject *lay_out; /* small_folds.laid_out */
static PyObject *name_at_once, *name_shared, *name_floats;

/* Fill in a call from what Python's code says of it: 1, or 0 if there is no machine code, or an exception. */
static int laid_out(struct Call *call, PyArrayObject *one, PyArrayObject *other)
{
    Py_ssize_t address, finish, leaf;
    Py_buffer block;
    PyObject *code, *said = lay_out == NULL ? NULL
                            : PyObject_CallFunction(lay_out, call->fold == DOT ? "siOO" : "siO", names[call->fold],
                                                    call->axis, one, other);
    if (said == NULL || said == Py_None || !PyTuple_Check(said)) {
        Py_XDECREF(said);
        return 0;
    }
    struct Call found = *call;
    int done = PyArg_ParseTuple(said, "nnny*nnnO", &address, &finish, &leaf, &block, &found.places[0], &found.places[1],
                                &found.target, &code);
    if (done) {
        found.words = block.len / (Py_ssize_t)sizeof *found.block;
        found.run = (Point)address;
        found.finish = (Finish)finish;
        found.leaf = leaf;
        if (found.words <= WORDS) {
            memcpy(found.block, block.buf, block.len);
            Py_XSETREF(call->code, Py_NewRef(code));
            found.code = call->code;
            *call = found;
        } else
            done = 0;
        PyBuffer_Release(&block);
    }
    Py_DECREF(said);
    return done;
}

static int is_vector(PyArrayObject *x)
{
    return PyArray_NDIM(x) == 1 && PyArray_ISCARRAY_RO(x) && PyArray_ISNOTSWAPPED(x);
}

/* The call for such arrays: NULL if there is no machine code, or with an exception. */
static struct Call *call_of(int fold, int axis, PyArrayObject *one, PyArrayObject *other)
{
    struct Call wanted = {.fold = fold, .type = PyArray_TYPE(one), .axis = axis, .rank = PyArray_NDIM(one)};
    memcpy(wanted.shape, PyArray_DIMS(one), wanted.rank * sizeof *wanted.shape);
    size_t size = PyArray_SIZE(one), place = size ^ size >> 6 ^ (axis + 1) * (wanted.rank - 1);
    struct Call *call = &calls[place * 8 % KEPT + 2 * fold + (wanted.type == NPY_FLOAT)];
    if (call->code != NULL && call->type == wanted.type && call->axis == axis && call->rank == wanted.rank
            && call->fold == fold && memcmp(call->shape, wanted.shape, sizeof wanted.shape) == 0)
        return call;
    if (!laid_out(&wanted, one, other))
        return NULL;
    Py_XDECREF(call->code);
    *call = wanted;
    return call;
}

/* Run a call.  Python's code that says where the threads are may lay out another one in its place meanwhile. */
static void run(struct Call *call, int64_t *block, npy_intp size, npy_intp leaf)
{
    PyObject *code = Py_NewRef(call->code);
    small_team_run(call->run, call->finish, block, call->words, size, 1, leaf, &call->alone);
    Py_DECREF(code);
}

PyObject *small_fold_vectors(PyArrayObject *one, PyArrayObject *other)
{
    int type = PyArray_TYPE(one), fold = other == NULL ? SUM : other == one ? SQUARES : DOT;
    npy_intp size = PyArray_SIZE(one);
    if ((type != NPY_DOUBLE && type != NPY_FLOAT) || !is_vector(one) || size == 0)
        return NULL;
    if (fold == DOT && (!is_vector(other) || PyArray_TYPE(other) != type || PyArray_SIZE(other) != size))
        return NULL;
    struct Call *call = call_of(fold, 0, one, other);
    if (call == NULL)
        return NULL;
    int64_t block[WORDS];
    union { double number; float single; } sum;
    memcpy(block, call->block, call->words * sizeof *block);
    block[call->places[0]] = (int64_t)PyArray_BYTES(one);
    if (fold == DOT)
        block[call->places[1]] = (int64_t)PyArray_BYTES(other);
    block[call->target] = (int64_t)&sum;
    run(call, block, size, call->leaf);
    if (!isfinite(type == NPY_DOUBLE ? sum.number : (double)sum.single))
        return NULL; /* NumPy may have to warn */
    PyTypeObject *of = type == NPY_DOUBLE ? &PyDoubleArrType_Type : &PyFloatArrType_Type;
    PyObject *found = of->tp_alloc(of, 0);
    if (found != NULL && type == NPY_DOUBLE)
        PyArrayScalar_ASSIGN(found, Double, sum.number);
    else if (found != NULL)
        PyArrayScalar_ASSIGN(found, Float, sum.single);
    return found;
}

/* Is there a number among these that is not finite? */
static int overflows(PyArrayObject *x)
{
    npy_intp n = PyArray_SIZE(x);
    int found = 0;
    if (PyArray_TYPE(x) == NPY_DOUBLE)
        for (npy_intp k = 0; k < n; k++)
            found |= !isfinite(((const double *)PyArray_DATA(x))[k]);
    else
        for (npy_intp k = 0; k < n; k++)
            found |= !isfinite(((const float *)PyArray_DATA(x))[k]);
    return found;
}

/* Does at_once.short say that whole columns are to be added? */
static int has_short_rows(PyArrayObject *x, int axis)
{
    PyObject *most = state.folds == NULL ? NULL : PyDict_GetItemString(state.folds, "COLUMNS");
    int last = PyArray_NDIM(x) - 1;
    return most == NULL || (axis == last && PyArray_DIM(x, last) <= PyLong_AsLong(most));
}

PyObject *small_fold_along(PyArrayObject *x, int axis)
{
    npy_intp shape[RANK];
    int type = PyArray_TYPE(x), rank = PyArray_NDIM(x);
    if ((type != NPY_DOUBLE && type != NPY_FLOAT) || rank < 2 || rank > RANK || !PyArray_ISCARRAY_RO(x)
            || !PyArray_ISNOTSWAPPED(x) || PyArray_SIZE(x) == 0 || has_short_rows(x, axis))
        return NULL;
    struct Call *call = call_of(ALONG, axis, x, NULL);
    for (int d = 0; d < rank - 1; d++)
        shape[d] = PyArray_DIM(x, d + (d >= axis));
    PyObject *found = call == NULL ? NULL : PyArray_SimpleNew(rank - 1, shape, type);
    if (found == NULL)
        return NULL;
    int64_t block[WORDS];
    memcpy(block, call->block, call->words * sizeof *block);
    block[call->places[0]] = (int64_t)PyArray_BYTES(x);
    block[call->target] = (int64_t)PyArray_BYTES((PyArrayObject *)found);
    run(call, block, 1, 1);
    if (overflows((PyArrayObject *)found)) /* NumPy may have to warn */
        Py_CLEAR(found);
    return found;
}

PyObject *small_divided(PyObject *sum, npy_intp count)
{
    small_clear();
    if (PyArray_IsScalar(sum, Double))
        PyArrayScalar_VAL(sum, Double) /= (double)count;
    else if (PyArray_IsScalar(sum, Float))
        PyArrayScalar_VAL(sum, Float) /= (float)count;
    else if (PyArray_TYPE((PyArrayObject *)sum) == NPY_DOUBLE)
        for (npy_intp k = 0; k < size_of(sum); k++)
            ((double *)PyArray_DATA((PyArrayObject *)sum))[k] /= (double)count;
    else
        for (npy_intp k = 0; k < size_of(sum); k++)
            ((float *)PyArray_DATA((PyArrayObject *)sum))[k] /= (float)count;
    if (small_raised()) /* too small a quotient, of which NumPy may have to warn */
        Py_CLEAR(sum);
    small_clear();
    return sum;
}

int small_folds_now(PyArrayObject *x, int shared)
{
    npy_intp size = PyArray_SIZE(x);
    if (state.folds == NULL || !state.sees || size < state.small || small_eager())
        return 0;
    PyObject *times = PyDict_GetItemWithError(state.folds, name_at_once);
    PyObject *floats = PyDict_GetItemWithError(state.folds, shared ? name_shared : name_floats);
    if (times == NULL || floats == NULL)
        return 0;
    npy_intp most = PyLong_AsLong(times) * state.small;
    int real = PyArray_TYPE(x) == NPY_DOUBLE || PyArray_TYPE(x) == NPY_FLOAT;
    return size < (real || shared ? PyLong_AsLong(floats) * most : most);
}

/* The memory of an array if it may be read now: tasks that read it, too, may be pending. */
static PyObject *readable(PyObject *x)
{
    PyObject *memory = small_at_hand((Array *)x);
    return memory != NULL || PyErr_Occurred() ? memory : small_asked(state.at_hand, (Array *)x);
}

PyObject *small_dot(PyObject *a, PyObject *b)
{
    if (Py_TYPE(a) != state.array_class || Py_TYPE(b) != state.array_class || absent(((Array *)a)->meta)
            || !small_folds_now((PyArrayObject *)((Array *)a)->meta, 1))
        return NULL;
    PyObject *one = readable(a), *other = one == NULL ? NULL : readable(b), *found = NULL;
    if (other != NULL) {
        small_looked();
        found = small_fold_vectors((PyArrayObject *)one, (PyArrayObject *)other);
    }
    Py_XDECREF(one);
    Py_XDECREF(other);
    return found;
}

int small_connect_folds(PyObject *function)
{
    Py_XSETREF(lay_out, Py_NewRef(function));
    if (name_at_once == NULL) {
        name_at_once = PyUnicode_InternFromString("AT_ONCE");
        name_shared = PyUnicode_InternFromString("SHARED");
        name_floats = PyUnicode_InternFromString("FLOATS");
    }
    return PyErr_Occurred() ? -1 : 0;
}

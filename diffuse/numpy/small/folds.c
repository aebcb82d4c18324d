/* Sums and dot products of vectors at hand, by the machine code that small_folds.py lays out: its `fold` in C, for one
 * dimension and all of it. */
#include "folds.h"
#include "team.h"
#include <numpy/arrayscalars.h>
#include <math.h>

enum { KEPT = 128, WORDS = 24 };
enum { SUM, DOT, SQUARES };
static const char *const names[] = {"sum", "dot", "squares"};

/* The calls that were laid out, by their kind and extent. */
static struct Call {
    int fold, type;
    npy_intp size;
    Point run;
    Finish finish;
    npy_intp leaf;
    int64_t alone;
    Py_ssize_t words, places[2], target;
    int64_t block[WORDS];
    PyObject *code; /* as long as which the machine code stays */
} calls[KEPT];

static PyObject *lay_out; /* small_folds.laid_out */

/* Fill in a call from what Python's code says of it: 1, or 0 if there is no machine code, or an exception. */
static int laid_out(struct Call *call, PyArrayObject *one, PyArrayObject *other)
{
    Py_ssize_t address, finish, leaf;
    Py_buffer block;
    PyObject *code, *said = lay_out == NULL ? NULL
                            : PyObject_CallFunction(lay_out, call->fold == DOT ? "sOO" : "sO", names[call->fold], one, other);
    if (said == NULL || said == Py_None || !PyTuple_Check(said)) {
        Py_XDECREF(said);
        return 0;
    }
    struct Call found = {.fold = call->fold, .type = call->type, .size = call->size};
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

PyObject *small_fold_vectors(PyArrayObject *one, PyArrayObject *other)
{
    int type = PyArray_TYPE(one), fold = other == NULL ? SUM : other == one ? SQUARES : DOT;
    npy_intp size = PyArray_SIZE(one);
    if ((type != NPY_DOUBLE && type != NPY_FLOAT) || !is_vector(one) || size == 0)
        return NULL;
    if (fold == DOT && (!is_vector(other) || PyArray_TYPE(other) != type || PyArray_SIZE(other) != size))
        return NULL;
    struct Call *call = &calls[(size_t)(size ^ size >> 6) * 8 % KEPT + 2 * fold + (type == NPY_FLOAT)];
    if (call->code == NULL || call->size != size || call->fold != fold || call->type != type) {
        struct Call wanted = {.fold = fold, .type = type, .size = size};
        if (!laid_out(&wanted, one, other))
            return NULL;
        Py_XDECREF(call->code);
        *call = wanted;
    }
    int64_t block[WORDS];
    union { double number; float single; } sum;
    memcpy(block, call->block, call->words * sizeof *block);
    block[call->places[0]] = (int64_t)PyArray_BYTES(one);
    if (fold == DOT)
        block[call->places[1]] = (int64_t)PyArray_BYTES(other);
    block[call->target] = (int64_t)&sum;
    small_team_run(call->run, call->finish, block, call->words, size, 1, call->leaf, &call->alone);
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

int small_folds_now(PyArrayObject *x, int shared)
{
    npy_intp size = PyArray_SIZE(x);
    if (state.folds == NULL || !state.sees || size < state.small || small_eager())
        return 0;
    PyObject *times = PyDict_GetItemString(state.folds, "AT_ONCE");
    PyObject *floats = PyDict_GetItemString(state.folds, shared ? "SHARED" : "FLOATS");
    if (times == NULL || floats == NULL)
        return 0;
    npy_intp most = PyLong_AsLong(times) * state.small;
    int real = PyArray_TYPE(x) == NPY_DOUBLE || PyArray_TYPE(x) == NPY_FLOAT;
    return size < (real ? PyLong_AsLong(floats) * most : most);
}

/* The memory of an array if it may be read now: tasks that read it, too, may be pending. */
static PyObject *readable(PyObject *x)
{
    PyObject *memory = small_at_hand((Array *)x);
    if (memory == NULL && !PyErr_Occurred())
        memory = PyObject_CallOneArg(state.at_hand, x);
    if (memory == Py_None)
        Py_CLEAR(memory);
    return memory;
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

void small_connect_folds(PyObject *function) { Py_XSETREF(lay_out, Py_NewRef(function)); }

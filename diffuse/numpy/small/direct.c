/* One elementwise operation that the program waits for, by the machine code of its task: `Direct.__call__` of
 * diffuse/stream/direct.py in C, for operands of the layouts that it was laid out for. */
#include "team.h"
#include <float.h>
#include <math.h>

enum { OPERANDS = 4, RANK = 8, WORDS = 64 };

/* An operand: the word of the block that gets it, and for an array its layout and what is added to its address. */
typedef struct {
    PyArray_Descr *descr; /* NULL: a number */
    int dims;
    npy_intp shape[RANK], strides[RANK];
    Py_ssize_t word;
    long long offset;
    char type; /* of a number: as the module `struct` names it */
} Operand;

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject *slow;   /* the Direct, which sees to all else */
    PyObject *out;    /* an array like the results */
    PyObject *report; /* are these floating-point exceptions to be reported? */
    PyObject *code;   /* as long as which the machine code stays */
    Point run;
    Py_ssize_t words, count, target;
    long long offset;
    npy_intp size, row, leaf;
    int64_t alone, block[WORDS];
    Operand operands[OPERANDS];
} Direct;

static int put(const Operand *as, PyObject *x, int64_t *block)
{
    if (as->descr != NULL) {
        PyArrayObject *array = (PyArrayObject *)x;
        if (!PyArray_CheckExact(x) || PyArray_DESCR(array) != as->descr || PyArray_NDIM(array) != as->dims
                || !PyArray_ISALIGNED(array) || !PyArray_CompareLists(PyArray_DIMS(array), as->shape, as->dims)
                || !PyArray_CompareLists(PyArray_STRIDES(array), as->strides, as->dims))
            return 0;
        block[as->word] = (int64_t)PyArray_BYTES(array) + as->offset;
        return 1;
    }
    int over = 0;
    long long whole = PyLong_CheckExact(x) ? PyLong_AsLongLongAndOverflow(x, &over) : 0;
    if (over || (!PyLong_CheckExact(x) && (as->type == 'q' || !PyFloat_Check(x))))
        return 0;
    double value = PyFloat_Check(x) ? PyFloat_AS_DOUBLE(x) : (double)whole;
    float single = (float)value;
    block[as->word] = whole;
    if (as->type == 'd')
        memcpy(&block[as->word], &value, sizeof value);
    else if (as->type == 'f') {
        block[as->word] = 0;
        memcpy(&block[as->word], &single, sizeof single);
        return value == 0.0 || (fabs(value) >= FLT_MIN && fabs(value) <= FLT_MAX);
    }
    return whole < 1LL << 53 && whole > -(1LL << 53);
}

static PyObject *direct_call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    Direct *direct = (Direct *)self;
    Py_ssize_t n = PyVectorcall_NARGS(nargsf);
    int64_t block[WORDS];
    int fits = n == direct->count && kwnames == NULL && small_usual() && !small_holds();
    memcpy(block, direct->block, direct->words * sizeof *block);
    for (Py_ssize_t k = 0; fits && k < n; k++)
        fits = put(&direct->operands[k], args[k], block);
    PyObject *out = fits ? PyArray_NewLikeArray((PyArrayObject *)direct->out, NPY_KEEPORDER, NULL, 0) : NULL;
    if (fits && out == NULL)
        return NULL;
    if (fits) {
        block[direct->target] = (int64_t)PyArray_BYTES((PyArrayObject *)out) + direct->offset;
        unsigned raised = small_team_run(direct->run, NULL, block, direct->words, direct->size, direct->row, direct->leaf,
                                         &direct->alone);
        PyObject *told = raised ? PyObject_CallFunction(direct->report, "I", raised) : Py_NewRef(Py_False);
        fits = told == Py_False;
        Py_XDECREF(told);
        if (!fits)
            Py_CLEAR(out);
        if (told == NULL)
            return NULL;
    }
    return out != NULL ? out : PyObject_Vectorcall(direct->slow, args, nargsf, kwnames);
}

/* Note the layout of an array, or that an operand is a number of a type. */
static int take(Operand *as, PyObject *x, PyObject *place, const char *type)
{
    if (!PyArg_ParseTuple(place, "nL", &as->word, &as->offset))
        return -1;
    as->type = *type;
    if (!PyArray_CheckExact(x))
        return 0;
    PyArrayObject *array = (PyArrayObject *)x;
    if ((as->dims = PyArray_NDIM(array)) > RANK) {
        PyErr_SetString(PyExc_ValueError, "an array of too many dimensions");
        return -1;
    }
    as->descr = (PyArray_Descr *)Py_NewRef((PyObject *)PyArray_DESCR(array));
    memcpy(as->shape, PyArray_DIMS(array), as->dims * sizeof *as->shape);
    memcpy(as->strides, PyArray_STRIDES(array), as->dims * sizeof *as->strides);
    return 0;
}

static PyObject *direct_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *slow, *report, *code, *out, *operands, *places;
    Py_ssize_t address;
    Py_buffer block;
    const char *types;
    npy_intp size, row, leaf;
    if (!PyArg_ParseTuple(args, "OOOnO!y*nnnO!sO!", &slow, &report, &code, &address, &PyArray_Type, &out, &block, &size,
                          &row, &leaf, &PyTuple_Type, &operands, &types, &PyTuple_Type, &places))
        return NULL;
    Direct *direct = (Direct *)type->tp_alloc(type, 0);
    Py_ssize_t count = PyTuple_GET_SIZE(operands), words = block.len / (Py_ssize_t)sizeof(int64_t);
    if (direct != NULL && (count > OPERANDS || words > WORDS || PyTuple_GET_SIZE(places) != count + 1
                           || (Py_ssize_t)strlen(types) != count)) {
        PyErr_SetString(PyExc_ValueError, "too many operands, or words of a block");
        Py_CLEAR(direct);
    }
    if (direct != NULL) {
        direct->call = direct_call;
        direct->slow = Py_NewRef(slow);
        direct->report = Py_NewRef(report);
        direct->code = Py_NewRef(code);
        direct->out = Py_NewRef(out);
        direct->run = (Point)address;
        direct->words = words;
        memcpy(direct->block, block.buf, block.len);
        direct->size = size, direct->row = row, direct->leaf = leaf;
        for (; direct->count < count; direct->count++)
            if (take(&direct->operands[direct->count], PyTuple_GET_ITEM(operands, direct->count),
                     PyTuple_GET_ITEM(places, direct->count), types + direct->count) < 0)
                break;
        if (PyErr_Occurred() || !PyArg_ParseTuple(PyTuple_GET_ITEM(places, count), "nL", &direct->target, &direct->offset))
            Py_CLEAR(direct);
    }
    PyBuffer_Release(&block);
    return (PyObject *)direct;
}

static void direct_dealloc(Direct *direct)
{
    for (Py_ssize_t k = 0; k < OPERANDS; k++)
        Py_XDECREF((PyObject *)direct->operands[k].descr);
    Py_XDECREF(direct->slow);
    Py_XDECREF(direct->report);
    Py_XDECREF(direct->code);
    Py_XDECREF(direct->out);
    Py_TYPE(direct)->tp_free((PyObject *)direct);
}

PyTypeObject Direct_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "diffuse.numpy.small.Direct",
    .tp_doc = "The launch of an elementwise operation on operands of known layouts, with a new array as its result.",
    .tp_basicsize = sizeof(Direct),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_new = direct_new,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Direct, call),
    .tp_dealloc = (destructor)direct_dealloc,
};

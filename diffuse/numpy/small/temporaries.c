/* Operators whose result takes the memory of an operand that nobody else knows, as NumPy's do: of `x * y + x` the
 * product is such an operand.  For large arrays at hand; fresh memory costs as much as the arithmetic.
 *
 * An operand on the stack of Python's interpreter with one reference is gone after the operator.  Code in C may hold
 * one reference as well and go on to use it, or a tuple of arguments may, so the interpreter has to be the caller. */
#include "operators.h"

#if defined(__GLIBC__) && PY_VERSION_HEX < 0x030E0000 && !defined(Py_GIL_DISABLED) /* from 3.14 on, variables lend their reference to the stack */
#include <dlfcn.h>
#include <execinfo.h>

enum { LEAST = 1 << 18 }; /* bytes; finding out takes a microsecond */
enum { FRAMES = 12, PLACES = 64 };
enum { OTHER, OURS, PYTHON, NUMBER, INTERPRETER };

/* Whose code a return address is in; found addresses are kept. */
static int whose(void *address)
{
    static struct { void *address; int kind; } known[PLACES];
    size_t place = ((size_t)address >> 4) % PLACES;
    if (known[place].address == address)
        return known[place].kind;
    Dl_info found, own, python;
    int kind = OTHER;
    if (dladdr(address, &found) && dladdr((void *)small_temporary, &own) && dladdr((void *)PyNumber_Add, &python)) {
        const char *name = found.dli_sname == NULL ? "" : found.dli_sname;
        if (found.dli_fbase == own.dli_fbase)
            kind = OURS;
        else if (found.dli_fbase == python.dli_fbase)
            kind = strncmp(name, "PyNumber_", 9) == 0 ? NUMBER
                   : strcmp(name, "_PyEval_EvalFrameDefault") == 0 ? INTERPRETER : PYTHON;
    }
    known[place].address = address;
    known[place].kind = kind;
    return kind;
}

/* Did the interpreter call the operator that runs now, by PyNumber_Add and its kin, and nothing else in between?
 * PyNumber_Add may have called a function of its file. */
static int is_interpreted(void)
{
    void *frames[FRAMES];
    int count = backtrace(frames, FRAMES), k = 0;
    while (k < count && whose(frames[k]) == OURS)
        k++;
    k += k < count && whose(frames[k]) == PYTHON;
    return k + 1 < count && whose(frames[k]) == NUMBER && whose(frames[k + 1]) == INTERPRETER;
}

/* Has an array, whose memory the caller holds as well, one reference, and nobody else its memory? */
static int is_unknown(PyObject *x, PyObject *memory)
{
    Array *array = (Array *)x;
    PyArrayObject *held = (PyArrayObject *)memory;
    return Py_TYPE(x) == state.array_class && Py_REFCNT(x) == 1 && array->memory == memory && array->meta == memory
        && absent(array->storage) && absent(array->owner) && absent(array->part) && array->weakrefs == NULL
        && !array->lent && Py_REFCNT(memory) == 3 && PyArray_NBYTES(held) >= LEAST && PyArray_BASE(held) == NULL
        && PyArray_CHKFLAGS(held, NPY_ARRAY_BEHAVED | NPY_ARRAY_OWNDATA);
}

/* Is the result of an operation of this array with another operand of its type and shape? */
static int keeps(PyArrayObject *array, PyObject *other)
{
    int type = PyArray_TYPE(array);
    if (type != NPY_DOUBLE && type != NPY_FLOAT && type != NPY_CDOUBLE && type != NPY_CFLOAT)
        return 0;
    if (PyFloat_CheckExact(other) || PyLong_CheckExact(other))
        return 1;
    if (!PyArray_CheckExact(other) || PyArray_TYPE((PyArrayObject *)other) != type)
        return 0;
    PyArrayObject *given = (PyArrayObject *)other;
    int missing = PyArray_NDIM(array) - PyArray_NDIM(given);
    for (int d = 0; missing >= 0 && d < PyArray_NDIM(given); d++)
        if (PyArray_DIM(given, d) != 1 && PyArray_DIM(given, d) != PyArray_DIM(array, missing + d))
            return 0;
    return missing >= 0;
}

PyObject *small_temporary(int name, PyObject *a, PyObject *b, PyObject *left, PyObject *right)
{
    if (name != ADD && name != SUBTRACT && name != MULTIPLY && name != DIVIDE)
        return NULL;
    if (is_unknown(a, left) && keeps((PyArrayObject *)left, right))
        return is_interpreted() ? left : NULL;
    if ((name == ADD || name == MULTIPLY) && is_unknown(b, right) && keeps((PyArrayObject *)right, left))
        return is_interpreted() ? right : NULL;
    return NULL;
}
#else
PyObject *small_temporary(int name, PyObject *a, PyObject *b, PyObject *left, PyObject *right) { return NULL; }
#endif

PyObject *small_temporary_of(PyObject *ufunc, PyObject *const *operands, PyObject *const *values)
{
    for (int name = ADD; name <= DIVIDE; name++)
        if (small_ufuncs[name] == ufunc)
            return small_temporary(name, operands[0], operands[1], values[0], values[1]);
    return NULL;
}

/* Operators whose result takes the memory of an operand that nobody else knows, as NumPy's do: of `x * y + x` the
 * product is such an operand.  For large arrays at hand, where fresh memory costs as much as the arithmetic, and for
 * small ones, of which the processor's first cache then holds more.  Ufuncs that raise no floating-point errors, such as
 * `maximum(0.0, x * y)`, do so with small arrays.
 *
 * An operand on the stack of Python's interpreter with one reference is gone after the operator.  Code in C may hold
 * one reference as well and go on to use it, or a tuple of arguments may, so the interpreter has to be the caller. */
#include "gate.h"
#include "loops.h"
#include "operators.h"

#if defined(__GLIBC__) && PY_VERSION_HEX < 0x030E0000 && !defined(Py_GIL_DISABLED) /* from 3.14 on, variables lend their reference to the stack */
#include <dlfcn.h>
#include <execinfo.h>

enum { LEAST = 1 << 18, FEWEST = 1 << 10 }; /* bytes; to find out takes a microsecond, or nothing once it is learnt */
enum { BEFORE = 64, TRIES = 512 };          /* operators on fewer bytes before it is learnt from them, and on how many */
enum { FRAMES = 12, PLACES = 256, MOST_WAYS = 32, WORDS = 40, SURE = 4 };
enum { OTHER, OURS, PYTHON, NUMBER, CALLER, INTERPRETER };

/* Where the code of a function was loaded. */
static void *loaded_at(void *function)
{
    Dl_info found;
    return dladdr(function, &found) ? found.dli_fbase : NULL;
}

/* Whose code a return address is in; found addresses are kept. */
static int whose(void *address)
{
    static struct { void *address; int kind; } known[PLACES];
    static void *own, *python;
    size_t place = ((size_t)address * 0x9E3779B97F4A7C15u >> 32) % PLACES;
    if (known[place].address == address)
        return known[place].kind;
    if (own == NULL) {
        own = loaded_at((void *)small_temporary_of);
        python = loaded_at((void *)PyNumber_Add);
    }
    Dl_info found;
    int kind = OTHER;
    if (own != NULL && python != NULL && dladdr(address, &found)) {
        const char *name = found.dli_sname == NULL ? "" : found.dli_sname;
        if (found.dli_fbase == own)
            kind = OURS;
        else if (found.dli_fbase == python)
            kind = strncmp(name, "PyNumber_", 9) == 0 ? NUMBER : strcmp(name, "PyObject_Vectorcall") == 0 ? CALLER
                   : strcmp(name, "_PyEval_EvalFrameDefault") == 0 ? INTERPRETER : PYTHON;
    }
    known[place].address = address;
    known[place].kind = kind;
    return kind;
}

/* How an operator or a ufunc is called: the return addresses on the stack that tell whether the interpreter calls it, and
 * in which words above the function's frame they lie.  A function that calls from one place has one layout of its frame
 * there, so that a frame with the first address has the others in the same words. */
typedef struct { void *addresses[3]; int words[3], count, seen, interpreted; } Way;

static Way ways[MOST_WAYS];

/* The way by which the function of a frame is called, if it is known; else NULL. */
static const Way *known_way(void **frame)
{
    for (const Way *way = ways; way < ways + MOST_WAYS && way->count; way++)
        if (way->seen >= (way->interpreted ? SURE : 1) && way->addresses[0] == frame[1]
                && (way->count < 2 || way->addresses[1] == frame[way->words[1]])
                && (way->count < 3 || way->addresses[2] == frame[way->words[2]]))
            return way;
    return NULL;
}

/* Note such a way, whose first address is that of the function's frame. */
static void note_way(void **frame, void **addresses, int count, int interpreted)
{
    int words[3] = {1}, k = 0;
    if (frame[1] != addresses[0])
        return;
    for (int m = 1; m < count; m++) {
        words[m] = words[m - 1] + 1;
        while (words[m] < WORDS && frame[words[m]] != addresses[m])
            words[m]++;
        if (words[m] == WORDS)
            return;
    }
    size_t bytes = count * sizeof *addresses;
    while (k < MOST_WAYS && ways[k].count && (ways[k].count != count || memcmp(ways[k].addresses, addresses, bytes)))
        k++;
    if (k == MOST_WAYS)
        return;
    if (ways[k].count && memcmp(ways[k].words, words, count * sizeof *words))
        ways[k].seen = INT_MIN / 2; /* its layout differs from time to time */
    memcpy(ways[k].addresses, addresses, bytes);
    memcpy(ways[k].words, words, count * sizeof *words);
    ways[k].interpreted = interpreted;
    ways[k].count = count;
    ways[k].seen++;
}

/* Did the interpreter call the operator that runs now in this frame, by PyNumber_Add and its kin, and nothing else in
 * between?  PyNumber_Add may have called a function of its file.  Or, with `by` CALLER instead of NUMBER, the ufunc, by
 * PyObject_Vectorcall. */
static int is_interpreted(void **frame, int by)
{
    const Way *way = frame == NULL ? NULL : known_way(frame);
    if (way != NULL)
        return way->interpreted;
    void *frames[FRAMES];
    int count = backtrace(frames, FRAMES), first = 0;
    while (first < count && whose(frames[first]) == OURS)
        first++;
    int k = first + (by == NUMBER && first < count && whose(frames[first]) == PYTHON);
    int found = k + 1 < count && whose(frames[k]) == by && whose(frames[k + 1]) == INTERPRETER;
    if (frame != NULL && k + 1 < count)
        note_way(frame, frames + first, k + (whose(frames[k]) == by) + 1 - first, found);
    return found;
}

int small_is_interpreted(void) { return is_interpreted(NULL, NUMBER); }

/* The same for few elements, for which it is only found out while that is learnt. */
static int is_soon_interpreted(void **frame, int by)
{
    static int asked[INTERPRETER];
    const Way *way = known_way(frame);
    if (way != NULL)
        return way->interpreted;
    if (asked[by] >= BEFORE + TRIES || ++asked[by] < BEFORE)
        return 0;
    return is_interpreted(frame, by);
}

static npy_intp bytes_of(PyObject *x) { return size_of(x) * PyArray_ITEMSIZE((PyArrayObject *)x); }

/* Has an array, whose memory the caller holds as well, one reference, and nobody else its memory? */
static int is_unknown(PyObject *x, PyObject *memory)
{
    Array *array = (Array *)x;
    PyArrayObject *held = (PyArrayObject *)memory;
    return Py_TYPE(x) == state.array_class && Py_REFCNT(x) == 1 && array->memory == memory && array->meta == memory
        && absent(array->storage) && absent(array->owner) && absent(array->part) && array->weakrefs == NULL
        && !array->lent && Py_REFCNT(memory) == 3 && bytes_of(memory) >= FEWEST && PyArray_BASE(held) == NULL
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

/* The operand, `a` or `b`, whose memory the result may take, as far as that does not depend on the caller. */
static PyObject *unknown_one(int name, PyObject *a, PyObject *b, PyObject *left, PyObject *right)
{
    if ((name != ADD && name != SUBTRACT && name != MULTIPLY && name != DIVIDE) || small_scattered(left)
            || small_scattered(right))
        return NULL;
    if (is_unknown(a, left) && keeps((PyArrayObject *)left, right))
        return a;
    return is_unknown(b, right) && keeps((PyArrayObject *)right, left) ? b : NULL;
}

PyObject *small_over_temporary(int name, PyObject *a, PyObject *b, PyObject *left, PyObject *right, void **frame)
{
    PyObject *x = unknown_one(name, a, b, left, right), *memory = x == a ? left : right;
    if (x == NULL)
        return NULL;
    if (bytes_of(memory) < LEAST)
        return is_soon_interpreted(frame, NUMBER) && small_loop_over(name, left, right, memory) > 0 ? Py_NewRef(x) : NULL;
    if (!is_interpreted(frame, NUMBER))
        return NULL;
    int done = small_loop_over(name, left, right, memory);
    PyObject *found = done < 0 ? NULL : done ? Py_NewRef(memory)
                      : PyObject_CallFunctionObjArgs(small_ufuncs[name], left, right, memory, NULL);
    Py_XDECREF(found);
    return found == NULL ? NULL : Py_NewRef(x);
}

/* Are these arguments on the stack of the interpreter that runs in this thread?  A tuple that holds others may live on. */
static int are_on_stack(PyObject *const *args)
{
    PyThreadState *thread = PyThreadState_Get();
    return (PyObject *const *)thread->datastack_chunk < args && args < (PyObject *const *)thread->datastack_top;
}

PyObject *small_call_over_temporary(Gate *gate, PyObject *const *args, PyObject *const *low, Py_ssize_t n, void **frame)
{
    for (Py_ssize_t k = 0; k < n; k++)
        if (is_unknown(args[k], low[k]) && (n == 1 || keeps((PyArrayObject *)low[k], low[1 - k]))) {
            int done = are_on_stack(args) && is_soon_interpreted(frame, CALLER) && small_call_loop_over(gate, low, low[k]);
            return done ? Py_NewRef(args[k]) : NULL;
        }
    return NULL;
}

static PyObject *temporary(int name, PyObject *const *operands, PyObject *const *values)
{
    PyObject *x = unknown_one(name, operands[0], operands[1], values[0], values[1]);
    PyObject *memory = x == operands[0] ? values[0] : values[1];
    return x != NULL && bytes_of(memory) >= LEAST && is_interpreted(NULL, NUMBER) ? memory : NULL;
}
#else
PyObject *small_over_temporary(int name, PyObject *a, PyObject *b, PyObject *left, PyObject *right, void **frame)
{
    return NULL;
}

PyObject *small_call_over_temporary(Gate *gate, PyObject *const *args, PyObject *const *low, Py_ssize_t n, void **frame)
{
    return NULL;
}

static PyObject *temporary(int name, PyObject *const *operands, PyObject *const *values) { return NULL; }

int small_is_interpreted(void) { return 0; }
#endif

PyObject *small_temporary_of(PyObject *ufunc, PyObject *const *operands, PyObject *const *values)
{
    for (int name = ADD; name <= DIVIDE; name++)
        if (small_ufuncs[name] == ufunc)
            return temporary(name, operands, values);
    return NULL;
}

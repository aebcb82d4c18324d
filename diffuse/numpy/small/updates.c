/* Updates whose operand is an operation of its own, as in `x -= u * v`, done in one pass: a piece of the product is
 * made in the processor's first cache and subtracted at once, where NumPy writes the whole product and reads it again.
 *
 * The product is put off when the operator is called: its array gets memory, but no values.  That is done only where
 * the interpreter's next instruction is the update, of an array of ours, which then is the next function that anybody
 * calls.  So nobody can see the array without values, or change what the product is made of. */
#include "loops.h"
#include "team.h"
#include "updates.h"

PyObject *small_put_off_array;

#if PY_VERSION_HEX < 0x030E0000 && !defined(Py_GIL_DISABLED) /* from 3.14 on, the stack holds tagged references */
#include <opcode.h>

enum { LEAST = 1 << 16 };        /* bytes of a product: smaller ones stay in the caches */
enum { MOST = 1 << 20 };         /* elements; more would keep Python's lock for too long */
enum { NARROW = 64 };            /* elements of a row; shorter ones cost more than their elements */
enum { PIECE = 2048, PLACE = 9 }; /* elements at a time; words of the interpreter's frame before its variables */

typedef struct { PyObject *left, *right, *memory; int name; } Operation;

static Operation put_off;

/* The beginning of Python's frame objects, with the interpreter's frame, whose variables and then its stack begin after
 * PLACE words. */
typedef struct { PyObject_HEAD void *back; PyObject **words; PyObject *trace; } FrameHead;

static int is_update(int argument)
{
    return argument == NB_INPLACE_ADD || argument == NB_INPLACE_SUBTRACT || argument == NB_INPLACE_MULTIPLY
        || argument == NB_INPLACE_TRUE_DIVIDE;
}

/* The left operand of the update that is the instruction after an operator on `a` and `b`: a borrowed reference, which
 * may be read if the interpreter runs that operator now; NULL if there is none.  The stack holds it, then `a`, then `b`.
 * An update is a statement, so below it there are only iterators and the like. */
static PyObject *updated_next(PyObject *a, PyObject *b)
{
    PyFrameObject *frame = PyEval_GetFrame();
    if (frame == NULL || !absent(((FrameHead *)frame)->trace))
        return NULL;
    PyCodeObject *code = PyFrame_GetCode(frame);
    PyObject *bytes = PyCode_GetCode(code), *found = NULL;
    const unsigned char *text = bytes == NULL ? NULL : (const unsigned char *)PyBytes_AS_STRING(bytes);
    int now = PyFrame_GetLasti(frame), next = now + 4; /* an instruction and its cache, each of two bytes */
    int updates = text != NULL && now >= 0 && next + 1 < PyBytes_GET_SIZE(bytes) && text[now] == BINARY_OP
        && text[now + 1] < NB_INPLACE_ADD && text[next] == BINARY_OP && is_update(text[next + 1]);
    PyObject **stack = ((FrameHead *)frame)->words + PLACE + code->co_nlocalsplus;
    for (int k = 1; updates && found == NULL && k + 1 < code->co_stacksize; k++)
        if (stack[k] == a && stack[k + 1] == b)
            found = stack[k - 1];
    Py_XDECREF(bytes);
    Py_DECREF(code);
    PyErr_Clear();
    return found;
}

/* Has an array of ours, whose memory is at hand, this type and shape? */
static int fits(PyObject *x, int type, int dims, const npy_intp *shape)
{
    if (Py_TYPE(x) != state.array_class || absent(((Array *)x)->meta))
        return 0;
    PyArrayObject *meta = (PyArrayObject *)((Array *)x)->meta;
    return PyArray_TYPE(meta) == type && PyArray_NDIM(meta) == dims && PyArray_ISWRITEABLE(meta)
        && PyArray_CompareLists(PyArray_DIMS(meta), shape, dims) && (state.sees || small_unattached((Array *)x))
        && small_readable((Array *)x) > 0;
}

PyObject *small_put_off(int name, PyObject *a, PyObject *b, PyObject *left, PyObject *right, long most)
{
    PyObject *given[] = {left, right};
    Side sides[3];
    npy_intp shape[RANK], size = 1;
    int dims;
    PyObject *next;
    const Loop *loop = name < FORWARD ? small_loop_for(name, given, 2, &dims, shape, sides) : NULL;
    if (loop == NULL || loop->alone || !small_usual() || small_eager())
        return NULL;
    PyArray_Descr *made = small_types[small_kind(loop->made)];
    for (int d = 0; d < dims; d++)
        size *= shape[d];
    if (size > MOST || size * PyDataType_ELSIZE(made) < LEAST || shape[dims - 1] < NARROW
            || (made != small_types[DOUBLE] && made != small_types[SINGLE] && made != small_types[LONG])
            || (next = updated_next(a, b)) == NULL || !small_is_interpreted() || !fits(next, loop->made, dims, shape)
            || (most && small_calls(small_ufuncs[name], (PyObject *[]){a, b}, 2) >= most))
        return NULL;
    Py_INCREF(made); /* it is stolen */
    PyObject *memory = PyArray_NewFromDescr(&PyArray_Type, made, dims, shape, NULL, NULL, 0, NULL);
    PyObject *found = memory == NULL ? NULL : small_shown(Py_NewRef(memory));
    Py_XSETREF(put_off.left, Py_NewRef(left));
    Py_XSETREF(put_off.right, Py_NewRef(right));
    Py_XSETREF(put_off.memory, memory);
    put_off.name = name;
    Py_XSETREF(small_put_off_array, Py_XNewRef(found)); /* no other array gets its address meanwhile */
    return found;
}

/* Compute the product that was put off: -1 with an exception. */
static int make_up(const Operation *off)
{
    PyObject *found = PyObject_CallFunctionObjArgs(small_ufuncs[off->name], off->left, off->right, off->memory, NULL);
    Py_XDECREF(found);
    return found == NULL ? -1 : 0;
}

static int counted(void)
{
    static PyObject *name;
    if (name == NULL)
        name = PyUnicode_InternFromString("updates");
    return name != NULL && small_counts(name);
}

/* What the update is: the operation's loop and its own, the operands of the first and the array. */
typedef struct {
    const Loop *loops[2];
    const npy_intp *shape;
    const Side *sides;
    int dims;
    unsigned raised[2];
} Update;

static void run_loop(Update *update, int k, char **data, npy_intp n, const npy_intp *steps)
{
    const Loop *loop = update->loops[k];
    loop->run(data, &n, steps, loop->data);
    unsigned raised = small_raised();
    if (raised) {
        __atomic_fetch_or(&update->raised[k], raised, __ATOMIC_RELAXED);
        small_clear();
    }
}

static void update_row(Update *update, char **data, npy_intp n, const npy_intp *steps)
{
    _Alignas(64) char made[PIECE * sizeof(double)];
    npy_intp width = update->loops[1]->width;
    for (npy_intp first = 0; first < n; first += PIECE) {
        npy_intp count = n - first < PIECE ? n - first : PIECE;
        char *part = data[2] + first * steps[2];
        char *one[] = {data[0] + first * steps[0], data[1] + first * steps[1], made}, *two[] = {part, made, part};
        run_loop(update, 0, one, count, (npy_intp[]){steps[0], steps[1], width});
        run_loop(update, 1, two, count, (npy_intp[]){steps[2], width, steps[2]});
    }
}

static void part_of(char *block, int64_t point)
{
    int64_t *words = (int64_t *)block;
    Update *update = (Update *)words[2];
    int last = update->dims - 1;
    npy_intp shape[RANK], place[RANK] = {0}, steps[3], first = point * words[1], rest = update->shape[0] - first;
    char *data[3];
    memcpy(shape, update->shape, sizeof shape);
    shape[0] = rest < words[1] ? rest : words[1];
    for (int k = 0; k < 3; k++) {
        data[k] = update->sides[k].data + first * update->sides[k].strides[0];
        steps[k] = update->sides[k].strides[last];
    }
    small_clear();
    do
        update_row(update, data, shape[last], steps);
    while (small_next(last, place, shape, data, update->sides, 3));
}

/* Do the update and the operation in one: 1 if it is done, 0 if not, -1 with an exception. */
static int updated(const Operation *off, int name, PyObject *memory)
{
    PyObject *given[] = {off->left, off->right, memory};
    PyArrayObject *array = (PyArrayObject *)memory;
    Update update = {{NULL}};
    Side sides[3];
    npy_intp shape[RANK], row = 1;
    if (!small_same_or_apart(array, off->left) || !small_same_or_apart(array, off->right) || !small_apart(array))
        return 0;
    update.loops[0] = small_loop_for(off->name, given, 3, &update.dims, shape, sides);
    update.loops[1] = small_loop_for(name, given, 3, &update.dims, shape, sides);
    if (update.loops[0] == NULL || update.loops[1] == NULL || update.loops[1]->made != PyArray_TYPE(array))
        return 0;
    update.dims = small_merged(update.dims, shape, sides, 3);
    update.shape = shape;
    update.sides = sides;
    for (int d = 1; d < update.dims; d++)
        row *= shape[d];
    int64_t block[] = {1, shape[0], (int64_t)&update};
    small_team_run(part_of, NULL, block, 3, shape[0], row, update.dims == 1 ? PIECE : 1,
                   small_time_of((const void *)part_of, shape[0] * row));
    for (int k = 0; k < 2; k++)
        if (update.raised[k] && small_report(k ? name : off->name, update.raised[k]) < 0)
            return -1;
    return counted() ? 1 : -1;
}

int small_update(int name, PyObject *a, PyObject *b)
{
    int expected = b == small_put_off_array, done = 0;
    Operation off = put_off; /* other threads may put off theirs while NumPy computes */
    memset(&put_off, 0, sizeof put_off);
    Py_CLEAR(small_put_off_array);
    PyObject *memory = expected && small_readable((Array *)a) > 0 ? small_mine((Array *)a) : NULL;
    if (memory != NULL)
        done = updated(&off, name, memory);
    else if (PyErr_Occurred())
        done = -1;
    if (done == 0)
        done = make_up(&off);
    Py_XDECREF(memory);
    Py_DECREF(off.left);
    Py_DECREF(off.right);
    Py_DECREF(off.memory);
    return done;
}
#else
PyObject *small_put_off(int name, PyObject *a, PyObject *b, PyObject *left, PyObject *right, long most) { return NULL; }

int small_update(int name, PyObject *a, PyObject *b) { return 0; }
#endif

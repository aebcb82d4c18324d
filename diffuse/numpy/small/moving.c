/* Calls at places of the program that bring other views every turn, done at once by NumPy: the common case of
 * diffuse/numpy/ops/moving.py, which has decided about the place before. */
#include "updates.h"

static PyObject *grants;      /* arithmetic.GRANTS */
static PyObject *met;         /* moving.met */
static PyObject *name_moving; /* in trace.counters */
static uint64_t base, extent; /* of forms.py: the addresses of mirrors */

enum { CALLS = 1 << 14, PLACES = 4 };

/* How often there was a call on the same views, and when it was counted last: a table in which a new call takes one
 * of the places that follow its hash. */
static struct Call { uint64_t views; uint32_t count, turn; } calls[CALLS + PLACES];
static uint32_t turn; /* the calls that were counted, of all views */

static void mix(uint64_t *views, uint64_t word)
{
    *views = (*views ^ word) * 0x9E3779B97F4A7C15u;
    *views ^= *views >> 29;
}

/* Shape, strides, and where the elements begin in the array that owns them. */
static void mix_array(uint64_t *views, PyArrayObject *array, PyObject *owner)
{
    for (int d = 0; d < PyArray_NDIM(array); d++) {
        mix(views, PyArray_DIM(array, d));
        mix(views, PyArray_STRIDE(array, d));
    }
    uint64_t place = (uint64_t)PyArray_BYTES(array);
    if (place - base < extent)
        mix(views, place - base);
    else
        mix(views, place - (absent(owner) ? place : (uint64_t)PyArray_BYTES((PyArrayObject *)owner)));
}

/* What tells a call on these views from others. */
static uint64_t views_of(PyObject *ufunc, PyObject *const *operands, Py_ssize_t n)
{
    uint64_t views = (uint64_t)ufunc;
    for (Py_ssize_t k = 0; k < n; k++) {
        PyObject *x = operands[k];
        if (PyArray_CheckExact(x))
            mix_array(&views, (PyArrayObject *)x, NULL);
        else if (small_is_ours(x)) {
            PyObject *owner = ((Array *)x)->owner;
            mix_array(&views, (PyArrayObject *)((Array *)x)->meta, absent(owner) ? NULL : ((Array *)owner)->memory);
        } else
            mix(&views, (uint64_t)Py_TYPE(x));
    }
    return views;
}

/* How often the call was counted. */
static long counted(PyObject *ufunc, PyObject *const *operands, Py_ssize_t n)
{
    uint64_t views = views_of(ufunc, operands, n);
    for (size_t k = views % CALLS; k < views % CALLS + PLACES; k++)
        if (calls[k].views == views)
            return calls[k].count;
    return 0;
}

/* Is a call worth less than another one: less frequent, or as frequent and counted longer ago? */
static int worth_less(const struct Call *call, const struct Call *other)
{
    if (call->count != other->count)
        return call->count < other->count;
    return turn - call->turn > turn - other->turn;
}

/* The one of these calls whose place a new call takes.  It is never the one that was counted last: two calls of a
 * loop would take the place from each other in every iteration, and neither would ever be frequent. */
static struct Call *replaced(struct Call *places)
{
    struct Call *last = places, *least = NULL;
    for (int k = 1; k < PLACES; k++)
        if (turn - places[k].turn < turn - last->turn)
            last = &places[k];
    for (int k = 0; k < PLACES; k++)
        if (&places[k] != last && (least == NULL || worth_less(&places[k], least)))
            least = &places[k];
    return least;
}

long small_calls(PyObject *ufunc, PyObject *const *operands, Py_ssize_t n)
{
    uint64_t views = views_of(ufunc, operands, n);
    struct Call *places = &calls[views % CALLS];
    turn++;
    for (int k = 0; k < PLACES; k++)
        if (places[k].views == views) {
            places[k].turn = turn;
            return places[k].count++;
        }
    *replaced(places) = (struct Call){views, 1, turn};
    return 0;
}

/* What was decided about a ufunc at this place of the program: how many calls there may be on the same views, and
 * the types of the operands; nothing, where the place brings the same ones.  NULL if nobody looked. */
static PyObject *granted(PyObject *ufunc)
{
    if (grants == NULL || !small_moves(ufunc))
        return NULL;
    PyFrameObject *frame = PyEval_GetFrame();
    if (frame == NULL)
        return NULL;
    PyCodeObject *code = PyFrame_GetCode(frame);
    PyObject *place = Py_BuildValue("ONi", ufunc, PyLong_FromVoidPtr(code), PyFrame_GetLasti(frame));
    Py_DECREF(code);
    PyObject *grant = place == NULL ? NULL : PyDict_GetItemWithError(grants, place);
    Py_XDECREF(place);
    return Py_XNewRef(grant);
}

/* An operand of this type, if it is at hand; else NULL, as `small_near`. */
static PyObject *of_kind(PyObject *x, PyObject *kind)
{
    if (Py_TYPE(x) == state.array_class) {
        Array *array = (Array *)x;
        if (absent(array->meta) || (PyObject *)PyArray_DESCR((PyArrayObject *)array->meta) != kind)
            return NULL;
        return small_readable(array) > 0 ? Py_NewRef(array->memory) : NULL;
    }
    PyObject *type = PyArray_CheckExact(x) ? (PyObject *)PyArray_DESCR((PyArrayObject *)x) : (PyObject *)Py_TYPE(x);
    return type == kind ? Py_NewRef(x) : NULL;
}

/* Is an operand of this type, at hand or not? */
static int has_kind(PyObject *x, PyObject *kind)
{
    PyObject *meta = Py_TYPE(x) == state.array_class ? ((Array *)x)->meta : x;
    if (PyArray_CheckExact(meta))
        return (PyObject *)PyArray_DESCR((PyArrayObject *)meta) == kind;
    return !absent(meta) && (PyObject *)Py_TYPE(x) == kind;
}

/* What becomes of a call: an exception, Python's code has to look, to be recorded, or done at once. */
enum { FAILED = -1, LOOK, RECORD, NOW };

/* What becomes of this one; its operands for NOW.  `b` is NULL for one operand. */
static int decided(PyObject *ufunc, PyObject *a, PyObject *b, PyObject **left, PyObject **right)
{
    PyObject *grant = granted(ufunc), *given[] = {a, b};
    if (grant == NULL)
        return PyErr_Occurred() ? FAILED : LOOK;
    Py_ssize_t n = b == NULL ? 1 : 2;
    int known = PyTuple_GET_SIZE(grant) == n + 1;
    int done = known || PyTuple_GET_SIZE(grant) != 0 ? LOOK : RECORD;
    int same = known && has_kind(a, PyTuple_GET_ITEM(grant, 1)) && (b == NULL || has_kind(b, PyTuple_GET_ITEM(grant, 2)));
    *left = *right = NULL;
    if (same && counted(ufunc, given, n) >= PyLong_AsLong(PyTuple_GET_ITEM(grant, 0)))
        done = RECORD;
    else if (same)
        *left = of_kind(a, PyTuple_GET_ITEM(grant, 1));
    *right = *left != NULL && b != NULL ? of_kind(b, PyTuple_GET_ITEM(grant, 2)) : NULL;
    if ((b == NULL ? *left : *right) != NULL) {
        small_calls(ufunc, given, n);
        done = NOW;
    } else if (same && done == RECORD)
        small_grant(-1); /* what follows is to be recorded, too, and to fuse */
    if (PyErr_Occurred() || (done == NOW && !small_counts(name_moving)))
        done = FAILED;
    if (done != NOW) {
        Py_CLEAR(*left);
        Py_CLEAR(*right);
    }
    Py_DECREF(grant);
    return done;
}

static npy_intp bytes_of(PyObject *x)
{
    return x != NULL && PyArray_CheckExact(x) ? PyArray_NBYTES((PyArrayObject *)x) : 0;
}

static PyObject *undone(int decision) { return decision == RECORD ? Py_NewRef(Py_None) : NULL; }

/* The operator's number of a ufunc; FORWARD of others, and of squares. */
static int operator_of(PyObject *ufunc)
{
    int name = 0;
    while (name < FORWARD && (small_ufuncs[name] != ufunc || name == SQUARE))
        name++;
    return name;
}

PyObject *small_moved(PyObject *ufunc, PyObject *a, PyObject *b)
{
    PyObject *left, *right;
    int decision = decided(ufunc, a, b, &left, &right);
    if (decision != NOW)
        return undone(decision);
    PyObject *given[] = {a, b}, *values[] = {left, right};
    npy_intp bytes = bytes_of(left) + bytes_of(right);
    int name = operator_of(ufunc);
    PyObject *found = b == NULL ? NULL : small_put_off(name, a, b, left, right, 0);
    if (found != NULL)
        bytes += PyArray_NBYTES((PyArrayObject *)((Array *)found)->meta);
    else if (!PyErr_Occurred()) {
        PyObject *into = b == NULL ? NULL : small_temporary_of(ufunc, given, values);
        if (into != NULL)
            found = PyObject_CallFunctionObjArgs(ufunc, left, right, into, NULL);
        else if ((found = name < FORWARD ? small_loop(name, left, right) : NULL) == NULL && !PyErr_Occurred())
            found = PyObject_CallFunctionObjArgs(ufunc, left, right, NULL);
        bytes += bytes_of(found);
        found = small_shown(found);
    }
    small_grant(2 * bytes);
    Py_DECREF(left);
    Py_XDECREF(right);
    return found;
}

int small_moved_before(PyObject *ufunc, PyObject *a, PyObject *b, PyObject **found)
{
    *found = NULL;
    if (state.allowance > 0 || !small_moves(ufunc)) /* what is left was not granted by operations on new views */
        return 0;
    *found = small_moved(ufunc, a, b);
    if (*found != Py_None)
        return 1;
    Py_CLEAR(*found);
    return 0;
}

PyObject *small_moved_in_place(PyObject *ufunc, PyObject *a, PyObject *b)
{
    PyObject *left, *right;
    int decision = decided(ufunc, a, b, &left, &right);
    if (decision != NOW)
        return undone(decision);
    Py_DECREF(left);
    PyObject *memory = small_mine((Array *)a);
    int name = operator_of(ufunc);
    int done = memory == NULL ? -1 : name < FORWARD ? small_loop_in_place(name, memory, right) : 0;
    PyObject *found = done < 0 ? NULL : done ? Py_NewRef(memory)
                      : PyObject_CallFunctionObjArgs(ufunc, memory, right, memory, NULL);
    small_grant(2 * (bytes_of(memory) + bytes_of(right)));
    Py_XDECREF(memory);
    Py_DECREF(right);
    if (found == NULL)
        return NULL;
    Py_DECREF(found);
    return Py_NewRef(a);
}

int small_met(PyObject *ufunc, PyObject *const *operands, Py_ssize_t n)
{
    if (!state.trial || met == NULL || small_calls(ufunc, operands, n) > 0)
        return 0;
    PyObject *said = PyObject_CallOneArg(met, ufunc);
    Py_XDECREF(said);
    return said == NULL ? -1 : 0;
}

void small_connect_met(PyObject *noted) { Py_XSETREF(met, Py_NewRef(noted)); }

int small_connect_moving(PyObject *table, uint64_t mirrors, uint64_t mirrored)
{
    base = mirrors;
    extent = mirrored;
    name_moving = PyUnicode_InternFromString("moving");
    Py_XSETREF(grants, Py_NewRef(table));
    return PyErr_Occurred() ? -1 : 0;
}

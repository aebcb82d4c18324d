/* Slices that were made before of the same view, and assignments to them: `elements.part_of` and `known.assignment`. */
#include "views.h"

static PyObject *slices; /* elements.SLICES */
static Py_ssize_t view_token;

/* What tells a slice from others, as elements.sliced; 0 for other indices, and for those of elements. */
static Py_ssize_t bounds(PyObject *index, PyObject **found)
{
    PyObject *const *parts = PyTuple_CheckExact(index) ? &PyTuple_GET_ITEM(index, 0) : &index;
    Py_ssize_t n = PyTuple_CheckExact(index) ? PyTuple_GET_SIZE(index) : 1, count = 0;
    int element = 1, alone = parts == &index;
    for (Py_ssize_t k = 0; k < n; k++) {
        if (count + 3 > SMALL_PARTS - 4)
            return 0;
        if (!alone && PyLong_CheckExact(parts[k])) {
            found[count++] = (PyObject *)&PyLong_Type;
            found[count++] = parts[k];
            continue;
        }
        element = 0;
        if (parts[k] == Py_None || parts[k] == Py_Ellipsis) {
            found[count++] = (PyObject *)Py_TYPE(parts[k]);
            continue;
        }
        if (!PySlice_Check(parts[k]))
            return 0;
        PySliceObject *slice = (PySliceObject *)parts[k];
        PyObject *three[] = {slice->start, slice->stop, slice->step};
        for (int m = 0; m < 3; m++) {
            if (three[m] != Py_None && !PyLong_CheckExact(three[m]))
                return 0;
            found[count++] = three[m];
        }
    }
    return element ? 0 : count;
}

enum { CUTS = 1 << 8, CUTS_PARTS = 8 };

/* Slices that were looked up last, by the objects of their names: a place of the program brings the same ones again. */
static struct { PyObject *names[CUTS_PARTS], *known; Py_ssize_t n; } cuts[CUTS];

/* What is known of the slice of this name: form, view, mirror, and whose mirror; borrowed, NULL if nothing is. */
static PyObject *known_of(PyObject *const *names, Py_ssize_t n)
{
    size_t hash = 0;
    for (Py_ssize_t k = 0; k < n; k++)
        hash = (hash ^ (size_t)names[k] >> 4) * 0x9E3779B97F4A7C15u;
    size_t place = (hash ^ hash >> 32) % CUTS;
    if (PyDict_GET_SIZE(slices) && cuts[place].n == n && !memcmp(cuts[place].names, names, n * sizeof *names))
        return cuts[place].known;
    PyObject *known = small_found(slices, names, n);
    if (known == NULL || PyTuple_GET_SIZE(known) == 0) /* it was seen once */
        return NULL;
    if (n > CUTS_PARTS)
        return known;
    PyObject *gone[CUTS_PARTS + 1] = {cuts[place].known};
    Py_ssize_t before = cuts[place].n;
    memcpy(gone + 1, cuts[place].names, sizeof cuts[place].names);
    for (Py_ssize_t k = 0; k < n; k++)
        cuts[place].names[k] = Py_NewRef(names[k]);
    cuts[place].known = Py_NewRef(known);
    cuts[place].n = n;
    for (Py_ssize_t k = 0; before && k <= before; k++)
        Py_DECREF(gone[k]);
    return known;
}

enum { LOOKS = 1 << 10, LOOKS_RANK = 4 };

/* What arrays looked like, in the memory of an owner whose view is known, and the form and the view that they have. */
static struct Look {
    PyObject *owner, *form, *part; /* the owner's view */
    PyArray_Descr *type;
    npy_intp offset, shape[LOOKS_RANK], strides[LOOKS_RANK];
    int rank;
} looks[LOOKS];

/* Where what `x` looks like is kept; NULL if that is not its owner's memory, seen where it lies. */
static struct Look *look_of(Array *x, struct Look *look)
{
    Array *owner = (Array *)x->owner;
    if (absent(x->owner) || !state.sees || x->meta != x->memory || absent(owner->memory) || absent(owner->part)
            || x->storage != owner->storage)
        return NULL;
    PyArrayObject *meta = (PyArrayObject *)x->meta;
    look->rank = PyArray_NDIM(meta);
    if (look->rank > LOOKS_RANK)
        return NULL;
    look->owner = owner->part;
    look->type = PyArray_DESCR(meta);
    look->offset = PyArray_BYTES(meta) - PyArray_BYTES((PyArrayObject *)owner->memory);
    size_t hash = ((size_t)owner->part >> 4) + (size_t)look->offset;
    for (int d = 0; d < look->rank; d++) {
        look->shape[d] = PyArray_DIM(meta, d);
        look->strides[d] = PyArray_STRIDE(meta, d);
        hash = (hash ^ (size_t)look->shape[d]) * 0x9E3779B97F4A7C15u + (size_t)look->strides[d];
    }
    return &looks[(hash ^ hash >> 32) % LOOKS];
}

int small_located(Array *x)
{
    struct Look now, *before = look_of(x, &now);
    if (before == NULL || before->owner != now.owner || before->type != now.type || before->offset != now.offset
            || before->rank != now.rank || memcmp(before->shape, now.shape, now.rank * sizeof *now.shape)
            || memcmp(before->strides, now.strides, now.rank * sizeof *now.strides))
        return 0;
    Py_XSETREF(x->form, Py_NewRef(before->form));
    Py_XSETREF(x->part, Py_NewRef(before->part));
    return 1;
}

void small_note_located(Array *x)
{
    struct Look now, *kept = look_of(x, &now), old;
    if (kept == NULL || absent(x->part) || absent(x->form))
        return;
    now.form = Py_NewRef(x->form);
    now.part = Py_NewRef(x->part);
    Py_INCREF(now.owner);
    Py_INCREF(now.type);
    old = *kept;
    *kept = now;
    Py_XDECREF(old.owner);
    Py_XDECREF(old.form);
    Py_XDECREF(old.part);
    Py_XDECREF(old.type);
}

/* Is `value` the part of `x` that an index selects, in memory that is known? */
static int same_part(Array *x, PyObject *index, Array *value)
{
    if (absent(x->memory) || absent(value->memory) || value->meta != value->memory)
        return 0;
    PyObject *part = small_part(x->memory, index);
    if (part == NULL) {
        PyErr_Clear();
        return 0;
    }
    int same = small_same((PyArrayObject *)part, (PyArrayObject *)value->memory);
    small_drop(part);
    return same;
}

int small_known_assignment(Array *x, PyObject *index, PyObject *value)
{
    PyObject *names[SMALL_PARTS];
    if (small_seek(value) < 0) /* first: it runs Python's code */
        return -1;
    Py_ssize_t n = slices == NULL || absent(x->part) ? 0 : bounds(index, names + 2);
    if (n == 0)
        return 0;
    names[1] = SLOT(x->part, view_token);
    if (small_is_ours(value) && ((Array *)value)->storage == x->storage) { /* `x[index] += y` ends so */
        if (same_part(x, index, (Array *)value))
            return PyArray_ISWRITEABLE((PyArrayObject *)x->meta);
        PyObject *known = small_found(slices, names + 1, n + 1);
        if (known == NULL)
            return PyErr_Occurred() ? -1 : 0;
        return PyTuple_GET_SIZE(known) > 1 && PyTuple_GET_ITEM(known, 1) == ((Array *)value)->part
               && !absent(((Array *)value)->part) && PyArray_ISWRITEABLE((PyArrayObject *)x->meta);
    }
    return small_known_put(names, n + 2, x, index, value);
}

PyObject *small_known_slice(Array *x, PyObject *index, PyObject *found)
{
    PyObject *names[SMALL_PARTS], *memory = NULL;
    Py_ssize_t n = slices == NULL || absent(x->part) ? 0 : bounds(index, names + 1);
    if (n == 0)
        return NULL;
    names[0] = SLOT(x->part, view_token);
    PyObject *known = Py_XNewRef(known_of(names, n + 1));
    int hosted = x->meta == x->memory;
    if (known != NULL && !absent(x->memory) && (hosted || (state.sees && small_readable(x) > 0))) {
        memory = found != NULL ? Py_NewRef(found) : small_part(x->memory, index);
        if (memory == NULL && !PyErr_Occurred())
            memory = PyObject_GetItem(x->memory, index);
    }
    if (PyErr_Occurred() || known == NULL || (!hosted && PyTuple_GET_ITEM(known, 3) != x->meta)) {
        Py_XDECREF(memory);
        Py_XDECREF(known);
        return NULL;
    }
    Array *part = small_blank();
    if (part != NULL) {
        part->form = Py_NewRef(PyTuple_GET_ITEM(known, 0));
        part->part = Py_NewRef(PyTuple_GET_ITEM(known, 1));
        part->meta = Py_NewRef(hosted ? memory : PyTuple_GET_ITEM(known, 2));
        part->memory = Py_NewRef(memory != NULL ? memory : Py_None);
        part->storage = Py_NewRef(x->storage == NULL ? Py_None : x->storage);
        part->owner = Py_NewRef(absent(x->owner) ? (PyObject *)x : x->owner);
    }
    Py_XDECREF(memory);
    Py_DECREF(known);
    return (PyObject *)part;
}

int small_connect_slices(PyObject *parts)
{
    PyObject *view = PyDict_GetItemString(parts, "View"), *found = PyDict_GetItemString(parts, "SLICES");
    if (view == NULL || found == NULL) {
        PyErr_SetString(PyExc_KeyError, "View and SLICES");
        return -1;
    }
    if ((view_token = small_slot(view, "token")) < 0)
        return -1;
    Py_XSETREF(slices, Py_NewRef(found));
    return 0;
}

/* Slices that were made before of the same view, and assignments to them: `elements.part_of` and `known.assignment`. */
#include "small.h"

static PyObject *slices, *looked; /* elements.SLICES and LOOKED */
static long most_looks;           /* elements.LOOKS */
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
    PyObject *known = Py_XNewRef(small_found(slices, names, n + 1)); /* form, view, mirror, and whose mirror */
    int hosted = x->meta == x->memory, seen = known != NULL && PyTuple_GET_SIZE(known) > 0;
    if (seen && !absent(x->memory) && (hosted || (state.sees && small_readable(x) > 0)))
        memory = found != NULL ? Py_NewRef(found) : PyObject_GetItem(x->memory, index);
    if (PyErr_Occurred() || !seen || (!hosted && PyTuple_GET_ITEM(known, 3) != x->meta)) {
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

/* May a slice of an array at hand that is not kept be looked at without finding its view?  Counts how often. */
static int looks(PyObject *const *names, Py_ssize_t n)
{
    PyObject *before = small_found(looked, names, n);
    long times = before == NULL ? 0 : PyLong_AsLong(before);
    if (times >= most_looks || PyErr_Occurred())
        return 0;
    PyObject *key = PyTuple_New(n), *more = PyLong_FromLong(times + 1);
    for (Py_ssize_t k = 0; key != NULL && k < n; k++)
        PyTuple_SET_ITEM(key, k, Py_NewRef(names[k]));
    int done = key != NULL && more != NULL && PyObject_SetItem(looked, key, more) == 0; /* by its class: bounded */
    Py_XDECREF(key);
    Py_XDECREF(more);
    return done;
}

PyObject *small_look(Array *x, PyObject *index, PyObject *found)
{
    PyObject *names[SMALL_PARTS];
    Py_ssize_t n = slices == NULL || absent(x->part) ? 0 : bounds(index, names + 1);
    names[0] = n == 0 ? NULL : SLOT(x->part, view_token);
    PyObject *known = n == 0 ? NULL : small_found(slices, names, n + 1);
    if (n == 0 || known != NULL || !looks(names, n + 1))
        return NULL;
    return small_looking(x, found);
}

int small_connect_slices(PyObject *parts)
{
    PyObject *view = PyDict_GetItemString(parts, "View"), *found = PyDict_GetItemString(parts, "SLICES");
    PyObject *seen = PyDict_GetItemString(parts, "LOOKED"), *most = PyDict_GetItemString(parts, "LOOKS");
    if (view == NULL || found == NULL || seen == NULL || most == NULL) {
        PyErr_SetString(PyExc_KeyError, "View, SLICES, LOOKED or LOOKS");
        return -1;
    }
    if ((view_token = small_slot(view, "token")) < 0)
        return -1;
    most_looks = PyLong_AsLong(most);
    Py_XSETREF(looked, Py_NewRef(seen));
    Py_XSETREF(slices, Py_NewRef(found));
    return 0;
}

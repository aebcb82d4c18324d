/* Slices that were made before of the same view, and assignments to them: `elements.part_of` and `known.assignment`. */
#include "small.h"

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

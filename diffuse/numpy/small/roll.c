/* `numpy.roll` by as much as before on the same view: known.rolled in C, and gates.watched around it. */
#include "gate.h"
#include "record.h"

static PyObject *pythons_rolled, *pythons_again_into; /* of the module `known` */
static PyObject *name_roll, *name_called, *one;
static Py_ssize_t engine_waits, waits_calls;

/* The roll of an array that was recorded before; a new reference. */
static int look_up(PyObject *x, PyObject *shift, PyObject *axis, PyObject **known)
{
    *known = NULL;
    if (Py_TYPE(x) != state.array_class || !PyLong_CheckExact(shift) || (axis != Py_None && !PyLong_CheckExact(axis)))
        return ASK;
    if (small_seek(x) < 0)
        return FAILED;
    PyObject *names[] = {name_roll, small_name_of(x), shift, axis};
    return names[1] == NULL ? ASK : small_look_up(names, 4, known);
}

/* Record the parts of a roll again: of `templates`, the first one makes the store. */
static int rolled(PyObject *known, Array *a, PyObject **found, int depth)
{
    PyObject *templates = SLOT(known, known_template), *values = SLOT(known, known_values);
    PyObject *storage = Py_NewRef(a->storage);
    *found = small_result_of(known);
    int done = *found == NULL ? FAILED : DONE;
    for (Py_ssize_t k = 0; done == DONE && k < PyList_GET_SIZE(templates); k++) {
        PyObject *template = PyList_GET_ITEM(templates, k), *out = ((Array *)*found)->storage;
        done = small_again(template, NULL, &storage, 1, out, k ? NULL : SLOT(known, known_frame), values, depth);
        if (done == 0 && k == 0)
            done = ASK;
        else if (done == 0) { /* no room in the window, say */
            PyObject *again = PyObject_CallFunction(pythons_again_into, "O(O)OOi", template, storage, out, values, depth);
            done = again == NULL ? FAILED : DONE;
            Py_XDECREF(again);
        }
    }
    if (done != DONE)
        Py_CLEAR(*found);
    Py_DECREF(storage);
    return done;
}

PyObject *small_known_roll(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    PyObject *known = NULL, *found = NULL;
    int done = n == 3 ? look_up(args[0], args[1], args[2], &known) : ASK;
    if (done == DONE)
        done = rolled(known, (Array *)args[0], &found, 2);
    Py_XDECREF(known);
    return done == DONE ? found : done == FAILED ? NULL : done == UNKNOWN ? Py_NewRef(Py_None)
           : PyObject_Vectorcall(pythons_rolled, args, n, NULL);
}

/* Tell the engine that a call at this place recorded one task: Waits.called. */
static int called(PyObject *place)
{
    PyObject *waits = SLOT(state.engine, engine_waits);
    PyObject *begun = PyLong_FromSsize_t(PyList_GET_SIZE(SLOT(waits, waits_calls)));
    PyObject *args[] = {waits, place, one, begun};
    PyObject *said = begun == NULL ? NULL : PyObject_VectorcallMethod(name_called, args, 4, NULL);
    Py_XDECREF(begun);
    Py_XDECREF(said);
    return said == NULL ? FAILED : DONE;
}

PyObject *small_roll_again(Gate *gate, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    Py_ssize_t all = small_count(n, kwnames);
    if (pythons_rolled == NULL || n < 2 || all > 3 || (all > n && small_keyword(kwnames, "axis") != 0))
        return NULL;
    PyObject *line = small_line(), *known = NULL, *found = NULL;
    PyObject *key[] = {gate->watched, line}, *place = line == NULL ? NULL : Py_XNewRef(small_found(state.places, key, 2));
    int done = place == NULL ? ASK : look_up(args[0], args[1], all == 3 ? args[2] : Py_None, &known);
    if (done == DONE && PyList_GET_SIZE(SLOT(known, known_template)) == 1)
        done = rolled(known, (Array *)args[0], &found, 0);
    if (found != NULL && called(place) == FAILED)
        Py_CLEAR(found);
    Py_XDECREF(known);
    Py_XDECREF(place);
    Py_XDECREF(line);
    return found;
}

int small_connect_roll(PyObject *stream, PyObject *known)
{
    PyObject *engine = PyDict_GetItemString(stream, "Engine"), *waits = PyDict_GetItemString(stream, "Waits");
    pythons_rolled = Py_XNewRef(PyDict_GetItemString(known, "rolled"));
    pythons_again_into = Py_XNewRef(PyDict_GetItemString(known, "again_into"));
    if (engine == NULL || waits == NULL || pythons_rolled == NULL || pythons_again_into == NULL) {
        PyErr_SetString(PyExc_KeyError, "Engine, Waits, rolled or again_into");
        return -1;
    }
    name_roll = PyUnicode_InternFromString("roll");
    name_called = PyUnicode_InternFromString("called");
    one = PyLong_FromLong(1);
    if ((engine_waits = small_slot(engine, "waits")) < 0 || (waits_calls = small_slot(waits, "calls")) < 0)
        return -1;
    return PyErr_Occurred() ? -1 : 0;
}

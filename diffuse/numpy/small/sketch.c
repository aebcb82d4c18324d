/* Rows of sketches: `uses_of` of diffuse/stream/sketch.py in C, which says what all of this means. */
#include "small.h"

static Py_ssize_t view_form, form_bounds, form_plain, form_last;
static PyObject *form_of, *reading, *name_cuts, *numerals[4], *empty;
static PyTypeObject *view_type, *form_type;

enum { SAME, ALIGNED, ALIAS, APART, UNKNOWN = -2 }; /* -1: an exception */
enum { VIEW, BOUNDS, CUTS, FRAME, DTYPE, PLAIN, PARTS };

#define PART(place, k) PyTuple_GET_ITEM(place, k)

static int equal(PyObject *a, PyObject *b) { return a == b || PyObject_RichCompareBool(a, b, Py_EQ) == 1; }

/* Is each launch dimension of several points in one of the cuts that `both` does not leave out? */
static int all_cut(PyObject *place, PyObject *other, PyObject *domain)
{
    PyObject *cuts = PART(place, CUTS), *theirs = PART(other, CUTS);
    for (Py_ssize_t d = 0; d < PyTuple_GET_SIZE(domain); d++) {
        int cut = PyLong_AsLongLong(PyTuple_GET_ITEM(domain, d)) <= 1;
        for (Py_ssize_t k = 0; !cut && k < PyTuple_GET_SIZE(cuts); k++) {
            PyObject *entry = PyTuple_GET_ITEM(cuts, k);
            if (PyLong_AsLongLong(PyTuple_GET_ITEM(entry, 1)) != d)
                continue;
            cut = place == other;
            for (Py_ssize_t m = 0; !cut && m < PyTuple_GET_SIZE(theirs); m++)
                if (equal(entry, PyTuple_GET_ITEM(theirs, m))) {
                    Py_ssize_t row = PyLong_AsSsize_t(PyTuple_GET_ITEM(entry, 0));
                    cut = equal(PyTuple_GET_ITEM(PyTuple_GET_ITEM(PART(place, BOUNDS), row), 0),
                                PyTuple_GET_ITEM(PyTuple_GET_ITEM(PART(other, BOUNDS), row), 0));
                }
        }
        if (!cut)
            return 0;
    }
    return 1;
}

static int related(PyObject *place, PyObject *other, PyObject *domain, int several)
{
    if (place == other)
        return !several || all_cut(place, other, domain) ? SAME : ALIAS;
    if (!equal(PART(place, FRAME), PART(other, FRAME)) || !equal(PART(place, DTYPE), PART(other, DTYPE)))
        return several ? ALIAS : ALIGNED;
    if (PART(place, PLAIN) != Py_True || PART(other, PLAIN) != Py_True)
        return UNKNOWN;
    PyObject *bounds = PART(place, BOUNDS), *others = PART(other, BOUNDS);
    for (Py_ssize_t d = 0; d < PyTuple_GET_SIZE(bounds); d++) {
        PyObject *mine = PyTuple_GET_ITEM(bounds, d), *theirs = PyTuple_GET_ITEM(others, d);
        if (PyLong_AsLongLong(PyTuple_GET_ITEM(mine, 1)) <= PyLong_AsLongLong(PyTuple_GET_ITEM(theirs, 0))
                || PyLong_AsLongLong(PyTuple_GET_ITEM(theirs, 1)) <= PyLong_AsLongLong(PyTuple_GET_ITEM(mine, 0)))
            return APART;
    }
    return several && !all_cut(place, other, domain) ? ALIAS : ALIGNED;
}

/* The place of a use: a new reference; NULL, without an exception unless one was raised, if its view has no form. */
static PyObject *place_of(PyObject *use, PyObject *splits)
{
    PyObject *view = PyTuple_GET_ITEM(use, 2), *cuts = NULL;
    if (!Py_IS_TYPE(view, view_type))
        return NULL;
    if (SLOT(view, view_form) == Py_None)
        Py_XDECREF(PyObject_CallOneArg(form_of, view)); /* which keeps what it finds */
    PyObject *form = SLOT(view, view_form);
    if (PyErr_Occurred() || !Py_IS_TYPE(form, form_type))
        return NULL;
    if (PyTuple_GET_SIZE(splits) == 0)
        cuts = Py_NewRef(empty);
    else if (PART(SLOT(form, form_last), 0) == splits)
        cuts = Py_NewRef(PART(SLOT(form, form_last), 1));
    else if ((cuts = PyObject_CallMethodOneArg(form, name_cuts, splits)) == NULL)
        return NULL;
    PyObject *place = PyTuple_Pack(PARTS, view, SLOT(form, form_bounds), cuts, PyTuple_GET_ITEM(use, 0),
                                   PyTuple_GET_ITEM(use, 1), SLOT(form, form_plain));
    Py_DECREF(cuts);
    return place;
}

/* Which of these places is equal; their number if none is, -1 with an exception. */
static Py_ssize_t found_among(PyObject *places, PyObject *place)
{
    static const int ORDER[] = {BOUNDS, CUTS, VIEW, FRAME, DTYPE};
    Py_ssize_t k = 0;
    for (; k < PyList_GET_SIZE(places) && !PyErr_Occurred(); k++) {
        int same = 1;
        for (size_t part = 0; same && part < sizeof ORDER / sizeof *ORDER; part++)
            same = equal(PART(PyList_GET_ITEM(places, k), ORDER[part]), PART(place, ORDER[part]));
        if (same)
            break;
    }
    return PyErr_Occurred() ? -1 : k;
}

/* Append to an entry the relation to one of the places; 0 if it cannot be told, -1 with an exception. */
static int add_relation(PyObject *entry, PyObject *place, PyObject *places, Py_ssize_t k, PyObject *domain, int several)
{
    int relation = related(place, PyList_GET_ITEM(places, k), domain, several);
    if (PyErr_Occurred())
        return -1;
    if (relation == APART || relation == UNKNOWN)
        return relation == APART;
    PyObject *number = PyLong_FromSsize_t(k);
    int done = number == NULL || PyList_Append(entry, number) < 0 || PyList_Append(entry, numerals[relation]) < 0;
    Py_XDECREF(number);
    return done ? -1 : 1;
}

/* Append what a row says of a use of the places of its slot, whose number in them is `known`: 0 if there is no row, -1
 * with an exception. */
static int append(PyObject *row, PyObject *number, PyObject *slot, PyObject *place, Py_ssize_t known, int read, int old,
                  PyObject *domain, int several)
{
    PyObject *places = PyTuple_GET_ITEM(slot, 0), *written = PyTuple_GET_ITEM(slot, 1);
    PyObject *mine = PyLong_FromSsize_t(known), *entry = PyList_New(0), *said = NULL;
    int done = mine == NULL || entry == NULL || PyList_Append(entry, number) < 0 || PyList_Append(entry, mine) < 0
               ? -1 : 1;
    if (done > 0 && !(old && (read || PyDict_Contains(written, mine) == 1))) {
        PyObject *begin = PyList_GET_ITEM(places, 0);
        int first = known == 0 || (equal(PART(place, FRAME), PART(begin, FRAME))
                                   && equal(PART(place, DTYPE), PART(begin, DTYPE)));
        if (PyList_Append(entry, first ? Py_True : Py_False) < 0 || (!read && PyDict_SetItem(written, mine, Py_None) < 0))
            done = -1;
        PyObject *key, *value;
        for (Py_ssize_t at = 0; read && done > 0 && PyDict_Next(written, &at, &key, &value);)
            done = add_relation(entry, place, places, PyLong_AsSsize_t(key), domain, several);
        for (Py_ssize_t k = 0; !read && done > 0 && k < PyList_GET_SIZE(places); k++)
            done = add_relation(entry, place, places, k, domain, several);
    }
    if (done > 0 && ((said = PyList_AsTuple(entry)) == NULL || PyList_Append(row, said) < 0))
        done = -1;
    Py_XDECREF(said);
    Py_XDECREF(mine);
    Py_XDECREF(entry);
    return PyErr_Occurred() ? -1 : done;
}

/* As `append`, for a use of the store with this number. */
static int add_use(PyObject *row, PyObject *slots, PyObject *use, PyObject *number, PyObject *splits, PyObject *domain,
                   int several)
{
    PyObject *place = place_of(use, splits), *slot = place == NULL ? NULL : PyDict_GetItemWithError(slots, number);
    int read = PyTuple_GET_ITEM(use, 3) == reading, done = -1;
    if (place == NULL)
        return PyErr_Occurred() ? -1 : 0;
    if (slot == NULL && !PyErr_Occurred() && (slot = Py_BuildValue("[]{}")) != NULL) {
        int kept = PyDict_SetItem(slots, number, slot);
        Py_DECREF(slot); /* the dictionary holds it */
        slot = kept < 0 ? NULL : slot;
    }
    PyObject *places = slot == NULL ? NULL : PyTuple_GET_ITEM(slot, 0);
    Py_ssize_t known = places == NULL ? -1 : found_among(places, place);
    if (known >= 0) {
        int old = known < PyList_GET_SIZE(places);
        if (old)
            Py_SETREF(place, Py_NewRef(PyList_GET_ITEM(places, known)));
        if (old || PyList_Append(places, place) == 0)
            done = append(row, number, slot, place, known, read, old, domain, several);
    }
    Py_DECREF(place);
    return done;
}

PyObject *small_uses_of(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    if (n != 7 || !PyList_Check(args[0]) || !PyDict_Check(args[1]) || !PyTuple_Check(args[2]) || !PyList_Check(args[3])
            || !PyTuple_Check(args[4]) || !PyTuple_Check(args[5])
            || PyTuple_GET_SIZE(args[2]) != PyList_GET_SIZE(args[3]))
        return PyErr_Format(PyExc_TypeError, "uses_of: expected a row, slots, uses, as many numbers, splits, a domain, "
                                             "and whether there are several points");
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(args[2]); k++) {
        int done = add_use(args[0], args[1], PyTuple_GET_ITEM(args[2], k), PyList_GET_ITEM(args[3], k), args[4], args[5],
                           args[6] == Py_True);
        if (done < 0)
            return NULL;
        if (done == 0)
            Py_RETURN_FALSE;
    }
    Py_RETURN_TRUE;
}

int small_connect_sketch(PyObject *parts)
{
    PyObject *view = PyDict_GetItemString(parts, "View"), *form = PyDict_GetItemString(parts, "Form");
    PyObject *finder = PyDict_GetItemString(parts, "form"), *read = PyDict_GetItemString(parts, "READ");
    if (view == NULL || form == NULL || finder == NULL || read == NULL) {
        PyErr_SetString(PyExc_KeyError, "View, Form, form or READ");
        return -1;
    }
    if ((view_form = small_slot(view, "form")) < 0 || (form_bounds = small_slot(form, "bounds")) < 0
            || (form_plain = small_slot(form, "plain")) < 0 || (form_last = small_slot(form, "_last")) < 0)
        return -1;
    view_type = (PyTypeObject *)Py_NewRef(view);
    form_type = (PyTypeObject *)Py_NewRef(form);
    form_of = Py_NewRef(finder);
    reading = Py_NewRef(read);
    empty = PyTuple_New(0);
    name_cuts = PyUnicode_InternFromString("cuts");
    for (int k = 0; k < 4; k++)
        numerals[k] = PyLong_FromLong(k);
    return PyErr_Occurred() ? -1 : 0;
}

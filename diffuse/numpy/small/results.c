/* What the program gets of a result of NumPy: that array, one of Diffuse's, or one of the arguments. */
#include "gate.h"

/* Is `base` the memory that an array holds, so that a view of it is a view of the array? */
static int viewed(Array *x, PyObject *base)
{
    return x->meta == x->memory && (base == x->memory || base == PyArray_BASE((PyArrayObject *)x->memory));
}

/* May there be an array in a tuple? */
static int holds_arrays(PyObject *tuple)
{
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(tuple); k++)
        if (!PyLong_CheckExact(PyTuple_GET_ITEM(tuple, k)))
            return 1;
    return 0;
}

/* Is `array` a few elements of memory that NumPy has just made, which no argument can share? */
static int fresh(PyObject *x, Found *found)
{
    if (!PyArray_CheckExact(x) || size_of(x) >= state.tiny)
        return 0;
    PyObject *base = PyArray_BASE((PyArrayObject *)x);
    if (base == NULL)
        return 1;
    if (!PyArray_CheckExact(base) || PyArray_BASE((PyArrayObject *)base) != NULL || Py_REFCNT(base) > 8
            || !PyArray_CHKFLAGS((PyArrayObject *)base, NPY_ARRAY_OWNDATA))
        return 0;
    for (int k = 0; k < found->arrays; k++) {
        PyObject *given = found->seen[k];
        PyArrayObject *memory = (PyArrayObject *)(PyArray_CheckExact(given) ? given : ((Array *)given)->memory);
        if (absent((PyObject *)memory) || (PyObject *)memory == base || PyArray_BASE(memory) == base)
            return 0;
    }
    return 1;
}

/* Are all items of a tuple such arrays? */
static int all_fresh(PyObject *tuple, Found *found)
{
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(tuple); k++)
        if (!fresh(PyTuple_GET_ITEM(tuple, k), found))
            return 0;
    return 1;
}

/* Is an array the only view of memory that NumPy has just made, as a reshaped result is, and small and packed? */
static int sole(PyArrayObject *x)
{
    PyObject *base = PyArray_BASE(x);
    return PyArray_CheckExact(base) && Py_REFCNT(base) == 1
        && PyArray_CHKFLAGS((PyArrayObject *)base, NPY_ARRAY_OWNDATA)
        && (PyArray_CHKFLAGS(x, NPY_ARRAY_C_CONTIGUOUS) || PyArray_CHKFLAGS(x, NPY_ARRAY_F_CONTIGUOUS))
        && PyArray_SIZE(x) < state.small;
}

/* What the program gets of a part of memory that NumPy has just made, which nobody else holds: a view of an array that
 * is the whole memory.  NULL of other arrays. */
static PyObject *part_of_fresh(PyArrayObject *x)
{
    PyArrayObject *base = (PyArrayObject *)PyArray_BASE(x);
    if (!PyArray_CheckExact(base) || Py_REFCNT(base) != 1 || !PyArray_CHKFLAGS(base, NPY_ARRAY_OWNDATA)
            || !PyArray_IS_C_CONTIGUOUS(base) || PyArray_SIZE(base) >= state.small || PyArray_SIZE(x) < state.tiny
            || PyArray_DESCR(base) != PyArray_DESCR(x) || !small_native(x))
        return NULL;
    PyObject *whole = small_hosted((PyObject *)base, Py_None);
    PyObject *view = whole == NULL ? NULL : small_viewing((Array *)whole, (PyObject *)x);
    Py_XDECREF(whole);
    return view;
}

static PyObject *raised(PyObject *result, Found *found);

/* A tuple or list with what the program gets of its items, the same one if these are; steals it. */
static PyObject *with_items_raised(PyObject *result, Found *found)
{
    Py_ssize_t n = PySequence_Fast_GET_SIZE(result);
    PyObject *items = PyTuple_New(n), *made;
    int same = 1;
    for (Py_ssize_t k = 0; items != NULL && k < n; k++) {
        PyObject *before = PySequence_Fast_GET_ITEM(result, k), *item = raised(Py_NewRef(before), found);
        same &= item == before;
        if (item == NULL)
            Py_CLEAR(items);
        else
            PyTuple_SET_ITEM(items, k, item);
    }
    if (items == NULL || same)
        made = items == NULL ? NULL : Py_NewRef(result);
    else if (PyList_CheckExact(result))
        made = PySequence_List(items);
    else if (PyTuple_CheckExact(result))
        made = Py_NewRef(items);
    else if (PyObject_HasAttrString(result, "_fields"))
        made = PyObject_CallObject((PyObject *)Py_TYPE(result), items);
    else
        made = PyObject_CallOneArg((PyObject *)Py_TYPE(result), items);
    Py_XDECREF(items);
    Py_DECREF(result);
    return made;
}

/* What the program gets of a result of NumPy; steals it. */
static PyObject *raised(PyObject *result, Found *found)
{
    if (PyArray_CheckExact(result)) {
        PyObject *base = PyArray_BASE((PyArrayObject *)result);
        int own = 0, whose = -1;
        for (int k = 0; k < found->arrays; k++) {
            PyObject *x = found->seen[k];
            PyObject *memory = PyArray_CheckExact(x) ? x : ((Array *)x)->memory;
            if (memory == result)
                whose = k;
            own |= base != NULL && x == memory && (base == x || base == PyArray_BASE((PyArrayObject *)x));
        }
        if (whose >= 0) {
            Py_DECREF(result);
            return Py_NewRef(found->seen[whose]);
        }
        if (base == NULL || sole((PyArrayObject *)result))
            return small_given(result);
        PyObject *part = part_of_fresh((PyArrayObject *)result);
        if (part != NULL || PyErr_Occurred()) {
            Py_DECREF(result);
            return part;
        }
        if (found->wrapped == 1 && found->arrays == 1 && viewed((Array *)found->seen[0], base)) {
            PyObject *view = small_viewing((Array *)found->seen[0], result);
            Py_DECREF(result);
            return view;
        }
        if (!found->wrapped && (own || PyArray_SIZE((PyArrayObject *)result) < state.tiny))
            return result;
    } else if (PyTuple_Check(result) || PyList_CheckExact(result)) {
        if (PyTuple_CheckExact(result) && (!holds_arrays(result) || all_fresh(result, found)))
            return result; /* a shape, say, or indices */
        return with_items_raised(result, found);
    } else if (!PyArray_Check(result)) /* an array of a derived class may show the memory of an argument */
        return result;
    PyObject *seen = PyList_New(found->arrays);
    for (int k = 0; seen != NULL && k < found->arrays; k++)
        PyList_SET_ITEM(seen, k, Py_NewRef(found->seen[k]));
    PyObject *shown = seen == NULL ? NULL : PyObject_CallFunctionObjArgs(state.raised, result, seen, NULL);
    Py_XDECREF(seen);
    Py_DECREF(result);
    return shown;
}

PyObject *small_axis(Gate *gate, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    if (!(gate->flags & FOLDS) || small_count(n, kwnames) != 2 || n == 0)
        return NULL;
    return kwnames == NULL || small_keyword(kwnames, "axis") == 0 ? args[1] : NULL;
}

PyObject *small_answer(Gate *gate, PyObject *const *low, Py_ssize_t n, PyObject *kwnames, Found *found)
{
    PyObject *result = NULL;
    if (kwnames == NULL && n == (gate->flags & ONE ? 1 : gate->flags & TWO ? 2 : -1)
            && ((result = small_call_loop(gate, low)) != NULL || PyErr_Occurred()))
        return small_shown(result);
    PyObject *axis = gate->reduces == SMALL_SUM ? small_axis(gate, low, n, kwnames) : NULL;
    result = axis != NULL ? small_sum(low[0], axis)
             : kwnames != NULL ? NULL
             : gate->selects && n == 3 ? small_where(low) : gate->likens && n == 1 ? small_zeros_like(low[0])
             : gate->sections && n == 2 ? small_sections(gate->sections, low[0], low[1]) : NULL;
    if (result == NULL && !PyErr_Occurred())
        result = PyObject_Vectorcall(gate->real, low, n, kwnames);
    if (result == NULL)
        return NULL;
    if (!PyArray_CheckExact(result) && found->arrays) /* and no number of numbers */
        small_looked();
    return raised(result, found);
}

PyObject *small_made(PyObject *result, Found *found, PyObject *place)
{
    if (!PyArray_CheckExact(result) || PyArray_BASE((PyArrayObject *)result) != NULL
            || size_of(result) < state.tiny || !small_native((PyArrayObject *)result))
        return raised(result, found);
    for (int k = 0; k < found->arrays; k++) {
        PyObject *x = found->seen[k];
        if (x == result || (!PyArray_CheckExact(x) && ((Array *)x)->memory == result))
            return raised(result, found);
    }
    PyObject *array = PyObject_CallFunctionObjArgs(state.made_at_once, result, place, NULL);
    Py_DECREF(result);
    return array;
}

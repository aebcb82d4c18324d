/* Calls whose result the program waited for alone every time: `single` of diffuse/numpy/ops/single.py in C.  NumPy, or
 * the task's own machine code, does them at once. */
#include "record.h"

static PyObject *ways; /* single.ways: how are the operations of a template done at once? */

int small_is_alone(PyObject *known) { return small_waited_for(SLOT(known, known_template), state.often); }

/* The operands of a call that the program waits for alone as NumPy gets them, and one more place. */
static int at_hand(PyObject *const *operands, Py_ssize_t n, PyObject **values)
{
    if (!state.small)
        return ASK;
    for (Py_ssize_t k = 0; k < n; k++) {
        PyObject *x = operands[k];
        values[k] = Py_TYPE(x) == state.array_class ? small_at_hand((Array *)x)
                    : small_is_pending(Py_TYPE(x)) ? NULL : Py_NewRef(x);
        if (values[k] == NULL) {
            while (k--)
                Py_CLEAR(values[k]);
            return PyErr_Occurred() ? FAILED : ASK;
        }
    }
    return DONE;
}

/* Is a task pending that writes an operand? */
static int waits(PyObject *const *operands, Py_ssize_t n)
{
    for (Py_ssize_t k = 0; k < n; k++)
        if (Py_TYPE(operands[k]) == state.array_class && !absent(((Array *)operands[k])->storage)
                && small_pending(((Array *)operands[k])->storage, 0))
            return 1;
    return 0;
}

/* How the operation of a call is done at once: a function, borrowed, or Py_True for NumPy's own; NULL where that is
 * not known, or it has to be recorded. */
static PyObject *way_of(PyObject *known)
{
    PyObject *way = PyDict_GetItemWithError(ways, SLOT(known, known_template));
    return way == Py_False ? NULL : way;
}

/* single.done: what NumPy's function, or the task's own machine code, gives. */
int small_at_once(PyObject *known, PyObject *function, PyObject *const *operands, Py_ssize_t n, PyObject **found)
{
    if (waits(operands, n))
        return LATER;
    PyObject *values[SMALL_PARTS], *template = SLOT(known, known_template), *way = way_of(known);
    int done = way == NULL ? (PyErr_Occurred() ? FAILED : ASK) : at_hand(operands, n, values);
    if (done != DONE)
        return done;
    int trusted = small_trusted(small_alone(template), state.often, state.most);
    done = trusted < 0 ? FAILED : trusted ? DONE : ASK;
    if (done == DONE) {
        PyObject *into = way == Py_True && n == 2 ? small_temporary_of(function, operands, values) : NULL;
        *found = into != NULL ? PyObject_CallFunctionObjArgs(function, values[0], values[1], into, NULL)
                 : way == Py_True ? small_loop_of_ufunc(function, values, n) : NULL;
        if (*found == NULL && !PyErr_Occurred())
            *found = PyObject_Vectorcall(way == Py_True ? function : way, values, n, NULL);
        if (*found == Py_None) {
            Py_CLEAR(*found);
            done = ASK;
        } else if (*found != NULL && PyArray_CheckExact(*found))
            Py_SETREF(*found, PyObject_CallFunctionObjArgs(state.made_at_once, *found, template, NULL));
        if (done == DONE && *found == NULL)
            done = FAILED;
    }
    while (n--)
        Py_DECREF(values[n]);
    return done;
}

/* single.written: NumPy's function writes to an array, or the part of it that an index selects gets a value. */
int small_written(PyObject *known, PyObject *function, PyObject *const *operands, Py_ssize_t n, Array *out,
                  PyObject *index)
{
    if (waits(operands, n))
        return LATER;
    PyObject *values[SMALL_PARTS];
    int done = PyArray_ISWRITEABLE((PyArrayObject *)out->meta) && way_of(known) == Py_True ? at_hand(operands, n, values)
               : PyErr_Occurred() ? FAILED : ASK;
    if (done != DONE)
        return done;
    PyObject *memory = values[n] = small_mine(out), *found = NULL;
    int trusted = memory == NULL ? 0 : small_trusted(small_alone(SLOT(known, known_template)), state.often, state.most);
    if (trusted > 0 && index == NULL)
        Py_XDECREF(found = small_into(function, values, n));
    else if (trusted > 0 && PyObject_SetItem(memory, index, values[0]) == 0)
        found = memory;
    for (; n >= 0; n--)
        Py_XDECREF(values[n]);
    return trusted > 0 ? (found == NULL ? FAILED : DONE) : PyErr_Occurred() ? FAILED : ASK;
}

int small_connect_alone(PyObject *parts)
{
    Py_XSETREF(ways, Py_XNewRef(PyDict_GetItemString(parts, "ways")));
    if (ways == NULL)
        PyErr_SetString(PyExc_KeyError, "ways");
    return ways == NULL ? -1 : 0;
}

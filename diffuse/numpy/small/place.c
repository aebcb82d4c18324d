/* The line of the program that recorded an operation: diffuse/observe/provenance.py in C, for lines that were seen. */
#include "small.h"
#include <frameobject.h>

static PyObject *provenance, *name_last; /* the module's names, of which `_last` has the code that called last */
static PyObject *where, *getframe, *one;

/* The frame so many calls of Python functions before the one that runs; a new reference. */
static PyObject *frame_at(int depth)
{
    if (depth == 0)
        return Py_XNewRef((PyObject *)PyEval_GetFrame());
    PyObject *number = PyLong_FromLong(depth), *frame = number == NULL ? NULL : PyObject_CallOneArg(getframe, number);
    Py_XDECREF(number);
    if (frame == NULL && PyErr_ExceptionMatches(PyExc_ValueError)) /* there are fewer */
        PyErr_Clear();
    return frame;
}

PyObject *small_place(int depth)
{
    PyFrameObject *frame = (PyFrameObject *)frame_at(depth); /* first: a new frame may start a collection */
    PyObject *last = PyDict_GetItemWithError(provenance, name_last), *line = NULL;
    if (frame != NULL && last != NULL && PyTuple_CheckExact(last)) {
        PyCodeObject *code = PyFrame_GetCode(frame);
        if ((PyObject *)code == PyTuple_GET_ITEM(last, 0)) {
            PyObject *instruction = PyLong_FromLong(PyFrame_GetLasti(frame));
            line = instruction == NULL ? NULL : PyDict_GetItemWithError(PyTuple_GET_ITEM(last, 1), instruction);
            Py_XDECREF(instruction);
        }
        Py_DECREF(code);
    }
    Py_XINCREF(line);
    Py_XDECREF(frame);
    return line != NULL || PyErr_Occurred() ? line : PyObject_CallOneArg(where, one);
}

PyObject *small_line(void) { return provenance == NULL ? NULL : small_place(0); }

int small_connect_place(PyObject *parts)
{
    provenance = Py_XNewRef(PyDict_GetItemString(parts, "provenance"));
    where = provenance == NULL ? NULL : Py_XNewRef(PyDict_GetItemString(provenance, "where"));
    getframe = Py_XNewRef(PySys_GetObject("_getframe"));
    name_last = PyUnicode_InternFromString("_last");
    one = PyLong_FromLong(1);
    if (where == NULL || getframe == NULL)
        PyErr_SetString(PyExc_KeyError, "provenance, its `where`, or sys._getframe");
    return PyErr_Occurred() ? -1 : 0;
}

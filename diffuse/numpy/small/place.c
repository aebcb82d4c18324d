/* The line of the program that recorded an operation: diffuse/observe/provenance.py in C, for lines that were seen. */
#include "small.h"
#include <frameobject.h>

static PyObject *provenance, *name_last; /* the module's names, of which `_last` has the code that called last */
static PyObject *where, *getframe, *one;

/* Lines that were found, by the table of the code that they are in and the instruction. */
enum { SEEN = 512 };
static struct { PyObject *lines, *line; int instruction; } seen[SEEN];

/* The line of an instruction, borrowed; NULL, without an exception unless one was raised, where Python's code has to
 * look.  What a table once has stays as it is. */
static PyObject *line_at(PyObject *lines, int instruction)
{
    size_t place = ((uintptr_t)lines / 64 * 31 + (unsigned)instruction) % SEEN;
    if (seen[place].lines == lines && seen[place].instruction == instruction)
        return seen[place].line;
    PyObject *number = PyLong_FromLong(instruction);
    PyObject *line = number == NULL ? NULL : PyDict_GetItemWithError(lines, number);
    Py_XDECREF(number);
    if (line != NULL) {
        PyObject *before = seen[place].lines, *line_before = seen[place].line;
        seen[place].lines = Py_NewRef(lines);
        seen[place].line = Py_NewRef(line);
        seen[place].instruction = instruction;
        Py_XDECREF(before);
        Py_XDECREF(line_before);
    }
    return line;
}

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
        if ((PyObject *)code == PyTuple_GET_ITEM(last, 0))
            line = line_at(PyTuple_GET_ITEM(last, 1), PyFrame_GetLasti(frame));
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

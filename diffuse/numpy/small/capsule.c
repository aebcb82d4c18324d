/* DLPack capsules (bridge/capsules.py): their destructor. */
#include "small.h"

static PyObject *ended; /* what is called with the address of a capsule that ends */

/* A consumer that refuses a capsule drops it with its exception set.  Python code cannot run then. */
static void drop_capsule(PyObject *capsule)
{
    PyObject *type, *value, *trace, *place;
    PyErr_Fetch(&type, &value, &trace);
    place = PyLong_FromVoidPtr(capsule);
    PyObject *done = place ? PyObject_CallOneArg(ended, place) : NULL;
    if (!done)
        PyErr_WriteUnraisable(ended);
    Py_XDECREF(done);
    Py_XDECREF(place);
    PyErr_Restore(type, value, trace);
}

PyObject *small_capsule_destructor(PyObject *module, PyObject *function)
{
    Py_XSETREF(ended, Py_NewRef(function));
    return PyLong_FromVoidPtr((void *)drop_capsule);
}

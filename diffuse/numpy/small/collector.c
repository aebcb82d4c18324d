/* Python's garbage collector: which objects it leaves alone. */
#include "small.h"

PyObject *small_thaw(PyObject *module, PyObject *objects)
{
    if (!PyList_Check(objects)) {
        PyErr_SetString(PyExc_TypeError, "thaw() takes a list of objects");
        return NULL;
    }
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(objects); k++) {
        PyObject *object = PyList_GET_ITEM(objects, k);
        if (PyObject_GC_IsTracked(object)) { /* it goes from the list of the frozen ones to that of the youngest */
            PyObject_GC_UnTrack(object);
            PyObject_GC_Track(object);
        }
    }
    Py_RETURN_NONE;
}

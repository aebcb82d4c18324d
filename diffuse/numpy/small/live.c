/* Which stores of a group are live, and which nobody refers to: diffuse/stream/liveness.py in C.  The loops run no Python code,
 * so no store changes meanwhile. */
#include "small.h"

static int expected(const char *name, int right)
{
    if (!right)
        PyErr_Format(PyExc_TypeError, "%s: expected the arguments of diffuse/stream/liveness.py", name);
    return right;
}

/* Is the store live once groups up to the number `taken` are taken?  A store without users counts as `missing`: 0, or -1
 * for an error.  -1 with an exception. */
static int live(PyObject *store, PyObject *alive, PyObject *users, long long taken, int missing)
{
    int held = PySet_Contains(alive, store);
    if (held)
        return held;
    PyObject *user = PyDict_GetItemWithError(users, store);
    if (user == NULL) {
        if (missing < 0 && !PyErr_Occurred())
            PyErr_SetObject(PyExc_KeyError, store);
        return PyErr_Occurred() ? -1 : 0;
    }
    long long number = PyLong_AsLongLong(user);
    return number == -1 && PyErr_Occurred() ? -1 : number > taken;
}

PyObject *small_live_bits(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    if (!expected("live_bits", n == 4 && PyDict_Check(args[0]) && PySet_Check(args[1]) && PyDict_Check(args[2])))
        return NULL;
    long long taken = PyLong_AsLongLong(args[3]);
    if (taken == -1 && PyErr_Occurred())
        return NULL;
    PyObject *found = PyBytes_FromStringAndSize(NULL, PyDict_GET_SIZE(args[0])), *store, *slot;
    Py_ssize_t place = 0, k = 0;
    while (found != NULL && PyDict_Next(args[0], &place, &store, &slot)) {
        int is = live(store, args[1], args[2], taken, -1);
        if (is < 0)
            Py_CLEAR(found);
        else
            PyBytes_AS_STRING(found)[k++] = (char)is;
    }
    return found;
}

PyObject *small_unreferenced(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    if (!expected("unreferenced", n == 5 && PySet_Check(args[0]) && PySet_Check(args[1]) && PyDict_Check(args[2])
                                      && PyDict_Check(args[4])))
        return NULL;
    long long taken = PyLong_AsLongLong(args[3]);
    if (taken == -1 && PyErr_Occurred())
        return NULL;
    PyObject *gone = PyList_New(0), *held = PyList_New(0), *stores = PySequence_List(args[0]);
    int failed = gone == NULL || held == NULL || stores == NULL;
    for (Py_ssize_t k = 0; !failed && k < PyList_GET_SIZE(stores); k++) {
        PyObject *store = PyList_GET_ITEM(stores, k);
        int is = live(store, args[1], args[2], taken, 0);
        int has = is ? 0 : PyDict_Contains(args[4], store);
        failed = is < 0 || has < 0 || (!is && PyList_Append(gone, store) < 0)
                 || (has && PyList_Append(held, store) < 0);
    }
    PyObject *found = failed ? NULL : PyTuple_Pack(2, gone, held);
    Py_XDECREF(gone);
    Py_XDECREF(held);
    Py_XDECREF(stores);
    return found;
}

PyObject *small_forget(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    if (!expected("forget", n == 2 && PyDict_Check(args[0]) && PyList_Check(args[1])))
        return NULL;
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(args[1]); k++) {
        PyObject *store = PyList_GET_ITEM(args[1], k);
        int has = PyDict_Contains(args[0], store);
        if (has < 0 || (has && PyDict_DelItem(args[0], store) < 0))
            return NULL;
    }
    Py_RETURN_NONE;
}

/* The handles of stores (`Storage` of diffuse/stream/stores.py): how one is made and how one ends. */
#include "stream.h"

static PyTypeObject *handle_type;

/* The memory of handles that ended, for the next ones: most results live no longer than one expression. */
enum { SPARE = 128 };
static PyObject *spare[SPARE];
static int spares;

int small_is_handle(PyObject *x) { return handle_type != NULL && Py_IS_TYPE(x, handle_type); }

PyObject *small_store(void)
{
    if (spares == 0)
        return handle_type->tp_alloc(handle_type, 0);
    PyObject *x = PyObject_Init(spare[--spares], handle_type);
    PyObject_GC_Track(x);
    return x;
}

/* `Storage.__del__`. */
static void ended(PyObject *storage)
{
    PyObject *stores = SLOT(storage, storage_stores), *id = SLOT(storage, storage_id);
    if (stores == NULL || id == NULL) /* an interrupt came before it was made */
        return;
    PyObject *type, *error, *traceback;
    PyErr_Fetch(&type, &error, &traceback);
    int known = PySet_Discard(SLOT(stores, stores_alive), id);
    if (known >= 0 && SLOT(storage, storage_holders) != NULL && PyDict_DelItem(SLOT(stores, stores_shown), id) < 0
            && PyErr_ExceptionMatches(PyExc_KeyError))
        PyErr_Clear();
    PyObject *user = PyErr_Occurred() ? NULL : PyDict_GetItemWithError(SLOT(stores, stores_users), id);
    if (!PyErr_Occurred() && small_number_in(user) <= small_number_in(SLOT(stores, stores_taken))) {
        int running = PySet_Contains(SLOT(stores, stores_running), id);
        if (running == 0)
            Py_XDECREF(PyObject_CallMethod(stores, "release", "O", id));
    }
    if (PyErr_Occurred())
        PyErr_WriteUnraisable(storage);
    PyErr_Restore(type, error, traceback);
}

/* The end of a handle without references.  Somebody may get one to it meanwhile, as an exception of a signal's handler
 * is reported with it: is it still held?  Then its end does not come again. */
static int has_holders(PyObject *x)
{
    Py_SET_REFCNT(x, 1);
    ended(x);
    if (Py_REFCNT(x) > 1) {
        Py_CLEAR(SLOT(x, storage_stores));
        Py_SET_REFCNT(x, Py_REFCNT(x) - 1);
        PyObject_GC_Track(x);
        return 1;
    }
    Py_SET_REFCNT(x, 0);
    return 0;
}

/* `tp_dealloc` of the class. */
static void dropped(PyObject *x)
{
    const Py_ssize_t slots[] = {storage_id, storage_frame, storage_touched, storage_written, storage_version,
                                storage_exported, storage_holders, storage_crowd, storage_stores};
    PyTypeObject *type = Py_TYPE(x);
    int collected = PyObject_GC_IsFinalized(x); /* its end came when the collector found it in a circle */
    PyObject_GC_UnTrack(x);
    if (SLOT(x, type->tp_weaklistoffset) != NULL)
        PyObject_ClearWeakRefs(x);
    if (!collected && has_holders(x))
        return;
    for (size_t k = 0; k < sizeof slots / sizeof *slots; k++)
        Py_CLEAR(SLOT(x, slots[k]));
    if (!collected && spares < SPARE)
        spare[spares++] = x;
    else
        type->tp_free(x);
    Py_DECREF(type);
}

int small_connect_handles(PyTypeObject *type)
{
    handle_type = type;
    type->tp_finalize = ended; /* `__del__` of the class stays what says what it does */
    type->tp_dealloc = dropped;
    return 0;
}

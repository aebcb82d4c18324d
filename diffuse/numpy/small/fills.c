/* Deferred fills with zeros: `Zeros.hold` of diffuse/stream/zeros.py in C, for fills of new stores and for tasks on stores
 * of moderate size; and `creation.constant` for arrays that were filled before. */
#include "record.h"
#include "stream.h"
#include <math.h>

enum { MOST = 256 };       /* zeros.MOST */
enum { LARGE = 1 << 22 };  /* elements of at most 16 bytes that take zeros.LARGE bytes */
enum { FRAMES = 3 };       /* Python's functions from the program's line to `constant` */

static PyObject *held; /* Zeros.held: the fills by their stores */
static PyObject *name_recorded;

/* Is it a number whose bits are all zero?  Where that is not told at once, no. */
static int zero(PyObject *x)
{
    return PyFloat_CheckExact(x) ? PyFloat_AS_DOUBLE(x) == 0.0 && !signbit(PyFloat_AS_DOUBLE(x))
           : PyLong_Check(x) && PyObject_IsTrue(x) == 0;
}

int small_may_wait(PyObject *template, PyObject *values, PyObject *out)
{
    if (SLOT(template, template_fills) == Py_False || PyObject_IsTrue(PyTuple_GET_ITEM(values, 0)) == 1)
        return 0;
    PyObject *id = SLOT(out, storage_id);
    return id == NULL || PyDict_Contains(SLOT(SLOT(stream_engine, engine_stores), stores_instances), id) != 1;
}

int small_hold_fill(Task *task, PyObject *out, PyObject *frame)
{
    if (!task->fresh || task->n != 1 || !state.sees || !zero(PyTuple_GET_ITEM(PyTuple_GET_ITEM(task->task, 2), 0))
            || SLOT(SLOT(stream_engine, engine_window), window_region) != Py_None || PyDict_GET_SIZE(held) >= MOST)
        return 0;
    PyObject *id = small_next_id();
    if (id == NULL)
        return -1;
    PyTuple_SET_ITEM(task->stores, 0, id);
    if (small_counts(name_recorded) && small_begun(out, id, frame) == 0 && PyDict_SetItem(held, id, task->task) == 0)
        return 1;
    put(stream_engine, engine_torn, Py_True);
    return -1;
}

/* Add a deferred fill to the open group: 1; 0, with nothing changed, where Python's code has to; -1 with an exception. */
static int brought(PyObject *id, PyObject *recorded, PyObject *first, PyObject **gone)
{
    PyObject *window = SLOT(stream_engine, engine_window), *group = SLOT(window, window_open);
    Task fill = {.template = PyTuple_GET_ITEM(recorded, 0), .task = recorded, .stores = PyTuple_GET_ITEM(recorded, 1),
                 .line = PyTuple_GET_ITEM(recorded, 3), .first = first, .n = 1};
    if (small_number_in(SLOT(fill.template, template_elements)) >= LARGE || !small_roomy(window))
        return 0;
    PyObject *edge = small_joined(&fill, group);
    if (edge == NULL)
        return PyErr_Occurred() ? -1 : 0;
    int done = small_join(&fill, group, edge, gone) == 0 && PyDict_DelItem(held, id) == 0;
    Py_XDECREF(fill.edge);
    if (!done)
        put(stream_engine, engine_torn, Py_True);
    return done ? 1 : -1;
}

int small_bring_fills(const Task *task, PyObject **gone)
{
    int done = 1;
    for (Py_ssize_t k = 0; k < task->n && done > 0 && PyDict_GET_SIZE(held); k++) {
        PyObject *id = PyTuple_GET_ITEM(task->stores, k), *recorded = PyDict_GetItemWithError(held, id);
        if (recorded != NULL)
            done = brought(id, recorded, task->fill, gone + k);
    }
    return PyErr_Occurred() ? -1 : done;
}

PyObject *small_fill_before(const Task *task, PyObject *out)
{
    PyObject *recorded = NULL;
    for (Py_ssize_t k = 0; k < task->n && recorded == NULL && PyDict_GET_SIZE(held); k++) {
        PyObject *id = k < task->n - 1 ? PyTuple_GET_ITEM(task->stores, k) : out == NULL ? NULL : SLOT(out, storage_id);
        recorded = id == NULL ? NULL : PyDict_GetItemWithError(held, id);
    }
    return recorded == NULL ? NULL : PyTuple_Pack(2, SLOT(PyTuple_GET_ITEM(recorded, 0), template_operation),
                                                  PyTuple_GET_ITEM(recorded, 3));
}

PyObject *small_filled(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    if (n != 2) {
        PyErr_SetString(PyExc_TypeError, "filled() takes a known call and a number");
        return NULL;
    }
    PyObject *values = PyTuple_Pack(1, args[1]), *x = values == NULL ? NULL : small_result_of(args[0]);
    int done = x == NULL ? -1 : small_again(SLOT(args[0], known_template), NULL, NULL, 0, ((Array *)x)->storage,
                                            SLOT(args[0], known_frame), values, FRAMES);
    Py_XDECREF(values);
    if (done <= 0)
        Py_CLEAR(x);
    return done == 0 ? Py_NewRef(Py_None) : x;
}

int small_connect_fills(PyObject *fills)
{
    held = fills;
    name_recorded = PyUnicode_InternFromString("recorded");
    return held == NULL || name_recorded == NULL ? -1 : 0;
}

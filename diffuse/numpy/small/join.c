/* Adding a task to the open group: `add` and, for the first task of a group, `place` of diffuse/stream/window.py in C,
 * for tasks that joined a group at this place of its trail before.
 *
 * A trail keeps the call that led on from it (`Trail.expected`).  Where the program makes the same call again, which a
 * comparison of pointers tells, neither the call nor the edge of the trail is looked up in a table. */
#include "stream.h"

enum { NAMES = 8, MISSES = 8 };

/* A call as it was found by its name, and the edge that its task followed. */
typedef struct {
    PyObject_HEAD
    PyObject *names[NAMES], *known, *edge;
    Py_ssize_t n, slots[SMALL_STORES]; /* of the task's stores */
    int misses;                        /* how often in a row another call came */
} Expected;

static PyTypeObject *trail_type;

static void expected_dealloc(Expected *x)
{
    for (Py_ssize_t k = 0; k < x->n; k++)
        Py_DECREF(x->names[k]);
    Py_DECREF(x->known);
    Py_DECREF(x->edge);
    PyObject_Free(x);
}

static PyTypeObject Expected_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "diffuse.numpy.small.Expected",
    .tp_doc = "The call that leads on from a trail.",
    .tp_basicsize = sizeof(Expected),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_dealloc = (destructor)expected_dealloc,
};

static Expected *expected_at(PyObject *trail)
{
    PyObject *found = SLOT(trail, trail_expected);
    return found != NULL && Py_IS_TYPE(found, &Expected_Type) ? (Expected *)found : NULL;
}

PyObject *small_expected(PyObject *const *names, Py_ssize_t n, PyObject **known)
{
    if (stream_engine == NULL)
        return NULL;
    Expected *next = expected_at(SLOT(SLOT(SLOT(stream_engine, engine_window), window_open), group_trail));
    if (next == NULL || next->n != n || memcmp(next->names, names, n * sizeof *names))
        return NULL;
    *known = Py_NewRef(next->known);
    return Py_NewRef((PyObject *)next);
}

void small_expect(const KnownCall *call, const Task *task, PyObject *trail)
{
    Expected *next = expected_at(trail);
    if (task->edge == NULL || call->n > NAMES || (next != NULL && next->misses++ < MISSES))
        return;
    next = PyObject_New(Expected, &Expected_Type);
    if (next == NULL) {
        PyErr_Clear();
        return;
    }
    next->n = call->n;
    for (Py_ssize_t k = 0; k < call->n; k++)
        next->names[k] = Py_NewRef(call->names[k]);
    next->known = Py_NewRef(call->known);
    next->edge = Py_NewRef(task->edge);
    memcpy(next->slots, task->slots, sizeof next->slots);
    next->misses = 0;
    Py_XSETREF(SLOT(trail, trail_expected), (PyObject *)next);
}

/* Find the slots of the task's stores in the group: those that it does not know yet are counted on. */
static int find_slots(Task *task, PyObject *slots)
{
    Py_ssize_t next = PyDict_GET_SIZE(slots);
    for (Py_ssize_t k = 0; k < task->n; k++) {
        PyObject *id = PyTuple_GET_ITEM(task->stores, k), *slot = NULL;
        Py_ssize_t found = -1;
        if (!task->fresh || k < task->n - 1) {
            slot = PyDict_GetItemWithError(slots, id);
            found = slot != NULL ? small_number_in(slot) : -1;
            for (Py_ssize_t m = 0; found < 0 && m < k; m++)
                if (small_number_in(PyTuple_GET_ITEM(task->stores, m)) == small_number_in(id))
                    found = task->slots[m];
        }
        task->slots[k] = found < 0 ? next++ : found;
    }
    return PyErr_Occurred() ? -1 : 0;
}

/* The edge of a trail that the task follows, or why it does not join, borrowed; NULL where nobody has looked. */
static PyObject *edge_of(Task *task, PyObject *trail)
{
    PyObject *key[SMALL_STORES + 1] = {task->template};
    Py_ssize_t made = 1;
    while (made <= task->n && (key[made] = PyLong_FromSsize_t(task->slots[made - 1])) != NULL)
        made++;
    PyObject *edge = made > task->n ? small_found(SLOT(trail, trail_edges), key, made) : NULL;
    while (--made > 0)
        Py_DECREF(key[made]);
    return edge;
}

/* May the task begin the group as it is, so that `Window.place` would do no more than `small_join`? */
static int begins(Task *task)
{
    PyObject *window = SLOT(stream_engine, engine_window);
    return task->first != NULL && SLOT(window, window_region) == Py_None && SLOT(window, window_shapes) == Py_None
           && PySet_Contains(SLOT(window, window_heads), task->first) == 0;
}

PyObject *small_joined(Task *task, PyObject *group)
{
    PyObject *tasks = SLOT(group, group_recorded), *trail = SLOT(group, group_trail);
    Py_ssize_t count = PyList_GET_SIZE(tasks);
    if (count == 0 ? !begins(task) : count >= small_number_in(SLOT(group, group_long))
                                     && PyTuple_GET_ITEM(PyList_GET_ITEM(tasks, 0), 3) == task->line)
        return NULL;
    if (find_slots(task, SLOT(group, group_slots)) < 0)
        return NULL;
    Expected *next = task->expected == NULL ? NULL : expected_at(trail);
    PyObject *edge;
    if (next != NULL && (PyObject *)next == task->expected
            && !memcmp(next->slots, task->slots, task->n * sizeof *task->slots)) {
        edge = next->edge;
        next->misses = 0;
    } else {
        edge = edge_of(task, trail);
        task->expected = NULL;
    }
    return edge == NULL || !Py_IS_TYPE(edge, trail_type)
                   || small_number_in(SLOT(edge, trail_weight)) > small_number_in(SLOT(group, group_room))
               ? NULL : edge;
}

/* Note the shape of a task in its group: most have that of the task before. */
static int note_shape(Task *task, PyObject *group)
{
    PyObject *tasks = SLOT(group, group_recorded), *shape = SLOT(task->template, template_shape);
    Py_ssize_t count = PyList_GET_SIZE(tasks);
    if (count == 0) {
        put(group, group_first, task->first);
        put(group, group_shape, shape);
    } else if (SLOT(PyTuple_GET_ITEM(PyList_GET_ITEM(tasks, count - 1), 0), template_shape) == shape)
        return 0;
    return PySet_Add(SLOT(group, group_shapes), shape);
}

int small_join(Task *task, PyObject *group, PyObject *edge, PyObject **gone)
{
    PyObject *slots = SLOT(group, group_slots), *window = SLOT(stream_engine, engine_window);
    PyObject *users = SLOT(SLOT(stream_engine, engine_stores), stores_users);
    for (Py_ssize_t k = 0, next = PyDict_GET_SIZE(slots); k < task->n; k++) {
        if (task->slots[k] < next)
            continue;
        PyObject *id = PyTuple_GET_ITEM(task->stores, k), *slot = PyLong_FromSsize_t(next++);
        int done = slot == NULL || PyDict_SetItem(slots, id, slot) < 0
                   || PyDict_SetItem(users, id, SLOT(group, group_number)) < 0;
        Py_XDECREF(slot);
        if (done)
            return -1;
    }
    if (note_shape(task, group) < 0 || PyList_Append(SLOT(group, group_recorded), task->task) < 0)
        return -1;
    *gone = SLOT(group, group_trail); /* let go of where Python's code may run */
    SLOT(group, group_trail) = Py_NewRef(edge);
    task->edge = Py_NewRef(edge);
    return small_set_number(&SLOT(window, window_held), small_number_in(SLOT(window, window_held)) + 1);
}

int small_connect_join(PyTypeObject *trails)
{
    trail_type = trails;
    return PyType_Ready(&Expected_Type);
}

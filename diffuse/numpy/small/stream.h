/* What stream.c, join.c, fills.c and handles.c share: where the engine's parts have what they are asked for, and a task that is
 * about to be recorded. */
#ifndef DIFFUSE_STREAM_H
#define DIFFUSE_STREAM_H

#include "record.h"

/* Where Python's classes with `__slots__` keep the attributes that are used here. */
#define STREAM_SLOTS(SLOT_OF) \
    SLOT_OF(engine_stores, "Engine", "stores") SLOT_OF(engine_window, "Engine", "window") \
    SLOT_OF(engine_walk, "Engine", "walk") SLOT_OF(engine_epoch, "Engine", "epoch") \
    SLOT_OF(engine_torn, "Engine", "_torn") SLOT_OF(engine_seen, "Engine", "_seen") \
    SLOT_OF(engine_variable, "Engine", "_variable") SLOT_OF(engine_checks, "Engine", "_checks") \
    SLOT_OF(engine_small, "Engine", "_small") SLOT_OF(engine_size, "Engine", "_size") \
    SLOT_OF(window_held, "Window", "held") SLOT_OF(window_size, "Window", "size") \
    SLOT_OF(window_open, "Window", "open") SLOT_OF(window_region, "Window", "region") \
    SLOT_OF(window_shapes, "Window", "shapes") SLOT_OF(window_heads, "Window", "loop_heads") \
    SLOT_OF(stores_alive, "Stores", "alive") SLOT_OF(stores_users, "Stores", "users") \
    SLOT_OF(stores_storages, "Stores", "storages") SLOT_OF(stores_taken, "Stores", "taken") \
    SLOT_OF(stores_running, "Stores", "running") SLOT_OF(stores_next, "Stores", "_next") \
    SLOT_OF(stores_instances, "Stores", "instances") SLOT_OF(stores_shown, "Stores", "shown") \
    SLOT_OF(walk_counts, "Walk", "counts") SLOT_OF(walk_after, "Walk", "after") \
    SLOT_OF(walk_begun, "Walk", "begun") SLOT_OF(group_recorded, "Group", "recorded") \
    SLOT_OF(group_slots, "Group", "slots") SLOT_OF(group_trail, "Group", "trail") \
    SLOT_OF(group_number, "Group", "number") SLOT_OF(group_long, "Group", "long") \
    SLOT_OF(group_room, "Group", "room") SLOT_OF(group_shapes, "Group", "shapes") \
    SLOT_OF(group_first, "Group", "first") SLOT_OF(group_shape, "Group", "shape") \
    SLOT_OF(trail_edges, "Trail", "edges") SLOT_OF(trail_weight, "Trail", "weight") \
    SLOT_OF(trail_expected, "Trail", "expected") SLOT_OF(storage_id, "Storage", "id") \
    SLOT_OF(storage_frame, "Storage", "frame") SLOT_OF(storage_touched, "Storage", "touched") \
    SLOT_OF(storage_written, "Storage", "written") SLOT_OF(storage_version, "Storage", "version") \
    SLOT_OF(storage_exported, "Storage", "exported") SLOT_OF(storage_stores, "Storage", "_stores") \
    SLOT_OF(storage_holders, "Storage", "_shown") SLOT_OF(storage_crowd, "Storage", "_crowd") \
    SLOT_OF(template_shape, "Template", "shape") SLOT_OF(template_elements, "Template", "elements") \
    SLOT_OF(template_reach, "Template", "reach") SLOT_OF(template_fills, "Template", "fills") \
    SLOT_OF(template_alone, "Template", "alone") SLOT_OF(template_operation, "Template", "operation")

#define SLOT_OF(place, class, name) extern Py_ssize_t place;
STREAM_SLOTS(SLOT_OF)
#undef SLOT_OF

/* A task that is about to be recorded. */
typedef struct {
    PyObject *template, *task, *stores; /* `task` is what the window gets, `stores` the ids in it */
    PyObject *line;                     /* borrowed from `task` */
    PyObject *first;                    /* of a task that begins a group: its operation and line; else NULL */
    PyObject *fill;                     /* the same of the deferred fill that begins the group before it, or NULL */
    PyObject *expected;                 /* what the trail expected when the call was looked up, if it does; borrowed */
    PyObject *edge;                     /* the trail that the task led to */
    Py_ssize_t slots[SMALL_STORES], n;  /* of its stores, of which the last one is new if `fresh` */
    int fresh;
} Task;

/* A whole number of Python's; where it is larger than any that counts here, the largest. */
static inline long long small_number_in(PyObject *x)
{
    int overflow = 0;
    long long found = x == NULL ? 0 : PyLong_AsLongLongAndOverflow(x, &overflow);
    return overflow ? PY_LLONG_MAX : found;
}

/* Set a number of Python's in a slot. */
static inline int small_set_number(PyObject **slot, long long value)
{
    PyObject *found = PyLong_FromLongLong(value);
    if (found == NULL)
        return -1;
    Py_SETREF(*slot, found);
    return 0;
}

static inline void put(PyObject *x, Py_ssize_t slot, PyObject *value) { Py_XSETREF(SLOT(x, slot), Py_NewRef(value)); }

extern PyObject *stream_engine;

/* Of stream.c. */
int small_roomy(PyObject *window); /* is there room in the window for one more task? */
PyObject *small_next_id(void);     /* of the next store */
/* Make a handle one of a new store that a task writes. */
int small_begun(PyObject *out, PyObject *id, PyObject *frame);

/* Of fills.c.  May a fill with zeros have to wait, because no task has used the store (zeros.py)? */
int small_may_wait(PyObject *template, PyObject *values, PyObject *out);
/* Defer such a fill: 1; 0, with nothing changed, where Python's code has to; -1 with an exception. */
int small_hold_fill(Task *task, PyObject *out, PyObject *frame);
/* Add the deferred fills of the task's stores to the open group: 1; 0 where Python's code has to add the others; -1 with
 * an exception.  `gone` gets the trails that the group leaves. */
int small_bring_fills(const Task *task, PyObject **gone);
/* Of a task that begins a group and writes this store: the operation and the line of the first deferred fill that comes
 * before it, a new reference; NULL if there is none, or with an exception. */
PyObject *small_fill_before(const Task *task, PyObject *out);
int small_connect_fills(PyObject *fills);

/* Of join.c.  The trail of the open group with the task, borrowed, if the task is known to join the group there; else
 * NULL.  Finds the slots of the task's stores. */
PyObject *small_joined(Task *task, PyObject *group);
/* Add the task to the open group on this trail: 0, or -1 with an exception.  `gone` is the trail before. */
int small_join(Task *task, PyObject *group, PyObject *edge, PyObject **gone);
/* Note that this trail goes on with the task of a call. */
void small_expect(const KnownCall *call, const Task *task, PyObject *trail);
int small_connect_join(PyTypeObject *trails);

/* Of handles.c: the handles of stores, whose class this is. */
int small_is_handle(PyObject *x);
int small_connect_handles(PyTypeObject *type);

#endif

/* Operations recorded again: `again` and `again_into` of diffuse/stream/engine.py in C, for a task that joins the
 * open group on its trail; and the end of a store's handle (stores.py).
 *
 * Everything that a task needs is allocated before the first look at the stream.  From there on no step runs
 * Python's code: no signal is handled, no collection starts, no other thread gets its turn.  So a task is recorded
 * or it is not, and where anything is not as usual, nothing was changed and Python's code is called. */
#include "small.h"

/* Where Python's classes with `__slots__` keep the attributes that are used here. */
static Py_ssize_t engine_stores, engine_window, engine_walk, engine_epoch, engine_torn, engine_seen,
    engine_variable, engine_checks, engine_small, engine_size, window_held, window_size, window_open, stores_alive, stores_users, stores_storages,
    stores_taken, stores_running, stores_next, stores_instances, walk_counts, walk_after, walk_begun,
    group_recorded, group_slots, group_trail, group_number, group_long, group_room, group_shapes, trail_edges,
    trail_weight, storage_id, storage_frame, storage_touched, storage_written, storage_version, storage_exported,
    storage_stores, template_shape, template_elements, template_reach, template_fills, template_alone;

static const struct { Py_ssize_t *place; const char *class, *name; } SLOTS[] = {
    {&engine_stores, "Engine", "stores"}, {&engine_window, "Engine", "window"}, {&engine_walk, "Engine", "walk"},
    {&engine_epoch, "Engine", "epoch"}, {&engine_torn, "Engine", "_torn"}, {&engine_seen, "Engine", "_seen"},
    {&engine_variable, "Engine", "_variable"}, {&engine_checks, "Engine", "_checks"},
    {&engine_small, "Engine", "_small"}, {&engine_size, "Engine", "_size"},
    {&window_held, "Window", "held"}, {&window_size, "Window", "size"}, {&window_open, "Window", "open"},
    {&stores_alive, "Stores", "alive"}, {&stores_users, "Stores", "users"},
    {&stores_storages, "Stores", "storages"}, {&stores_taken, "Stores", "taken"},
    {&stores_running, "Stores", "running"}, {&stores_next, "Stores", "_next"},
    {&stores_instances, "Stores", "instances"}, {&walk_counts, "Walk", "counts"}, {&walk_after, "Walk", "after"},
    {&walk_begun, "Walk", "begun"}, {&group_recorded, "Group", "recorded"}, {&group_slots, "Group", "slots"},
    {&group_trail, "Group", "trail"}, {&group_number, "Group", "number"}, {&group_long, "Group", "long"},
    {&group_room, "Group", "room"}, {&group_shapes, "Group", "shapes"}, {&trail_edges, "Trail", "edges"},
    {&trail_weight, "Trail", "weight"}, {&storage_id, "Storage", "id"}, {&storage_frame, "Storage", "frame"},
    {&storage_touched, "Storage", "touched"}, {&storage_written, "Storage", "written"},
    {&storage_version, "Storage", "version"}, {&storage_exported, "Storage", "exported"},
    {&storage_stores, "Storage", "_stores"}, {&template_shape, "Template", "shape"},
    {&template_elements, "Template", "elements"}, {&template_reach, "Template", "reach"},
    {&template_fills, "Template", "fills"}, {&template_alone, "Template", "alone"}};

static PyObject *engine, *held_fills;
static PyTypeObject *storage_type, *trail_type;
static PyObject *name_add, *name_end, *name_recorded, *name_single, *one;
static PyObject *spelled[SMALL_PARTS + 1]; /* a tuple of each length, for keys that are only looked up */

Py_ssize_t small_slot(PyObject *type, const char *name)
{
    PyObject *found = PyObject_GetAttrString(type, name);
    if (found == NULL)
        return -1;
    PyMemberDef *member = Py_IS_TYPE(found, &PyMemberDescr_Type) ? ((PyMemberDescrObject *)found)->d_member : NULL;
    Py_ssize_t offset = member != NULL && member->type == T_OBJECT_EX ? member->offset : -1;
    Py_DECREF(found);
    if (offset < 0)
        PyErr_Format(PyExc_TypeError, "%R has no slot %s", type, name);
    return offset;
}

/* The value of a dictionary under a tuple of these; borrowed, NULL if there is none.  No key that is kept is made,
 * and nothing in these tables has a comparison of its own. */
PyObject *small_found(PyObject *table, PyObject *const *parts, Py_ssize_t n)
{
    PyObject *key = spelled[n];
    for (Py_ssize_t k = 0; k < n; k++)
        PyTuple_SET_ITEM(key, k, parts[k]);
    PyObject *found = PyDict_GetItemWithError(table, key);
    for (Py_ssize_t k = 0; k < n; k++)
        PyTuple_SET_ITEM(key, k, NULL);
    return found;
}

/* A whole number of Python's; where it is larger than any that counts here, the largest. */
static long long number(PyObject *x)
{
    int overflow = 0;
    long long found = x == NULL ? 0 : PyLong_AsLongLongAndOverflow(x, &overflow);
    return overflow ? PY_LLONG_MAX : found;
}

/* -- recording ------------------------------------------------------------------------------------------- */

/* A task that is about to be recorded. */
typedef struct {
    PyObject *template, *task, *stores; /* `task` is what the window gets, `stores` the ids in it */
    PyObject *line;                     /* borrowed from `task` */
    PyObject *slots[SMALL_STORES];
    Py_ssize_t n, known; /* stores; of these, the last one is new if `fresh` */
    int fresh;
} Task;

/* Has a task fewer elements than large arrays have? */
static int few(PyObject *template)
{
    return number(SLOT(template, template_elements)) < number(SLOT(engine, engine_small));
}

/* What the rule for loops over slices (walk.py) is to be told of a task: that it is over many elements, where small
 * ones were counted or are done at once, now or behind some large one, or that it is over few of a large store; else
 * NULL. */
static PyObject *told(PyObject *template)
{
    PyObject *walk = SLOT(engine, engine_walk);
    if (!few(template))
        return PyDict_GET_SIZE(SLOT(walk, walk_counts)) || PyDict_GET_SIZE(SLOT(walk, walk_after))
               || SLOT(walk, walk_begun) == Py_True ? name_end : NULL;
    return number(SLOT(template, template_reach)) >= number(SLOT(engine, engine_small)) ? name_add : NULL;
}

/* May a fill with zeros have to wait, because no task has used the store (zeros.py)? */
static int may_wait(PyObject *template, PyObject *values, PyObject *out)
{
    if (SLOT(template, template_fills) == Py_False || PyObject_IsTrue(PyTuple_GET_ITEM(values, 0)) == 1)
        return 0;
    PyObject *id = SLOT(out, storage_id);
    return id == NULL || PyDict_Contains(SLOT(SLOT(engine, engine_stores), stores_instances), id) != 1;
}

/* Is the engine in its usual state, so that a task needs no look at anything else? */
static int usual(void)
{
    PyObject *modes = NULL; /* NumPy's error modes, which belong to the context */
    if (PyContextVar_Get(SLOT(engine, engine_variable), NULL, &modes) < 0)
        PyErr_Clear();
    Py_XDECREF(modes); /* the context holds it */
    return modes == SLOT(engine, engine_seen) && SLOT(engine, engine_torn) == Py_False
           && SLOT(engine, engine_checks) == Py_False;
}

/* Is there room in the window for one more task? */
static int roomy(PyObject *window)
{
    PyObject *size = SLOT(engine, engine_size);
    return number(SLOT(window, window_held)) + 1 < number(size == Py_None ? SLOT(window, window_size) : size);
}

/* The trail of the open group with the task, borrowed, if the task is known to join the group there; else NULL.
 * Fills in the slots of the task's stores; those of new ones are counted on. */
static PyObject *joined(Task *task, PyObject *group)
{
    PyObject *tasks = SLOT(group, group_recorded), *slots = SLOT(group, group_slots);
    Py_ssize_t count = PyList_GET_SIZE(tasks), next = PyDict_GET_SIZE(slots);
    if (count == 0 || (count >= number(SLOT(group, group_long))
                       && PyTuple_GET_ITEM(PyList_GET_ITEM(tasks, 0), 3) == task->line))
        return NULL;
    PyObject *key[SMALL_STORES + 1];
    key[0] = task->template;
    for (Py_ssize_t k = 0; k < task->n; k++) {
        PyObject *id = PyTuple_GET_ITEM(task->stores, k);
        PyObject *slot = task->fresh && k == task->n - 1 ? NULL : PyDict_GetItemWithError(slots, id);
        for (Py_ssize_t m = 0; slot == NULL && m < k; m++)
            if (number(PyTuple_GET_ITEM(task->stores, m)) == number(id))
                slot = task->slots[m];
        task->slots[k] = slot == NULL ? PyLong_FromSsize_t(next++) : Py_NewRef(slot);
        if ((key[k + 1] = task->slots[k]) == NULL)
            return NULL;
    }
    PyObject *trail = SLOT(group, group_trail), *edge = small_found(SLOT(trail, trail_edges), key, task->n + 1);
    if (edge == NULL || !Py_IS_TYPE(edge, trail_type)
            || number(SLOT(edge, trail_weight)) > number(SLOT(group, group_room)))
        return NULL;
    return edge;
}

/* Set a number of Python's in a slot. */
static int count(PyObject **slot, long long value)
{
    PyObject *found = PyLong_FromLongLong(value);
    if (found == NULL)
        return -1;
    Py_SETREF(*slot, found);
    return 0;
}

/* Add a task to the open group. */
static int join(Task *task, PyObject *group, PyObject *edge, PyObject **gone)
{
    PyObject *slots = SLOT(group, group_slots), *window = SLOT(engine, engine_window);
    PyObject *users = SLOT(SLOT(engine, engine_stores), stores_users);
    for (Py_ssize_t k = 0, next = PyDict_GET_SIZE(slots); k < task->n; k++) {
        if (number(task->slots[k]) < next)
            continue;
        PyObject *id = PyTuple_GET_ITEM(task->stores, k);
        if (PyDict_SetItem(slots, id, task->slots[k]) < 0
                || PyDict_SetItem(users, id, SLOT(group, group_number)) < 0)
            return -1;
        next++;
    }
    if (PySet_Add(SLOT(group, group_shapes), SLOT(task->template, template_shape)) < 0
            || PyList_Append(SLOT(group, group_recorded), task->task) < 0)
        return -1;
    *gone = SLOT(group, group_trail); /* let go of where Python's code may run */
    SLOT(group, group_trail) = Py_NewRef(edge);
    return count(&SLOT(window, window_held), number(SLOT(window, window_held)) + 1);
}

static void put(PyObject *x, Py_ssize_t slot, PyObject *value) { Py_XSETREF(SLOT(x, slot), Py_NewRef(value)); }

/* Make a handle one of a new store that the task writes. */
static int begun(PyObject *out, PyObject *id, PyObject *frame)
{
    PyObject *stores = SLOT(engine, engine_stores), *epoch = SLOT(engine, engine_epoch);
    put(stores, stores_next, id);
    put(out, storage_id, id);
    put(out, storage_frame, frame);
    put(out, storage_touched, epoch);
    put(out, storage_written, epoch);
    put(out, storage_version, one);
    put(out, storage_exported, Py_False);
    if (PyDict_SetItem(SLOT(stores, stores_storages), id, frame) < 0)
        return -1;
    put(out, storage_stores, stores);
    return PySet_Add(SLOT(stores, stores_alive), id);
}

/* Note that a task writes to a store which is there. */
static int written(PyObject *out)
{
    put(out, storage_touched, SLOT(engine, engine_epoch));
    put(out, storage_written, SLOT(engine, engine_epoch));
    return count(&SLOT(out, storage_version), number(SLOT(out, storage_version)) + 1);
}

/* Do deferred fills wait for one of the task's stores? */
static int fills_wait(Task *task)
{
    if (PyDict_GET_SIZE(held_fills))
        for (Py_ssize_t k = 0; k < task->n; k++)
            if (PyDict_Contains(held_fills, PyTuple_GET_ITEM(task->stores, k)))
                return 1;
    return 0;
}

/* Record a task whose parts are allocated, with the engine's lock held: 1; 0, with nothing changed, where Python's
 * code has to; -1 with an exception. */
static int added(Task *task, PyObject *const *inputs, PyObject *out, PyObject *frame, PyObject **gone)
{
    if (!usual() || may_wait(task->template, PyTuple_GET_ITEM(task->task, 2), out))
        return PyErr_Occurred() ? -1 : 0;
    PyObject *window = SLOT(engine, engine_window), *group = SLOT(window, window_open);
    for (Py_ssize_t k = 0; k < task->n - task->fresh; k++)
        if (SLOT(k < task->n - 1 ? inputs[k] : out, storage_exported) != Py_False)
            return 0;
    PyObject *id = task->fresh ? PyLong_FromLongLong(number(SLOT(SLOT(engine, engine_stores), stores_next)) + 1)
                               : Py_NewRef(SLOT(out, storage_id));
    if (id == NULL)
        return -1;
    PyTuple_SET_ITEM(task->stores, task->n - 1, id);
    PyObject *edge = fills_wait(task) || !roomy(window) ? NULL : joined(task, group);
    if (edge == NULL)
        return PyErr_Occurred() ? -1 : 0;
    int done = small_counts(name_recorded);
    for (Py_ssize_t k = 0; k < task->n - 1; k++)
        put(inputs[k], storage_touched, SLOT(engine, engine_epoch));
    if (done && (task->fresh ? begun(out, id, frame) : written(out)) == 0 && join(task, group, edge, gone) == 0)
        return 1;
    put(engine, engine_torn, Py_True);
    return -1;
}

PyObject *small_store(void) { return storage_type->tp_alloc(storage_type, 0); }

/* Record a task by itself: no other thread may be in the middle of anything. */
static int alone(Task *task, PyObject *const *inputs, PyObject *out, PyObject *frame, PyObject **gone)
{
    PyObject *name = told(task->template);
    if (name == NULL && small_unlocked())
        return added(task, inputs, out, frame, gone); /* nor will one be: no step of that gives others a turn */
    if (small_lock() < 0)
        return -1;
    int done = added(task, inputs, out, frame, gone);
    if (done > 0 && name != NULL) {
        PyObject *walk = SLOT(engine, engine_walk);
        PyObject *said = PyObject_CallMethodOneArg(walk, name, task->task);
        done = said == NULL ? -1 : 1;
        Py_XDECREF(said);
    }
    small_unlock();
    return done;
}

int small_again(PyObject *template, PyObject *const *inputs, Py_ssize_t n, PyObject *out, PyObject *frame,
                PyObject *values, int depth)
{
    Task task = {.template = template, .n = n + 1, .fresh = frame != NULL};
    PyObject *gone = NULL;
    int done = -1;
    if (task.n > SMALL_STORES)
        return 0;
    for (Py_ssize_t k = 0; k < task.n - task.fresh; k++)
        if (!Py_IS_TYPE(k < n ? inputs[k] : out, storage_type))
            return 0;
    task.line = small_place(depth);
    task.stores = task.line == NULL ? NULL : PyTuple_New(task.n);
    task.task = task.stores == NULL ? NULL : PyTuple_Pack(4, template, task.stores, values, task.line);
    for (Py_ssize_t k = 0; task.stores != NULL && k < n; k++)
        PyTuple_SET_ITEM(task.stores, k, Py_NewRef(SLOT(inputs[k], storage_id)));
    if (task.task != NULL)
        done = alone(&task, inputs, out, frame, &gone);
    for (Py_ssize_t k = 0; k < task.n; k++)
        Py_XDECREF(task.slots[k]);
    Py_XDECREF(gone);
    Py_XDECREF(task.task);
    Py_XDECREF(task.stores);
    Py_XDECREF(task.line);
    return done;
}

int small_exported(PyObject *storage) { return SLOT(storage, storage_exported) != Py_False; }

int small_waited_for(PyObject *template, long often) { return number(SLOT(template, template_alone)) >= often; }

int small_hasty(PyObject *template, PyObject *storage)
{
    return few(template) && (SLOT(SLOT(engine, engine_walk), walk_begun) != Py_False || small_idle(storage) != 0);
}

int small_idle(PyObject *storage)
{
    if (storage_type == NULL || !Py_IS_TYPE(storage, storage_type))
        return -1;
    PyObject *touched = SLOT(storage, storage_touched), *epoch = SLOT(engine, engine_epoch);
    return touched != epoch && number(touched) != number(epoch);
}

int small_pending(PyObject *storage, int writes)
{
    if (storage_type == NULL || !Py_IS_TYPE(storage, storage_type))
        return 0;
    PyObject *last = SLOT(storage, writes ? storage_touched : storage_written), *walk = SLOT(engine, engine_walk);
    return number(last) == number(SLOT(engine, engine_epoch)) && SLOT(walk, walk_begun) == Py_False
           && small_holds();
}

int small_holds(void) { return number(SLOT(SLOT(engine, engine_window), window_held)) > 0; }

int small_wrote(PyObject *storage)
{
    return count(&SLOT(storage, storage_version), number(SLOT(storage, storage_version)) + 1);
}

PyObject **small_alone(PyObject *template) { return &SLOT(template, template_alone); }

int small_trusted(PyObject **alone, long often, long most)
{
    long long times = number(*alone);
    if (times < often || times >= most)
        return 0;
    return !small_counts(name_single) || count(alone, times + 1) < 0 ? -1 : 1;
}

/* -- the end of a store's handle -------------------------------------------------------------------------- */

/* `Storage.__del__`. */
static void ended(PyObject *storage)
{
    PyObject *stores = SLOT(storage, storage_stores), *id = SLOT(storage, storage_id);
    if (stores == NULL || id == NULL) /* an interrupt came before it was made */
        return;
    PyObject *type, *error, *traceback;
    PyErr_Fetch(&type, &error, &traceback);
    int known = PySet_Discard(SLOT(stores, stores_alive), id);
    PyObject *user = known < 0 ? NULL : PyDict_GetItemWithError(SLOT(stores, stores_users), id);
    if (!PyErr_Occurred() && number(user) <= number(SLOT(stores, stores_taken))) {
        int running = PySet_Contains(SLOT(stores, stores_running), id);
        if (running == 0)
            Py_XDECREF(PyObject_CallMethod(stores, "release", "O", id));
    }
    if (PyErr_Occurred())
        PyErr_WriteUnraisable(storage);
    PyErr_Restore(type, error, traceback);
}

/* -- what Python's side tells ----------------------------------------------------------------------------- */

static PyObject *part(PyObject *parts, const char *name)
{
    PyObject *found = PyDict_GetItemString(parts, name);
    if (found == NULL)
        PyErr_Format(PyExc_KeyError, "%s", name);
    return Py_XNewRef(found);
}

int small_connect_stream(PyObject *parts)
{
    for (size_t k = 0; k < sizeof SLOTS / sizeof *SLOTS; k++) {
        PyObject *type = PyDict_GetItemString(parts, SLOTS[k].class);
        if (type == NULL || (*SLOTS[k].place = small_slot(type, SLOTS[k].name)) < 0)
            return -1;
    }
    for (Py_ssize_t k = 0; k <= SMALL_PARTS; k++)
        if (spelled[k] == NULL && (spelled[k] = PyTuple_New(k)) != NULL && k)
            PyObject_GC_UnTrack(spelled[k]);
    name_add = PyUnicode_InternFromString("add");
    name_end = PyUnicode_InternFromString("end");
    name_recorded = PyUnicode_InternFromString("recorded");
    name_single = PyUnicode_InternFromString("single");
    one = PyLong_FromLong(1);
    engine = part(parts, "engine");
    held_fills = part(parts, "fills");
    storage_type = (PyTypeObject *)part(parts, "Storage");
    trail_type = (PyTypeObject *)part(parts, "Trail");
    if (PyErr_Occurred())
        return -1;
    if (small_connect_lock(engine) < 0 || small_connect_place(parts) < 0)
        return -1;
    storage_type->tp_finalize = ended; /* `__del__` of the class stays what says what it does */
    return 0;
}

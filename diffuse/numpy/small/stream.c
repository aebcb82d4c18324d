/* Operations recorded again: `again` and `again_into` of diffuse/stream/engine.py in C, for a task that joins the
 * open group on its trail (join.c).
 *
 * Everything that a task needs is allocated before the first look at the stream.  From there on no step runs
 * Python's code: no signal is handled, no collection starts, no other thread gets its turn.  So a task is recorded
 * or it is not, and where anything is not as usual, nothing was changed and Python's code is called. */
#include "stream.h"

#define SLOT_OF(place, class, name) Py_ssize_t place;
STREAM_SLOTS(SLOT_OF)
#undef SLOT_OF

#define SLOT_OF(place, class, name) {&place, class, name},
static const struct { Py_ssize_t *place; const char *class, *name; } SLOTS[] = {STREAM_SLOTS(SLOT_OF)};
#undef SLOT_OF

PyObject *stream_engine;
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

/* -- recording ------------------------------------------------------------------------------------------- */

/* Has a task fewer elements than large arrays have? */
static int few(PyObject *template)
{
    return small_number_in(SLOT(template, template_elements)) < small_number_in(SLOT(stream_engine, engine_small));
}

/* What the rule for loops over slices (walk.py) is to be told of a task: that it is over many elements, where small
 * ones were counted or are done at once, now or behind some large one, or that it is over few of a large store; else
 * NULL. */
static PyObject *told(PyObject *template)
{
    PyObject *walk = SLOT(stream_engine, engine_walk);
    if (!few(template))
        return PyDict_GET_SIZE(SLOT(walk, walk_counts)) || PyDict_GET_SIZE(SLOT(walk, walk_after))
               || SLOT(walk, walk_begun) == Py_True ? name_end : NULL;
    long long large = small_number_in(SLOT(stream_engine, engine_small));
    return small_number_in(SLOT(template, template_reach)) >= large ? name_add : NULL;
}

/* Is the engine in its usual state, so that a task needs no look at anything else? */
static int usual(void)
{
    PyObject *modes = NULL; /* NumPy's error modes, which belong to the context */
    if (PyContextVar_Get(SLOT(stream_engine, engine_variable), NULL, &modes) < 0)
        PyErr_Clear();
    Py_XDECREF(modes); /* the context holds it */
    return modes == SLOT(stream_engine, engine_seen) && SLOT(stream_engine, engine_torn) == Py_False
           && SLOT(stream_engine, engine_checks) == Py_False;
}

int small_roomy(PyObject *window)
{
    PyObject *set = SLOT(stream_engine, engine_size), *size = set == Py_None ? SLOT(window, window_size) : set;
    return small_number_in(SLOT(window, window_held)) + 1 < small_number_in(size);
}

PyObject *small_next_id(void)
{
    return PyLong_FromLongLong(small_number_in(SLOT(SLOT(stream_engine, engine_stores), stores_next)) + 1);
}

int small_begun(PyObject *out, PyObject *id, PyObject *frame)
{
    PyObject *stores = SLOT(stream_engine, engine_stores), *epoch = SLOT(stream_engine, engine_epoch);
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
    put(out, storage_touched, SLOT(stream_engine, engine_epoch));
    put(out, storage_written, SLOT(stream_engine, engine_epoch));
    return small_set_number(&SLOT(out, storage_version), small_number_in(SLOT(out, storage_version)) + 1);
}

/* Record a task whose parts are allocated, with the engine's lock held: 1; 0, with nothing changed but for deferred fills
 * of its stores that were added, where Python's code has to; -1 with an exception.  `gone` gets the trails that the group
 * leaves: the last one for this task, then those for fills. */
static int added(Task *task, PyObject *const *inputs, PyObject *out, PyObject *frame, PyObject **gone)
{
    if (!usual())
        return PyErr_Occurred() ? -1 : 0;
    if (small_may_wait(task->template, PyTuple_GET_ITEM(task->task, 2), out))
        return PyErr_Occurred() ? -1 : small_hold_fill(task, out, frame);
    PyObject *window = SLOT(stream_engine, engine_window), *group = SLOT(window, window_open);
    for (Py_ssize_t k = 0; k < task->n - task->fresh; k++)
        if (SLOT(k < task->n - 1 ? inputs[k] : out, storage_exported) != Py_False)
            return 0;
    PyObject *id = task->fresh ? small_next_id() : Py_NewRef(SLOT(out, storage_id));
    if (id == NULL)
        return -1;
    PyTuple_SET_ITEM(task->stores, task->n - 1, id);
    int ready = small_bring_fills(task, gone + 1);
    PyObject *edge = ready <= 0 || !small_roomy(window) ? NULL : small_joined(task, group);
    if (edge == NULL)
        return PyErr_Occurred() ? -1 : 0;
    int done = small_counts(name_recorded);
    for (Py_ssize_t k = 0; k < task->n - 1; k++)
        put(inputs[k], storage_touched, SLOT(stream_engine, engine_epoch));
    if (done && (task->fresh ? small_begun(out, id, frame) : written(out)) == 0 && small_join(task, group, edge, gone) == 0)
        return 1;
    put(stream_engine, engine_torn, Py_True);
    return -1;
}

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
        PyObject *walk = SLOT(stream_engine, engine_walk);
        PyObject *said = PyObject_CallMethodOneArg(walk, name, task->task);
        done = said == NULL ? -1 : 1;
        Py_XDECREF(said);
    }
    small_unlock();
    return done;
}

/* Does no task belong to the open group yet? */
static int begins(void)
{
    return PyList_GET_SIZE(SLOT(SLOT(SLOT(stream_engine, engine_window), window_open), group_recorded)) == 0;
}

int small_again(PyObject *template, const KnownCall *call, PyObject *const *inputs, Py_ssize_t n, PyObject *out,
                PyObject *frame, PyObject *values, int depth)
{
    Task task = {.template = template, .n = n + 1, .fresh = frame != NULL};
    task.expected = call == NULL ? NULL : call->expected;
    PyObject *gone[SMALL_STORES + 1] = {NULL};
    int done = -1;
    if (task.n > SMALL_STORES)
        return 0;
    for (Py_ssize_t k = 0; k < task.n - task.fresh; k++)
        if (!small_is_handle(k < n ? inputs[k] : out))
            return 0;
    task.line = small_place(depth);
    task.stores = task.line == NULL ? NULL : PyTuple_New(task.n);
    task.task = task.stores == NULL ? NULL : PyTuple_Pack(4, template, task.stores, values, task.line);
    for (Py_ssize_t k = 0; task.stores != NULL && k < n; k++)
        PyTuple_SET_ITEM(task.stores, k, Py_NewRef(SLOT(inputs[k], storage_id)));
    if (task.task != NULL && begins()) {
        task.first = PyTuple_Pack(2, SLOT(template, template_operation), task.line);
        task.fill = small_fill_before(&task, task.fresh ? NULL : out);
    }
    if (task.task != NULL && !PyErr_Occurred())
        done = alone(&task, inputs, out, frame, gone);
    if (done > 0 && call != NULL && task.expected == NULL)
        small_expect(call, &task, gone[0]);
    for (int k = 0; k <= SMALL_STORES; k++)
        Py_XDECREF(gone[k]);
    Py_XDECREF(task.edge);
    Py_XDECREF(task.first);
    Py_XDECREF(task.fill);
    Py_XDECREF(task.task);
    Py_XDECREF(task.stores);
    Py_XDECREF(task.line);
    return done;
}

int small_exported(PyObject *storage) { return SLOT(storage, storage_exported) != Py_False; }

int small_waited_for(PyObject *template, long often) { return small_number_in(SLOT(template, template_alone)) >= often; }

int small_hasty(PyObject *template, PyObject *storage)
{
    PyObject *walk = SLOT(stream_engine, engine_walk);
    return few(template) && (SLOT(walk, walk_begun) != Py_False || small_idle(storage) != 0);
}

int small_idle(PyObject *storage)
{
    if (!small_is_handle(storage))
        return -1;
    PyObject *touched = SLOT(storage, storage_touched), *epoch = SLOT(stream_engine, engine_epoch);
    return touched != epoch && small_number_in(touched) != small_number_in(epoch);
}

int small_pending(PyObject *storage, int writes)
{
    if (!small_is_handle(storage))
        return 0;
    long long last = small_number_in(SLOT(storage, writes ? storage_touched : storage_written));
    return last == small_number_in(SLOT(stream_engine, engine_epoch))
           && SLOT(SLOT(stream_engine, engine_walk), walk_begun) == Py_False && small_holds();
}

int small_holds(void) { return small_number_in(SLOT(SLOT(stream_engine, engine_window), window_held)) > 0; }

int small_wrote(PyObject *storage)
{
    PyObject *version = SLOT(storage, storage_version);
    if (version != NULL && Py_REFCNT(version) == 1) /* nobody can compare this number with the next one */
        return 0;
    return small_set_number(&SLOT(storage, storage_version), small_number_in(version) + 1);
}

PyObject **small_alone(PyObject *template) { return &SLOT(template, template_alone); }

int small_trusted(PyObject **alone, long often, long most)
{
    long long times = small_number_in(*alone);
    if (times < often || times >= most)
        return 0;
    return !small_counts(name_single) || small_set_number(alone, times + 1) < 0 ? -1 : 1;
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
    stream_engine = part(parts, "engine");
    PyObject *fills = part(parts, "fills"), *handles = part(parts, "Storage"), *trails = part(parts, "Trail");
    if (PyErr_Occurred())
        return -1;
    if (small_connect_lock(stream_engine) < 0 || small_connect_place(parts) < 0
            || small_connect_join((PyTypeObject *)trails) < 0 || small_connect_fills(fills) < 0)
        return -1;
    return small_connect_handles((PyTypeObject *)handles);
}

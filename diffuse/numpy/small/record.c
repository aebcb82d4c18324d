/* Calls that were recorded before, on the same views: diffuse/numpy/ops/known.py in C, with the same names and the
 * same behaviour. */
#include "record.h"

Py_ssize_t known_template, known_frame, known_values, view_token;
static Py_ssize_t known_form, known_part, known_meta, known_plain, known_casts;
static PyObject *table;             /* known.KNOWN */
static PyObject *namespace;         /* of the module `known`, where `eager` is */
static PyObject *pythons_call, *name_eager, *name_into, *name_assign, *name_locate, *nothing; /* known.call, names */

/* Have Python's code find the view of an array, and its store: -1 with an exception. */
static int locate(Array *array)
{
    PyObject *found = PyObject_CallMethodOneArg(state.slow, name_locate, (PyObject *)array);
    Py_XDECREF(found);
    if (found != NULL)
        small_note_located(array);
    return found == NULL ? -1 : 0;
}

int small_seek(PyObject *x)
{
    Array *array = (Array *)x;
    if (!small_is_ours(x) || !absent(array->part) || absent(array->storage)
            || (PyArray_SIZE((PyArrayObject *)array->meta) < state.small && absent(array->owner)))
        return 0;
    return small_located(array) ? 0 : locate(array);
}

/* The store of an array whose token is known, as known.stored: a new reference; NULL where no view describes it, or with an
 * exception. */
static PyObject *stored(Array *x)
{
    if (absent(x->storage) && locate(x) < 0)
        return NULL;
    return absent(x->storage) || absent(x->part) ? NULL : Py_NewRef(x->storage);
}

PyObject *small_name_of(PyObject *x)
{
    PyTypeObject *type = Py_TYPE(x);
    if (!small_is_ours(x))
        return type == &PyArray_Type || !small_is_plain_type(type) ? NULL : (PyObject *)type;
    Array *array = (Array *)x;
    return absent(array->part) || absent(array->storage) ? NULL : SLOT(array->part, view_token);
}

int small_eager(void) { return PyDict_GetItemWithError(namespace, name_eager) == Py_True; }

/* What becomes of a call that was found; a reference to it is dropped if it is not to be recorded now. */
static int usable(PyObject **known)
{
    if (small_eager()) {
        Py_CLEAR(*known);
        return UNKNOWN;
    }
    int parts = PyList_CheckExact(SLOT(*known, known_template)); /* of a roll */
    return !parts && small_is_alone(*known) ? ALONE : DONE;
}

int small_look_up(PyObject *const *names, Py_ssize_t n, PyObject **found)
{
    *found = Py_XNewRef(small_found(table, names, n));
    if (*found == NULL)
        return PyErr_Occurred() ? FAILED : UNKNOWN;
    return usable(found);
}

/* The call of this name, which is looked up where the trail expects another one, or where it is not to be recorded: the
 * trail may keep it longer than the table does.  New references. */
static int find_call(KnownCall *call, PyObject *const *names, Py_ssize_t n)
{
    *call = (KnownCall){names, n, NULL, NULL};
    call->expected = small_expected(names, n, &call->known);
    if (call->expected != NULL && usable(&call->known) == DONE)
        return DONE;
    Py_CLEAR(call->known);
    Py_CLEAR(call->expected);
    return small_look_up(names, n, &call->known);
}

static void let_go(KnownCall *call)
{
    Py_XDECREF(call->known);
    Py_XDECREF(call->expected);
}

/* The numbers among the operands, converted; UNKNOWN where a type has no room for one. */
static int converted(PyObject *known, PyObject *const *operands, PyObject **values)
{
    PyObject *casts = SLOT(known, known_casts);
    Py_ssize_t n = PyTuple_GET_SIZE(casts);
    *values = n ? PyTuple_New(n) : Py_NewRef(nothing);
    for (Py_ssize_t k = 0; *values != NULL && k < n; k++) {
        PyObject *cast = PyTuple_GET_ITEM(casts, k), *x = operands[PyLong_AsSsize_t(PyTuple_GET_ITEM(cast, 0))];
        PyObject *function = PyTuple_GET_ITEM(cast, 1);
        PyObject *value = function == (PyObject *)&PyFloat_Type && PyFloat_CheckExact(x) ? Py_NewRef(x)
                          : PyObject_CallOneArg(function, x);
        if (value == NULL)
            Py_CLEAR(*values);
        else
            PyTuple_SET_ITEM(*values, k, value);
    }
    if (*values != NULL)
        return DONE;
    if (!PyErr_ExceptionMatches(PyExc_OverflowError))
        return FAILED;
    PyErr_Clear();
    return UNKNOWN;
}

PyObject *small_result_of(PyObject *known)
{
    Array *x = small_blank();
    if (x != NULL) {
        x->storage = small_store();
        x->form = Py_NewRef(SLOT(known, known_form));
        x->part = Py_NewRef(SLOT(known, known_part));
        x->meta = Py_NewRef(SLOT(known, known_meta));
        x->memory = Py_NewRef(Py_None);
        x->owner = Py_NewRef(Py_None);
        if (x->storage == NULL)
            Py_CLEAR(x);
    }
    return (PyObject *)x;
}

/* Record a call again whose result is a new array. */
static int record(const KnownCall *call, PyObject *const *operands, Py_ssize_t n, PyObject **found, int depth)
{
    PyObject *known = call->known, *values = NULL, *inputs[SMALL_STORES];
    Py_ssize_t count = 0;
    int done = SLOT(known, known_plain) == Py_True ? DONE : ASK;
    for (Py_ssize_t k = 0; k < n; k++)
        if (done == DONE && small_is_ours(operands[k])) {
            inputs[count] = stored((Array *)operands[k]);
            done = inputs[count] != NULL ? DONE : PyErr_Occurred() ? FAILED : ASK;
            count += done == DONE;
        }
    if (done == DONE)
        done = converted(known, operands, &values);
    if (done == DONE) {
        *found = small_result_of(known);
        done = *found == NULL ? FAILED : small_again(SLOT(known, known_template), call, inputs, count,
                                                     ((Array *)*found)->storage, SLOT(known, known_frame), values, depth);
        if (done == 0)
            done = ASK;
        if (done != DONE)
            Py_CLEAR(*found);
    }
    while (count--)
        Py_XDECREF(inputs[count]);
    Py_XDECREF(values);
    return done;
}

/* The result of a call of this name and these operands, recorded. */
static int fresh(PyObject *const *names, Py_ssize_t n, PyObject *const *operands, PyObject **found, int depth)
{
    KnownCall call;
    int done = find_call(&call, names, n + 1);
    *found = NULL;
    if (done == ALONE)
        done = PyCallable_Check(names[0]) ? small_at_once(call.known, names[0], operands, n, found) : ASK;
    else if (done == DONE)
        done = LATER;
    if (done == LATER)
        done = record(&call, operands, n, found, depth);
    let_go(&call);
    return done;
}

/* A call of one or two operands, the small NumPy arrays among which are replaced by what tasks read for them. */
static PyObject *known_call(PyObject *function, PyObject *a, PyObject *b)
{
    PyObject *found;
    if (small_seek(a) < 0 || (b != NULL && small_seek(b) < 0))
        return NULL;
    PyObject *operands[] = {a, b}, *one = small_token_of(a), *other = b == NULL || one == NULL ? NULL : small_token_of(b);
    PyObject *names[] = {function, one, other};
    int done = PyErr_Occurred() ? FAILED : table == NULL || one == NULL || (b != NULL && other == NULL) ? ASK
               : fresh(names, b == NULL ? 1 : 2, operands, &found, 0);
    Py_XDECREF(one);
    Py_XDECREF(other);
    if (done == DONE)
        return found;
    if (done == FAILED)
        return NULL;
    if (done == UNKNOWN)
        Py_RETURN_NONE;
    return small_ask_known(function, a, b);
}

PyObject *small_known(PyObject *function, PyObject *a, PyObject *b)
{
    PyObject *found;
    if (small_moves(function)) { /* as arithmetic.binary and arithmetic.unary */
        found = small_moved(function, a, b);
        if (found == NULL && !PyErr_Occurred())
            Py_RETURN_NONE;
        if (found != Py_None)
            return found;
        Py_DECREF(found); /* there the same views come again */
    }
    if (!PyArray_CheckExact(a) && (b == NULL || !PyArray_CheckExact(b)))
        return known_call(function, a, b);
    PyObject *operands[] = {a, b}, *read[2];
    int n = b == NULL ? 1 : 2;
    if (small_read(operands, n, read) < 0)
        return NULL;
    found = known_call(function, read[0], b == NULL ? NULL : read[1]);
    small_let_go(read, n);
    return found;
}

PyObject *small_known_function(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    if (n != 2 || !PyTuple_CheckExact(args[1])) {
        PyErr_SetString(PyExc_TypeError, "call() takes the name of an operation and a tuple of operands");
        return NULL;
    }
    PyObject *names[SMALL_STORES + 1], *found, *const *operands = &PyTuple_GET_ITEM(args[1], 0);
    Py_ssize_t count = PyTuple_GET_SIZE(args[1]);
    int done = count < SMALL_STORES ? DONE : ASK;
    names[0] = args[0];
    PyObject *read[SMALL_STORES];
    if (done == DONE && small_read(operands, count, read) < 0)
        return NULL;
    Py_ssize_t given = done == DONE ? count : 0;
    for (Py_ssize_t k = 0; k < given && done != FAILED; k++)
        if (small_seek(read[k]) < 0)
            done = FAILED;
    for (Py_ssize_t k = 0; done == DONE && k < count; k++)
        if ((names[k + 1] = small_name_of(read[k])) == NULL)
            done = ASK;
    if (done == DONE)
        done = fresh(names, count, read, &found, 1);
    small_let_go(read, given);
    return done == DONE ? found : done == FAILED ? NULL : done == UNKNOWN ? Py_NewRef(Py_None)
           : PyObject_Vectorcall(pythons_call, args, n, NULL);
}

/* -- calls that write ------------------------------------------------------------------------------------- */

/* Record a call that was found, which writes a store that is held. */
static int overwrite(const KnownCall *call, PyObject *const *operands, Py_ssize_t count, PyObject *storage)
{
    PyObject *values = NULL, *inputs[SMALL_STORES];
    Py_ssize_t stores = 0;
    int done = DONE;
    for (Py_ssize_t k = 0; k < count && done == DONE; k++)
        if (small_is_ours(operands[k])) {
            inputs[stores] = stored((Array *)operands[k]);
            done = inputs[stores] != NULL ? DONE : PyErr_Occurred() ? FAILED : UNKNOWN;
            stores += done == DONE;
        }
    if (done == DONE)
        done = converted(call->known, operands, &values);
    if (done == DONE) {
        done = small_again(SLOT(call->known, known_template), call, inputs, stores, storage, NULL, values, 0);
        done = done ? done : ASK;
    }
    while (stores--)
        Py_DECREF(inputs[stores]);
    Py_XDECREF(values);
    return done;
}

/* Record a call of this name that writes an array, or the part of it that an index selects. */
static int call_into(PyObject *const *names, Py_ssize_t n, PyObject *const *operands, Py_ssize_t count, Array *out,
                     PyObject *index)
{
    KnownCall call;
    int done = find_call(&call, names, n);
    PyObject *storage = Py_NewRef(out->storage);
    if (done == ALONE)
        done = small_written(call.known, names[1], operands, count, out, index);
    else if (done == DONE)
        done = LATER;
    if (done == LATER && small_hasty(SLOT(call.known, known_template), storage))
        done = ASK; /* it may be done at once */
    else if (done == LATER)
        done = PyArray_ISWRITEABLE((PyArrayObject *)out->meta) ? overwrite(&call, operands, count, storage) : UNKNOWN;
    Py_DECREF(storage);
    let_go(&call);
    return done;
}

/* The same, of a name that has `n` parts so far, for which `names` has room. */
static int into(PyObject **names, Py_ssize_t n, PyObject *const *operands, Py_ssize_t count, Array *out,
                PyObject *index)
{
    PyObject *target = out->part, *storage = out->storage, *tokens[SMALL_STORES];
    Py_ssize_t known = 0;
    if (absent(target) || absent(storage))
        return ASK;
    names[n++] = SLOT(target, view_token);
    int done = DONE;
    for (; known < count && done == DONE; known++) {
        Array *x = (Array *)operands[known];
        names[n++] = tokens[known] = small_token_of(operands[known]);
        if (tokens[known] == NULL)
            done = PyErr_Occurred() ? FAILED : ASK;
        else if (small_is_ours(operands[known]) && !absent(x->storage)
                 && (x->storage == storage ? x->part != target : small_exported(x->storage) && small_exported(storage)))
            done = UNKNOWN; /* they may overlap */
    }
    if (done == DONE)
        done = call_into(names, n, operands, count, out, index);
    while (known--)
        Py_XDECREF(tokens[known]);
    return done;
}

int small_known_into(PyObject *function, PyObject *const *operands, Py_ssize_t n, Array *out)
{
    PyObject *names[SMALL_STORES + 4], *read[SMALL_STORES];
    if (small_read(operands, n, read) < 0)
        return -1;
    int done = table == NULL ? ASK : DONE;
    for (Py_ssize_t k = 0; k < n && done != FAILED; k++)
        if (small_seek(read[k]) < 0)
            done = FAILED;
    names[0] = name_into;
    names[1] = function;
    if (done == DONE)
        done = into(names, 2, read, n, out, NULL);
    small_let_go(read, n);
    return done == ASK ? 0 : done;
}

int small_known_put(PyObject **names, Py_ssize_t n, Array *x, PyObject *index, PyObject *value)
{
    PyObject *read;
    if (small_read(&value, 1, &read) < 0)
        return -1;
    names[0] = name_assign;
    int done = table == NULL ? ASK : into(names, n, &read, 1, x, index);
    small_let_go(&read, 1);
    return done == ASK ? 0 : done;
}

PyObject *small_known_call(PyObject *ufunc, Py_ssize_t inputs, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    if (n == inputs && kwnames == NULL)
        return small_known(ufunc, args[0], n == 2 ? args[1] : NULL);
    Py_ssize_t all = n + (kwnames == NULL ? 0 : PyTuple_GET_SIZE(kwnames));
    if (all != inputs + 1 || n < inputs || (n > inputs && small_warns(ufunc)))
        Py_RETURN_NONE;
    Array *out = (Array *)args[inputs];
    if ((n == inputs && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, 0), "out"))
            || Py_TYPE(out) != state.array_class || size_of(out->meta) < state.small)
        Py_RETURN_NONE;
    int done = small_known_into(ufunc, args, inputs, out);
    return done < 0 ? NULL : Py_NewRef(done ? (PyObject *)out : Py_None);
}

int small_connect_known(PyObject *parts)
{
    static const struct { Py_ssize_t *place; const char *name; } SLOTS[] = {
        {&known_template, "template"}, {&known_form, "form"}, {&known_frame, "frame"}, {&known_part, "part"},
        {&known_meta, "meta"}, {&known_plain, "plain"}, {&known_casts, "casts"}, {&known_values, "values"}};
    PyObject *type = PyDict_GetItemString(parts, "Known"), *view = PyDict_GetItemString(parts, "View");
    for (size_t k = 0; type != NULL && k < sizeof SLOTS / sizeof *SLOTS; k++)
        if ((*SLOTS[k].place = small_slot(type, SLOTS[k].name)) < 0)
            return -1;
    static const struct { PyObject **place; const char *name; } OBJECTS[] = {
        {&namespace, "namespace"}, {&table, "KNOWN"}, {&pythons_call, "call"}};
    int all = type != NULL && view != NULL;
    for (size_t k = 0; k < sizeof OBJECTS / sizeof *OBJECTS; k++) {
        Py_XSETREF(*OBJECTS[k].place, Py_XNewRef(PyDict_GetItemString(parts, OBJECTS[k].name)));
        all &= *OBJECTS[k].place != NULL;
    }
    if (!all) {
        PyErr_SetString(PyExc_KeyError, "a part of what the module `known` has is not given");
        return -1;
    }
    if ((view_token = small_slot(view, "token")) < 0)
        return -1;
    name_eager = PyUnicode_InternFromString("eager");
    name_into = PyUnicode_InternFromString("into");
    name_assign = PyUnicode_InternFromString("assign");
    name_locate = PyUnicode_InternFromString("locate");
    nothing = PyTuple_New(0);
    return PyErr_Occurred() || small_connect_alone(parts) < 0 ? -1 : small_connect_constants(parts);
}

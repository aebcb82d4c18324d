/* Gates: functions, ufuncs and methods of NumPy that small arrays take straight to NumPy (ops/gates.py). */
#include "gate.h"

/* `empty`, `zeros` or a function like them of so many elements in one dimension. */
static PyObject *row_of(Gate *gate, PyObject *const *args)
{
    npy_intp count = PyLong_AsSsize_t(args[0]);
    return gate->flags & BLANK ? PyArray_Empty(1, &count, NULL, 0) : gate->zeros ? PyArray_Zeros(1, &count, NULL, 0)
           : PyObject_Vectorcall(gate->real, args, 1, NULL);
}

/* What NumPy gives where the arguments are small, or where the call only looks at the description of a large array or
 * reads its memory.  NULL, without an exception, of other calls.  `frame` is that of the gate's function. */
static PyObject *call_on_small(Gate *gate, PyObject *const *args, Py_ssize_t n, PyObject *kwnames, void **frame)
{
    PyObject *low[MOST], *result = NULL;
    Py_ssize_t all = small_count(n, kwnames);
    if (gate->need == SHAPED && all == 1 && n == 1 && PyLong_CheckExact(args[0])) /* as often, of one dimension */
        return small_makes_few(gate, args, n, kwnames) ? small_shown(row_of(gate, args)) : NULL;
    int looks = gate->flags & (VIEWS | READS);
    if (looks && n > 0 && all == n) {
        result = gate->flags & READS ? small_read_from(gate, args, n) : small_views(gate, args, n);
        if (result != NULL || PyErr_Occurred())
            return result;
    }
    if ((gate->flags & BELONGS) && (looks || n == 0))
        return NULL;
    Py_ssize_t target = small_target(gate, args, n, kwnames);
    if (target >= 0)
        return small_write_to(gate, args, n, kwnames, target);
    Found found = {.product = 1};
    if (!small_lower_all(args, all, -1, low, &found))
        return NULL;
    if (small_permitted(gate, &found, args, n, kwnames)) {
        if (kwnames == NULL && n == small_inputs(gate))
            result = small_call_over_temporary(gate, args, low, n, frame);
        if (result == NULL)
            result = small_answer(gate, low, n, kwnames, &found);
    }
    small_release(low, all, &found);
    return result;
}

/* What NumPy gives of large arrays where it is sooner than a task, a call that is recorded again, or what Diffuse's
 * own function gives. */
static PyObject *call_on_large(Gate *gate, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    PyObject *result;
    if (state.left > 0 && gate->flags >= WAYS
            && ((result = small_call_soon(gate, args, n, kwnames)) != NULL || PyErr_Occurred()))
        return result;
    PyObject *axis = small_axis(gate, args, n, kwnames);
    if ((gate->flags & FOLDS) && (axis != NULL || (n == 1 && kwnames == NULL))
            && ((result = small_fold(gate, args[0], axis)) != NULL || PyErr_Occurred()))
        return result;
    if (gate->watched != NULL && state.places != NULL
            && ((result = small_call_at_once(gate, args, n, kwnames)) != NULL || PyErr_Occurred()))
        return result;
    if (gate->rolls && gate->watched != NULL && state.places != NULL
            && ((result = small_roll_again(gate, args, n, kwnames)) != NULL || PyErr_Occurred()))
        return result;
    if (!absent(gate->told)
            && ((result = small_borrowed(gate, args, n, kwnames)) != NULL || PyErr_Occurred()))
        return result;
    if (gate->flags & (ONE | TWO)) {
        result = small_known_call(gate->real, small_inputs(gate), args, n, kwnames);
        if (result != Py_None)
            return result;
        Py_DECREF(result);
    }
    return PyObject_Vectorcall(gate->ours, args, n, kwnames);
}

/* Is it an array of Diffuse's, or the few elements of which NumPy keeps one? */
static int is_kept(PyObject *x)
{
    return Py_TYPE(x) == state.array_class || (PyArray_CheckExact(x) && size_of(x) < state.tiny);
}

/* Is it a call of a ufunc with an output on numbers and NumPy's arrays of few elements, which is NumPy's? */
static int is_numpys(Gate *gate, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    Py_ssize_t inputs = small_inputs(gate), all = small_count(n, kwnames);
    int named = kwnames != NULL && PyTuple_GET_SIZE(kwnames) == 1 && small_keyword(kwnames, "out") == 0;
    if (!(gate->flags & OPERATES) || !(named || (kwnames == NULL && inputs && n == inputs + 1)))
        return 0;
    for (Py_ssize_t k = 0; k < all; k++)
        if (!(PyArray_CheckExact(args[k]) && size_of(args[k]) < state.tiny) && !PyFloat_CheckExact(args[k])
                && !PyLong_CheckExact(args[k]))
            return 0;
    return 1;
}

/* What a method of views, one that reads memory at hand, or a function of the description gives of an array, whatever
 * its size, without NumPy; NULL as `small_views`. */
static PyObject *quickly(Gate *gate, Array *x, PyObject *const *args, Py_ssize_t n)
{
    if (gate->at_hand) {
        PyObject *memory = small_at_hand(x), *found = memory == NULL ? NULL : gate->quick((PyArrayObject *)memory, args, n);
        Py_XDECREF(memory);
        if (found != NULL)
            small_looked();
        return found;
    }
    PyObject *meta = absent(x->meta) ? NULL : gate->quick((PyArrayObject *)x->meta, args, n);
    if (gate->describes)
        return meta;
    if (meta == NULL || !PyList_CheckExact(meta)) {
        PyObject *view = meta == NULL ? NULL : small_viewing(x, meta);
        Py_XDECREF(meta);
        return view;
    }
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(meta); k++) { /* nobody else knows the list */
        PyObject *view = small_viewing(x, PyList_GET_ITEM(meta, k));
        if (view == NULL) {
            Py_DECREF(meta);
            return NULL;
        }
        PyList_SetItem(meta, k, view);
    }
    return meta;
}

/* Where a call does not take such arguments, as a TypeError says: what NumPy's own function says of them, or gives. */
static PyObject *refused(Gate *gate, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    PyObject *type, *error, *trace, *found = NULL, *given = PyTuple_New(small_count(n, kwnames));
    PyErr_Fetch(&type, &error, &trace);
    PyErr_NormalizeException(&type, &error, &trace);
    if (trace != NULL)
        PyException_SetTraceback(error, trace);
    for (Py_ssize_t k = 0; given != NULL && k < PyTuple_GET_SIZE(given); k++)
        PyTuple_SET_ITEM(given, k, Py_NewRef(args[k]));
    if (given != NULL)
        found = PyObject_CallFunctionObjArgs(state.refused, gate, gate->real, error, given, kwnames, NULL);
    Py_XDECREF(given);
    if (found == NULL || found != Py_None) { /* NumPy raises its exception, or takes the arguments */
        Py_DECREF(type);
        Py_XDECREF(error);
        Py_XDECREF(trace);
        PyObject *result = found == NULL ? NULL : Py_NewRef(PyTuple_GET_ITEM(found, 0));
        Py_XDECREF(found);
        return result;
    }
    Py_DECREF(found);
    PyErr_Restore(type, error, trace);
    return NULL;
}

/* Is it an array of bools, which the extension adds up sooner than NumPy? */
static int are_bools(PyObject *x)
{
    return Py_TYPE(x) == state.array_class && !absent(((Array *)x)->meta)
        && PyArray_TYPE((PyArrayObject *)((Array *)x)->meta) == NPY_BOOL;
}

static PyObject *gate_call(Gate *gate, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    Py_ssize_t n = PyVectorcall_NARGS(nargsf);
    if ((gate->flags & KEEPS) && n == 1 && kwnames == NULL && is_kept(args[0]))
        return Py_NewRef(args[0]);
    if (gate->duplicates && n == 1 && kwnames == NULL) {
        PyObject *copy = small_duplicate(args[0]);
        if (copy != NULL || PyErr_Occurred())
            return copy;
    }
    if (gate->quick != NULL && n > 0 && kwnames == NULL && Py_TYPE(args[0]) == state.array_class) {
        PyObject *view = quickly(gate, (Array *)args[0], args + 1, n - 1);
        if (view != NULL || PyErr_Occurred())
            return view;
    }
    if (gate->quick != NULL && n > 0 && kwnames == NULL && PyArray_CheckExact(args[0]) && !gate->at_hand
            && size_of(args[0]) < state.tiny && small_native((PyArrayObject *)args[0])) {
        PyObject *found = gate->quick((PyArrayObject *)args[0], args + 1, n - 1);
        if (found != NULL || PyErr_Occurred())
            return found;
    }
    if (gate->reduces && n == 1 && kwnames == NULL) {
        PyObject *found = small_reduce(gate, args[0]);
        if (found == NULL && !PyErr_Occurred() && (gate->reduces > SMALL_ANYWHERE || are_bools(args[0])))
            found = small_fold(gate, args[0], NULL);
        if (found != NULL || PyErr_Occurred())
            return found;
    }
    if (gate->need == ANYTHING && n == 1 && kwnames == NULL && !(gate->flags & OPERATES) && PyList_CheckExact(args[0])
            && small_sequence(args[0], state.tiny)) {
        PyObject *made = small_listed(args[0]);
        return made != NULL || PyErr_Occurred() ? made : small_shown(PyObject_Vectorcall(gate->real, args, n, NULL));
    }
    if (is_numpys(gate, args, n, kwnames))
        return PyObject_Vectorcall(gate->real, args, n, kwnames);
    PyObject *result = call_on_small(gate, args, n, kwnames, (void **)__builtin_frame_address(0));
    if (result == NULL && !PyErr_Occurred())
        result = call_on_large(gate, args, n, kwnames);
    int wrong = result == NULL && state.refused != NULL && PyErr_ExceptionMatches(PyExc_TypeError);
    return wrong ? refused(gate, args, n, kwnames) : result;
}

/* The methods and functions that are done without NumPy. */
static const struct { const char *name; Quick quick; int at_hand, function, describes; } QUICK[] = {
    {"ravel", small_ravel}, {"reshape", small_reshape}, {"swapaxes", small_swapaxes},
    {"transpose", small_permuted, 0, 1}, {"transpose", small_transpose}, {"diagonal", small_diagonal, 0, 1},
    {"expand_dims", small_expand_dims, 0, 1}, {"broadcast_to", small_broadcast_to, 0, 1}, {"flip", small_flip, 0, 1},
    {"split", small_split, 0, 1}, {"array_split", small_array_split, 0, 1}, {"view", small_retyped},
    {"item", small_item, 1}, {"trace", small_trace, 1, 1},
    {"shape", small_shape, 0, 1, 1}, {"ndim", small_ndim, 0, 1, 1}, {"size", small_size, 0, 1, 1}};

/* The methods, and functions of NumPy, that reduce a small array without it. */
static const char *const FOLDED[] = {
    [SMALL_SUM] = "sum", [SMALL_MEAN] = "mean", [SMALL_MAX] = "max", [SMALL_MIN] = "min", [SMALL_ANY_TRUE] = "any",
    [SMALL_ALL] = "all", [SMALL_COUNT] = "count_nonzero", [SMALL_ARGMAX] = "argmax", [SMALL_ARGMIN] = "argmin",
    [SMALL_PTP] = "ptp"};

/* Is it the function of this name of NumPy itself, and not of a module within? */
static int is_numpys_own(Gate *gate, PyObject *name)
{
    PyObject *numpy = PyImport_ImportModule("numpy"), *own = numpy == NULL ? NULL : PyObject_GetAttr(numpy, name);
    Py_XDECREF(numpy);
    Py_XDECREF(own);
    PyErr_Clear();
    return own != NULL && own == gate->function;
}

static void find_quick(Gate *gate)
{
    gate->quick = NULL;
    gate->zeros = gate->reduces = gate->sections = gate->selects = gate->likens = gate->duplicates = 0;
    if (gate->need > SHAPED)
        return;
    PyObject *name = PyObject_GetAttrString(gate->real, "__name__");
    if (name == NULL || !PyUnicode_Check(name)) { /* some objects that NumPy has as functions have none */
        Py_XDECREF(name);
        PyErr_Clear();
        return;
    }
    gate->selects = PyUnicode_CompareWithASCIIString(name, "where") == 0 && is_numpys_own(gate, name);
    if (gate->need == ANYTHING || gate->flags & OPERATES) {
        gate->duplicates = PyUnicode_CompareWithASCIIString(name, "array") == 0 && is_numpys_own(gate, name);
        Py_DECREF(name);
        return;
    }
    for (size_t k = 0; gate->need == ARRAYS && k < sizeof QUICK / sizeof *QUICK; k++)
        if (PyUnicode_CompareWithASCIIString(name, QUICK[k].name) == 0
                && (gate->flags & BELONGS || (QUICK[k].function && is_numpys_own(gate, name)))) {
            gate->quick = QUICK[k].quick;
            gate->at_hand = QUICK[k].at_hand;
            gate->describes = QUICK[k].describes;
        }
    for (int fold = 1; fold <= SMALL_PTP; fold++)
        if (FOLDED[fold] != NULL && PyUnicode_CompareWithASCIIString(name, FOLDED[fold]) == 0
                && (gate->flags & BELONGS || is_numpys_own(gate, name)))
            gate->reduces = fold;
    gate->zeros = gate->need == SHAPED && PyUnicode_CompareWithASCIIString(name, "zeros") == 0;
    gate->likens = PyUnicode_CompareWithASCIIString(name, "zeros_like") == 0 && is_numpys_own(gate, name);
    gate->rolls = PyUnicode_CompareWithASCIIString(name, "roll") == 0 && !(gate->flags & BELONGS);
    Py_DECREF(name);
}

static int gate_init(Gate *gate, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"real", "ours", "need", "flags", "function", NULL};
    PyObject *real, *ours, *function;
    int need, flags;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOiiO", names, &real, &ours, &need, &flags, &function))
        return -1;
    Py_XSETREF(gate->real, Py_NewRef(real));
    Py_XSETREF(gate->ours, Py_NewRef(ours));
    Py_XSETREF(gate->function, Py_NewRef(function));
    gate->need = need;
    gate->flags = flags;
    gate->call = (vectorcallfunc)(need == DRAWING ? small_draw : gate_call);
    find_quick(gate);
    return 0;
}

static int gate_traverse(Gate *gate, visitproc visit, void *arg)
{
    Py_VISIT(gate->real);
    Py_VISIT(gate->ours);
    Py_VISIT(gate->function);
    Py_VISIT(gate->watched);
    Py_VISIT(gate->told);
    Py_VISIT(gate->dict);
    return 0;
}

static int gate_clear(Gate *gate)
{
    Py_CLEAR(gate->real);
    Py_CLEAR(gate->ours);
    Py_CLEAR(gate->function);
    Py_CLEAR(gate->watched);
    Py_CLEAR(gate->told);
    Py_CLEAR(gate->dict);
    return 0;
}

static void gate_dealloc(Gate *gate)
{
    PyObject_GC_UnTrack(gate);
    if (gate->weakrefs != NULL)
        PyObject_ClearWeakRefs((PyObject *)gate);
    gate_clear(gate);
    Py_TYPE(gate)->tp_free((PyObject *)gate);
}

static PyObject *gate_repr(Gate *gate)
{
    PyObject *name = PyObject_GetAttrString((PyObject *)gate, "__qualname__");
    PyObject *text = name == NULL ? NULL : PyUnicode_FromFormat("<function %U at %p>", name, gate);
    Py_XDECREF(name);
    return text;
}

static PyObject *gate_reduce(PyObject *gate, PyObject *ignored)
{
    return PyObject_GetAttrString(gate, "__qualname__");
}

static PyObject *gate_bind(PyObject *gate, PyObject *object, PyObject *type)
{
    return object == NULL || object == Py_None ? Py_NewRef(gate) : PyMethod_New(gate, object);
}

static PyMethodDef gate_methods[] = {
    {"__reduce__", gate_reduce, METH_NOARGS, "A gate is pickled by its name, as a function is."}, {NULL}};

static PyMemberDef gate_members[] = {
    {"__dictoffset__", T_PYSSIZET, offsetof(Gate, dict), READONLY, NULL},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Gate, call), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Gate, weakrefs), READONLY, NULL},
    {"watched", T_OBJECT_EX, offsetof(Gate, watched), 0, NULL},
    {"told", T_OBJECT_EX, offsetof(Gate, told), 0, NULL},
    {"few", T_INT, offsetof(Gate, few), 0, NULL},
    {"rank", T_INT, offsetof(Gate, rank), 0, NULL},
    {"sized", T_PYSSIZET, offsetof(Gate, sized), 0, NULL},
    {"most", T_PYSSIZET, offsetof(Gate, most), 0, NULL},
    {"draws", T_INT, offsetof(Gate, draws), 0, NULL},
    {"reduces", T_INT, offsetof(Gate, reduces), 0, NULL},
    {"sections", T_INT, offsetof(Gate, sections), 0, NULL},
    {NULL}};

static PyGetSetDef gate_getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL}, {NULL}};

#define GATE_TYPE(type, name, doc, more, bind)                                                                 \
    PyTypeObject type = {                                                                                      \
        PyVarObject_HEAD_INIT(NULL, 0)                                                                         \
        .tp_name = name, .tp_doc = doc, .tp_basicsize = sizeof(Gate),                                          \
        .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | more,               \
        .tp_call = PyVectorcall_Call, .tp_vectorcall_offset = offsetof(Gate, call),                            \
        .tp_dictoffset = offsetof(Gate, dict), .tp_weaklistoffset = offsetof(Gate, weakrefs),                  \
        .tp_traverse = (traverseproc)gate_traverse, .tp_clear = (inquiry)gate_clear,                           \
        .tp_dealloc = (destructor)gate_dealloc, .tp_repr = (reprfunc)gate_repr, .tp_methods = gate_methods,    \
        .tp_members = gate_members, .tp_getset = gate_getset, .tp_init = (initproc)gate_init,                  \
        .tp_new = PyType_GenericNew, .tp_descr_get = bind}

GATE_TYPE(Gate_Type, "diffuse.numpy.small.Gate", "A function that is a method where a class has it as an attribute.",
          Py_TPFLAGS_METHOD_DESCRIPTOR, gate_bind);
GATE_TYPE(StaticGate_Type, "diffuse.numpy.small.StaticGate", "A function that is never a method, as builtin ones are.",
          Py_TPFLAGS_BASETYPE, NULL);

/* The array, and how one is made: diffuse/numpy/arrays/core.py in C, with the same names and behaviour. */
#include "views.h"

State state;

static PyMemberDef array_members[] = {
    {"storage", T_OBJECT_EX, offsetof(Array, storage), 0, NULL},
    {"_form", T_OBJECT_EX, offsetof(Array, form), 0, NULL},
    {"part", T_OBJECT_EX, offsetof(Array, part), 0, NULL},
    {"meta", T_OBJECT_EX, offsetof(Array, meta), 0, NULL},
    {"memory", T_OBJECT_EX, offsetof(Array, memory), 0, NULL},
    {"owner", T_OBJECT_EX, offsetof(Array, owner), 0, NULL},
    {"lent", T_BOOL, offsetof(Array, lent), 0, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Array, weakrefs), READONLY, NULL},
    {NULL}};

static int array_traverse(Array *x, visitproc visit, void *arg)
{
    Py_VISIT(x->storage);
    Py_VISIT(x->form);
    Py_VISIT(x->part);
    Py_VISIT(x->meta);
    Py_VISIT(x->memory);
    Py_VISIT(x->owner);
    return 0;
}

static int array_clear(Array *x)
{
    Py_CLEAR(x->storage);
    Py_CLEAR(x->form);
    Py_CLEAR(x->part);
    Py_CLEAR(x->meta);
    Py_CLEAR(x->memory);
    Py_CLEAR(x->owner);
    return 0;
}

static void array_dealloc(Array *x)
{
    PyObject_GC_UnTrack(x);
    if (x->weakrefs != NULL)
        PyObject_ClearWeakRefs((PyObject *)x);
    array_clear(x);
    Py_TYPE(x)->tp_free((PyObject *)x);
}

static PyObject *get_form(Array *x, void *closure)
{
    if (!absent(x->form))
        return Py_NewRef(x->form);
    PyObject *found = PyObject_CallMethod(state.slow, "form_of", "O", x->meta);
    if (found != NULL)
        Py_XSETREF(x->form, Py_NewRef(found));
    return found;
}

static int set_form(Array *x, PyObject *form, void *closure)
{
    Py_XSETREF(x->form, Py_XNewRef(form));
    return 0;
}

static PyGetSetDef array_getset[] = {
    {"form", (getter)get_form, (setter)set_form, "Shape, strides and element type, interned.", NULL}, {NULL}};

PyTypeObject Array_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "diffuse.numpy.small.Array",
    .tp_doc = "The common part of `ndarray` and the pending number.",
    .tp_basicsize = sizeof(Array),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_weaklistoffset = offsetof(Array, weakrefs),
    .tp_traverse = (traverseproc)array_traverse,
    .tp_clear = (inquiry)array_clear,
    .tp_dealloc = (destructor)array_dealloc,
    .tp_members = array_members,
    .tp_methods = small_methods,
    .tp_getset = array_getset,
    .tp_new = PyType_GenericNew,
};

/* The memory of arrays that died, for the next ones: most arrays live no longer than one expression. */
enum { SPARE = 64 };
static Array *spare[SPARE];
static int spares;

HOT Array *small_blank(void)
{
    if (spares == 0)
        return (Array *)state.array_class->tp_alloc(state.array_class, 0);
    Array *x = spare[--spares];
    PyObject_Init((PyObject *)x, state.array_class);
    PyObject_GC_Track(x);
    return x;
}

/* `tp_dealloc` of the class of arrays, which has no slots and no `__dict__` beside those of its base. */
HOT static void ended(Array *x)
{
    PyTypeObject *type = Py_TYPE(x);
    PyObject *meta = x->meta, *memory = x->memory;
    PyObject_GC_UnTrack(x);
    if (x->weakrefs != NULL)
        PyObject_ClearWeakRefs((PyObject *)x);
    x->meta = x->memory = NULL;
    small_drop(memory);
    small_drop(meta);
    array_clear(x);
    x->lent = 0;
    if (type == state.array_class && spares < SPARE)
        spare[spares++] = x;
    else
        type->tp_free(x);
    Py_DECREF(type);
}

void small_recycle(PyTypeObject *type) { type->tp_dealloc = (destructor)ended; }

HOT static Array *fresh(PyObject *meta)
{
    Array *x = small_blank();
    if (x != NULL) {
        x->form = Py_NewRef(Py_None);
        x->part = Py_NewRef(Py_None);
        x->meta = Py_NewRef(meta);
    }
    return x;
}

PyObject *small_hosted(PyObject *memory, PyObject *form)
{
    Array *x = fresh(memory);
    if (x == NULL)
        return NULL;
    if (form != Py_None)
        Py_SETREF(x->form, Py_NewRef(form));
    x->memory = Py_NewRef(memory);
    x->storage = Py_NewRef(Py_None);
    x->owner = Py_NewRef(Py_None);
    return (PyObject *)x;
}

/* A view of an array by a view of its description, in memory that is known or None. */
HOT static PyObject *viewing(Array *parent, PyObject *meta, PyObject *memory)
{
    Array *owner = absent(parent->owner) ? parent : (Array *)parent->owner;
    Array *x = fresh(meta);
    if (x == NULL)
        return NULL;
    x->memory = Py_NewRef(memory);
    x->storage = Py_NewRef(owner->storage == NULL ? Py_None : owner->storage);
    x->owner = Py_NewRef((PyObject *)owner);
    return (PyObject *)x;
}

PyObject *small_viewing(Array *parent, PyObject *meta)
{
    return viewing(parent, meta, parent->meta == parent->memory ? meta : Py_None);
}

HOT PyObject *small_looking(Array *parent, PyObject *memory) { return viewing(parent, memory, memory); }


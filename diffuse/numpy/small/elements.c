/* Elements and parts of arrays, and what arrays look like: diffuse/numpy/arrays/elements.py in C. */
#include "operators.h"
#include "views.h"
#include "loops.h"

HOT static int simple_part(PyObject *index)
{
    return PyLong_CheckExact(index) || PySlice_Check(index) || index == Py_None || index == Py_Ellipsis
           || PyArray_IsScalar(index, Integer);
}

/* Does an index select a view or an element, whatever the array? */
HOT static int simple(PyObject *index)
{
    if (!PyTuple_CheckExact(index))
        return simple_part(index);
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(index); k++)
        if (!simple_part(PyTuple_GET_ITEM(index, k)))
            return 0;
    return 1;
}

/* Does an index select a view, and no element? */
static int selects_view(PyObject *index)
{
    int found = PySlice_Check(index);
    for (Py_ssize_t k = 0; PyTuple_CheckExact(index) && k < PyTuple_GET_SIZE(index) && !found; k++)
        found = PySlice_Check(PyTuple_GET_ITEM(index, k));
    return found;
}

/* Does an index select one element? */
static int selects_element(PyObject *array, PyObject *index)
{
    int rank = PyArray_NDIM((PyArrayObject *)array), tuple = PyTuple_CheckExact(index);
    if (rank != (tuple ? PyTuple_GET_SIZE(index) : 1))
        return 0;
    for (int d = 0; d < rank; d++)
        if (!PyLong_CheckExact(tuple ? PyTuple_GET_ITEM(index, d) : index))
            return 0;
    return 1;
}

/* access.lend: may the program get this view as NumPy's array?  Then the array is marked. */
static int lend(Array *x, PyObject *found)
{
    Array *root = absent(x->owner) ? x : (Array *)x->owner;
    if (size_of(found) >= state.tiny || !absent(root->storage) || size_of(root->meta) >= state.small
            || PyArray_BASE((PyArrayObject *)found) != root->meta)
        return 0;
    root->lent = 1;
    return 1;
}

/* What NumPy selects of memory, which numbers of classes of the program's may free as they are converted. */
static PyObject *selected(PyObject *memory, PyObject *index)
{
    PyObject *held = Py_NewRef(memory), *found = PyObject_GetItem(held, index);
    Py_DECREF(held);
    return found;
}

HOT static PyObject *subscript(Array *x, PyObject *index)
{
    int plain = simple(index), known = !absent(x->memory) && (state.sees || x->memory == x->meta);
    int now = plain && known ? small_readable(x) : 0;
    PyObject *part = now != 0 || state.left > 0 ? NULL : small_known_slice(x, index, NULL);
    if (part != NULL || PyErr_Occurred())
        return part;
    if (plain && known) {
        PyObject *found = now > 0 ? small_element(x->memory, index) : NULL;
        if (found == NULL && !PyErr_Occurred())
            found = small_part(x->memory, index);
        if (found == NULL && !PyErr_Occurred())
            found = selected(x->memory, index);
        if (found == NULL)
            return NULL;
        if (!PyArray_CheckExact(found)) { /* an element */
            if (now > 0) {
                if (!state.trial) /* a number that was computed long ago tells nothing about what was computed since */
                    small_looked();
                return found;
            }
            Py_DECREF(found);
        } else if (lend(x, found)) {
            return found;
        } else {
            int looks = now > 0 || absent(x->part) || size_of(found) < state.small || state.left > 0;
            PyObject *view = looks ? small_looking(x, found) : NULL;
            Py_DECREF(found);
            if (view != NULL || PyErr_Occurred())
                return view;
        }
    }
    if (!plain) {
        PyObject *chosen = small_chosen(x, index);
        if (chosen != NULL || PyErr_Occurred())
            return chosen;
    }
    return small_slowly(SUBSCRIPT, (PyObject *)x, index, NULL);
}

static PyObject *iterate(PyObject *x)
{
    if (PyArray_NDIM((PyArrayObject *)((Array *)x)->meta) > 0)
        return PySeqIter_New(x);
    PyErr_SetString(PyExc_TypeError, "iteration over a 0-d array");
    return NULL;
}

static PyObject *item(Array *x, Py_ssize_t k)
{
    PyObject *index = PyLong_FromSsize_t(k);
    PyObject *found = index == NULL ? NULL : PyObject_GetItem((PyObject *)x, index);
    Py_XDECREF(index);
    return found;
}

/* Does an index select few elements?  0 with an exception, too.  `target` gets these elements, as far as they are
 * looked at. */
static int writes_little(Array *x, PyObject *index, PyObject **target)
{
    if ((size_of(x->memory) < state.small && !selects_view(index)) || selects_element(x->memory, index))
        return 1;
    *target = small_part(x->memory, index);
    if (*target == NULL && !PyErr_Occurred())
        *target = selected(x->memory, index);
    return *target != NULL && (!PyArray_CheckExact(*target) || size_of(*target) < state.small
                               || (state.left > 0 && small_spend(2 * PyArray_NBYTES((PyArrayObject *)*target))));
}

/* `memory[index] = right`, where `target` may be the view of the memory that the index selects. */
static int put(PyObject *memory, PyObject *index, PyObject *target, PyObject *right)
{
    if (target != NULL && PyArray_CheckExact(target) && PyArray_ISWRITEABLE((PyArrayObject *)target)
            && PyArray_BASE((PyArrayObject *)target) != NULL)
        return (PyArray_CheckExact(right) && small_same((PyArrayObject *)target, (PyArrayObject *)right))
               || small_put(target, right) ? 0 : PyArray_CopyObject((PyArrayObject *)target, right);
    return PyObject_SetItem(memory, index, right);
}

/* `x[index] = value` of one element and a number that its type holds exactly: 1 if that was done, 0 where the general
 * way has to see to it, -1 with an exception. */
static int assign_element(Array *x, PyObject *index, PyObject *value)
{
    Number number;
    if (absent(x->memory) || !small_plain(x->memory) || !PyArray_ISWRITEABLE((PyArrayObject *)x->memory)
            || !small_taken(small_kind(PyArray_TYPE((PyArrayObject *)x->memory)), value, &number))
        return 0;
    char *place = small_spot(x->memory, index);
    PyObject *memory = place == NULL ? NULL : small_mine(x);
    if (memory == NULL)
        return PyErr_Occurred() ? -1 : 0;
    memcpy(place, &number, PyArray_ITEMSIZE((PyArrayObject *)memory));
    Py_DECREF(memory);
    return 1;
}

static int assign(Array *x, PyObject *index, PyObject *value)
{
    if (value == NULL) {
        PyErr_SetString(PyExc_ValueError, "cannot delete array elements");
        return -1;
    }
    int wrote = assign_element(x, index, value);
    if (wrote)
        return wrote < 0 ? -1 : 0;
    if (!absent(x->memory) && PyArray_ISWRITEABLE((PyArrayObject *)x->meta)) {
        npy_intp bytes = 0;
        int fancy = !simple(index); /* NumPy does it at once, however many elements it selects */
        PyObject *plain = fancy ? small_index(x, index) : Py_NewRef(index);
        PyObject *right = plain == NULL ? NULL : small_number_or_near(value);
        if (plain == index && right == NULL && state.left > 0 && !PyErr_Occurred())
            right = small_soon_operand(value, SMALL_ANY, &bytes);
        PyObject *target = NULL;
        PyObject *memory = right == NULL || !(fancy || writes_little(x, plain, &target)) ? NULL : small_mine(x);
        int done = memory == NULL ? -2 : put(memory, plain, target, right);
        small_drop(target);
        Py_XDECREF(memory);
        Py_XDECREF(right);
        Py_XDECREF(plain);
        if (done != -2)
            return done;
        if (PyErr_Occurred())
            return -1;
    }
    int chose = simple(index) ? 0 : small_choose(x, index, value);
    if (chose)
        return chose < 0 ? -1 : 0;
    int known = small_known_assignment(x, index, value);
    if (known)
        return known < 0 ? -1 : 0;
    PyObject *found = small_slowly(ASSIGN, (PyObject *)x, index, value);
    Py_XDECREF(found);
    return found == NULL ? -1 : 0;
}

/* -- what an array looks like -------------------------------------------------------------------------------- */

static Py_ssize_t length(Array *x)
{
    PyArrayObject *meta = (PyArrayObject *)x->meta;
    return PyArray_NDIM(meta) > 0 ? PyArray_DIM(meta, 0) : PyObject_Length(x->meta); /* which raises */
}

static PyObject *get_shape(Array *x, void *closure)
{
    return PyArray_IntTupleFromIntp(PyArray_NDIM((PyArrayObject *)x->meta), PyArray_DIMS((PyArrayObject *)x->meta));
}

static PyObject *get_dtype(Array *x, void *closure)
{
    return Py_NewRef((PyObject *)PyArray_DESCR((PyArrayObject *)x->meta));
}

/* `x.shape = value` and `x.dtype = value`, by core.slow.set_shape and set_dtype; `closure` is the attribute. */
static int set_form(Array *x, PyObject *value, void *closure)
{
    if (value == NULL) {
        PyErr_Format(PyExc_AttributeError, "Cannot delete array %s", closure);
        return -1;
    }
    PyObject *name = PyUnicode_FromFormat("set_%s", closure);
    PyObject *done = name == NULL ? NULL : PyObject_CallMethodObjArgs(state.slow, name, x, value, NULL);
    Py_XDECREF(name);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

static PyObject *get_ndim(Array *x, void *closure)
{
    return PyLong_FromLong(PyArray_NDIM((PyArrayObject *)x->meta));
}

static PyObject *get_size(Array *x, void *closure)
{
    PyArrayObject *meta = (PyArrayObject *)x->meta;
    npy_intp size = PyArray_NDIM(meta) == 1 ? PyArray_DIM(meta, 0) : PyArray_SIZE(meta);
    return size <= LONG_MAX ? PyLong_FromLong((long)size) : PyLong_FromSsize_t(size); /* the former one is faster */
}

static PyObject *get_transpose(Array *x, void *closure)
{
    PyObject *meta = small_reversed((PyArrayObject *)x->meta);
    PyObject *view = meta == NULL ? NULL : small_viewing(x, meta);
    Py_XDECREF(meta);
    return view;
}

static int is_complex(Array *x)
{
    int type = PyArray_TYPE((PyArrayObject *)x->meta);
    return type == NPY_CFLOAT || type == NPY_CDOUBLE;
}

/* `x.real` and `x.imag`, by the name in `closure`: views of complex arrays. */
static PyObject *get_component(Array *x, void *closure)
{
    if (!is_complex(x))
        return PyObject_CallMethod(state.slow, "component", "Os", x, closure);
    PyObject *meta = small_component((PyArrayObject *)x->meta, *(const char *)closure == 'i');
    PyObject *view = meta == NULL ? NULL : small_viewing(x, meta);
    Py_XDECREF(meta);
    return view;
}

static int set_component(Array *x, PyObject *value, void *closure)
{
    if (value == NULL) {
        PyErr_Format(PyExc_AttributeError, "Cannot delete array %s part", closure);
        return -1;
    }
    PyObject *done = PyObject_CallMethod(state.slow, "set_component", "OsO", x, closure, value);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

static int refuse(Array *x, PyObject *value, void *name)
{
    PyErr_Format(PyExc_AttributeError, "attribute '%s' of 'numpy.ndarray' objects is not writable", name);
    return -1;
}

static PyGetSetDef described_getset[] = {
    {"real", (getter)get_component, (setter)set_component, NULL, "real"},
    {"imag", (getter)get_component, (setter)set_component, NULL, "imag"},
    {"shape", (getter)get_shape, (setter)set_form, NULL, "shape"},
    {"dtype", (getter)get_dtype, (setter)set_form, NULL, "dtype"},
    {"ndim", (getter)get_ndim, (setter)refuse, NULL, "ndim"},
    {"size", (getter)get_size, (setter)refuse, NULL, "size"},
    {"T", (getter)get_transpose, (setter)refuse, NULL, "T"},
    {NULL}};

int small_describe(PyTypeObject *kind)
{
    int done = 0;
    for (PyGetSetDef *own = described_getset; own->name != NULL && done == 0; own++) {
        PyObject *attribute = PyDescr_NewGetSet(kind, own);
        done = attribute == NULL ? -1 : PyDict_SetItemString(kind->tp_dict, own->name, attribute);
        Py_XDECREF(attribute);
    }
    PyType_Modified(kind);
    return done;
}

/* The only element as an index of Python's. */
PyObject *small_as_index(Array *x)
{
    if (PyArray_NDIM((PyArrayObject *)x->meta) > 0) {
        PyErr_SetString(PyExc_TypeError, "only integer scalar arrays can be converted to a scalar index");
        return NULL;
    }
    PyObject *memory = PyObject_CallMethod(state.slow, "host", "O", x);
    PyObject *index = memory == NULL ? NULL : PyNumber_Index(memory);
    Py_XDECREF(memory);
    return index;
}

/* Python's buffer protocol: memory that stays valid, and is the array's, as long as the buffer is held. */
int small_get_buffer(Array *x, Py_buffer *view, int flags)
{
    PyObject *memory = PyObject_CallMethod(state.slow, "buffer", "Oi", x, flags);
    int done = memory == NULL ? -1 : PyObject_GetBuffer(memory, view, flags);
    Py_XDECREF(memory);
    return done;
}

static PyBufferProcs described_buffer = {.bf_getbuffer = (getbufferproc)small_get_buffer};

static PySequenceMethods described_sequence = {.sq_length = (lenfunc)length, .sq_item = (ssizeargfunc)item};

static PyMappingMethods described_mapping = {
    .mp_length = (lenfunc)length, .mp_subscript = (binaryfunc)subscript,
    .mp_ass_subscript = (objobjargproc)assign};

PyTypeObject Described_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "diffuse.numpy.small.Described",
    .tp_doc = "What an array looks like, its elements, and the operators that change them.",
    .tp_base = &Operators_Type,
    .tp_basicsize = sizeof(Array),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_as_number = &small_described_number,
    .tp_as_sequence = &described_sequence,
    .tp_as_mapping = &described_mapping,
    .tp_as_buffer = &described_buffer,
    .tp_iter = iterate,
    .tp_getset = described_getset,
};

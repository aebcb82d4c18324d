/* The memory of arrays: diffuse/numpy/arrays/access.py in C, as far as can be told at once. */
#include "views.h"

static PyObject *name_touched, *name_epoch, *names_out;

int small_native_type(PyArray_Descr *of)
{
    int type = of->type_num;
    return (type <= NPY_ULONGLONG || type == NPY_FLOAT || type == NPY_DOUBLE || type == NPY_CFLOAT
            || type == NPY_CDOUBLE || type == NPY_HALF) && PyArray_ISNBO(of->byteorder);
}

int small_native(PyArrayObject *x) { return small_native_type(PyArray_DESCR(x)); }

/* May the memory of an array that no store was given to be used?  Takes over the owner's store. */
int small_unattached(Array *x)
{
    if (!absent(x->storage))
        return 0;
    if (absent(x->owner) || absent(((Array *)x->owner)->storage))
        return !absent(x->memory);
    Py_XSETREF(x->storage, Py_NewRef(((Array *)x->owner)->storage));
    return 0;
}

/* Is no task pending on the store of an array?  -1 with an exception. */
static int idle(Array *x)
{
    int now = small_idle(x->storage);
    if (now >= 0)
        return now;
    PyObject *touched = PyObject_GetAttr(x->storage, name_touched);
    PyObject *epoch = touched == NULL ? NULL : PyObject_GetAttr(state.engine, name_epoch);
    int same = epoch == NULL ? -1 : PyObject_RichCompareBool(touched, epoch, Py_EQ);
    Py_XDECREF(touched);
    Py_XDECREF(epoch);
    return same < 0 ? -1 : !same;
}

/* May the memory of an array be read now, as far as can be told at once?  -1 with an exception. */
HOT int small_readable(Array *x)
{
    if (small_unattached(x))
        return 1;
    return absent(x->memory) || absent(x->storage) ? 0 : idle(x);
}

PyObject *small_at_hand(Array *x) { return small_readable(x) > 0 ? Py_NewRef(x->memory) : NULL; }

PyObject *small_asked(PyObject *function, Array *x)
{
    PyObject *found = PyObject_CallOneArg(function, (PyObject *)x);
    if (found == Py_None)
        Py_CLEAR(found);
    return found;
}

PyObject *small_near(Array *x)
{
    if (absent(x->meta) || size_of(x->meta) >= state.small)
        return NULL;
    int now = small_readable(x);
    small_step(x);
    if (now == 0 && !absent(x->storage) && small_pending(x->storage, 0))
        return NULL;
    return now < 0 ? NULL : now ? Py_NewRef(x->memory) : small_asked(state.near, x);
}

/* The memory of an array if the host may write to it, as far as can be told at once: NULL, without an
   exception, if not.  Its store counts the writes. */
PyObject *small_mine(Array *x)
{
    if (small_unattached(x))
        return Py_NewRef(x->memory);
    if (!state.sees || absent(x->memory) || absent(x->storage) || small_idle(x->storage) <= 0)
        return NULL;
    return small_wrote(x->storage) < 0 ? NULL : Py_NewRef(x->memory);
}

PyObject *small_near_to_write(Array *x)
{
    if (absent(x->meta) || size_of(x->meta) >= state.small)
        return NULL;
    PyObject *memory = small_mine(x);
    if (memory == NULL && !PyErr_Occurred() && !absent(x->storage) && small_pending(x->storage, 1))
        return NULL;
    return memory != NULL || PyErr_Occurred() ? memory : small_asked(state.near_to_write, x);
}

static int is_number(PyTypeObject *type)
{
    return type == &PyFloat_Type || type == &PyLong_Type || type == &PyComplex_Type || type == &PyBool_Type;
}

PyObject *small_number_or_near(PyObject *x)
{
    PyTypeObject *type = Py_TYPE(x);
    if (type == state.array_class)
        return small_near((Array *)x);
    if (is_number(type))
        return Py_NewRef(x);
    if (type == &PyArray_Type)
        return size_of(x) < state.small && small_native((PyArrayObject *)x) ? Py_NewRef(x) : NULL;
    if (small_is_pending(type)) {
        PyObject *memory = small_near((Array *)x);
        if (memory == NULL)
            return NULL;
        PyObject *number = PyArray_ToScalar(PyArray_DATA((PyArrayObject *)memory), (PyArrayObject *)memory);
        Py_DECREF(memory);
        return number;
    }
    return small_is_among(type, state.numbers) ? Py_NewRef(x) : NULL;
}

int small_sequence(PyObject *x, npy_intp most)
{
    if ((!PyList_CheckExact(x) && !PyTuple_CheckExact(x)) || PySequence_Fast_GET_SIZE(x) >= most)
        return 0;
    for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(x); k++) {
        PyObject *item = PySequence_Fast_GET_ITEM(x, k);
        if (!PyFloat_CheckExact(item) && !PyLong_CheckExact(item))
            return 0;
    }
    return 1;
}

PyObject *small_listed(PyObject *list)
{
    npy_intp n = PyList_GET_SIZE(list);
    PyTypeObject *type = n ? Py_TYPE(PyList_GET_ITEM(list, 0)) : NULL;
    PyObject *made = n ? PyArray_SimpleNew(1, &n, type == &PyFloat_Type ? NPY_DOUBLE : NPY_LONG) : NULL;
    for (npy_intp k = 0; made != NULL && k < n; k++) {
        PyObject *item = PyList_GET_ITEM(list, k);
        int over = Py_TYPE(item) != type;
        if (type == &PyFloat_Type && !over)
            ((double *)PyArray_BYTES((PyArrayObject *)made))[k] = PyFloat_AS_DOUBLE(item);
        else if (!over)
            ((long *)PyArray_BYTES((PyArrayObject *)made))[k] = PyLong_AsLongAndOverflow(item, &over);
        if (over)
            Py_CLEAR(made);
    }
    return made;
}

PyObject *small_given(PyObject *found)
{
    if (size_of(found) < state.tiny || !small_native((PyArrayObject *)found))
        return found;
    PyObject *x = small_hosted(found, Py_None);
    Py_DECREF(found);
    return x;
}

PyObject *small_shown(PyObject *found)
{
    return found != NULL && PyArray_CheckExact(found) ? small_given(found) : found;
}

/* Is the result of two arrays larger than small arrays are?  Where shapes do not fit, NumPy says so. */
int small_spreads(PyObject *left, PyObject *right)
{
    if (!PyArray_CheckExact(left) || !PyArray_CheckExact(right) || size_of(left) * size_of(right) < state.small)
        return 0;
    PyArrayObject *a = (PyArrayObject *)left, *b = (PyArrayObject *)right;
    npy_intp size = 1;
    for (int k = 1; k <= PyArray_NDIM(a) || k <= PyArray_NDIM(b); k++) {
        npy_intp one = k <= PyArray_NDIM(a) ? PyArray_DIM(a, PyArray_NDIM(a) - k) : 1;
        npy_intp other = k <= PyArray_NDIM(b) ? PyArray_DIM(b, PyArray_NDIM(b) - k) : 1;
        size *= one == 1 ? other : one;
    }
    return size >= state.small;
}

PyObject *small_into(PyObject *ufunc, PyObject *const *values, Py_ssize_t n)
{
    if (small_loop_into(ufunc, values, n, values[n]))
        return Py_NewRef(values[n]);
    return PyObject_Vectorcall(ufunc, values, n, names_out);
}

int small_hand_ready(void)
{
    names_out = Py_BuildValue("(s)", "out");
    name_touched = PyUnicode_InternFromString("touched");
    name_epoch = PyUnicode_InternFromString("epoch");
    return PyErr_Occurred() ? -1 : 0;
}

/* The arguments of a call as NumPy gets them: arrays by their memory, and what a gate has to know about them. */
#include "gate.h"

enum { DEEPEST = 4 }; /* sequences within sequences that are looked into */

/* Note an array among the arguments; 0 if there are too many.  One so deep in sequences is held as long as the call. */
static int note(Found *found, PyObject *given, PyArrayObject *array, int depth)
{
    if (found->arrays == MOST)
        return 0;
    if (found->arrays) {
        PyObject *first = found->seen[0];
        PyArrayObject *other = (PyArrayObject *)(PyArray_CheckExact(first) ? first : ((Array *)first)->meta);
        found->different |= !PyArray_SAMESHAPE(other, array);
    }
    for (int k = 0; k < PyArray_NDIM(array); k++) {
        npy_intp extent = PyArray_DIM(array, PyArray_NDIM(array) - 1 - k);
        if (k >= found->dims)
            found->shape[found->dims++] = extent;
        else if (found->shape[k] == 1)
            found->shape[k] = extent;
    }
    npy_intp size = size_of((PyObject *)array);
    found->product = found->product > Py_MAX(state.small, FEW) ? found->product : found->product * (size ? size : 1);
    found->total += PyArray_NBYTES(array);
    found->width = Py_MAX(found->width, PyArray_ITEMSIZE(array));
    if (depth) {
        Py_INCREF(given);
        found->held |= 1u << found->arrays;
    }
    found->seen[found->arrays++] = given;
    return 1;
}

int small_is_option(PyObject *x)
{
    PyTypeObject *type = Py_TYPE(x);
    if (type == &PyFloat_Type || type == &PyLong_Type || type == &PyBool_Type || type == &PyComplex_Type
            || x == Py_None || x == Py_Ellipsis)
        return 1;
    if (type == &PyUnicode_Type) /* but the name of the type that keeps arrays as objects */
        return PyUnicode_CompareWithASCIIString(x, "O") && PyUnicode_CompareWithASCIIString(x, "object")
               && PyUnicode_CompareWithASCIIString(x, "|O");
    if (PyType_Check(x))
        return x == (PyObject *)&PyFloat_Type || x == (PyObject *)&PyLong_Type || x == (PyObject *)&PyBool_Type
               || x == (PyObject *)&PyComplex_Type || small_is_among((PyTypeObject *)x, state.numbers);
    if (PyArray_DescrCheck(x))
        return PyTypeNum_ISNUMBER(((PyArray_Descr *)x)->type_num) || PyTypeNum_ISBOOL(((PyArray_Descr *)x)->type_num);
    return small_is_among(type, state.options);
}

/* Is it a bound of a slice that is no array? */
static int is_plain(PyObject *x) { return x == Py_None || PyLong_CheckExact(x); }

/* The argument as NumPy gets it (a new reference); NULL, without an exception unless one was raised, where the
 * call has to go to Diffuse. */
static PyObject *lowered(PyObject *x, Found *found, int depth)
{
    PyTypeObject *type = Py_TYPE(x);
    if (found->way && (type == state.array_class || type == &PyArray_Type)) {
        PyObject *memory = small_soon_operand(x, found->way, &found->bytes);
        if (memory != NULL && !note(found, x, (PyArrayObject *)memory, depth))
            Py_CLEAR(memory);
        found->wrapped += type == state.array_class;
        return memory;
    }
    if (found->way && found->way != SMALL_ANY && (type == &PyComplex_Type || PyArray_IsScalar(x, ComplexFloating)))
        return NULL;
    if (type == &PyArray_Type) {
        PyArrayObject *array = (PyArrayObject *)x;
        return size_of(x) < state.small && small_native(array) && note(found, x, array, depth) ? Py_NewRef(x) : NULL;
    }
    if (type == state.array_class) {
        PyObject *memory = found->large ? small_at_hand((Array *)x) : small_near((Array *)x);
        if (memory != NULL && !note(found, x, (PyArrayObject *)memory, depth))
            Py_CLEAR(memory);
        found->wrapped++;
        return memory;
    }
    if (small_is_pending(type))
        return small_number_or_near(x);
    if ((type == &PyList_Type || type == &PyTuple_Type) && depth < DEEPEST) {
        int list = type == &PyList_Type;
        Py_ssize_t n = list ? PyList_GET_SIZE(x) : PyTuple_GET_SIZE(x);
        found->items += n;
        if (found->items >= state.small) /* large, as an array of so many elements is */
            return NULL;
        PyObject *copy = NULL;
        int before = found->arrays;
        for (Py_ssize_t k = 0; k < n; k++) {
            PyObject *item = Py_NewRef(list ? PyList_GET_ITEM(x, k) : PyTuple_GET_ITEM(x, k));
            PyObject *plain = lowered(item, found, depth + 1);
            int same = plain == item;
            Py_DECREF(item);
            if (list && PyList_GET_SIZE(x) != n) /* Python's code that made an item's memory known changed it */
                Py_CLEAR(plain);
            else if (same) {
                Py_DECREF(plain);
                continue;
            }
            if (plain != NULL && copy == NULL)
                copy = PySequence_List(x);
            if (plain == NULL || copy == NULL) {
                Py_XDECREF(plain);
                Py_XDECREF(copy);
                return NULL;
            }
            PyList_SetItem(copy, k, plain); /* steals */
        }
        found->numbers |= n > 0 && found->arrays == before;
        if (copy == NULL)
            return Py_NewRef(x);
        if (list)
            return copy;
        PyObject *tuple = PyList_AsTuple(copy);
        Py_DECREF(copy);
        return tuple;
    }
    if (found->index && PySlice_Check(x) && is_plain(((PySliceObject *)x)->start)
            && is_plain(((PySliceObject *)x)->stop) && is_plain(((PySliceObject *)x)->step))
        return Py_NewRef(x);
    return small_is_option(x) ? Py_NewRef(x) : NULL;
}

int small_lower_all(PyObject *const *args, Py_ssize_t all, Py_ssize_t target, PyObject **low, Found *found)
{
    if (all > MOST)
        return 0;
    for (Py_ssize_t k = 0; k < all; k++) {
        low[k] = k == target ? small_near_to_write((Array *)args[k]) : lowered(args[k], found, 0);
        if (low[k] == NULL) {
            small_release(low, k, found);
            return 0;
        }
    }
    return 1;
}

void small_release(PyObject **low, Py_ssize_t all, Found *found)
{
    while (all--)
        Py_DECREF(low[all]);
    for (int k = 0; found->held >> k; k++)
        if (found->held >> k & 1)
            Py_DECREF(found->seen[k]);
}

/* How many elements an index with arrays chooses, those of masks counted as true; -1 if nobody can tell without
 * looking at them, or if they are so many that NumPy does not do it at once. */
static npy_intp chooses(PyArrayObject *x, PyObject *index)
{
    enum { MANY = 1 << 24 };
    int tuple = PyTuple_CheckExact(index), rank = PyArray_NDIM(x), axis = 0, flat = 1;
    npy_intp longest = 1, product = 1, rest = 1;
    for (Py_ssize_t k = 0; k < (tuple ? PyTuple_GET_SIZE(index) : 1); k++) {
        PyObject *part = tuple ? PyTuple_GET_ITEM(index, k) : index;
        if (part == Py_None)
            continue;
        if (part == Py_Ellipsis)
            return -1;
        npy_intp size = PyList_CheckExact(part) ? PyList_GET_SIZE(part) : 1, extent = axis < rank ? PyArray_DIM(x, axis) : 1;
        int covers = 1;
        if (PyArray_CheckExact(part)) {
            size = PyArray_SIZE((PyArrayObject *)part);
            flat &= PyArray_NDIM((PyArrayObject *)part) <= 1;
            covers = PyArray_ISBOOL((PyArrayObject *)part) ? PyArray_NDIM((PyArrayObject *)part) : 1;
        } else if (PyList_CheckExact(part))
            flat &= size == 0 || !PyList_CheckExact(PyList_GET_ITEM(part, 0));
        else if (PySlice_Check(part))
            rest *= extent;
        axis += covers;
        longest = size > longest ? size : longest;
        product *= size > 0 ? size : 1;
        if (rest >= MANY || product >= (npy_intp)1 << 40)
            return -1;
    }
    for (; axis < rank && rest < MANY; axis++)
        rest *= PyArray_DIM(x, axis);
    product = flat ? longest : product;
    return rest < MANY && product < MANY ? product * rest : -1;
}

/* Is NumPy sooner than a task with what an index chooses of memory at hand: with few elements (numpy/arrays/indices.py),
 * with a mask of twice as many (masks.py), or because the program reads a value after every few operations (soon.c)?
 * 0 with an exception, too.  `others` counts the bytes of the index and of what is written.  Few elements count as a
 * value that the program reads, as which masks and positions have to be waited for. */
#define SOONER 8
static int chooses_soon(PyArrayObject *x, PyObject *index, npy_intp others)
{
    npy_intp count = chooses(x, index), few = SOONER * state.small;
    if (PyArray_CheckExact(index) && PyArray_ISBOOL((PyArrayObject *)index) && size_of(index) == count && state.sees)
        few *= 2;
    if (count >= 0 && count < few)
        small_looked();
    if (count < few)
        return count >= 0;
    return state.left > 0 && state.sees && small_spend(2 * count * PyArray_ITEMSIZE(x) + others);
}

/* Does an index hold an array of so many elements that a task reads a small array sooner than NumPy?  Those of
 * narrow types are converted first, so that NumPy is as fast. */
static int chooses_many(PyObject *index)
{
    int tuple = PyTuple_CheckExact(index);
    for (Py_ssize_t k = 0; k < (tuple ? PyTuple_GET_SIZE(index) : 1); k++) {
        PyObject *part = tuple ? PyTuple_GET_ITEM(index, k) : index;
        if (PyArray_CheckExact(part) && PyArray_ITEMSIZE((PyArrayObject *)part) == sizeof(npy_intp) &&
            PyArray_SIZE((PyArrayObject *)part) >= SOONER * state.small)
            return 1;
    }
    return 0;
}

/* Has an array memory of its own, side by side?  What arrays choose of several columns is a transposed view of an array
 * that nobody else holds. */
static int is_apart(PyArrayObject *chosen)
{
    PyObject *base = PyArray_BASE(chosen);
    if (base == NULL)
        return 1;
    return PyArray_CheckExact(base) && Py_REFCNT(base) == 1 && PyArray_CHKFLAGS((PyArrayObject *)base, NPY_ARRAY_OWNDATA)
           && size_of(base) == PyArray_SIZE(chosen)
           && (PyArray_IS_F_CONTIGUOUS(chosen) || PyArray_IS_C_CONTIGUOUS(chosen));
}

PyObject *small_chosen(Array *x, PyObject *index)
{
    Found found = {.product = 1, .large = 1, .index = 1};
    PyObject *memory = small_near(x);
    if (memory == NULL && !PyErr_Occurred())
        memory = small_at_hand(x);
    PyObject *plain = memory == NULL ? NULL : lowered(index, &found, 0);
    int few = plain != NULL && size_of(memory) < state.small && !chooses_many(plain);
    if (few)
        small_looked();
    else if (plain != NULL)
        few = chooses_soon((PyArrayObject *)memory, plain, found.total);
    PyObject *chosen = few ? PyObject_GetItem(memory, plain) : NULL;
    small_release(NULL, 0, &found);
    Py_XDECREF(memory);
    Py_XDECREF(plain);
    if (chosen == NULL || !PyArray_CheckExact(chosen))
        return chosen;
    if (is_apart((PyArrayObject *)chosen))
        return small_given(chosen);
    Py_DECREF(chosen); /* a view: the Python code knows of what */
    return NULL;
}

PyObject *small_index(Array *x, PyObject *index)
{
    Found found = {.product = 1};
    int here = size_of(x->memory) < state.small || small_unattached(x) || (state.sees && small_readable(x) > 0);
    PyObject *plain = here ? lowered(index, &found, 0) : NULL;
    small_release(NULL, 0, &found);
    return plain;
}

int small_choose(Array *x, PyObject *index, PyObject *value)
{
    Found found = {.product = 1, .large = 1, .index = 1};
    npy_intp bytes = 0;
    if (!state.sees || !state.small || absent(x->meta) || !PyArray_ISWRITEABLE((PyArrayObject *)x->meta))
        return 0;
    if (absent(x->memory) && state.left > 0) /* of a task's result that nobody has looked at yet */
        Py_XDECREF(PyObject_CallOneArg(state.at_hand, (PyObject *)x));
    if (PyErr_Occurred() || absent(x->memory) || !PyArray_ISWRITEABLE((PyArrayObject *)x->memory)
            || small_readable(x) <= 0)
        return PyErr_Occurred() ? -1 : 0;
    PyObject *plain = lowered(index, &found, 0), *memory = NULL;
    small_release(NULL, 0, &found);
    PyObject *right = plain == NULL ? NULL : small_number_or_near(value);
    if (plain != NULL && right == NULL && !PyErr_Occurred())
        right = small_soon_operand(value, SMALL_ANY, &bytes);
    if (right != NULL && !absent(x->memory)) {
        PyArrayObject *to = (PyArrayObject *)x->memory;
        int mask = PyArray_CheckExact(plain) && PyArray_ISBOOL((PyArrayObject *)plain);
        if (!mask || PyArray_CheckExact(right))
            memory = chooses_soon(to, plain, found.total + bytes) ? small_mine(x) : NULL;
        else if (state.left > 0) /* else a task may do it together with what made the mask, and with other such writes */
            memory = small_spend(2 * PyArray_NBYTES(to) + found.total) ? small_mine(x) : NULL;
    }
    int filled = memory == NULL ? 0 : small_fill_masked((PyArrayObject *)memory, plain, right);
    int done = memory == NULL ? 0 : filled ? filled : PyObject_SetItem(memory, plain, right) < 0 ? -1 : 1;
    Py_XDECREF(memory);
    Py_XDECREF(right);
    Py_XDECREF(plain);
    return memory == NULL && PyErr_Occurred() ? -1 : done;
}

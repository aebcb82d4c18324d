/* How a gate does a call that is not simply NumPy's on small arrays: views, writes, reads, and what NumPy does at once
 * on large arrays. */
#include "gate.h"
#include "folds.h"

/* Is an argument one that a function of views takes as it is: a number, None, a tuple, or an element type? */
static int describes(Gate *gate, PyObject *x)
{
    if (gate->flags & RETYPES)
        return PyUnicode_CheckExact(x) || PyType_Check(x) || PyArray_DescrCheck(x) ? small_is_option(x) : 0;
    return PyLong_CheckExact(x) || PyTuple_CheckExact(x) || x == Py_None;
}

/* A view of an array by a view of its description. */
static PyObject *view_by(Gate *gate, Array *x, PyObject *meta)
{
    if (meta == x->meta)
        return Py_NewRef((PyObject *)x);
    if (!PyArray_CheckExact(meta) || ((gate->flags & RETYPES) && !small_native((PyArrayObject *)meta)))
        return NULL;
    return small_viewing(x, meta);
}

/* What a function of views gives of an array, whatever its size. */
PyObject *small_views(Gate *gate, PyObject *const *args, Py_ssize_t n)
{
    PyObject *given[MOST];
    Array *x = (Array *)args[0];
    if (n > MOST || Py_TYPE(x) != state.array_class || absent(x->meta) || ((gate->flags & RETYPES) && n != 2))
        return NULL;
    if ((gate->flags & PACKED) && !PyArray_IS_C_CONTIGUOUS((PyArrayObject *)x->meta))
        return NULL;
    given[0] = x->meta;
    for (Py_ssize_t k = 1; k < n; k++) {
        if (!describes(gate, args[k]))
            return NULL;
        given[k] = args[k];
    }
    PyObject *found = PyObject_Vectorcall(gate->real, given, n, NULL), *view = NULL;
    if (found == NULL)
        return NULL;
    if (!PyList_CheckExact(found))
        view = view_by(gate, x, found);
    else {
        view = PyList_New(PyList_GET_SIZE(found));
        for (Py_ssize_t k = 0; view != NULL && k < PyList_GET_SIZE(found); k++) {
            PyObject *part = view_by(gate, x, PyList_GET_ITEM(found, k));
            if (part == NULL)
                Py_CLEAR(view);
            else
                PyList_SET_ITEM(view, k, part); /* steals */
        }
    }
    Py_DECREF(found);
    return view;
}

/* Which argument a call writes to and gives back, or writes to and nothing else; -1 for none. */
Py_ssize_t small_target(Gate *gate, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    Py_ssize_t target = -1, inputs = small_inputs(gate);
    if (gate->flags & AIMS)
        target = n > 1 ? 0 : -1;
    else if (kwnames == NULL)
        target = inputs && n == inputs + 1 ? inputs : -1;
    else if (inputs ? n == inputs : gate->need <= ANYTHING && !(gate->flags & (WRITES | OVERRUNS | MULTIPLIES | MASKLESS))) {
        Py_ssize_t k = small_keyword(kwnames, "out");
        target = k < 0 ? -1 : n + k;
    }
    return target >= 0 && Py_TYPE(args[target]) == state.array_class ? target : -1;
}

/* Have NumPy write into a small array. */
PyObject *small_write_to(Gate *gate, PyObject *const *args, Py_ssize_t n, PyObject *kwnames, Py_ssize_t target)
{
    PyObject *low[MOST], *result = NULL;
    Py_ssize_t all = small_count(n, kwnames);
    Found found = {.product = 1};
    if (!small_lower_all(args, all, target, low, &found))
        return NULL;
    if (small_writes_small(gate, &found, kwnames)) {
        result = PyObject_Vectorcall(gate->real, low, n, kwnames);
        if (result == low[target])
            Py_SETREF(result, Py_NewRef(args[target]));
        else
            result = small_shown(result);
    }
    small_release(low, all, &found);
    return result;
}

/* The bytes that a call reads, and those that its result takes if arrays of different shapes are broadcast; -1 where these
 * are too many. */
static npy_intp moves(Found *found)
{
    if (!found->different)
        return 2 * found->bytes;
    npy_intp size = PyArray_OverflowMultiplyList(found->shape, found->dims);
    return size < 0 || size > state.left ? -1 : found->bytes + size * found->width;
}

/* The bytes that count for a call.  NumPy converts narrow integers to wide ones before it adds or multiplies them, which
 * takes as long as if they had been wide. */
static npy_intp weight(Gate *gate, Found *found)
{
    npy_intp bytes = moves(found), width = found->width;
    int converts = gate->flags / WAYS == SMALL_WHOLE && !(gate->flags & OPERATES);
    return converts && bytes > 0 && width > 0 && width < 8 ? bytes / width * 8 : bytes;
}

/* May a call on large arrays at hand be done now?  Then its bytes are spent (soon.c). */
static int may_be_soon(Gate *gate, Found *found, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    if (gate->need < SHAPED) {
        npy_intp bytes = found->wrapped && small_permitted(gate, found, args, n, kwnames) ? weight(gate, found) : -1;
        return bytes >= 0 && small_spend(bytes);
    }
    npy_intp size = found->arrays ? -1 : small_makes(gate, args, n, kwnames);
    return size >= 0 && size < state.left && small_spend(8 * size);
}

/* Do a call on large arrays at hand now, if the program reads a value after every few calls. */
PyObject *small_call_soon(Gate *gate, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    PyObject *low[MOST], *result = NULL;
    Py_ssize_t all = small_count(n, kwnames);
    Found found = {.product = 1, .way = gate->flags / WAYS};
    if (!small_lower_all(args, all, -1, low, &found))
        return NULL;
    if (may_be_soon(gate, &found, args, n, kwnames) && (all != small_inputs(gate) || small_met(gate->real, args, n) == 0))
        result = small_answer(gate, low, n, kwnames, &found);
    small_release(low, all, &found);
    return result;
}

/* What a method that only reads gives of memory that is at hand, of whatever size. */
PyObject *small_read_from(Gate *gate, PyObject *const *args, Py_ssize_t n)
{
    PyObject *low[MOST];
    if (n > MOST || Py_TYPE(args[0]) != state.array_class)
        return NULL;
    for (Py_ssize_t k = 1; k < n; k++)
        if (!PyLong_CheckExact(args[k]))
            return NULL;
    if ((low[0] = small_at_hand((Array *)args[0])) == NULL)
        return NULL;
    memcpy(low + 1, args + 1, (n - 1) * sizeof *low);
    small_looked();
    PyObject *found = PyObject_Vectorcall(gate->real, low, n, NULL);
    Py_DECREF(low[0]);
    return found;
}

/* The axis of a C-contiguous array that an argument of a reduction names, which may be NULL: -1 for all of them, -2 if it
 * names none. */
static int axis_of(Gate *gate, PyArrayObject *x, PyObject *axis)
{
    int rank = PyArray_NDIM(x), over = 0;
    if (axis == NULL && !(gate->flags & FIRST))
        return -1;
    long found = axis == NULL ? 0 : PyLong_CheckExact(axis) ? PyLong_AsLongAndOverflow(axis, &over) : rank;
    if (over || found < -rank || found >= rank || !PyArray_IS_C_CONTIGUOUS(x))
        return -2;
    return rank == 1 ? -1 : (int)(found < 0 ? found + rank : found);
}

/* A sum, of all elements or along an axis, or the mean, by the calling thread; NULL where Python's code has to see to
 * it. */
static PyObject *added_up(PyArrayObject *x, int axis, int mean)
{
    PyObject *found = axis < 0 ? small_fold_vectors(x, NULL) : small_fold_along(x, axis);
    return found == NULL || !mean ? found : small_divided(found, axis < 0 ? PyArray_SIZE(x) : PyArray_DIM(x, axis));
}

/* What a reduction of all elements of a large array gives, some by several threads: NULL where one thread does it all. */
static PyObject *folded(Gate *gate, PyArrayObject *x)
{
    if (gate->reduces == SMALL_COUNT || (gate->reduces == SMALL_SUM && PyArray_TYPE(x) == NPY_BOOL))
        return small_counted(gate->reduces, x);
    return gate->reduces > SMALL_ANYWHERE && gate->reduces < SMALL_COUNT
           ? PyArray_TYPE(x) == NPY_BOOL ? small_searched(gate->reduces, x) : NULL : small_parted(gate->reduces, x);
}

/* What a reduction of all elements, or along an axis, gives that the calling thread does at once, as immediate, total
 * and along of at_once.py have it. */
PyObject *small_fold(Gate *gate, PyObject *given, PyObject *along)
{
    Array *x = (Array *)given;
    npy_intp size = Py_TYPE(given) != state.array_class || absent(x->meta) ? 0 : size_of(x->meta);
    if (size == 0)
        return NULL;
    int type = PyArray_TYPE((PyArrayObject *)x->meta), axis = axis_of(gate, (PyArrayObject *)x->meta, along);
    int mean = gate->reduces == SMALL_MEAN, whole = type >= NPY_BYTE && type <= NPY_ULONGLONG && !mean;
    int real = type == NPY_FLOAT || type == NPY_DOUBLE, adds = gate->flags & ADDS && real;
    int bools = type == NPY_BOOL && axis < 0, counts = gate->reduces == SMALL_COUNT, sums = gate->reduces == SMALL_SUM;
    int fits = axis != -2 && (whole || adds || (bools && sums) || (!(gate->flags & ADDS) && (real || type == NPY_BOOL)));
    int searched = ((gate->reduces > SMALL_ANYWHERE && gate->reduces < SMALL_ARGMAX) || sums) && bools
                   && size >= state.small && state.small && state.sees && !small_eager();
    int rows = axis > 0 && axis == PyArray_NDIM((PyArrayObject *)x->meta) - 1
               && (gate->reduces == SMALL_ARGMAX || gate->reduces == SMALL_ARGMIN);
    int parted = (axis < 0 || rows) && (adds || (gate->reduces && !mean && (real || type == NPY_LONG)));
    if (!fits || (counts && !bools) || !(searched || small_folds_now((PyArrayObject *)x->meta, parted)))
        return NULL;
    PyObject *memory = small_at_hand(x), *found = NULL;
    if (memory != NULL) {
        found = adds ? added_up((PyArrayObject *)memory, axis, mean)
                : axis < 0 ? folded(gate, (PyArrayObject *)memory)
                : rows ? small_parted_rows(gate->reduces, (PyArrayObject *)memory) : NULL;
        if (found == NULL && !adds && !(bools && sums) && !PyErr_Occurred() && small_folds_now((PyArrayObject *)memory, 0))
            found = axis < 0 ? PyObject_CallOneArg(gate->real, memory)
                    : PyObject_CallFunctionObjArgs(gate->real, memory, along, NULL);
        Py_DECREF(memory);
        if (found != NULL)
            small_looked();
    }
    return small_shown(found);
}

/* Have these arguments of a call few elements, or are no arrays?  Diffuse computes with many itself. */
static int are_few(Gate *gate, PyObject *const *args, Py_ssize_t n)
{
    for (int k = 0; gate->few >> k; k++) {
        PyObject *x = k < n ? args[k] : NULL;
        if (!(gate->few >> k & 1))
            continue;
        if (x == NULL)
            return 0;
        PyObject *array = Py_TYPE(x) == state.array_class ? ((Array *)x)->meta : x;
        if (absent(array) || (PyArray_Check(array) && size_of(array) >= state.small))
            return 0;
    }
    return 1;
}

/* What a function that only NumPy has, and that only reads, gives of arrays at hand, at a line of the program that
 * knows that NumPy computes it (fallback.wrapped). */
PyObject *small_borrowed(Gate *gate, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    PyObject *low[MOST], *result = NULL;
    Py_ssize_t all = small_count(n, kwnames);
    Found found = {.product = 1, .large = 1};
    int silent = PySet_Contains(gate->told, Py_None), told = silent;
    if (silent == 0) {
        PyObject *line = small_line();
        told = line == NULL ? -1 : PySet_Contains(gate->told, line);
        Py_XDECREF(line);
    }
    if (!state.small || told <= 0 || !are_few(gate, args, n) || small_may_write(gate, n, kwnames)
            || !small_lower_all(args, all, -1, low, &found))
        return NULL;
    int simple = !gate->rank || (state.sees && found.dims <= gate->rank);
    if (found.wrapped && simple && (silent || found.product <= state.small || small_counts(state.fallbacks))) {
        small_looked();
        result = small_answer(gate, low, n, kwnames, &found);
    }
    small_release(low, all, &found);
    return result;
}

/* What NumPy gives where the program waited for each call of a line, as gates.watched. */
PyObject *small_call_at_once(Gate *gate, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    PyObject *low[MOST], *result = NULL, *line = small_line();
    Py_ssize_t all = small_count(n, kwnames);
    Found found = {.product = 1, .large = 1};
    if (line == NULL)
        return NULL;
    PyObject *key[] = {gate->watched, line}, *place = Py_XNewRef(small_found(state.places, key, 2));
    PyObject **alone = place == NULL ? NULL : &SLOT(place, state.place_alone);
    Py_DECREF(line);
    if (place != NULL && PyLong_AsLong(*alone) >= state.often && state.small && !small_eager()
            && small_lower_all(args, all, -1, low, &found)) {
        npy_intp bytes = gate->need < SHAPED ? found.total : 8 * small_makes(gate, args, n, kwnames);
        int plain = gate->need < SHAPED ? found.arrays && small_may_write(gate, n, kwnames) == 0 : !found.arrays;
        if (plain && bytes >= 0 && bytes <= state.bytes && small_trusted(alone, state.often, state.most) > 0)
            result = PyObject_Vectorcall(gate->real, low, n, kwnames);
        if (result != NULL)
            result = small_made(result, &found, place);
        small_release(low, all, &found);
    }
    Py_XDECREF(place);
    return result;
}

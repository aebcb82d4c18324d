/* Methods of random generators whose arguments NumPy takes as they are: diffuse/numpy/random.py in C. */
#include "draws.h"

enum { LARGE = 1 << 22 };    /* numbers whose memory the C library would map anew */

static PyObject *name_plain; /* the attribute with NumPy's own generator */
static PyObject *room;       /* gives the memory of large arrays */

static int taken(PyObject *x)
{
    if (!PyTuple_CheckExact(x))
        return small_is_option(x);
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(x); k++)
        if (!taken(PyTuple_GET_ITEM(x, k)))
            return 0;
    return 1;
}

/* Are all arguments from `first` on numbers, shapes and names? */
static int all_taken(PyObject *const *args, Py_ssize_t first, Py_ssize_t all)
{
    for (Py_ssize_t k = first; k < all; k++)
        if (!taken(args[k]))
            return 0;
    return all <= MOST;
}

/* The numbers of an array of this size; 0 where that is not plain. */
static double numbers_of(PyObject *size)
{
    if (PyLong_CheckExact(size)) {
        int far;
        long long found = PyLong_AsLongLongAndOverflow(size, &far);
        return far || found < 0 ? 0.0 : (double)found;
    }
    double count = PyTuple_CheckExact(size);
    for (Py_ssize_t k = 0; count && k < PyTuple_GET_SIZE(size); k++)
        count *= PyLong_CheckExact(PyTuple_GET_ITEM(size, k)) ? numbers_of(PyTuple_GET_ITEM(size, k)) : 0.0;
    return count;
}

/* Does a call draw as many numbers as Diffuse's own function draws? */
static int many(Gate *gate, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    if (gate->sized == 0)
        return 0;
    Py_ssize_t named = small_keyword(kwnames, "size");
    if (named < 0 && n <= gate->sized)
        return 0;
    return numbers_of(named < 0 ? args[gate->sized] : args[n + named]) >= (double)gate->most;
}

/* What the program gets of numbers that were drawn; steals them. */
static PyObject *drawn(Gate *gate, PyObject *found)
{
    if (found == NULL || !PyArray_CheckExact(found) || size_of(found) < state.tiny)
        return found;
    PyArrayObject *array = (PyArrayObject *)found;
    if (PyArray_BASE(array) == NULL && PyArray_CHKFLAGS(array, NPY_ARRAY_OWNDATA) && size_of(found) < state.small)
        return small_given(found);
    PyObject *shown = PyObject_CallOneArg(gate->function, found);
    Py_DECREF(found);
    return shown;
}

PyObject *small_drawn_into(int rank, npy_intp *shape, int type)
{
    npy_intp count = PyArray_OverflowMultiplyList(shape, rank);
    if (room == NULL || count < LARGE)
        return PyArray_EMPTY(rank, shape, type, 0);
    PyObject *found = PyObject_CallFunction(room, "ns", count, type == NPY_DOUBLE ? "d" : "l");
    if (found == NULL && PyErr_ExceptionMatches(PyExc_MemoryError)) { /* NumPy's exception, if it has none either */
        PyErr_Clear();
        return PyArray_EMPTY(rank, shape, type, 0);
    }
    if (found == NULL || !PyArray_CheckExact(found))
        return found;
    PyArray_Dims dims = {shape, rank};
    PyObject *shaped = PyArray_Newshape((PyArrayObject *)found, &dims, NPY_CORDER);
    Py_DECREF(found);
    return shaped;
}

void small_connect_room(PyObject *function)
{
    Py_XSETREF(room, Py_NewRef(function));
}

int small_begin_drawing(PyObject *generator, Drawing *drawing)
{
    drawing->source = NULL;
    drawing->lock = NULL;
    if ((drawing->bits = PyObject_GetAttrString(generator, "bit_generator")) == NULL)
        return -1;
    PyObject *capsule = PyObject_GetAttrString(drawing->bits, "capsule"), *held = NULL;
    bitgen_t *source = capsule == NULL ? NULL : PyCapsule_GetPointer(capsule, "BitGenerator");
    Py_XDECREF(capsule); /* the bit generator keeps it */
    if (source != NULL && (drawing->lock = PyObject_GetAttrString(drawing->bits, "lock")) != NULL
            && (held = PyObject_CallMethod(drawing->lock, "acquire", NULL)) != NULL)
        drawing->source = source;
    Py_XDECREF(held);
    return drawing->source == NULL ? -1 : 0;
}

int small_end_drawing(Drawing *drawing)
{
    PyObject *type, *error, *trace;
    PyErr_Fetch(&type, &error, &trace);
    PyObject *done = drawing->source == NULL ? NULL : PyObject_CallMethod(drawing->lock, "release", NULL);
    Py_XDECREF(done);
    Py_XDECREF(drawing->lock);
    Py_XDECREF(drawing->bits);
    if (type != NULL)
        PyErr_Restore(type, error, trace);
    return PyErr_Occurred() ? -1 : 0;
}

int small_shape_of(PyObject *size, npy_intp *shape)
{
    int tuple = PyTuple_CheckExact(size);
    Py_ssize_t rank = tuple ? PyTuple_GET_SIZE(size) : 1;
    if (rank > NPY_MAXDIMS)
        return -1;
    for (Py_ssize_t k = 0; k < rank; k++) {
        PyObject *extent = tuple ? PyTuple_GET_ITEM(size, k) : size;
        shape[k] = PyLong_CheckExact(extent) ? PyLong_AsSsize_t(extent) : -1;
        if (shape[k] < 0) {
            PyErr_Clear();
            return -1;
        }
    }
    return (int)rank;
}

/* What `integers` draws where it is given bounds and a size, and nothing else; NULL as small_integers has it. */
static PyObject *integers(PyObject *generator, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    Py_ssize_t named = small_keyword(kwnames, "size");
    npy_intp shape[NPY_MAXDIMS];
    long long bounds[2] = {0, 0};
    if (kwnames == NULL ? n != 4 : named < 0 || PyTuple_GET_SIZE(kwnames) != 1 || n < 2 || n > 3)
        return NULL;
    Py_ssize_t given = n < 4 ? n - 1 : 2;
    for (Py_ssize_t k = 0; k < given; k++) {
        int far = !PyLong_CheckExact(args[k + 1]);
        bounds[k + 2 - given] = far ? 0 : PyLong_AsLongLongAndOverflow(args[k + 1], &far);
        if (far)
            return NULL;
    }
    int rank = small_shape_of(named < 0 ? args[3] : args[n + named], shape);
    return rank < 0 ? NULL : small_integers(generator, bounds[0], bounds[1], rank, shape);
}

/* What the extension draws from the generator of a method's object; NULL, without an exception unless one was raised, of
 * other calls. */
static PyObject *drawn_here(Gate *gate, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    if (gate->draws != NORMALS) {
        Py_ssize_t named = small_keyword(kwnames, "size"), place = gate->sized;
        if ((named < 0 && n <= place) || numbers_of(named < 0 ? args[place] : args[n + named])
                < (gate->draws == INTEGERS ? FEWEST_INTEGERS : LEAST))
            return NULL;
    }
    PyObject *generator = PyObject_GetAttr(args[0], name_plain);
    if (generator == NULL) { /* NumPy's exception tells what it is */
        PyErr_Clear();
        return NULL;
    }
    PyObject *found = gate->draws == INTEGERS ? integers(generator, args, n, kwnames)
                                              : small_reals(gate, generator, args, n, kwnames);
    Py_DECREF(generator);
    return found;
}

/* `told` is the generator of a function that is no method, and else NULL. */
PyObject *small_draw(Gate *gate, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    Py_ssize_t n = PyVectorcall_NARGS(nargsf), all = small_count(n, kwnames);
    int method = absent(gate->told);
    if (gate->draws && method && n > 0) {
        PyObject *found = drawn_here(gate, args, n, kwnames);
        if (found != NULL || PyErr_Occurred())
            return drawn(gate, found);
    }
    if (n < method || !all_taken(args, method, all) || many(gate, args, n, kwnames))
        return PyObject_Vectorcall(gate->ours, args, n, kwnames);
    if (!method)
        return drawn(gate, PyObject_Vectorcall(gate->real, args, n, kwnames));
    PyObject *low[MOST] = {PyObject_GetAttr(args[0], name_plain)};
    if (low[0] == NULL)
        return NULL;
    memcpy(low + 1, args + 1, (all - 1) * sizeof *low);
    PyObject *found = PyObject_Vectorcall(gate->real, low, n, kwnames);
    Py_DECREF(low[0]);
    return drawn(gate, found);
}

int small_draws_ready(void)
{
    name_plain = PyUnicode_InternFromString("_plain");
    return name_plain == NULL ? -1 : 0;
}

/* Methods of random generators whose arguments NumPy takes as they are: diffuse/numpy/random.py in C. */
#include "gate.h"

static PyObject *name_plain; /* the attribute with NumPy's own generator */

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

/* `told` is the generator of a function that is no method, and else NULL. */
PyObject *small_draw(Gate *gate, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    Py_ssize_t n = PyVectorcall_NARGS(nargsf), all = small_count(n, kwnames);
    int method = absent(gate->told);
    if (gate->normal && method && n > 0) {
        PyObject *generator = PyObject_GetAttr(args[0], name_plain);
        PyObject *found = generator == NULL ? NULL : small_normals(gate, generator, args, n, kwnames);
        Py_XDECREF(generator);
        if (found != NULL)
            return drawn(gate, found);
        if (generator == NULL)
            PyErr_Clear();
        else if (PyErr_Occurred())
            return NULL;
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

/* May a call go to NumPy at once, and may it write? */
#include "gate.h"
#include <math.h>

/* The elements of an array of this shape; negative where that is not plain. */
static npy_intp extent_of(PyObject *shape)
{
    if (PyLong_CheckExact(shape))
        return PyLong_AsSsize_t(shape);
    if (!PyTuple_CheckExact(shape))
        return -1;
    npy_intp count = 1;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(shape); k++) {
        PyObject *n = PyTuple_GET_ITEM(shape, k);
        npy_intp extent = PyLong_CheckExact(n) ? PyLong_AsSsize_t(n) : -1;
        if (extent < 0 || extent > INT32_MAX)
            return -1;
        count = count > state.small && count > state.left && count > state.bytes ? count : count * extent;
    }
    return count;
}

static double number(PyObject *x)
{
    return PyLong_CheckExact(x) || PyFloat_CheckExact(x) ? PyFloat_AsDouble(x) : Py_NAN;
}

Py_ssize_t small_keyword(PyObject *kwnames, const char *name)
{
    for (Py_ssize_t k = 0; kwnames != NULL && k < PyTuple_GET_SIZE(kwnames); k++)
        if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, k), name) == 0)
            return k;
    return -1;
}

npy_intp small_makes(Gate *gate, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    npy_intp count = -1;
    if (gate->need == SHAPED)
        count = n ? extent_of(args[0]) : -1;
    else if (gate->need == SQUARING && n && small_keyword(kwnames, "M") < 0) {
        npy_intp rows = extent_of(args[0]), columns = n > 1 && args[1] != Py_None ? extent_of(args[1]) : rows;
        count = rows >= 0 && columns >= 0 && rows < INT32_MAX && columns < INT32_MAX ? rows * columns : -1;
    } else if (gate->need == RANGING && (n == 1 || n == 2 || n == 3)) {
        double start = n == 1 ? 0.0 : number(args[0]), stop = number(args[n > 1]);
        double step = n == 3 ? number(args[2]) : 1.0;
        double wide = (stop - start) / step;
        count = wide < 1e15 && wide > -1e300 ? (npy_intp)ceil(Py_MAX(wide, 0.0)) : -1; /* false for NaN, too */
        if (small_keyword(kwnames, "step") >= 0 || small_keyword(kwnames, "stop") >= 0)
            count = -1;
    } else if (gate->need == SPACING && n >= 2) {
        Py_ssize_t named = small_keyword(kwnames, "num");
        count = n > 2 ? extent_of(args[2]) : named >= 0 ? extent_of(args[n + named]) : 50;
        if (number(args[0]) != number(args[0]) || number(args[1]) != number(args[1]))
            count = -1;
    }
    if (PyErr_Occurred())
        PyErr_Clear(); /* a number that is too large */
    return count;
}

/* The elements from which on a result is Diffuse's, though all arguments are small. */
static npy_intp result_limit(Gate *gate)
{
    return state.small && (gate->flags & COPIES) ? Py_MAX(state.small, FEW) : state.small;
}

int small_makes_few(Gate *gate, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    npy_intp count = small_makes(gate, args, n, kwnames), most = result_limit(gate);
    if ((gate->flags & BLANK) && state.small && state.sees)
        most = Py_MAX(most, state.bytes / 16);
    return count >= 0 && count < most;
}

/* Does an option let the function overwrite an argument, as SciPy's `overwrite_b` does? */
static int overwrites(PyObject *kwnames)
{
    for (Py_ssize_t k = 0; kwnames != NULL && k < PyTuple_GET_SIZE(kwnames); k++) {
        const char *name = PyUnicode_AsUTF8(PyTuple_GET_ITEM(kwnames, k));
        if (name == NULL || strncmp(name, "overwrite", 9) == 0)
            return 1;
    }
    return 0;
}

int small_may_write(Gate *gate, Py_ssize_t n, PyObject *kwnames)
{
    if (small_keyword(kwnames, "out") >= 0 || overwrites(kwnames))
        return PyErr_Occurred() ? -1 : 1;
    if (n <= (PyLong_CheckExact(gate->function) ? 0 : 1))
        return 0;
    if (!PyLong_CheckExact(gate->function)) {
        PyObject *most = PyObject_CallOneArg(state.before_out, gate->function);
        if (most == NULL)
            return -1;
        Py_SETREF(gate->function, most);
    }
    return n > PyLong_AsSsize_t(gate->function);
}

/* Is the result of broadcasting all arguments small?  Where shapes do not fit, NumPy says so. */
static int stays_small(Found *found)
{
    if (!found->different || found->product < state.small)
        return 1;
    npy_intp size = PyArray_OverflowMultiplyList(found->shape, found->dims);
    return size >= 0 && size < state.small;
}

int small_writes_small(Gate *gate, Found *found, PyObject *kwnames)
{
    return (found->way || stays_small(found)) && (!(gate->flags & MASKLESS) || small_keyword(kwnames, "where") < 0);
}

/* Is the first argument so many times small, as far as the second one is an integer or a tuple of integers? */
static int repeats_few(Gate *gate, Found *found, PyObject *const *args, Py_ssize_t n)
{
    npy_intp times = n > 1 ? extent_of(args[1]) : 1, most = result_limit(gate);
    if (PyErr_Occurred())
        PyErr_Clear(); /* a number that is too large, which NumPy refuses */
    return times < most && found->product * times < most;
}

int small_permitted(Gate *gate, Found *found, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    if (gate->need == ARRAYS && !found->arrays && !found->numbers)
        return 0;
    if (gate->need >= SHAPED && (found->arrays || !small_makes_few(gate, args, n, kwnames)))
        return 0;
    if (((gate->flags & OVERRUNS) || found->wrapped) && small_may_write(gate, n, kwnames))
        return 0;
    if (found->wrapped && (gate->flags & WRITES) && !((gate->flags & AIMS) && PyArray_CheckExact(args[0])))
        return 0;
    if ((gate->flags & MULTIPLIES) && found->product >= result_limit(gate))
        return 0;
    if ((gate->flags & REPEATS) && !repeats_few(gate, found, args, n))
        return 0;
    return !(gate->flags & OPERATES) || small_writes_small(gate, found, kwnames);
}

/* Gates: functions, ufuncs and methods of NumPy that small arrays take straight to NumPy (ops/gates.py). */
#include "small.h"

/* What a function needs to be given so that NumPy's own may be called at once. */
enum { ARRAYS,      /* at least one array, or a sequence of numbers */
       ANYTHING,    /* arrays and numbers */
       SHAPED,      /* the shape of its result first */
       RANGING,     /* `arange`: bounds and a step */
       SPACING,     /* `linspace`: two ends, and how many */
       SQUARING };  /* `eye`: rows, and perhaps columns */
enum { WRITES = 16, /* writes into an argument without saying so by `out` */
       OPERATES = 32, /* a ufunc: operands are broadcast */
       BELONGS = 64,  /* a method, whose first argument is the array */
       MULTIPLIES = 512, /* results may have as many elements as all arguments multiplied */
       OVERRUNS = 128, /* NumPy lets it write behind an output that is too small */
       MASKLESS = 256, /* its masks are not to be trusted (SciPy 1.17 writes behind masked results) */
       VIEWS = 1024,  /* gives a view of its first argument, found from the description of that */
       PACKED = 2048, /* gives a view only of elements that lie side by side */
       RETYPES = 4096, /* the view may be of another element type */
       ONE = 8192, TWO = 16384, /* ufuncs of so many operands with one result */
       AIMS = 1 << 15,  /* writes into its first argument and nothing else */
       KEEPS = 1 << 16, /* gives an array of Diffuse's back as it is */
       READS = 1 << 17, /* a method that only reads memory, of whatever size */
       FOLDS = 1 << 18, /* a reduction that gives NumPy's bits of all real elements */
       ADDS = 1 << 19,  /* only of whole numbers */
       WAYS = 1 << 20 }; /* times SMALL_ANY and the like: for which types it has NumPy's bits (soon.c) */
enum { MOST = 16, DEEPEST = 4 };

typedef struct {
    PyObject_HEAD
    PyObject *real, *ours, *dict, *weakrefs;
    PyObject *function; /* NumPy's as the program knows it, or how many arguments come before the output array */
    PyObject *watched;  /* the same function, if NumPy does it where the program waits for each call; else NULL */
    int need, flags;
    vectorcallfunc call;
} Gate;

/* The arguments of one call as NumPy gets them, and what was found out about them. */
typedef struct {
    PyObject *seen[MOST]; /* arrays among the arguments, at any depth; borrowed */
    int arrays, wrapped;  /* how many, and how many of these are Diffuse's */
    int large;            /* arrays of Diffuse's may have any size */
    npy_intp total;       /* bytes of all arrays */
    npy_intp product;     /* elements of all arguments, multiplied */
    int different;        /* shapes differ */
    int dims;             /* dimensions of the arguments broadcast together, the last first */
    npy_intp shape[NPY_MAXDIMS];
    int numbers;          /* a sequence of numbers is among the arguments */
    Py_ssize_t items;     /* of all sequences among the arguments */
    int way;              /* SMALL_ANY or the like: arrays may be large, of these types; SMALL_NEVER: they may not */
    npy_intp bytes;       /* of these arrays */
} Found;

static int note(Found *found, PyObject *given, PyArrayObject *array)
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
    npy_intp size = PyArray_SIZE(array);
    found->product = found->product > state.small ? found->product : found->product * (size ? size : 1);
    found->total += PyArray_NBYTES(array);
    found->seen[found->arrays++] = given;
    return 1;
}

static int is_option(PyObject *x)
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
               || x == (PyObject *)&PyComplex_Type || PySet_Contains(state.numbers, x) > 0;
    if (PyArray_DescrCheck(x))
        return PyTypeNum_ISNUMBER(((PyArray_Descr *)x)->type_num) || PyTypeNum_ISBOOL(((PyArray_Descr *)x)->type_num);
    return PySet_Contains(state.options, (PyObject *)type) > 0;
}

/* The argument as NumPy gets it (a new reference); NULL, without an exception unless one was raised, where the
 * call has to go to Diffuse. */
static PyObject *lowered(PyObject *x, Found *found, int depth)
{
    PyTypeObject *type = Py_TYPE(x);
    if (found->way && (type == state.array_class || type == &PyArray_Type)) {
        PyObject *memory = small_soon_operand(x, found->way, &found->bytes);
        if (memory != NULL && !note(found, x, (PyArrayObject *)memory))
            Py_CLEAR(memory);
        found->wrapped += type == state.array_class;
        return memory;
    }
    if (found->way && found->way != SMALL_ANY && (type == &PyComplex_Type || PyArray_IsScalar(x, ComplexFloating)))
        return NULL;
    if (type == &PyArray_Type) {
        PyArrayObject *array = (PyArrayObject *)x;
        return PyArray_SIZE(array) < state.small && small_native(array) && note(found, x, array) ? Py_NewRef(x) : NULL;
    }
    if (type == state.array_class) {
        PyObject *memory = found->large ? small_at_hand((Array *)x) : small_near((Array *)x);
        if (memory != NULL && !note(found, x, (PyArrayObject *)memory))
            Py_CLEAR(memory);
        found->wrapped++;
        return memory;
    }
    if (type == state.scalar_class)
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
            PyObject *item = list ? PyList_GET_ITEM(x, k) : PyTuple_GET_ITEM(x, k);
            PyObject *plain = lowered(item, found, depth + 1);
            if (plain != NULL && plain == item) {
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
    return is_option(x) ? Py_NewRef(x) : NULL;
}

/* Elements of an array of this shape; a negative number where that is not plain. */
static npy_intp extent(PyObject *shape)
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
        count = count > state.small && count > state.left ? count : count * extent;
    }
    return count;
}

static double number(PyObject *x)
{
    return PyLong_CheckExact(x) || PyFloat_CheckExact(x) ? PyFloat_AsDouble(x) : Py_NAN;
}

/* Where a keyword is among the names, or -1. */
static Py_ssize_t keyword(PyObject *kwnames, const char *name)
{
    for (Py_ssize_t k = 0; kwnames != NULL && k < PyTuple_GET_SIZE(kwnames); k++)
        if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, k), name) == 0)
            return k;
    return -1;
}

/* Does the call make a small array, as far as its arguments by position tell? */
static int makes_small(Gate *gate, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    npy_intp count = -1;
    if (gate->need == SHAPED)
        count = n ? extent(args[0]) : -1;
    else if (gate->need == SQUARING && n && keyword(kwnames, "M") < 0) {
        npy_intp rows = extent(args[0]), columns = n > 1 && args[1] != Py_None ? extent(args[1]) : rows;
        count = rows >= 0 && rows < state.small && columns < state.small ? rows * columns : -1;
    } else if (gate->need == RANGING && (n == 1 || n == 2 || n == 3)) {
        double start = n == 1 ? 0.0 : number(args[0]), stop = number(args[n > 1]), step = n == 3 ? number(args[2]) : 1.0;
        double wide = (stop - start) / step;
        count = wide < (double)state.small && wide > -1e300 ? 0 : -1; /* false for NaN, too */
        if (keyword(kwnames, "step") >= 0 || keyword(kwnames, "stop") >= 0)
            count = -1;
    } else if (gate->need == SPACING && n >= 2) {
        Py_ssize_t named = keyword(kwnames, "num");
        count = n > 2 ? extent(args[2]) : named >= 0 ? extent(args[n + named]) : 50;
        if (number(args[0]) != number(args[0]) || number(args[1]) != number(args[1]))
            count = -1;
    }
    if (PyErr_Occurred())
        PyErr_Clear(); /* a number that is too large */
    return count >= 0 && count < state.small;
}

/* May an output array be among the arguments?  -1 with an exception. */
static int may_write(Gate *gate, Py_ssize_t n, PyObject *kwnames)
{
    if (keyword(kwnames, "out") >= 0)
        return 1;
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

/* May NumPy's function be called, now that the arguments are known? */
static int permitted(Gate *gate, Found *found, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    if (gate->need == ARRAYS && !found->arrays && !found->numbers)
        return 0;
    if (gate->need >= SHAPED && (found->arrays || !makes_small(gate, args, n, kwnames)))
        return 0;
    if (((gate->flags & OVERRUNS) || found->wrapped) && may_write(gate, n, kwnames))
        return 0;
    if (found->wrapped && (gate->flags & WRITES))
        return 0;
    if ((gate->flags & MULTIPLIES) && found->different && found->product >= state.small)
        return 0;
    if (!(gate->flags & OPERATES))
        return 1;
    return stays_small(found) && (!(gate->flags & MASKLESS) || keyword(kwnames, "where") < 0);
}

/* Is `base` the memory that an array holds, so that a view of it is a view of the array? */
static int viewed(Array *x, PyObject *base)
{
    return x->meta == x->memory && (base == x->memory || base == PyArray_BASE((PyArrayObject *)x->memory));
}

/* May there be an array in a tuple? */
static int holds_arrays(PyObject *tuple)
{
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(tuple); k++)
        if (!PyLong_CheckExact(PyTuple_GET_ITEM(tuple, k)))
            return 1;
    return 0;
}

/* Is `array` a few elements of memory that NumPy has just made, which no argument can share? */
static int fresh(PyObject *x, Found *found)
{
    if (!PyArray_CheckExact(x) || PyArray_SIZE((PyArrayObject *)x) >= state.tiny)
        return 0;
    PyObject *base = PyArray_BASE((PyArrayObject *)x);
    if (base == NULL)
        return 1;
    if (!PyArray_CheckExact(base) || PyArray_BASE((PyArrayObject *)base) != NULL || Py_REFCNT(base) > 8
            || !PyArray_CHKFLAGS((PyArrayObject *)base, NPY_ARRAY_OWNDATA))
        return 0;
    for (int k = 0; k < found->arrays; k++) {
        PyObject *given = found->seen[k];
        PyArrayObject *memory = (PyArrayObject *)(PyArray_CheckExact(given) ? given : ((Array *)given)->memory);
        if (memory == NULL || (PyObject *)memory == Py_None || (PyObject *)memory == base || PyArray_BASE(memory) == base)
            return 0;
    }
    return 1;
}

/* Are all items of a tuple such arrays? */
static int all_fresh(PyObject *tuple, Found *found)
{
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(tuple); k++)
        if (!fresh(PyTuple_GET_ITEM(tuple, k), found))
            return 0;
    return 1;
}

/* What the program gets of a result of NumPy; steals it. */
static PyObject *raised(PyObject *result, Found *found)
{
    if (PyArray_CheckExact(result)) {
        PyObject *base = PyArray_BASE((PyArrayObject *)result);
        int own = 0, whose = -1;
        for (int k = 0; k < found->arrays; k++) {
            PyObject *x = found->seen[k];
            PyObject *memory = PyArray_CheckExact(x) ? x : ((Array *)x)->memory;
            if (memory == result)
                whose = k;
            own |= base != NULL && x == memory && (base == x || base == PyArray_BASE((PyArrayObject *)x));
        }
        if (whose >= 0) {
            Py_DECREF(result);
            return Py_NewRef(found->seen[whose]);
        }
        if (base == NULL)
            return small_given(result);
        if (found->wrapped == 1 && found->arrays == 1 && viewed((Array *)found->seen[0], base)) {
            PyObject *view = small_viewing((Array *)found->seen[0], result);
            Py_DECREF(result);
            return view;
        }
        if (!found->wrapped && (own || PyArray_SIZE((PyArrayObject *)result) < state.tiny))
            return result;
    } else if (!PyTuple_Check(result) && !PyList_CheckExact(result))
        return result;
    else if (PyTuple_CheckExact(result) && (!holds_arrays(result) || all_fresh(result, found)))
        return result; /* a shape, say, or indices */
    PyObject *seen = PyList_New(found->arrays);
    for (int k = 0; seen != NULL && k < found->arrays; k++)
        PyList_SET_ITEM(seen, k, Py_NewRef(found->seen[k]));
    PyObject *shown = seen == NULL ? NULL : PyObject_CallFunctionObjArgs(state.raised, result, seen, NULL);
    Py_XDECREF(seen);
    Py_DECREF(result);
    return shown;
}

/* -- views of arrays of any size --------------------------------------------------------------------------- */

/* Is an argument one that a function of views takes as it is: a number, None, a tuple, or an element type? */
static int describes(Gate *gate, PyObject *x)
{
    if (gate->flags & RETYPES)
        return PyUnicode_CheckExact(x) || PyType_Check(x) || PyArray_DescrCheck(x) ? is_option(x) : 0;
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

/* What a function of views gives of an array, whatever its size.  NULL, without an exception, where Diffuse's own
 * function has to see to it. */
static PyObject *views(Gate *gate, PyObject *const *args, Py_ssize_t n)
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

/* -- calls that write into an array ------------------------------------------------------------------------- */

/* Which argument a call writes to and gives back, or writes to and nothing else; -1 for none. */
static Py_ssize_t target_of(Gate *gate, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    Py_ssize_t target = -1;
    if (gate->flags & AIMS)
        target = n > 1 && kwnames == NULL ? 0 : -1;
    else if (kwnames != NULL && gate->flags & (ONE | TWO) && n == (gate->flags & ONE ? 1 : 2)) {
        Py_ssize_t k = keyword(kwnames, "out");
        target = k < 0 ? -1 : n + k;
    }
    return target >= 0 && Py_TYPE(args[target]) == state.array_class ? target : -1;
}

/* Have NumPy write into a small array.  NULL, without an exception, where Diffuse's own function has to. */
static PyObject *write_to(Gate *gate, PyObject *const *args, Py_ssize_t n, PyObject *kwnames, Py_ssize_t target)
{
    PyObject *low[MOST], *result = NULL;
    Py_ssize_t all = n + (kwnames == NULL ? 0 : PyTuple_GET_SIZE(kwnames)), count = 0;
    Found found = {.product = 1};
    for (; all <= MOST && count < all; count++) {
        low[count] = count == target ? small_near_to_write((Array *)args[count]) : lowered(args[count], &found, 0);
        if (low[count] == NULL)
            break;
    }
    if (count == all && stays_small(&found) && (!(gate->flags & MASKLESS) || keyword(kwnames, "where") < 0)) {
        result = PyObject_Vectorcall(gate->real, low, n, kwnames);
        if (result != NULL && !(gate->flags & AIMS))
            Py_SETREF(result, Py_NewRef(args[target]));
    }
    while (count--)
        Py_DECREF(low[count]);
    return result;
}

/* A call on large arrays at hand that is to be done now (soon.c).  NULL, without an exception, of others. */
static PyObject *soon(Gate *gate, PyObject *const *args, Py_ssize_t n, Py_ssize_t all, PyObject *kwnames)
{
    PyObject *low[MOST], *result = NULL;
    Found found = {.product = 1, .way = gate->flags / WAYS};
    Py_ssize_t count = 0;
    int may = all <= MOST;
    for (; may && count < all; count++)
        if ((low[count] = lowered(args[count], &found, 0)) == NULL)
            may = 0;
    count -= !may && count > 0;
    if (may && gate->need >= SHAPED) {
        npy_intp size = gate->need == SHAPED && n && !found.arrays ? extent(args[0]) : -1;
        may = size >= 0 && size < state.left && small_spend(8 * size);
    } else if (may)
        may = found.wrapped && permitted(gate, &found, args, n, kwnames) && small_spend(2 * found.bytes);
    if (may)
        result = PyObject_Vectorcall(gate->real, low, n, kwnames);
    if (result != NULL && !PyArray_CheckExact(result))
        small_looked();
    if (result != NULL)
        result = raised(result, &found);
    while (count--)
        Py_DECREF(low[count]);
    return result;
}

/* What a method that only reads gives of memory that is at hand, of whatever size; NULL likewise. */
static PyObject *read_from(Gate *gate, PyObject *const *args, Py_ssize_t n)
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

/* What a reduction of all elements gives that the calling thread does at once, as folds.immediate and folds.total
 * have it; NULL likewise. */
static PyObject *fold_of(Gate *gate, PyObject *given)
{
    PyObject *times = state.folds == NULL ? NULL : PyDict_GetItemString(state.folds, "AT_ONCE");
    if (Py_TYPE(given) != state.array_class || !state.sees || small_eager() || times == NULL)
        return NULL;
    Array *x = (Array *)given;
    npy_intp size = absent(x->meta) ? 0 : size_of(x->meta);
    int type = size == 0 ? NPY_HALF : PyArray_TYPE((PyArrayObject *)x->meta);
    int whole = type >= NPY_BYTE && type <= NPY_ULONGLONG, real = type == NPY_FLOAT || type == NPY_DOUBLE;
    if (size < state.small || size >= PyLong_AsSsize_t(times) * state.small || !(whole || (!(gate->flags & ADDS) && (real || type == NPY_BOOL))))
        return NULL;
    PyObject *memory = small_at_hand(x), *found = NULL;
    if (memory != NULL) {
        small_looked();
        found = PyObject_CallOneArg(gate->real, memory);
        Py_DECREF(memory);
    }
    return found;
}

/* -- functions that the program waits for at each call -------------------------------------------------------- */

/* What the program gets of a result of NumPy that a task may use next; steals it. */
static PyObject *made(PyObject *result, Found *found, PyObject *place)
{
    if (!PyArray_CheckExact(result) || PyArray_BASE((PyArrayObject *)result) != NULL
            || size_of(result) < state.tiny || !small_native((PyArrayObject *)result))
        return raised(result, found);
    for (int k = 0; k < found->arrays; k++)
        if (found->seen[k] == result)
            return raised(result, found);
    PyObject *array = PyObject_CallFunctionObjArgs(state.made_at_once, result, place, NULL);
    Py_DECREF(result);
    return array;
}

/* What NumPy gives where the program waited for each call of a line, as gates.watched.  NULL, without an exception,
 * where Python's code has to see to it. */
static PyObject *done_at_once(Gate *gate, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    PyObject *low[MOST], *result = NULL, *line = small_line();
    Py_ssize_t all = n + (kwnames == NULL ? 0 : PyTuple_GET_SIZE(kwnames)), count = 0;
    if (line == NULL)
        return NULL;
    PyObject *key[] = {gate->watched, line}, *place = Py_XNewRef(small_found(state.places, key, 2));
    PyObject **alone = place == NULL ? NULL : &SLOT(place, state.place_alone);
    Py_DECREF(line);
    if (place == NULL || PyLong_AsLong(*alone) < state.often || !state.small || small_eager() || all > MOST) {
        Py_XDECREF(place);
        return NULL;
    }
    Found found = {.product = 1, .large = 1};
    for (; count < all; count++)
        if ((low[count] = lowered(args[count], &found, 0)) == NULL)
            break;
    if (count == all && found.arrays && found.total <= state.bytes && may_write(gate, n, kwnames) == 0
            && small_trusted(alone, state.often, state.most) > 0) {
        result = PyObject_Vectorcall(gate->real, low, n, kwnames);
        if (result != NULL)
            result = made(result, &found, place);
    }
    while (count--)
        Py_DECREF(low[count]);
    Py_DECREF(place);
    return result;
}

static PyObject *gate_call(Gate *gate, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    Py_ssize_t n = PyVectorcall_NARGS(nargsf), all = n + (kwnames == NULL ? 0 : PyTuple_GET_SIZE(kwnames));
    PyObject *low[MOST + 1], *result = NULL;
    Found found = {.product = 1};
    Py_ssize_t count = 0;
    if ((gate->flags & KEEPS) && all == 1 && n == 1 && Py_TYPE(args[0]) == state.array_class)
        return Py_NewRef(args[0]);
    if (gate->flags & (VIEWS | READS) && n > 0 && all == n) {
        result = gate->flags & READS ? read_from(gate, args, n) : views(gate, args, n);
        if (result != NULL || PyErr_Occurred())
            return result;
    }
    if (gate->flags & (VIEWS | READS) && (gate->flags & BELONGS))
        goto ours;
    Py_ssize_t target = target_of(gate, args, n, kwnames);
    if (target >= 0) {
        result = write_to(gate, args, n, kwnames, target);
        if (result != NULL || PyErr_Occurred())
            return result;
        goto ours;
    }
    if (all > MOST || ((gate->flags & BELONGS) && n == 0))
        goto ours;
    for (; count < all; count++)
        if ((low[count] = lowered(args[count], &found, 0)) == NULL)
            break;
    if (count == all && permitted(gate, &found, args, n, kwnames)) {
        result = PyObject_Vectorcall(gate->real, low, n, kwnames);
        if (result != NULL && !PyArray_CheckExact(result))
            small_looked();
        if (result != NULL)
            result = raised(result, &found);
        while (count--)
            Py_DECREF(low[count]);
        return result;
    }
    while (count--)
        Py_DECREF(low[count]);
    if (PyErr_Occurred())
        return NULL;
ours:
    if (state.left > 0 && gate->flags >= WAYS && ((result = soon(gate, args, n, all, kwnames)) != NULL || PyErr_Occurred()))
        return result;
    if (gate->flags & FOLDS && all == 1 && n == 1 && ((result = fold_of(gate, args[0])) != NULL || PyErr_Occurred()))
        return result;
    if (gate->watched != NULL && state.places != NULL) {
        result = done_at_once(gate, args, n, kwnames);
        if (result != NULL || PyErr_Occurred())
            return result;
    }
    if (gate->flags & (ONE | TWO)
            && (result = small_known_call(gate->real, gate->flags & ONE ? 1 : 2, args, n, kwnames)) != Py_None)
        return result;
    Py_XDECREF(result);
    return PyObject_Vectorcall(gate->ours, args, nargsf & ~PY_VECTORCALL_ARGUMENTS_OFFSET, kwnames);
}

PyObject *small_chosen(Array *x, PyObject *index)
{
    Found found = {.product = 1};
    PyObject *memory = small_near(x);
    if (memory == NULL && !PyErr_Occurred())
        memory = small_at_hand(x);
    PyObject *plain = memory == NULL ? NULL : lowered(index, &found, 0);
    PyObject *chosen = plain == NULL ? NULL : PyObject_GetItem(memory, plain);
    Py_XDECREF(memory);
    Py_XDECREF(plain);
    if (chosen == NULL || !PyArray_CheckExact(chosen))
        return chosen;
    if (PyArray_BASE((PyArrayObject *)chosen) == NULL)
        return small_given(chosen);
    Py_DECREF(chosen); /* a view: the Python code knows of what */
    return NULL;
}

PyObject *small_index(Array *x, PyObject *index)
{
    Found found = {.product = 1};
    int here = size_of(x->memory) < state.small || (state.sees && small_readable(x) > 0);
    return here ? lowered(index, &found, 0) : NULL;
}

/* -- the types ------------------------------------------------------------------------------------------- */

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
    gate->call = (vectorcallfunc)gate_call;
    return 0;
}

static int gate_traverse(Gate *gate, visitproc visit, void *arg)
{
    Py_VISIT(gate->real);
    Py_VISIT(gate->ours);
    Py_VISIT(gate->function);
    Py_VISIT(gate->watched);
    Py_VISIT(gate->dict);
    return 0;
}

static int gate_clear(Gate *gate)
{
    Py_CLEAR(gate->real);
    Py_CLEAR(gate->ours);
    Py_CLEAR(gate->function);
    Py_CLEAR(gate->watched);
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
    {"ours", T_OBJECT_EX, offsetof(Gate, ours), 0, NULL},
    {"watched", T_OBJECT_EX, offsetof(Gate, watched), 0, NULL},
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

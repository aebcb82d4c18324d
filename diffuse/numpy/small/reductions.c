/* Reductions of small vectors by the inner loops of NumPy's ufuncs, as NumPy runs them: its bits, without the microsecond
 * that it takes to find out what to do.  NumPy does again, with its warnings, what raises floating-point errors. */
#include "loops.h"
#include "gate.h"
#include "flags.h"

static PyUFuncGenericFunction loops[SMALL_ANYWHERE][KINDS];
static void *data[SMALL_ANYWHERE][KINDS];

/* Find the loops of a ufunc for two operands and a result of one type. */
static void find(PyObject *numpy, const char *name, int fold)
{
    PyUFuncObject *ufunc = (PyUFuncObject *)PyObject_GetAttrString(numpy, name); /* kept for good */
    for (int kind = LONG; ufunc != NULL && kind <= DOUBLE; kind++)
        for (int k = ufunc->ntypes - 1; k >= 0; k--) {
            const char *types = ufunc->types + 3 * k;
            int type = small_types[kind]->type_num;
            if (types[0] == type && types[1] == type && types[2] == type) {
                loops[fold][kind] = ufunc->functions[k];
                data[fold][kind] = ufunc->data == NULL ? NULL : (void *)ufunc->data[k];
            }
        }
}

int small_reductions_ready(void)
{
    PyObject *numpy = PyImport_ImportModule("numpy");
    if (numpy == NULL)
        return -1;
    find(numpy, "add", SMALL_SUM);
    find(numpy, "add", SMALL_MEAN);
    find(numpy, "maximum", SMALL_MAX);
    find(numpy, "minimum", SMALL_MIN);
    loops[SMALL_MEAN][LONG] = loops[SMALL_MEAN][SINGLE] = NULL;
    Py_DECREF(numpy);
    return PyErr_Occurred() ? -1 : 0;
}

int small_fold_loop(int fold, int kind, Loop *loop)
{
    if (fold >= SMALL_ANYWHERE || loops[fold][kind] == NULL)
        return 0;
    loop->run = loops[fold][kind];
    loop->data = data[fold][kind];
    return 1;
}

/* What a reduction of a vector by a loop gives; NULL, without an exception unless one was raised, of others. */
static PyObject *reduced(int fold, PyArrayObject *x)
{
    int kind = small_kind(PyArray_TYPE(x));
    npy_intp n = PyArray_SIZE(x), steps[] = {0, PyArray_ITEMSIZE(x), 0};
    if (kind == NONE || loops[fold][kind] == NULL || PyArray_NDIM(x) != 1 || n == 0 || !PyArray_IS_C_CONTIGUOUS(x)
            || !small_plain((PyObject *)x))
        return NULL;
    Number sum = {.pair = {0.0, 0.0}};
    char *from = PyArray_BYTES(x);
    npy_intp rest = n;
    if (fold == SMALL_MAX || fold == SMALL_MIN) { /* these have no number to begin with */
        memcpy(&sum, from, steps[1]);
        from += steps[1];
        rest--;
    }
    char *places[] = {(char *)&sum, from, (char *)&sum};
    small_clear();
    if (rest > 0)
        loops[fold][kind](places, &rest, steps, data[fold][kind]);
    if (fold == SMALL_MEAN)
        sum.number /= (double)n;
    if (small_raised())
        return NULL;
    return PyArray_Scalar(&sum, PyArray_DESCR(x), NULL);
}

PyObject *small_reduce(Gate *gate, PyObject *given)
{
    int ours = Py_TYPE(given) == state.array_class, fold = gate->reduces;
    PyObject *meta = ours ? ((Array *)given)->meta : given, *found = NULL;
    if (fold > SMALL_COUNT || absent(meta) || !PyArray_CheckExact(meta) || size_of(meta) >= state.small)
        return NULL;
    PyObject *memory = ours ? small_near((Array *)given) : Py_NewRef(given);
    if (memory == NULL)
        return NULL;
    PyArrayObject *x = (PyArrayObject *)memory;
    int bools = PyArray_TYPE(x) == NPY_BOOL && PyArray_SIZE(x) > 0, all = !(gate->flags & FIRST) || PyArray_NDIM(x) == 1;
    if (bools && all && (fold == SMALL_SUM || fold == SMALL_COUNT))
        found = small_counted(fold, x);
    else if (fold < SMALL_ANYWHERE)
        found = reduced(fold, x);
    else if (bools && fold < SMALL_COUNT)
        found = small_searched(fold, x);
    Py_DECREF(memory);
    if (found != NULL)
        small_looked();
    return found;
}

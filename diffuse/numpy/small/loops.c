/* Operators on small arrays by the inner loops of NumPy's ufuncs.
 *
 * NumPy takes 0.15 to 0.5 us to find out what a call of a ufunc has to do, as long as it takes to add thousands of
 * elements.  Operands of one common type in memory that lies in C's order need none of that: the loop of the ufunc
 * runs on them as NumPy would run it, and the bits are the same.  NumPy does all else, and does again, with its
 * warnings, what raises floating-point errors. */
#include "gate.h"
#include "loops.h"
#define PY_UFUNC_UNIQUE_SYMBOL diffuse_small_ufuncs
#define NO_IMPORT_UFUNC
#include <numpy/ufuncobject.h>

enum { MOST_ELEMENTS = 1 << 22 };
enum { SCRATCH = 1 << 17, PLAIN = 1 << 14, STRIDED = 1 << 12 }; /* bytes that are computed elsewhere before they are
                                                               * changed in place: with short rows, and with others */

static Loop loops[FORWARD][KINDS];

#if defined(__x86_64__)
/* Both of the processor's units keep flags; NumPy raises some in the older one.  It takes long to clear them. */
#include <immintrin.h>
enum { REPORTED = 0x1d }; /* invalid, division by zero, overflow and underflow */
static int raised(void)
{
    unsigned short old;
    __asm__ volatile("fnstsw %0" : "=am"(old));
    return ((_mm_getcsr() | old) & REPORTED) != 0;
}
static void clear(void)
{
    if (raised()) {
        __asm__ volatile("fnclex");
        _mm_setcsr(_mm_getcsr() & ~REPORTED);
    }
}
#else
#include <fenv.h>
enum { REPORTED = FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW | FE_UNDERFLOW };
static void clear(void) { feclearexcept(REPORTED); }
static int raised(void) { return fetestexcept(REPORTED) != 0; }
#endif

/* The strides of an array over the dimensions of a result; 0 unless they go as in C's order, so that NumPy would lay
 * out the result in that order. */
static int laid(PyArrayObject *array, int dims, const npy_intp *shape, Side *side)
{
    int missing = dims - PyArray_NDIM(array);
    npy_intp before = NPY_MAX_INTP;
    side->data = PyArray_BYTES(array);
    for (int d = 0; d < dims; d++) {
        npy_intp n = d < missing ? 1 : PyArray_DIM(array, d - missing);
        npy_intp stride = n == 1 ? 0 : PyArray_STRIDE(array, d - missing);
        if ((n != 1 && n != shape[d]) || stride < 0 || stride > before)
            return 0;
        side->strides[d] = stride;
        before = stride ? stride : before;
    }
    return 1;
}

/* Does NumPy take other strides through an array of one element than zeros?  Loops may have other bits then. */
static int unlike_one(PyArrayObject *array, int dims)
{
    int own = PyArray_NDIM(array);
    return own % dims || (own == 1 && PyArray_STRIDE(array, 0) != PyArray_ITEMSIZE(array));
}

/* The shape of the result of two operands: its dimensions, or 0. */
static int spread(PyObject *const *given, int n, npy_intp *shape)
{
    int dims = 0;
    npy_intp size = 1;
    for (int k = 0; k < n; k++)
        if (PyArray_CheckExact(given[k]) && PyArray_NDIM((PyArrayObject *)given[k]) > dims)
            dims = PyArray_NDIM((PyArrayObject *)given[k]);
    for (int d = 0; d < dims && dims <= RANK; d++) {
        shape[d] = 1;
        for (int k = 0; k < n; k++) {
            PyArrayObject *array = (PyArrayObject *)given[k];
            int own = PyArray_CheckExact(given[k]) ? d - dims + PyArray_NDIM(array) : -1;
            if (own >= 0 && PyArray_DIM(array, own) != 1)
                shape[d] = PyArray_DIM(array, own);
        }
        size *= shape[d];
    }
    for (int k = 0; k < n && dims > 0 && size == 1; k++)
        if (PyArray_CheckExact(given[k]) && unlike_one((PyArrayObject *)given[k], dims))
            return 0;
    return dims <= RANK && size > 0 && size < MOST_ELEMENTS ? dims : 0;
}

/* Join neighbouring dimensions that every side goes through as through one. */
static int joined(int dims, npy_intp *shape, Side *sides, int count)
{
    int kept = 0;
    for (int d = 1; d < dims; d++) {
        int one = 1;
        for (int k = 0; k < count && one; k++)
            one = sides[k].strides[kept] == shape[d] * sides[k].strides[d];
        if (one)
            shape[kept] *= shape[d];
        else
            shape[++kept] = shape[d];
        for (int k = 0; k < count; k++)
            sides[k].strides[kept] = sides[k].strides[d];
    }
    return kept + 1;
}

static npy_intp rows_of(int dims, const npy_intp *shape)
{
    npy_intp rows = 1;
    for (int d = 0; d < dims - 1; d++)
        rows *= shape[d];
    return rows;
}

/* Run a loop over all elements, row after row. */
static void run(const Loop *loop, int dims, const npy_intp *shape, const Side *sides, int count)
{
    npy_intp place[RANK] = {0}, steps[3] = {0}, n = shape[dims - 1];
    char *data[3] = {NULL};
    for (int k = 0; k < count; k++) {
        data[k] = sides[k].data;
        steps[k] = sides[k].strides[dims - 1];
    }
    for (int d = 0; d >= 0;) {
        char *now[] = {data[0], data[1], data[2]};
        loop->run(now, &n, steps, loop->data);
        for (d = dims - 2; d >= 0 && ++place[d] == shape[d]; d--) {
            place[d] = 0;
            for (int k = 0; k < count; k++)
                data[k] -= (shape[d] - 1) * sides[k].strides[d];
        }
        for (int k = 0; d >= 0 && k < count; k++)
            data[k] += sides[k].strides[d];
    }
}

static npy_intp width_of(int kind) { return PyDataType_ELSIZE(small_types[kind]); }

/* Run a loop over operands of `kind`.  0 if there are floating-point errors to report. */
static int ran(const Loop *loop, int kind, int dims, const npy_intp *shape, const Side *sides, int count)
{
    clear();
    if (shape[dims - 1] < SHORT && rows_of(dims, shape) > SHORT)
        small_run_gathered(loop, dims, shape, width_of(kind), width_of(small_kind(loop->made)), sides, count);
    else
        run(loop, dims, shape, sides, count);
    return !raised();
}

/* The loop for these operands, which `sides` get, and their kind; NULL if NumPy has to look. */
static const Loop *chosen(const Loop *among, PyObject *const *given, int n, int *of, int *dims, npy_intp *shape,
                          Side *sides)
{
    int kind = NONE;
    for (int k = 0; k < n; k++)
        if (PyArray_CheckExact(given[k])) {
            int own = small_kind(PyArray_TYPE((PyArrayObject *)given[k]));
            if (own == NONE || !small_plain(given[k]) || (kind != NONE && kind != own))
                return NULL;
            kind = own;
        }
    const Loop *loop = kind == NONE ? NULL : &among[kind];
    if (loop == NULL || loop->run == NULL || (*dims = spread(given, n, shape)) == 0)
        return NULL;
    for (int k = 0; k < n; k++) {
        if (PyArray_CheckExact(given[k])) {
            if (!laid((PyArrayObject *)given[k], *dims, shape, &sides[k]))
                return NULL;
        } else if (small_taken(kind, given[k], &sides[k].number)) {
            sides[k].data = (char *)&sides[k].number;
            memset(sides[k].strides, 0, sizeof sides[k].strides);
        } else
            return NULL;
    }
    *of = kind;
    return loop;
}

static void dense(int dims, const npy_intp *shape, npy_intp width, Side *side)
{
    for (int d = dims - 1; d >= 0; d--) {
        side->strides[d] = width;
        width *= shape[d];
    }
}

/* What a ufunc gives that has these loops. */
static PyObject *result(const Loop *among, PyObject *left, PyObject *right)
{
    PyObject *given[] = {left, right};
    Side sides[3];
    npy_intp shape[RANK];
    int kind, dims, n = right == NULL ? 1 : 2;
    const Loop *loop = chosen(among, given, n, &kind, &dims, shape, sides);
    if (loop == NULL)
        return NULL;
    npy_intp whole[RANK];
    memcpy(whole, shape, sizeof whole);
    PyArray_Descr *made = small_types[small_kind(loop->made)];
    dense(dims, shape, PyDataType_ELSIZE(made), &sides[n]);
    int rows = joined(dims, shape, sides, n + 1);
    if (loop->alone && rows_of(rows, shape) > 1)
        return NULL;
    Py_INCREF(made); /* it is stolen */
    PyObject *found = PyArray_NewFromDescr(&PyArray_Type, made, dims, whole, NULL, NULL, 0, NULL);
    if (found == NULL)
        return NULL;
    sides[n].data = PyArray_BYTES((PyArrayObject *)found);
    NPY_BEGIN_THREADS_DEF;
    if (size_of(found) >= state.small)
        NPY_BEGIN_THREADS;
    int done = ran(loop, kind, rows, shape, sides, n + 1);
    NPY_END_THREADS;
    if (!done)
        Py_CLEAR(found);
    return found;
}

PyObject *small_loop(int name, PyObject *left, PyObject *right) { return result(loops[name], left, right); }

PyObject *small_loop_of(PyObject *ufunc, PyObject *left, PyObject *right)
{
    for (int name = 0; name < FORWARD; name++)
        if (small_ufuncs[name] == ufunc)
            return name == SQUARE ? NULL : small_loop(name, left, right);
    return NULL;
}

/* Is it an array that an operation may change in place by way of `SCRATCH`?  What is computed elsewhere and copied
 * takes longer than NumPy takes for all but few elements, unless rows are short. */
static int changes(PyArrayObject *array)
{
    if (!PyArray_ISWRITEABLE(array) || PyArray_NDIM(array) == 0 || PyArray_NBYTES(array) > SCRATCH)
        return 0;
    if (PyArray_IS_C_CONTIGUOUS(array))
        return 1;
    if (PyArray_NDIM(array) == 1)
        return PyArray_STRIDE(array, 0) >= PyArray_ITEMSIZE(array) && PyArray_NBYTES(array) <= STRIDED;
    return small_apart(array);
}

int small_loop_in_place(int name, PyObject *memory, PyObject *right)
{
    static _Alignas(64) char scratch[SCRATCH];
    PyArrayObject *array = (PyArrayObject *)memory;
    PyObject *given[] = {memory, right};
    Side sides[3];
    npy_intp shape[RANK], whole[RANK];
    int kind, dims;
    if (!PyArray_CheckExact(memory) || !changes(array))
        return 0;
    const Loop *loop = chosen(loops[name], given, 2, &kind, &dims, shape, sides);
    if (loop == NULL || loop->made != PyArray_TYPE(array) || dims != PyArray_NDIM(array)
            || !PyArray_CompareLists(shape, PyArray_DIMS(array), dims))
        return 0;
    sides[2].data = scratch;
    dense(dims, shape, PyArray_ITEMSIZE(array), &sides[2]);
    memcpy(whole, shape, sizeof whole);
    Side back = sides[2];
    int rows = joined(dims, shape, sides, 3);
    int brief = shape[rows - 1] < SHORT && rows_of(rows, shape) > SHORT;
    if ((loop->alone && rows_of(rows, shape) > 1)
            || (!brief && PyArray_NBYTES(array) > (PyArray_IS_C_CONTIGUOUS(array) ? PLAIN : STRIDED)))
        return 0;
    if (!ran(loop, kind, rows, shape, sides, 3))
        return 0;
    if (PyArray_IS_C_CONTIGUOUS(array))
        memcpy(PyArray_BYTES(array), scratch, PyArray_NBYTES(array));
    else
        small_move(dims, whole, PyArray_ITEMSIZE(array), PyArray_BYTES(array), PyArray_STRIDES(array), scratch,
                   back.strides);
    return 1;
}

/* The loop of a ufunc for operands of one type with results of a type, if there is one. */
static void find(PyUFuncObject *ufunc, int type, int made, int alone, Loop *found)
{
    for (int k = 0; k < ufunc->ntypes && found->run == NULL; k++) {
        const char *types = ufunc->types + k * ufunc->nargs;
        int fits = types[ufunc->nin] == made;
        for (int m = 0; m < ufunc->nin; m++)
            fits &= types[m] == type;
        if (fits)
            *found = (Loop){ufunc->functions[k], ufunc->data == NULL ? NULL : (void *)ufunc->data[k], made, alone};
    }
}

void small_find_loops(void)
{
    static const int names[] = {ADD, SUBTRACT, MULTIPLY, DIVIDE, AND, OR, XOR, SQUARE, NEGATIVE, ABSOLUTE,
                                LESS, LESS_EQUAL, EQUAL, NOT_EQUAL, GREATER, GREATER_EQUAL};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        PyUFuncObject *ufunc = (PyUFuncObject *)small_ufuncs[names[k]];
        int first = names[k] == SQUARE ? SINGLE : BOOL; /* powers of whole numbers are others */
        for (int kind = first; kind < KINDS; kind++) {
            int type = small_types[kind]->type_num;
            find(ufunc, type, names[k] >= LESS ? NPY_BOOL : type, kind == DOUBLES, &loops[names[k]][kind]);
        }
    }
}

/* The loops of a ufunc that a gate calls; NULL for one that has none, and for SciPy's, to which Python's numbers are
 * of double precision beside arrays of single precision. */
static Loop *loops_of(Gate *gate)
{
    PyUFuncObject *ufunc = (PyUFuncObject *)gate->real;
    Loop *found = PyMem_Calloc(KINDS, sizeof *found);
    if (found == NULL || (gate->flags & MASKLESS) || ufunc->core_enabled || ufunc->nout != 1
            || ufunc->nin != (gate->flags & ONE ? 1 : 2)) {
        PyMem_Free(found);
        return NULL;
    }
    int raises = strcmp(ufunc->name, "power") == 0; /* of whole numbers */
    for (int kind = raises ? SINGLE : BOOL; kind < KINDS; kind++) {
        find(ufunc, small_types[kind]->type_num, small_types[kind]->type_num, 1, &found[kind]);
        find(ufunc, small_types[kind]->type_num, NPY_BOOL, 1, &found[kind]);
    }
    return found;
}

PyObject *small_call_loop(Gate *gate, PyObject *const *low)
{
    if (!gate->looked) {
        gate->looked = 1;
        gate->loops = loops_of(gate);
    }
    return gate->loops == NULL ? NULL : result(gate->loops, low[0], gate->flags & ONE ? NULL : low[1]);
}

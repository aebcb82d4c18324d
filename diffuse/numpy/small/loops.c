/* Operators on small arrays by the inner loops of NumPy's ufuncs.
 *
 * NumPy takes 0.15 to 0.5 us to find out what a call of a ufunc has to do, as long as it takes to add thousands of
 * elements.  Operands of one common type in memory that lies in C's order need none of that: the loop of the ufunc
 * runs on them as NumPy would run it, and the bits are the same.  NumPy does all else, and does again, with its
 * warnings, what raises floating-point errors. */
#include "gate.h"
#include "loops.h"
#include "flags.h"

enum { MOST_ELEMENTS = 1 << 22 };
enum { MOST_IN_PLACE = 1 << 18 }; /* bytes; NumPy lets other threads run meanwhile */
enum { SCRATCH = 1 << 17, PLAIN = 1 << 14, STRIDED = 1 << 12 }; /* bytes that are computed elsewhere before they are
                                                                * changed in place: with short rows, and with others */

static Loop loops[FORWARD][KINDS];

/* Give an operator's loop of a kind its code for strided rows, if there is some. */
static void quicken(int name, int kind, Loop *loop)
{
    if (loop->run == NULL || (loop->strided = small_strided_rows(name, kind)) == NULL)
        return;
    loop->silent = (name >= LESS && name < FORWARD) || name == ABSOLUTE || name == NEGATIVE;
    loop->slow = name == ABSOLUTE ? ALWAYS : name == DIVIDE ? IN_ROWS : WHERE_APART;
}

/* The strides of an array over the dimensions of a result; 0 unless they go as in C's order, forwards or, if `back`,
 * backwards, so that NumPy would lay out the result in that order. */
static int laid(PyArrayObject *array, int dims, const npy_intp *shape, int back, Side *side)
{
    int missing = dims - PyArray_NDIM(array);
    npy_intp before = NPY_MAX_INTP;
    side->data = PyArray_BYTES(array);
    for (int d = 0; d < dims; d++) {
        npy_intp n = d < missing ? 1 : PyArray_DIM(array, d - missing);
        npy_intp stride = n == 1 ? 0 : PyArray_STRIDE(array, d - missing), length = stride < 0 ? -stride : stride;
        if ((n != 1 && n != shape[d]) || length > before || (stride < 0 && !back))
            return 0;
        side->strides[d] = stride;
        before = length ? length : before;
    }
    return 1;
}

/* Does some operand go backwards through a dimension that no other one goes forwards through?  NumPy turns it round then. */
static int turned(int dims, const Side *sides, int count)
{
    for (int d = 0; d < dims; d++) {
        int forwards = 0, backwards = 0;
        for (int k = 0; k < count; k++) {
            forwards |= sides[k].strides[d] > 0;
            backwards |= sides[k].strides[d] < 0;
        }
        if (backwards && !forwards)
            return 1;
    }
    return 0;
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

int small_merged(int dims, npy_intp *shape, Side *sides, int count)
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

/* Run a loop over all elements, row after row. */
static void run(const Loop *loop, int dims, const npy_intp *shape, const Side *sides, int count)
{
    npy_intp place[RANK] = {0}, steps[3] = {0}, n = shape[dims - 1];
    char *data[3] = {NULL};
    for (int k = 0; k < count; k++) {
        data[k] = sides[k].data;
        steps[k] = sides[k].strides[dims - 1];
    }
    do {
        char *now[] = {data[0], data[1], data[2]};
        loop->run(now, &n, steps, loop->data);
    } while (small_next(dims - 1, place, shape, data, sides, count));
}

int small_ran(const Loop *loop, int dims, const npy_intp *shape, const Side *sides, int count)
{
    small_clear();
    if (small_run_strided(loop, dims, shape, sides, count))
        return !small_raised();
    if (brief(dims, shape))
        small_run_gathered(loop, dims, shape, PyDataType_ELSIZE(small_types[small_kind(loop->made)]), sides, count);
    else
        run(loop, dims, shape, sides, count);
    return !small_raised();
}

/* The loop for these operands, which `sides` get; NULL if NumPy has to look, as for operands that go backwards unless
 * `back`. */
static const Loop *chosen(const Loop *among, PyObject *const *given, int n, int back, int *dims, npy_intp *shape,
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
            if (!laid((PyArrayObject *)given[k], *dims, shape, back, &sides[k]))
                return NULL;
        } else if (small_taken(kind, given[k], &sides[k].number)) {
            sides[k].data = (char *)&sides[k].number;
            memset(sides[k].strides, 0, sizeof sides[k].strides);
        } else
            return NULL;
    }
    return back && turned(*dims, sides, n) ? NULL : loop;
}

const Loop *small_loop_for(int name, PyObject *const *given, int n, int *dims, npy_intp *shape, Side *sides)
{
    return chosen(loops[name], given, n, 0, dims, shape, sides);
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
    int dims, n = right == NULL ? 1 : 2;
    const Loop *loop = chosen(among, given, n, 1, &dims, shape, sides);
    if (loop == NULL)
        return NULL;
    npy_intp whole[RANK];
    memcpy(whole, shape, sizeof whole);
    PyArray_Descr *made = small_types[small_kind(loop->made)];
    dense(dims, shape, PyDataType_ELSIZE(made), &sides[n]);
    int rows = small_merged(dims, shape, sides, n + 1);
    if (loop->alone && rows_of(rows, shape) > 1)
        return NULL;
    Py_INCREF(made); /* it is stolen */
    PyObject *found = PyArray_NewFromDescr(&PyArray_Type, made, dims, whole, NULL, NULL, 0, NULL);
    if (found == NULL)
        return NULL;
    sides[n].data = PyArray_BYTES((PyArrayObject *)found);
    unsigned raised = 0;
    if (!small_shared(loop, rows, shape, sides, n + 1, &raised)) {
        NPY_BEGIN_THREADS_DEF;
        if (size_of(found) >= state.small)
            NPY_BEGIN_THREADS;
        raised = !small_ran(loop, rows, shape, sides, n + 1);
        NPY_END_THREADS;
    }
    if (raised)
        Py_CLEAR(found);
    return found;
}

PyObject *small_loop(int name, PyObject *left, PyObject *right) { return result(loops[name], left, right); }

/* Run a loop whose result goes to an operand's own elements, which cannot be computed again: 0 if it was not run.
 * `raised` gets the floating-point errors. */
static int run_over(const Loop *loop, int dims, npy_intp *shape, Side *sides, int count, unsigned *raised)
{
    dims = small_merged(dims, shape, sides, count);
    int large = rows_of(dims, shape) * shape[dims - 1] * loop->width > MOST_IN_PLACE, short_rows = brief(dims, shape);
    if (loop->alone)
        return 0;
    if (!short_rows && small_shared(loop, dims, shape, sides, count, raised))
        return 1;
    if (large)
        return 0;
    small_clear();
    int done = small_run_strided(loop, dims, shape, sides, count);
    if (!done && !short_rows)
        run(loop, dims, shape, sides, count);
    *raised = small_raised();
    return done || !short_rows;
}

/* The same for an operator, whose errors are reported: -1 with an exception. */
static int operate_over(int name, const Loop *loop, int dims, npy_intp *shape, Side *sides)
{
    unsigned raised = 0;
    int done = run_over(loop, dims, shape, sides, 3, &raised);
    return done && raised && small_report(name, raised) < 0 ? -1 : done;
}

int small_loop_in_place(int name, PyObject *memory, PyObject *right)
{
    static _Alignas(64) char scratch[SCRATCH];
    PyArrayObject *array = (PyArrayObject *)memory;
    PyObject *given[] = {memory, right};
    Side sides[3];
    npy_intp shape[RANK], whole[RANK];
    int dims;
    if (!PyArray_CheckExact(memory) || !PyArray_ISWRITEABLE(array) || PyArray_NDIM(array) == 0
            || (!PyArray_IS_C_CONTIGUOUS(array) && !small_apart(array)))
        return 0;
    const Loop *loop = chosen(loops[name], given, 2, 0, &dims, shape, sides);
    if (loop == NULL || loop->made != PyArray_TYPE(array) || dims != PyArray_NDIM(array)
            || !PyArray_CompareLists(shape, PyArray_DIMS(array), dims))
        return 0;
    sides[2] = sides[0];
    memcpy(whole, shape, sizeof whole);
    Side before[] = {sides[0], sides[1]};
    int done = small_same_or_apart(array, right) ? operate_over(name, loop, dims, shape, sides) : 0;
    if (done || PyArray_NBYTES(array) > SCRATCH)
        return done;
    memcpy(shape, whole, sizeof whole);
    memcpy(sides, before, sizeof before);
    sides[2].data = scratch;
    dense(dims, shape, PyArray_ITEMSIZE(array), &sides[2]);
    Side back = sides[2];
    int rows = small_merged(dims, shape, sides, 3), plain = PyArray_IS_C_CONTIGUOUS(array);
    if ((loop->alone && rows_of(rows, shape) > 1)
            || (!brief(rows, shape) && PyArray_NBYTES(array) > (plain ? PLAIN : STRIDED))
            || !small_ran(loop, rows, shape, sides, 3))
        return 0;
    if (plain)
        memcpy(PyArray_BYTES(array), scratch, PyArray_NBYTES(array));
    else
        small_move(dims, whole, PyArray_ITEMSIZE(array), PyArray_BYTES(array), PyArray_STRIDES(array), scratch,
                   back.strides);
    return 1;
}

/* The loop for these operands with results that go to the memory of one of them, in C's order; NULL if there is none. */
static const Loop *chosen_over(const Loop *among, PyObject *const *given, int n, PyObject *memory, int *dims,
                               npy_intp *shape, Side *sides)
{
    PyArrayObject *array = (PyArrayObject *)memory;
    const Loop *loop = PyArray_IS_C_CONTIGUOUS(array) ? chosen(among, given, n, 0, dims, shape, sides) : NULL;
    if (loop == NULL || loop->made != PyArray_TYPE(array) || *dims != PyArray_NDIM(array)
            || !PyArray_CompareLists(shape, PyArray_DIMS(array), *dims) || !laid(array, *dims, shape, 0, &sides[n]))
        return NULL;
    return loop;
}

int small_loop_over(int name, PyObject *left, PyObject *right, PyObject *memory)
{
    Side sides[3];
    npy_intp shape[RANK];
    int dims;
    const Loop *loop = chosen_over(loops[name], (PyObject *[]){left, right}, 2, memory, &dims, shape, sides);
    return loop == NULL ? 0 : operate_over(name, loop, dims, shape, sides);
}

/* The result of a ufunc that has these loops, in the memory of one of `n` operands, by a loop that raises no
 * floating-point errors: 1 if it is done. */
static int silently_over(const Loop *among, PyObject *const *given, int n, PyObject *memory)
{
    Side sides[3];
    npy_intp shape[RANK];
    int dims;
    unsigned raised;
    const Loop *loop = chosen_over(among, given, n, memory, &dims, shape, sides);
    return loop != NULL && loop->silent && run_over(loop, dims, shape, sides, n + 1, &raised);
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
            *found = (Loop){ufunc->functions[k], ufunc->data == NULL ? NULL : (void *)ufunc->data[k], made, alone,
                            (int)PyDataType_ELSIZE(small_types[small_kind(type)])};
    }
}

void small_find_loops(void)
{
    static const int names[] = {ADD, SUBTRACT, MULTIPLY, DIVIDE, AND, OR, XOR, INVERT, SQUARE, NEGATIVE, ABSOLUTE,
                                LESS, LESS_EQUAL, EQUAL, NOT_EQUAL, GREATER, GREATER_EQUAL};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        PyUFuncObject *ufunc = (PyUFuncObject *)small_ufuncs[names[k]];
        int first = names[k] == SQUARE ? SINGLE : BOOL; /* powers of whole numbers are others */
        for (int kind = first; kind < KINDS; kind++) {
            int type = small_types[kind]->type_num;
            find(ufunc, type, names[k] >= LESS ? NPY_BOOL : type, kind == DOUBLES, &loops[names[k]][kind]);
            if (names[k] == DIVIDE || names[k] == ABSOLUTE) /* of whole numbers, and of complex ones */
                find(ufunc, type, NPY_DOUBLE, kind == DOUBLES, &loops[names[k]][kind]);
            quicken(names[k], kind, &loops[names[k]][kind]);
        }
    }
}

/* The loops of one of NumPy's ufuncs with one result; NULL for other ufuncs.  They last as long as the process.  To
 * SciPy's Python's numbers are of double precision beside arrays of single precision. */
static const Loop *loops_of(PyObject *given)
{
    enum { KNOWN = 256 };
    static struct { PyObject *ufunc; Loop *loops; } known[KNOWN];
    size_t place = ((size_t)given >> 4) % KNOWN, last = place;
    while (known[place].ufunc != NULL && known[place].ufunc != given)
        if ((place = (place + 1) % KNOWN) == last)
            return NULL;
    if (known[place].ufunc == given)
        return known[place].loops;
    PyUFuncObject *ufunc = (PyUFuncObject *)given;
    PyObject *numpy = PyImport_ImportModule("numpy"), *own = NULL;
    if (numpy != NULL && Py_TYPE(given) == Py_TYPE(small_ufuncs[ADD]) && ufunc->name != NULL)
        own = PyObject_GetAttrString(numpy, ufunc->name);
    Py_XDECREF(numpy);
    Py_XDECREF(own);
    PyErr_Clear();
    if (own != given || ufunc->core_enabled || ufunc->nout != 1 || ufunc->nin > 2)
        return NULL;
    Loop *found = PyMem_Calloc(KINDS, sizeof *found);
    int raises = strcmp(ufunc->name, "power") == 0; /* of whole numbers */
    int operator = 0;
    while (operator < FORWARD && (small_ufuncs[operator] != given || operator == POWER))
        operator++;
    for (int kind = raises ? SINGLE : BOOL; found != NULL && kind < KINDS; kind++) {
        int type = small_types[kind]->type_num, alone = kind == DOUBLES || operator == FORWARD;
        find(ufunc, type, type, alone, &found[kind]);
        find(ufunc, type, NPY_BOOL, alone, &found[kind]);
        find(ufunc, type, NPY_DOUBLE, alone, &found[kind]);
        quicken(operator, kind, &found[kind]);
        small_quicken(ufunc->name, &found[kind]);
    }
    known[place].ufunc = Py_NewRef(given);
    known[place].loops = found;
    return found;
}

/* The same for what may be no ufunc, or one of another number of operands. */
static const Loop *loops_for(PyObject *function, Py_ssize_t n)
{
    int ufunc = Py_TYPE(function) == Py_TYPE(small_ufuncs[ADD]) && ((PyUFuncObject *)function)->nin == n;
    return ufunc ? loops_of(function) : NULL;
}

PyObject *small_loop_of_ufunc(PyObject *ufunc, PyObject *const *values, Py_ssize_t n)
{
    const Loop *found = loops_for(ufunc, n);
    return found == NULL ? NULL : result(found, values[0], n == 2 ? values[1] : NULL);
}

int small_warns(PyObject *ufunc)
{
    const char *name = ((PyUFuncObject *)ufunc)->name;
    return name != NULL && (strcmp(name, "maximum") == 0 || strcmp(name, "minimum") == 0);
}

int small_loop_into(PyObject *ufunc, PyObject *const *values, Py_ssize_t n, PyObject *memory)
{
    PyArrayObject *out = (PyArrayObject *)memory;
    Side sides[3];
    npy_intp shape[RANK];
    int dims, m = (int)n;
    const Loop *among = loops_for(ufunc, n);
    const Loop *loop = among != NULL && small_plain(memory) ? chosen(among, values, m, 0, &dims, shape, sides) : NULL;
    if (loop == NULL || loop->made != PyArray_TYPE(out) || dims != PyArray_NDIM(out) || !PyArray_ISWRITEABLE(out)
            || !PyArray_CompareLists(shape, PyArray_DIMS(out), dims) || !laid(out, dims, shape, 0, &sides[m]))
        return 0;
    for (int k = 0; k < m; k++) /* elements that are both read and written cannot be computed again */
        if (PyArray_CheckExact(values[k]) && small_overlap((PyArrayObject *)values[k], out))
            return 0;
    dims = small_merged(dims, shape, sides, m + 1);
    if ((loop->alone && rows_of(dims, shape) > 1) || brief(dims, shape))
        return 0;
    unsigned raised = 0;
    return small_shared(loop, dims, shape, sides, m + 1, &raised) && !raised;
}

/* The loops of a gate's ufunc; NULL of other functions. */
static const Loop *loops_of_gate(Gate *gate)
{
    if (!gate->looked) {
        gate->looked = 1;
        gate->loops = gate->flags & MASKLESS ? NULL : loops_of(gate->real);
    }
    return gate->loops == NULL || ((PyUFuncObject *)gate->real)->nin != small_inputs(gate) ? NULL : gate->loops;
}

PyObject *small_call_loop(Gate *gate, PyObject *const *low)
{
    const Loop *found = loops_of_gate(gate);
    return found == NULL ? NULL : result(found, low[0], gate->flags & ONE ? NULL : low[1]);
}

int small_call_loop_over(Gate *gate, PyObject *const *low, PyObject *memory)
{
    const Loop *found = loops_of_gate(gate);
    return found != NULL && silently_over(found, low, (int)small_inputs(gate), memory);
}

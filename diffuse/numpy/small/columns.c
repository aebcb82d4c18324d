/* The dot product of two columns of matrices, whose elements lie in a cache line each, on the runtime's threads.
 *
 * Fetching the elements takes nearly all of the time.  So the threads copy them to memory that lies closer together,
 * and BLAS computes with the copies.  One of them has gaps, as the routine that BLAS has for columns adds up in another
 * order than the one for vectors without gaps.  The bits are compared where that is done for the first time. */
#include "loops.h"
#include "team.h"

enum { STEP = 512 };   /* the elements of which the parts are multiples */
enum { MOST = 10000 }; /* elements that BLAS does not divide among threads itself */
enum { TABLE = 64 };   /* lengths of vectors of which something is known */
enum { DOMAIN, TILE, CALL, WORDS };

typedef struct {
    const char *from[2];
    npy_intp steps[2], n;
    double *copies[2], result;
    PyArray_DotFunc *dot;
    int copied;
} Call;

/* What is known of products of a length: the time on one thread, and how often the bits are still to be compared. */
typedef struct { npy_intp n; int64_t alone; int tries, differs; } Length;

static Length lengths[TABLE];

static double direct(const Call *call)
{
    double found;
    call->dot((void *)call->from[0], call->steps[0], (void *)call->from[1], call->steps[1], &found, call->n, NULL);
    return found;
}

static void part(char *block, int64_t point)
{
    int64_t *words = (int64_t *)block;
    Call *call = (Call *)words[CALL];
    if (words[DOMAIN] == 1) {
        call->result = direct(call);
        return;
    }
    npy_intp first = point * words[TILE], end = Py_MIN(first + words[TILE], call->n);
    const char *one = call->from[0] + first * call->steps[0], *other = call->from[1] + first * call->steps[1];
    for (npy_intp i = first; i < end; i++, one += call->steps[0], other += call->steps[1]) {
        call->copies[0][i] = *(const double *)one;
        call->copies[1][2 * i] = *(const double *)other;
    }
}

static void finish(char *block)
{
    Call *call = (Call *)((int64_t *)block)[CALL];
    call->copied = 1;
    call->dot(call->copies[0], sizeof(double), call->copies[1], 2 * sizeof(double), &call->result, call->n, NULL);
}

static int is_column(PyArrayObject *x)
{
    return PyArray_NDIM(x) == 1 && PyArray_TYPE(x) == NPY_DOUBLE && PyArray_ISBEHAVED_RO(x)
        && PyArray_STRIDE(x, 0) >= SMALL_LINE && PyArray_STRIDE(x, 0) % (npy_intp)sizeof(double) == 0;
}

PyObject *small_dot_columns(PyObject *left, PyObject *right)
{
    if (!PyArray_CheckExact(left) || !PyArray_CheckExact(right))
        return NULL;
    PyArrayObject *x = (PyArrayObject *)left, *y = (PyArrayObject *)right;
    if (!is_column(x) || !is_column(y) || PyArray_DIM(x, 0) != PyArray_DIM(y, 0)
            || PyArray_DIM(x, 0) * SMALL_APART < SMALL_SHARE || PyArray_DIM(x, 0) > MOST || !small_usual())
        return NULL;
    npy_intp n = PyArray_DIM(x, 0);
    Length *known = &lengths[n % TABLE];
    if (known->n != n)
        *known = (Length){.n = n, .tries = 3};
    if (known->differs)
        return NULL;
    Call call = {.from = {PyArray_BYTES(x), PyArray_BYTES(y)}, .n = n,
                 .steps = {PyArray_STRIDE(x, 0), PyArray_STRIDE(y, 0)},
                 .dot = PyDataType_GetArrFuncs(PyArray_DESCR(x))->dotfunc};
    double *copies = PyMem_Malloc(3 * n * sizeof *copies);
    if (copies == NULL)
        return PyErr_NoMemory();
    call.copies[0] = copies;
    call.copies[1] = copies + n;
    int64_t block[WORDS] = {1, n, (int64_t)&call};
    unsigned raised = small_team_run(part, finish, block, WORDS, n, 2 * SMALL_APART, STEP, &known->alone);
    PyMem_Free(copies);
    if (call.copied && known->tries > 0 && !raised) {
        double expected = direct(&call);
        known->tries--;
        known->differs = memcmp(&expected, &call.result, sizeof expected) != 0;
        call.result = expected;
    }
    small_clear();
    return raised || !isfinite(call.result) ? NULL : PyArray_ToScalar(&call.result, x);
}

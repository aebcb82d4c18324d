/* Systems of equations with one tridiagonal matrix and many right-hand sides, with the bits of LAPACK's dgtsv.
 *
 * LAPACK passes over all right-hand sides at every row of the matrix, far apart in memory as they lie one behind the
 * other.  Here a few of them are solved at a time, side by side in memory that stays in the cache, by vector
 * instructions.  Each element is computed by the same operations in the same order, none of which are contracted. */
#include "small.h"
#include "flags.h"

enum { WIDE = 16 };  /* right-hand sides that are solved at a time */
enum { TALL = 8 };   /* rows that are copied at a time */

/* A row of the matrix after elimination: how it was eliminated, and its elements from the diagonal on. */
typedef struct {
    double factor, diagonal, next, second;
    int exchanged; /* with the row below, whose element was larger */
} Row;

/* Eliminate what is below the diagonal; 0 if the matrix is singular.  `bands` has the elements above, on and below it,
 * as solve_banded takes them. */
static int eliminate(const double *bands, npy_intp n, Row *rows)
{
    const double *above = bands + 1, *on = bands + n, *below = bands + 2 * n;
    double diagonal = on[0], next = n > 1 ? above[0] : 0.0;
    for (npy_intp i = 0; i < n - 1; i++) {
        double following = i < n - 2 ? above[i + 1] : 0.0, factor;
        if (fabs(diagonal) >= fabs(below[i])) {
            if (diagonal == 0.0)
                return 0;
            factor = below[i] / diagonal;
            rows[i] = (Row){factor, diagonal, next, 0.0, 0};
            diagonal = on[i + 1] - factor * next;
            next = following;
        } else {
            factor = diagonal / below[i];
            rows[i] = (Row){factor, below[i], on[i + 1], following, 1};
            diagonal = next - factor * on[i + 1];
            next = -factor * following;
        }
    }
    rows[n - 1] = (Row){0.0, diagonal, 0.0, 0.0, 0};
    return diagonal != 0.0;
}

static void solve(const Row *rows, npy_intp n, double (*x)[WIDE])
{
    for (npy_intp i = 0; i < n - 1; i++) {
        double factor = rows[i].factor;
        if (rows[i].exchanged)
            for (int j = 0; j < WIDE; j++) {
                double kept = x[i][j];
                x[i][j] = x[i + 1][j];
                x[i + 1][j] = kept - factor * x[i + 1][j];
            }
        else
            for (int j = 0; j < WIDE; j++)
                x[i + 1][j] -= factor * x[i][j];
    }
    for (int j = 0; j < WIDE; j++)
        x[n - 1][j] /= rows[n - 1].diagonal;
    if (n > 1)
        for (int j = 0; j < WIDE; j++)
            x[n - 2][j] = (x[n - 2][j] - rows[n - 2].next * x[n - 1][j]) / rows[n - 2].diagonal;
    for (npy_intp i = n - 3; i >= 0; i--) {
        Row row = rows[i];
        for (int j = 0; j < WIDE; j++)
            x[i][j] = (x[i][j] - row.next * x[i + 1][j] - row.second * x[i + 2][j]) / row.diagonal;
    }
}

/* Copy some right-hand sides to the solver's memory, and zeros where there are fewer. */
static void gather(const char *from, npy_intp down, npy_intp across, npy_intp n, int many, double (*x)[WIDE])
{
    for (npy_intp first = 0; first < n; first += TALL) {
        npy_intp last = first + TALL < n ? first + TALL : n;
        for (int j = 0; j < WIDE; j++)
            for (npy_intp i = first; i < last; i++)
                x[i][j] = j < many ? *(const double *)(from + i * down + j * across) : 0.0;
    }
}

/* Copy solutions to columns one behind the other; 0 if one of them is not finite. */
static int scatter(const double (*x)[WIDE], npy_intp n, int many, double *to)
{
    double sum = 0.0;
    for (npy_intp first = 0; first < n; first += TALL) {
        npy_intp last = first + TALL < n ? first + TALL : n;
        for (int j = 0; j < many; j++)
            for (npy_intp i = first; i < last; i++) {
                to[j * n + i] = x[i][j];
                sum += x[i][j] - x[i][j];
            }
    }
    return sum == 0.0;
}

/* Solve for the right-hand sides low to high - 1; 0 where SciPy has to say what is wrong. */
static int solve_all(const double *bands, npy_intp n, PyArrayObject *b, double *to, npy_intp low, npy_intp high)
{
    Row *rows = malloc(n * sizeof *rows);
    double (*x)[WIDE] = malloc(n * sizeof *x);
    int right = rows != NULL && x != NULL && eliminate(bands, n, rows);
    for (npy_intp j = low; right && j < high; j += WIDE) {
        int many = high - j < WIDE ? (int)(high - j) : WIDE;
        npy_intp down = PyArray_STRIDE(b, 0), across = PyArray_STRIDE(b, 1);
        gather(PyArray_BYTES(b) + j * across, down, across, n, many, x);
        solve(rows, n, x);
        right = scatter((const double (*)[WIDE])x, n, many, to + j * n);
    }
    free(x);
    free(rows);
    small_clear();
    return right;
}

static int plain(PyArrayObject *x, int order)
{
    return PyArray_NDIM(x) == 2 && PyArray_TYPE(x) == NPY_DOUBLE && PyArray_ISBEHAVED_RO(x)
        && (order == 0 || PyArray_CHKFLAGS(x, order));
}

PyObject *small_tridiagonal(PyObject *module, PyObject *args)
{
    PyArrayObject *bands, *b, *out;
    Py_ssize_t low, high;
    if (!PyArg_ParseTuple(args, "O!O!O!nn", &PyArray_Type, &bands, &PyArray_Type, &b, &PyArray_Type, &out, &low, &high))
        return NULL;
    npy_intp n = PyArray_NDIM(b) == 2 ? PyArray_DIM(b, 0) : 0;
    if (!plain(bands, NPY_ARRAY_C_CONTIGUOUS) || !plain(b, 0) || !plain(out, NPY_ARRAY_F_CONTIGUOUS)
            || n < 2 || PyArray_DIM(bands, 0) != 3 || PyArray_DIM(bands, 1) != n || !PyArray_ISWRITEABLE(out)
            || !PyArray_SAMESHAPE(b, out) || low < 0 || high > PyArray_DIM(b, 1)) {
        PyErr_SetString(PyExc_ValueError, "these are not the bands, right-hand sides and solutions of a system");
        return NULL;
    }
    int right;
    Py_BEGIN_ALLOW_THREADS
    right = solve_all(PyArray_DATA(bands), n, b, PyArray_DATA(out), low, high);
    Py_END_ALLOW_THREADS
    return PyBool_FromLong(right);
}

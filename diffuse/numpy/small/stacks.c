/* Products and inverses of many small matrices of double precision, with the bits of OpenBLAS (those of complex
 * matrices are multiplied in complexes.c).
 *
 * OpenBLAS takes 30 to 500 ns for the product of two matrices of 2 to 8 rows and columns, and ten times as long for an
 * inverse as it computes.  Here each takes a few ns.  The order of operations is OpenBLAS's on processors that multiply
 * and add in one step: ops/stacks.py compares the bits of some matrices before the first use, and leaves those to
 * NumPy that differ.  It does so, too, where a floating-point exception was raised, or a matrix has no plain inverse. */
#include "stacks.h"
#include "flags.h"

#if defined(__x86_64__)
enum { MOST = SMALL_MATRIX, ORDER = 4 }; /* rows and columns of matrices of products, and of those that are inverted */
#define FUSED __attribute__((target("avx2,fma"), optimize("O3", "fp-contract=off")))
static const double TINY = 0x1p-1000; /* LAPACK treats smaller pivots otherwise */

static inline double at(const Stack *x, npy_intp s, npy_intp i, npy_intp j)
{
    return *(const double *)(x->data + s * x->stack + i * x->down + j * x->across);
}

/* Products into matrices one behind the other; `wide` is how many columns are computed at a time, a constant. */
static inline __attribute__((always_inline)) FUSED void multiplied(
    const Stack *x, const Stack *y, double *out, npy_intp low, npy_intp high, int m, int k, int n, int wide)
{
    double right[MOST][MOST] = {{0.0}};
    for (npy_intp s = low; s < high; s++) {
        if (s == low || y->stack != 0)
            for (int l = 0; l < k; l++)
                for (int j = 0; j < n; j++)
                    right[l][j] = at(y, s, l, j);
        double *to = out + s * m * n;
        for (int i = 0; i < m; i++) {
            double sums[MOST] = {0.0};
            for (int l = 0; l < k; l++) {
                double factor = at(x, s, i, l);
                for (int j = 0; j < wide; j++)
                    sums[j] = __builtin_fma(factor, right[l][j], sums[j]);
            }
            for (int j = 0; j < n; j++)
                to[i * n + j] = sums[j];
        }
    }
}

static FUSED void multiply(const Stack *x, const Stack *y, double *out, npy_intp low, npy_intp high, int m, int k, int n)
{
    if (n == 2 && k == 2)
        multiplied(x, y, out, low, high, m, 2, 2, 2);
    else if (n == 4 && k == 4)
        multiplied(x, y, out, low, high, m, 4, 4, 4);
    else if (n == 4)
        multiplied(x, y, out, low, high, m, k, 4, 4);
    else if (n == 3)
        multiplied(x, y, out, low, high, m, k, 3, 4);
    else if (n == 2)
        multiplied(x, y, out, low, high, m, k, 2, 2);
    else
        multiplied(x, y, out, low, high, m, k, n, MOST);
}

/* Factors of a matrix with rows exchanged, as dgetrf has them, column by column; 0 where a pivot is not plain. */
static inline __attribute__((always_inline)) FUSED int factored(double (*a)[ORDER], double (*b)[ORDER], int n)
{
    int exchanged[ORDER];
    for (int j = 0; j < n; j++) {
        for (int k = 0; k < j; k++) {
            double kept = a[k][j];
            a[k][j] = a[exchanged[k]][j];
            a[exchanged[k]][j] = kept;
        }
        for (int i = 1; i < n; i++) {
            double sum = 0.0;
            for (int k = 0; k < (i < j ? i : j); k++)
                sum = __builtin_fma(a[i][k], a[k][j], sum);
            a[i][j] -= sum;
        }
        int pivot = j;
        for (int i = j + 1; i < n; i++)
            if (fabs(a[i][j]) > fabs(a[pivot][j]))
                pivot = i;
        exchanged[j] = pivot;
        if (!(fabs(a[pivot][j]) > TINY))
            return 0;
        for (int k = 0; pivot != j && k < n; k++) {
            double kept = a[j][k], other = b[j][k];
            if (k <= j) {
                a[j][k] = a[pivot][k];
                a[pivot][k] = kept;
            }
            b[j][k] = b[pivot][k];
            b[pivot][k] = other;
        }
        double reciprocal = 1.0 / a[j][j];
        for (int i = j + 1; i < n; i++)
            a[i][j] *= reciprocal;
    }
    return 1;
}

/* The inverse of a matrix, as dgesv finds it from the unit matrix; 0 where NumPy has to look. */
static inline __attribute__((always_inline)) FUSED int inverted(const char *from, npy_intp down, npy_intp across,
                                                                double *to, int n)
{
    double a[ORDER][ORDER], b[ORDER][ORDER] = {{0.0}}, sum = 0.0;
    for (int i = 0; i < n; i++) {
        b[i][i] = 1.0;
        for (int j = 0; j < n; j++)
            a[i][j] = *(const double *)(from + i * down + j * across);
    }
    if (!factored(a, b, n))
        return 0;
    for (int i = 1; i < n; i++)
        for (int k = 0; k < i; k++)
            for (int c = 0; c < n; c++)
                b[i][c] = __builtin_fma(-a[i][k], b[k][c], b[i][c]);
    for (int i = n - 1; i >= 0; i--) {
        double reciprocal = 1.0 / a[i][i];
        for (int k = n - 1; k > i; k--)
            for (int c = 0; c < n; c++) /* of three rows OpenBLAS solves for the last one apart */
                b[i][c] = n == 3 && k == 2 ? b[i][c] - a[i][k] * b[k][c] : __builtin_fma(-a[i][k], b[k][c], b[i][c]);
        for (int c = 0; c < n; c++) {
            b[i][c] *= reciprocal;
            to[i * n + c] = b[i][c];
            sum += b[i][c] - b[i][c];
        }
    }
    return sum == 0.0;
}

#define INVERT(N) \
    for (npy_intp s = low; right && s < high; s++) \
        right = inverted(PyArray_BYTES(x) + s * PyArray_STRIDE(x, 0), PyArray_STRIDE(x, 1), PyArray_STRIDE(x, 2), \
                         out + s * N * N, N)

static FUSED int invert(PyArrayObject *x, double *out, npy_intp low, npy_intp high, int n)
{
    int right = 1;
    if (n == 2)
        INVERT(2);
    else if (n == 3)
        INVERT(3);
    else
        INVERT(4);
    return right;
}

static int plain(PyArrayObject *x, int type, int least, int most)
{
    return PyArray_NDIM(x) >= least && PyArray_NDIM(x) <= most && PyArray_TYPE(x) == type && PyArray_ISBEHAVED_RO(x);
}

static int to_fill(PyArrayObject *out, int type, npy_intp low, npy_intp high)
{
    return plain(out, type, 3, 3) && PyArray_IS_C_CONTIGUOUS(out) && PyArray_ISWRITEABLE(out) && low >= 0
        && high <= PyArray_DIM(out, 0);
}

static int fuses(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

static PyObject *refuse(void)
{
    PyErr_SetString(PyExc_ValueError, "these are no stacks of small matrices");
    return NULL;
}

/* Describe an operand of `count` products of this type; 0 where it is none.  Of real matrices NumPy makes complex
 * copies, with packed rows if they have such. */
static int side(PyArrayObject *x, int type, npy_intp count, npy_intp rows, npy_intp columns, Stack *found)
{
    found->real = PyArray_TYPE(x) == NPY_DOUBLE;
    if (!plain(x, found->real ? NPY_DOUBLE : type, 2, 3)
            || (found->real && type != NPY_DOUBLE && !PyArray_IS_C_CONTIGUOUS(x)))
        return 0;
    int first = PyArray_NDIM(x) - 2;
    found->data = PyArray_BYTES(x);
    found->stack = first && PyArray_DIM(x, 0) > 1 ? PyArray_STRIDE(x, 0) : 0;
    found->down = PyArray_STRIDE(x, first);
    found->across = PyArray_STRIDE(x, first + 1);
    return PyArray_DIM(x, first) == rows && PyArray_DIM(x, first + 1) == columns
        && (first == 0 || PyArray_DIM(x, 0) == 1 || PyArray_DIM(x, 0) == count);
}

/* Compute some products: 0 where NumPy has to, as results may differ or raise errors. */
static int computed(int type, const Stack *x, const Stack *y, void *out, npy_intp low, npy_intp high, int m, int k,
                    int n)
{
    int finite = 1;
    small_clear();
    if (type == NPY_DOUBLE)
        multiply(x, y, out, low, high, m, k, n);
    else
        finite = small_multiply_complex(x, y, out, low, high, m, k, n);
    unsigned raised = small_raised();
    small_clear();
    return finite && !raised;
}

/* Rows or columns of the matrices of an array; 0 of fewer than two dimensions. */
static npy_intp extent(PyArrayObject *x, int back)
{
    return PyArray_NDIM(x) < 2 ? 0 : PyArray_DIM(x, PyArray_NDIM(x) - back);
}

static int fits(npy_intp m, npy_intp k, npy_intp n, npy_intp least)
{
    return m >= least && m <= MOST && k >= least && k <= MOST && n >= least && n <= MOST;
}

PyObject *small_products(PyObject *module, PyObject *args)
{
    PyArrayObject *x, *y, *out;
    Py_ssize_t low, high;
    Stack one, other;
    if (!PyArg_ParseTuple(args, "O!O!O!nn", &PyArray_Type, &x, &PyArray_Type, &y, &PyArray_Type, &out, &low, &high))
        return NULL;
    npy_intp m = extent(out, 2), k = extent(x, 1), n = extent(out, 1);
    int type = PyArray_TYPE(out);
    if ((type != NPY_DOUBLE && type != NPY_CDOUBLE) || !to_fill(out, type, low, high)
            || !fits(m, k, n, type == NPY_DOUBLE ? 1 : 2)
            || !side(x, type, PyArray_DIM(out, 0), m, k, &one) || !side(y, type, PyArray_DIM(out, 0), k, n, &other)
            || (one.real && type != NPY_DOUBLE))
        return refuse();
    if (!fuses())
        Py_RETURN_FALSE;
    int right;
    Py_BEGIN_ALLOW_THREADS
    right = computed(type, &one, &other, PyArray_DATA(out), low, high, (int)m, (int)k, (int)n);
    Py_END_ALLOW_THREADS
    return PyBool_FromLong(right);
}

/* May BLAS read a matrix as it lies, elements of a line side by side, and its lines `far` bytes apart? */
static int readable(npy_intp width, npy_intp near, npy_intp far, npy_intp n)
{
    return near == width && far % width == 0 && far >= n * width;
}

/* What NumPy's choice of a routine depends on, as ops/stacks.py has it: three bits. */
static int layout(PyArrayObject *x, const Stack *side)
{
    npy_intp width = PyArray_ITEMSIZE(x);
    return (PyArray_NDIM(x) == 3) | readable(width, side->across, side->down, extent(x, 1)) << 1
        | readable(width, side->down, side->across, extent(x, 2)) << 2;
}

/* Have products of such matrices NumPy's bits here?  It is found out once. */
static int agrees(const char *types, npy_intp m, npy_intp k, npy_intp n, int one, int other)
{
    enum { UNKNOWN, NO, YES };
    static unsigned char known[3][MOST - 1][MOST - 1][MOST - 1][8][8];
    unsigned char *found = &known[(types[0] == 'D') + (types[1] == 'D')][m - 2][k - 2][n - 2][one][other];
    if (*found == UNKNOWN) {
        PyObject *module = PyImport_ImportModule("diffuse.numpy.ops.stacks");
        PyObject *said = module == NULL ? NULL
                         : PyObject_CallMethod(module, "agrees", "snnnii", types, m, k, n, one, other);
        Py_XDECREF(module);
        if (said == NULL)
            return -1;
        *found = PyObject_IsTrue(said) ? YES : NO;
        Py_DECREF(said);
    }
    return *found == YES;
}

PyObject *small_stack_product(PyObject *left, PyObject *right)
{
    enum { FEWEST = 4, LOST = 8, AGAIN = 64 }; /* products, refusals in a row, and calls until the next attempt then */
    static unsigned refused;
    if (!PyArray_CheckExact(left) || !PyArray_CheckExact(right))
        return NULL;
    PyArrayObject *x = (PyArrayObject *)left, *y = (PyArrayObject *)right;
    int type = PyArray_TYPE(x), dims = PyArray_NDIM(x) + PyArray_NDIM(y);
    if ((type != NPY_DOUBLE && type != NPY_CDOUBLE) || dims < 5 || PyArray_NDIM(x) > 3 || PyArray_NDIM(y) > 3)
        return NULL;
    npy_intp m = extent(x, 2), k = extent(x, 1), n = extent(y, 1);
    npy_intp count = PyArray_NDIM(x) == 3 ? PyArray_DIM(x, 0) : 1, shape[3];
    if (PyArray_NDIM(y) == 3 && count == 1)
        count = PyArray_DIM(y, 0);
    Stack one, other;
    if (count < FEWEST || !fits(m, k, n, 2) || (type == NPY_DOUBLE && n > ORDER) || !fuses()
            || !side(x, type, count, m, k, &one) || !side(y, type, count, k, n, &other)
            || one.stack < 0 || other.stack < 0 || (one.real && type != NPY_DOUBLE)
            || one.data == other.data) /* a matrix with its own transpose has a routine of its own */
        return NULL;
    const char *types = type == NPY_DOUBLE ? "dd" : other.real ? "Dd" : "DD";
    if ((refused > LOST && refused++ % AGAIN) || agrees(types, m, k, n, layout(x, &one), layout(y, &other)) <= 0)
        return NULL;
    shape[0] = count, shape[1] = m, shape[2] = n;
    PyObject *found = PyArray_SimpleNew(3, shape, type);
    if (found == NULL)
        return NULL;
    if (computed(type, &one, &other, PyArray_DATA((PyArrayObject *)found), 0, count, (int)m, (int)k, (int)n))
        refused = 0;
    else {
        refused++;
        Py_CLEAR(found);
    }
    return found;
}

PyObject *small_inverses(PyObject *module, PyObject *args)
{
    PyArrayObject *x, *out;
    Py_ssize_t low, high;
    if (!PyArg_ParseTuple(args, "O!O!nn", &PyArray_Type, &x, &PyArray_Type, &out, &low, &high))
        return NULL;
    npy_intp n = PyArray_NDIM(out) == 3 ? PyArray_DIM(out, 1) : 0;
    if (!to_fill(out, NPY_DOUBLE, low, high) || !plain(x, NPY_DOUBLE, 3, 3) || !PyArray_SAMESHAPE(x, out) || n < 2 || n > ORDER
            || PyArray_DIM(out, 2) != n)
        return refuse();
    if (!fuses())
        Py_RETURN_FALSE;
    int right;
    Py_BEGIN_ALLOW_THREADS
    right = invert(x, PyArray_DATA(out), low, high, (int)n);
    small_clear();
    Py_END_ALLOW_THREADS
    return PyBool_FromLong(right);
}

#else
PyObject *small_products(PyObject *module, PyObject *args) { Py_RETURN_FALSE; }
PyObject *small_inverses(PyObject *module, PyObject *args) { Py_RETURN_FALSE; }
PyObject *small_stack_product(PyObject *left, PyObject *right) { return NULL; }
#endif

/* Products of many small complex matrices of double precision, with the bits of OpenBLAS.
 *
 * OpenBLAS's kernels take four columns of the result at a time.  Of these they add up the products of the real and
 * imaginary parts of the factors apart, and put the sums together at the end; of the columns that are left, they add
 * everything to the result's own two parts, and zeros there may have other signs than here. */
#include "stacks.h"

#if defined(__x86_64__)
#include <immintrin.h>

enum { LANE = 4, LANES = SMALL_MATRIX / LANE }; /* columns that are computed together, and how often they fit */
#define FUSED __attribute__((target("avx2,fma"), optimize("O3", "fp-contract=off")))
/* Of each product the functions below compute some columns of some rows, and give zeros if they are NumPy's. */
#define INLINE static inline __attribute__((always_inline)) FUSED

/* The right operand: its real and its imaginary parts, with zeros in the columns that it lacks. */
typedef struct { double parts[2][SMALL_MATRIX][SMALL_MATRIX]; } Right;

INLINE void gather(const Stack *y, npy_intp s, int k, int n, Right *found)
{
    for (int l = 0; l < k; l++)
        for (int j = 0; j < n; j++) {
            const double *from = (const double *)(y->data + s * y->stack + l * y->down + j * y->across);
            found->parts[0][l][j] = from[0];
            found->parts[1][l][j] = y->real ? 0.0 : from[1];
        }
}

/* Put the parts of four numbers in turn; those behind the `columns` first are left out. */
INLINE __m256d put(__m256d real, __m256d imaginary, double *to, int columns)
{
    __m256d low = _mm256_unpacklo_pd(real, imaginary), high = _mm256_unpackhi_pd(real, imaginary);
    __m256d first = _mm256_permute2f128_pd(low, high, 0x20), second = _mm256_permute2f128_pd(low, high, 0x31);
    if (columns == LANE) {
        _mm256_storeu_pd(to, first);
        _mm256_storeu_pd(to + LANE, second);
    } else {
        double kept[2 * LANE];
        _mm256_storeu_pd(kept, first);
        _mm256_storeu_pd(kept + LANE, second);
        memcpy(to, kept, 2 * columns * sizeof *to);
    }
    return _mm256_add_pd(_mm256_sub_pd(real, real), _mm256_sub_pd(imaginary, imaginary));
}

/* The first columns of some rows of the result, four of them `lanes` times; zeros where all of it is finite. */
INLINE __m256d whole(const char *x, npy_intp down, npy_intp across, const Right *y, double *to, int k, int n, int rows,
                     int lanes)
{
    __m256d sums[LANES][LANES][4], wrong = _mm256_setzero_pd(); /* of two rows at most */
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < lanes; c++)
            for (int p = 0; p < 4; p++)
                sums[r][c][p] = _mm256_setzero_pd();
    for (int l = 0; l < k; l++)
        for (int r = 0; r < rows; r++) {
            const double *factor = (const double *)(x + r * down + l * across);
            __m256d real = _mm256_set1_pd(factor[0]), imaginary = _mm256_set1_pd(factor[1]);
            for (int c = 0; c < lanes; c++) {
                __m256d one = _mm256_loadu_pd(&y->parts[0][l][c * LANE]);
                __m256d other = _mm256_loadu_pd(&y->parts[1][l][c * LANE]);
                sums[r][c][0] = _mm256_fmadd_pd(real, one, sums[r][c][0]);
                sums[r][c][1] = _mm256_fmadd_pd(imaginary, other, sums[r][c][1]);
                sums[r][c][2] = _mm256_fmadd_pd(real, other, sums[r][c][2]);
                sums[r][c][3] = _mm256_fmadd_pd(imaginary, one, sums[r][c][3]);
            }
        }
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < lanes; c++) {
            __m256d real = _mm256_sub_pd(sums[r][c][0], sums[r][c][1]);
            __m256d imaginary = _mm256_add_pd(sums[r][c][2], sums[r][c][3]);
            wrong = _mm256_add_pd(wrong, put(real, imaginary, to + 2 * (r * n + c * LANE), LANE));
        }
    return wrong;
}

/* Is one of the `columns` first numbers zero? */
INLINE int has_zero(__m256d x, int columns)
{
    return _mm256_movemask_pd(_mm256_cmp_pd(x, _mm256_setzero_pd(), _CMP_EQ_OQ)) & ((1 << columns) - 1);
}

/* The last columns of some rows of the result, fewer than four; zeros where none of it is zero, and all finite. */
INLINE __m256d rest(const char *x, npy_intp down, npy_intp across, const Right *y, double *to, int k, int n, int rows)
{
    __m256d sums[LANES][2], wrong = _mm256_setzero_pd();
    int first = n / LANE * LANE;
    for (int r = 0; r < rows; r++)
        sums[r][0] = sums[r][1] = _mm256_setzero_pd();
    for (int l = 0; l < k; l++)
        for (int r = 0; r < rows; r++) {
            const double *factor = (const double *)(x + r * down + l * across);
            __m256d real = _mm256_set1_pd(factor[0]), imaginary = _mm256_set1_pd(factor[1]);
            __m256d one = _mm256_loadu_pd(&y->parts[0][l][first]), other = _mm256_loadu_pd(&y->parts[1][l][first]);
            sums[r][0] = _mm256_fmadd_pd(real, one, _mm256_fnmadd_pd(imaginary, other, sums[r][0]));
            sums[r][1] = _mm256_fmadd_pd(real, other, _mm256_fmadd_pd(imaginary, one, sums[r][1]));
        }
    for (int r = 0; r < rows; r++) {
        wrong = _mm256_add_pd(wrong, put(sums[r][0], sums[r][1], to + 2 * (r * n + first), n - first));
        if (has_zero(sums[r][0], n - first) || has_zero(sums[r][1], n - first))
            wrong = _mm256_set1_pd(1.0);
    }
    return wrong;
}

/* Products whose columns are taken four at a time so often, and `rows` rows of them together: constants. */
INLINE int multiplied(const Stack *x, const Stack *y, double *out, npy_intp low, npy_intp high, int m, int k, int n,
                      int lanes, int rows)
{
    Right right = {{{{0.0}}}};
    __m256d wrong = _mm256_setzero_pd();
    for (npy_intp s = low; s < high; s++) {
        if (s == low || y->stack != 0)
            gather(y, s, k, n, &right);
        for (int i = 0; i < m; i += rows) {
            int first = i + rows <= m ? i : m - rows;
            const char *from = x->data + s * x->stack + first * x->down;
            double *to = out + 2 * (s * m + first) * n;
            if (lanes)
                wrong = _mm256_add_pd(wrong, whole(from, x->down, x->across, &right, to, k, n, rows, lanes));
            if (n > lanes * LANE)
                wrong = _mm256_add_pd(wrong, rest(from, x->down, x->across, &right, to, k, n, rows));
        }
    }
    return _mm256_movemask_pd(_mm256_cmp_pd(wrong, _mm256_setzero_pd(), _CMP_NEQ_UQ)) == 0;
}

FUSED int small_multiply_complex(const Stack *x, const Stack *y, double *out, npy_intp low, npy_intp high, int m, int k,
                                 int n)
{
    if (n == SMALL_MATRIX)
        return multiplied(x, y, out, low, high, m, k, n, 2, 1);
    if (n >= LANE)
        return multiplied(x, y, out, low, high, m, k, n, 1, 2);
    return multiplied(x, y, out, low, high, m, k, n, 0, 2);
}
#endif

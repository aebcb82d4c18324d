/* Maxima, minima and square roots of numbers of double precision.
 *
 * NumPy's loops take a maximum of an array and a number at a quarter of the speed of one of two arrays, and two square
 * roots at a time.  A root is rounded once.  Which of two equal zeros a maximum is, and which of two NaNs, depends on
 * NumPy's version and on the processor: the code here is used where it agrees with NumPy's loop on all such pairs. */
#include "strided.h"
#include "flags.h"

#define OPERATOR(x, y) ({ double p = x, q = y, m = p > q ? p : q; p != p ? p : m; })
OPERATION(maxima, double, double)
#undef OPERATOR
#define OPERATOR(x, y) ({ double p = x, q = y, m = p < q ? p : q; p != p ? p : m; })
OPERATION(minima, double, double)
#undef OPERATOR

#ifdef __x86_64__
VECTORS static void roots(npy_intp rows, npy_intp n, char *to, npy_intp to_row, const char *a, npy_intp a_row,
                          npy_intp a_step, const char *b, npy_intp b_row, npy_intp b_step)
{
    for (; rows > 0; rows--, to += to_row, a += a_row) {
        npy_intp k = 0;
        double *out = (double *)to;
        for (; a_step == sizeof(double) && k + 4 <= n; k += 4)
            _mm256_storeu_pd(out + k, _mm256_sqrt_pd(_mm256_loadu_pd((const double *)a + k)));
        for (; k < n; k++) {
            __m128d x = _mm_set_sd(*(const double *)(a + k * a_step));
            _mm_store_sd(out + k, _mm_sqrt_sd(x, x));
        }
    }
}
#else
#define roots NULL
#endif

enum { VALUES = 10, PAIRS = VALUES * VALUES, APART = 3 };

/* Does a loop of NumPy's have the bits of this code on all pairs of zeros, NaNs and some other numbers, side by side,
 * apart, and beside one number? */
static int agrees(const Loop *loop, StridedRows code)
{
    static const npy_uint64 values[VALUES] = {
        0, 0x8000000000000000, 0x7ff8000000000000, 0xfff8000000000001, 0x7ff800000000beef, 0x7ff0000000000001,
        0x3ff0000000000000, 0xbff0000000000000, 0x7ff0000000000000, 0xfff0000000000000};
    static const npy_intp steps[][2] = {{8, 8}, {8 * APART, 8}, {8, 8 * APART}, {0, 8}, {8, 0}};
    npy_uint64 one[PAIRS * APART], other[PAIRS * APART], theirs[PAIRS], ours[PAIRS];
    int same = 1;
    for (size_t k = 0; same && k < sizeof steps / sizeof *steps; k++) {
        npy_intp x = steps[k][0], y = steps[k][1], all[] = {x, y, 8};
        for (int m = 0; m < PAIRS; m++) {
            one[m * (x ? x / 8 : 1)] = values[m / VALUES];
            other[m * (y ? y / 8 : 1)] = values[m % VALUES];
        }
        for (npy_intp m = 0, n; same && m < PAIRS; m += n) { /* of several lengths, and a number of each kind */
            n = m % VALUES ? VALUES - m % VALUES : m / VALUES % 2 ? VALUES : 3;
            char *a = (char *)&one[m * (x ? x / 8 : 1)], *b = (char *)&other[m * (y ? y / 8 : 1)];
            char *data[] = {a, b, (char *)theirs};
            loop->run(data, &n, all, loop->data);
            code(1, n, (char *)ours, 0, a, 0, x, b, 0, y);
            same = memcmp(ours, theirs, n * sizeof *ours) == 0;
        }
    }
    small_clear();
    return same;
}

void small_quicken(const char *name, Loop *loop)
{
    if (loop->run == NULL || loop->made != NPY_DOUBLE || !FAST())
        return;
    if (strcmp(name, "sqrt") == 0) {
        loop->strided = roots;
        loop->slow = ALWAYS;
        loop->alone = 0;
    }
    StridedRows code = strcmp(name, "maximum") == 0 ? maxima : strcmp(name, "minimum") == 0 ? minima : NULL;
    if (code != NULL && agrees(loop, code)) {
        loop->strided = code;
        loop->silent = 1;
        loop->slow = BESIDE_ONE;
        loop->alone = 0;
    }
}

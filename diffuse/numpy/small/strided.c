/* Sums, differences and products of numbers of double precision in short rows, or two elements apart.
 *
 * NumPy's loops take 10 ns for a row of a few elements, and 0.6 ns for each of elements that do not lie side by side.  To
 * gather them first takes as long.  These operations are rounded once, so code of any kind has NumPy's bits; this one
 * takes 1 ns for a row of three elements. */
#include "loops.h"

#ifdef __x86_64__
#define VECTORS __attribute__((target("avx2"), optimize("O3", "fp-contract=off")))
#define FAST() __builtin_cpu_supports("avx2")
#else
#define VECTORS
#define FAST() 0
#endif

#define AT(place, k, step) (*(const double *)((place) + (k) * (step)))
#define ONE(k) out[k] = AT(a, k, x) OPERATOR AT(b, k, y);
#define EACH_ROW(body)                                                                                         \
    for (; rows > 0; rows--, to += to_row, a += a_row, b += b_row) {                                           \
        double *out = (double *)to;                                                                            \
        body                                                                                                   \
    }                                                                                                          \
    return;
#define EACH_LENGTH                                                                                            \
    switch (n) {                                                                                               \
    case 1: EACH_ROW(ONE(0))                                                                                   \
    case 2: EACH_ROW(ONE(0) ONE(1))                                                                            \
    case 3: EACH_ROW(ONE(0) ONE(1) ONE(2))                                                                     \
    case 4: EACH_ROW(ONE(0) ONE(1) ONE(2) ONE(3))                                                              \
    default: EACH_ROW(_Pragma("GCC ivdep") for (npy_intp k = 0; k < n; k++) { ONE(k) })                        \
    }
#define STEPS(one, other)                                                                                      \
    if (a_step == one && b_step == other) {                                                                    \
        const npy_intp x = one, y = other;                                                                     \
        EACH_LENGTH                                                                                            \
    }
#define OPERATION(name)                                                                                        \
    VECTORS static void name(npy_intp rows, npy_intp n, char *to, npy_intp to_row, const char *a, npy_intp a_row, \
                             npy_intp a_step, const char *b, npy_intp b_row, npy_intp b_step)                  \
    {                                                                                                          \
        STEPS(8, 8) STEPS(8, 16) STEPS(16, 8) STEPS(8, 0) STEPS(0, 8)                                          \
        const npy_intp x = a_step, y = b_step;                                                                 \
        EACH_LENGTH                                                                                            \
    }

#define OPERATOR +
OPERATION(sums)
#undef OPERATOR
#define OPERATOR -
OPERATION(differences)
#undef OPERATOR
#define OPERATOR *
OPERATION(products)

StridedRows small_strided_rows(int name, int kind)
{
    static const StridedRows operations[] = {[ADD] = sums, [SUBTRACT] = differences, [MULTIPLY] = products};
    return kind == DOUBLE && name <= MULTIPLY && FAST() ? operations[name] : NULL;
}

/* Are elements neither side by side nor all the same? */
static int apart(npy_intp step) { return step != sizeof(double) && step != 0; }

int small_run_strided(const Loop *loop, int dims, const npy_intp *shape, const Side *sides)
{
    if (loop->strided == NULL)
        return 0;
    int last = dims - 1, first = last ? last - 1 : 0;
    npy_intp place[RANK] = {0}, rows = last ? shape[first] : 1, row[3] = {0};
    char *data[3];
    if (sides[2].strides[last] != sizeof(double)
            || (!brief(dims, shape) && !apart(sides[0].strides[last]) && !apart(sides[1].strides[last])))
        return 0;
    for (int k = 0; k < 3; k++) {
        data[k] = sides[k].data;
        row[k] = last ? sides[k].strides[first] : 0;
    }
    do
        loop->strided(rows, shape[last], data[2], row[2], data[0], row[0], sides[0].strides[last], data[1], row[1],
                      sides[1].strides[last]);
    while (small_next(first, place, shape, data, sides, 3));
    return 1;
}

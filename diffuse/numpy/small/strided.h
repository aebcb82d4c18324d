/* What strided.c and extremes.c share: code for rows of elements at any distances, for processors with AVX2.  `OPERATOR`
 * says what is computed of two elements. */
#ifndef DIFFUSE_STRIDED_H
#define DIFFUSE_STRIDED_H

#include "loops.h"

#ifdef __x86_64__
#define VECTORS __attribute__((target("avx2"), optimize("O3", "fp-contract=off")))
#define FAST() __builtin_cpu_supports("avx2")
#else
#define VECTORS
#define FAST() 0
#endif

#define AT(place, k, step) (*(const Element *)((place) + (k) * (step)))
#define ONE(k) (void)y, out[k] = OPERATOR(AT(a, k, x), AT(b, k, y));
#define READ(k) const Element left##k = AT(a, k, x), right##k = AT(b, k, y);
#define WRITE(k) (void)y, (void)right##k, out[k] = OPERATOR(left##k, right##k);
#define EACH_ROW(body)                                                                                         \
    for (; rows > 0; rows--, to += to_row, a += a_row, b += b_row) {                                           \
        Made *out = (Made *)to;                                                                                \
        body                                                                                                   \
    }                                                                                                          \
    return;
#define EACH_LENGTH                                                                                            \
    switch (n) {                                                                                               \
    case 1: EACH_ROW(ONE(0))                                                                                   \
    case 2: EACH_ROW(ONE(0) ONE(1))                                                                            \
    case 3: EACH_ROW(READ(0) READ(1) READ(2) WRITE(0) WRITE(1) WRITE(2)) /* two of them together */            \
    case 4: EACH_ROW(ONE(0) ONE(1) ONE(2) ONE(3))                                                              \
    default: EACH_ROW(_Pragma("GCC ivdep") for (npy_intp k = 0; k < n; k++) { ONE(k) })                        \
    }
#define STEPS(one, other)                                                                                      \
    if (a_step == (one) * WIDTH && b_step == (other) * WIDTH) {                                                \
        const npy_intp x = (one) * WIDTH, y = (other) * WIDTH;                                                 \
        EACH_LENGTH                                                                                            \
    }
/* The code for rows of elements of a type, with results of a type. */
#define OPERATION(name, type, made)                                                                            \
    VECTORS static void name(npy_intp rows, npy_intp n, char *to, npy_intp to_row, const char *a, npy_intp a_row, \
                             npy_intp a_step, const char *b, npy_intp b_row, npy_intp b_step)                  \
    {                                                                                                          \
        typedef type Element;                                                                                  \
        typedef made Made;                                                                                     \
        enum { WIDTH = sizeof(Element) };                                                                      \
        STEPS(1, 1) STEPS(1, 2) STEPS(2, 1) STEPS(1, 0) STEPS(0, 1)                                            \
        const npy_intp x = a_step, y = b_step;                                                                 \
        EACH_LENGTH                                                                                            \
    }

#endif

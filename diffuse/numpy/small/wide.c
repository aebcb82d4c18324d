/* The inner loops that draw many random numbers, for processors with vectors of 512 bits. */
#include "draws.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define WIDE __attribute__((target("avx512f,avx512dq")))
typedef __m512i Eight; /* numbers of 64 bits */

int small_is_wide(void)
{
    static int known = -1;
    if (known < 0)
        known = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq");
    return known;
}

/* The upper halves of the products of 64 bits. */
static inline WIDE Eight upper(Eight x, Eight low, Eight high)
{
    const Eight half = _mm512_set1_epi64(0xffffffff);
    Eight above = _mm512_srli_epi64(x, 32), one = _mm512_mul_epu32(x, high), other = _mm512_mul_epu32(above, low);
    Eight middle = _mm512_add_epi64(_mm512_srli_epi64(_mm512_mul_epu32(x, low), 32),
                                    _mm512_add_epi64(_mm512_and_si512(one, half), _mm512_and_si512(other, half)));
    return _mm512_add_epi64(_mm512_add_epi64(_mm512_mul_epu32(above, high), _mm512_srli_epi64(middle, 32)),
                            _mm512_add_epi64(_mm512_srli_epi64(one, 32), _mm512_srli_epi64(other, 32)));
}

WIDE void small_wide_words(Words *words)
{
    Eight low = _mm512_loadu_si512(words->low), high = _mm512_loadu_si512(words->high);
    const Eight by = _mm512_set1_epi64(words->stride[0]), top = _mm512_set1_epi64(words->stride[1]);
    const Eight plus = _mm512_set1_epi64(words->stride[2]), more = _mm512_set1_epi64(words->stride[3]);
    const Eight above = _mm512_srli_epi64(by, 32), one = _mm512_set1_epi64(1);
    for (int k = 0; k < SMALL_BLOCK; k += SMALL_LANES) {
        _mm512_storeu_si512(words->block + k,
                            _mm512_rorv_epi64(_mm512_xor_si512(low, high), _mm512_srli_epi64(high, 58)));
        Eight next = _mm512_add_epi64(_mm512_mullo_epi64(low, by), plus);
        high = _mm512_add_epi64(_mm512_mullo_epi64(high, by), _mm512_mullo_epi64(low, top));
        high = _mm512_add_epi64(_mm512_add_epi64(high, more), upper(low, by, above));
        high = _mm512_mask_add_epi64(high, _mm512_cmplt_epu64_mask(next, plus), high, one);
        low = next;
    }
    _mm512_storeu_si512(words->low, low);
    _mm512_storeu_si512(words->high, high);
}

WIDE int small_wide_integers(const uint64_t *words, int64_t *out, int64_t low, uint32_t length)
{
    const Eight range = _mm512_set1_epi64(length), first = _mm512_set1_epi64(low);
    const Eight least = _mm512_set1_epi64(-length % length), half = _mm512_set1_epi64(0xffffffff);
    const Eight begin = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11), end = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
    __mmask8 any = 0;
    for (int k = 0; k < SMALL_BLOCK; k += 8, out += 16) {
        Eight both = _mm512_loadu_si512(words + k);
        Eight one = _mm512_mul_epu32(both, range), other = _mm512_mul_epu32(_mm512_srli_epi64(both, 32), range);
        any |= _mm512_cmplt_epu64_mask(_mm512_and_si512(one, half), least);
        any |= _mm512_cmplt_epu64_mask(_mm512_and_si512(other, half), least);
        one = _mm512_add_epi64(_mm512_srli_epi64(one, 32), first);
        other = _mm512_add_epi64(_mm512_srli_epi64(other, 32), first);
        _mm512_storeu_si512(out, _mm512_permutex2var_epi64(one, begin, other));
        _mm512_storeu_si512(out + 8, _mm512_permutex2var_epi64(one, end, other));
    }
    return any;
}

WIDE int small_wide_evens(const uint64_t *words, int many, double *out)
{
    for (int k = 0; k + 8 <= many; k += 8) {
        __m512d found = _mm512_cvtepi64_pd(_mm512_srli_epi64(_mm512_loadu_si512(words + k), 11));
        _mm512_storeu_pd(out + k, _mm512_mul_pd(found, _mm512_set1_pd(0x1p-53)));
    }
    return many / 8 * 8;
}

WIDE int small_wide_layers(const Layers *of, const uint64_t *words, int many, double *out)
{
    const Eight layers = _mm512_set1_epi64(LAYERS - 1), far = _mm512_set1_epi64(((uint64_t)1 << of->bits) - 1);
    const Eight sign = _mm512_set1_epi64(of->sign << 63);
    const __m128i by = _mm_cvtsi32_si128(of->layer), on = _mm_cvtsi32_si128(of->far);
    for (int k = 0; k + 8 <= many; k += 8) {
        Eight word = _mm512_loadu_si512(words + k), layer = _mm512_and_si512(_mm512_srl_epi64(word, by), layers);
        Eight distance = _mm512_and_si512(_mm512_srl_epi64(word, on), far);
        __m512d found = _mm512_mul_pd(_mm512_cvtepi64_pd(distance), _mm512_i64gather_pd(layer, of->width, 8));
        found = _mm512_xor_pd(found, _mm512_castsi512_pd(_mm512_and_si512(_mm512_slli_epi64(word, 63 - SIGN), sign)));
        _mm512_storeu_pd(out + k, found);
        __mmask8 others = _mm512_cmpge_epu64_mask(distance, _mm512_i64gather_epi64(layer, of->least, 8));
        if (others)
            return k + __builtin_ctz(others);
    }
    return many / 8 * 8;
}
#else
int small_is_wide(void) { return 0; }
void small_wide_words(Words *words) { (void)words; }
int small_wide_integers(const uint64_t *words, int64_t *out, int64_t low, uint32_t length) { return 1; }
int small_wide_evens(const uint64_t *words, int many, double *out) { return 0; }
int small_wide_layers(const Layers *of, const uint64_t *words, int many, double *out) { return 0; }
#endif

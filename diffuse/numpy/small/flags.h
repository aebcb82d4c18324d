/* The processor's floating-point flags. */
#ifndef DIFFUSE_FLAGS_H
#define DIFFUSE_FLAGS_H

#if defined(__x86_64__)
/* Both of the processor's units keep flags; NumPy raises some in the older one.  It takes long to clear them. */
#include <immintrin.h>
enum { REPORTED = 0x1d }; /* invalid, division by zero, overflow and underflow */
static inline int small_raised_flags(void)
{
    unsigned short old;
    __asm__ volatile("fnstsw %0" : "=am"(old) : : "memory");
    return ((_mm_getcsr() | old) & REPORTED) != 0;
}
static inline void small_clear_flags(void)
{
    if (small_raised_flags()) {
        __asm__ volatile("fnclex" : : : "memory");
        _mm_setcsr(_mm_getcsr() & ~REPORTED);
    }
}
#else
#include <fenv.h>
enum { REPORTED = FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW | FE_UNDERFLOW };
static inline void small_clear_flags(void) { feclearexcept(REPORTED); }
static inline int small_raised_flags(void) { return fetestexcept(REPORTED) != 0; }
#endif

#endif

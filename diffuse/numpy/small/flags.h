/* The processor's record of floating-point exceptions. */
#ifndef DIFFUSE_FLAGS_H
#define DIFFUSE_FLAGS_H

#if defined(__x86_64__)
/* Both of the processor's units keep flags; NumPy raises some in the older one.  It takes long to clear them. */
#include <immintrin.h>
enum { SMALL_RAISED = 0x1d }; /* invalid, division by zero, overflow and underflow */
enum { SMALL_USUAL = 0x1f80, SMALL_MODES = 0xffc0 };
static inline unsigned small_raised(void)
{
    unsigned short old;
    __asm__ volatile("fnstsw %0" : "=am"(old) : : "memory");
    return (_mm_getcsr() | old) & SMALL_RAISED;
}
static inline void small_clear(void)
{
    if (small_raised()) {
        __asm__ volatile("fnclex" : : : "memory");
        _mm_setcsr(_mm_getcsr() & ~SMALL_RAISED);
    }
}
/* Does this thread round and flush numbers as threads of the runtime do? */
static inline int small_usual(void) { return (_mm_getcsr() & SMALL_MODES) == SMALL_USUAL; }
#else
#include <fenv.h>
enum { SMALL_RAISED = FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW | FE_UNDERFLOW };
static inline unsigned small_raised(void) { return fetestexcept(SMALL_RAISED); }
static inline void small_clear(void) { feclearexcept(SMALL_RAISED); }
static inline int small_usual(void) { return fegetround() == FE_TONEAREST; }
#endif

#endif

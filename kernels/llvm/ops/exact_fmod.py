"""The C library's `fmod` in IR, for targets that have no C library.  The result is exact, so it has its bits.

Both numbers are whole multiples of powers of two, a = m 2^d and b = n 2^e with m, n < 2^53.  If d > e, the
remainder of m 2^(d - e) by n is found eleven bits at a time, which is what fits beside m in 64 bits.
"""

from __future__ import annotations

from diffuse.kernels.llvm.code import Code
from diffuse.kernels.llvm.ops.lanes import extract, insert

_FMOD = """
define internal double @diffuse.fmod(double %a, double %b) nounwind {
entry:
  %raw = bitcast double %a to i64
  %sign = and i64 %raw, -9223372036854775808
  %x = and i64 %raw, 9223372036854775807
  %raw.b = bitcast double %b to i64
  %y = and i64 %raw.b, 9223372036854775807
  %x.infinite = icmp uge i64 %x, 9218868437227405312
  %y.nan = icmp ugt i64 %y, 9218868437227405312
  %y.zero = icmp eq i64 %y, 0
  %none = or i1 %x.infinite, %y.nan
  %undefined = or i1 %none, %y.zero
  br i1 %undefined, label %nothing, label %compare
nothing:
  ret double 0x7FF8000000000000
compare:
  %less = icmp ult i64 %x, %y
  br i1 %less, label %itself, label %split
itself:
  ret double %a
split:
  %m = call i64 @diffuse.fmod.significand(i64 %x)
  %n = call i64 @diffuse.fmod.significand(i64 %y)
  %d = call i64 @diffuse.fmod.exponent(i64 %x)
  %e = call i64 @diffuse.fmod.exponent(i64 %y)
  %apart = sub i64 %d, %e
  %first = urem i64 %m, %n
  br label %head
head:
  %rest = phi i64 [ %first, %split ], [ %reduced, %inside ]
  %left = phi i64 [ %apart, %split ], [ %fewer, %inside ]
  %more = icmp sgt i64 %left, 0
  br i1 %more, label %inside, label %done
inside:
  %few = icmp slt i64 %left, 11
  %bits = select i1 %few, i64 %left, i64 11
  %shifted = shl i64 %rest, %bits
  %reduced = urem i64 %shifted, %n
  %fewer = sub i64 %left, %bits
  br label %head
done:
  %normal = icmp sge i64 %e, -1022
  %biased = add i64 %e, 1023
  %power.normal = shl i64 %biased, 52
  %above = add i64 %e, 1074
  %masked = and i64 %above, 63
  %power.small = shl i64 1, %masked
  %power = select i1 %normal, i64 %power.normal, i64 %power.small
  %unit = bitcast i64 %power to double
  %whole = uitofp i64 %rest to double
  %size = fmul double %whole, %unit
  %size.raw = bitcast double %size to i64
  %signed = or i64 %size.raw, %sign
  %result = bitcast i64 %signed to double
  ret double %result
}

define internal i64 @diffuse.fmod.significand(i64 %x) nounwind alwaysinline {
  %fraction = and i64 %x, 4503599627370495
  %whole = or i64 %fraction, 4503599627370496
  %subnormal = icmp ult i64 %x, 4503599627370496
  %found = select i1 %subnormal, i64 %fraction, i64 %whole
  ret i64 %found
}

define internal i64 @diffuse.fmod.exponent(i64 %x) nounwind alwaysinline {
  %biased = lshr i64 %x, 52
  %subnormal = icmp eq i64 %biased, 0
  %at.least = select i1 %subnormal, i64 1, i64 %biased
  %found = sub i64 %at.least, 1075
  ret i64 %found
}
"""


def exact_fmod(code: Code, dtype: str, a: str, b: str) -> str:
    """The remainder of the division of two floats, with the sign of the first, lane by lane.

    The remainder of two float32 is a float32, and is computed in float64.
    """
    code.declare(_FMOD)
    result = "poison"
    for lane in range(code.lanes):
        wide = [extract(code, dtype, x, lane) for x in (a, b)]
        if dtype == "float32":
            wide = [code.let(f"fpext float {x} to double") for x in wide]
        found = code.let(f"call double @diffuse.fmod(double {wide[0]}, double {wide[1]})")
        if dtype == "float32":
            found = code.let(f"fptrunc double {found} to float")
        result = found if code.lanes == 1 else insert(code, dtype, result, found, lane)
    return result

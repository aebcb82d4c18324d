"""What PTX's instructions on registers compute, each rounded as the PTX manual says, on NumPy arrays.

Only what LLVM writes for kernels without approximations is known: a sum of floats without ".rn", for
example, may be contracted by the assembler, and is an error here.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tests.ptx.text import PtxError

Array = NDArray[Any]
Function = Callable[..., Array]

DTYPES = {"pred": np.dtype(bool),
          **{f"{kind}{bits}": np.dtype(f"{code}{bits // 8}") for bits in (8, 16, 32, 64)
             for kind, code in (("u", "u"), ("b", "u"), ("s", "i"))},
          **{f"f{bits}": np.dtype(f"f{bits // 8}") for bits in (16, 32, 64)}}
WIDER = {"16": "32", "32": "64"}


class Meaning(NamedTuple):
    """An instruction: the types of its operands and its result, and the function on arrays of these types."""

    sources: tuple[str, ...]
    result: str
    function: Function


# Floats


def _sum_and_error(a: Array, b: Array) -> tuple[Array, Array]:
    """Knuth's error-free sum."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _product_and_error(a: Array, b: Array) -> tuple[Array, Array]:
    """Dekker's error-free product of float64."""
    def split(x: Array) -> tuple[Array, Array]:
        scaled = x * 134217729.0
        high = scaled - (scaled - x)
        return high, x - high
    product = a * b
    (ah, al), (bh, bl) = split(a), split(b)
    return product, al * bl - (((product - ah * bh) - al * bh) - ah * bl)


def _to_odd(total: Array, error: Array) -> Array:
    """Round `total + error` to odd: rounding the result once more to a narrower type is exact."""
    bits = total.view("i8")
    inexact = (error != 0) & np.isfinite(error) & (bits & 1 == 0)
    step = np.where((error > 0) == (total > 0), 1, -1)
    return np.asarray(np.where(inexact, bits + step, bits)).view("f8")


def fma(a: Array, b: Array, c: Array) -> Array:
    """a * b + c, rounded once."""
    dtype = a.dtype
    a, b, c = (np.array(x, "f8") for x in np.broadcast_arrays(a, b, c))
    if dtype.itemsize < 8:
        return _to_odd(*_sum_and_error(a * b, c)).astype(dtype)
    product, below = _product_and_error(a, b)  # Boldo and Melquiond's algorithm
    high, low = _sum_and_error(c, below)
    high, middle = _sum_and_error(product, high)
    result = high + _to_odd(*_sum_and_error(low, middle))
    sizes = [np.abs(x) for x in (a, b, c)]
    fits = [(x > 2.0 ** -450) & (x < 2.0 ** 450) for x in sizes[:2]]
    safe = fits[0] & fits[1] & ((c == 0) | (sizes[2] > 2.0 ** -900) & (sizes[2] < 2.0 ** 900))
    for i in np.flatnonzero(~safe):
        result[i] = _fma_of_any(float(a[i]), float(b[i]), float(c[i]))
    return result


def _fma_of_any(a: float, b: float, c: float) -> float:
    if not (np.isfinite(a) and np.isfinite(b)) or a == 0 or b == 0:
        return float(np.float64(a) * np.float64(b) + np.float64(c))
    if not np.isfinite(c):
        return c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    try:
        rounded = exact.numerator / exact.denominator
    except OverflowError:
        return -np.inf if exact < 0 else np.inf
    return -0.0 if exact < 0 and rounded == 0 else rounded


def _extreme(pick: Function, negative: Function) -> Function:
    """The number if the other value is NaN; -0 is less than +0."""
    def function(x: Array, y: Array) -> Array:
        chosen = np.where(x != x, y, np.where(y != y, x, pick(x, y)))
        zero = np.where(negative(np.signbit(x), np.signbit(y)), x.dtype.type(-0.0), x.dtype.type(0.0))
        return np.where((x == 0) & (y == 0), zero, chosen)
    return function


def _nan_extreme(function: Function) -> Function:
    return lambda x, y: np.where((x != x) | (y != y), x.dtype.type(np.nan), function(x, y))


FMIN = _extreme(np.minimum, np.logical_or)
FMAX = _extreme(np.maximum, np.logical_and)

# Integers


def _quotient(x: Array, y: Array) -> Array:
    """Rounded to zero."""
    if (y == 0).any():
        raise ZeroDivisionError("an integer is divided by zero")
    quotient = x // y
    if x.dtype.kind == "u":
        return quotient
    inexact = (quotient * y != x) & ((x < 0) != (y < 0))
    return np.asarray(quotient + inexact.astype(x.dtype))


def _high(x: Array, y: Array) -> Array:
    """The upper half of the product."""
    if x.dtype.itemsize < 8:
        wide = np.dtype(f"{x.dtype.kind}8")
        return np.asarray(x.astype(wide) * y.astype(wide) >> 8 * x.dtype.itemsize).astype(x.dtype)
    a, b, half, low = x.view("u8"), y.view("u8"), np.uint64(32), np.uint64(2 ** 32 - 1)
    middle = (a >> half) * (b & low) + ((a & low) * (b & low) >> half)
    other = (a & low) * (b >> half) + (middle & low)
    high = (a >> half) * (b >> half) + (middle >> half) + (other >> half)
    if x.dtype.kind == "i":
        high = high - np.where(x < 0, b, np.uint64(0)) - np.where(y < 0, a, np.uint64(0))
    return np.asarray(high.view(x.dtype))


def _wide(x: Array, y: Array) -> Array:
    wide = np.dtype(f"{x.dtype.kind}{2 * x.dtype.itemsize}")
    return np.asarray(x.astype(wide) * y.astype(wide))


def _shift(function: Function) -> Function:
    """NumPy, like PTX, clamps shifts to the width."""
    return lambda x, count: function(x, np.minimum(count, 64).astype(x.dtype))


def _leading_zeros(x: Array) -> Array:
    bits = 8 * x.dtype.itemsize
    for shift in (1, 2, 4, 8, 16, 32):
        if shift < bits:
            x = x | x >> x.dtype.type(shift)
    return (bits - np.bitwise_count(x).astype("u4")).astype("u4")


def _reversed_bits(x: Array) -> Array:
    backwards = np.packbits(np.unpackbits(np.ascontiguousarray(x).view("u1"), bitorder="little"))
    return np.ascontiguousarray(backwards.reshape(-1, x.dtype.itemsize)[:, ::-1]).view(x.dtype)[:, 0]


def _mask(count: Array, dtype: np.dtype[Any]) -> Array:
    return np.asarray(~np.left_shift(~dtype.type(0), np.minimum(count, 64).astype(dtype)))


def _extract(x: Array, start: Array, count: Array) -> Array:
    """Bits of x from `start` on; of signed x, extended with the last one."""
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    start, count = start & 255, count & 255
    field = np.right_shift(x, np.minimum(start, 64).astype(x.dtype)).view(unsigned)
    kept = _mask(count, unsigned)
    if x.dtype.kind == "u":
        return np.asarray(field & kept)
    bits = 8 * x.dtype.itemsize
    last = np.minimum(start.astype("i8") + count - 1, bits - 1)
    sign = (np.right_shift(x, np.maximum(last, 0).astype(x.dtype)) & 1 == 1) & (count > 0)
    return np.asarray(np.where(sign, field | ~kept, field & kept)).view(x.dtype)


def _insert(x: Array, into: Array, start: Array, count: Array) -> Array:
    start = np.minimum(start & 255, 64).astype(x.dtype)
    kept = np.left_shift(_mask(count & 255, x.dtype), start)
    return np.asarray(into & ~kept | np.left_shift(x, start) & kept)


def _funnel(left: bool, wraps: bool) -> Function:
    def function(low: Array, high: Array, count: Array) -> Array:
        both = high.astype("u8") << np.uint64(32) | low
        count = (count & 31 if wraps else np.minimum(count, 32)).astype("u8")
        return ((both << count) >> np.uint64(32) if left else both >> count).astype("u4")
    return function


def _permute(x: Array, y: Array, selection: Array) -> Array:
    both = y.astype("u8") << np.uint64(32) | x
    found: Array = np.zeros(1, "u8")
    for k in range(4):
        code = selection.astype("u8") >> np.uint64(4 * k)
        byte = both >> np.uint64(8) * (code & np.uint64(7)) & np.uint64(255)
        signs = np.where(byte >> np.uint64(7), np.uint64(255), np.uint64(0))
        found = found | np.where(code & np.uint64(8), signs, byte) << np.uint64(8 * k)
    return found.astype("u4")


# Conversions

TO_INTEGER: dict[str, Function] = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def _saturated(rounding: str, source: str, target: str) -> Function:
    """A float to an integer, clamped to its range.  NaN is 0, or the upper bit alone where either has 64."""
    kind, dtype = np.iinfo(DTYPES[target]), DTYPES[target]
    nan = 0 if source != "f64" and dtype.itemsize < 8 else (
        kind.min if kind.min else 1 << kind.bits - 1)

    def function(x: Array) -> Array:
        whole = TO_INTEGER[rounding](x.astype("f8"))
        above, below = whole > float(kind.max), whole < float(kind.min)
        above |= whole == 2.0 ** (kind.bits - (dtype.kind == "i"))
        inside = np.where(above | below | (x != x), 0, whole).astype(dtype)
        found = np.where(above, dtype.type(kind.max), np.where(below, dtype.type(kind.min), inside))
        return np.where(x != x, dtype.type(nan), found)
    return function


def _conversion(modifiers: tuple[str, ...]) -> Meaning | None:
    *rounding, target, source = modifiers
    floats, narrower = (target[0] == "f", source[0] == "f"), DTYPES[target].itemsize < DTYPES[source].itemsize
    dtype = DTYPES[target]
    if floats == (False, True) and len(rounding) == 1 and rounding[0] in TO_INTEGER:
        return Meaning((source,), target, _saturated(rounding[0], source, target))
    if floats == (True, True) and target == source and len(rounding) == 1 and rounding[0] in TO_INTEGER:
        return Meaning((source,), target, TO_INTEGER[rounding[0]])
    if rounding == (["rn"] if floats == (True, False) or floats == (True, True) and narrower else []):
        return Meaning((source,), target, lambda x: x.astype(dtype))
    return None


def _two_halves(upper: Array, lower: Array) -> Array:
    high, low = (x.astype("f2").view("u2").astype("u4") for x in (upper, lower))
    return np.asarray(high << np.uint32(16) | low)


def _on_halves(function: Function) -> Function:
    """An instruction on float16, on both of each word."""
    def packed(*words: Array) -> Array:
        parts = [[(word >> np.uint32(shift)).astype("u2").view("f2") for word in words] for shift in (16, 0)]
        high, low = (np.asarray(function(*part)).view("u2").astype("u4") for part in parts)
        return np.asarray(high << np.uint32(16) | low)
    return packed


# All of them


def _selected(first: Array, second: Array, condition: Array) -> Array:
    return np.asarray(np.where(condition, first, second))


def _upper(x: Array) -> Array:
    """The upper half of the bits of float64: a GPU's approximations have no more."""
    return np.asarray((x.view("u8") & np.uint64(0xFFFFFFFF00000000)).view(x.dtype))


Known = dict[str, tuple[str, int, Function]]

SAME: Known = {
    "add": ("su", 2, np.add), "add.rn": ("f", 2, np.add), "sub": ("su", 2, np.subtract),
    "sub.rn": ("f", 2, np.subtract), "mul.lo": ("su", 2, np.multiply), "mul.rn": ("f", 2, np.multiply),
    "mul.hi": ("su", 2, _high), "mad.lo": ("su", 3, lambda x, y, z: x * y + z),
    "mad.hi": ("su", 3, lambda x, y, z: _high(x, y) + z), "fma.rn": ("f", 3, fma),
    "div": ("su", 2, _quotient), "rem": ("su", 2, lambda x, y: x - _quotient(x, y) * y),
    "div.rn": ("f", 2, np.divide), "sqrt.rn": ("f", 1, np.sqrt), "rcp.rn": ("f", 1, np.reciprocal),
    "rcp.approx.ftz": ("f", 1, lambda x: _upper(np.reciprocal(x))),
    "rsqrt.approx.ftz": ("f", 1, lambda x: _upper(np.reciprocal(np.sqrt(x)))),
    "and": ("bp", 2, np.bitwise_and), "or": ("bp", 2, np.bitwise_or), "xor": ("bp", 2, np.bitwise_xor),
    "not": ("bp", 1, np.invert), "neg": ("sf", 1, np.negative), "abs": ("sf", 1, np.abs),
    "copysign": ("f", 2, lambda x, y: np.copysign(y, x)), "mov": ("bpusf", 1, lambda x: x),
    "brev": ("b", 1, _reversed_bits),
}
"""Instructions of which the operands and the result have one type: the first letters of the types that it
may be, the number of operands, and the function."""

OTHERS: dict[str, tuple[str, tuple[str, ...], str, Function]] = {
    "shl": ("b", ("", "u32"), "", _shift(np.left_shift)),
    "shr": ("us", ("", "u32"), "", _shift(np.right_shift)),
    "selp": ("bsuf", ("", "", "pred"), "", _selected),
    "popc": ("b", ("",), "u32", lambda x: np.bitwise_count(x).astype("u4")),
    "clz": ("b", ("",), "u32", _leading_zeros), "prmt": ("b", ("", "", ""), "", _permute),
    "bfe": ("us", ("", "u32", "u32"), "", _extract), "bfi": ("b", ("", "", "u32", "u32"), "", _insert),
    **{f"shf.{way}.{end}": ("b", ("", "", "u32"), "", _funnel(way == "l", end == "wrap"))
       for way in "lr" for end in ("wrap", "clamp")},
    "testp.infinite": ("f", ("",), "pred", np.isinf), "testp.finite": ("f", ("",), "pred", np.isfinite),
    "testp.notanumber": ("f", ("",), "pred", np.isnan),
    "testp.number": ("f", ("",), "pred", lambda x: x == x),
}
"""Instructions of several types: an empty one is the instruction's."""

COMPARISONS: dict[str, Function] = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
                                    "gt": np.greater, "ge": np.greater_equal}
UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}


def _comparison(name: str, kind: str) -> Function | None:
    if kind != "f":
        return COMPARISONS.get(UNSIGNED.get(name, name))
    if name == "ne":
        return lambda x, y: (x < y) | (x > y)
    if name in ("num", "nan"):
        return lambda x, y: ((x == x) & (y == y)) == (name == "num")
    if name.endswith("u") and name[:-1] in COMPARISONS:
        return lambda x, y: COMPARISONS[name[:-1]](x, y) | (x != x) | (y != y)
    return COMPARISONS.get(name)


def meaning(parts: tuple[str, ...]) -> Meaning:
    """The meaning of an instruction on registers; PtxError if there is none."""
    if parts[-1] == "f16x2":
        one = meaning((*parts[:-1], "f16"))
        if {*one.sources, one.result} == {"f16"}:
            return Meaning(("b32",) * len(one.sources), "b32", _on_halves(one.function))
    found = _meaning(".".join(parts[:-1]), parts) if parts[-1] in DTYPES else None
    if found is None:
        raise PtxError("unknown instruction")
    return found


def _meaning(name: str, parts: tuple[str, ...]) -> Meaning | None:
    dtype = parts[-1]
    kind = dtype[0]
    if parts == ("cvt", "rn", "f16x2", "f32"):
        return Meaning(("f32", "f32"), "b32", _two_halves)
    if parts[0] == "cvt" and all(part in DTYPES for part in parts[-2:]):
        return _conversion(parts[1:])
    if parts[0] == "setp" and len(parts) == 3 and (compare := _comparison(parts[1], kind)):
        return Meaning((dtype, dtype), "pred", compare)
    if parts[0] in ("min", "max") and kind in "suf":
        number = (np.minimum, np.maximum, FMIN, FMAX)[(parts[0] == "max") + 2 * (kind == "f")]
        if parts[1:-1] == ("NaN",) and kind == "f":
            return Meaning((dtype, dtype), dtype, _nan_extreme(number))
        return Meaning((dtype, dtype), dtype, number) if len(parts) == 2 else None
    if name in ("mul.wide", "mad.wide") and kind in "su" and dtype[1:] in WIDER:
        wide = kind + WIDER[dtype[1:]]
        if name == "mul.wide":
            return Meaning((dtype, dtype), wide, _wide)
        return Meaning((dtype, dtype, wide), wide, lambda x, y, z: _wide(x, y) + z)
    if parts[0] == "slct" and parts[-1] == "s32" and len(parts) == 3 and parts[1] in DTYPES:
        return Meaning((parts[1], parts[1], "s32"), parts[1], lambda x, y, z: _selected(x, y, z >= 0))
    if name in SAME and kind in SAME[name][0]:
        return Meaning((dtype,) * SAME[name][1], dtype, SAME[name][2])
    if name in OTHERS and kind in OTHERS[name][0]:
        _, sources, result, function = OTHERS[name]
        return Meaning(tuple(source or dtype for source in sources), result or dtype, function)
    return None

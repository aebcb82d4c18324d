"""Values with Python's operators, which write LLVM instructions.

`Real` is a float64 or float32, `Whole` an integer of as many bits, `Truth` a bool, each of as many lanes as
the code that it belongs to.
No operation here depends on the processor: additions, products, quotients, square roots and fused
multiply-adds are those of IEEE 754, so that a function has the same bits on every target.  None raises a
floating-point flag for a quiet NaN, since magnitudes are compared as integers.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from diffuse.kernels.llvm import seeds
from diffuse.kernels.llvm.code import Code
from diffuse.kernels.llvm.math.fused import multiply_add
from diffuse.kernels.llvm.ops.instructions import settled

FLOAT, SINGLE, INTEGER, BOOL = "float64", "float32", "int64", "bool"
MAGNITUDE = (1 << 63) - 1
MANTISSA = 52
"""Stored bits of the mantissa of a float64."""
INFINITY = math.inf
LAST = 1.7976931348623157e308
"""The largest finite number."""


class Format(NamedTuple):
    """A binary floating-point format."""

    integer: str
    """The integer that holds its bits."""
    packing: tuple[str, str]
    mantissa: int
    """Stored bits of the mantissa."""
    sign: int
    """The sign bit, as a signed integer."""
    least: float
    """The smallest normal number."""
    tiny: float
    """Added to the square of a tiny number, this keeps it and its fourth power (of a float64, its sixteenth)
    from underflowing; it is far below the rounding error of what the square is used in."""

    @property
    def width(self) -> int:
        """Bits in all."""
        return self.sign.bit_length()

    @property
    def shift(self) -> float:
        """Adding this rounds to a whole number, and leaves that number in the low bits of the sum."""
        return 1.5 * 2.0 ** self.mantissa

    def bits(self, value: float) -> int:
        """The bits of a number as a signed integer."""
        return int(struct.unpack(self.packing[1], struct.pack(self.packing[0], value))[0])


FORMATS = {"float64": Format("int64", ("<d", "<q"), 52, -(1 << 63), 2.0 ** -1022, 2.0 ** -100),
           "float32": Format("int32", ("<f", "<i"), 23, -(1 << 31), 2.0 ** -126, 2.0 ** -30)}
FLOATS = {f.integer: name for name, f in FORMATS.items()}


def bits(value: float) -> int:
    """The bits of a float64 as a signed integer."""
    return FORMATS[FLOAT].bits(value)


@dataclass(frozen=True, slots=True)
class Truth:
    code: Code
    name: str

    def __and__(self, other: Truth) -> Truth:
        return self._binary("and", other.name)

    def __or__(self, other: Truth) -> Truth:
        return self._binary("or", other.name)

    def __invert__(self) -> Truth:
        return self._binary("xor", self.code.const(BOOL, True))

    def _binary(self, instruction: str, other: str) -> Truth:
        return Truth(self.code, self.code.let(f"{instruction} {self.code.type(BOOL)} {self.name}, {other}"))

    def choose(self, yes: Real | float, no: Real | float) -> Real:
        """Select `yes` in the lanes where this holds, `no` in the others."""
        dtype = next((v.dtype for v in (yes, no) if isinstance(v, Real)), FLOAT)
        return Real(self.code, self._select(dtype, yes, no), dtype)

    def replaced(self, harmless: float, x: Real) -> Real:
        """Replace x by a harmless number where this holds.

        LLVM cannot fold arithmetic with x into this selection, which would raise flags for all lanes.
        """
        return self.choose(harmless, x).settled()

    def spared(self, harmless: float, x: Real) -> Real:
        """Replace x by a harmless number where this holds, if arithmetic could raise a flag; what it gives in
        these lanes is not used."""
        return self.replaced(harmless, x) if self.code.module.target.flags else x

    def pick(self, yes: Whole | int, no: Whole | int) -> Whole:
        """Select integers, as `choose` selects floats."""
        dtype = next((v.dtype for v in (yes, no) if isinstance(v, Whole)), INTEGER)
        return Whole(self.code, self._select(dtype, yes, no), dtype)

    def _select(self, dtype: str, yes: Value, no: Value) -> str:
        kind = self.code.type(dtype)
        a, b = (self.code.const(dtype, v) if isinstance(v, (int, float)) else v.name for v in (yes, no))
        return self.code.let(f"select {self.code.type(BOOL)} {self.name}, {kind} {a}, {kind} {b}")


@dataclass(frozen=True, slots=True)
class Whole:
    code: Code
    name: str
    dtype: str = INTEGER

    @property
    def format(self) -> Format:
        """The format of the floats with as many bits."""
        return FORMATS[FLOATS[self.dtype]]

    def _other(self, other: Whole | int) -> str:
        return other.name if isinstance(other, Whole) else self.code.const(self.dtype, other)

    def _binary(self, instruction: str, other: Whole | int) -> Whole:
        kind, name = self.code.type(self.dtype), self._other(other)
        return Whole(self.code, self.code.let(f"{instruction} {kind} {self.name}, {name}"), self.dtype)

    def __add__(self, other: Whole | int) -> Whole:
        return self._binary("add", other)

    def __sub__(self, other: Whole | int) -> Whole:
        return self._binary("sub", other)

    def __rsub__(self, other: int) -> Whole:
        return Whole(self.code, self.code.const(self.dtype, other), self.dtype) - self

    def __neg__(self) -> Whole:
        return 0 - self

    def __and__(self, other: Whole | int) -> Whole:
        return self._binary("and", other)

    def __or__(self, other: Whole | int) -> Whole:
        return self._binary("or", other)

    def __xor__(self, other: Whole | int) -> Whole:
        return self._binary("xor", other)

    def __lshift__(self, count: int) -> Whole:
        return self._binary("shl", count)

    def __rshift__(self, count: int) -> Whole:
        """Shift to the right, keeping the sign."""
        return self._binary("ashr", count)

    def is_(self, predicate: str, other: Whole | int) -> Truth:
        """Compare by one of LLVM's predicates: eq, ne, slt, ult, ..."""
        kind, name = self.code.type(self.dtype), self._other(other)
        return Truth(self.code, self.code.let(f"icmp {predicate} {kind} {self.name}, {name}"))

    def real(self) -> Real:
        """Reinterpret the bits as a float."""
        kind, dtype = self.code.type(self.dtype), FLOATS[self.dtype]
        name = self.code.let(f"bitcast {kind} {self.name} to {self.code.type(dtype)}")
        return Real(self.code, name, dtype)

    def power_of_two(self) -> Real:
        """Return 2 to this power, which has to be a normal number."""
        one = self.format.bits(1.0) >> self.format.mantissa
        return ((self + one) << self.format.mantissa).real()

    def counted(self) -> Real:
        """Convert an integer of fewer bits than the mantissa has to a float."""
        if self.dtype == "int32" or self.code.module.target.counts:
            kind, dtype = self.code.type(self.dtype), FLOATS[self.dtype]
            name = self.code.let(f"sitofp {kind} {self.name} to {self.code.type(dtype)}")
            return Real(self.code, name, dtype)
        return (self + self.format.bits(self.format.shift)).real() - self.format.shift


@dataclass(frozen=True, slots=True)
class Real:
    code: Code
    name: str
    dtype: str = FLOAT

    @property
    def format(self) -> Format:
        return FORMATS[self.dtype]

    def of(self, value: Real | float) -> Real:
        """Broadcast a number to all lanes."""
        if isinstance(value, Real):
            return value
        return Real(self.code, self.code.const(self.dtype, value), self.dtype)

    def _let(self, text: str) -> Real:
        return Real(self.code, self.code.let(text), self.dtype)

    def _binary(self, instruction: str, a: Real | float, b: Real | float) -> Real:
        x, y = self.of(a).name, self.of(b).name
        return self._let(f"{instruction} {self.code.type(self.dtype)} {x}, {y}")

    def __add__(self, other: Real | float) -> Real:
        return self._binary("fadd", self, other)

    def __sub__(self, other: Real | float) -> Real:
        return self._binary("fsub", self, other)

    def __rsub__(self, other: float) -> Real:
        return self._binary("fsub", other, self)

    def __mul__(self, other: Real | float) -> Real:
        return self._binary("fmul", self, other)

    def __truediv__(self, other: Real | float) -> Real:
        return self._over(self, self.of(other))

    def __rtruediv__(self, other: float) -> Real:
        return self._over(self.of(other), self)

    def _over(self, a: Real, b: Real) -> Real:
        return Real(self.code, seeds.quotient(self.code, self.dtype, a.name, b.name), self.dtype)

    def into(self, other: Real) -> Real:
        """Divide another number by this, where both and the quotient are normal numbers, or that is +0."""
        if self.dtype != FLOAT or not seeds.there(self.code):
            return other / self
        return Real(self.code, seeds.ordinary_quotient(self.code, other.name, self.name))

    def __neg__(self) -> Real:
        return self._let(f"fneg {self.code.type(self.dtype)} {self.name}")

    def intrinsic(self, name: str, *others: Real | float) -> Real:
        """Call an intrinsic of LLVM on this and other floats."""
        given = (self.name, *(self.of(v).name for v in others))
        return Real(self.code, self.code.intrinsic(name, self.dtype, *given), self.dtype)

    def __abs__(self) -> Real:
        return self.intrinsic("llvm.fabs")

    def root(self) -> Real:
        return Real(self.code, seeds.root(self.code, self.dtype, self.name), self.dtype)

    def signed(self, other: Real | float) -> Real:
        """Return this magnitude with the sign of `other`."""
        return self.intrinsic("llvm.copysign", other)

    def squared(self) -> Real:
        """Return the square plus `Format.tiny`."""
        return fma(self, self, self.format.tiny)

    def whole(self) -> Whole:
        """Reinterpret the float as an integer."""
        dtype = self.format.integer
        name = self.code.let(f"bitcast {self.code.type(self.dtype)} {self.name} to {self.code.type(dtype)}")
        return Whole(self.code, name, dtype)

    def size(self) -> Whole:
        """Return the bits of the magnitude, which order as magnitudes do: numbers, infinity, NaN."""
        return self.whole() & ~self.format.sign

    def negative(self) -> Truth:
        """Is the sign bit set?"""
        return self.whole().is_("slt", 0)

    def nan(self) -> Truth:
        return self._compare("uno", self)

    def infinite(self) -> Truth:
        return self.size().is_("eq", self.format.bits(INFINITY))

    def equals(self, other: Real | float) -> Truth:
        return self._compare("oeq", other)

    def _compare(self, predicate: str, other: Real | float) -> Truth:
        kind = self.code.type(self.dtype)
        return Truth(self.code, self.code.let(f"fcmp {predicate} {kind} {self.name}, {self.of(other).name}"))

    def settled(self) -> Real:
        """Return the same value behind a fence, across which LLVM folds no selection."""
        if not self.code.module.target.flags:
            return self
        return Real(self.code, settled(self.code, self.dtype, self.name), self.dtype)

    def to(self, dtype: str) -> Real:
        """Convert to a format."""
        if dtype == self.dtype:
            return self
        instruction = "fpext" if dtype == FLOAT else "fptrunc"
        kind, target = self.code.type(self.dtype), self.code.type(dtype)
        return Real(self.code, self.code.let(f"{instruction} {kind} {self.name} to {target}"), dtype)


Value = Whole | Real | int | float


def fma(a: Real | float, b: Real | float, c: Real | float) -> Real:
    """Return a * b + c, rounded once."""
    some = next(v for v in (a, b, c) if isinstance(v, Real))
    name = multiply_add(some.code, some.dtype, *(some.of(v).name for v in (a, b, c)))
    return Real(some.code, name, some.dtype)


def by_size(x: Real, y: Real) -> tuple[Whole, Whole]:
    """Return the bits of the larger magnitude, and those of the smaller one."""
    a, b = x.size(), y.size()
    larger = a.is_("ugt", b)
    return larger.pick(a, b), larger.pick(b, a)


def beyond(size: Whole, limit: float) -> Truth:
    """Is a magnitude, by its bits, above the limit, or NaN?"""
    return size.is_("ugt", size.format.bits(limit))


def outside(size: Whole, low: float, high: float) -> Truth:
    """Is a magnitude, by its bits, below `low` or above `high`, or NaN?"""
    least, most = (size.format.bits(v) for v in (low, high))
    return (size - least).is_("ugt", most - least)


def at_most(size: Whole, limit: float) -> Real:
    """Return a magnitude, by its bits, or the limit if that is less, if the sign bit is set, or for NaN.

    This is one instruction, which does not wait for a comparison.
    """
    most = size.format.bits(limit)
    return size.is_("ult", most).pick(size, most).real()


def horner(coefficients: Sequence[float], x: Real) -> Real:
    """Evaluate a polynomial, lowest coefficient first, by Horner's rule: with the fewest operations."""
    found = x.of(coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        found = fma(found, x, coefficient)
    return found


def paired(coefficients: Sequence[float], x: Real, square: Real | None = None) -> Real:
    """Evaluate a polynomial by Horner's rule in x * x, over pairs of coefficients: with half the latency."""
    square, found = square or x.squared(), x.of(0.0)
    last = (len(coefficients) - 1) // 2 * 2
    for i in range(last, -1, -2):  # each pair where it is needed, so that few registers are
        low, *high = coefficients[i:i + 2]
        pair = fma(high[0], x, low) if high else x.of(low)
        found = pair if i == last else fma(found, square, pair)
    return found


def nearest(x: Real, by: float) -> tuple[Whole, Real]:
    """Round x * by to a whole number; return it in the low bits of an integer, and as a float."""
    shifted = x + x.format.shift if by == 1.0 else fma(x, by, x.format.shift)
    return shifted.whole(), shifted - x.format.shift


def widened(function: Callable[..., Real], *operands: Real) -> Real:
    """Evaluate a function of float32 in float64 arithmetic, and round the result once."""
    return function(*[x.to(FLOAT) for x in operands]).to(SINGLE)


def either_nan(unknown: Truth, x: Real, y: Real) -> Real:
    """Return the NaN of two operands where the condition says that there is one; zero elsewhere."""
    return (~unknown).replaced(0.0, x) + (~unknown).replaced(0.0, y)


def raises_divide(condition: Truth) -> Real:
    """Divide by zero where the condition holds, which gives infinity; return 1 elsewhere."""
    return 1.0 / condition.choose(0.0, 1.0).settled()


def raises_invalid(condition: Truth) -> Real:
    """Divide zero by zero where the condition holds, which gives NaN; return 1 elsewhere."""
    zero = condition.choose(0.0, 1.0).settled()
    return zero / zero


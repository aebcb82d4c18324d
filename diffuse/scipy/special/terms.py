"""Formulas over float64, from Python's operators to ops of the kernel language.

A *formula* is a function of `Term`s; `formula(name)` declares it as the operation
`special.<name>`.  Whatever the element types, it computes in float64, lane by lane and without branches:
every case is computed for every element and `choose` picks one, so that a result depends on its element alone
and compiled code has the bits of the interpreter.  A case that is not chosen gets an argument that is
harmless for it: a floating-point flag that it raised would look like one of the program's own.

LLVM sees through `choose(c, a, choose(c, b, x) * y)`, which it turns into `choose(c, a, x * y)`, and through
an operation on `choose(c, number, x)` and a number.  Where the flag of the operation matters, the two
conditions differ, or there is a function such as log between them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from diffuse.library import Builder, Operation, declare, operations

PREFIX = "special."
"""The prefix of the operations' names."""

LARGEST_SINGLE = 3.4028235677973366e38
"""The smallest float64 that rounds to infinity in float32."""


class Term:
    """A value in a body being written: float64, or bool for the result of a comparison."""

    __slots__ = ("builder", "value", "dtype")

    def __init__(self, builder: Builder, value: int, dtype: str = "float64") -> None:
        self.builder, self.value, self.dtype = builder, value, dtype

    def _op(self, kind: str, *others: Term | float, result: str = "float64") -> Term:
        values = [self.value, *(self.lifted(x).value for x in others)]
        return Term(self.builder, self.builder.emit(kind, result, *values), result)

    def lifted(self, x: Term | float) -> Term:
        """Convert a number to a literal of the body."""
        return x if isinstance(x, Term) else Term(self.builder, self.builder.const(float(x), "float64"))

    def __add__(self, other: Term | float) -> Term:
        return self._op("add", other)

    def __radd__(self, other: float) -> Term:
        return self.lifted(other) + self

    def __sub__(self, other: Term | float) -> Term:
        return self._op("subtract", other)

    def __rsub__(self, other: float) -> Term:
        return self.lifted(other) - self

    def __mul__(self, other: Term | float) -> Term:
        return self._op("multiply", other)

    def __rmul__(self, other: float) -> Term:
        return self.lifted(other) * self

    def __truediv__(self, other: Term | float) -> Term:
        return self._op("divide", other)

    def __rtruediv__(self, other: float) -> Term:
        return self.lifted(other) / self

    def __neg__(self) -> Term:
        return self._op("negative")

    def __abs__(self) -> Term:
        return self._op("absolute")

    def __lt__(self, other: Term | float) -> Term:
        return self._op("less", other, result="bool")

    def __le__(self, other: Term | float) -> Term:
        return self._op("less_equal", other, result="bool")

    def __gt__(self, other: Term | float) -> Term:
        return self._op("greater", other, result="bool")

    def __ge__(self, other: Term | float) -> Term:
        return self._op("greater_equal", other, result="bool")

    def equals(self, other: Term | float) -> Term:
        return self._op("equal", other, result="bool")

    def differs(self, other: Term | float) -> Term:
        return self._op("not_equal", other, result="bool")

    def __and__(self, other: Term) -> Term:
        return self._op("logical_and", other, result="bool")

    def __or__(self, other: Term) -> Term:
        return self._op("logical_or", other, result="bool")

    def __invert__(self) -> Term:
        return self._op("logical_not", result="bool")

    @property
    def unknown(self) -> Term:
        """Is it NaN?"""
        return self._op("isnan", result="bool")

    def apply(self, kind: str, *others: Term | float) -> Term:
        """Apply a function of the kernel language, as in `x.apply("exp")`."""
        return self._op(kind, *others)

    def below(self, most: float) -> Term:
        """The lesser of it and a number; NaN propagates."""
        return choose(self > most, most, self)


def choose(condition: Term, a: Term | float, b: Term | float) -> Term:
    """`a` where the condition holds, `b` elsewhere."""
    return condition._op("where", a, b)


def polynomial(x: Term, *choices: tuple[Sequence[float], Term | None]) -> Term:
    """Evaluate a polynomial.  Of several, each element takes the first whose condition holds; the last has
    none.

    Even and odd terms are evaluated by Horner's scheme in x^2 separately: two overlapping dependence chains.
    """
    length = max(len(coefficients) for coefficients, _ in choices)
    square = x * x
    even, odd = (_horner(square, [_picked(k, choices) for k in range(n, length, 2)]) for n in (0, 1))
    return even + x * odd


def _horner(x: Term, coefficients: list[Term | float]) -> Term:
    total = x.lifted(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = total * x + c
    return total


def _picked(k: int, choices: tuple[tuple[Sequence[float], Term | None], ...]) -> Term | float:
    """The coefficient of x^k."""
    picked: Term | float = 0.0
    for coefficients, condition in reversed(choices):
        c = coefficients[k] if k < len(coefficients) else 0.0
        picked = c if condition is None else choose(condition, c, picked)
    return picked


def copysign(size: Term | float, sign: Term) -> Term:
    return sign.lifted(size).apply("copysign", sign)


Formula = Callable[..., Term]

FORMULAS: list[str] = []
"""The operations written as formulas, without their prefix."""


def formula(name: str, inputs: int = 1) -> Callable[[Formula], Formula]:
    """Declare a formula of so many inputs as an operation."""
    def register(function: Formula) -> Formula:
        def body(b: Builder) -> None:
            values = [Term(b, b.cast(b.input(k), "float64")) for k in range(inputs)]
            result = function(*values)
            if b.signature[-1] == "float32":
                result = _single(result)
            b.store(b.cast(result.value, b.signature[-1]))

        FORMULAS.append(name)
        declare(Operation(PREFIX + name, inputs, exact=operations.NONE, body=body))
        return function
    return register


def applied(name: str) -> None:
    """Declare a function of one input that is an operation of the kernel language, in its own precision."""
    def body(b: Builder) -> None:
        dtype = b.signature[-1]
        b.store(b.emit(name, dtype, b.cast(b.input(0), dtype)))

    FORMULAS.append(name)
    declare(Operation(PREFIX + name, 1, exact=operations.NONE, body=body))


def _single(x: Term) -> Term:
    """Replace values beyond float32's range by infinity, so that the cast raises no flag."""
    return choose(abs(x) >= LARGEST_SINGLE, copysign(math.inf, x), x)

"""Reading what decides a solver's next step, and telling what went wrong: from lazy scalars to numbers.

A solver records an iteration, then reads the numbers that SciPy's would have looked at on the way; the first
read computes everything recorded.  Where SciPy would carry NaN on to the last iteration, `Watch` raises
instead, and names what brought it in.

Products of arrays small enough to be computed at once are NumPy's, added in the order of SciPy's solvers:
there all iterates have SciPy's bits.  Products of large ones are added block by block, and a solver may then
end some iterations before or after SciPy's, as SciPy's does if the unknowns are numbered differently.
"""

from __future__ import annotations

from typing import Any

import numpy

import diffuse.numpy as np
from diffuse.numpy.arrays import base
from diffuse.numpy.ops import functions


def value(x: Any) -> Any:
    """The NumPy scalar that a lazy one stands for: waits."""
    if type(x) is base.scalar_class:
        return x.value()
    return base.host(x)[()] if isinstance(x, base.Array) else x


def known(x: Any) -> bool:
    """Is it small and there already, so that a look at it costs nothing?"""
    return functions.small(x)


def square(x: Any) -> Any:
    """The sum of the squared magnitudes of a vector, as a lazy scalar of its real type."""
    if x.dtype.kind != "c":
        return np.dot(x, x)
    if known(x):  # as numpy.linalg.norm
        held = base.host(x)
        return held.real.dot(held.real) + held.imag.dot(held.imag)
    return (x.real * x.real + x.imag * x.imag).sum()


def root(squared: Any) -> Any:
    """The norm, read from the square of it."""
    return numpy.sqrt(value(squared))


def norm(x: Any) -> Any:
    """The Euclidean norm of a vector, read."""
    return root(square(x))


def dot(x: Any, y: Any) -> Any:
    """The product of two real vectors as a lazy scalar."""
    return np.dot(x, y)


def vdot(x: Any, y: Any) -> Any:
    """The product of the conjugate of a vector with another, as a lazy scalar."""
    if functions.small(x, y):
        return numpy.vdot(base.host(x), base.host(y))
    return (np.conj(x) * y).sum()


def energy(x: Any, squared: Any) -> Any:
    """The product of a vector with itself, given the sum of its squared magnitudes: a number.

    The same but for rounding, which of complex numbers leaves an imaginary part, too.
    """
    return value(squared) if x.dtype.kind != "c" or not known(x) else vdot(x, x)


def finite(x: Any) -> bool:
    """Is every element a number?  Reads."""
    return bool(np.isfinite(x).all())


def spoilt(x: Any) -> bool:
    """Is any element NaN?  Reads."""
    return bool(np.isnan(x).any())


def first_bad(x: Any) -> int:
    """Where the first NaN or infinity stands."""
    return int(numpy.argmin(numpy.isfinite(numpy.asarray(x))))


class Watch:
    """What raises when a solver's vectors are no numbers any more, in the words of the solver's `name`."""

    def __init__(self, name: str, b: Any, x0: Any) -> None:
        self.name, self.b, self.x0 = name, b, x0

    def stop(self, iteration: int, *products: tuple[str, Any]) -> Exception:
        """The error for NaN or infinity met in an iteration (counted from 1; 0 before the first).

        `products` are what A and M returned, in the order of their use: (who, vector).
        """
        for what, given in (("b", self.b), ("x0", self.x0)):
            if given is not None and not finite(given):
                return ValueError(f"{self.name}: {what} has NaN or infinity, first at index "
                                  f"{first_bad(given)}; no iterate can be a number: see where {what} is made")
        where = f"{self.name}, " + (f"iteration {iteration}" if iteration else "before the first iteration")
        for who, given in products:
            if given is not None and not finite(given):
                what, function = WHO[who]
                return FloatingPointError(f"{where}: {what} returned NaN or infinity, first at index "
                                          f"{first_bad(given)}; every later iterate would be NaN: {function}")
        return FloatingPointError(
            f"{where}: the recurrence divided by zero or overflowed, though A and M returned numbers; every "
            "later iterate would be NaN: check that A suits the method and is not singular, scale the "
            "system, start from another x0, loosen rtol, or try gmres")

    def check(self, size: Any, r: Any, iteration: int, *products: tuple[str, Any]) -> None:
        """Raises if a residual of norm `size` (read) has elements that are no numbers.

        A norm alone may overflow where the vector has not: then SciPy goes on, and so does the solver.
        """
        if not numpy.isfinite(size) and not finite(r):
            raise self.stop(iteration, *products)


WHO = {
    "A": ("the operator A", "look at A (its stored values, or what its matvec computes) for that row"),
    "AH": ("the adjoint of the operator A", "look at A's rmatvec for that row"),
    "M": ("the preconditioner M", "look at what M's matvec does there, or solve without M"),
    "MH": ("the adjoint of the preconditioner M", "look at what M's rmatvec does there, or solve without M"),
}
"""Who returns vectors, and where to look next."""

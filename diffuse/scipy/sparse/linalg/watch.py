"""Norms and dot products of a running solver: recorded together, and checked for NaN.

SciPy's solvers read the norm of the residual once an iteration, and then ask for the dot product of the
residual with itself or with the first residual.  Both are recorded when the norm is asked for, in the pass
over memory that computes the residual.  Where SciPy would carry NaN on to the last iteration, the solver
stops with an error that names the vector, operator or preconditioner with the first NaN.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import numpy

import diffuse.numpy as np
from diffuse.numpy.arrays import access, base, core
from diffuse.numpy.ops import functions

ADVICE = {
    "A": ("the operator A", "look at A (its stored values, or what its matvec computes) for that row"),
    "AH": ("the adjoint of the operator A", "look at A's rmatvec for that row"),
    "M": ("the preconditioner M", "look at what M's matvec does there, or solve without M"),
    "MH": ("the adjoint of the preconditioner M", "look at what M's rmatvec does there, or solve without M"),
}
"""For each source of vectors, its name and advice for when a vector has NaN."""

current: ContextVar[Watch | None] = ContextVar("current", default=None)
"""The watch of the innermost running solver."""


class Watch:
    """The arguments of a call of the solver `name`, and the vectors that A and M return in an iteration."""

    def __init__(self, name: str, **given: Any) -> None:
        self.name = name
        self.given = given
        self.returned: list[tuple[str, Callable[[], Any]]] = []
        """Products since the last finite norm, in the order of the calls: a key of ADVICE, and a function
        that returns the vector."""
        self.ahead: tuple[Any, ...] | None = None
        """A product that the solver needs next: its operands, their versions, and the product."""
        self.failure: Exception | None = None
        """The error to raise if the solver continues with NaN."""

    def observed(self, key: str, product: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Wrap a function of the program that multiplies by A or M, and keep its results.

        NumPy arrays are copied, because a function may return the same buffer again and again; so is the
        operand, which the solver may overwrite.
        """
        def run(x: Any) -> Any:
            self.proceed()
            y = product(x)
            if isinstance(y, numpy.ndarray) or _whole(x) is _whole(y):
                y = np.array(y)
            self.returned.append((key, lambda: y))
            return y

        return run

    def multiplied(self, key: str, matrix: Any) -> Callable[[Any], Any]:
        """Wrap the product with a matrix.  Results need not be kept: a product with zeros is NaN where the
        matrix has NaN or infinity."""
        def run(x: Any) -> Any:
            self.proceed()
            self.returned.append((key, lambda: matrix() @ np.zeros(x.shape, x.dtype)))
            return matrix() @ x

        return run

    def proceed(self) -> None:
        """Raise the recorded failure if the solver continues with NaN."""
        if self.failure is not None:
            raise self.failure

    def check(self, size: Any, where: str) -> None:
        """Record an error if a norm is NaN; otherwise forget the products that led to it."""
        if not numpy.isnan(size):
            self.returned.clear()
        elif self.failure is None:
            self.failure = self.error(where)

    def error(self, where: str) -> Exception:
        """The error for NaN found at a place such as "iteration 3"."""
        for what, x in self.given.items():
            if x is not None and not finite(x):
                return ValueError(f"{self.name}: {what} has NaN or infinity, first at index {first_bad(x)}; "
                                  f"no iterate can be a number: see where {what} is made")
        for key, product in self.returned:
            x = product()
            if not finite(x):
                who, advice = ADVICE[key]
                return FloatingPointError(
                    f"{self.name}, {where}: {who} returned NaN or infinity, first at index {first_bad(x)}; "
                    f"every later iterate would be NaN: {advice}")
        return FloatingPointError(
            f"{self.name}, {where}: the recurrence divided by zero or overflowed, though A and M returned "
            "numbers; every later iterate would be NaN: check that A suits the method and is not singular, "
            "scale the system, start from another x0, loosen rtol, or try gmres")


def norm(x: Any, *args: Any, **options: Any) -> Any:
    """`numpy.linalg.norm` for a solver: reads the norm of a vector, and checks it for NaN."""
    watch = current.get()
    if watch is None or args or options or not isinstance(x, np.ndarray):
        return np.linalg.norm(x, *args, **options)
    names = sys._getframe(1).f_locals
    residual = x is names.get("r")
    size = _with_product(watch, x, names.get("rtilde", x)) if residual else _length(x)
    count = names.get("iteration", names.get("itn"))
    where = "before the first iteration" if count is None else f"iteration {max(1, count + (not residual))}"
    watch.check(size, where)
    return size


def _with_product(watch: Watch, r: Any, partner: Any) -> Any:
    """The norm of a residual, recorded together with its product with `partner`, which the solver needs
    next."""
    if functions.small(r, partner):
        return _length(r)
    alone = r is partner and r.dtype.kind == "f"
    found = np.dot(r, r) if alone else np.vdot(partner, r)
    watch.ahead = partner, r, _versions(partner, r), found
    return numpy.sqrt(value(found)) if alone else _length(r)


def _length(x: Any) -> Any:
    """Read the norm of a vector."""
    if x.dtype.kind != "f" or functions.small(x):
        return value(np.linalg.norm(x))
    return numpy.sqrt(value(np.dot(x, x)))


def dot(x: Any, y: Any, out: Any = None) -> Any:
    """`numpy.dot` for a solver."""
    found = _ahead(x, y) if out is None else None
    return np.dot(x, y, out) if found is None else found


def vdot(x: Any, y: Any, /) -> Any:
    """`numpy.vdot` for a solver."""
    found = _ahead(x, y)
    return np.vdot(x, y) if found is None else found


def _ahead(x: Any, y: Any) -> Any:
    """The product of two vectors if it was recorded before; else None."""
    watch = current.get()
    if watch is None or watch.ahead is None:
        return None
    (first, second, versions, found), watch.ahead = watch.ahead, None
    return found if _same(x, first) and _same(y, second) and _versions(x, y) == versions else None


def _same(x: Any, y: Any) -> bool:
    """Do two arrays have the same view of one store?"""
    return x is y or (type(x) is core.array_class and x.storage is y.storage
                      and base.view_of(x) == base.view_of(y))


def _versions(*arrays: Any) -> tuple[int, ...]:
    return tuple([access.storage_of(x).version for x in arrays])


def _whole(x: Any) -> Any:
    """The array of which `x` is a view, or `x` itself."""
    owner = getattr(x, "owner", None)
    return x if owner is None else owner


def value(x: Any) -> Any:
    """The value of a pending number, after waiting for it; anything else as it is."""
    return x.value() if type(x) in core.PENDING else x


def finite(x: Any) -> bool:
    """Are all elements finite?  Waits for them."""
    return bool(np.isfinite(x).all())


def first_bad(x: Any) -> int:
    """The index of the first NaN or infinity."""
    return int(numpy.argmin(numpy.isfinite(numpy.asarray(x))))

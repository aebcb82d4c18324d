"""Generalised minimal residuals: `gmres`, for any matrix.

The basis is a list of lazy vectors.  Each inner iteration is read once, for the test of convergence: the
column of the Hessenberg matrix, a few numbers, on which plane rotations then work in NumPy.

Source: Y. Saad and M. H. Schultz, "GMRES", 1986; the documentation of scipy.sparse.linalg.gmres.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy
from scipy.linalg import get_lapack_funcs

from diffuse.numpy.arrays import base
from diffuse.numpy.ops import functions
from diffuse.scipy.sparse.linalg.conjugate import Callback
from diffuse.scipy.sparse.linalg.convergence import norm, root, spoilt, square, value
from diffuse.scipy.sparse.linalg.system import System, tolerance

KINDS = ("x", "pr_norm", "legacy")
"""What a callback is given: the solution at each restart, or the residual's norm at each inner iteration."""


def gmres(A: Any, b: Any, x0: Any = None, *, rtol: float = 1e-5, atol: float = 0., restart: int | None = None,
          maxiter: int | None = None, M: Any = None, callback: Callback = None,
          callback_type: str | None = None) -> tuple[Any, int]:
    """Solve A x = b for any square A (N, N), minimising the residual over `restart` (20) directions.

    `maxiter` counts restarts (10 N); `callback_type` is "x" (called with x at each restart), "pr_norm" (with
    the preconditioned residual's norm over |b|, at each inner iteration) or "legacy": as "pr_norm", and
    maxiter counts inner iterations.  A maxiter of 0 gives the first guess and 0, as by the other solvers,
    where SciPy's gmres fails.  The other parameters, results and errors are those of `cg`.
    Source: scipy.sparse.linalg.gmres.
    """
    if callback is None:
        callback_type = ""
    elif callback_type is None:
        warnings.warn("scipy.sparse.linalg.gmres called without specifying `callback_type`: 'legacy' is "
                      "assumed, and SciPy's default will change; say callback_type='pr_norm', or 'legacy' to "
                      "keep the meaning of maxiter", DeprecationWarning, stacklevel=2)
        callback_type = "legacy"
    elif callback_type not in KINDS:
        raise ValueError(f"Unknown callback_type: {callback_type!r}; expected one of {', '.join(KINDS)}")
    system = System("gmres", A, M, x0, b)
    size = norm(system.b)
    goal = tolerance("gmres", size, atol, rtol)
    if size == 0:
        return system.b, 0
    maxiter = system.size * 10 if maxiter is None else maxiter
    restart = min(20 if restart is None else restart, system.size)
    inner = _Inner(system, restart, size, callback if callback_type in ("legacy", "pr_norm") else None,
                   maxiter if callback_type == "legacy" else -1)
    factor = 1.0
    wanted = (size if system.plain else norm(system.M.matvec(system.b))) * min(factor, goal / size)
    x, b = system.x, system.b
    r = system.residual()
    left = size if not system.started else norm(r)
    if maxiter > 0 and left < goal:
        return x, 0
    for iteration in range(maxiter):
        system.watch.check(left, r, iteration, ("A", r if iteration else None))
        update, presid, exact = inner.run(r, left, wanted, iteration)
        x += update
        r = b - system.A.matvec(x)
        left = norm(r)
        if not numpy.isfinite(left) and spoilt(x):
            raise system.watch.stop(iteration + 1)
        if inner.count == inner.limit:
            return x, 0 if left <= goal else maxiter
        if callback and callback_type == "x":
            callback(x)
        if left <= goal or exact:
            break
        factor = max(inner.eps, 0.25 * factor) if presid <= wanted else min(1.0, 1.5 * factor)
        wanted = presid * min(factor, goal / left)
    return x, 0 if left <= goal else maxiter


class _Inner:
    """The iterations between two restarts."""

    def __init__(self, system: System, restart: int, size: Any, callback: Callback, limit: int) -> None:
        self.system, self.restart, self.size, self.callback = system, restart, size, callback
        self.limit = limit
        """Inner iterations after which all ends, counted over restarts; -1: none."""
        self.count = 0
        self.eps = numpy.finfo(system.dtype).eps
        self.rotate = get_lapack_funcs("lartg", dtype=system.dtype)

    def run(self, r: Any, left: Any, wanted: Any, iteration: int) -> tuple[Any, Any, bool]:
        """From a residual r of norm `left` to what x grows by, the preconditioned residual's norm, and
        whether the Krylov space is exhausted, so that this is exact."""
        system, kind = self.system, self.system.dtype
        z = system.M.matvec(r)
        length = left if system.plain else norm(z)
        if numpy.isnan(length) or length == 0:
            raise self._stop(iteration, ("M", z))
        basis = [z * (1 / length)]
        columns = numpy.zeros((self.restart, self.restart + 1), dtype=kind)
        turns: list[tuple[Any, Any]] = []
        side = numpy.zeros(self.restart + 1, dtype=kind)
        side[0] = length
        presid, exact = side.real[0], False
        for k in range(self.restart):
            w, column, exact = self._direction(basis, iteration)
            columns[k, :k + 2] = column
            presid = self._rotated(columns[k], side, turns, k)
            self.count += 1
            if self.callback:
                self.callback(presid / self.size)
            if self.count == self.limit or presid <= wanted or exact:
                break
            if k + 1 < self.restart:
                basis.append(w * (1 / column[k + 1]))
        return _combined(columns, side, basis), presid, exact

    def _direction(self, basis: list[Any], iteration: int) -> tuple[Any, Any, bool]:
        """M A applied to the last direction, orthogonal to all of them; its products with them and its
        length; whether nothing was left of it."""
        system = self.system
        image = system.A.matvec(basis[-1])
        w = found = system.M.matvec(image)
        before = square(w)
        products = []
        for direction in basis:
            product = system.dot(direction, w)
            products.append(product)
            w = w - product * direction  # never in place: A and M may give back their argument
        after = root(square(w))
        if numpy.isnan(after):
            raise self._stop(iteration, ("A", image), ("M", found))
        exact = bool(after <= self.eps * root(before))
        return w, [*map(value, products), after.dtype.type(0) if exact else after], exact

    def _rotated(self, column: Any, side: Any, turns: list[tuple[Any, Any]], k: int) -> Any:
        """Earlier rotations applied to a new column, and one more that makes it end at its diagonal; the
        length of what is left of the right side, in double precision, as LAPACK's numbers come to Python."""
        for i, (c, s) in enumerate(turns):
            upper, lower = column[i], column[i + 1]
            column[i], column[i + 1] = c * upper + s * lower, -numpy.conj(s) * upper + c * lower
        c, s, length = self.rotate(column[k], column[k + 1])
        turns.append(tuple(numpy.array([c, s], dtype=column.dtype)))
        column[k], column[k + 1] = length, 0
        rest = -numpy.conj(s) * side[k]
        side[k], side[k + 1] = c * side[k], rest
        return abs(rest)

    def _stop(self, iteration: int, *products: tuple[str, Any]) -> Exception:
        return self.system.watch.stop(iteration + 1, *products)


def _combined(columns: Any, side: Any, basis: list[Any]) -> Any:
    """The combination of directions that the triangular system asks for; its zero rows give nothing."""
    count = len(basis)
    y = side[:count].copy()
    if columns[count - 1, count - 1] == 0:
        y[-1] = 0
    for k in range(count - 1, -1, -1):
        if y[k] != 0:
            y[k] /= columns[k, k]
            y[:k] -= y[k] * columns[k, :k]
    if functions.small(*basis):  # one product, as SciPy's
        return y @ numpy.array([base.host(direction) for direction in basis])
    found = y[0] * basis[0]
    for weight, direction in zip(y[1:], basis[1:], strict=True):
        found = found + weight * direction
    return found

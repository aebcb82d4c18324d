"""Minimal residuals by the Lanczos process: `minres`, for symmetric matrices, definite or not.

One read an iteration.  The two numbers of a Lanczos step decide on the step of x, whose norm decides on the
end: the few operations between them are recorded too, then done once more with what was read.

Source: C. C. Paige and M. A. Saunders, "Solution of sparse indefinite systems of linear equations", 1975;
the documentation of scipy.sparse.linalg.minres.
"""

from __future__ import annotations

import math
from typing import Any

import numpy
import scipy

import diffuse.numpy as np
from diffuse.scipy.sparse.linalg import conversion
from diffuse.scipy.sparse.linalg.conjugate import Callback
from diffuse.scipy.sparse.linalg.convergence import dot, known, norm, root, square, value
from diffuse.scipy.sparse.linalg.system import System

MEANINGS = {
    -1: "beta2 = 0.  If M = I, b and x are eigenvectors",
    0: "beta1 = 0.  The exact solution is x0",
    1: "A solution to Ax = b was found, given rtol",
    2: "A least-squares solution was found, given rtol",
    3: "Reasonable accuracy achieved, given eps",
    4: "x has converged to an eigenvector",
    5: "acond has exceeded 0.1/eps",
    6: "The iteration limit was reached",
}
"""Why the iteration ended."""

WIDENS = numpy.lib.NumpyVersion(scipy.__version__) < "1.18.0"
"""Before SciPy 1.18 the rotations are float64 whatever the system is, and with them x."""


def minres(A: Any, b: Any, x0: Any = None, *, rtol: float = 1e-5, shift: float = 0.0,
           maxiter: int | None = None, M: Any = None, callback: Callback = None, show: bool = False,
           check: bool = False) -> tuple[Any, int]:
    """Solve (A - shift I) x = b for a symmetric A (N, N), minimising |b - A x|; M is to be positive definite.

    Ends when |r| <= rtol |A| |x| or |A r| <= rtol |A| |r| by estimates of these norms, when rounding leaves
    nothing to gain, or after `maxiter` iterations (5 N).  `check` tests A and M for symmetry, `show` prints
    each iteration.  Returns x (N,) and 0, or maxiter.  Complex systems and `show` are SciPy's.

    Raises as `cg` does, and ValueError for an M that is not positive definite or an A that is not symmetric.
    Source: scipy.sparse.linalg.minres.
    """
    system = System("minres", A, M, x0, b)
    if show or system.dtype.kind == "c":
        found: tuple[Any, int] = conversion.scipys(
            "minres", A, b, x0, rtol=rtol, shift=shift, maxiter=maxiter, M=M, callback=callback, show=show,
            check=check)
        return found
    maxiter = 5 * system.size if maxiter is None else maxiter
    x, solve = system.x, system.M.matvec
    r = system.b - system.A.matvec(x) if system.started else system.b.copy()
    y = solve(r)
    first = value(dot(r, y))
    if first < 0:
        raise ValueError("indefinite preconditioner: r . M r < 0 for the first residual r; minres needs a "
                         "positive definite M")
    if first == 0:
        return x, 0
    if norm(system.b) == 0:
        return system.b, 0
    if numpy.isnan(first):
        if maxiter > 0:
            raise system.watch.stop(0, ("A", r if system.started else None), ("M", y))
        return x, maxiter
    if check:
        _symmetric(system, r, y)
    return _iterate(system, r, y, math.sqrt(first), shift, rtol, maxiter, callback)


def _symmetric(system: System, r: Any, y: Any) -> None:
    """Raises ValueError unless (A y) . (A y) = y . A A y and (M r) . (M r) = r . M M r, about."""
    eps = numpy.finfo(system.dtype).eps
    matvec, solve = system.A.matvec, system.M.matvec
    w = matvec(y)
    for what, length, product in (("matrix", square(w), dot(y, matvec(w))),
                                  ("preconditioner", square(y), dot(r, solve(y)))):
        s, t = value(length), value(product)
        if abs(s - t) > (s + eps) * eps ** (1.0 / 3.0):
            raise ValueError(f"non-symmetric {what}: {s:g} and {t:g} were to be equal; use gmres")


def _iterate(system: System, r2: Any, y: Any, beta1: float, shift: Any, rtol: Any, maxiter: int,
             callback: Callback) -> tuple[Any, int]:
    matvec, solve, x = system.A.matvec, system.M.matvec, system.x
    state = _Rotations(beta1, system.dtype)
    r1, w1, w2 = r2, np.zeros_like(x), np.zeros_like(x)
    why = 0
    while state.count < maxiter:
        beta, before = state.beta, state.before
        v = (1.0 / beta) * y
        y = applied = matvec(v)
        if shift:
            y = y - shift * v
        if state.count:
            y = y - (beta / before) * r1
        alfa = dot(v, y)
        y = y - (alfa / beta) * r2
        r1, r2 = r2, y
        y = solve(r2)
        squared = dot(r2, y)
        step, turned, scale = state.lazy(alfa, squared)
        w1, w2 = w2, (v - state.epsilon * w1 - turned * w2) * scale
        x = x + step * w2
        length = square(x)
        alfa, squared = value(alfa), value(squared)
        if squared < 0:
            raise ValueError("non-symmetric matrix: r . M r < 0 for a residual r; minres needs a symmetric A "
                             "and a positive definite M; use gmres")
        if numpy.isnan(squared) or numpy.isnan(alfa):
            raise system.watch.stop(state.count + 1, ("A", applied), ("M", y))
        state.turn(alfa, math.sqrt(squared))
        why = state.verdict(root(length), rtol, maxiter)
        if callback is not None:
            callback(x)
        if why:
            break
    return x, maxiter if why == 6 else 0


class _Rotations:
    """The factorization of the Lanczos matrix by plane rotations, and the norms that it tells of."""

    def __init__(self, beta1: float, dtype: numpy.dtype[Any]) -> None:
        limits: Any = numpy.finfo(dtype)
        self.eps, self.beta1 = limits.eps, beta1
        self.kind = numpy.float64 if WIDENS else dtype.type
        self.count = 0
        self.before, self.beta = 0.0, beta1
        zero: Any = 0
        self.dbar = self.epsilon = self.following = zero
        self.phibar = self.rhs1 = beta1
        self.rhs2 = self.total = self.largest = zero
        self.smallest = limits.max
        self.cs, self.sn = -1, 0
        self.eigen = False

    def lazy(self, alfa: Any, squared: Any) -> tuple[Any, Any, Any]:
        """From the lazy numbers of a step: the step of x along w, and the two numbers that make w."""
        turned = self.sn * self.dbar - self.cs * alfa
        delta = self.cs * self.dbar + self.sn * alfa
        if known(squared):  # with SciPy's bits
            gamma = self._length(value(turned), math.sqrt(abs(value(squared))))
        else:
            gamma = np.maximum(np.sqrt(turned * turned + abs(squared)), self.eps)
        self.epsilon = self.following
        return (turned / gamma) * self.phibar, delta, 1.0 / gamma

    def _length(self, turned: Any, beta: Any) -> Any:
        return max(self.kind(numpy.linalg.norm([turned, beta])), self.eps)

    def turn(self, alfa: Any, beta: float) -> None:
        """The same with what was read: everything moves on by one iteration."""
        self.count += 1
        self.before, self.beta = self.beta, beta
        self.total += alfa ** 2 + self.before ** 2 + beta ** 2
        if self.count == 1 and beta / self.beta1 <= 10 * self.eps:
            self.eigen = True
        delta = self.cs * self.dbar + self.sn * alfa
        self.turned = self.sn * self.dbar - self.cs * alfa
        self.following = self.sn * beta
        self.dbar = -self.cs * beta
        self.root = numpy.linalg.norm([self.turned, self.dbar])
        gamma = self._length(self.turned, beta)
        self.cs, self.sn = self.turned / gamma, beta / gamma
        self.phibar = self.sn * self.phibar
        self.largest, self.smallest = max(self.largest, gamma), min(self.smallest, gamma)
        z = self.rhs1 / gamma
        self.rhs1, self.rhs2 = self.rhs2 - delta * z, -self.following * z

    def verdict(self, length: Any, rtol: Any, maxiter: int) -> int:
        """A key of MEANINGS for an x of this norm, 0 to go on."""
        if self.eigen:
            return -1
        size = math.sqrt(self.total)
        first = numpy.inf if length == 0 or size == 0 else self.phibar / (size * length)
        second = numpy.inf if size == 0 else self.root / size
        tests = (
            (first <= rtol, 1), (second <= rtol, 2), (size * length * self.eps >= self.beta1, 3),
            (self.largest / self.smallest >= 0.1 / self.eps, 4), (self.count >= maxiter, 6),
            (1 + first <= 1, 1), (1 + second <= 1, 2),
        )
        return next((meaning for holds, meaning in tests if holds), 0)

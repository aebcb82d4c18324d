"""Conjugate gradients: `cg` for Hermitian matrices, `bicg` for any.

One read an iteration.  Dot products follow the updates of their operands directly, so that each is computed
in the same pass over memory; step lengths stay lazy scalars, zero where SciPy would have stopped before the
step: then the solution is what it was, and the read says so.

Source: M. R. Hestenes and E. Stiefel, "Methods of Conjugate Gradients for Solving Linear Systems", 1952;
R. Fletcher, "Conjugate gradient methods for indefinite systems", 1976; the documentation of
scipy.sparse.linalg.cg and bicg.  Tasks an iteration: papers/003, figure 13.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

import diffuse.numpy as np
from diffuse.scipy.sparse.linalg.convergence import energy, known, norm, root, square, value
from diffuse.scipy.sparse.linalg.system import System, tolerance, unfinished

Callback = Callable[[Any], Any] | None


def cg(A: Any, b: Any, x0: Any = None, *, rtol: float = 1e-5, atol: float = 0., maxiter: int | None = None,
       M: Any = None, callback: Callback = None) -> tuple[Any, int]:
    """Solve A x = b for a Hermitian positive definite A (N, N) by conjugate gradients.

    `A` and the preconditioner `M`, near A's inverse, are dense or sparse arrays or LinearOperators; `b` has
    shape (N,) or (N, 1), `x0` too and stays as it is.  Ends when |b - A x| <= max(rtol |b|, atol), or after
    `maxiter` iterations (10 N); `callback(x)` after each.  Returns x (N,) and 0, or the number of iterations.

    Raises ValueError for shapes that do not fit and for NaN in b or x0, FloatingPointError where A or M
    returns NaN.  Source: scipy.sparse.linalg.cg.
    """
    system = System("cg", A, M, x0, b)
    size = norm(system.b)
    goal = tolerance("cg", size, atol, rtol)
    if size == 0:
        return system.b, 0
    maxiter = system.size * 10 if maxiter is None else maxiter
    x, dot, p, q, z, rho, before = system.x, system.dot, None, None, None, None, None
    r = system.residual()
    rr = square(r)
    for iteration in range(maxiter):
        size = root(rr)
        if size < goal:
            return x, 0
        system.watch.check(size, r, iteration, *(() if system.plain else (("M", z),)), ("A", q))
        if system.plain:
            z, rho = r, energy(r, rr)
        else:
            z = system.M.matvec(r)
            rho = dot(r, z)
        if p is None:
            p = z.copy()
        else:
            p *= rho / before
            p += z
        q = system.A.matvec(p)
        alpha = rho / dot(p, q)
        x += alpha * p
        r -= alpha * q
        rr = square(r)
        before = rho
        if callback:
            callback(x)
    return unfinished(system, maxiter, rr, *(() if system.plain else (("M", z),)), ("A", q))


def bicg(A: Any, b: Any, x0: Any = None, *, rtol: float = 1e-5, atol: float = 0., maxiter: int | None = None,
         M: Any = None, callback: Callback = None) -> tuple[Any, int]:
    """Solve A x = b for any square A (N, N) by biconjugate gradients; A and M need `rmatvec`, too.

    Parameters, results and errors are those of `cg`; the number returned is -10 or -11 if one of the two
    products that the method divides by vanished.  Source: scipy.sparse.linalg.bicg.
    """
    system = System("bicg", A, M, x0, b)
    size = norm(system.b)
    goal = tolerance("bicg", size, atol, rtol)
    if size == 0:
        return system.b, 0
    maxiter = system.size * 10 if maxiter is None else maxiter
    x, dot, conj = system.x, system.dot, system.conj
    least = numpy.finfo(x.dtype).eps ** 2
    r = system.residual()
    s = r.copy()
    rr, rho = square(r), dot(s, r) if system.plain else None
    p = t = q = y = z = w = before = None
    for iteration in range(maxiter):
        size = root(rr)
        if size < goal:
            return x, 0
        mine = () if system.plain else (("M", z), ("MH", w))
        system.watch.check(size, r, iteration, *mine, ("A", q), ("AH", y))
        if system.plain:
            z, w, rho = r, s, value(rho)
            if abs(rho) < least:
                return x, -10
        else:
            z, w = system.M.matvec(r), system.M.rmatvec(s)
            rho = dot(s, z)
            if known(rho) and abs(value(rho)) < least:
                return x, -10
        if p is None:
            p, t = z.copy(), w.copy()
        else:
            beta = rho / before
            p *= beta
            p += z
            t *= conj(beta)
            t += w
        q, y = system.A.matvec(p), system.A.rmatvec(t)
        divisor = dot(t, q)
        stays = divisor == 0 if system.plain else (abs(rho) < least) | (divisor == 0)
        alpha = np.where(stays, 0, rho / np.where(stays, 1, divisor))
        x += alpha * p
        r -= alpha * q
        s -= conj(alpha) * y
        rr, following = square(r), dot(s, r) if system.plain else None
        before = value(rho)
        if abs(before) < least:
            return x, -10
        if value(divisor) == 0:
            return x, -11
        rho = following
        if callback:
            callback(x)
    mine = () if system.plain else (("M", z), ("MH", w))
    return unfinished(system, maxiter, rr, *mine, ("A", q), ("AH", y))

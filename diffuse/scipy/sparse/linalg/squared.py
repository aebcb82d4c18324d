"""Conjugate gradients squared and biconjugate gradients stabilised: `cgs` and `bicgstab`, for any matrix.

One read an iteration, of all numbers that decide what SciPy does until the next one.  Where it would have
stopped before a step, the lazy length of that step is zero: then the solution is what it was, and the read
says so.  Such a last iteration applies A and M once more than SciPy does, unless a look at the numbers costs
no wait of its own: those of small arrays are there, and operators of SciPy's wait for each operand.

Source: P. Sonneveld, "CGS, a fast Lanczos-type solver for nonsymmetric linear systems", 1989; H. A. van der
Vorst, "Bi-CGSTAB", 1992; the documentation of scipy.sparse.linalg.cgs and bicgstab.  Tasks an iteration:
papers/003, figure 13.
"""

from __future__ import annotations

from typing import Any

import numpy

import diffuse.numpy as np
from diffuse.numpy.arrays import base
from diffuse.scipy.sparse.linalg.conjugate import Callback
from diffuse.scipy.sparse.linalg.convergence import known, norm, root, square, value
from diffuse.scipy.sparse.linalg.system import System, tolerance, unfinished


def cgs(A: Any, b: Any, x0: Any = None, *, rtol: float = 1e-5, atol: float = 0., maxiter: int | None = None,
        M: Any = None, callback: Callback = None) -> tuple[Any, int]:
    """Solve A x = b for any square A (N, N) by conjugate gradients squared.

    Parameters, results and errors are those of `cg`; the number returned is -10 or -11 if one of the two
    products that the method divides by vanished.  Source: scipy.sparse.linalg.cgs.
    """
    system = System("cgs", A, M, x0, b)
    size = norm(system.b)
    goal = tolerance("cgs", size, atol, rtol)
    if size == 0:
        return system.b, 0
    maxiter = system.size * 10 if maxiter is None else maxiter
    x, dot, matvec, solve = system.x, system.dot, system.A.matvec, system.M.matvec
    least = numpy.finfo(x.dtype).eps ** 2
    r = system.residual()
    shadow = r.copy()
    rr, rho = square(r), dot(shadow, r)
    p = u = q = v = z = w = image = before = None
    for iteration in range(maxiter):
        size = root(rr)
        if size < goal:
            return x, 0
        system.watch.check(size, r, iteration, ("M", z), ("A", v), ("M", w), ("A", image))
        rho = value(rho)
        if abs(rho) < least:
            return x, -10
        if p is None:
            p, u = r.copy(), r
        else:
            beta = rho / before
            u = r + beta * q
            p *= beta
            p += q
            p *= beta
            p += u
        z = solve(p)
        v = matvec(z)
        divisor = dot(shadow, v)
        stays = divisor == 0
        alpha = np.where(stays, 0, rho / np.where(stays, 1, divisor))
        if known(divisor) and value(divisor) == 0:
            return x, -11
        q = u - alpha * v
        w = solve(u + q)
        x += np.where(stays, 0, alpha * w)  # not even NaN of M may get in where SciPy does not ask it
        image = matvec(x)
        r = system.b - image
        rr, following = square(r), dot(shadow, r)
        if value(divisor) == 0:
            return x, -11
        before, rho = rho, following
        if callback:
            callback(x)
    return unfinished(system, maxiter, rr, ("M", z), ("A", v), ("M", w), ("A", image))


def bicgstab(A: Any, b: Any, x0: Any = None, *, rtol: float = 1e-5, atol: float = 0.,
             maxiter: int | None = None, M: Any = None, callback: Callback = None) -> tuple[Any, int]:
    """Solve A x = b for any square A (N, N) by stabilised biconjugate gradients.

    Parameters, results and errors are those of `cg`; the number returned is -10 or -11 if one of the products
    that the method divides by vanished.  Source: scipy.sparse.linalg.bicgstab.
    """
    system = System("bicgstab", A, M, x0, b)
    size = norm(system.b)
    goal = tolerance("bicgstab", size, atol, rtol)
    if size == 0:
        return system.b, 0
    maxiter = system.size * 10 if maxiter is None else maxiter
    x, dot, matvec, solve = system.x, system.dot, system.A.matvec, system.M.matvec
    least = numpy.finfo(x.dtype).eps ** 2
    r = system.residual()
    shadow = r.copy()
    rr, rho = square(r), dot(shadow, r)
    steps: Any = None, None, None
    before, alpha, omega = steps
    p = v = z = w = t = steps[0]
    for iteration in range(maxiter):
        size = root(rr)
        if size < goal:
            return x, 0
        system.watch.check(size, r, iteration, ("M", z), ("A", v), ("M", w), ("A", t))
        rho = value(rho)
        if abs(rho) < least:
            return x, -10
        if p is None:
            p = r.copy()
        else:
            if abs(omega) < least:
                return x, -11
            p -= omega * v
            p *= (rho / before) * (alpha / omega)
            p += r
        z = solve(p)
        v = matvec(z)
        divisor = dot(shadow, v)
        stays = divisor == 0
        alpha = np.where(stays, 0, rho / np.where(stays, 1, divisor))
        r -= alpha * v
        ss = square(r)
        if system.waits or base.ready(v):  # so A will for r: what decides whether it is asked is read before
            if value(divisor) == 0:
                return x, -11
            if root(ss) < goal:
                x += alpha * z
                return x, 0
        w = solve(r)
        t = matvec(w)
        tr, tt = dot(t, r), dot(t, t)
        stays = stays | (np.sqrt(ss) < goal)
        omega = np.where(stays, 0, tr / np.where(stays, 1, tt))
        x += alpha * z
        x += np.where(stays, 0, omega * w)  # not even NaN of M or A may get in where SciPy asks neither
        r = r - omega * t
        rr, following = square(r), dot(shadow, r)
        if value(divisor) == 0:
            return x, -11
        if root(ss) < goal:
            return x, 0
        before, rho, alpha, omega = rho, following, value(alpha), value(omega)
        if callback:
            callback(x)
    return unfinished(system, maxiter, rr, ("M", z), ("A", v), ("M", w), ("A", t))

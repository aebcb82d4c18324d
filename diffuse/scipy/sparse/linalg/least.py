"""Least squares by Golub-Kahan bidiagonalisation: `lsqr`, for any matrix, square or not.

One read an iteration: the lengths of the two new vectors, and of the direction that x moves along, which was
recorded the iteration before.

Source: C. C. Paige and M. A. Saunders, "LSQR: an algorithm for sparse linear equations and sparse least
squares", 1982; the documentation of scipy.sparse.linalg.lsqr.
"""

from __future__ import annotations

import math
from typing import Any

import numpy

import diffuse.numpy as np
from diffuse.scipy.sparse.linalg import conversion
from diffuse.scipy.sparse.linalg.convergence import Watch, known, norm, root, square, value
from diffuse.scipy.sparse.linalg.system import operator

EPS = numpy.finfo(numpy.float64).eps

Found = tuple[Any, int, int, Any, Any, Any, Any, Any, Any, Any]


def lsqr(A: Any, b: Any, damp: float = 0.0, atol: float = 1e-6, btol: float = 1e-6, conlim: float = 1e8,
         iter_lim: int | None = None, show: bool = False, calc_var: bool = False, x0: Any = None) -> Found:
    """The x (N,) that minimises |b - A x|^2 + damp^2 |x - x0|^2 for an A (M, N) and b (M,).

    Ends when the residual is small by `atol` and `btol`, when A's condition passes `conlim`, or after
    `iter_lim` iterations (2 N).  Returns x, why it ended (1: A x = b, 2: least squares, 3: conlim, 4 to 6:
    the same within rounding, 7: iter_lim, 0: x0 solves it), the iterations, |r|, the damped |r|, estimates of
    A's Frobenius norm and condition, of |A^T r| and of |x|, and, with `calc_var`, of the diagonal of
    (A^T A)^-1.  With `show` it is SciPy's.

    Raises ValueError for shapes that do not fit and for NaN in b or x0, FloatingPointError where A returns
    NaN.  Source: scipy.sparse.linalg.lsqr.
    """
    if show:
        found: Found = conversion.scipys("lsqr", A, b, damp, atol, btol, conlim, iter_lim, show, calc_var, x0)
        return found
    A = operator(A)
    b = np.atleast_1d(conversion.vector(b))
    if b.ndim > 1:
        b = b.squeeze()
    rows, columns = A.shape
    if b.shape != (rows,):
        raise ValueError(f"lsqr: shapes of A {A.shape} and b {b.shape} are incompatible; "
                         f"b is to be ({rows},)")
    iter_lim = 2 * columns if iter_lim is None else iter_lim
    size = norm(b)
    x = np.zeros(columns) if x0 is None else conversion.vector(x0)
    u = b if x0 is None else b - A.matvec(x)
    beta = size if x0 is None else norm(u)
    watch = Watch("lsqr", b, x0 if x0 is None else x)
    if numpy.isnan(beta) and iter_lim > 0:
        raise watch.stop(0, ("A", u))
    alfa: Any = 0
    v = x.copy()
    if beta > 0:
        u = (1 / beta) * u
        v = A.rmatvec(u)
        alfa = norm(v)
        if numpy.isnan(alfa) and iter_lim > 0:
            raise watch.stop(0, ("AH", v))
    if alfa > 0:
        v = (1 / alfa) * v
    variance = np.zeros(columns)
    if alfa * beta == 0:
        return x, 0, 0, beta, beta, 0, 0, alfa * beta, 0, variance
    state = _Bidiagonal(damp, alfa, beta, size)
    return _iterate(A, state, x, u, v, variance if calc_var else None, variance,
                    _Limits(atol, btol, 1 / conlim if conlim > 0 else 0, iter_lim), watch)


class _Limits:
    """When to end."""

    def __init__(self, atol: Any, btol: Any, ctol: Any, iterations: int) -> None:
        self.atol, self.btol, self.ctol, self.iterations = atol, btol, ctol, iterations


def _iterate(A: Any, state: _Bidiagonal, x: Any, u: Any, v: Any, variance: Any, zeros: Any, limits: _Limits,
             watch: Watch) -> Found:
    w = v.copy()
    ww = square(w)
    count = why = 0
    while count < limits.iterations:
        count += 1
        image = A.matvec(v)
        u = image - state.alfa * u
        uu = square(u)
        gone = uu == 0
        scale = 1 / np.sqrt(np.where(gone, 1, uu))  # where u vanished, v and alfa stay, and this is not used
        ahead = u * scale
        back = v if known(uu) and value(uu) == 0 else A.rmatvec(ahead)
        following = back - np.sqrt(uu) * v
        vv = square(following)
        beta, length = root(uu), root(ww)
        if numpy.isnan(beta):
            raise watch.stop(count, ("A", image))
        if beta > 0:
            u = ahead
            alfa = root(vv)
            v = (1 / alfa) * following if alfa > 0 else following
        else:
            alfa = state.alfa
        step, turn, rho = state.advance(alfa, beta, length)
        if variance is not None:
            variance = variance + ((1 / rho) * w) ** 2
        x = x + step * w
        w = v + turn * w
        ww = square(w)
        why = state.verdict(count, limits)
        if why:
            break
        if numpy.isnan(alfa):
            raise watch.stop(count, ("A", image), ("AH", back))
    return (x, why, count, state.r1norm, state.rnorm, state.anorm, state.acond, state.arnorm, state.xnorm,
            zeros if variance is None else variance)


class _Bidiagonal:
    """The rotations that make the bidiagonal matrix triangular, and the norms that they tell of."""

    def __init__(self, damp: Any, alfa: Any, beta: Any, bnorm: Any) -> None:
        self.damp, self.alfa, self.bnorm = damp, alfa, bnorm
        self.rhobar, self.phibar = alfa, beta
        self.rnorm = self.r1norm = beta
        self.arnorm = alfa * beta
        zero: Any = 0
        self.anorm = self.acond = self.xnorm = zero
        self.directions = self.residues = self.squares = self.z = zero
        self.cs, self.sn = -1, 0

    def advance(self, alfa: Any, beta: Any, length: Any) -> tuple[Any, Any, Any]:
        """One step with the new lengths alfa and beta, along a direction w of length `length`: how far x goes
        along w, how much of w stays in the next direction, and the diagonal element."""
        if beta > 0:
            self.anorm = math.sqrt(self.anorm ** 2 + self.alfa ** 2 + beta ** 2 + self.damp ** 2)
        self.alfa = alfa
        rhobar, psi = self.rhobar, 0.0
        if self.damp > 0:
            rhobar = math.sqrt(self.rhobar ** 2 + self.damp ** 2)
            psi = self.damp / rhobar * self.phibar
            self.phibar = self.rhobar / rhobar * self.phibar
        cs, sn, rho = rotation(rhobar, beta)
        theta, self.rhobar = sn * alfa, -cs * alfa
        phi, self.phibar = cs * self.phibar, sn * self.phibar
        self.directions += (length / rho) ** 2
        self._estimate(rho, theta, phi, psi)
        self.arnorm = alfa * abs(sn * phi)
        return phi / rho, -theta / rho, rho

    def _estimate(self, rho: Any, theta: Any, phi: Any, psi: Any) -> None:
        """The norms of x and of the residual, and A's condition."""
        delta, gambar = self.sn * rho, -self.cs * rho
        right = phi - delta * self.z
        self.xnorm = math.sqrt(self.squares + (right / gambar) ** 2)
        gamma = math.sqrt(gambar ** 2 + theta ** 2)
        self.cs, self.sn = gambar / gamma, theta / gamma
        self.z = right / gamma
        self.squares += self.z ** 2
        self.acond = self.anorm * math.sqrt(self.directions)
        self.residues += psi ** 2
        self.rnorm = self.r1norm = math.sqrt(self.phibar ** 2 + self.residues)
        if self.damp > 0:
            undamped = self.rnorm ** 2 - self.damp ** 2 * self.squares
            self.r1norm = math.copysign(math.sqrt(abs(undamped)), undamped)

    def verdict(self, count: int, limits: _Limits) -> int:
        """Why to end now, 0 to go on."""
        small = self.rnorm / self.bnorm
        normal = self.arnorm / (self.anorm * self.rnorm + EPS)
        condition = 1 / (self.acond + EPS)
        growth = self.anorm * self.xnorm / self.bnorm
        tests = ((small <= limits.btol + limits.atol * growth, 1), (normal <= limits.atol, 2),
                 (condition <= limits.ctol, 3), (1 + small / (1 + growth) <= 1, 4), (1 + normal <= 1, 5),
                 (1 + condition <= 1, 6), (count >= limits.iterations, 7))
        return next((meaning for holds, meaning in tests if holds), 0)


def rotation(a: Any, b: Any) -> tuple[Any, Any, Any]:
    """The cosine, sine and length r of the plane rotation that turns (a, b) into (r, 0); r has b's sign, or
    a's where that is longer."""
    if b == 0:
        return numpy.sign(a), 0, abs(a)
    if a == 0:
        return 0, numpy.sign(b), abs(b)
    if abs(b) > abs(a):
        ratio = a / b
        sine = numpy.sign(b) / math.sqrt(1 + ratio * ratio)
        return sine * ratio, sine, b / sine
    ratio = b / a
    cosine = numpy.sign(a) / math.sqrt(1 + ratio * ratio)
    return cosine, cosine * ratio, a / cosine

"""What every solver is given, made ready: the operator, the preconditioner, the first guess, the tolerance.

Source: the documentation of the solvers of scipy.sparse.linalg (parameters, shapes, element types, errors).
"""

from __future__ import annotations

from typing import Any

import numpy
import scipy.sparse.linalg

import diffuse.numpy as np
from diffuse.scipy.sparse.linalg import convergence, conversion
from diffuse.scipy.sparse.linalg.convergence import Watch
from diffuse.scipy.sparse.linalg.interface import LinearOperator
from diffuse.scipy.sparse.linalg.matrices import IdentityOperator, MatrixLinearOperator, aslinearoperator

FLOATS = "fdFD"
"""Element types that solvers compute in; others count as float64."""


class System:
    """A x = b for a solver called `name`: (N, N), right side (N,) or (N, 1), vectors of one element type.

    Raises ValueError for an operator that is not square and for shapes that do not fit, TypeError for an
    operator of no known type.
    """

    def __init__(self, name: str, A: Any, M: Any, x0: Any, b: Any) -> None:
        given = A
        self.A = A = operator(A)
        if A.shape[0] != A.shape[1]:
            raise ValueError(f"{name}: expected square matrix, but got shape={A.shape}")
        n = A.shape[0]
        b = conversion.vector(b)
        if b.shape not in ((n,), (n, 1)):
            raise ValueError(f"{name}: shapes of A {A.shape} and b {b.shape} are incompatible; "
                             f"b is to be ({n},)")
        if b.dtype.char not in FLOATS:
            b = b.astype(numpy.float64)
        kind = A.matvec(b).dtype if getattr(A, "dtype", None) is None else A.dtype
        self.dtype = numpy.result_type(kind if kind.char in FLOATS else numpy.float64, b.dtype)
        self.b = (b if b.dtype == self.dtype else b.astype(self.dtype)).ravel()
        self.waits = isinstance(getattr(A, "A", None), scipy.sparse.linalg.LinearOperator)
        """Are A's functions SciPy's, which see NumPy arrays, so that each product waits for its operand?"""
        self.M = preconditioner(name, A, M, given)
        self.plain = type(self.M) is IdentityOperator
        """Is there nothing to precondition with?"""
        self.x = self._guess(name, n, x0)
        self.started = x0 is not None
        self.size = n
        complex_ = self.dtype.kind == "c"
        self.dot = convergence.vdot if complex_ else convergence.dot
        self.conj = np.conj if complex_ else _same
        self.watch = Watch(name, self.b, self.x.copy() if self.started else None)

    def _guess(self, name: str, n: int, x0: Any) -> Any:
        """The array that becomes the solution: never the caller's."""
        if x0 is None:
            return np.zeros(n, dtype=self.dtype)
        if isinstance(x0, str):
            if x0 != "Mb":
                raise ValueError(f"{name}: x0={x0!r}: expected an array, or 'Mb' for M @ b")
            return self.M.matvec(self.b.copy())
        x = np.array(conversion.vector(x0), dtype=self.dtype)
        if x.shape not in ((n,), (n, 1)):
            raise ValueError(f"{name}: shapes of A {self.A.shape} and x0 {x.shape} are incompatible; "
                             f"x0 is to be ({n},)")
        return x.ravel()

    def residual(self) -> Any:
        """b - A x for the first guess, as an array of its own."""
        if self.started and bool(self.x.any()):
            return self.b - self.A.matvec(self.x)
        return self.b.copy()


def _same(x: Any) -> Any:
    return x


def operator(A: Any) -> Any:
    """The operator of a system whose products are taken again and again: recorded if that can be done.

    A dense matrix of NumPy's is copied, for operations on what the program holds too run at once.
    """
    if isinstance(A, numpy.ndarray) and A.ndim <= 2:
        return MatrixLinearOperator(np.atleast_2d(np.array(A)))
    if conversion.is_scipys(A):
        return MatrixLinearOperator(conversion.recorded(A))
    if isinstance(A, scipy.sparse.linalg.LinearOperator):
        matrix = getattr(A, "A", None) if type(A).__name__ == "MatrixLinearOperator" else None
        if conversion.is_scipys(matrix):
            return MatrixLinearOperator(conversion.recorded(matrix))
    return aslinearoperator(A)


def preconditioner(name: str, A: Any, M: Any, given: Any) -> Any:
    """M as an operator; without one the identity, or the functions that A brings along (SciPy's old way)."""
    if M is not None:
        M = operator(M)
        if M.shape != A.shape:
            raise ValueError(f"{name}: matrix and preconditioner have different shapes: {A.shape}, {M.shape}")
        return M
    operators: Any = LinearOperator
    solve, adjoint = getattr(given, "psolve", None), getattr(given, "rpsolve", None)
    if solve is None and adjoint is None:
        return IdentityOperator(A.shape, A.dtype)
    return operators(A.shape, matvec=solve or _same, rmatvec=adjoint or _same, dtype=A.dtype)


def tolerance(name: str, size: Any, atol: Any, rtol: Any) -> float:
    """The residual's norm below which a solution is good enough: the larger of atol and rtol |b|."""
    if atol is None or isinstance(atol, str) or atol < 0:
        raise ValueError(f"'scipy.sparse.linalg.{name}' called with invalid `atol`={atol}; "
                         "if set, `atol` must be a real, non-negative number.")
    return max(float(atol), float(rtol) * float(size))


def unfinished(system: System, maxiter: int, squared: Any, *products: tuple[str, Any]) -> tuple[Any, int]:
    """The answer when iterations run out: what there is, and how many there were; raises where x is NaN."""
    if maxiter > 0 and not numpy.isfinite(convergence.root(squared)) and convergence.spoilt(system.x):
        raise system.watch.stop(maxiter, *products)
    return system.x, maxiter

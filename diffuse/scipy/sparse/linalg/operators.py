"""`LinearOperator` over Diffuse's arrays (SciPy's class, executed by `sources`), and conversions to it.

Vectors that a user's function receives and returns are lazy arrays, so that a `matvec` written in array code
is recorded and fuses with the solver's own operations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import scipy.sparse.linalg

import diffuse.numpy as np
from diffuse.scipy.sparse.linalg import conversion
from diffuse.scipy.sparse.linalg.conversion import PRODUCTS
from diffuse.scipy.sparse.linalg.sources import LinearOperator, MatrixLinearOperator, load
from diffuse.scipy.sparse.linalg.watch import Watch
from diffuse.scipy.sparse.state import Sparse


class ForeignOperator(LinearOperator):
    """An operator or sparse matrix of SciPy's, whose products receive NumPy arrays."""

    def __init__(self, A: Any) -> None:
        self.A = self.real = scipy.sparse.linalg.aslinearoperator(A)
        super().__init__(self.real.dtype, A.shape)
        self.args = (A,)

    @staticmethod
    def _called(name: str) -> Callable[[Any, Any], Any]:
        def product(self: Any, x: Any) -> Any:
            found = conversion.call(getattr(self.real, name), (x,), {})
            return found if found is x else np.array(found)  # the function may reuse its buffer

        return product

    _matvec, _rmatvec, _matmat, _rmatmat = map(_called, PRODUCTS)


def is_foreign(A: Any) -> bool:
    """Is it an operator of SciPy's, over NumPy's arrays?"""
    return isinstance(A, LinearOperator) and not conversion.is_operator(A)


def aslinearoperator(A: Any) -> Any:
    """`A` as a LinearOperator: a dense or sparse array, an operator, or an object with `shape` and `matvec`.

    Raises ValueError for arrays of more than two dimensions (before SciPy 1.18, which takes them for many
    operators), TypeError for other objects.
    """
    if is_foreign(A) or conversion.is_scipys(A):
        return ForeignOperator(A)
    return load("_interface").aslinearoperator(A)


def operand(A: Any) -> Any:
    """Convert a solver's operator; its products, which are taken often, are recorded if possible.

    A matrix of NumPy's or SciPy's is copied, because operations on arrays that the program holds run at once.
    """
    if isinstance(A, numpy.ndarray) and A.ndim <= 2:
        A = np.array(A)
    elif is_foreign(A) and conversion.is_scipys(getattr(A, "A", None)):
        A = conversion.recorded(A.A)
    elif conversion.is_scipys(A):
        A = conversion.recorded(A)
    return aslinearoperator(A)


class Observed(LinearOperator):
    """An operator whose products a `watch.Watch` observes; `given` is the program's argument."""

    def __init__(self, watch: Watch, key: str, given: Any) -> None:
        real = operand(given)
        super().__init__(real.dtype, real.shape)
        if isinstance(real, MatrixLinearOperator) and isinstance(real.A, Sparse):
            self.matvec = watch.multiplied(key, lambda: real.A)
            self.rmatvec = watch.multiplied(key + "H", lambda: real.H.A)
        else:
            self.matvec = watch.observed(key, real.matvec)
            self.rmatvec = watch.observed(key + "H", real.rmatvec)
        for name in ("psolve", "rpsolve"):  # a preconditioner that is an attribute of A
            if hasattr(given, name):
                setattr(self, name, watch.observed("M" if name == "psolve" else "MH", getattr(given, name)))

    def _matvec(self, x: Any) -> Any:
        return self.matvec(x)


class Identity(LinearOperator):
    """The identity, in place of a preconditioner."""

    def _matvec(self, x: Any) -> Any:
        return x

    matvec = rmatvec = _matvec

"""From a matrix to an operator: dense and sparse arrays, SciPy's operators, and the identity.

Source: the documentation of scipy.sparse.linalg.aslinearoperator.
"""

from __future__ import annotations

from typing import Any

import numpy
import scipy.sparse.linalg

import diffuse.numpy as np
from diffuse.numpy.arrays import base
from diffuse.scipy.sparse.linalg import conversion
from diffuse.scipy.sparse.linalg.interface import LinearOperator


class MatrixLinearOperator(LinearOperator):
    """The products with a matrix (M, N): a Diffuse or NumPy array, or a sparse array of either library."""

    def __init__(self, A: Any) -> None:
        super().__init__(A.dtype, A.shape)
        self.A = self.matrix = A
        self._other: Any = None
        self.args = (A,)

    def _product(self, x: Any) -> Any:
        if not conversion.is_scipys(self.A):
            return self.A @ x
        return conversion.call(self.A.dot, (x,), {})

    def _matvec(self, x: Any) -> Any:
        return self._product(x)

    def _matmat(self, X: Any) -> Any:
        return self._product(X)

    def _adjoint(self) -> Any:
        if self._other is None:
            self._other = _AdjointMatrixOperator(self.A)
        return self._other


class _AdjointMatrixOperator(MatrixLinearOperator):
    """The products with the conjugate transpose of a matrix."""

    def __init__(self, A: Any) -> None:
        super().__init__(A.T.conj() if numpy.dtype(A.dtype).kind == "c" else A.T)
        self.args = (A,)

    def _adjoint(self) -> Any:
        return MatrixLinearOperator(self.args[0])


class IdentityOperator(LinearOperator):
    """What changes nothing: each product is its operand itself."""

    def __init__(self, shape: Any, dtype: Any = None) -> None:
        super().__init__(dtype, shape)

    def _matvec(self, x: Any) -> Any:
        return x

    def _rmatvec(self, x: Any) -> Any:
        return x

    def _matmat(self, X: Any) -> Any:
        return X

    def _rmatmat(self, X: Any) -> Any:
        return X

    def _adjoint(self) -> Any:
        return self


class ForeignOperator(LinearOperator):
    """An operator of SciPy's, whose functions see NumPy arrays, or any object with `shape` and `matvec`,
    whose functions see the program's."""

    def __init__(self, A: Any) -> None:
        super().__init__(getattr(A, "dtype", None), A.shape)
        self.A = A
        self.args = (A,)
        self._init_dtype()

    def _run(self, name: str, x: Any) -> Any:
        function = getattr(self.A, name, None)
        if function is None:
            raise NotImplementedError(f"{name} is not defined by {type(self.A).__name__}")
        if not isinstance(self.A, scipy.sparse.linalg.LinearOperator):
            return function(x)
        found = conversion.call(function, (x,), {})
        return found if found is x else np.array(found)  # it may be a buffer that the operator uses again

    def _matvec(self, x: Any) -> Any:
        return self._run("matvec", x)

    def _rmatvec(self, x: Any) -> Any:
        return self._run("rmatvec", x)

    def _matmat(self, X: Any) -> Any:
        return self._run("matmat", X) if hasattr(self.A, "matmat") else super()._matmat(X)

    def _rmatmat(self, X: Any) -> Any:
        if hasattr(self.A, "rmatmat"):
            return self._run("rmatmat", X)
        return np.hstack([self.rmatvec(column.reshape(-1, 1)) for column in X.T])


def aslinearoperator(A: Any) -> Any:
    """`A` as a LinearOperator: a dense or sparse array, an operator, or an object with `shape` and `matvec`.

    Raises ValueError for arrays of more than two dimensions, TypeError for what is none of these.
    """
    if isinstance(A, LinearOperator):
        return A
    if isinstance(A, base.Array | numpy.ndarray):
        A = np.asarray(numpy.asarray(A) if isinstance(A, numpy.matrix) else A)
        if A.ndim > 2:
            raise ValueError(f"array must have ndim <= 2, got {A.ndim} dimensions")
        return MatrixLinearOperator(np.atleast_2d(A))
    if conversion.is_sparse(A):
        return MatrixLinearOperator(A)
    if hasattr(A, "shape") and hasattr(A, "matvec"):
        return ForeignOperator(A)
    raise TypeError(f"type not understood: {type(A).__name__}; expected a dense or sparse array, a "
                    "LinearOperator, or an object with shape and matvec")

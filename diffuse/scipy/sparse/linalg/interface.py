"""`LinearOperator`: from a matrix, or functions that apply one, to an object that solvers multiply by.

SciPy's class over Diffuse arrays: vectors that go into a user's function and come out of it are lazy arrays,
so that a `matvec` written in array code is recorded and fuses with the solver's own operations.  Sums,
products, multiples, powers, transposes and adjoints are operators again and compute when they are applied.

Source: the documentation of scipy.sparse.linalg.LinearOperator.
"""

from __future__ import annotations

import types
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy

import diffuse.numpy as np
from diffuse.numpy.arrays import base
from diffuse.scipy.sparse.linalg import conversion

FORWARD = ("matvec", "matmat")
ADJOINT = {"matvec": "rmatvec", "rmatvec": "matvec", "matmat": "rmatmat", "rmatmat": "matmat"}
"""The product with an operator, and the product with its adjoint."""


def is_scalar(x: Any) -> bool:
    """`numpy.isscalar`, without waiting for a lazy scalar."""
    return type(x) is base.scalar_class or numpy.isscalar(x)


class LinearOperator(conversion.Operator):
    """Something that multiplies vectors: `LinearOperator(shape, matvec, rmatvec=None, matmat=None,
    dtype=None, rmatmat=None)`, or a subclass that defines `_matvec` or `_matmat`, and `_rmatvec` or
    `_adjoint`.

    `shape` is (M, N).  `matvec(v)` takes (N,) or (N, 1) and gives M elements, `rmatvec` is the product with
    the conjugate transpose, `matmat` and `rmatmat` take matrices; all see and give Diffuse arrays.  Where
    `dtype` is None, one product with zeros finds it.  Raises ValueError for shapes that do not fit.
    """

    ndim = 2
    __array_ufunc__ = None  # NumPy's operators leave the answer to this class
    __class_getitem__: Any = classmethod(types.GenericAlias)

    args: tuple[Any, ...]

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls is LinearOperator:
            return super().__new__(_CustomLinearOperator)
        if cls._matvec is LinearOperator._matvec and cls._matmat is LinearOperator._matmat:
            warnings.warn("LinearOperator subclass should implement at least one of _matvec and _matmat; "
                          f"{cls.__name__} has neither", RuntimeWarning, stacklevel=2)
        return super().__new__(cls)

    if TYPE_CHECKING:
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            """As `__new__` decides: a subclass is given (dtype, shape), the class itself functions."""

    def __init__(self, dtype: Any, shape: Any) -> None:  # type: ignore[no-redef]
        shape = tuple(shape)
        if len(shape) != 2 or not all(conversion.is_integer(n) and n >= 0 for n in shape):
            raise ValueError(f"invalid shape {shape!r} (must be 2-d): expected two whole numbers (M, N)")
        self.dtype = None if dtype is None else numpy.dtype(dtype)
        self.shape = shape

    def _init_dtype(self) -> None:
        """The type of a product with zeros, where none was given."""
        if self.dtype is None:
            try:
                self.dtype = np.asarray(self.matvec(np.zeros(self.shape[-1], dtype=np.int8))).dtype
            except OverflowError:
                self.dtype = numpy.dtype(int)

    # -- what a subclass defines, or these make from one another -----------------------------------------

    def _matvec(self, x: Any) -> Any:
        return self.matmat(x.reshape(-1, 1))

    def _matmat(self, X: Any) -> Any:
        return np.hstack([self.matvec(column.reshape(-1, 1)) for column in X.T])

    def _rmatvec(self, x: Any) -> Any:
        if type(self)._adjoint is not LinearOperator._adjoint:
            return self.H.matvec(x)
        if type(self)._rmatmat is not LinearOperator._rmatmat:
            return self._rmatmat(x.reshape(-1, 1)).reshape(-1)
        raise NotImplementedError(f"{type(self).__name__} has no product with its adjoint: "
                                  "define _rmatvec or _adjoint, or pass rmatvec=")

    def _rmatmat(self, X: Any) -> Any:
        if type(self)._adjoint is not LinearOperator._adjoint:
            return self.H.matmat(X)
        return np.hstack([self.rmatvec(column.reshape(-1, 1)) for column in X.T])

    def _adjoint(self) -> Any:
        return _AdjointLinearOperator(self)

    def _transpose(self) -> Any:
        return _TransposedLinearOperator(self)

    # -- products ----------------------------------------------------------------------------------------

    def matvec(self, x: Any) -> Any:
        """The product with a vector (N,) or (N, 1), of shape (M,) or (M, 1); ValueError for other shapes."""
        return self._vector(x, self._matvec, self.shape[1], self.shape[0], "matvec")

    def rmatvec(self, x: Any) -> Any:
        """The product of the adjoint with a vector (M,) or (M, 1), of shape (N,) or (N, 1)."""
        return self._vector(x, self._rmatvec, self.shape[0], self.shape[1], "rmatvec")

    def _vector(self, x: Any, apply: Callable[[Any], Any], taken: int, given: int, name: str) -> Any:
        matrix = isinstance(x, numpy.matrix)
        x = conversion.vector(x)
        if x.shape != (taken,) and x.shape != (taken, 1):
            raise ValueError(f"dimension mismatch: {name} of an operator of shape {self.shape} takes vectors "
                             f"of shape ({taken},) or ({taken}, 1), got {x.shape}")
        y = conversion.vector(apply(x))
        if y.size != given:
            raise ValueError(f"invalid shape returned by user-defined {name}(): {given} elements expected of "
                             f"an operator of shape {self.shape}, got an array of shape {y.shape}")
        y = y.reshape(given) if x.ndim == 1 else y.reshape(given, 1)
        return numpy.asmatrix(numpy.asarray(y)) if matrix else y

    def matmat(self, X: Any) -> Any:
        """The product with a matrix (N, K), of shape (M, K); ValueError for other shapes."""
        return self._matrix(X, self._matmat, self.shape[1])

    def rmatmat(self, X: Any) -> Any:
        """The product of the adjoint with a matrix (M, K), of shape (N, K)."""
        return self._matrix(X, self._rmatmat, self.shape[0])

    def _matrix(self, X: Any, apply: Callable[[Any], Any], taken: int) -> Any:
        sparse, matrix = conversion.is_sparse(X), isinstance(X, numpy.matrix)
        if not sparse:
            X = conversion.vector(X)
        if X.ndim != 2:
            raise ValueError(f"expected 2-d ndarray or matrix, not {X.ndim}-d")
        if X.shape[0] != taken:
            raise ValueError(f"dimension mismatch: {self.shape}, {X.shape}")
        try:
            Y = apply(X)
        except Exception as error:
            if sparse:
                raise TypeError("Unable to multiply a LinearOperator with a sparse matrix. "
                                "Wrap the matrix in aslinearoperator first.") from error
            raise
        if conversion.is_sparse(Y):
            return Y
        return numpy.asmatrix(numpy.asarray(Y)) if matrix else conversion.vector(Y)

    def dot(self, x: Any) -> Any:
        """The product with another operator (an operator), a number (an operator), a vector or a matrix."""
        if isinstance(x, LinearOperator):
            return _ProductLinearOperator(self, x)
        if is_scalar(x):
            return _ScaledLinearOperator(self, x)
        if not conversion.is_sparse(x):
            x = conversion.vector(x)
        if x.ndim == 1 or x.ndim == 2 and x.shape[1] == 1:
            return self.matvec(x)
        if x.ndim == 2:
            return self.matmat(x)
        raise ValueError(f"expected 1-d or 2-d array or matrix, got {x!r}")

    def _rdot(self, x: Any) -> Any:
        """`x` times this operator."""
        if isinstance(x, LinearOperator):
            return _ProductLinearOperator(x, self)
        if is_scalar(x):
            return _ScaledLinearOperator(self, x)
        if not conversion.is_sparse(x):
            x = conversion.vector(x)
        if x.ndim == 1 or x.ndim == 2 and x.shape[0] == 1:
            return self.T.matvec(x.T).T
        if x.ndim == 2:
            return self.T.matmat(x.T).T
        raise ValueError(f"expected 1-d or 2-d array or matrix, got {x!r}")

    # -- operators ---------------------------------------------------------------------------------------

    def __call__(self, x: Any) -> Any:
        return self @ x

    def __mul__(self, x: Any) -> Any:
        return self.dot(x)

    def __rmul__(self, x: Any) -> Any:
        return self._rdot(x)

    def __matmul__(self, other: Any) -> Any:
        if is_scalar(other):
            raise ValueError("Scalar operands are not allowed, use '*' instead")
        return self.dot(other)

    def __rmatmul__(self, other: Any) -> Any:
        if is_scalar(other):
            raise ValueError("Scalar operands are not allowed, use '*' instead")
        return self._rdot(other)

    def __truediv__(self, other: Any) -> Any:
        if not is_scalar(other):
            raise ValueError("Can only divide a linear operator by a scalar.")
        return _ScaledLinearOperator(self, 1.0 / other)

    def __pow__(self, p: Any) -> Any:
        return _PowerLinearOperator(self, p) if is_scalar(p) else NotImplemented

    def __add__(self, x: Any) -> Any:
        return _SumLinearOperator(self, x) if isinstance(x, LinearOperator) else NotImplemented

    def __neg__(self) -> Any:
        return _ScaledLinearOperator(self, -1)

    def __sub__(self, x: Any) -> Any:
        return self.__add__(-x)

    def __repr__(self) -> str:
        rows, columns = self.shape
        kind = "unspecified dtype" if self.dtype is None else f"dtype={self.dtype}"
        return f"<{rows}x{columns} {type(self).__name__} with {kind}>"

    def adjoint(self) -> Any:
        """The conjugate transpose; also `.H`."""
        return self._adjoint()

    def transpose(self) -> Any:
        """The transpose; also `.T`."""
        return self._transpose()

    H = property(adjoint)
    T = property(transpose)


class _CustomLinearOperator(LinearOperator):
    """An operator given by functions."""

    def __init__(self, shape: Any, matvec: Any, rmatvec: Any = None, matmat: Any = None, dtype: Any = None,
                 rmatmat: Any = None) -> None:
        super().__init__(dtype, shape)
        self.args = ()
        self._functions = {"matvec": matvec, "rmatvec": rmatvec, "matmat": matmat, "rmatmat": rmatmat}
        self._init_dtype()

    def _matvec(self, x: Any) -> Any:
        return self._functions["matvec"](x)

    def _rmatvec(self, x: Any) -> Any:
        function = self._functions["rmatvec"]
        if function is None:
            raise NotImplementedError(f"rmatvec is not defined for {self!r}: pass rmatvec= to LinearOperator")
        return function(x)

    def _matmat(self, X: Any) -> Any:
        function = self._functions["matmat"]
        return super()._matmat(X) if function is None else function(X)

    def _rmatmat(self, X: Any) -> Any:
        function = self._functions["rmatmat"]
        return super()._rmatmat(X) if function is None else function(X)

    def _adjoint(self) -> Any:
        swapped: Any = {name: self._functions[other] for name, other in ADJOINT.items()}
        return _CustomLinearOperator(shape=self.shape[::-1], dtype=self.dtype, **swapped)


class _Derived(LinearOperator):
    """An operator made of others; `_apply` computes any of the four products."""

    def __init__(self, dtype: Any, shape: Any, *args: Any) -> None:
        super().__init__(dtype, shape)
        self.args = args

    def _apply(self, product: str, x: Any) -> Any:
        raise NotImplementedError

    def _matvec(self, x: Any) -> Any:
        return self._apply("matvec", x)

    def _rmatvec(self, x: Any) -> Any:
        return self._apply("rmatvec", x)

    def _matmat(self, X: Any) -> Any:
        return self._apply("matmat", X)

    def _rmatmat(self, X: Any) -> Any:
        return self._apply("rmatmat", X)


class _AdjointLinearOperator(_Derived):
    def __init__(self, A: Any) -> None:
        super().__init__(A.dtype, A.shape[::-1], A)
        self.A = A

    def _apply(self, product: str, x: Any) -> Any:
        return getattr(self.A, "_" + ADJOINT[product])(x)


class _TransposedLinearOperator(_Derived):
    def __init__(self, A: Any) -> None:
        super().__init__(A.dtype, A.shape[::-1], A)
        self.A = A

    def _apply(self, product: str, x: Any) -> Any:
        return np.conj(getattr(self.A, "_" + ADJOINT[product])(np.conj(x)))


def _common(operators: tuple[Any, ...], kinds: tuple[Any, ...] = ()) -> Any:
    """The type of what operators give together; None where one does not say."""
    return numpy.result_type(*kinds, *[A.dtype for A in operators])


def _check(*operators: Any) -> None:
    if not all(isinstance(A, LinearOperator) for A in operators):
        kinds = ", ".join(type(A).__name__ for A in operators)
        raise ValueError(f"operands have to be a LinearOperator, got {kinds}; aslinearoperator makes one")


class _SumLinearOperator(_Derived):
    def __init__(self, A: Any, B: Any) -> None:
        _check(A, B)
        if A.shape != B.shape:
            raise ValueError(f"cannot add {A} and {B}: shape mismatch")
        super().__init__(_common((A, B)), A.shape, A, B)

    def _apply(self, product: str, x: Any) -> Any:
        A, B = self.args
        return getattr(A, product)(x) + getattr(B, product)(x)

    def _adjoint(self) -> Any:
        A, B = self.args
        return A.H + B.H


class _ProductLinearOperator(_Derived):
    def __init__(self, A: Any, B: Any) -> None:
        _check(A, B)
        if A.shape[1] != B.shape[0]:
            raise ValueError(f"cannot multiply {A} and {B}: shape mismatch")
        super().__init__(_common((A, B)), (A.shape[0], B.shape[1]), A, B)

    def _apply(self, product: str, x: Any) -> Any:
        A, B = self.args
        first, second = (B, A) if product in FORWARD else (A, B)
        return getattr(second, product)(getattr(first, product)(x))

    def _adjoint(self) -> Any:
        A, B = self.args
        return B.H @ A.H


class _ScaledLinearOperator(_Derived):
    def __init__(self, A: Any, alpha: Any) -> None:
        _check(A)
        if not is_scalar(alpha):
            raise ValueError(f"scalar expected as alpha, got {type(alpha).__name__}")
        if isinstance(A, _ScaledLinearOperator):
            A, before = A.args
            alpha = alpha * before
        super().__init__(_common((A,), (getattr(alpha, "dtype", type(alpha)),)), A.shape, A, alpha)

    def _apply(self, product: str, x: Any) -> Any:
        A, alpha = self.args
        return (alpha if product in FORWARD else np.conj(alpha)) * getattr(A, product)(x)

    def _adjoint(self) -> Any:
        A, alpha = self.args
        return A.H * np.conj(alpha)


class _PowerLinearOperator(_Derived):
    def __init__(self, A: Any, p: Any) -> None:
        _check(A)
        if A.shape[0] != A.shape[1]:
            raise ValueError(f"square LinearOperator expected, got {A!r}")
        if not conversion.is_integer(p) or p < 0:
            raise ValueError(f"non-negative integer expected as p, got {p!r}")
        super().__init__(A.dtype, A.shape, A, p)

    def _apply(self, product: str, x: Any) -> Any:
        A, p = self.args
        found = np.array(x, copy=True)
        for _ in range(int(p)):
            found = getattr(A, product)(found)
        return found

    def _adjoint(self) -> Any:
        A, p = self.args
        return A.H ** p

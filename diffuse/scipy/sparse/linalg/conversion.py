"""Converts a call on Diffuse's operators, sparse arrays and vectors to the same call of SciPy's, and back.

Operators become SciPy operators with our products, sparse arrays SciPy's over the same memory, Diffuse arrays
NumPy's; results come back as Diffuse's.  A warning is given once per call site, as in
`diffuse.numpy.bridge.fallback`.
"""

from __future__ import annotations

from collections.abc import Callable
from sys import getrefcount
from typing import Any

import numpy
import scipy.sparse
import scipy.sparse.linalg

import diffuse.numpy as np
from diffuse.numpy.arrays import core
from diffuse.numpy.bridge import fallback
from diffuse.numpy.ops.operands import wrap
from diffuse.scipy.sparse.conversion import Lowering, plain
from diffuse.scipy.sparse.linalg.sources import LinearOperator, MatrixLinearOperator, OperatorKind
from diffuse.scipy.sparse.state import CLASSES, Sparse
from diffuse.settings import config

NAME = "scipy.sparse.linalg"
PRODUCTS = ("matvec", "rmatvec", "matmat", "rmatmat")


def vector(x: Any) -> Any:
    """Convert to an array that solvers can record operations on: a Diffuse array as it is, anything else as a
    copy.

    Operations on a NumPy array that the program holds would run at once.
    """
    if isinstance(x, core.Array):
        return x if type(x) is core.array_class else np.asarray(x)
    return np.array(x) if isinstance(x, numpy.ndarray) else np.asarray(x)


def is_sparse(x: Any) -> bool:
    """Is it a sparse array or matrix, of Diffuse or SciPy?"""
    return isinstance(x, Sparse) or bool(scipy.sparse.issparse(x))


def is_scipys(x: Any) -> bool:
    """Is it a sparse array or matrix of SciPy?"""
    return is_sparse(x) and not isinstance(x, Sparse)


def is_operator(x: Any) -> bool:
    """Is it an operator over Diffuse's arrays?  SciPy's own are instances of the same class."""
    return LinearOperator in type(x).__mro__


def recorded(x: Any) -> Any:
    """Copy a two-dimensional SciPy matrix to one of Diffuse's, whose products are recorded; returns others as
    they are. A solver takes the product so often that the copy pays."""
    return CLASSES[scipy.sparse.csr_array](x) if x.ndim == 2 else x


class Conversion(Lowering):
    """Converts arguments, and keeps the arrays, sparse arrays and operators among them."""

    def __init__(self) -> None:
        super().__init__()
        self.work = 0
        """The stored elements of the largest sparse array, or the rows of the largest operator."""

    def lowered(self, value: Any) -> Any:
        if plain(value):
            return super().lowered(value)
        if is_operator(value):
            self.work = max(self.work, value.shape[0])
            return self._operator(value)
        if is_sparse(value):
            self.work = max(self.work, value.nnz)
        return super().lowered(value)

    def _operator(self, value: Any) -> Any:
        """A SciPy operator with our products."""
        if isinstance(value, MatrixLinearOperator):
            return scipy.sparse.linalg.aslinearoperator(self.lowered(value.A))
        return with_plain_products(value)

    def raised(self, value: Any, held: bool = True) -> Any:
        if value.__class__.__name__ == "SuperLU":  # or what stands for it (bridge/adapters.py)
            return Factorization(value)
        if callable(value) and not isinstance(value, (type, LinearOperator)):
            return _solving(value)
        return super().raised(value, held)


def with_plain_products(value: Any) -> Any:
    """A SciPy operator whose products are those of an operator over Diffuse's arrays."""
    products = {name: _plainly(getattr(value, name)) for name in PRODUCTS}
    return scipy.sparse.linalg.LinearOperator(value.shape, dtype=value.dtype, **products)


fallback.LOWERED[OperatorKind] = with_plain_products


def _plainly(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: numpy.asarray(function(x))


def _solving(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function that SciPy returned (`factorized`) for Diffuse arrays."""
    def solve(*args: Any, **kwargs: Any) -> Any:
        return call(function, args, kwargs)

    return solve


class Factorization:
    """SciPy's LU factorization (`SuperLU`) with Diffuse arrays."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def solve(self, rhs: Any, trans: str = "N") -> Any:
        """Solve A x = rhs, A^T x = rhs (`trans` "T") or A^H x = rhs ("H")."""
        if type(rhs) is not numpy.ndarray:
            return call(self._real.solve, (rhs, trans), {})
        found = self._real.solve(rhs, trans)
        if fallback.is_new(found):
            return found if found.size < core.TINY else wrap(found)
        return Conversion().raised(found)

    def __getattr__(self, name: str) -> Any:
        return Conversion().raised(getattr(self._real, name))

    def __repr__(self) -> str:
        return repr(self._real)


def call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], name: str = "") -> Any:
    """Call SciPy's `function` on Diffuse's arguments.  Given a `name`, warn of large ones, once per call
    site."""
    conversion = Conversion()
    lowered = [conversion.lowered(value) for value in args]
    named = {key: conversion.lowered(value) for key, value in kwargs.items()}
    if name and max(conversion.elements, conversion.work) > config.small:
        fallback.report(name)
    found = conversion.run(function, lowered, named, False)
    if fallback.is_new(found):
        return found if found.size < core.TINY else wrap(found)
    return conversion.raised(found, getrefcount(found) > 3)


def scipys(name: str, *args: Any, **kwargs: Any) -> Any:
    """Call the function of this name in scipy.sparse.linalg on Diffuse's arguments."""
    return call(getattr(scipy.sparse.linalg, name), args, kwargs, f"{NAME}.{name}")


def wrapped(name: str) -> Callable[..., Any]:
    """Wrap SciPy's function for Diffuse arrays, with the same name and documentation."""
    real = getattr(scipy.sparse.linalg, name)

    def run(*args: Any, **kwargs: Any) -> Any:
        return scipys(name, *args, **kwargs)

    return fallback.dressed(run, real, f"diffuse.{NAME}")

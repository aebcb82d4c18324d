"""Operators over Diffuse's arrays in the rest of SciPy, and SciPy's operators in the program."""

from __future__ import annotations

import importlib
import pickle
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy
import pytest
import scipy.linalg.interpolative
import scipy.optimize as so
import scipy.sparse.linalg

import diffuse.numpy as np
import diffuse.scipy.sparse.linalg as ours
from diffuse.settings import using
from tests.around import around

interpolative: Any = importlib.import_module("diffuse.scipy.linalg.interpolative")

A = numpy.random.default_rng(3).standard_normal((12, 5))
H = A.T @ A
LIBRARIES = (
    SimpleNamespace(np=numpy, linalg=scipy.sparse.linalg, interpolative=scipy.linalg.interpolative),
    SimpleNamespace(np=np, linalg=ours, interpolative=interpolative),
)
"""NumPy and SciPy, and Diffuse in their places.  `scipy.optimize` is SciPy's for both."""


recorded = around(using, small=0)


def operator(library: Any, values: Any) -> Any:
    return library.linalg.aslinearoperator(library.np.array(values))


def least_squares(library: Any) -> Any:
    b = library.np.ones(12)
    return so.lsq_linear(operator(library, A), b, lsq_solver="lsmr", tol=1e-12).x


def jacobian(library: Any) -> Any:
    a, b = library.np.array(A), library.np.ones(12)
    return so.least_squares(lambda x: a @ x - b, library.np.zeros(5), jac=lambda x: operator(library, A),
                            tr_solver="lsmr", xtol=1e-12).x


def hessian(library: Any) -> Any:
    h = library.np.array(H)
    return so.minimize(lambda x: x @ h @ x / 2 - x.sum(), library.np.zeros(5), jac=lambda x: h @ x - 1,
                       hess=lambda x: operator(library, H), method="trust-constr", options={"gtol": 1e-10}).x


def norm(library: Any) -> Any:
    return library.interpolative.estimate_spectral_norm(operator(library, A), rng=numpy.random.default_rng(1))


def decomposed(library: Any) -> Any:
    rng = numpy.random.default_rng(1)
    u, s, v = library.interpolative.svd(operator(library, H), 1e-9, rng=rng)
    return (u * s) @ v.T


def drawing(library: Any) -> Any:
    """SciPy's C code draws from the program's generator here."""
    rng = library.np.random.default_rng(1)
    found = library.interpolative.interp_decomp(library.np.array(H), 1e-9, rand=True, rng=rng)[1]
    return [*numpy.asarray(found), float(rng.random())]


@pytest.mark.parametrize("call", [least_squares, jacobian, hessian, norm, decomposed, drawing])
def test_scipy_takes_operators_over_our_arrays(call: Callable[[Any], Any]) -> None:
    expected, found = map(call, LIBRARIES)
    numpy.testing.assert_allclose(numpy.asarray(found), expected, rtol=1e-5, atol=1e-7)


def test_operators_are_instances_of_either_class() -> None:
    mine, theirs = operator(LIBRARIES[1], A), scipy.sparse.linalg.aslinearoperator(A)
    for x in (mine, theirs, mine.T, mine + mine):
        assert isinstance(x, ours.LinearOperator) and isinstance(x, scipy.sparse.linalg.LinearOperator)
    assert not isinstance(np.ones(3), ours.LinearOperator)
    assert not isinstance(theirs, type(mine))  # only the class that programs name is SciPy's, too


def test_scipys_operators_add_to_ours() -> None:
    mine, theirs = operator(LIBRARIES[1], H), scipy.sparse.linalg.aslinearoperator(H)
    for both in (mine + theirs, theirs + mine):
        numpy.testing.assert_allclose(numpy.asarray(both @ np.ones(5)), 2 * H @ numpy.ones(5))
    found, _ = ours.cg(theirs, np.ones(5))
    numpy.testing.assert_allclose(numpy.asarray(H @ found), numpy.ones(5), rtol=1e-4)


def test_a_hessian_that_scipy_returned_is_an_operator() -> None:
    found = so.minimize(lambda x: (x ** 2).sum(), np.ones(5), method="L-BFGS-B").hess_inv
    assert isinstance(found, ours.LinearOperator)
    assert pickle.loads(pickle.dumps(found)).shape == (5, 5)

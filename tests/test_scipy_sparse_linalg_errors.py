"""Errors of the solvers of `diffuse.scipy.sparse.linalg` beside SciPy's: misfits, NaN, divisions by zero."""

from __future__ import annotations

import importlib
import itertools
from typing import Any

import numpy
import pytest
import scipy.sparse
import scipy.sparse.linalg as scipys

import diffuse.scipy.sparse.linalg as ours
from tests.each import for_each
from tests.test_scipy_sparse_linalg import SOLVERS, SYMMETRIC, agree, both, matrix, side

sparse: Any = importlib.import_module("diffuse.scipy.sparse")


@for_each("name", SOLVERS)
@for_each("A, b, options", [
    (numpy.ones((3, 4)), numpy.ones(3), {}),
    (numpy.eye(3), numpy.ones(4), {}),
    (numpy.eye(3), numpy.ones((3, 2)), {}),
    (numpy.eye(3), numpy.ones(3), {"x0": numpy.ones(4)}),
    (numpy.eye(3), numpy.ones(3), {"M": numpy.eye(4)}),
    ("matrix", numpy.ones(3), {}),
])
def test_what_does_not_fit(name: str, A: Any, b: Any, options: dict[str, Any]) -> None:
    with pytest.raises(Exception) as theirs:
        getattr(scipys, name)(A, b, **options)
    with pytest.raises(type(theirs.value)):
        getattr(ours, name)(A, b, **options)


@pytest.mark.parametrize("atol", [-1.0, None, "legacy"])
def test_a_tolerance_that_is_none(atol: Any) -> None:
    for name in ("cg", "gmres"):
        with pytest.raises(ValueError, match="invalid `atol`"):
            getattr(ours, name)(numpy.eye(3), numpy.ones(3), atol=atol)
    with pytest.raises(ValueError, match="Unknown callback_type: 'y'"):
        ours.gmres(numpy.eye(3), numpy.ones(3), callback=print, callback_type="y")


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@for_each("name", (*SOLVERS, "lsqr"))
@for_each("where", ["b", "A", "x0", "A later"])
def test_nan_is_named(name: str, where: str) -> None:
    """SciPy's result is NaN; ours is an error that says who brought it in."""
    A, b = matrix("d", symmetric=name in SYMMETRIC).toarray(), side("d")
    x0, calls = None, itertools.count()
    if where == "b":
        b[7] = numpy.nan
    elif where == "x0":
        x0 = numpy.zeros(50)
        x0[7] = numpy.nan
    elif where == "A":
        A[7, 3] = numpy.nan

    def matvec(v: Any) -> Any:
        y = numpy.asarray(A @ numpy.asarray(v)).copy()
        if where == "A later" and next(calls) == 3:
            y[7] = numpy.nan
        return y

    options: dict[str, Any] = {"x0": x0} if name == "lsqr" else {"x0": x0, "maxiter": 60}
    plain = scipys.LinearOperator((50, 50), matvec, rmatvec=lambda v: A.T @ v, dtype=float)
    assert numpy.isnan(getattr(scipys, name)(plain, b, **options)[0]).any()
    calls = itertools.count()
    operator = ours.LinearOperator((50, 50), matvec, rmatvec=lambda v: A.T @ numpy.asarray(v), dtype=float)
    words = {"b": "b has NaN or infinity, first at index 7", "x0": "x0 has NaN or infinity, first at index 7"}
    returned = "operator A returned NaN or infinity"
    with pytest.raises((ValueError, FloatingPointError), match=f"{name}.*{words.get(where, returned)}"):
        getattr(ours, name)(operator, b, **options)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", SOLVERS)
def test_a_preconditioner_that_returns_nan_is_named(name: str) -> None:
    A, b, calls = matrix("d", symmetric=name in SYMMETRIC), side("d"), itertools.count()

    def spoil(v: Any) -> Any:
        return v * numpy.nan if next(calls) == 4 else v * 0.5

    M = ours.LinearOperator((50, 50), spoil, rmatvec=lambda v: v * 0.5, dtype=float)
    with pytest.raises(FloatingPointError, match=rf"{name}, iteration \d+: the preconditioner M"):
        getattr(ours, name)(A, b, M=M, rtol=1e-12)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("n", [20, 40_000])
@pytest.mark.parametrize("name", ["cgs", "bicgstab"])
def test_what_a_solver_asks_beyond_the_end_cannot_spoil_the_end(name: str, n: int) -> None:
    """A preconditioner that divides by the length of its vector: 0 / 0 where SciPy would not call it."""
    def normal(v: Any) -> Any:
        return v / (v @ v) if bool((v != 0).any()) else v * numpy.nan

    turn = scipy.sparse.kron([[0.0, 1.0], [-1.0, 0.0]], scipy.sparse.eye_array(n // 2)).tocsr()
    turn = turn if name == "cgs" else scipy.sparse.csr_array(2 * scipy.sparse.eye_array(n))
    b = numpy.repeat([1.0, 0.0], n // 2)
    M = scipys.LinearOperator((n, n), normal, dtype=float)
    theirs, mine = both(name, turn, b, M=M)
    assert numpy.isfinite(theirs[0]).all()
    agree(theirs, mine)


def test_lsqr_ends_before_a_nan_that_comes_too_late() -> None:
    """The adjoint's last product is not needed for x."""
    calls = [0]

    def adjoint(v: Any) -> Any:
        calls[0] += 1
        return v * (numpy.nan if calls[0] == 2 else 1.0)

    for module in (scipys, ours):
        calls[0] = 0
        found = module.lsqr(module.LinearOperator((5, 5), lambda v: v, rmatvec=adjoint, dtype=float),
                            numpy.arange(5.0))
        numpy.testing.assert_allclose(numpy.asarray(found[0]), numpy.arange(5.0))
        assert found[1:3] == (1, 1) and calls[0] == 2


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_division_by_zero_is_told() -> None:
    assert numpy.isnan(scipys.cg(numpy.zeros((3, 3)), numpy.ones(3))[0]).any()
    with pytest.raises(FloatingPointError, match="cg, iteration 1: the recurrence divided by zero"):
        ours.cg(numpy.zeros((3, 3)), numpy.ones(3))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_norm_that_overflows_is_no_error() -> None:
    """SciPy converges where only the square of the residual is beyond float64; so does this."""
    A, b = numpy.diag(numpy.arange(1.0, 6.0)), numpy.full(5, 1e200)
    M = numpy.eye(5) * 1e-200
    agree(*both("cg", A, b, M=M))


def test_minres_refuses() -> None:
    A, b = numpy.diag([1.0, 2.0, 3.0]), numpy.ones(3)
    with pytest.raises(ValueError, match="indefinite preconditioner"):
        ours.minres(A, b, M=-numpy.eye(3))
    lopsided = numpy.array([[1.0, 9.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 3.0]])
    with pytest.raises(ValueError, match="non-symmetric matrix"):
        ours.minres(lopsided, b, check=True)
    assert ours.minres(A, b, check=True)[1] == 0

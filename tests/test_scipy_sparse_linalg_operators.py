"""Operators and norms of `diffuse.scipy.sparse.linalg` beside SciPy's, and functions that SciPy computes."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import scipy.sparse
import scipy.sparse.linalg as scipys

import diffuse.numpy as np
import diffuse.scipy.sparse.linalg as ours
from diffuse.numpy.bridge import fallback
from diffuse.settings import config
from tests.each import for_each
from tests.kinds import is_ours
from tests.test_scipy_sparse_linalg import matrix, side

sparse: Any = importlib.import_module("diffuse.scipy.sparse")


# -- operators -------------------------------------------------------------------------------------------


def expressions(L: Any, A: Any, B: Any) -> dict[str, Any]:
    """Operators of every kind, made of two matrices."""
    a, b = L.aslinearoperator(A), L.aslinearoperator(B)
    c = L.LinearOperator(A.shape, lambda v: A @ v, rmatvec=lambda v: A.conj().T @ v)
    return {"a": a, "c": c, "sum": a + b, "difference": c - b, "product": a @ b, "scaled": 2 * a,
            "twice": 3 * (2 * c), "complex": a * 2j, "divided": c / 4, "power": c ** 3,
            "negative": -a, "T": c.T, "H": c.H,
            "everything": ((2j * a + b @ c.H) ** 2).T / 3, "adjoint": ((1 + 2j) * c @ b).H}


@pytest.mark.parametrize("kind", "dD")
def test_expressions_of_operators(kind: str) -> None:
    n = 6
    rng = numpy.random.default_rng(1)
    A, B = (rng.standard_normal((n, n)) * (1 + 2j if kind == "D" else 1) for _ in "AB")
    v, V = rng.standard_normal(n), rng.standard_normal((n, 3))
    theirs, mine = expressions(scipys, A, B), expressions(ours, np.array(A), np.array(B))
    for name, want in theirs.items():
        got = mine[name]
        assert repr(got).replace("MatrixLinearOperator", "") == repr(want).replace("MatrixLinearOperator", "")
        for method, operand in (("matvec", v), ("rmatvec", v), ("matmat", V), ("rmatmat", V)):
            value = getattr(got, method)(np.array(operand))
            assert is_ours(value)
            numpy.testing.assert_allclose(numpy.asarray(value), getattr(want, method)(operand), rtol=1e-12)
        numpy.testing.assert_allclose(numpy.asarray(np.array(v) @ got), v @ want, rtol=1e-12)


def test_subclasses_define_what_they_like() -> None:
    A = numpy.arange(6.0).reshape(2, 3)

    class ByVector(ours.LinearOperator):
        def _matvec(self, x: Any) -> Any:
            return np.array(A) @ x

        def _adjoint(self) -> Any:
            return ours.aslinearoperator(A.T)

    class ByMatrix(ours.LinearOperator):
        def _matmat(self, X: Any) -> Any:
            return np.array(A) @ X

        def _rmatmat(self, X: Any) -> Any:
            return np.array(A.T) @ X

    for kind in (ByVector, ByMatrix):
        op: Any = kind(float, (2, 3))
        assert (numpy.asarray(op @ numpy.ones(3)) == A.sum(1)).all()
        assert (numpy.asarray(op @ numpy.ones((3, 1))) == A.sum(1)[:, None]).all()
        assert (numpy.asarray(op @ numpy.eye(3)) == A).all()
        assert (numpy.asarray(op.rmatvec(numpy.ones(2))) == A.sum(0)).all()
        assert (numpy.asarray(op.H @ numpy.eye(2)) == A.T).all()
    with pytest.warns(RuntimeWarning, match="should implement at least one"):
        type("Empty", (ours.LinearOperator,), {})(float, (2, 2))


def test_operators_refuse() -> None:
    a: Any = ours.aslinearoperator(numpy.ones((2, 3)))
    b: Any = ours.LinearOperator((2, 3), lambda v: numpy.ones(2), dtype=float)
    wrongs: list[tuple[Callable[[], Any], type[Exception]]] = [
        (lambda: a @ a, ValueError), (lambda: a @ 2, ValueError), (lambda: a ** 2, ValueError),
        (lambda: a + 1, TypeError), (lambda: a @ numpy.ones(2), ValueError), (lambda: a / a, ValueError),
        (lambda: b.rmatvec(numpy.ones(2)), NotImplementedError),
        (lambda: ours.LinearOperator((2,), print), ValueError),
        (lambda: ours.aslinearoperator("A"), TypeError),
        (lambda: ours.LinearOperator((2, 3), lambda v: np.ones(5), dtype=float) @ np.ones(3), ValueError),
    ]
    if numpy.lib.NumpyVersion(scipy.__version__) < "1.18.0":  # later, these are many operators
        wrongs.append((lambda: ours.aslinearoperator(numpy.ones((2, 2, 2))), ValueError))
    for wrong, error in wrongs:
        with pytest.raises(error):
            wrong()


# -- norms, and what SciPy computes ----------------------------------------------------------------------


@for_each("form", ["csr", "csc", "coo", "lil"])
@for_each("ord", [None, "fro", 1, -1, numpy.inf, -numpy.inf, 2, 0, 3])
@for_each("axis", [None, 0, 1, -1, (0, 1), (1, 0)])
@for_each("kind", "dD")
def test_norms(form: str, ord: Any, axis: Any, kind: str) -> None:
    A = matrix(kind, 20).asformat(form)
    mine = getattr(sparse, f"{form}_array")(A)
    try:
        want = scipys.norm(A, ord, axis)
    except (ValueError, NotImplementedError) as error:
        with pytest.raises(type(error)):
            ours.norm(mine, ord, axis)
        return
    for given in (A, mine):
        got = ours.norm(given, ord, axis)
        assert numpy.asarray(got).shape == numpy.asarray(want).shape and got.dtype == want.dtype
        numpy.testing.assert_allclose(numpy.asarray(got), want, rtol=1e-10)


def test_norms_refuse() -> None:
    with pytest.raises(TypeError, match="not sparse"):
        ours.norm(numpy.eye(3))
    mine = sparse.csr_array(numpy.eye(3))
    for axis in (2, (0, 0), (0, 1, 2)):
        with pytest.raises(ValueError):
            ours.norm(mine, 1, axis)
    with pytest.raises(TypeError):
        ours.norm(mine, 1, 0.5)


def test_what_scipy_computes_comes_back_as_ours() -> None:
    A, b = matrix("d", symmetric=True), side("d")
    mine = sparse.csc_array(A)
    exact = numpy.linalg.solve(A.toarray(), b)
    for x in (ours.spsolve(mine, np.array(b)), ours.factorized(mine)(np.array(b)),
              ours.splu(mine).solve(np.array(b)), ours.qmr(mine, np.array(b), rtol=1e-12)[0],
              ours.tfqmr(mine, np.array(b), rtol=1e-12)[0],
              ours.lgmres(mine, np.array(b), rtol=1e-12)[0], ours.gcrotmk(mine, np.array(b), rtol=1e-12)[0]):
        assert is_ours(x)
        numpy.testing.assert_allclose(numpy.asarray(x), exact, rtol=1e-8)
    values, vectors = ours.eigsh(ours.aslinearoperator(mine), k=3)
    numpy.testing.assert_allclose(numpy.sort(numpy.asarray(values)), numpy.linalg.eigvalsh(A.toarray())[-3:])
    assert is_ours(vectors)
    for found, want in ((ours.expm(mine), scipys.expm(A.tocsc())), (ours.inv(mine), scipys.inv(A.tocsc()))):
        assert type(found) is sparse.csc_array
        numpy.testing.assert_allclose(numpy.asarray(found.toarray()), want.toarray(), rtol=1e-8, atol=1e-12)
    assert type(ours.splu(mine).L) is sparse.csc_array
    assert {*ours.__all__} == {*scipys.__all__} and all(hasattr(ours, name) for name in ours.__all__)


def test_a_fallback_warns_once_and_can_be_forbidden(monkeypatch: pytest.MonkeyPatch) -> None:
    n = 40_000
    A = scipy.sparse.diags_array([2.5, -1.0], offsets=[0, 1], shape=(n, n)).tocsc()
    fallback.forget_warnings()
    with pytest.warns(RuntimeWarning, match=r"scipy\.sparse\.linalg\.spsolve") as said:
        for _ in range(3):
            ours.spsolve(A, np.ones(n))
    assert len(said) == 1 and said[0].filename == __file__
    monkeypatch.setattr(config, "fallback", "error")
    with pytest.raises(NotImplementedError, match="spsolve"):
        ours.spsolve(A, np.ones(n))
    small = matrix("d")
    assert is_ours(ours.spsolve(small.tocsc(), side("d")))

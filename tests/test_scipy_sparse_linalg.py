"""Solvers, operators and norms of `diffuse.scipy.sparse.linalg` beside SciPy's: results, counts, errors."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import scipy.sparse
import scipy.sparse.linalg as scipys

import diffuse
import diffuse.numpy as np
import diffuse.scipy.sparse.linalg as ours
from diffuse.numpy.arrays import core
from diffuse.numpy.bridge import fallback
from diffuse.observe import trace
from diffuse.settings import config
from diffuse.stream import engine
from tests.kinds import is_ours
from tests.outcomes import silent

sparse: Any = importlib.import_module("diffuse.scipy.sparse")

SOLVERS = ("cg", "bicg", "cgs", "bicgstab", "gmres", "minres")
SYMMETRIC = ("cg", "minres")
EPS = {"f": 2e-3, "F": 2e-3, "d": 1e-8, "D": 1e-8}


def matrix(kind: str, n: int = 50, seed: int = 0, symmetric: bool = False) -> Any:
    """A random sparse matrix that all solvers converge on."""
    rng = numpy.random.default_rng(seed)
    a = scipy.sparse.random_array((n, n), density=0.1, rng=rng).toarray()
    if kind in "FD":
        a = a + 1j * scipy.sparse.random_array((n, n), density=0.1, rng=rng).toarray()
    a = a + a.conj().T if symmetric else a
    return scipy.sparse.csr_array((a + (8 if kind in "FD" else 4) * numpy.eye(n)).astype(kind))


def side(kind: str, n: int = 50, seed: int = 0) -> Any:
    rng = numpy.random.default_rng(seed + 1000)
    b = rng.standard_normal(n)
    return (b + 1j * rng.standard_normal(n) if kind in "FD" else b).astype(kind)


def both(name: str, A: Any, b: Any, mine: Any = None, **options: Any) -> tuple[Any, Any]:
    """The solver of SciPy and ours on one system: solution, info, and how often the callback was called."""
    found = []
    for module, operator in ((scipys, A), (ours, A if mine is None else mine)):
        calls: list[Any] = []
        more: dict[str, Any] = {"callback": lambda x, calls=calls: calls.append(1), **options}
        if name == "gmres":
            more.setdefault("callback_type", "pr_norm")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            x, info = getattr(module, name)(operator, b, **more)
        found.append((x, info, len(calls)))
    return found[0], found[1]


def agree(theirs: Any, mine: Any, close: float = 1e-8) -> None:
    assert is_ours(mine[0])
    assert mine[0].dtype == theirs[0].dtype and mine[0].shape == theirs[0].shape
    assert (mine[1] == 0) == (theirs[1] == 0) and (mine[1] < 0) == (theirs[1] < 0)
    assert abs(mine[2] - theirs[2]) <= 1
    if mine[2] == theirs[2]:
        scale = max(float(abs(theirs[0]).max()), 1e-300)
        assert float(abs(numpy.asarray(mine[0]) - theirs[0]).max()) <= close * scale


# -- the same results ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name, kind", [(n, k) for n in SOLVERS for k in "dfDF"])
def test_random_systems(name: str, kind: str, seed: int) -> None:
    A = matrix(kind, seed=seed, symmetric=name in SYMMETRIC)
    if name == "minres" and kind in "DF":
        A = matrix(kind.lower() if kind == "F" else "d", seed=seed, symmetric=True)
    agree(*both(name, A, side(kind if name != "minres" else A.dtype.char, seed=seed)), close=EPS[kind])


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("given", ["dense", "sparse", "Diffuse", "Diffuse sparse", "SciPy's", "operator"])
def test_kinds_of_matrices(name: str, given: str) -> None:
    A = matrix("d", symmetric=name in SYMMETRIC)
    made: dict[str, Callable[[], Any]] = {
        "dense": A.toarray, "sparse": lambda: A, "Diffuse": lambda: np.array(A.toarray()),
        "Diffuse sparse": lambda: sparse.csr_array(A),
        "SciPy's": lambda: scipys.aslinearoperator(A), "operator": lambda: ours.aslinearoperator(A)}
    agree(*both(name, A, side("d"), made[given]()))


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_kinds_of_right_sides() -> None:
    """Lists, integers and NumPy's matrices count as arrays of float64, and b stays what it was."""
    A = [[4, 1, 0], [1, 5, 2], [0, 2, 6]]
    exact = numpy.linalg.solve(numpy.array(A), [1, 2, 3])
    for given in (numpy.array(A), numpy.asmatrix(A), np.array(A), scipy.sparse.csr_matrix(A)):
        for b in ([1, 2, 3], numpy.array([[1], [2], [3]]), numpy.asmatrix([1, 2, 3]).T, np.array([1, 2, 3])):
            for name in SOLVERS:
                x, info = getattr(ours, name)(given, b, rtol=1e-12)
                assert info == 0 and x.dtype == numpy.float64 and x.shape == (3,)
                numpy.testing.assert_allclose(numpy.asarray(x), exact, rtol=1e-9)
            assert numpy.asarray(b).ravel().tolist() == [1, 2, 3]


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("how", ["jacobi", "ilu"])
@pytest.mark.parametrize("kind", "df")
def test_preconditioned(name: str, how: str, kind: str) -> None:
    A = matrix(kind, symmetric=name in SYMMETRIC)
    if how == "jacobi":
        M = scipy.sparse.diags_array(1 / A.diagonal()).tocsr().astype(kind)
    else:
        if name in SYMMETRIC:
            pytest.skip("an incomplete LU factorization is not symmetric")
        ilu = scipys.spilu(A.tocsc().astype("d"))
        M = scipys.LinearOperator(A.shape, ilu.solve, rmatvec=lambda v: ilu.solve(v, "H"), dtype=A.dtype)
    agree(*both(name, A, side(kind), M=M), close=EPS[kind])


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("maxiter", [1, 2, 5])
def test_iterations_run_out(name: str, maxiter: int) -> None:
    A = matrix("d", symmetric=name in SYMMETRIC)
    options = {"restart": 3} if name == "gmres" else {}
    theirs, mine = both(name, A, side("d"), maxiter=maxiter, rtol=1e-14, **options)
    agree(theirs, mine)
    assert theirs[1] == mine[1] and theirs[2] == mine[2]


@pytest.mark.parametrize("name", SOLVERS)
def test_a_right_side_of_zeros(name: str) -> None:
    A = matrix("d", symmetric=name in SYMMETRIC)
    theirs, mine = both(name, A, numpy.zeros(50), x0=numpy.ones(50))
    assert mine[1:] == theirs[1:]
    numpy.testing.assert_allclose(numpy.asarray(mine[0]), theirs[0], atol=1e-9)


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("start", ["exact", "near", "column", "Mb"])
def test_first_guesses(name: str, start: str) -> None:
    A, b = matrix("d", symmetric=name in SYMMETRIC), side("d")
    exact = numpy.linalg.solve(A.toarray(), b)
    x0: Any = {"exact": exact, "near": exact + 1e-3, "column": (exact + 1)[:, None], "Mb": "Mb"}[start]
    before = None if isinstance(x0, str) else x0.copy()
    agree(*both(name, A, b[:, None] if start == "column" else b, x0=x0))
    if before is not None:
        assert (x0 == before).all()
        given = np.array(x0)
        getattr(ours, name)(A, b, x0=given)
        assert (numpy.asarray(given) == before).all()


@pytest.mark.parametrize("half", [1, 20_000])
@pytest.mark.parametrize("name", ["bicg", "cgs", "bicgstab"])
def test_a_product_that_vanishes(name: str, half: int) -> None:
    """A turns b by a right angle: the first product to divide by is zero, and x stays what it was."""
    turn = scipy.sparse.kron([[0.0, 1.0], [-1.0, 0.0]], scipy.sparse.eye_array(half)).tocsr()
    b = numpy.repeat([1.0, 0.0], half)
    theirs, mine = both(name, turn, b, x0=numpy.zeros(2 * half))
    assert theirs[1] == mine[1] == -11 and theirs[2] == mine[2] == 0
    with silent():
        getattr(ours, name)(turn, b)
    assert (numpy.asarray(mine[0]) == theirs[0]).all()


@pytest.mark.parametrize("name", ("bicg", "cgs", "bicgstab"))
def test_a_tiny_rho(name: str) -> None:
    """The squares of so small a residual count as a breakdown, if no tolerance stops the solver before."""
    A, b = matrix("d"), side("d") * 1e-20
    theirs, mine = both(name, A, b)
    assert theirs[1] == mine[1] == -10


def test_a_semidefinite_system() -> None:
    n = 60
    A = scipy.sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n)).tolil()
    A[0, 0] = A[n - 1, n - 1] = 1.0
    b = side("d", n)
    b -= b.mean()
    for name in SYMMETRIC:
        agree(*both(name, A.tocsr(), b), close=1e-5)


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("name", SOLVERS)
def test_large_vectors_are_recorded(name: str, large: bool) -> None:
    n = 40000 if large else 200
    A = scipy.sparse.diags_array([-1.0, 2.5, -1.0 if name in SYMMETRIC else -1.2], offsets=[-1, 0, 1],
                                 shape=(n, n)).tocsr()
    agree(*both(name, A, side("d", n)))


@pytest.mark.parametrize("kind", ["x", "pr_norm", "legacy"])
@pytest.mark.parametrize("maxiter", [2, 30])
def test_what_the_callback_of_gmres_is_given(kind: str, maxiter: int) -> None:
    A, b = matrix("d"), side("d")
    seen: list[list[Any]] = [[], []]
    infos = []
    for module, values in ((scipys, seen[0]), (ours, seen[1])):
        infos.append(getattr(module, "gmres")(
            A, b, restart=4, maxiter=maxiter, callback_type=kind,
            callback=lambda v, values=values: values.append(numpy.array(v)))[1])
    assert infos[0] == infos[1] and len(seen[0]) == len(seen[1]) > 0
    for theirs, mine in zip(*seen, strict=True):
        numpy.testing.assert_allclose(mine, theirs, rtol=1e-7, atol=1e-12)
    with pytest.warns(DeprecationWarning, match="called without specifying `callback_type`"):
        ours.gmres(A, b, callback=lambda v: None)


@pytest.mark.parametrize("shape", [(40, 40), (60, 30), (30, 60)])
@pytest.mark.parametrize("options", [{}, {"damp": 0.5}, {"calc_var": True}, {"iter_lim": 3}, {"x0": True},
                                     {"conlim": 1.5}])
def test_least_squares(shape: tuple[int, int], options: dict[str, Any]) -> None:
    rng = numpy.random.default_rng(5)
    A = scipy.sparse.random_array(shape, density=0.2, rng=rng).tocsr() + scipy.sparse.eye_array(*shape)
    b = rng.standard_normal(shape[0])
    if "x0" in options:
        options = {"x0": rng.standard_normal(shape[1])}
    theirs, mine = scipys.lsqr(A, b, **options), ours.lsqr(A, b, **options)
    assert len(theirs) == len(mine) and theirs[1:3] == mine[1:3]
    for a, c in zip(theirs[3:9], mine[3:9], strict=True):
        assert float(c) == pytest.approx(float(a), rel=1e-4, abs=1e-10)
    for k in (0, 9):
        numpy.testing.assert_allclose(numpy.asarray(mine[k]), theirs[k], rtol=1e-6, atol=1e-8)


def test_least_squares_of_nothing() -> None:
    A = matrix("d")
    for b, x0 in ((numpy.zeros(50), None), (A @ numpy.ones(50), numpy.ones(50))):
        theirs, mine = scipys.lsqr(A, b, x0=x0), ours.lsqr(A, b, x0=x0)
        assert theirs[1:3] == mine[1:3] and float(theirs[3]) == float(mine[3])
        assert (numpy.asarray(mine[0]) == theirs[0]).all()


# -- how it runs -----------------------------------------------------------------------------------------


AT_HAND = pytest.mark.local_only("arithmetic with numbers that are known already is recorded")


@pytest.mark.parametrize("name, most", [("cg", 4.1), ("cgs", 6.1), ("bicgstab", 8.1),
                                        pytest.param("bicg", 4.1, marks=AT_HAND)])
def test_tasks_an_iteration(name: str, most: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The goals of papers/003, figure 13, for a matrix that is applied by one task."""
    n = 100_000
    A = sparse.csr_array(scipy.sparse.diags_array(
        [-1.0, 2.1, -1.0 if name == "cg" else -1.1], offsets=[-1, 0, 1], shape=(n, n)).tocsr())
    b = np.array(side("d", n))

    def launched(iterations: int) -> int:
        before = trace.counters["launched"]
        assert getattr(ours, name)(A, b, rtol=1e-300, maxiter=iterations)[1] == iterations
        diffuse.flush()
        return trace.counters["launched"] - before

    launched(12)
    assert (launched(24) - launched(12)) / 12 <= most


@AT_HAND
@pytest.mark.parametrize("name, reads", [("cg", 1), ("bicg", 2), ("cgs", 2), ("minres", 2), ("gmres", 2),
                                         ("bicgstab", 3), ("lsqr", 3)])
def test_reads_an_iteration(name: str, reads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recorded work is forwarded by the reads that SciPy's code makes: the test of convergence, and what
    decides whether the method breaks down or turns to another direction."""
    n, flushes, calls = 60_000, [0], [0]
    kind: Any = type(engine.current())
    plain = kind.flush

    def flush(self: Any, reason: str = "the program waits") -> None:
        flushes[0] += self.window.held > 0
        plain(self, reason)

    def count(_: Any) -> None:
        calls[0] += 1

    A = scipy.sparse.diags_array([-1.0, 2.5, -1.0], offsets=[-1, 0, 1], shape=(n, n)).tocsr()
    b = np.array(side("d", n))
    options: dict[str, Any] = {} if name == "lsqr" else {"callback": count}
    if name == "gmres":
        options["callback_type"] = "pr_norm"
    diffuse.flush()
    monkeypatch.setattr(kind, "flush", flush)
    found = getattr(ours, name)(A, b, **options)
    iterations = found[2] if name == "lsqr" else calls[0]
    assert iterations > 5 and flushes[0] <= reads * iterations + 6


def test_solvers_are_scipys_code_over_our_arrays() -> None:
    for name in (*SOLVERS, "lsqr", "lsmr", "qmr", "tfqmr"):
        code = getattr(ours, name).__wrapped__
        assert code.__code__.co_filename == getattr(scipys, name).__code__.co_filename
        assert code.__globals__["__name__"].startswith("diffuse.scipy.sparse.linalg._isolve.")
    assert ours.LinearOperator.matvec.__globals__["np"].ndarray is np.ndarray
    interface: Any = importlib.import_module("diffuse.scipy.sparse.linalg._interface")
    assert interface.LinearOperator is ours.LinearOperator
    assert isinstance(ours.aslinearoperator(np.eye(2)), ours.LinearOperator)
    assert importlib.util.find_spec(interface.__name__) is interface.__spec__
    operator = pickle.loads(pickle.dumps(ours.aslinearoperator(np.eye(3))))
    assert (numpy.asarray(operator @ np.ones(3)) == 1).all()
    total = np.ones(20_000) @ np.ones(20_000)
    assert (operator * total).dtype == numpy.float64


@pytest.mark.parametrize("name", ["qmr", "tfqmr", "lsmr"])
@pytest.mark.parametrize("kind", "dD")
def test_other_solvers_record_large_systems(name: str, kind: str) -> None:
    n = 30_000
    A = scipy.sparse.diags_array([-1.0, 2.5, -1.2], offsets=[-1, 0, 1], shape=(n, n)).tocsr().astype(kind)
    b = side(kind, n)
    M = scipys.LinearOperator((n, n), lambda v: 0.4 * v, rmatvec=lambda v: 0.4 * v, dtype=A.dtype)
    options = {"qmr": {"M1": M, "M2": M}, "tfqmr": {"M": M}, "lsmr": {"x0": side(kind, n, 1)}}[name]
    before = trace.counters["launched"], trace.counters["fallbacks"]
    theirs, mine = getattr(scipys, name)(A, b, **options), getattr(ours, name)(A, np.array(b), **options)
    assert is_ours(mine[0]) and mine[1] == theirs[1]
    numpy.testing.assert_allclose(numpy.asarray(mine[0]), theirs[0], rtol=1e-4, atol=1e-6)
    assert trace.counters["launched"] > before[0] + 10 and trace.counters["fallbacks"] == before[1]


def test_the_products_of_gmres_are_no_tasks_of_their_own() -> None:
    """One task for each vector of the basis, as an array of its own, and few others."""
    n = 100_000
    A = sparse.csr_array(sparse.diags_array([-1.0, 2.1, -1.1], offsets=[-1, 0, 1], shape=(n, n)))
    b = np.array(side("d", n))

    def launched(restarts: int) -> int:
        before = trace.counters["launched"]
        ours.gmres(A, b, rtol=1e-300, maxiter=restarts)
        diffuse.flush()
        return trace.counters["launched"] - before

    launched(1)
    assert (launched(2) - launched(1)) / 20 <= 14.1


def test_a_matvec_sees_diffuse_arrays_and_fuses() -> None:
    n, seen = 50_000, []

    def matvec(v: Any) -> Any:
        seen.append(type(v))
        return v * 3.0

    x, info = ours.cg(ours.LinearOperator((n, n), matvec, dtype=float), np.ones(n))
    assert info == 0 and set(seen) == {core.array_class}
    numpy.testing.assert_allclose(numpy.asarray(x), 1 / 3)


def test_an_operator_that_gives_back_its_argument() -> None:
    """Nothing that A or M returned is written to."""
    b = side("d")
    same = ours.LinearOperator((50, 50), lambda v: v, rmatvec=lambda v: v, dtype=float)
    for name in SOLVERS:
        x, info = getattr(ours, name)(same, b, M=same)
        assert info == 0
        numpy.testing.assert_allclose(numpy.asarray(x), b, rtol=1e-10)


def test_the_callback_sees_one_array() -> None:
    for name in ("cg", "bicg", "cgs", "bicgstab"):
        seen: list[Any] = []
        x, _ = getattr(ours, name)(matrix("d", symmetric=name == "cg"), side("d"), callback=seen.append)
        assert seen and all(v is x for v in seen)


# -- errors ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("A, b, options", [
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
@pytest.mark.parametrize("name", (*SOLVERS, "lsqr"))
@pytest.mark.parametrize("where", ["b", "A", "x0", "A later"])
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


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil"])
@pytest.mark.parametrize("ord", [None, "fro", 1, -1, numpy.inf, -numpy.inf, 2, 0, 3])
@pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 1), (1, 0)])
@pytest.mark.parametrize("kind", "dD")
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

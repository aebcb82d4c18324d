"""The solvers of `diffuse.scipy.sparse.linalg` beside SciPy's: results, and how they run."""

from __future__ import annotations

import importlib
import importlib.util
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
from diffuse.observe import trace
from diffuse.stream import engine
from tests.each import for_each
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


@for_each("seed", range(3))
@pytest.mark.parametrize("name, kind", [(n, k) for n in SOLVERS for k in "dfDF"])
def test_random_systems(name: str, kind: str, seed: int) -> None:
    A = matrix(kind, seed=seed, symmetric=name in SYMMETRIC)
    if name == "minres" and kind in "DF":
        A = matrix(kind.lower() if kind == "F" else "d", seed=seed, symmetric=True)
    agree(*both(name, A, side(kind if name != "minres" else A.dtype.char, seed=seed)), close=EPS[kind])


@for_each("name", SOLVERS)
@for_each("given", ["dense", "sparse", "Diffuse", "Diffuse sparse", "SciPy's", "operator"])
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


@for_each("name", SOLVERS)
@for_each("how", ["jacobi", "ilu"])
@for_each("kind", "df")
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


@for_each("name", SOLVERS)
@for_each("maxiter", [1, 2, 5])
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


@for_each("name", SOLVERS)
@for_each("start", ["exact", "near", "column", "Mb"])
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


@for_each("shape", [(40, 40), (60, 30), (30, 60)])
@for_each("options", [{}, {"damp": 0.5}, {"calc_var": True}, {"iter_lim": 3}, {"x0": True},
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

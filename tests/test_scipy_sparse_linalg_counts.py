"""Iterations, products and callbacks of `diffuse.scipy.sparse.linalg`'s solvers, counted beside SciPy's.

Solvers amplify rounding: with other sums of the same numbers SciPy itself ends some iterations earlier or
later (other kernels of BLAS, other numbers for the unknowns).  So small arrays, whose products are NumPy's,
have SciPy's bits; recorded ones have its counts within one on well conditioned systems, and elsewhere differ
from it no more than it differs from itself.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy
import pytest
import scipy.sparse
import scipy.sparse.linalg as scipys

import diffuse.numpy as np
import diffuse.scipy.sparse.linalg as ours
from diffuse.settings import using
from tests.each import for_each

SOLVERS = ("cg", "bicg", "cgs", "bicgstab", "gmres", "minres")
SYMMETRIC = ("cg", "minres")
CASES = [(name, kind) for name in SOLVERS for kind in "fdFD" if name != "minres" or kind in "fd"]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


def system(kind: str, seed: int, condition: float, hermitian: bool, n: int = 40) -> tuple[Any, Any]:
    """A dense matrix of about this condition, positive definite or far from normal, and a right side."""
    rng = numpy.random.default_rng(seed)

    def normal(*shape: int) -> Any:
        real = rng.standard_normal(shape)
        return real + 1j * rng.standard_normal(shape) if kind in "FD" else real

    q, _ = numpy.linalg.qr(normal(n, n))
    a = (q * numpy.logspace(0, numpy.log10(condition), n)) @ q.conj().T
    a = (a + a.conj().T) / 2 if hermitian else a + 0.3 * normal(n, n) / numpy.sqrt(n)
    return a.astype(kind), normal(n).astype(kind)


def solved(module: Any, name: str, a: Any, b: Any, rtol: float = 1e-5) -> tuple[Any, int, int]:
    """Solution, info, iterations."""
    calls: list[Any] = []
    options: dict[str, Any] = {"callback": calls.append, "maxiter": 150, "rtol": rtol}
    if name == "gmres":
        options |= {"callback_type": "pr_norm", "maxiter": 4}
    x, info = getattr(module, name)(scipy.sparse.csr_array(a), b, **options)
    return numpy.asarray(x), info, len(calls)


@for_each("condition", [10, 1000])
@for_each("name, kind", CASES)
def test_small_systems_have_the_bits_of_scipys(name: str, kind: str, condition: float) -> None:
    for seed in range(2):
        a, b = system(kind, seed, condition, name in SYMMETRIC)
        theirs, mine = solved(scipys, name, a, b), solved(ours, name, a, b)
        assert mine[1:] == theirs[1:] and mine[0].dtype == theirs[0].dtype
        assert (mine[0] == theirs[0]).all()


@pytest.mark.parametrize("name, kind", CASES)
def test_recorded_iterations_on_well_conditioned_systems(name: str, kind: str) -> None:
    for seed in range(3):
        a, b = system(kind, seed, 5, name in SYMMETRIC)
        rtol = 1e-6 if kind in "dD" else 1e-3  # far above what is lost to rounding
        theirs = solved(scipys, name, a, b, rtol)
        with using(small=0):
            mine = solved(ours, name, a, b, rtol)
        assert mine[1] == theirs[1] == 0 and abs(mine[2] - theirs[2]) <= 1


@pytest.mark.parametrize("name, kind", CASES)
def test_recorded_iterations_on_badly_conditioned_systems(name: str, kind: str) -> None:
    """P A P^T y = P b is the same system; SciPy adds its numbers in another order."""
    apart, spread, systems, orders = 0.0, 0.0, 4, 5
    for seed in range(systems):
        a, b = system(kind, seed, 1000 if name in SYMMETRIC else 50, name in SYMMETRIC)
        rng = numpy.random.default_rng(seed)
        permuted = [numpy.arange(b.size)] + [rng.permutation(b.size) for _ in range(orders)]
        theirs = [solved(scipys, name, a[p][:, p], b[p]) for p in permuted]
        with using(small=0):
            mine = solved(ours, name, a, b)
        counts = [count for _, _, count in theirs]
        apart += abs(mine[2] - counts[0]) / counts[0]
        spread += sum(abs(count - counts[0]) / counts[0] for count in counts[1:]) / orders
        if len({info for _, info, _ in theirs}) == 1:
            assert mine[1] == theirs[0][1]
            left = [float(numpy.linalg.norm(b[p] - a[p][:, p] @ x)) for p, (x, _, _) in zip(permuted, theirs)]
            assert numpy.linalg.norm(b - a @ mine[0]) <= 3 * max(left)
    assert apart <= 3 * spread + 0.03 * systems


# -- products and callbacks ------------------------------------------------------------------------------


class Counted:
    """A matrix and a preconditioner that write down each use."""

    def __init__(self, module: Any, a: Any, preconditioned: bool) -> None:
        self.seen: list[Any] = []
        diagonal = 1 / a.diagonal() if preconditioned else numpy.ones(a.shape[0])
        self.A = module.LinearOperator(a.shape, self._noting("A", a), rmatvec=self._noting("AH", a.conj().T),
                                       dtype=a.dtype)
        weights = scipy.sparse.diags_array(diagonal).tocsr()
        self.M = module.LinearOperator(a.shape, self._noting("M", weights), dtype=a.dtype,
                                       rmatvec=self._noting("MH", weights)) if preconditioned else None

    def _noting(self, what: str, matrix: Any) -> Any:
        def product(v: Any) -> Any:
            self.seen.append(what)
            return matrix @ numpy.asarray(v)

        return product

    def run(self, module: Any, name: str, b: Any, **options: Any) -> list[Any]:
        if name != "lsqr":
            options |= {"callback": lambda x: self.seen.append("callback"), "M": self.M}
        if name == "gmres":
            options["callback_type"] = "pr_norm"
        return [getattr(module, name)(self.A, b, **options)[1], *self.seen]


@for_each("case", ["plain", "near", "exact", "zeros", "one", "three", "identity", "turn"])
@pytest.mark.parametrize("name", (*SOLVERS, "lsqr"))
def test_small_systems_take_the_products_of_scipys(name: str, case: str) -> None:
    if case == "turn" and name in ("cg", "minres"):
        pytest.skip("SciPy goes on with NaN, or the method is not made for it")
    for seed, preconditioned in ((0, False), (1, False), (2, False), (1, True), (2, True)):
        a, b = system("d", seed, 5, name in SYMMETRIC, 30)
        a = numpy.eye(30) if case == "identity" else a
        options: dict[str, Any] = {}
        if case == "turn":
            a, b = numpy.kron([[0.0, 1.0], [-1.0, 0.0]], numpy.eye(15)), numpy.repeat([1.0, 0.0], 15)
        if case in ("near", "exact"):
            options = {"x0": numpy.linalg.solve(a, b) + (case == "near")}
        elif case in ("one", "three"):
            options = {"iter_lim" if name == "lsqr" else "maxiter": 1 if case == "one" else 3}
        b = b * (case != "zeros")
        preconditioned = preconditioned and case != "turn"
        theirs, mine = (Counted(module, a, preconditioned).run(module, name, b, **options)
                        for module in (scipys, ours))
        assert mine == theirs


def test_operators_of_scipys_are_applied_as_often_as_by_scipy() -> None:
    """bicgstab ends within an iteration, where a recorded one would have asked A once more."""
    n = 30_000
    a = scipy.sparse.diags_array([-1.0, 2.5, -1.2], offsets=[-1, 0, 1], shape=(n, n)).tocsr()
    ends = set()
    for seed in range(4):
        b = numpy.random.default_rng(seed).standard_normal(n)
        theirs, mine = (Counted(scipys, a, False).run(module, "bicgstab", b, rtol=10.0 ** -seed)
                        for module in (scipys, ours))
        assert mine == theirs
        ends.add(mine[-1])
    assert ends == {"A", "callback"}


def test_no_iteration_at_all() -> None:
    """The first guess, and how many iterations there were: as SciPy's, but for gmres, which fails there."""
    a, b = system("d", 0, 5, True)
    for name in SOLVERS:
        x, info = getattr(ours, name)(a, b, x0=np.ones(40), maxiter=0)
        assert info == 0 and (numpy.asarray(x) == 1).all()

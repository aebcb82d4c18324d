"""The sparse solvers of apps/: alone, against theory and solution; their peers in bench/; under Diffuse."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from tests import applications
from tests.counting import Counting, plain
from tests.each import rounds

ROOT = Path(__file__).resolve().parent.parent
KRYLOV = ("cg", "cgs", "bicgstab")
SMALL = {"cg": 40, "cgs": 40, "bicgstab": 40, "gmg": 32}

# Operations of one step: products with a matrix, dot products, and NumPy's ufuncs on vectors and numbers.
OPERATIONS = {"cg": 11, "cgs": 19, "bicgstab": 23, "two grids": 24}
TWO_GRIDS = {"levels": 2, "sweeps": 1, "coarse_sweeps": 1}


def application(name: str, **options: Any) -> tuple[ModuleType, Any]:
    """A program of apps/ and its state at the start."""
    return applications.application(name, **{"size": SMALL[name], **options})


def run(name: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, f"apps/{name}.py", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)


class CountingMatrix:
    """A matrix whose products count."""

    def __init__(self, A: Any) -> None:
        self.A = A

    def __matmul__(self, x: Any) -> Any:
        Counting.done += 1
        return np.asarray(self.A @ plain(x)).view(Counting)


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_of_a_step(name: str) -> None:
    app, state = application("gmg", **TWO_GRIDS) if name == "two grids" else application(name)
    for holder in (state, *getattr(state, "grids", ())):
        for field, value in vars(holder).items():
            if isinstance(value, np.ndarray):
                setattr(holder, field, value.view(Counting))
            elif sp.issparse(value):
                setattr(holder, field, CountingMatrix(value))
    Counting.done = 0
    app.step(state)
    assert Counting.done == OPERATIONS[name]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", SMALL)
def test_runs_alone_and_passes_its_check(name: str, dtype: str) -> None:
    done = run(name, "--size", str(SMALL[name]), "--dtype", dtype, "--iterations", "8")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith("check: ")
    assert not done.stderr


@pytest.mark.parametrize("dimension, size", [(2, 60), (3, 16)])
@pytest.mark.parametrize("name", KRYLOV)
def test_converges_to_the_solution(name: str, dimension: int, size: int) -> None:
    app, state = application(name, size=size, dimension=dimension)
    assert state.A.shape == (size**dimension,) * 2
    assert state.A.indices.dtype == np.int32
    while not app.converged(state, 1e-11):
        app.step(state)
        assert state.iterations < 400
    assert app.error(state) < 1e-6
    _, wrong, bound = app.check(state)
    assert wrong <= bound


@pytest.mark.parametrize("name", KRYLOV)
def test_matches_scipy(name: str) -> None:
    """SciPy's own solver, with as many iterations from the same first guess."""
    app, state = application(name)
    guess = state.x.copy()
    for _ in range(12):
        app.step(state)
    expected, _ = getattr(sp.linalg, name)(state.A, state.b, x0=guess, rtol=0.0, maxiter=12)
    np.testing.assert_allclose(state.x, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", KRYLOV)
def test_the_matrix_is_the_laplacian(name: str) -> None:
    app, state = application(name, size=5, dimension=3)
    x = np.random.default_rng(1).random((5, 5, 5))
    padded = np.pad(x, 1)
    expected = 6 * x
    for axis in range(3):
        for side in (-1, 1):
            expected -= np.roll(padded, side, axis)[1:-1, 1:-1, 1:-1]
    np.testing.assert_allclose((state.A @ x.ravel()).reshape(x.shape), expected, rtol=0, atol=1e-14)
    assert state.A.nnz == 7 * 125 - 6 * 25
    np.testing.assert_allclose(state.A @ state.exact, state.b, rtol=0, atol=1e-15)


@pytest.mark.parametrize("name", SMALL)
def test_a_check_notices_a_wrong_result(name: str) -> None:
    app, state = application(name)
    for _ in range(8):
        app.step(state)
    state.x += 1e-3
    _, wrong, bound = app.check(state)
    assert not wrong <= bound


@pytest.mark.parametrize("name", SMALL)
def test_a_check_notices_a_result_that_is_no_number(name: str) -> None:
    app, state = application(name)
    state.x[3] = math.nan
    _, wrong, bound = app.check(state)
    assert not wrong <= bound


def rate(size: int, rough: bool, **options: Any) -> float:
    """What an iteration leaves of the residual, in the mean of those that bring it to 1e-8."""
    app, state = application("gmg", size=size, **options)
    if rough:
        state.b = np.random.default_rng(1).standard_normal(state.b.size)
        state.r = state.b.copy()
        state.p = app.precondition(state, state.b)
        state.rz = np.dot(state.b, state.p)
    while not app.converged(state, 1e-8):
        app.step(state)
        assert state.iterations < 40
    return float(app.residual(state) ** (1 / state.iterations))


@pytest.mark.parametrize("options", [{}, {"restriction": "full", "sweeps": 1}],
                         ids=["injection, two sweeps", "full weighting, one sweep"])
def test_multigrid_does_not_mind_the_size(options: dict[str, Any]) -> None:
    rough = [rate(size, True, **options) for size in (32, 128, 256)]
    assert max(rough) < 0.13 and max(rough) < 1.25 * min(rough)
    assert max(rate(size, False, **options) for size in (32, 128, 256)) < 0.25


def test_a_cycle_with_full_weighting_is_symmetric_and_positive() -> None:
    app, state = application("gmg", size=8, restriction="full")
    columns = [app.precondition(state, unit) for unit in np.eye(49)]
    M = np.array(columns)
    np.testing.assert_allclose(M, M.T, rtol=0, atol=1e-16)
    assert np.linalg.eigvalsh(M).min() > 0
    _, other = application("gmg", size=8)
    N = np.array([app.precondition(other, unit) for unit in np.eye(49)])
    assert np.abs(N - N.T).max() > 1e-4         # injection: hence the flexible beta


def test_a_check_notices_a_preconditioner_that_does_nothing() -> None:
    app, state = application("gmg", size=64)
    state.grids, state.coarse_sweeps = state.grids[:1], 1
    for _ in range(8):
        app.step(state)
    _, wrong, bound = app.check(state)
    assert not wrong <= bound


@pytest.mark.parametrize("options, said", [
    ({"size": 48}, "--size 48: expected a power of two"),
    ({"size": 16, "levels": 4}, "--levels 4: expected 1 to 3 grids for --size 16"),
])
def test_grids_that_there_are_not(options: dict[str, int], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        application("gmg", **options)


@pytest.mark.parametrize("name", SMALL)
def test_draws_its_residuals(name: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "out.png"
    done = run(name, "--size", str(SMALL[name]), "--iterations", "5", "--plot", str(path))
    assert done.returncode == 0, done.stderr
    assert path.read_bytes().startswith(b"\x89PNG")


def bench(name: str, folder: Path, *only: str) -> dict[str, Any]:
    path = folder / "numbers.json"
    command = [sys.executable, str(ROOT / "bench" / f"{name}.py"), "--quick", "--json", str(path),
               "--rounds", "2", "--warmup", "1", "--batch", "2", "--only", "numpy", *only]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(path.read_text())["contenders"]
    return found


@pytest.mark.parametrize("name", rounds(["cg"], ["cg", "gmg"]))  # as in test_bench.py
def test_peers_compute_the_same(name: str, tmp_path: Path) -> None:
    """A peer that computed something else would be no yardstick; who is not installed says so."""
    by_hand = ["numpy, by hand"] if name == "cg" else []
    found = bench(name, tmp_path, "numba", "petsc", "petsc, 2 ranks", *by_hand)
    for contender, measured in found.items():
        if contender.startswith("petsc") and "absent" in measured:
            assert "python3-petsc4py" in measured["absent"]
            continue
        assert "absent" not in measured, measured
        assert measured["largest"] < 1e-12
        assert measured["median"] > 0


def test_petsc_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location("bench_petsc", ROOT / "bench" / "petsc.py")
    assert spec is not None and spec.loader is not None
    petsc = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(petsc)
    monkeypatch.setattr(petsc, "INSTALLED", "/nowhere/*")
    with pytest.raises(ImportError, match="install Debian's packages python3-petsc4py and openmpi-bin"):
        petsc.command(1, "/tmp")


def sparse_of_diffuse() -> ModuleType:
    module: ModuleType = pytest.importorskip("diffuse.scipy.sparse")
    if not hasattr(module, "diags_array"):
        pytest.skip("diffuse.scipy.sparse has no diags_array yet")
    return module


@contextmanager
def under_diffuse(app: ModuleType) -> Iterator[None]:
    """The program's `np` and `sp` are Diffuse's, with fusion at sizes that are otherwise left to NumPy."""
    import diffuse.numpy
    from diffuse import settings

    with pytest.MonkeyPatch.context() as patch, settings.using(small=0):
        patch.setattr(app, "np", diffuse.numpy)
        patch.setattr(app, "sp", sparse_of_diffuse())
        yield


@pytest.mark.parametrize("dtype, tolerance", [("float64", 1e-12), ("float32", 1e-4)])
@pytest.mark.parametrize("name", SMALL)
def test_same_results_under_diffuse(name: str, dtype: str, tolerance: float) -> None:
    """Dot products are added in another order; nothing else differs."""
    app, expected = application(name, dtype=dtype)
    for _ in range(3):
        app.step(expected)
    with under_diffuse(app):
        _, state = application(name, dtype=dtype)
        for _ in range(3):
            app.step(state)
        x = np.asarray(app.results(state)["x"])
    assert x.dtype == dtype
    np.testing.assert_allclose(x, expected.x, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", SMALL)
def test_runs_under_the_command(name: str) -> None:
    sparse_of_diffuse()
    program = [f"apps/{name}.py", "--size", "64", "--iterations", "8"]
    environment = {"PATH": "", "DIFFUSE_CACHE_DIR": os.environ["DIFFUSE_CACHE_DIR"], "DIFFUSE_SMALL": "0"}
    done = subprocess.run([sys.executable, "-m", "diffuse", "run", *program], cwd=ROOT, timeout=300,
                          env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith("check: ")

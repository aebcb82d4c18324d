"""The applications: alone and under Diffuse, each with its own check and its count of operations."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.applications import SMALL, application, under_diffuse
from tests.counting import Counting

ROOT = Path(__file__).resolve().parent.parent
# Operations of one step: calls of ufuncs and of `where`, copies, assignments to slices, matrix products.
OPERATIONS = {"black_scholes": 65, "stencil": 6, "jacobi": 3, "mandelbrot": 12, "channel_flow": 378,
              "conjugate_gradient": 18, "shallow_water": 748}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_of_a_step(name: str) -> None:
    app, state = application(name)
    for field, value in vars(state).items():
        if isinstance(value, np.ndarray):
            setattr(state, field, value.view(Counting))
        elif isinstance(value, tuple):
            setattr(state, field, tuple(array.view(Counting) for array in value))
    Counting.done = 0
    app.step(state)
    assert Counting.done == OPERATIONS[name]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", SMALL)
def test_runs_alone_and_passes_its_check(name: str, dtype: str) -> None:
    options = ["--size", str(SMALL[name]), "--dtype", dtype, "--iterations", "8"]
    command = [sys.executable, f"apps/{name}.py", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith("check: ")
    assert not done.stderr


UNDER_DIFFUSE = ["-m", "diffuse", "run"]


DRAW_ALL = """
import runpy, sys

sys.path.insert(0, "apps")
_, folder, *sizes = sys.argv
for name, size in zip(sizes[::2], sizes[1::2], strict=True):
    picture = f"{folder}/{name}.png"
    sys.argv[:] = [name, "--size", size, "--iterations", "2", "--plot", picture]
    runpy.run_path(f"apps/{name}.py", run_name="__main__")
"""


def test_each_draws_a_picture(tmp_path: Path) -> None:
    """In one process, as it takes long to load what draws."""
    pytest.importorskip("matplotlib")
    sizes = [word for name, size in SMALL.items() for word in (name, str(size))]
    done = subprocess.run([sys.executable, "-c", DRAW_ALL, str(tmp_path), *sizes], cwd=ROOT,
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    for name in SMALL:
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["channel_flow", "shallow_water"])
def test_draws_a_picture_under_diffuse(name: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "picture.png"
    options = ["--size", str(SMALL[name]), "--iterations", "2", "--plot", str(picture)]
    done = subprocess.run([sys.executable, *UNDER_DIFFUSE, f"apps/{name}.py", *options], cwd=ROOT,
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_results_have_the_dtype_that_was_asked(name: str, dtype: str) -> None:
    app, state = application(name, dtype=dtype)
    app.step(state)
    assert {str(array.dtype) for array in app.results(state).values()} <= {dtype, "int64"}


@pytest.mark.parametrize("name", SMALL)
def test_a_check_notices_a_wrong_result(name: str) -> None:
    app, state = application(name)
    for _ in range(20):
        app.step(state)
    for array in app.results(state).values():
        array += 1000
    _, error, bound = app.check(state)
    assert not error <= bound


# What the last bits may differ by: only black_scholes has functions that are not exactly rounded, and only
# jacobi and conjugate_gradient have sums; the order of the one is BLAS's choice.
TOLERANCE = {"black_scholes": 1e-12, "jacobi": 1e-14, "conjugate_gradient": 1e-13}


@pytest.mark.parametrize("name", SMALL)
def test_same_results_under_diffuse(name: str) -> None:
    app, expected = application(name)
    for _ in range(3):
        app.step(expected)
    with under_diffuse(app):
        _, state = application(name)
        for _ in range(3):
            app.step(state)
        results = {key: np.asarray(array) for key, array in app.results(state).items()}
    for key, array in app.results(expected).items():
        tolerance = TOLERANCE.get(name, 0.0)
        assert results[key].dtype == array.dtype
        np.testing.assert_allclose(results[key], array, rtol=tolerance, atol=100 * tolerance)


def basin(n: int) -> tuple[ModuleType, Any]:
    """The shallow water program, and a basin of depth 1 with a flat bed."""
    app, state = application("shallow_water", n)
    for array in (state.b, state.u, state.v):
        array[:] = 0.0
    state.h[:] = 1.0
    return app, state


@pytest.mark.parametrize("along", ["x", "y"])
def test_a_standing_wave_takes_its_time(along: str) -> None:
    """Long waves travel with sqrt(g h): half a period later the highest water is at the other wall."""
    n, height = 32, 1e-3
    app, state = basin(n)
    wave = height * np.cos(np.pi * (np.arange(-2, n + 2) + 0.5) / n)
    state.h += wave[None, :] if along == "x" else wave[:, None]
    half = app.LENGTH / np.sqrt(app.GRAVITY)
    steps = round(half / state.dt)
    for _ in range(steps):
        app.step(state)
    profile = state.h[2:-2, 2:-2].mean(axis=0 if along == "x" else 1) - 1.0
    np.testing.assert_allclose(profile, -wave[2:-2], atol=0.08 * height)


@pytest.mark.parametrize("turn", [lambda a: a.T, lambda a: a[::-1], lambda a: a[:, ::-1]],
                         ids=["transposed", "south to north", "east to west"])
def test_water_does_not_care_how_the_map_lies(turn: Callable[[np.ndarray], np.ndarray]) -> None:
    app, state = application("shallow_water")
    _, turned = application("shallow_water")
    x_to_y = np.array_equal(turn(np.arange(4).reshape(2, 2)), np.arange(4).reshape(2, 2).T)
    turned.h, turned.b = turn(state.h).copy(), turn(state.b).copy()
    for _ in range(10):
        app.step(state)
        app.step(turned)
    np.testing.assert_allclose(turned.h, turn(state.h), rtol=1e-12, atol=1e-14)
    u = turn(state.v if x_to_y else state.u)
    np.testing.assert_allclose(np.abs(turned.u), np.abs(u), rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("wrong", ["pushes", "fluxes", "minmod"])
def test_water_that_does_not_rest_is_noticed(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The slope of the depth in place of the surface's; a flux that sees no bed; slopes without a limit."""
    app, state = application("shallow_water")
    right = getattr(app, wrong)
    replacement: dict[str, Callable[..., Any]] = {
        "pushes": lambda h, b: right(h, 0.0 * b),
        "fluxes": lambda h, u, v, b, places: right(h, u, v, 0.0 * b, places),
        "minmod": lambda a, b: a}
    monkeypatch.setattr(app, wrong, replacement[wrong])
    for _ in range(5):
        app.step(state)
    _, error, bound = app.check(state)
    assert not error <= bound


def test_shallow_water_fuses() -> None:
    """A stage makes three tasks: faces, cells, walls."""
    from diffuse.observe import trace
    from diffuse.stream import engine

    app, _ = application("shallow_water")
    with under_diffuse(app):
        _, state = application("shallow_water", 300)
        for _ in range(3):
            app.step(state)
        engine.fence()
        before = trace.snapshot()
        for _ in range(4):
            app.step(state)
        engine.fence()
        after = trace.snapshot()
    assert after["recorded"] - before["recorded"] == 4 * OPERATIONS["shallow_water"]
    assert after["launched"] - before["launched"] <= 4 * 8


def test_runs_under_the_command() -> None:
    program = ["apps/stencil.py", "--size", "200", "--iterations", "10"]
    command = [sys.executable, "-m", "diffuse", "run", *program]
    environment = {**os.environ, "DIFFUSE_SMALL": "0"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith("check: ")


PLAIN = [path for path in sorted((ROOT / "apps").glob("*.py")) if path.stem not in ("kepler", "lattice")]
"""All but the programs that show what Diffuse has and NumPy has not."""


@pytest.mark.parametrize("path", PLAIN, ids=lambda path: path.stem)
def test_nothing_of_diffuse_inside(path: Path) -> None:
    text = path.read_text()
    assert "diffuse" not in text.lower().replace("--", "")
    assert "import numpy as np" in text
    assert "\nimport matplotlib" not in text and "\nfrom matplotlib" not in text    # for pictures only

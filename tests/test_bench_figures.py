"""The paper's figures 13 to 15: the arithmetic on made-up times, and each command once at a tiny size."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy
import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "bench"))        # its files are scripts that import each other by name
figure14, figure15, harness, programs, speeds = (
    importlib.import_module(name) for name in ("figure14", "figure15", "harness", "programs", "speeds"))


def point(program: str, size: int, threads: int, **means: float) -> dict[str, Any]:
    """A measured point: contenders and their seconds, where "_" stands for ", " and its blank."""
    found = {label.replace("_", ", "): {"mean": mean, "kept": [mean, mean], "samples": [mean], "peak": 100,
                                        "steady peak": 50, "iterations": 1}
             for label, mean in means.items()}
    return {"program": program, "size": size, "threads": threads, "runs": 1, "elements": 1.0,
            "contenders": found}


@pytest.mark.parametrize("samples, kept", [
    ([3.0, 1.0, 2.0, 10.0], [2.0, 3.0]),
    ([5.0, 5.0, 1.0], [5.0]),
    ([2.0, 1.0], [1.0, 2.0]),
    ([1.0], [1.0]),
])
def test_the_fastest_and_the_slowest_are_dropped(samples: list[float], kept: list[float]) -> None:
    assert figure14.trimmed(samples) == kept


@pytest.mark.parametrize("runs", [1, 3, 5, 12])
def test_fewer_runs_are_spread_over_the_turns(runs: int) -> None:
    turns = [turn for turn in range(12) if figure14.takes_turn(turn, runs, 12)]
    assert len(turns) == runs
    gaps = [after - before for before, after in zip(turns, turns[1:], strict=False)]
    assert not gaps or max(gaps) - min(gaps) <= 1


@pytest.mark.parametrize("ours, theirs, iteration", [
    ([1.0, 1.0], [2.0, 2.0], 1),                    # faster from the first
    ([1.0, 1.0], [1.0, 1.0], 1),                    # as fast
    ([4.0, 1.0, 1.0, 1.0], [2.0] * 4, 3),           # 4 5 6 against 2 4 6
    ([12.0, 1.0, 1.0, 1.0], [2.0] * 4, 11),         # 15 behind 8 after four: seven more
    ([12.5, 1.0, 1.0, 1.0], [2.0] * 4, 12),         # half an iteration is a whole one
    ([4.0, 2.0, 2.0, 2.0], [2.0] * 4, None),        # never makes up for it
    ([4.0, 1.0, 1.0, 1.0], [2.0, 2.0], 3),          # the peer was measured for less long
    ([4.0, 4.0, 1.0, 1.0, 1.0, 1.0], [2.0, 2.0], 6),        # and while we had not warmed up: 12 against 12
])
def test_break_even(ours: list[float], theirs: list[float], iteration: int | None) -> None:
    assert figure15.break_even(ours, theirs) == iteration


def test_warm_up_ends_with_the_last_iteration_that_did_more_than_compute() -> None:
    assert figure15.warm_up([True, False, True, False]) == 3
    assert figure15.warm_up([False, False]) == 1


def test_iterations_that_were_not_measured_take_what_the_last_half_took() -> None:
    assert figure15.lengthened([9.0, 1.0, 2.0, 4.0], 3) == [9.0, 1.0, 2.0, 4.0]
    assert figure15.lengthened([9.0, 1.0, 2.0, 4.0], 6) == [9.0, 1.0, 2.0, 4.0, 3.0, 3.0]


def test_a_run_ends_when_half_of_it_was_undisturbed() -> None:
    assert not figure15.settled([False] * 11) and figure15.settled([False] * 12)
    late = [False] * 11 + [True]
    assert not figure15.settled([*late, *[False] * 5]) and figure15.settled([*late, *[False] * 6])
    assert figure15.settled([True] * 100)


def test_several_runs_are_medians_of_each_iteration() -> None:
    runs = [{"times": times, "busy": [True, False, False]}
            for times in ([9.0, 1.0, 5.0], [3.0, 2.0], [4.0, 7.0])]
    found = figure15.middle(runs)
    assert found["times"] == [4.0, 2.0, 5.0] and found["warm-up"] == 1
    assert figure15.middle([*runs, {"absent": "why"}]) == {"absent": "why"}


def test_geometric_means_are_of_the_largest_sizes() -> None:
    points = [point("cg", 10, 2, diffuse=1.0, diffuse_unfused=0.5),
              point("cg", 20, 2, diffuse=1.0, diffuse_unfused=2.0),
              point("jacobi", 5, 2, diffuse=0.5, diffuse_unfused=4.0),
              point("jacobi", 5, 1, diffuse=1.0, diffuse_unfused=64.0)]
    goals = {goal["what"]: goal for goal in speeds.goals(points)}
    mean = goals["geometric mean: times as fast as unfused"]
    assert mean["measured"] == pytest.approx(4.0) and mean["reached"]
    least = goals["least of all sizes: times as fast as unfused"]
    assert least["measured"] == 0.5 and not least["reached"]


def test_petsc_has_as_many_ranks_as_diffuse_has_threads() -> None:
    points = [point("cg", 10, 1, diffuse=1.0, petsc=2.0), point("cg", 10, 2, diffuse=1.0, numpy=1.0),
              point("cg", 20, 2, diffuse=1.0, numpy=3.0)]
    points[2]["contenders"]["petsc, 2 ranks"] = {**points[2]["contenders"]["numpy"], "mean": 1.05}
    goals = {goal["what"]: goal for goal in speeds.goals(points)}
    assert goals["cg, 10, 1 threads: times as fast as petsc"]["measured"] == 2.0
    assert goals["cg, 20, 2 threads: times as fast as petsc"]["measured"] == 1.05
    assert not goals["cg, 20, 2 threads: times as fast as petsc"]["reached"]
    assert "cg, 10, 1 threads: times as fast as numpy" not in goals
    assert goals["cg, 20, 2 threads: times as fast as numpy"]["reached"]
    assert goals["cg, 20, 2 threads: times as fast as numba"]["measured"] is None
    assert "3x" in speeds.summary(points) and "1.05x" in speeds.summary(points)


def test_a_nan_where_numpy_has_a_number_differs(tmp_path: Path) -> None:
    """Neither `max` nor a comparison with a bound would see it."""
    for name, array in {"numpy": [1.0, numpy.nan, 4.0], "same": [1.0, numpy.nan, 4.0],
                        "off": [1.0, numpy.nan, 4.5], "nan": [1.0, numpy.nan, numpy.nan],
                        "number": [1.0, 0.0, 4.0]}.items():
        (tmp_path / name).mkdir()
        numpy.save(tmp_path / name / "x.npy", numpy.array(array))
    found = {name: harness.difference(tmp_path / name, tmp_path / "numpy")
             for name in ("same", "off", "nan", "number")}
    assert found["same"] == {"same bits": True, "largest": 0.0, "relative": 0.0, "scaled": 0.0}
    assert found["off"] == {"same bits": False, "largest": 0.5, "relative": 0.125, "scaled": 0.125}
    assert found["nan"]["scaled"] > 1e300 and found["number"]["scaled"] > 1e300


def test_every_benchmark_that_is_run_with_all_others_is_there() -> None:
    for name in importlib.import_module("all").BENCHES:
        assert (ROOT / "bench" / f"{name}.py").exists()


def test_the_eight_programs_are_there() -> None:
    assert len(programs.PROGRAMS) == 8
    for program in programs.PROGRAMS.values():
        assert (ROOT / "apps" / f"{program.name}.py").exists()
        assert program.case.name == program.name
        assert list(program.case.contenders)[0] == "numpy" and "diffuse" in program.case.contenders
        assert list(program.sizes) == sorted(program.sizes) and program.quick < program.sizes[0]
    for name, peers in programs.SPEED.items():
        case = programs.PROGRAMS[name].case
        assert not {*peers} - {*case.contenders}, f"{name}: goals against somebody who does not run"


def figure(number: int, folder: Path, *options: str, status: int = 0, **environment: str
           ) -> tuple[dict[str, Any], str, str]:
    """The numbers of one command, what it printed and what it complained of."""
    path = folder / "numbers.json"
    command = [sys.executable, str(ROOT / "bench" / f"figure{number}.py"), "--quick", "--json", str(path)]
    done = subprocess.run([*command, *options], cwd=folder, capture_output=True, text=True, timeout=300,
                          env={"PATH": "/usr/bin:/bin", **environment})
    assert done.returncode == status, done.stdout + done.stderr
    return json.loads(path.read_text()), done.stdout, done.stderr


def test_figure_13(tmp_path: Path) -> None:
    result, table, _ = figure(13, tmp_path, "--apps", "black_scholes", "gmg", "--iterations", "2",
                              "--sizes", "64")
    options, grids = result["programs"]["black_scholes"], result["programs"]["gmg"]
    assert options["unfused"] == options["recorded"] == 65 and options["fused"] == options["passes"] == 1
    assert options["paper"] == {"unfused": 67, "fused": 1, "window": 70}
    assert grids["unfused"] == 24 and grids["fused"] < 24 and grids["plans"] == 0
    assert [goal["asked"] for goal in result["goals"]] == [1, 11.1]
    assert "gmg" in table and "reached" in table


def test_figure_14(tmp_path: Path) -> None:
    result, table, _ = figure(14, tmp_path, "--apps", "black_scholes", "--sizes", "20000", "30000",
                              "--runs", "3", "--threads", "1", "--sample", "0.02")
    small, large = result["points"]
    assert (small["size"], large["size"]) == (20000, 30000)
    for label in ("numpy", "diffuse", "diffuse, unfused"):
        found = large["contenders"][label]
        assert len(found["samples"]) == 3 and found["kept"] == [found["mean"]] * 2
        assert found["scaled"] < 1e-9 and found["iterations"] >= 1
        assert found["peak"] >= found["steady peak"] > 0
        assert label in table
    assert "black_scholes, size 30,000, 1 threads" in table and "geometric mean" in table
    assert "smaller than the goals mean: black_scholes" in table
    assert {goal["what"] for goal in result["goals"]} == {
        "geometric mean: times as fast as unfused", "least of all sizes: times as fast as unfused"}


def test_a_wrong_result_is_not_timed_and_ends_with_status_1(tmp_path: Path) -> None:
    (tmp_path / "jax").mkdir()
    (tmp_path / "jax" / "numpy.py").write_text("from numpy import *\n")
    (tmp_path / "jax" / "__init__.py").write_text(
        "def jit(f): return lambda *arrays: tuple(1.001 * a for a in f(*arrays))\n"
        "def block_until_ready(x): return x\n")
    result, table, complaint = figure(14, tmp_path, "--apps", "black_scholes", "--sizes", "1000",
                                      "--runs", "1", "--threads", "1", status=1, PYTHONPATH=str(tmp_path))
    assert result["points"][0]["contenders"]["jax"]["wrong"]
    assert "samples" not in result["points"][0]["contenders"]["jax"]
    assert "jax: differs from NumPy by" in table
    assert "WRONG RESULT: black_scholes, size 1000, 1 threads: jax differs from NumPy by" in complaint


@pytest.mark.parametrize("found, why", [
    ({"scaled": 1e-10}, None),
    ({"scaled": 1e-8}, "differs from NumPy by 1.0e-08 (allowed 1e-09)"),
    ({}, "not timed: NumPy gave nothing to compare with"),
])
def test_who_is_not_timed(found: dict[str, float], why: str | None) -> None:
    assert figure14.wrong(found) == why


def test_the_picture_has_a_panel_for_each_program(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    plots = importlib.import_module("plots")
    points = [point("cg", size, 2, diffuse=0.1 * size, numpy=0.2 * size) for size in (20, 10)]
    points.append(point("jacobi", 5, 2, diffuse=1.0))
    points[0]["contenders"]["jax"] = {"absent": "not installed"}
    assert plots.lines(points[:2])["numpy"] == [(10, 1e-9 / 2.0), (20, 1e-9 / 4.0)]
    assert set(plots.lines(points[:2])) == {"numpy", "diffuse"}
    assert plots.colour("petsc, 2 ranks") == plots.colour("petsc") != plots.colour("diffuse")
    plots.figure14(points, str(tmp_path / "figure.png"))
    assert (tmp_path / "figure.png").stat().st_size > 1000


def test_figure_15(tmp_path: Path) -> None:
    result, table, _ = figure(15, tmp_path, "--apps", "black_scholes", "--sizes", "20000", "--threads", "1")
    found = result["points"][0]
    for way in ("numpy", "diffuse, unfused", "cold", "warm"):
        times = found["ways"][way]["times"]
        assert 4 <= len(times) <= 100 and min(times) > 0
        assert 1 <= found["ways"][way]["warm-up"] <= len(times)
    assert found["ways"]["numpy"]["warm-up"] == 1
    assert list(found["break-even"]) == ["cold, diffuse, unfused", "warm, diffuse, unfused", "cold, numpy",
                                         "warm, numpy"], "in the order of the columns"
    assert found["paper"] == {"standard": 0.38, "compiled": 0.06, "iterations": None}
    assert [goal["asked"] for goal in result["goals"]] == [5, 1]
    assert "N/A" in table

"""The benchmarks at tiny sizes: each runs, and its numbers have the fields that the tables are made of."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy
import pytest

from tests.each import rounds

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "bench"))        # its files are scripts that import each other by name
everyday = importlib.import_module("everyday")
APPLICATIONS = ("black_scholes", "channel_flow", "shallow_water", "stencil", "conjugate_gradient", "jacobi",
                "mandelbrot")


def bench(name: str, folder: Path, *options: str) -> tuple[dict[str, Any], str]:
    """The numbers and the table of one benchmark, which chooses the runtimes that it measures."""
    path = folder / "numbers.json"
    chosen = {name: text for name, text in os.environ.items() if name != "DIFFUSE_RUNTIME"}
    command = [sys.executable, str(ROOT / "bench" / f"{name}.py"), "--quick", "--json", str(path), *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, env=chosen)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(path.read_text()), done.stdout


@pytest.mark.parametrize("name", rounds(("channel_flow", "conjugate_gradient"), APPLICATIONS))
def test_an_application(name: str, tmp_path: Path) -> None:
    result, table = bench(name, tmp_path, "--rounds", "2", "--warmup", "1", "--batch", "2",
                          "--only", "numpy", "diffuse")
    assert result["bytes"] > 0 and result["copy bandwidth"] > 0
    for contender in ("numpy", "diffuse"):
        found = result["contenders"][contender]
        assert "absent" not in found, found
        low, high = found["quartiles"]
        assert 0 < low <= found["median"] <= high
        assert found["first"] > 0 and found["peak"] > 0
        assert len(found["samples"]) == 2
        assert found["relative"] < 1e-9
        assert contender in table
    assert result["contenders"]["numpy"]["same bits"]
    assert result["second process"]["first"] > 0
    assert {"what", "asked", "measured", "reached", "sense"} == set(result["goals"][0])
    assert "first iteration / NumPy's" in table


@pytest.mark.parametrize("name", rounds(("stencil",), ("stencil", "mandelbrot")))
def test_numba_by_hand_computes_the_same(name: str, tmp_path: Path) -> None:
    """A peer that computed something else would be no yardstick.  Each bench compares all of them whenever it
    runs (test_bench_figures.py); Numba takes seconds to compile one."""
    result, _ = bench(name, tmp_path, "--rounds", "1", "--warmup", "1", "--batch", "1",
                      "--only", "numpy", "numba")
    assert result["contenders"]["numba"]["relative"] < 1e-9
    assert result["contenders"]["numba"]["same bits"]


def test_a_contender_that_is_not_installed_is_named(tmp_path: Path) -> None:
    (tmp_path / "jax.py").write_text("raise ImportError('there is no jax here')")
    command = [sys.executable, str(ROOT / "bench" / "stencil.py"), "--quick", "--rounds", "1", "--json",
               str(tmp_path / "numbers.json"), "--only", "numpy", "jax"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300,
                          env={"PYTHONPATH": str(tmp_path), "PATH": ""})
    assert done.returncode == 0, done.stderr
    assert "jax: not installed (there is no jax here)" in done.stdout


def test_overheads(tmp_path: Path) -> None:
    result, table = bench("overheads", tmp_path)
    for contender in ("numpy", "diffuse"):
        costs = result["contenders"][contender]["per operation"]
        assert set(costs) == {"10", "1000", "100000"} and min(costs.values()) > 0
    assert result["contenders"]["diffuse"]["recording"] > 0
    assert "recording one operation" in table


def test_vectorize() -> None:
    command = [sys.executable, str(ROOT / "bench" / "vectorize.py"), "--quick", "--rounds", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"^    (?:numba|diffuse).vectorize +[0-9.]+ ns +\S+ x$", done.stdout, re.M)) == 4


def test_redistribution(tmp_path: Path) -> None:
    result, table = bench("redistribution", tmp_path)
    for found in result["synthesis"].values():
        assert min(found["searched"]) > 0 and found["optimal"] == 20
    assert table.count(" 0 of 20") == 2 and len(re.findall(r"^P\d: ", table, re.M)) == 4
    for rows in result["costs"].values():
        assert len(rows) == 20 and max(row["height"] for row in rows) <= 1 < max(row["whole"] for row in rows)


def test_partition(tmp_path: Path) -> None:
    result, table = bench("partition", tmp_path)
    assert [row["ranks"] for row in result["grids"]] == [2, 4, 8]
    assert all(goal["reached"] for goal in result["goals"] if "seconds" not in goal["what"])
    assert "WResNet-50-4" in table and "moved GB" in table
    assert [row["integer"] for row in result["compared"]] == [1.0, 1.0, 1.0]


def test_planned(tmp_path: Path) -> None:
    result, table = bench("planned", tmp_path, "--ranks", "4", "--only", "matmul", "sweeps")
    assert all(goal["reached"] for goal in result["goals"])
    assert [row["planned"]["bytes"] for row in result["rows"][:2]] == [0.0, 2 * 8 * 512 * 512 * 3 / 4]
    assert "bytes by plan" in table and table.count("by hand") == 2


def test_traffic(tmp_path: Path) -> None:
    result, table = bench("traffic", tmp_path, "--predict", "2")
    found = result["predicted"]["2"]
    assert not result["counted"] and len(found) == 12
    assert found["np.roll 1024^2"]["bytes"] == 2 * 2 * 1024 * 8 and found["row softmax 1024^2"]["bytes"] == 0
    assert "the same in KB, predicted, and the least" in table and "stencil 2048^2" in table


def test_simulated(tmp_path: Path) -> None:
    result, table = bench("simulated", tmp_path, "--ranks", "2", "--only", "matmul")
    (row,) = result["rows"]
    assert row["bytes"] == row["predicted"] == 8 * 256 * 256 and row["peak"] > 2 * row["bytes"]
    assert row["best"] == ["k:2", row["bytes"]] and "peak of a rank" in table


@pytest.mark.ranks("mpi")
def test_two_ranks_beside_one(tmp_path: Path) -> None:
    result, table = bench("speedup", tmp_path, "--programs", "stencil", "--ways", "one", "apart", "mpi")
    ways = result["programs"]["stencil"]
    assert set(ways) == {"one", "apart", "mpi"}
    assert all(found["seconds"] > 0 for found in ways.values()), table


def test_weak_scaling_is_predicted(tmp_path: Path) -> None:
    given = "--latency", "1e-5", "--bandwidth", "1e9"
    result, table = bench("weak", tmp_path, "--apps", "channel_flow", *given)
    assert result["predicted"] and "PREDICTED weak scaling" in table and "given" in table
    found = result["programs"][0]
    for label in ("fused", "unfused"):
        one, four = found[label]["1"], found[label]["4"]
        assert four["kernels"] == one["seconds"] > 0 and four["tasks"] > 0
        assert 0 < four["messages"] < 1000 and four["bytes"] >= 8 * 256  # rows of the neighbours
        sending = four["messages"] * 1e-5 + four["bytes"] / 1e9
        assert four["seconds"] == pytest.approx(one["seconds"] + sending)
    assert found["unfused"]["4"]["tasks"] > found["fused"]["4"]["tasks"]


def test_calls(tmp_path: Path) -> None:
    result, table = bench("calls", tmp_path)
    assert set(result["warm"]) == {"100", "10000"}
    for size, found in result["warm"].items():
        assert not found["wrong"] and len(found["seconds"]) >= 150
        for name, both in found["seconds"].items():
            assert name in table and min(both) > 0
    assert "geometric mean at 100" in table and "worst at 10,000" in table


def test_calls_with_an_empty_cache(tmp_path: Path) -> None:
    result, table = bench("calls", tmp_path, "--cold", "--sizes", "20000", "--calls", "x + y", "sum", "x.T")
    found = result["cold"]["20000"]["extra"]
    assert set(found) == {"x + y", "sum", "x.T"} and min(calls for _, calls in found.values()) >= 3
    assert "seconds more with an empty cache, worst call at 20,000" in table


def test_calls_names_what_is_wrong() -> None:
    calls = importlib.import_module("calls")
    wrong = [calls.wrong("named", lambda library, value: value, (None, one), (None, other), Waiting())
             for one, other in ((1.0, 1.0), (1.0, 1.1), (1.0, 1), ([1.0], [1.0, 2.0]), (True, False))]
    assert wrong == [None, *["named: another result than NumPy's"] * 4]
    assert "ZeroDivisionError" in calls.wrong("named", lambda library, value: 1 / value, (None, 1), (None, 0),
                                              Waiting())


class Waiting:
    """A stream with nothing to wait for."""

    def fence(self) -> None: ...


def test_compile(tmp_path: Path) -> None:
    result, table = bench("compile", tmp_path)
    found = result["contenders"]
    assert set(found["diffuse"]["costs"]) == {"10", "70", "400"}
    assert found["diffuse"]["compilations"] > 0
    assert found["diffuse, second process"]["compilations"] == 0
    assert "second process" in table
    if "absent" not in found["diffuse, for a GPU"]:
        assert found["diffuse, for a GPU"]["compilations"] > 0
        assert found["diffuse, for a GPU, second process"]["compilations"] == 0


def test_cold(tmp_path: Path) -> None:
    result, table = bench("cold", tmp_path)
    found = result["contenders"]
    assert set(found) == {"numpy", "diffuse, cold", "diffuse, warm"}
    assert all(found[name]["seconds"] > 0 for name in found)
    assert found["diffuse, cold"]["compilations"] > 0 == found["diffuse, warm"]["compilations"]
    assert "empty cache" in table


def test_loops_of_new_shapes(tmp_path: Path) -> None:
    result, table = bench("new_shapes", tmp_path, "--loops", "elementwise", "few")
    assert [len(one["megabytes"]) for both in result["loops"].values() for one in both.values()] == [2] * 4
    assert {goal["asked"] for goal in result["goals"]} == {2.0} and "megabytes over those before" in table


def test_ocean(tmp_path: Path) -> None:
    result, table = bench("ocean", tmp_path)
    assert [row["program"] for row in result["rows"]] == [
        "equation_of_state", "isoneutral_mixing", "turbulent_energy", "step of a gas"]
    for row in result["rows"]:
        assert min(row["numpy"], row["diffuse"], row["ratio"]) > 0 and row["difference"] < 1e-9
        assert row["program"] in table


def test_the_density_of_sea_water_is_the_published_one() -> None:
    """The check values of UNESCO's report; derivatives by differences."""
    kernel = importlib.import_module("ocean_kernels").equation_of_state
    t, s, p = numpy.array([5.0, 5.0, 25.0]), numpy.array([0.0, 35.0, 35.0]), numpy.array([0.0, 0.0, 1000.0])
    density, by_t, _ = kernel(t, s, p)
    assert numpy.allclose(density, [999.96675, 1027.67547, 1062.53817], rtol=0, atol=1e-5)
    assert numpy.allclose(by_t, (kernel(t + 1e-4, s, p)[0] - kernel(t - 1e-4, s, p)[0]) / 2e-4, atol=1e-8)
    s += 1.0
    assert numpy.allclose(kernel(t, s, p)[2], (kernel(t, s + 1e-4, p)[0] - kernel(t, s - 1e-4, p)[0]) / 2e-4,
                          atol=1e-8)


def test_everyday(tmp_path: Path) -> None:
    result, table = bench("everyday", tmp_path, "--programs", "sieve", "drum")
    for name, found in result["sizes"]["tiny"].items():
        assert name in table and found["differs"] is None
        for under in ("numpy", "empty", "warm"):
            assert 0 < found[under]["seconds"] < found[under]["wall"] and found[under]["peak"] > 0
    assert min(found["wall"] for found in result["start"].values()) > 0
    assert "geometric mean" in table and "programs that failed or differ" in table


def test_everyday_goes_on_with_what_is_stored(tmp_path: Path) -> None:
    first, _ = bench("everyday", tmp_path, "--programs", "sieve")
    both, table = bench("everyday", tmp_path, "--programs", "sieve", "drum", "--resume")
    assert list(both["sizes"]["tiny"]) == ["sieve", "drum"]
    assert both["sizes"]["tiny"]["sieve"] == first["sizes"]["tiny"]["sieve"]
    assert "tiny  drum" in table and "tiny  sieve" not in table


def test_everyday_says_what_differs(tmp_path: Path) -> None:
    plain = "energy 1.5 within 1e-3\nseen 7 within 0\n0.1 seconds\n"
    assert everyday.difference(plain, plain.replace("1.5", "1.501")) is None
    said = everyday.difference(plain, plain.replace("1.5", "1.502"))
    assert said == "energy is 1.5 under NumPy and 1.502 under Diffuse, tolerance 1e-3"
    assert everyday.difference(plain, plain.replace("1.5", "nan")) is not None
    assert everyday.difference(plain, plain.replace("7", "8")) is not None
    assert everyday.difference(plain, "0.1 seconds\n") is not None


def test_on_legate(tmp_path: Path) -> None:
    """Whoever is not installed is named, and misses its goals; the others have their numbers."""
    result, table = bench("on_legate", tmp_path, "--rounds", "1", "--warmup", "1", "--batch", "2",
                          "--programs", "stencil", "--tables", "programs", "launches",
                          "--only", "numpy", "local", "legate", "cupynumeric")
    found = result["programs"]["stencil"]["contenders"]
    assert "absent" not in found["numpy"] and "absent" not in found["local"]
    for name, contender in found.items():
        if "absent" in contender:
            assert f"{name}: {contender['absent'].splitlines()[0][:200]}" in table
            continue
        assert contender["median"] > 0 and contender["cpu"] > 0 and contender["peak"] > 0
        assert contender["started"] > 0
        assert contender["largest"] < 1e-9
    assert found["local"]["gained"]["launched"] == 2
    local = result["launches"]["local"]
    assert local["points"] in (1, 2)
    for program in ("in place", "new array"):
        assert local[program]["main"] > 0 and local[program]["total"] > 0
    assert {goal["what"] for goal in result["goals"]} >= {
        "stencil: legate / local", "stencil: times as fast as cuPyNumeric",
        "legate: microseconds a launch, main thread"}


def test_samples_wait_for_threads_that_run_on_other_processors() -> None:
    """Linux adds the processor time of threads that run elsewhere only at its clock's ticks.  The hash is
    computed without Python's lock."""
    machine = importlib.import_module("machine")
    machine.settle()
    busy = threading.Thread(target=hashlib.pbkdf2_hmac, args=("sha256", b"", b"", 1_000_000))
    busy.start()
    looks = []
    while busy.is_alive():
        looks.append(machine.asleep())
        time.sleep(machine.QUIET)
    assert len(looks) > 9 and sum(looks) < 4  # before and after the hash it waits for Python's lock

"""The command for machines with a GPU: what fails or hangs stops nothing else; numbers are kept at once."""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import on_gpu

sys.path.append(str(on_gpu.ROOT / "bench"))  # its files are scripts that import each other by name

pytest.importorskip("llvmlite", reason="kernels are compiled by llvmlite")


def test_steps_that_fail_or_hang_stop_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                               capfd: pytest.CaptureFixture[str]) -> None:
    scripts = {"good": "print('measured', flush=True)", "bad": "raise SystemExit(3)",
               "hangs": "import time; print('begun', flush=True); time.sleep(600)"}
    for name, text in scripts.items():
        (tmp_path / name).write_text(text)
    limits = {"bad": 60, "hangs": 2, "good": 60}
    steps = [(seconds, (str(tmp_path / name),)) for name, seconds in limits.items()]
    monkeypatch.setattr(on_gpu, "PLAN", (*steps, (0, ("never",))))
    monkeypatch.setattr(on_gpu, "LEAST", 1.0)
    monkeypatch.setattr(on_gpu, "TABLES", (str(tmp_path / "good"),))
    kept = tmp_path / "results" / "gpu.json"
    assert on_gpu.everything(kept, 100.0) == 1
    said = capfd.readouterr().out
    assert "begun" in said and "measured" in said and "left out, the time is over" in said
    outcomes = json.loads(kept.read_text())["steps"]
    assert outcomes.pop(str(tmp_path / "good")).startswith("done in ")
    assert [*outcomes.values()] == ["status 3", "not done after 2 s", "left out"]
    assert kept.with_suffix(".txt").read_text() == said


@pytest.mark.parametrize("found, said", [("0.50.0", ""), ("0.48.0rc1", ""), ("0.47.1", "0.47.1"),
                                         (None, "missing")])
def test_an_llvmlite_that_makes_no_kernels_is_said_first(found: str | None, said: str,
                                                         monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if found is None:
            raise PackageNotFoundError(name)
        return found

    monkeypatch.setattr(on_gpu, "version", version)
    assert (said in on_gpu.lacking()) if said else not on_gpu.lacking()


def test_sums_that_differ_are_told() -> None:
    """Of contenders that have taken as many steps."""
    gpu: Any = import_module("gpu")

    def one(*sums: float, steps: int = 2) -> dict[str, Any]:
        return {"applications": {"stencil": {"sums": [*sums], "steps": steps}}}

    close, fewer = one(1.0, 2.0 + 1e-9), one(3.0, 4.0, steps=1)
    assert gpu.disagreements({"a": one(1.0, 2.0), "b": close, "c": fewer}) == []
    (line,) = gpu.disagreements({"a": one(1.0), "b": one(1.1)})
    assert line == "stencil: the sums of b are [1.1], those of a [1.0]"


def test_the_scripts_of_the_plan_take_its_options() -> None:
    for _, (script, *options) in on_gpu.PLAN:
        assert (on_gpu.ROOT / script).exists()
        if script != on_gpu.BENCH:
            assert set(options[options.index("--parts") + 1:]) & set(on_gpu.PARTS)


def test_the_checks_of_a_device_pass_on_the_simulated_one() -> None:
    command = [sys.executable, on_gpu.__file__, "--runtime", "simt", "--bodies", "12", "--parts", "first",
               "bodies", "libraries"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "sums of columns: the same bits" in done.stdout
    assert "random bodies agree bit for bit" in done.stdout


def test_numbers_are_kept_as_they_come_and_join_earlier_ones(tmp_path: Path) -> None:
    file = tmp_path / "gpu.json"

    def measured(*options: str) -> dict[str, Any]:
        command = [sys.executable, str(on_gpu.ROOT / on_gpu.BENCH), "--simt", "--quick", "--json", str(file)]
        done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0 and "GB/s, 100,000 float64" in done.stdout, done.stdout + done.stderr
        return dict(json.loads(file.read_text())["results"])

    file.write_text('{"steps": {"first": "done"}}')
    measured("--contenders", "numpy", "--sections", "operations")
    assert json.loads(file.read_text())["steps"] == {"first": "done"}
    found = measured("--contenders", "diffuse, gpu", "--sections", "launches", "applications", "--apps",
                     "stencil")
    assert found["numpy"]["operations"]["x + y"]["GB/s"] > 0
    assert found["diffuse, gpu"]["launches"]["x + 1"]["median"] > 0
    assert found["diffuse, gpu"]["applications"]["stencil"]["median"] > 0
    assert measured("--contenders", "diffuse, gpu", "--sections", "operations", "--seconds", "0.01")[
        "diffuse, gpu"]["unfinished"]["operations"] == "was ended after 0 s"


def test_an_application_that_takes_too_long_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu: Any = import_module("gpu")
    asked: list[list[str]] = []

    def measures(script: str, name: str, options: dict[str, Any], environment: dict[str, str],
                 seconds: float) -> tuple[list[dict[str, Any]], str]:
        asked.append(options["apps"])
        done = options["apps"][:options["apps"].index("cg")] if "cg" in options["apps"] else options["apps"]
        return [{"what": app, "numbers": {"median": 1.0}} for app in done], gpu.LATE * ("cg" in asked[-1])

    monkeypatch.setattr(gpu.child, "measures", measures)
    options = argparse.Namespace(simt=False, quick=True, apps=["stencil", "cg", "jacobi", "mandelbrot"])
    one: dict[str, Any] = {"unfinished": {}}
    gpu.measure("jax", "applications", one, options, 100.0)
    assert asked == [["stencil", "cg", "jacobi", "mandelbrot"], ["jacobi", "mandelbrot"]]
    assert [*one["applications"]] == ["stencil", "jacobi", "mandelbrot"]
    assert one["unfinished"] == {"applications": f"cg: took more than {gpu.EACH} s"}


def test_an_application_ends_its_process_if_it_takes_too_long(tmp_path: Path) -> None:
    options = json.dumps({"quick": True, "apps": ["stencil"], "section": "applications", "each": 1})
    program = (f"import sys, time; sys.path[:0] = [{str(on_gpu.ROOT / 'bench')!r}, {str(on_gpu.ROOT)!r}]; "
               "import gpu; gpu.application = lambda *a: time.sleep(60); "
               f"gpu.measured('numpy', __import__('json').loads({options!r}))")
    done = subprocess.run([sys.executable, "-c", program], timeout=50, capture_output=True)
    assert done.returncode == -signal.SIGALRM


def test_products_that_cupy_computes_are_compared_within_a_tolerance() -> None:
    x = np.linspace(-1.0, 3.0, 100)
    assert on_gpu.agree(x, x * (1 + 1e-15)) and not on_gpu.agree(x, x * (1 + 1e-11))
    assert not on_gpu.agree(x, np.where(x > 2.9, np.nan, x))

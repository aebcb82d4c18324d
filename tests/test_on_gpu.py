"""The command for machines with a GPU: what fails or hangs stops nothing else; numbers are kept at once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import on_gpu

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
    failed = on_gpu.planned(100.0, "unused.json")
    said = capfd.readouterr().out
    assert [line.rpartition(": ")[2] for line in failed] == ["status 3", "not done after 2 s"]
    assert "begun" in said and "measured" in said and "left out, the time is over" in said


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

    measured("--contenders", "numpy", "--sections", "operations")
    found = measured("--contenders", "diffuse, gpu", "--sections", "launches", "applications", "--apps",
                     "stencil")
    assert found["numpy"]["operations"]["x + y"]["GB/s"] > 0
    assert found["diffuse, gpu"]["launches"]["x + 1"]["median"] > 0
    assert found["diffuse, gpu"]["applications"]["stencil"]["median"] > 0
    assert measured("--contenders", "diffuse, gpu", "--sections", "operations", "--seconds", "0.01")[
        "diffuse, gpu"]["unfinished"]["operations"] == "was ended after 0 s"

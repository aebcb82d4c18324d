"""The command line, in processes of its own."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import diffuse
from diffuse.settings import SETTINGS

ROOT = Path(__file__).resolve().parent.parent
NUMBER = re.compile(r"\d+\.\d+")

PROGRAM = """
import numpy as np
x = np.ones(2_000_000)
for k in range(3):
    x[1:] = x[:-1] * 0.5 + 1.0
print(float(x.sum()))
"""

APP = """
import argparse
import numpy as np

def arguments(parser):
    parser.add_argument("--size", type=int, default=100000)
    parser.add_argument("--iterations", type=int, default=5)

def setup(args):
    return {"x": np.linspace(0.0, 1.0, args.size), "y": np.zeros(args.size)}

def step(state):
    state["y"] += state["x"] * 2.0 + 1.0

def results(state):
    return {"y": state["y"], "first": state["y"][:1]}

def main(argv=None):
    raise SystemExit("a comparison drives the steps itself")

if __name__ == "__main__":
    main()
"""


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "diffuse", *words], cwd=ROOT, capture_output=True, text=True,
                          timeout=300, env={**os.environ, "PYTHONPATH": str(ROOT), **environment})


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return str(path)


@pytest.fixture
def app(tmp_path: Path) -> str:
    path = tmp_path / "app.py"
    path.write_text(textwrap.dedent(APP))
    return str(path)


def test_help_names_every_command() -> None:
    found = run("--help")
    assert found.returncode == 0
    for command in ("run", "info", "explain", "cache"):
        assert f"  {command} " in found.stdout
    assert run("--version").stdout.strip() == diffuse.__version__


def test_run_prints_what_the_program_prints(program: str) -> None:
    plain = subprocess.run([sys.executable, program], capture_output=True, text=True, check=True).stdout
    for options in ([], ["run"], ["run", "--compile", "off", "--window", "1"], ["run", "--threads", "1"]):
        found = run(*options, program)
        assert found.returncode == 0, found.stderr
        assert float(found.stdout) == pytest.approx(float(plain), rel=1e-12)


def test_array_libraries_are_attributes_of_diffuse() -> None:
    code = "import diffuse; print(diffuse.numpy.ones(2).sum(), diffuse.scipy.special.erf(0.0))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "2.0 0.0\n"


def test_options_are_settings(program: str) -> None:
    code = "from diffuse import config; print(config.window, config.threads, config.compile, config.fallback)"
    found = run("run", "--window", "3", "--threads", "1", "--compile", "off", "--fallback", "error", "-c",
                code)
    assert found.stdout.split() == ["3", "1", "off", "error"]


@pytest.mark.parametrize("words, environment, said", [
    (["run", "--window", "0", "-c", "1"], {}, "--window 0: expected auto or a whole number >= 1"),
    (["run", "-c", "1"], {"DIFFUSE_COMPILE": "no"}, "DIFFUSE_COMPILE='no': expected one of background, wait"),
    (["run", "-c", "1"], {"DIFFUSE_WINDOWS": "1"}, "no such setting; expected one of DIFFUSE_RUNTIME"),
    (["info"], {"DIFFUSE_SMALL": "few"}, "DIFFUSE_SMALL='few'"),
    (["run", "--runtime", "mpi", "--memory", "16Q", "-c", "1"], {}, "--memory 16Q: expected"),
    (["run", "--compare", "--explain", "-c", "1"], {}, "leave out --compare, or --explain"),
    (["run", "--real", "9", "-c", "1"], {}, "--real 9: expected names of modules"),
    (["run"], {}, "expected a program"),
    (["run", "--nonsense", "x.py"], {}, "--nonsense"),
    (["cache", "burn"], {}, "No such command 'burn'"),
    (["rnu", "x.py"], {}, "there is no command and no program 'rnu'; did you mean run?"),
    (["run", "--windwo", "1", "x.py"], {}, "--window"),
    (["info"], {"DIFFUSE_WINDOWS_SIZE": "1"}, "did you mean DIFFUSE_WINDOW_SIZE?"),
    (["info"], {"DIFFUSE_COMPILE": "Wait"}, "did you mean wait?"),
])
def test_a_wrong_call_says_what_is_right(words: list[str], environment: dict[str, str], said: str) -> None:
    found = run(*words, **environment)
    assert found.returncode == 2 and said in found.stderr and "Traceback" not in found.stderr


@pytest.mark.parametrize("words, said", [
    (["run", "-m", "no_such_module"], "diffuse: No module named no_such_module"),
    (["run", "--runtime", "cuda", "-c", "1"], "Error: no NVIDIA driver was found"),
    (["explain", "--runtime", "cuda", "-c", "1"], "Error: no NVIDIA driver was found"),
])
def test_what_is_missing_is_said_before_the_program_runs(words: list[str], said: str) -> None:
    if "cuda" in words:
        with contextlib.suppress(OSError):
            ctypes.CDLL("libcuda.so.1")
            pytest.skip("there is a driver")
    found = run(*words)
    assert (found.returncode, found.stderr.count("\n")) == (1, 1) and found.stderr.startswith(said)


def test_trace_and_explain_show_the_plans(program: str) -> None:
    traced = run("run", "--trace", program).stderr
    assert "diffuse: plan:" in traced and "program.py:5" in traced and "recorded:" in traced
    assert "diffuse: plan:" in run("run", program, DIFFUSE_TRACE="1").stderr
    assert "diffuse:" not in run("run", program).stderr
    explained = run("run", "--explain", program)
    assert "plan 0:" in explained.stderr and len(explained.stdout.split()) == 1
    assert run("explain", "-c", "import numpy").stdout == "totals: nothing was recorded\n"
    found = run("explain", "--json", "-c", "import numpy as np\nx = np.ones(2_000_000) * 2 + 1\nx.sum() > 1")
    told = json.loads(found.stdout)
    assert told["counters"]["launched"] >= 1
    assert "multiply" in [name for plan in told["plans"] for name in plan["operations"]]


def test_info_lists_every_setting_with_its_source(tmp_path: Path) -> None:
    environment = {"DIFFUSE_NUM_THREADS": "1", "DIFFUSE_CACHE_DIR": str(tmp_path)}
    told = json.loads(run("info", "--json", **environment).stdout)
    assert set(told["settings"]) == set(SETTINGS)
    assert told["settings"]["threads"]["source"] == "environment"
    assert told["settings"]["window"] == {**told["settings"]["window"], "value": "auto", "source": "default"}
    assert told["threads"]["number"] == 1 and "setting" in told["threads"]["source"]
    assert told["versions"]["numpy"].startswith("2.")
    text = run("info", **environment).stdout
    assert "DIFFUSE_NUM_THREADS    1                        environment" in text and str(tmp_path) in text
    assert "DIFFUSE_TRACE          0 " in text and "DIFFUSE_MEMORY         none " in text
    assert run("info", "--markdown").stdout.count("| `DIFFUSE_") == len(SETTINGS)


def test_cache_counts_lists_and_clears(tmp_path: Path, program: str) -> None:
    folder = {"DIFFUSE_CACHE_DIR": str(tmp_path / "kernels")}
    empty = json.loads(run("cache", "stats", "--json", **folder).stdout)
    assert empty["kernels"] == 0 and empty["folder"] == str(tmp_path / "kernels")
    assert run("run", "--compile", "wait", program, **folder).returncode == 0
    stats = json.loads(run("cache", "stats", "--json", **folder).stdout)
    listed = json.loads(run("cache", "ls", "--json", **folder).stdout)
    assert stats["kernels"] == len(listed) > 0 and stats["bytes"] == sum(one["bytes"] for one in listed)
    assert len(run("cache", "ls", **folder).stdout.splitlines()) == len(listed)
    assert json.loads(run("cache", "clear", "--json", **folder).stdout) == {"removed": len(listed)}
    assert run("cache", "stats", **folder).stdout.startswith(f"{tmp_path / 'kernels'}: 0 kernels")


def test_compare_times_the_steps_of_an_app(app: str) -> None:
    found = run("run", "--compare", "--json", app, "--size", "2000000", "--iterations", "4")
    assert found.returncode == 0, found.stderr
    told: dict[str, Any] = json.loads(found.stdout)
    assert told["iterations"] == 4 and len(told["steps"]["diffuse"]) == len(told["steps"]["numpy"]) == 4
    assert told["operations"] == 3 and told["tasks"] == 1
    assert told["difference"] == {"y": 0.0, "first": 0.0}
    assert min(told["peak"].values()) > 1 << 20
    text = run("run", "--compare", app, "--size", "20000", "--iterations", "2").stdout
    for label in ("first", "steady state, of 2", "memory peak", "operations in an iteration",
                  "tasks after fusion", "largest difference in y"):
        assert label in text


def test_compare_of_any_other_program_says_so(program: str) -> None:
    found = run("run", "--compare", program)
    assert found.returncode == 0, found.stderr
    assert "whole-program times" in found.stdout and "memory peak" in found.stdout
    assert "The results are equal: 1 line." in found.stdout
    assert len([line for line in found.stdout.splitlines() if NUMBER.fullmatch(line)]) == 1, "printed twice"


SAVING = """
import os, sys, time
import numpy as np
wrong = ("diffuse" in np.__name__) and sys.argv[1:]
x = np.linspace(0.0, 1.0, 50000) * 2.0
if wrong:
    x[7] += 1e-3
assert not os.path.exists("x.npy"), "what the other run saved is in the way"
print("sum", x.sum(), "in", time.perf_counter(), "s")
if wrong == ["text"]:
    print("one line more")
np.save("x.npy", x)
np.savez("both.npz", x=x, n=np.arange(3))
np.savetxt("x.csv", x[:10], delimiter=",")
with open("log.txt", "a") as log:
    log.write("again\\n")
"""


def saving(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text(SAVING)
    (folder / "log.txt").write_text("first\n")
    return subprocess.run([sys.executable, "-m", "diffuse", "run", "--compare", "program.py", *words],
                          cwd=folder, capture_output=True, text=True, timeout=300,
                          env={**os.environ, "PYTHONPATH": str(ROOT)})


def test_compare_compares_what_is_printed_and_saved(tmp_path: Path) -> None:
    found = saving(tmp_path)
    assert found.returncode == 0, found.stdout + found.stderr
    assert "The results are equal: 1 line, 4 saved files." in found.stdout
    assert (tmp_path / "log.txt").read_text() == "first\nagain\n", "each run begins alike"


def test_compare_says_that_results_agree_but_for_rounding() -> None:
    said = ("import numpy as np; third = 1 / 3 * (1 + 1e-15 * ('diffuse' in np.__name__)); "
            "print(third, 'after 0.5 s')")
    found = run("run", "--compare", "-c", said)
    assert "The results agree but for rounding: 1 line." in found.stdout, found.stdout + found.stderr


@pytest.mark.parametrize("what, said", [
    ("files", ["x.npy differs in 1 of 50000 elements; [7] is 0.00028",
               "both.npz holds 'x', which differs in 1", "x.csv differs: line 8 is"]),
    ("text", ["printed text: 1 lines under NumPy and 2 under Diffuse"]),
])
def test_compare_finds_what_differs(tmp_path: Path, what: str, said: list[str]) -> None:
    found = saving(tmp_path, what)
    assert found.returncode == 1 and "The results differ:" in found.stdout, found.stderr
    assert all(one in found.stdout for one in said), found.stdout


def test_compare_of_a_failing_program_fails(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text("raise SystemExit(3)")
    found = run("run", "--compare", str(path))
    assert found.returncode != 0 and "failed under numpy: exit status 3" in found.stderr


def test_compare_of_no_file_fails_in_one_line() -> None:
    found = run("run", "--compare", "nowhere.py")
    assert found.returncode != 0 and len(found.stderr.splitlines()) == 1 and "'nowhere.py'" in found.stderr


def test_the_largest_difference_is_found(tmp_path: Path) -> None:
    import numpy

    from diffuse.cli.compare import results

    for under, value in (("numpy", 1.0), ("diffuse", 1.5)):
        os.mkdir(tmp_path / under)
        numpy.savez(tmp_path / under / "results.npz", a=numpy.array([0.0, value, numpy.nan, numpy.inf]),
                    b=numpy.array([True]))
    largest, differences = results(str(tmp_path))
    assert largest == {"a": 0.5, "b": 0.0}
    assert differences == ["result 'a' differs in 1 of 4 elements; "
                           "[1] is 1.0 under NumPy and 1.5 under Diffuse"]

"""The ordinary programs of apps/everyday: each passes its own check, under NumPy and under Diffuse.

All programs run in one process under NumPy and in one under Diffuse, at their smallest sizes.  Arrays that
small are computed at once; one more process records the operations on all of them.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "apps" / "everyday"
PROGRAMS = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "common")
RESULT = re.compile(r"^(.+) (\S+) within (\S+)$", re.M)

RUN_ALL = """
import contextlib, io, json, runpy, sys, traceback
under, size, *paths = sys.argv[1:]
found = {}
for path in paths:
    printed, status = io.StringIO(), 0
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        if under == "diffuse":
            from diffuse import intercept
            status = intercept.run_file(path, [size])
        else:
            sys.argv[1:] = [size]
            try:
                runpy.run_path(path, run_name="__main__")
            except BaseException:
                status = traceback.print_exc() or 1
    found[path] = status, printed.getvalue()
print(json.dumps(found))
"""


@cache
def printed(under: str, **variables: str) -> dict[str, tuple[int, str]]:
    """Exit status and output of every program."""
    paths = {str(FOLDER / f"{name}.py"): name for name in PROGRAMS}
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(FOLDER))), **variables}
    done = subprocess.run([sys.executable, "-c", RUN_ALL, under, "tiny", *paths], env=environment, text=True,
                          capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return {paths[path]: tuple(said) for path, said in json.loads(done.stdout).items()}


def test_there_are_programs_of_all_kinds() -> None:
    assert len(PROGRAMS) >= 30


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_passes_its_check(name: str) -> None:
    status, text = printed("numpy")[name]
    assert status == 0, text
    assert len(RESULT.findall(text)) >= 2
    assert re.search(r"^[0-9.]+ seconds\Z", text.strip(), re.M), text


@pytest.mark.parametrize("small", ["16384", "0"], ids=["at once", "recorded"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_prints_the_same_under_diffuse(name: str, small: str) -> None:
    status, text = printed("diffuse", DIFFUSE_SMALL=small, DIFFUSE_COMPILE="off")[name]
    assert status == 0, text
    expected = RESULT.findall(printed("numpy")[name][1])
    for (what, ours, _), (said, theirs, within) in zip(RESULT.findall(text), expected, strict=True):
        assert what == said
        assert ours == theirs or abs(float(ours) - float(theirs)) <= float(within) * abs(float(theirs))


def test_an_unknown_size_is_named() -> None:
    command = [sys.executable, str(FOLDER / "sieve.py"), "huge"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    assert "size 'huge': expected one of tiny, small, medium, large" in done.stderr

"""The extension for small arrays and the Python code beside it: one behaviour, and which of the two runs."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from diffuse.numpy import small
from diffuse.settings import config, using

ROOT = Path(__file__).resolve().parent.parent
BEHAVIOUR = ["numpy_array", "numpy_views", "numpy_recording", "numpy_objects", "numpy_scalar", "numpy_layout",
             "numpy_protocols", "gates", "known_calls", "recorded_again"]
"""Tests that run once more: without the extension if it is used, or the other way."""


TELL = """
import diffuse.numpy as np
from diffuse.numpy.arrays import core

class Held:
    def __init__(self):
        self.file, self.array = open("/dev/stdout", "w"), np.arange(300.0) * 2

    def __del__(self):  # at the end of the process, as the module is cleared
        print(self.array[2], flush=True)
        self.file.write("written")  # is flushed when the file is closed

held = Held()
print(core.Array.__module__)
"""
"""A program that tells which code runs; what it holds at its end is finalized, as it is without Diffuse."""


def python(*arguments: str, used: bool) -> subprocess.CompletedProcess[str]:
    """Run this interpreter with the extension, or without."""
    return subprocess.run([sys.executable, *arguments], cwd=ROOT, text=True, capture_output=True, timeout=300,
                          env={**os.environ, "DIFFUSE_COMPILED": str(int(used))})


def test_the_setting_says_which_code_runs() -> None:
    assert python("-c", TELL, used=False).stdout.split() == ["diffuse.numpy.arrays.core", "4.0", "written"]
    there = small.extension()
    expected = "diffuse.numpy.arrays.core" if there is None or small.stale(there) else "diffuse.numpy.small"
    assert python("-c", TELL, used=True).stdout.split() == [expected, "4.0", "written"]


def test_arrays_behave_the_same_with_and_without_the_extension() -> None:
    files = [f"tests/test_{name}.py" for name in BEHAVIOUR]
    run = python("-m", "pytest", "-q", "-p", "no:cacheprovider", *files, used=not config.compiled)
    assert run.returncode == 0, run.stdout[-3000:]


def test_changed_sources_are_not_what_was_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "diffuse" / "numpy" / "small"
    folder.mkdir(parents=True)
    (tmp_path / "pyproject.toml").touch()
    monkeypatch.setattr(small, "FOLDER", str(folder))
    with using(compiled=True):
        assert "where there is a C compiler" in small.state()
        for name in small.SOURCES:
            (folder / name).touch()
            os.utime(folder / name, (1, 1))
        (folder / ("_small" + EXTENSION_SUFFIXES[0])).touch()
        assert small.state() == "used"
        os.utime(folder / small.SOURCES[0])
        os.utime(folder / ("_small" + EXTENSION_SUFFIXES[0]), (2, 2))
        assert "changed" in small.state()
    with using(compiled=False):
        assert "DIFFUSE_COMPILED" in small.state()

"""The hot path compiled and as Python: the same behaviour, and which of the two runs."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from diffuse import compiled
from diffuse.settings import config, using

ROOT = Path(__file__).resolve().parent.parent
BEHAVIOUR = ["array", "views", "recording", "objects", "scalar", "layout"]
"""Tests that run once more: with the compiled modules if these run Python's sources, or the other way."""


def python(*arguments: str, used: bool) -> subprocess.CompletedProcess[str]:
    """Run this interpreter with the compiled modules, or without."""
    return subprocess.run([sys.executable, *arguments], cwd=ROOT, text=True, capture_output=True, timeout=300,
                          env={**os.environ, "DIFFUSE_COMPILED": str(int(used))})


def test_the_setting_says_which_files_run() -> None:
    tell = "import diffuse.numpy; from diffuse.numpy.arrays import core; print(core.__file__)"
    assert python("-c", tell, used=False).stdout.strip() == compiled.source("diffuse.numpy.arrays.core")
    found = python("-c", tell, used=True).stdout.strip()
    assert found.endswith(".so") == compiled.current("diffuse.numpy.arrays.core")


def test_arrays_behave_the_same_without_the_compiled_modules() -> None:
    files = [f"tests/test_numpy_{name}.py" for name in BEHAVIOUR] + ["tests/test_gates.py"]
    run = python("-m", "pytest", "-q", "-p", "no:cacheprovider", *files, used=not config.compiled)
    assert run.returncode == 0, run.stdout[-3000:]


def test_a_changed_source_is_taken_until_it_is_compiled(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "diffuse"
    stem = folder / "numpy" / "ops" / "gates"
    stem.parent.mkdir(parents=True)
    (tmp_path / "pyproject.toml").touch()
    monkeypatch.setattr(compiled, "FOLDER", str(folder))
    name, source = "diffuse.numpy.ops.gates", stem.with_suffix(".py")
    extension = Path(str(stem) + EXTENSION_SUFFIXES[0])
    source.touch()
    assert not compiled.current(name) and "no C compiler" in compiled.state()
    extension.touch()
    os.utime(source, (1, 1))
    assert compiled.current(name)
    os.utime(source, None)
    os.utime(extension, (2, 2))
    assert not compiled.current(name) and "changed" in compiled.state()
    assert compiled.Sources.find_spec(name) is not None
    with using(compiled=False):
        assert "DIFFUSE_COMPILED" in compiled.state()

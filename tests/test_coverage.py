"""`diffuse coverage`: what it says is what the dispatch does when the functions are called."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy
import pytest
from click.testing import CliRunner

import diffuse.numpy as np
from diffuse import settings
from diffuse.cli import coverage, probe
from diffuse.numpy import small
from diffuse.numpy.bridge import fallback, namespace
from diffuse.stream import engine
from tests.outcomes import warned


@pytest.fixture(autouse=True, scope="module")
def usual() -> Iterator[None]:
    """The usual threshold of small arrays, and nobody waits for the compiler."""
    with settings.using(small=16384, compile="off"):
        yield


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """All findings, by name."""
    listener = engine.current().brevity.listener
    try:
        return {one.name.removeprefix("numpy."): one for one in probe.findings()}
    finally:
        engine.current().brevity.listener = listener


def test_every_public_name_has_one_way(found: dict[str, Any]) -> None:
    public = {name for name in namespace.public(numpy) if not name.startswith("__")}
    assert public <= set(found)
    assert {"linalg.svd", "fft.fft", "random.rand", "ndarray.sort", "maximum.at"} <= set(found)
    assert {one.way for one in found.values()} <= set(probe.WAYS)
    assert sum(coverage.totals([*found.values()]).values()) == len(found)
    raised = {name for name, one in found.items() if one.reason.startswith("raised")}
    assert raised <= ({"frombuffer"} if small.native is None else set())  # which needs the buffer protocol


@pytest.mark.parametrize("name, way, reason", [
    ("linalg.svd", probe.NUMPY, "LAPACK"), ("fft.fft", probe.NUMPY, "pocketfft"),
    ("array2string", probe.NUMPY, "text"),
    *((name, probe.RECORDED, "")
      for name in "add where sum ndarray.mean zeros linspace clip concatenate".split()),
    *((name, probe.AT_ONCE, "") for name in ("transpose", "ndarray.view")),
    *((name, probe.OBJECT, "") for name in ("pi", "ndarray", "linalg", "set_printoptions"))])
def test_ways_that_are_known(found: dict[str, Any], name: str, way: str, reason: str) -> None:
    assert found[name].way == way and reason in found[name].reason


def test_a_function_that_gathers_warns_and_one_that_is_recorded_does_not(found: dict[str, Any]) -> None:
    """The same functions, called as programs do, on an array that is still to be computed."""
    counted = 0
    for name, one in found.items():
        if "." in name or one.way not in (probe.RECORDED, probe.GATHERS):
            continue
        function = getattr(np, name)
        fallback.forget_warnings()
        with warned() as said, settings.using(small=128):
            x = np.arange(300.0) * 2
            try:
                function(x)
            except Exception:
                continue
        told = any("runs by NumPy here" in str(one.message) for one in said)
        assert told == (one.way == probe.GATHERS) or name == "where", name
        counted += 1
    assert counted > 80


def test_the_ways_follow_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that becomes Diffuse's own changes its way without a list to change."""
    assert probe.probe("numpy.made", numpy.cbrt, np.cbrt, True, False).way == probe.RECORDED
    plain = fallback.wrapped(numpy.cbrt, "numpy.made")
    assert probe.probe("numpy.made", numpy.cbrt, plain, False, False).way == probe.GATHERS
    monkeypatch.setitem(namespace.SILENT, "numpy.made", "library")
    silent = fallback.wrapped(numpy.cbrt, "numpy.made", "library")
    found = probe.probe("numpy.made", numpy.cbrt, silent, False, False)
    assert (found.way, found.reason) == (probe.NUMPY, fallback.SILENT["library"])


def test_what_is_printed() -> None:
    runner = CliRunner()
    listener = engine.current().brevity.listener
    said = runner.invoke(coverage.command, ["add", "np.linalg.svd", "pi"], standalone_mode=False).output
    assert "3 public names of NumPy" in said
    assert "recorded (1)\n  add" in said and "object (1)\n  pi" in said
    assert f"Below {settings.config.small:,} elements" in said
    written = runner.invoke(coverage.command, ["--json", "sqrt", "ldexp"], standalone_mode=False).output
    made = json.loads(written)
    first, second = made["names"]
    assert made["totals"]["recorded"] == 2 and first["name"] == "numpy.sqrt" and first["small"] == "numpy"
    assert {"float32", "float64", "complex128", "int8"} <= set(first["types"])
    assert "complex128" not in second["types"]
    wrong = runner.invoke(coverage.command, ["nosuch"])
    assert wrong.exit_code == 2 and "'nosuch': expected public names of NumPy, such as sort" in wrong.output
    engine.current().brevity.listener = listener

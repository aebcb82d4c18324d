"""Loops with functions such as `exp`, which take two vectors a step (kernels/llvm/paired.py)."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse.ir import Decomposition, Privilege, Split, loops
from diffuse.kernels.body.expr import Argument, Body, Loop, Op, Space
from diffuse.kernels.build import codegen
from diffuse.kernels.build.compiler import compiler
from diffuse.kernels.llvm import paired
from diffuse.kernels.targets.host import host
from diffuse.stream import engine
from tests import machine_code
from tests.outcomes import silent
from tests.test_fuzz_stream import stream
from tests.test_gapped_rows import over_rows

pytestmark = [pytest.mark.usefixtures("recorded_in_points"),
              pytest.mark.skipif(not host().permutes, reason="two vectors need the registers of AVX-512")]

FUNCTIONS = ("exp", "expm1", "log", "log1p", "sin", "tan", "tanh", "arcsin", "arctan", "cbrt", "erf", "sinh")
LENGTHS = (0, 1, 7, 8, 9, 15, 16, 17, 23, 24, 31, 32, 33, 48, 61)


def body(function: str) -> Body:
    """`where(x < a, function(x), x)` of a vector x and a number a."""
    arguments = (Argument(0, 0, "float64", 0, "1", Privilege.READ),
                 Argument(1, 0, "float64", 0, "1", Privilege.WRITE))
    ops = (Op("load", "float64", (), 0), Op("scalar", "float64", (), 0), Op("less", "bool", (0, 1)),
           Op(function, "float64", (0,)), Op("where", "float64", (2, 3, 0)), Op("store", "float64", (4,), 1))
    return Body((Space(1, (0,)),), arguments, ("float64",), (Loop(0, (0,), ops),))


def results(function: str, x: Any) -> list[bytes]:
    """What the kernel stores for the first elements of a vector, for each of `LENGTHS`, and behind them."""
    native, found = machine_code.native(body(function)), []
    for length in LENGTHS:
        out = numpy.full(x.size, -7.0)
        values = (1, length, length, x.ctypes.data, 8, out.ctypes.data, 8, 1e5)
        with numpy.errstate(all="ignore"):
            machine_code.run(native, body(function), values, 1)
        assert (out[length:] == -7.0).all()
        found.append(out.tobytes())
    return found


@pytest.mark.parametrize("function", FUNCTIONS)
def test_bits_are_those_of_single_vectors(function: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers for which the function branches stand in the first vector of some steps, and in the second of
    others."""
    x = numpy.random.default_rng(3).random(80) * 0.9
    x[[5, 13, 30, 47, 52]] = numpy.inf, -800.0, numpy.nan, 1e4, -1e300
    assert "<16 x double>" in codegen.text(body(function))
    together = results(function, x)
    monkeypatch.setattr(paired, "applies", lambda nest: False)
    assert "<16 x double>" not in codegen.text(body(function))
    assert together == results(function, x)


def rows(width: int, letters: str) -> Body:
    """`exp` of an array with gaps between its rows of `width` elements."""
    vectors = loops.flat((60, width), Decomposition((1,), (Split(-1, 60),)))
    arguments = (Argument(0, 0, "float64", 0, letters, Privilege.READ),
                 Argument(1, 0, "float64", 0, "s1", Privilege.WRITE))
    ops = (Op("load", "float64", (), 0), Op("exp", "float64", (0,)), Op("store", "float64", (1,), 1))
    return Body((Space(2, (-1,), vectors),), arguments, (), (Loop(0, (0, 1), ops),))


@pytest.mark.parametrize("width, letters, pairs", [
    (25, "s4", False),  # one such step would be followed by two of one vector
    (25, "s1", True),   # the loop runs across rows
    (32, "s4", True),
    (64, "s4", True),
])
def test_short_rows_take_one_vector_a_step(width: int, letters: str, pairs: bool) -> None:
    assert ("<16 x double>" in codegen.text(rows(width, letters))) == pairs


def changed(x: Any, parts: Any, row: Any) -> None:
    """Change `x` along whole rows and along parts of them, and a part of each element of `parts`."""
    x += np.tanh(x * row)
    x[:, 1:] *= np.exp(x[:, 1:] * row[1:] - parts[:, :-1, 0, 1])
    parts[:, 1:, 1, 0] = np.log1p(x[:, 1:] * row[:-1]) + x[:, :-1]


@pytest.mark.not_legate("kernels of its own, which are never interpreted, run there")
@pytest.mark.parametrize("points", [1, 3])
@pytest.mark.parametrize("width", [2, 5, 9, 10, 11, 13, 26, 40])
def test_rows(points: int, width: int) -> None:
    """Short rows run as one loop, in which a step of two vectors reaches over several of them;
    the interpreter has the same bits."""
    random = numpy.random.default_rng(points)
    start = [random.random(size) for size in ((60, width), (60, width, 2, 2), (width,))]
    found = []
    for how in ("wait", "off"):
        compiler.forget()
        engine.current().window.forget()
        with stream(points=points, min_chunk=8, compile=how):
            ours = [np.array(x) for x in start]
            changed(*ours)
            found.append([numpy.asarray(x).tobytes() for x in ours])
    assert found[0] == found[1]


@pytest.mark.not_legate("where Legate places stores, rows may lie apart")
def test_rows_run_as_one_loop() -> None:
    random = numpy.random.default_rng(0)
    ours = [np.array(random.random(size)) for size in ((300, 11), (300, 11, 2, 2), (11,))]
    assert over_rows(lambda: changed(*ours)).count(True) >= 3


def test_elements_behind_the_last_raise_no_flag() -> None:
    for count in (17, 24, 30):
        plain = numpy.zeros((40, count + 3))
        plain[:, :count] = 2.0
        with stream(points=2, min_chunk=8, compile="wait"), silent():
            x = np.array(plain)
            x[:, :count] = np.log(x[:, :count]) / x[:, :count]
            engine.fence()
        assert numpy.asarray(x)[:, :count].min() > 0.3 and not numpy.asarray(x)[:, count:].any()

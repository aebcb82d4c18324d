"""Loops over short rows with gaps between them, which run across the rows (kernels/llvm/gaps.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse.kernels.body.expr import Body
from diffuse.kernels.build.compiler import compiler
from diffuse.kernels.llvm import flat
from diffuse.kernels.llvm.code import Code, Module
from diffuse.kernels.targets.host import host
from diffuse.stream import engine
from tests.outcomes import silent
from tests.test_fuzz_stream import stream

pytestmark = pytest.mark.usefixtures("recorded_in_points")

WIDTHS = [9, 10, 13, 17, 26]


def changed(x: Any, wide: Any, row: Any, column: Any) -> None:
    """Change `x` along parts of rows, and read them from arrays of other widths, strides and directions."""
    x[..., 1:] *= wide[..., 3:-1:2]
    x[..., :-1] -= row[1:] * wide[..., -1:-x.shape[-1]:-1]
    wide[..., 2:2 + 4 * (x.shape[-1] // 2):4] = x[::-1, ..., :x.shape[-1] // 2] + column
    wide[:-1, ..., 1:1 + 3 * (x.shape[-1] // 2):3] = x[1:, ..., 1:x.shape[-1] // 2 + 1] - x[:-1, ..., -1:]


@pytest.mark.parametrize("dtype", ["float64", "float32", "int32", "complex64"])
@pytest.mark.parametrize("points", [1, 3])
def test_parts_of_rows(dtype: str, points: int) -> None:
    random = numpy.random.default_rng(points)
    with stream(points=points, min_chunk=8, compile="wait"):
        for width in WIDTHS:
            for outer in ((23,), (9, 10)):
                sizes = (*outer, width), (*outer, 2 * width + 2), (width,), (*outer, 1)
                theirs = [(50 * random.random(size)).astype(dtype) for size in sizes]
                ours = [np.array(x) for x in theirs]
                changed(*theirs)
                changed(*ours)
                for x, y in zip(theirs, ours, strict=True):
                    assert numpy.asarray(y).tobytes() == x.tobytes()


def over_rows(program: Callable[[], Any]) -> list[bool]:
    """For each loop over short rows that a program made: does it run across them?"""
    compiler.forget()
    kept = program()
    engine.fence()
    del kept
    code = Code(Module(host()), host().lanes)

    def applies(body: Body) -> list[bool]:
        return [flat.applies(body, loop, loop.order, code)
                for loop in body.loops if body.spaces[loop.space].flat]

    return [found for body, _ in compiler.kernels for found in applies(body)]


@pytest.mark.not_legate("where Legate places stores, rows may lie apart")
@pytest.mark.skipif(not host().permutes, reason="its masked vectors are those of AVX-512")
def test_parts_of_rows_run_across_them() -> None:
    plain = numpy.random.default_rng(2).random((300, 11))
    x, y = np.array(plain), np.array(plain)

    def program() -> None:
        y[:, 1:] += (x[:, 1:] - x[:, :-1]) * x[:, :-1] / (x[:, 1:] + 1)

    assert over_rows(program) == [True]
    expected = plain.copy()
    expected[:, 1:] += (plain[:, 1:] - plain[:, :-1]) * plain[:, :-1] / (plain[:, 1:] + 1)
    assert numpy.array_equal(numpy.asarray(y), expected)


def test_lanes_beyond_the_last_element_raise_no_flag() -> None:
    """Between the rows lie zeros, and so do they behind the last one."""
    for shape in ((9, 11), (31, 10), (5, 9, 13)):
        plain = numpy.zeros(shape)
        plain[..., 1:] = 1e200
        x = np.array(plain)
        with silent():
            x[..., 1:] = (x[..., 1:] / x[..., 1:] + 1) / x[..., 1:]
            engine.fence()
        assert numpy.asarray(x)[..., 1:].max() == 2e-200 and not numpy.asarray(x)[..., 0].any()

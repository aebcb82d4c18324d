"""Loops over short rows with gaps between them, which run across the rows (kernels/llvm/gaps.py), or through
gaps of one index (kernels/llvm/skips.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse.kernels.body.expr import Body, Loop
from diffuse.kernels.build.compiler import compiler
from diffuse.kernels.llvm import flat, skips
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


def one_left_out(x: Any, y: Any, pairs: Any, row: Any) -> None:
    """Change arrays along rows without their first or last element, reading them from other such rows."""
    y[..., 1:] += (x[..., :-1] * row[1:] - 3) * pairs[..., 1:, 0]
    pairs[..., :-1, 1] = x[..., 1:] - y[..., :-1] * row[:-1]
    pairs[::-1, ..., 1:, 0] *= x[..., 1:] + row[0]


@pytest.mark.parametrize("dtype", ["float64", "float32", "int32", "int64", "uint64", "int16", "complex64"])
@pytest.mark.parametrize("points", [1, 3])
def test_rows_with_one_index_left_out(dtype: str, points: int) -> None:
    random = numpy.random.default_rng(points)
    with stream(points=points, min_chunk=8, compile="wait"):
        for width in WIDTHS:
            for outer in ((23,), (9, 10)):
                sizes = (*outer, width), (*outer, width), (*outer, width, 2), (width,)
                theirs = [(50 * random.random(size)).astype(dtype) for size in sizes]
                ours = [np.array(x) for x in theirs]
                one_left_out(*theirs)
                one_left_out(*ours)
                for x, y in zip(theirs, ours, strict=True):
                    assert numpy.asarray(y).tobytes() == x.tobytes()


def over_rows(program: Callable[[], Any]) -> list[bool]:
    """For each loop over short rows that a program made: does it run across them?"""
    return [flat.applies(body, loop, loop.order, code) for body, loop, code in over_short_rows(program)]


def over_short_rows(program: Callable[[], Any]) -> list[tuple[Body, Loop, Code]]:
    """The loops over short rows that a program made, with their bodies."""
    compiler.forget()
    kept = program()
    engine.fence()
    del kept
    code = Code(Module(host()), host().lanes)
    return [(body, loop, code) for body, _ in compiler.kernels for loop in body.loops
            if body.spaces[loop.space].flat]


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


@pytest.mark.not_legate("where Legate places stores, rows may lie apart")
@pytest.mark.skipif(not host().permutes, reason="its permutations are those of AVX-512")
def test_gaps_of_one_index_are_run_through() -> None:
    """All rows of a loop have to be one index longer."""
    x, y, one, two = (np.array(numpy.ones((300, width))) for width in (11, 11, 10, 12))

    def program() -> None:
        y[:, 1:] += x[:, :-1] * 2

    def mixed() -> None:
        y[:, 1:] += one * x[:, :-1]
        x[:, 1:] += two[:, 1:-1] * 3

    def through(body: Body, loop: Loop, code: Code) -> bool:
        return skips.applies(body, loop, code) and flat.applies(body, loop, loop.order, code)

    assert [through(*found) for found in over_short_rows(program)] == [True]
    assert not any([through(*found) for found in over_short_rows(mixed)])


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


@pytest.mark.parametrize("part", [slice(1, None), slice(None, -1)])
def test_lanes_between_rows_raise_no_flag(part: slice) -> None:
    """Between the rows lie infinities, and the elements are such that mixing two of them would overflow."""
    for shape in ((9, 10), (40, 11), (5, 9, 13), (30, 26)):
        plain = numpy.full(shape, numpy.inf)
        plain[..., part] = numpy.where(numpy.arange(plain[..., part].shape[-1]) % 2, 1e200, 1e-200)
        row = numpy.full(shape[-1], numpy.inf)
        row[part] = 1 / plain[(0,) * (len(shape) - 1)][part]
        x, factors = np.array(plain), np.array(row)
        with silent():
            x[..., part] = (x[..., part] * factors[part] - 1) * x[..., part] + x[..., part]
            engine.fence()
        assert numpy.array_equal(numpy.asarray(x), plain)

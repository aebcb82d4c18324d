"""Operations on small arrays with short rows, selections by masks, and zeros, beside NumPy."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse.library import trace
from diffuse.numpy.arrays import soon
from diffuse.numpy.small import native
from diffuse.stream import engine


def same(found: Any, expected: Any) -> None:
    found = numpy.asarray(found)
    assert found.dtype == expected.dtype and found.shape == expected.shape
    assert found.strides == expected.strides and found.tobytes() == expected.tobytes()


def laid_out(shape: tuple[int, ...], kind: str, pick: numpy.random.Generator) -> Any:
    """An array of a shape: every second element of a larger array, the beginning of one, or all of it."""
    x = (8 * pick.random((*[n + 1 for n in shape], 2)) + 1).astype(kind)
    way = int(pick.integers(0, 3))
    part = x[tuple(slice(1, None) if pick.random() < 0.5 else slice(0, -1) for _ in shape)]
    if way == 0:
        return part[..., 1]
    return numpy.ascontiguousarray(x[..., 0])[tuple(map(slice, shape))] if way == 1 else part[..., 0].copy()


@pytest.mark.parametrize("seed", range(4))
def test_short_rows_of_any_layout(seed: int) -> None:
    pick = numpy.random.default_rng(seed)
    for _ in range(150):
        shape = tuple(int(n) for n in pick.integers(1, (30, 24, 10, 9)[-pick.integers(2, 5):]))
        kind = str(pick.choice(["f8", "f4", "i8", "?", "c16"]))
        a = laid_out(shape, kind, pick)
        b = laid_out(tuple(1 if pick.random() < 0.4 else n for n in shape), kind, pick)
        x, y = np.array(a), np.array(b)
        same(x + y, a + b)
        same(y * x, b * a)
        same(x == y, a == b)
        if kind in ("f8", "f4"):
            same(x / y, a / b)
        whole, other = numpy.zeros((*shape, 2), kind), np.zeros((*shape, 2), kind)
        whole[..., 1][tuple(slice(0, n) for n in a.shape)] = a
        other[..., 1][tuple(slice(0, n) for n in a.shape)] = x
        same(other, whole)


@pytest.mark.parametrize("kind", ["f8", "f4", "i8", "u1", "?", "c16", "i4"])
def test_assignments_to_parts_of_few_elements(kind: str) -> None:
    pick = numpy.random.default_rng(3)
    start = (8 * pick.random((66, 66))).astype(kind)
    given = (8 * pick.random((66, 66))).astype(kind)

    def run(m: Any) -> Any:
        a, b = m.array(start), m.array(given)
        a[2:20] = b[:18]
        a[20:30] = b[0]
        a[30:33] = 1
        a[5:65, 5:65] = b[:60, :60].T
        a[::2, 40:50] = b[:33, 3:4]
        a[40:60:3, ::2] = b[7, ::2]
        a[:8] = b[8:0:-1]
        a[:, 60] = b[:, 3]
        a[60:, 1:] = a[58:64, :-1]  # in the same memory
        a[50:52] = b[:1, :1]
        a.reshape(6, 11, 66)[1:3, 4:6] = b[:2, :1]
        a[33:35] = numpy.array(1, kind)
        a.T[3:6] = b[3:6]
        return a

    same(run(np), run(numpy))


def test_arrays_of_few_elements_on_the_left() -> None:
    few, a = numpy.arange(1.0, 5.0).reshape(1, 1, 4), numpy.random.default_rng(0).random((20, 30, 4))
    p, x = np.array(few), np.array(a)
    same(p + x, few + a)
    same(p - x, few - a)
    same(p * x, few * a)
    same(p / x, few / a)
    a[3, 4, 1] = 0.0
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        np.array(few) / np.array(a)


@pytest.mark.parametrize("kind", ["f8", "f4", "i8", "u1", "?", "c16", "f2", ">f8"])
def test_where_selects_as_numpy_does(kind: str) -> None:
    pick = numpy.random.default_rng(7)
    for shape in ((130,), (3, 67), (5, 7, 11), (4096,), (32, 33, 4), (0, 5)):
        mask = pick.random(shape) < 0.5
        a, b = (9 * pick.random(shape)).astype(kind), (9 * pick.random(shape)).astype(kind)
        if kind == "f8" and a.size:
            a.view("u8").flat[::3] = 0x7FF4_0000_0000_0123  # a NaN that signals
            b.flat[1::3] = -0.0
        bytes_ = pick.integers(0, 3, shape).astype("u1").view("?")  # truth values that are no ones
        for m in (mask, bytes_, numpy.asfortranarray(mask), mask.astype("i8")):
            for one, other in ((a, b), (a, 0), (1, b), (a, 2.5), (numpy.float64(-0.0), b), (a, b[..., :1]),
                               (a, b.astype("c16")), (1, 2)):
                expected = numpy.where(m, one, other)
                found = np.where(*(np.array(x, order="K") if isinstance(x, numpy.ndarray) else x
                                   for x in (m, one, other)))
                same(found, expected)


def test_zeros_like_small_arrays() -> None:
    for kind in ("f8", "f4", "i4", "?", ">f8", "c8", "M8[s]"):
        ones = numpy.ones((20, 60), kind)
        for a in (ones, ones.T, ones[:, ::2]):
            x = np.array(a, order="K")
            same(np.zeros_like(x), numpy.zeros_like(a))
            same(np.zeros_like(x, dtype="i2"), numpy.zeros_like(a, dtype="i2"))


@pytest.fixture
def begun() -> Any:
    """A program that has used up what it may compute at once."""
    if native is None:  # then nothing is computed at once
        yield
        return
    left = native.allowance()
    soon.allow(1)  # memory of stores may be shown from now on
    soon.allow(0)
    yield
    soon.allow(left)


def repeated(program: Callable[[], Any]) -> int:
    """The tasks that the last of many calls recorded, after the first operations of the program."""
    for _ in range(20):
        program()
        engine.fence()
    before = trace.counters["recorded"]
    program()
    engine.fence()
    return trace.counters["recorded"] - before


@pytest.mark.skipif(native is None, reason="without the extension views are found by tasks")
@pytest.mark.local_only("arrays that were recorded are not at hand")
def test_zeros_of_which_small_parts_are_written(begun: None) -> None:
    value = np.array(numpy.ones((32, 32, 4)))

    def parts() -> Any:
        x = np.zeros((32, 32, 4, 4))
        for k in range(4):
            x[..., k] = value
        return x

    same(parts(), numpy.ones((32, 32, 4, 4)))
    assert repeated(parts) == 0


def test_zeros_that_a_task_uses_next_are_recorded(begun: None) -> None:
    a = np.array(numpy.ones(20_000))

    def whole() -> Any:
        x = np.zeros(20_000)
        x[1:-1] = np.exp(a[1:-1]) + a[2:]
        return x

    assert repeated(whole) == repeated(whole) > 0
    expected = numpy.zeros(20_000)
    expected[1:-1] = numpy.asarray(np.exp(a))[0] + 1.0
    same(whole(), expected)


@pytest.mark.parametrize("kind", ["?", "u1", "f4", "f8", "c16"])
def test_columns_of_any_length_get_what_numpys_get(kind: str) -> None:
    pick = numpy.random.default_rng(5)
    for rows in range(1, 20):
        for step, apart in itertools.product((1, 2, -1, -3), (1, 2, -1)):
            column = (slice(None, None, step), 3)
            a = numpy.zeros((rows, 1000), kind)     # large for most lengths
            x, count = np.array(a), len(a[column])
            values = (100 * pick.random(2 * count)).astype(kind)[::apart][:count]
            for value in (np.array(values), values, values[0], values[0].item()):
                a[column] = numpy.asarray(value)
                x[column] = value
                same(numpy.asarray(x), a)
                a[column] = x[column] = 0

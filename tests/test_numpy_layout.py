"""How results lie in memory: as NumPy's do, whatever their operands' layout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from tests.each import for_each
from tests.test_fuzz_numpy import pitches

pytestmark = pytest.mark.usefixtures("threshold")

LAYOUTS: dict[str, Callable[[Any, Any], Any]] = {
    "C": lambda m, x: x,
    "F": lambda m, x: x.copy("F"),
    "transposed": lambda m, x: x.T,
    "permuted": lambda m, x: x.transpose(1, 0, 2),
    "part": lambda m, x: x.copy("F")[::2, :, 1:],
    "reversed": lambda m, x: x[::-1, :, ::-1],
    "matrix": lambda m, x: x[0].copy("F"),
    "repeated": lambda m, x: m.broadcast_to(x[0], (3, 4, 5)),
    "repeated inside": lambda m, x: m.broadcast_to(x[:, :, :1], (3, 4, 5)).swapaxes(0, 1),
}
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "-x": lambda m, x: -x,
    "x + 1": lambda m, x: x + 1,
    "x > 3": lambda m, x: x > 3,
    "where": lambda m, x: m.where(x > 3, x, 0),
    "imag": lambda m, x: x.imag,
    "round": lambda m, x: x.round(),
    "astype": lambda m, x: x.astype("float32"),
    "copy": lambda m, x: x.copy("K"),
    "array": lambda m, x: m.array(x),
    "zeros_like": lambda m, x: m.zeros_like(x),
    "empty_like": lambda m, x: m.empty_like(x, dtype="int16"),
    "sum": lambda m, x: x.sum(axis=0),
    "sum of the last": lambda m, x: x.sum(axis=-1),
    "sum kept": lambda m, x: x.sum(axis=1, keepdims=True),
    "sum of two": lambda m, x: x.sum(axis=(0, 1), keepdims=True),
    "max": lambda m, x: x.max(axis=1),
    "all": lambda m, x: x.all(axis=0),
    "mean": lambda m, x: x.mean(axis=1),
    "var": lambda m, x: x.var(axis=0),
    "ptp": lambda m, x: m.ptp(x, axis=1),
    "argmax": lambda m, x: x.argmax(axis=0),
    "cumsum": lambda m, x: m.cumsum(x, axis=1),
}


MAKERS: dict[str, Callable[[Any, Any], Any]] = {
    "roll": lambda m, x: m.roll(x, 1, 0),
    "roll two axes": lambda m, x: m.roll(x, (1, 2), (0, 1)),
    "pad": lambda m, x: m.pad(x, 1),
    "pad edge": lambda m, x: m.pad(x, 2, mode="edge"),
    "stack": lambda m, x: m.stack([x, x]),
    "stack inside": lambda m, x: m.stack([x, x + 1], axis=1),
    "stack last": lambda m, x: m.stack([x, x], axis=-1),
    "concatenate": lambda m, x: m.concatenate([x, x]),
    "concatenate last": lambda m, x: m.concatenate([x, x], axis=-1, dtype="float32", casting="same_kind"),
    "concatenate unlike": lambda m, x: m.concatenate([x, x.copy(), x[:1]]),
    "vstack": lambda m, x: m.vstack([x, x]),
    "dstack": lambda m, x: m.dstack([x, x]),
    "block": lambda m, x: m.block([[x, x], [x, x]]),
    "tile by one": lambda m, x: m.tile(x, 1),
    "tile": lambda m, x: m.tile(x, 2),
    "repeat": lambda m, x: m.repeat(x, 2, axis=0),
    "like, another shape": lambda m, x: m.zeros_like(x, shape=[n + 1 for n in x.shape]),
    "like, another shape, A": lambda m, x: m.full_like(x, 3, shape=x.shape[::-1], order="A"),
    "like, more dimensions": lambda m, x: m.ones_like(x, shape=(2, *x.shape), order="K"),
    "array A": lambda m, x: m.array(x, dtype="int16", order="A"),
    "asarray A": lambda m, x: m.asarray(x, dtype="float32", order="A"),
    "astype A": lambda m, x: x.astype(x.dtype, order="A", copy=False),
    "astype C": lambda m, x: x.astype(x.dtype, order="C", copy=False),
    "more dimensions": lambda m, x: m.array(x, ndmin=5),
    "round": lambda m, x: m.round(x, 2),
    "nan_to_num": lambda m, x: m.nan_to_num(x),
    "clip": lambda m, x: m.clip(x, 3, 40),
    "complex": lambda m, x: x * 1j,
    "angle": lambda m, x: m.angle(x + 1j),
    "gradient": lambda m, x: m.gradient(x, axis=0),
    "diff": lambda m, x: m.diff(x, axis=0, prepend=0),
    "indices": lambda m, x: x[[0, 1, 0]],
    "indices inside": lambda m, x: x[:, [0, 2]],
    "indices last": lambda m, x: x[..., [1, 0]],
    "mask inside": lambda m, x: x[:, m.arange(x.shape[1]) > 1],
    "take": lambda m, x: m.take(x, [1, 0], axis=0),
    "sort": lambda m, x: m.sort(x, axis=0),
    "flip": lambda m, x: m.flip(x, 0),
}


@for_each("call", MAKERS)
@for_each("layout", LAYOUTS)
def test_a_fresh_array_lies_as_numpys(layout: str, call: str) -> None:
    values = numpy.arange(60.0).reshape(3, 4, 5)
    expected = MAKERS[call](numpy, LAYOUTS[layout](numpy, values))
    found = MAKERS[call](np, LAYOUTS[layout](np, np.array(values)))
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert pitches(found) == pitches(expected)
    assert numpy.allclose(numpy.array(found), expected)


def test_arrays_that_are_asked_for_what_they_are_give_themselves() -> None:
    x, columns = np.arange(6.0).reshape(2, 3).copy(), np.zeros((3, 2), order="F")
    assert x.real is x and np.real(x) is x
    assert x.squeeze() is x and np.squeeze(x) is x and x[:1].squeeze() is not x
    assert x.astype(float, order="C", copy=False) is x and x.astype(float, order="F", copy=False) is not x
    assert columns.astype(float, order="F", copy=False) is columns
    assert columns.astype(float, order="A", copy=False) is columns


@for_each("call", CALLS)
@for_each("layout", LAYOUTS)
@for_each("dtype", ["int64", "float64", "float32"])
def test_a_result_lies_as_numpys(layout: str, call: str, dtype: str) -> None:
    values = numpy.arange(60).reshape(3, 4, 5).astype(dtype)
    expected = CALLS[call](numpy, LAYOUTS[layout](numpy, values))
    found = CALLS[call](np, LAYOUTS[layout](np, np.array(values)))
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert pitches(found) == pitches(expected)
    if call != "empty_like":
        assert numpy.allclose(numpy.array(found), expected)
    assert found.flags.c_contiguous == expected.flags.c_contiguous
    assert found.flags.f_contiguous == expected.flags.f_contiguous


def test_numpy_gets_its_own_arrays_as_they_lie_in_memory() -> None:
    """Its transcendental functions choose their loops, and so the last bits, by strides."""
    backwards = numpy.random.default_rng(3).standard_normal(127)[::-1]
    for name in ("arcsinh", "exp", "sin", "tan", "cbrt", "log1p"):
        ours, theirs = numpy.empty(127, "g"), numpy.empty(127, "g")
        getattr(np, name)(backwards, ours, casting="unsafe", where=True)
        getattr(numpy, name)(backwards, theirs, casting="unsafe", where=True)
        assert numpy.array_equal(ours, theirs, equal_nan=True), name


@pytest.mark.parametrize("shape", [(3, 0), (0, 3), (2, 0, 4), (0,)], ids=str)
def test_results_without_elements_have_numpys_strides(shape: tuple[int, ...]) -> None:
    plain = numpy.zeros(shape, "i4")
    x = np.array(plain)
    calls: list[Callable[[Any, Any], Any]] = [
        lambda m, a: m.floor(a, subok=False), lambda m, a: m.add(a, a, order="F"), lambda m, a: a + 1,
        lambda m, a: m.empty_like(a), lambda m, a: m.zeros(shape, "f4"), lambda m, a: m.stack([a, a])]
    for call in calls:
        assert call(np, x).strides == call(numpy, plain).strides


def test_blocks_lie_as_numpys() -> None:
    """NumPy concatenates a few elements, and assigns the parts of many to an array in C or Fortran order."""
    layouts: list[Callable[[Any, Any], Any]] = [
        lambda m, x: x, lambda m, x: x.T, lambda m, x: x[:, ::2].T, lambda m, x: x[::-1],
        lambda m, x: m.broadcast_to(x[0], x.shape)]
    for rows in (40, 800):
        plain = numpy.arange(rows * 500.0).reshape(rows, 500)
        for layout in layouts:
            expected, found = [m.block([[x, x], [x, x]]) for m, x in
                               ((m, layout(m, m.array(plain))) for m in (numpy, np))]
            assert pitches(found) == pitches(expected)
            assert numpy.array_equal(numpy.array(found), expected)

"""Reductions of large vectors at hand that the extension computes in parts, on the runtime's threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import diffuse
import diffuse.numpy as np
from diffuse.library import trace
from diffuse.numpy.arrays import core
from diffuse.numpy.small import native
from diffuse.settings import using

pytestmark = pytest.mark.skipif(native is None, reason="the extension is not there")
SIZES = 70_001, 300_000, 1_200_000
TIMES = 6
"""How often each reduction is called: the first calls run on one thread, later ones on two."""
EXTREMES: dict[str, Callable[[Any, Any], Any]] = {
    "max": lambda m, x: x.max(), "min": lambda m, x: m.min(x), "argmax": lambda m, x: m.argmax(x),
    "argmin": lambda m, x: x.argmin(), "maximum": lambda m, x: m.maximum.reduce(x),
    "minimum": lambda m, x: m.minimum.reduce(x), "ptp": lambda m, x: m.ptp(x)}
BOOLS: dict[str, Callable[[Any, Any], Any]] = {
    "any": lambda m, x: x.any(), "all": lambda m, x: m.all(x), "count": lambda m, x: m.count_nonzero(x)}


@pytest.fixture(autouse=True)
def two_threads() -> Any:
    before = core.SMALL
    core.set_small(16_384)
    with using(runtime="local", threads=2):
        core.see(True)
        yield
    core.set_small(before)


def same(calls: dict[str, Callable[[Any, Any], Any]], given: numpy.ndarray[Any, Any], what: str) -> None:
    """Compare results with NumPy's, of which no call records a task."""
    x = np.array(given)
    diffuse.fence()
    for name, call in calls.items():
        expected, before = call(numpy, given), trace.counters["recorded"]
        for _ in range(TIMES):
            found = call(np, x)
            assert type(found) is type(expected) and found.tobytes() == expected.tobytes(), (name, what)
        assert trace.counters["recorded"] == before, (name, what)


def test_extremes() -> None:
    pick = numpy.random.default_rng(1)
    for size in SIZES:
        for dtype in "float64", "float32", "int64":
            x = (1000 * pick.standard_normal(size)).astype(dtype)
            same(EXTREMES, x, f"{size} {dtype}")
            for place in 0, size // 2 + 1, size - 1:  # the first of several equal ones
                x[[place, size - 1]] = 9999
                assert np.array(x).argmax() == place
                x[[place, size - 1]] = -9999
                assert np.array(x).argmin() == place
                x[[place, size - 1]] = 0


@pytest.mark.parametrize(
    "shape", [(300, 400), (3, 70_001), (70_001, 2), (5, 200, 300), (1, 200_000), (1200, 900)])
def test_extremes_of_rows(shape: tuple[int, ...]) -> None:
    """The first of equal ones, and NaN before all others."""
    pick = numpy.random.default_rng(7)
    for dtype in "float64", "float32", "int64", "int32":
        x = pick.integers(-50, 50, shape).astype(dtype)
        if dtype[0] == "f":
            x[0, :1] = x[-1, 1:2] = numpy.nan
            x[x == 0] *= pick.choice([-1.0, 1.0], (x == 0).sum())
        ours = np.array(x)
        for axis in -1, x.ndim - 1, 0, None:
            for _ in range(TIMES):
                for found, expected in ((ours.argmin(axis=axis), x.argmin(axis=axis)),
                                        (np.argmax(ours, axis), numpy.argmax(x, axis))):
                    assert found.dtype == expected.dtype and numpy.array_equal(numpy.asarray(found), expected)


def test_ranges() -> None:
    """The greatest element minus the least: integers wrap around, floats may overflow."""
    same({"ptp": EXTREMES["ptp"]}, numpy.array([-2**62, 2**62 + 5] * 100_000), "wraps around")
    wide = numpy.array([1e308, -1e308] * 100_000)
    x = np.array(wide)
    for _ in range(TIMES):
        with pytest.warns(RuntimeWarning, match="overflow encountered in subtract"):
            assert np.ptp(x) == numpy.inf
    wide[7] = numpy.inf
    same({"ptp": EXTREMES["ptp"]}, wide, "infinite")
    with pytest.raises(TypeError, match="boolean subtract"):
        np.ptp(x > 0)


def test_integer_sums() -> None:
    x = numpy.random.default_rng(2).integers(-2**62, 2**62, 300_001)
    same({"sum": lambda m, x: x.sum(), "add": lambda m, x: m.add.reduce(x)}, x, "wraps around")


@pytest.mark.filterwarnings("error")
def test_zeros_and_nan_are_numpys() -> None:
    """Which of two zeros, or of several NaNs, is the result depends on the order in which NumPy goes."""
    for dtype in "float64", "float32":
        x = numpy.zeros(300_000, dtype)
        x[1::3] = -0.0
        same(EXTREMES, x, f"zeros of {dtype}")
        x[200_000:] = -numpy.nan
        x[250_000:] = numpy.nan
        same(EXTREMES, x, f"NaN of {dtype}")


@pytest.mark.filterwarnings("ignore:.*runs by NumPy here")
def test_sections() -> None:
    """Of vectors of any length, at places of all kinds."""
    pick = numpy.random.default_rng(5)
    for size in 59_999, 70_001, 1_200_000:
        starts = numpy.unique(pick.integers(0, size, 1000))
        several = starts, starts[:2], starts[-1:], starts[::-1].copy(), starts[::2], starts // 3, starts[:0]
        for places in several:
            for dtype in "float64", "float32", "int64", "int32":
                x = (1000 * pick.standard_normal(size)).astype(dtype)
                for word in "add", "maximum", "minimum", "multiply":
                    sections_are_numpys(word, x % 3 if word == "multiply" else x, places)
    x = pick.standard_normal(70_001)
    x[::5], x[3::500] = -0.0, numpy.nan
    sections_are_numpys("add", x, starts[starts < 70_001])
    sections_are_numpys("add", x[::-1], numpy.array([0, 5]))
    for wrong in [0, 70_001], [-1, 5]:
        with pytest.raises(IndexError):
            np.add.reduceat(np.array(x), wrong)


def sections_are_numpys(word: str, given: Any, places: Any) -> None:
    x = np.array(given)
    with numpy.errstate(all="ignore"), np.errstate(all="ignore"):
        expected = getattr(numpy, word).reduceat(given, places)
        for _ in range(TIMES):
            found = numpy.asarray(getattr(np, word).reduceat(x, places))
            assert found.dtype == expected.dtype and found.tobytes() == expected.tobytes(), word


@pytest.mark.filterwarnings("ignore:.*runs by NumPy here")
def test_sections_warn_as_numpys_do() -> None:
    x = numpy.ones(100_000)
    x[[10, 20]] = numpy.inf, -numpy.inf
    ours, places = np.array(x), numpy.array([0, 50_000])
    for _ in range(TIMES):
        with pytest.warns(RuntimeWarning, match="invalid value encountered in reduceat"):
            numpy.add.reduceat(x, places)
        with pytest.warns(RuntimeWarning, match="invalid value encountered in reduceat"):
            np.add.reduceat(ours, places)


def test_bools() -> None:
    for size in 70_001, 300_000, 5_000_000:
        x = numpy.random.default_rng(size).random(size) > 0.5
        same(BOOLS | {"sum": lambda m, x: x.sum()}, x, "random")
        for truth in False, True:
            x[:] = truth
            same(BOOLS, x, f"{size} times {truth}")
            for place in 70_000, size - 1:  # behind what is searched first
                x[place] = not truth
                same(BOOLS, x, f"{not truth} at {place}")
                x[place] = truth


def test_small_bools() -> None:
    """Of up to 128 elements they are NumPy's own arrays."""
    for shape in (5,), (200,), (30, 40), (10_000,):
        given = numpy.random.default_rng(6).random(shape) > 0.5
        for x, y in (given, np.array(given)), (given.T[::-1], np.array(given).T[::-1]):
            for call in BOOLS["count"], lambda m, x: x.sum(), lambda m, x: m.add.reduce(x):
                expected, found = call(numpy, x), call(np, y)
                assert numpy.array_equal(numpy.asarray(found), expected)
                assert (found.dtype, found.shape) == (expected.dtype, expected.shape)


def test_bools_in_memory_order() -> None:
    x = numpy.asfortranarray(numpy.random.default_rng(3).random((600, 700)) > 0.01)
    same(BOOLS, x, "Fortran order")
    same(BOOLS, x.reshape(6, 100, 700)[::-1], "reversed")


def test_weighted_average_has_the_bits_of_the_formula() -> None:
    pick = numpy.random.default_rng(4)
    for dtype in "float64", "float32":
        x, w = (np.array(pick.random(100_000).astype(dtype)) for _ in range(2))
        expected = (x * w).sum() / w.sum()
        assert {np.average(x, weights=w).tobytes() for _ in range(TIMES)} == {expected.tobytes()}
        one, weight = np.average(x, weights=w, returned=True)
        assert one.tobytes() == expected.tobytes() and weight == w.sum()


def test_weighted_average_warns_of_small_products() -> None:
    x = np.array(numpy.full(100_000, 1e-200))
    with np.errstate(under="warn"), pytest.warns(RuntimeWarning, match="underflow encountered in multiply"):
        np.average(x, weights=x)

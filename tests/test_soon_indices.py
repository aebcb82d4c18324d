"""Programs that read a value after every few operations: masks and indices are used at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse import settings
from diffuse.numpy.small import native
from diffuse.stream import engine
from diffuse.stream.brevity import OFTEN
from tests.around import around
from tests.at_once import allowed, counted, noticed

pytestmark = [pytest.mark.local_only("every rank records the same, whatever is at hand there"),
              pytest.mark.skipif(native is None, reason="the extension does these operations")]

N = 20_000
MANY = 150_000
RANDOM = numpy.random.default_rng(5)
Write = Callable[[Any, Any, Any, Any], Any]


brevity = around(noticed)


def test_many_elements_are_read_at_once_where_values_are_read_often() -> None:
    plain, places = RANDOM.random(N), RANDOM.integers(-N, N, MANY)
    x, index = np.array(plain), np.array(places)
    with allowed():
        results: list[Any] = []
        assert counted(lambda: results.append(x[index])) == (0, 1)
    assert numpy.array_equal(numpy.asarray(results[0]), plain[places])
    engine.fence()
    assert counted(lambda: x[index]) == (1, 0)
    with allowed(), pytest.raises(IndexError, match=f"index {N} is out of bounds"):
        index[7] = N
        x[index]


def written(write: Write, dtype: str, size: int) -> tuple[tuple[int, int], bool]:
    """Tasks recorded, and operations done at once, by a write to an array at hand, and whether it wrote what
    NumPy writes, which a view has to show."""
    plain = (RANDOM.random(size) * 100).astype(dtype)
    mask, places = RANDOM.random(size) < 0.3, RANDOM.integers(0, size, size)
    mask[:64], mask[-3:] = False, (True, False, True)
    x = np.array(plain)
    view = x[5:]
    given = np.array(mask), np.array(places)
    counts = counted(lambda: write(np, x, *given))
    write(numpy, plain, mask, places)
    return counts, numpy.asarray(view).tobytes() == plain[5:].tobytes() and x[0] == plain[0]


NUMBERS: list[Write] = [
    lambda m, x, mask, i: x.__setitem__(mask, 7), lambda m, x, mask, i: x.__setitem__(mask, 0.75),
    lambda m, x, mask, i: x.__setitem__(mask, True),
    lambda m, x, mask, i: x.__setitem__(mask, m.float64(3.5)),
    lambda m, x, mask, i: x.__setitem__(mask, m.int64(300)),
    lambda m, x, mask, i: x[1:].__setitem__(mask[1:], 2),
    lambda m, x, mask, i: x[::2].__setitem__(mask[::2], 2),
    lambda m, x, mask, i: x.reshape(-1, 100).__setitem__(mask.reshape(-1, 100), 1),
    lambda m, x, mask, i: x.reshape(-1, 100).__setitem__(mask[:len(x) // 100], 1)]


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int32", "int64", "float16", "float32",
                                   "float64", "complex64", "complex128"])
def test_numbers_go_through_masks_as_in_numpy(dtype: str) -> None:
    with allowed():
        for write in NUMBERS:
            assert written(write, dtype, N)[1]


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "float64", "complex128"])
def test_numbers_go_through_masks_at_once_where_values_are_read_often(dtype: str) -> None:
    with allowed():
        assert written(NUMBERS[0], dtype, N) == ((0, 1), True)
    assert written(NUMBERS[0], dtype, N) == ((1, 0), True)


def test_numbers_that_do_not_fit_raise_numpys_errors() -> None:
    x, mask = np.array(numpy.zeros(N, "uint8")), np.array(numpy.ones(N, bool))
    with allowed():
        for number, error in ((300, OverflowError), (-1, OverflowError), (1j, TypeError)):
            with pytest.raises(error):
                x[mask] = number
        with pytest.raises(IndexError, match="boolean index did not match"):
            x[mask[1:]] = 1
        with pytest.raises(ValueError, match="NumPy boolean array indexing assignment cannot assign"):
            x[mask] = x[1:]
        x.flags.writeable = False
        with pytest.raises(ValueError, match="read-only"):
            x[mask] = 1
    assert not numpy.asarray(x).any()


ARRAYS: list[Write] = [
    lambda m, x, mask, i: x.__setitem__(mask, x[mask] * 2), lambda m, x, mask, i: x.__setitem__(i, x),
    lambda m, x, mask, i: x.__setitem__(mask, x[:int(mask.sum())]), lambda m, x, mask, i: x.__setitem__(i, 3)]


@pytest.mark.parametrize("number", range(len(ARRAYS)))
def test_elements_are_written_at_once(number: int) -> None:
    """NumPy's order and its copies of operands that overlap hold."""
    for dtype in ("int32", "float64", "complex128"):
        assert written(ARRAYS[number], dtype, N)[1]
        with allowed():
            counts, same = written(ARRAYS[number], dtype, N)
        assert same and counts[0] == 0


def test_a_mask_of_itself_is_written_as_in_numpy() -> None:
    plain = RANDOM.random(N) < 0.5
    x = np.array(plain)
    with allowed():
        x[x] = False
        x[1:][~x[:-1]] = True
        x[1:][x[:-1]] = False
    plain[plain] = False
    plain[1:][~plain[:-1]] = True
    plain[1:][plain[:-1]] = False
    assert numpy.array_equal(numpy.asarray(x), plain)


def test_what_tasks_read_later_is_not_overwritten() -> None:
    plain = RANDOM.random(N)
    x, mask = np.array(plain), np.array(plain > 0.5)
    pending = np.exp(x)
    with allowed():
        x[mask] = 0.0
    assert numpy.allclose(numpy.asarray(pending), numpy.exp(plain), rtol=1e-14)
    assert numpy.array_equal(numpy.asarray(x), numpy.where(plain > 0.5, 0.0, plain))


def test_a_program_that_tests_magnitudes_is_computed_at_once() -> None:
    """Magnitudes of complex numbers have the same bits, whether they are computed at once or recorded."""
    shape = (150, 160)
    c = RANDOM.standard_normal(shape) + 1j * RANDOM.standard_normal(shape)
    plain = numpy.zeros_like(c), numpy.zeros(shape, int), numpy.ones(shape, bool)

    def turn(m: Any, k: int, c: Any, z: Any, count: Any, alive: Any) -> None:
        z[alive] = z[alive] ** 2 + c[alive]
        out = m.abs(z) > 2
        count[alive & out] = k
        alive &= ~out

    given = [np.array(x) for x in (c, *plain)]
    recorded = []
    for k in range(3 * OFTEN):
        with settings.using(compile="wait"):  # it is recorded as long as there is no machine code
            recorded.append(counted(lambda: turn(np, k, *given))[0])  # noqa: B023
        turn(numpy, k, c, *plain)
    assert recorded[0] > 0 and recorded[-OFTEN:] == [0] * OFTEN
    assert numpy.array_equal(numpy.asarray(given[2]), plain[1])
    assert numpy.asarray(np.abs(given[1])).tobytes() == numpy.asarray(np.abs(np.array(plain[0]))).tobytes()


def test_results_of_tasks_that_nobody_looked_at_are_written_at_once() -> None:
    x, mask = np.exp(np.array(RANDOM.random(N))), np.array(RANDOM.random(N) < 0.5)
    engine.fence()
    with allowed():
        assert counted(lambda: x.__setitem__(mask, 0.25)) == (0, 1)
    assert (numpy.asarray(x) == 0.25).sum() == numpy.asarray(mask).sum()

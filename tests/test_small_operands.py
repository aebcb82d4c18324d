"""Small NumPy arrays beside recorded ones: the tasks read the elements of the moment of the call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import diffuse
import diffuse.numpy as np
from diffuse.numpy.arrays import core
from diffuse.numpy.ops import known
from tests.each import for_each
from tests.outcomes import fails_alike

ROWS, COLUMNS = 2000, 40


def large() -> Any:
    return numpy.arange(ROWS * COLUMNS, dtype=float).reshape(ROWS, COLUMNS) % 17 - 5.5


def forms(row: Any) -> dict[str, Any]:
    """Small arrays of several layouts with the elements of a row."""
    wide = numpy.repeat(row, 2)
    return {"row": row.copy(), "strided": wide[::2], "reversed": row[::-1].copy()[::-1],
            "broadcast": numpy.broadcast_to(row[:1], COLUMNS), "column": row[:1].reshape(1, 1).copy(),
            "single": row.astype(numpy.float32), "swapped": row.astype(">f8"), "whole": row.astype(int),
            "truth": row > 1, "none": numpy.array(row[0])}


def inplace(x: Any, row: Any) -> Any:
    x -= row
    return x


def written(x: Any, row: Any, library: Any) -> Any:
    library.multiply(x, row, out=x)
    return x


def assigned(x: Any, row: Any) -> Any:
    x[3:] = row
    return x


CALLS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "operator": lambda x, row, library: x * row, "reflected": lambda x, row, library: row / (x + 0.25),
    "comparison": lambda x, row, library: x < row, "in place": lambda x, row, library: inplace(x, row),
    "out": written, "part": lambda x, row, library: assigned(x, row),
    "where": lambda x, row, library: library.where(x > 0, x, row),
    "function": lambda x, row, library: library.maximum(row, x)}


@for_each("call", CALLS)
@for_each("form", list(forms(numpy.arange(COLUMNS, dtype=float))))
def test_elements_are_read_at_the_call(call: str, form: str) -> None:
    row = forms(numpy.arange(COLUMNS, dtype=float) / 4)[form]
    changes = row.flags.writeable
    for turn in range(6):
        theirs, ours = large(), np.array(large())
        assert core.SMALL <= theirs.size
        found = CALLS[call](ours, row, np)
        expected = CALLS[call](theirs, row, numpy)
        if changes:  # the recorded task must not see this
            row[...] = ~row if row.dtype == bool else row + 1 + turn
        assert found.dtype == expected.dtype and found.strides == expected.strides
        numpy.testing.assert_array_equal(diffuse.to_numpy(found), expected)


@pytest.mark.parametrize("call", ["in place", "out", "part"])
def test_a_call_on_the_same_views_is_recorded_again(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, row = np.array(large()), numpy.arange(COLUMNS, dtype=float)
    CALLS[call](x, row, np)
    monkeypatch.setattr(known, "keep", lambda *args: pytest.fail("the call was analysed again"))
    for _ in range(3):
        CALLS[call](x, row, np)
        row += 1
    assert numpy.isfinite(diffuse.to_numpy(x)).all()


@pytest.mark.parametrize("call", ["operator", "in place", "out", "part", "where"])
def test_a_result_that_was_computed_at_once_is_a_known_operand(call: str) -> None:
    theirs, ours = large(), np.array(large())
    for _ in range(4):
        row = ours.mean(axis=0)
        theirs = CALLS[call](theirs, diffuse.to_numpy(row).copy(), numpy)
        ours = CALLS[call](ours, row, np)
        row[:3] = 9  # after the call
    numpy.testing.assert_array_equal(diffuse.to_numpy(ours), theirs)


def test_a_view_of_the_targets_own_memory_is_read_before_it_is_written() -> None:
    theirs, ours = large(), np.array(large())
    for _ in range(4):
        numpy.asarray(theirs)
        theirs -= theirs[0]
        theirs[1:] += 1
        row = numpy.asarray(ours)[0]
        ours -= row
        ours[1:] += 1
    numpy.testing.assert_array_equal(diffuse.to_numpy(ours), theirs)


@pytest.mark.parametrize("wrong", [numpy.arange(3.0), numpy.arange(COLUMNS) * 1j])
def test_errors_are_numpys(wrong: Any) -> None:
    theirs, ours = large(), np.array(large())
    right = numpy.arange(COLUMNS, dtype=float)
    for _ in range(3):
        inplace(ours, right)
    fails_alike(lambda: inplace(ours, wrong), lambda: inplace(theirs, wrong))


@for_each("elements", [40, 1000, 40_000])
@for_each("write", [
    lambda m, x, y, z: m.add(x, y, z), lambda m, x, y, z: m.sqrt(x, z),
    lambda m, x, y, z: m.clip(x, y, 7.5, out=z), lambda m, x, y, z: x.clip(1.5, 7.5, z),
    lambda m, x, y, z: m.cumsum(x, out=z),
    lambda m, x, y, z: m.maximum(x, y, out=z), lambda m, x, y, z: m.round(x, 1, out=z),
    lambda m, x, y, z: m.add(z, y, z), lambda m, x, y, z: m.clip(z, 1, y, out=z),
    lambda m, x, y, z: m.take(x, [3] * len(x), out=z), lambda m, x, y, z: m.clip(z[::-1], y, 9.25, out=z),
    lambda m, x, y, z: m.sum([x, y], axis=0, out=z)])
def test_an_output_is_written_and_given_back(write: Callable[..., Any], elements: int) -> None:
    plain = [numpy.arange(elements) % n + 0.25 for n in (13, 7, 11)]
    arrays = [np.array(x) for x in plain]
    for _ in range(4):
        theirs, ours = write(numpy, *plain), write(np, *arrays)
        assert ours is arrays[2] and theirs is plain[2]
        numpy.testing.assert_array_equal(diffuse.to_numpy(ours), theirs)


@pytest.mark.parametrize("elements", [40, 1000, 40_000])
def test_an_output_of_an_extremum_by_position_is_deprecated(elements: int) -> None:
    x, out = np.zeros(elements), np.ones(elements)
    with pytest.warns(DeprecationWarning, match="more than 2 positional arguments"):
        assert np.maximum(x, 0.5, out) is out
    assert diffuse.to_numpy(out).tolist() == [0.5] * elements


@for_each("elements", [40, 1000, 40_000])
@for_each("call", [
    lambda x, row: x + row, lambda x, row: row - x, lambda x, row: x <= row, lambda x, row: row == x,
    lambda x, row: x.__iadd__(row), lambda x, row: x * (2,), lambda x, row: x / [2.5]])
def test_lists_of_numbers_are_arrays(call: Callable[..., Any], elements: int) -> None:
    for row in ([0.5 * k for k in range(20)], tuple(range(20))):
        theirs = numpy.arange(elements, dtype=float).reshape(-1, 20) % 7
        ours = np.array(theirs)
        for _ in range(3):
            found, expected = call(ours, row), call(theirs, row)
            assert found.dtype == expected.dtype
            numpy.testing.assert_array_equal(diffuse.to_numpy(found), expected)


@pytest.mark.parametrize("wrong", [[1.0, 2.0, 3.0], (), [1, "a"]])
def test_lists_that_do_not_fit_are_refused_as_by_numpy(wrong: Any) -> None:
    calls: list[Callable[[Any], Any]]
    calls = [lambda x: x + wrong, lambda x: wrong * x, lambda x: x.__isub__(wrong)]
    for call in calls:
        with pytest.raises((ValueError, TypeError)) as expected:
            call(numpy.ones((50, 20)))
        with pytest.raises(type(expected.value)):
            call(np.ones((50, 20)))


@for_each("elements", [40, 1000, 40_000])
@for_each("write", [
    lambda m, x, y: m.copyto(x, y), lambda m, x, y: m.putmask(x, y > 3, 0.5),
    lambda m, x, y: m.put(x, [1, 2], 9),
    lambda m, x, y: m.place(x, y > 3, [0.5, 1.5]), lambda m, x, y: m.copyto(x, 2),
    lambda m, x, y: m.fill_diagonal(x.reshape(20, -1), 7), lambda m, x, y: m.copyto(x[1:], x[:-1])])
def test_functions_write_into_their_first_argument(write: Callable[..., Any], elements: int) -> None:
    plain = [numpy.arange(elements) % n + 0.25 for n in (13, 7)]
    arrays = [np.array(x) for x in plain]
    for _ in range(3):
        assert write(numpy, *plain) is None and write(np, *arrays) is None
        numpy.testing.assert_array_equal(diffuse.to_numpy(arrays[0]), plain[0])
    frozen = np.zeros(elements)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        np.copyto(frozen, 1.0)

"""Loops whose arrays have other extents or offsets every turn: what is recorded of them, and the values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse import settings
from diffuse.kernels.body import operations
from diffuse.library import fence
from diffuse.numpy.arrays import soon
from diffuse.numpy.arrays.base import UFUNCS
from diffuse.numpy.ops import known, moving
from diffuse.numpy.ops.moving import EVEN, REPEATS, TURNS
from diffuse.numpy.small import native
from diffuse.observe import trace
from tests.outcomes import python_calls

PLAIN = numpy.random.default_rng(8).random(42_000)
LEVELS = 2 - (2 - TURNS) // EVEN
"""Calls on views at equal steps that are recorded: from the third one on each counts for several."""

pytestmark = pytest.mark.local_only("every rank records the same, whatever is at hand there")


def recorded(run: Callable[[], Any]) -> int:
    """Tasks recorded while a function runs, to its end."""
    soon.looked()  # ends what the loops before have granted
    before = trace.snapshot()["recorded"]
    run()
    fence()
    return trace.snapshot()["recorded"] - before


def shrunk(x: Any, least: int) -> Any:
    """A binomial tree's way to its root."""
    while x.size > least:
        x = 0.25 * x[1:] + 0.75 * x[:-1]
    return x


def test_arrays_that_shrink_are_done_at_once_after_a_few_turns() -> None:
    x = np.array(PLAIN)
    assert recorded(lambda: shrunk(x, PLAIN.size - 500)) <= 3 * TURNS
    assert recorded(lambda: shrunk(x, PLAIN.size - 500)) <= 3 * TURNS  # those that are known from before
    found = numpy.asarray(shrunk(x, PLAIN.size - 500))
    assert numpy.array_equal(found, shrunk(PLAIN, PLAIN.size - 500))


def test_windows_that_move_over_a_busy_array_are_done_at_once() -> None:
    def windows(x: Any, y: Any) -> list[Any]:
        found = []
        for k in range(300):
            found.append(numpy.negative(x[k:k + 20_000]))
            y[k:k + 20_000] += x[k:k + 20_000]
        return found

    ours: list[Any] = []
    x, y = np.array(PLAIN) * 1.0, np.array(PLAIN) * 2.0
    assert recorded(lambda: ours.extend(windows(x, y))) <= 2 * TURNS + 2
    plain = PLAIN * 2.0
    theirs = windows(PLAIN, plain)
    assert all(numpy.array_equal(numpy.asarray(a), b) for a, b in zip(ours, theirs, strict=True))
    assert numpy.array_equal(numpy.asarray(y), plain)


def test_a_loop_over_many_levels_is_done_at_once_after_a_few_of_them() -> None:
    def filtered(x: Any) -> Any:
        for k in range(1, x.shape[2]):
            x[:, :, k] = x[:, :, k] - 0.5 * x[:, :, k - 1]
        return x

    plain = numpy.random.default_rng(5).random((150, 150, TURNS))
    x = np.array(plain) * 1.0
    others = 1 if native else 3  # without the extension two more levels pass before the first one counts
    assert recorded(lambda: filtered(x)) <= 3 * (LEVELS + others)
    assert numpy.array_equal(numpy.asarray(x), filtered(plain * 1.0))


def test_a_loop_over_few_levels_is_recorded() -> None:
    def filtered(x: Any) -> Any:
        for k in range(x.shape[2] - 1, 0, -1):
            x[:, :, k - 1] = x[:, :, k - 1] - 0.5 * x[:, :, k]
        return x

    plain = numpy.random.default_rng(5).random((150, 150, TURNS - 1))
    x = np.array(plain) * 1.0
    assert recorded(lambda: filtered(x)) == 3 * (TURNS - 2)
    assert numpy.array_equal(numpy.asarray(x), filtered(plain * 1.0))


def eliminated(x: Any) -> Any:
    """Elimination without pivots: products of a column and a row, subtracted from ever smaller parts."""
    for k in range(len(x) // 4):
        x[k + 1:, k + 1:] -= (x[k + 1:, k] / x[k, k])[:, None] * x[k, k + 1:]
    return x


def test_parts_that_are_written_and_shrink_are_done_at_once_from_the_first_round_on() -> None:
    start = numpy.random.default_rng(3).random((240, 240)) + 240.0 * numpy.eye(240)
    x = np.array(start)
    assert recorded(lambda: eliminated(x)) <= 4 * TURNS
    assert numpy.array_equal(numpy.asarray(x), eliminated(start))


def columns(m: Any, a: Any, b: Any) -> Any:
    """A tridiagonal system along the last dimension: columns of large arrays, and temporaries."""
    upper, right = m.empty_like(a), m.empty_like(a)
    upper[..., 0], right[..., 0] = a[..., 0], b[..., 0]
    for k in range(1, a.shape[-1]):
        pivot = 1.0 / (4.0 - a[..., k] * upper[..., k - 1])
        upper[..., k] = a[..., k] * pivot
        right[..., k] = (b[..., k] - a[..., k] * right[..., k - 1]) * pivot
    return right


@pytest.mark.skipif(native is None, reason="the extension does at once what lies between moving operations")
def test_what_lies_between_moving_operations_is_done_at_once_too() -> None:
    """Assignments, the same views at another line, and temporaries, whose views are the same in every turn:
    each that is recorded is one more wait."""
    a, b = (numpy.random.default_rng(k).random((30_000, 6 * TURNS)) for k in (5, 6))
    x, y = np.array(a), np.array(b)
    before = trace.snapshot()["launched"]
    ours: list[Any] = []
    assert recorded(lambda: ours.append(columns(np, x, y))) <= 9 * (TURNS + 8)  # of 9 * 95
    assert trace.snapshot()["launched"] - before <= 3 * TURNS
    assert numpy.array_equal(numpy.asarray(ours[0]), columns(numpy, a, b))


@pytest.mark.skipif(not operations.products_fused(), reason="NumPy rounds products in another way")
def test_complex_numbers_that_are_taken_out_are_done_at_once() -> None:
    """Functions of one operand, and products of complex128, whose bits are those of the kernels."""
    random = numpy.random.default_rng(4)
    plain = random.standard_normal(30_000) + 1j * random.standard_normal(30_000)

    def escaped(m: Any, z: Any) -> Any:
        found = 0.0
        for k in range(4 * TURNS):
            z = z[m.arange(z.size) != k]
            found = z * z[::-1] - m.square(z) + z.real**2
        return found

    x = np.array(plain)
    assert recorded(lambda: escaped(np, x)) <= 10 * (TURNS + 1)  # of 640
    assert numpy.asarray(escaped(np, x)).tobytes() == escaped(numpy, plain).tobytes()


def test_other_places_of_a_function_stay_recorded() -> None:
    x, y = np.array(PLAIN), np.array(PLAIN)
    shrunk(x, PLAIN.size - 100)

    def steps() -> None:
        z = y
        for _ in range(20):
            z = (z + y) * 0.5
        assert numpy.array_equal(numpy.asarray(z), PLAIN)

    assert [recorded(steps) for _ in range(3)] == [40] * 3


def test_an_array_that_is_read_only_says_so_first(monkeypatch: pytest.MonkeyPatch) -> None:
    function = UFUNCS["bitwise_and"]
    monkeypatch.setattr(moving, "TURNS", 0)
    x = np.arange(PLAIN.size)
    x.flags.writeable = False
    before, function.moving = function.moving, True  # monkeypatch would look into NumPy's __dict__
    try:
        with pytest.raises(ValueError, match="output array is read-only"):
            x &= np.float32(1.5)
    finally:
        function.moving = before


def at_once() -> int:
    """Operations that were done at once, because views change in every turn, or between such operations."""
    found = trace.snapshot()
    return found["moving"] + found["single"]


def test_small_arrays_of_numpys_beside_moving_operands() -> None:
    column = numpy.arange(1.0, 41.0)[:, None]
    found, expected = [], []
    row = np.array(PLAIN[:1000])
    before = at_once()
    for k in range(4 * TURNS):
        found.append(numpy.asarray(np.maximum(row[k:] - column, column - row[k:])))
        expected.append(numpy.maximum(PLAIN[k:1000] - column, column - PLAIN[k:1000]))
    assert at_once() - before >= 8 * TURNS
    assert all(numpy.array_equal(a, b) for a, b in zip(found, expected, strict=True))


def test_what_comes_again_and_again_is_recorded() -> None:
    def turn(x: Any) -> list[Any]:
        return [x[k:] - 1.0 for k in range(2 * TURNS)]

    x = np.array(PLAIN)
    turns = [recorded(lambda: turn(x)) for _ in range(REPEATS + 3)]
    assert turns[0] == TURNS and turns[1] == 0
    assert turns[-1] >= 2 * TURNS - 2  # two calls may share a place of the table, and then count anew
    assert numpy.array_equal(numpy.asarray(turn(x)[-1]), turn(PLAIN)[-1])


def test_what_is_recorded_again_is_not_waited_for() -> None:
    """A loop over the levels of an array, in every step of a program."""
    levels = 20
    plain = PLAIN[:levels * 2000].reshape(2000, levels)
    below, above = np.array(numpy.repeat(plain, 10, axis=0)), np.array(numpy.repeat(plain, 10, axis=0))

    def step() -> Any:
        x = below[:, 0]
        for k in range(1, levels):
            x = (below[:, k] + above[:, k - 1] * x) * 0.5
        return x

    for _ in range(REPEATS + 2):
        step()
        fence()
    before = trace.snapshot()
    found = step()
    fence()
    after = trace.snapshot()
    assert after["recorded"] - before["recorded"] == 3 * (levels - 1)
    assert after["launched"] - before["launched"] <= 2
    expected = plain[:, 0]
    for k in range(1, levels):
        expected = (plain[:, k] + plain[:, k - 1] * expected) * 0.5
    assert numpy.array_equal(numpy.asarray(found), numpy.repeat(expected, 10))


@pytest.mark.skipif(native is None, reason="Python's table drops no call that came again")
@pytest.mark.parametrize("before", [1, 3])
def test_calls_that_share_places_of_the_table_are_counted(before: int) -> None:
    """A loop of many calls, in a table full of calls on views that came once, or a few times, before."""
    views = [numpy.lib.stride_tricks.as_strided(PLAIN, (k,), (0,)) for k in range(100_000)]
    for view in views[1_000:]:
        for _ in range(before):
            moving.calls(numpy.negative, view)
    for _ in range(10):
        counts = [moving.calls(numpy.negative, view) for view in views[:1_000]]
    assert sum(count < 9 for count in counts) < 20


@pytest.mark.skipif(native is None, reason="calls of Python functions are what the extension spares")
def test_what_is_recorded_again_and_again_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """The levels of a large array that a task writes, more of them than a place brings without moving."""
    plain = PLAIN[:2 * TURNS * 1_300].reshape(2 * TURNS, 1_300)

    def levels(m: Any, x: Any) -> Any:
        found = x * 1.0
        for k in range(1, len(found)):
            found[k] = found[k] - found[k - 1] * 0.5
        return found

    with settings.using(small=1_000):
        x = np.array(plain)
        for turn in range(3 * REPEATS):
            if turn > 2 * REPEATS + 8:
                monkeypatch.setattr(moving, "done", lambda *_: pytest.fail("it was looked at"))
                monkeypatch.setattr(known, "binary", lambda *_: pytest.fail("Python's code was asked"))
            found = levels(np, x)
            soon.looked()
            fence()
        assert numpy.array_equal(numpy.asarray(found), levels(numpy, plain))
        assert recorded(lambda: levels(np, x)) >= len(plain)


def test_a_few_extents_stay_recorded() -> None:
    x = np.array(PLAIN)

    def turn() -> list[Any]:
        return [x[k:] - 2.0 for k in range(TURNS - 1)]

    assert [recorded(turn) for _ in range(4)] == [TURNS - 1] * 4


@pytest.mark.parametrize("function", [np.exp, np.sin], ids=["exp", "sin"])
def test_functions_with_bits_of_their_own_are_always_recorded(function: Any) -> None:
    x = np.array(PLAIN)
    assert recorded(lambda: [function(x[k:]) for k in range(4 * TURNS)]) == 4 * TURNS


def test_large_arrays_are_always_recorded() -> None:
    x = np.zeros(200_000) + 1.0
    assert recorded(lambda: [x[k:] - 3.0 for k in range(4 * TURNS)]) == 4 * TURNS


def test_mistakes_of_moving_operands_raise_numpys_errors() -> None:
    x, small = np.array(PLAIN), np.arange(42_000)
    for k in range(2 * TURNS):
        with pytest.raises(ValueError, match="could not be broadcast together with shapes"):
            x[k:] + x[k + 1:]
        with pytest.raises(numpy._core._exceptions._UFuncOutputCastingError):
            small[k:] += x[k:]
        x[k:] + x[:x.size - k]
        x[k:] += small[k:]


def test_what_takes_numpy_longer_is_recorded_sooner() -> None:
    """1.2 MB an operation: no more than half as many calls as of small ones are NumPy's."""
    x = np.array(numpy.random.default_rng(9).random((50_000, TURNS + 4)))
    x * 1.0

    def step() -> list[Any]:
        return [x[:, k] * x[:, k + 1] for k in range(TURNS + 3)]

    step()
    turns = [recorded(step) for _ in range(REPEATS // 2 + 2)]
    assert turns[0] == 0 and turns[-1] == TURNS + 3


def test_operators_of_numpys_arrays_and_moving_operands_are_done_at_once() -> None:
    """A column of strikes less the prices of a tree that shrinks: NumPy's array stands on the left."""
    column = numpy.linspace(1.0, 2.0, 50)[:, None]
    x = np.array(PLAIN[:1000])
    before = at_once()
    found = [column - x[k:] for k in range(3 * TURNS)]
    assert at_once() - before >= 2 * TURNS - 2
    assert all(numpy.array_equal(numpy.asarray(a), column - PLAIN[k:1000]) for k, a in enumerate(found))


@pytest.mark.skipif(native is None, reason="calls of Python functions are what the extension spares")
def test_they_call_no_python_code() -> None:
    column = numpy.linspace(1.0, 2.0, 50)[:, None]
    x = np.array(PLAIN[:1000])

    def steps(begin: int, end: int) -> None:
        for k in range(begin, end):
            column - x[k:]

    steps(0, 4 * TURNS)
    called = {code.co_name for code in python_calls(lambda: steps(4 * TURNS, 5 * TURNS))}
    assert "steps" in called and not {"__array_ufunc__", "reflected", "first_binary", "done"} & called

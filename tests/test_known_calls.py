"""Calls and slices that are looked up because the same views were operated on before."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse import library
from diffuse.numpy.arrays import access, arithmetic, core, elements, soon
from diffuse.numpy.ops import creation, rules
from diffuse.numpy.ops.known import KNOWN
from diffuse.numpy.small import native
from diffuse.observe import trace
from diffuse.settings import using
from diffuse.stream import engine

SIZE = 40_000
PLAIN = numpy.random.default_rng(2).random(SIZE)


@pytest.fixture(autouse=True)
def unknown(nothing_alone: None) -> None:
    """Nothing is known, and no views move: where they do, the first slice is not kept."""
    KNOWN.clear()
    elements.SLICES.clear()
    rules.RULES.clear()
    engine.current().templates.known.clear()  # with the counts of how often the program waited for them
    arithmetic.MOVING.clear()


@pytest.mark.parametrize("hosted", [False, True])
def test_calls_are_known_after_the_first_and_give_the_same(hosted: bool) -> None:
    known = 0
    for turn in range(3):
        plain = PLAIN + turn
        x: Any = np.array(plain) if hosted else np.array(plain) * 1.0
        found = [x + x, x - 2.5 * turn, 0.5 + turn - x, np.sqrt(x), x[1:] * x[:-1], x[::2] > x[1::2], -x[5:],
                 x * (turn + 1), x.reshape(200, 200)[1:-1, 2:] / 3.0, np.maximum(x, turn), x - x.sum()]
        wanted = [plain + plain, plain - 2.5 * turn, 0.5 + turn - plain, numpy.sqrt(plain),
                  plain[1:] * plain[:-1], plain[::2] > plain[1::2], -plain[5:], plain * (turn + 1),
                  plain.reshape(200, 200)[1:-1, 2:] / 3.0, numpy.maximum(plain, turn), plain - float(x.sum())]
        for ours, theirs in zip(found, wanted, strict=True):
            assert ours.dtype == theirs.dtype and ours.strides == theirs.strides
            assert numpy.array_equal(numpy.asarray(ours), theirs)
        assert not turn or len(KNOWN) == known
        known = len(KNOWN)
    assert known > 6 and elements.SLICES


def test_large_results_of_small_arrays_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = numpy.arange(81 * 81).reshape(81, 81)
    for turn in range(4):
        theirs = (plain + turn) % 7
        ours: Any = np.array(theirs)
        found = ours[..., None] == np.arange(11), np.arange(11) - ours[..., None]
        ours[:] = 0  # after the calls
        numpy.testing.assert_array_equal(numpy.asarray(found[0]), theirs[..., None] == numpy.arange(11))
        numpy.testing.assert_array_equal(numpy.asarray(found[1]), numpy.arange(11) - theirs[..., None])
        monkeypatch.setattr(rules, "plan", lambda *_: pytest.fail("the call was analysed again"))


def test_small_arrays_beside_large_ones_are_found_by_one_look_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Views of a small array with a store, and small results that were computed at once and have none."""
    plain, large = numpy.arange(81.0 * 81).reshape(81, 81), numpy.ones((81, 81, 11))
    ours: Any = np.array(plain)
    whole = np.array(large)
    for turn in range(6):
        x, y = whole * 2.0, large * 2.0
        x[:, :, -1] += turn * ours / 3.0
        x[:, :, 0] = ours - turn
        found = (ours[..., None] * np.arange(11), x * (ours + turn)[..., None], x,
                 (ours + turn)[:, :, None] + x)
        y[:, :, -1] += turn * plain / 3.0
        y[:, :, 0] = plain - turn
        expected = (plain[..., None] * numpy.arange(11), y * (plain + turn)[..., None], y,
                    (plain + turn)[:, :, None] + y)
        if turn % 2:
            ours[:] = plain + 1.0  # after the calls
            plain = plain + 1.0
        for one, other in zip(found, expected, strict=True):
            assert numpy.array_equal(numpy.asarray(one), other)
        if turn == 3 and native is not None:
            for name in ("known_inplace", "update"):
                monkeypatch.setattr(core.slow, name, lambda *_: pytest.fail("Python's code was asked"))


def test_fills_of_one_form_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.array(PLAIN) + 1.0
    for turn in range(3):
        found = [np.zeros_like(x), np.ones_like(x), np.zeros((200, 300), int, order="F"),
                 np.ones((200, 300), order="F"), np.zeros((200, 300))]
        for fill, value in zip(found, (0, 1, 0, 1, 0), strict=True):
            fill[3:] += turn
            assert (numpy.asarray(fill[:3]) == value).all()
            assert (numpy.asarray(fill[3:]) == value + turn).all()
        monkeypatch.setattr(creation, "Scalar", lambda *_: pytest.fail("the call was analysed again"))


INDICES: list[Any] = [
    (slice(1, 2, 3),), (1, slice(None), 3), (slice(None), 1, 3), (..., 1), (1, ...), (..., None), (None, ...),
    (slice(1, None), None, slice(None), 2), (None, 1), (slice(None), None), (1, slice(2, 3)),
    (slice(1, 2), slice(3, None)), (slice(None, None, 1), 2), (1, 2, slice(None)), (True, slice(None)),
    (slice(None), -1), (slice(None), numpy.int64(1)), (0, slice(None, None, -1))]


@pytest.mark.parametrize("hosted", [False, True])
def test_slices_with_integers_and_new_dimensions_are_known_apart(hosted: bool) -> None:
    plain = numpy.random.default_rng(3).random((4, 5, 6, 3000))
    x: Any = np.array(plain) if hosted else np.array(plain) * 1.0
    x + x
    for _ in range(4):
        for index in INDICES:
            found, wanted = x[index], plain[index]
            assert found.shape == wanted.shape and found.strides == wanted.strides, index
            assert numpy.array_equal(numpy.asarray(found * 2.0), wanted * 2.0), index
    soon.looked()  # nothing is done at once for the sake of the operations on moving views above
    part = x[:, 1]
    part += 0.0
    looks = [x[:, 1] for _ in range(4)]  # the first two are not kept where a program is known to move
    assert looks[2].part is looks[3].part is not None
    for turn in range(4):
        for index in INDICES:
            x[index] = turn
            plain[index] = turn
            x[index] += plain[index]
            plain[index] += plain[index].copy()
            x[index] *= 0.5
            plain[index] *= 0.5
    assert numpy.array_equal(numpy.asarray(x), plain)


def test_a_slice_assigned_to_itself_changes_nothing() -> None:
    x, plain = np.array(PLAIN.reshape(200, 200)) * 1.0, PLAIN.reshape(200, 200).copy()
    x[1:, :-1] + x[:-1, 1:]
    for _ in range(3):
        engine.fence()
        before = trace.snapshot()["recorded"]
        x[1:, :-1] = x[1:, :-1]
        assert trace.snapshot()["recorded"] == before
    for _ in range(3):
        x[1:, :-1] = x[:-1, 1:]
        plain[1:, :-1] = plain[:-1, 1:].copy()
        assert numpy.array_equal(numpy.asarray(x), plain)
    x.setflags(write=False)
    with pytest.raises(ValueError, match="read-only"):
        x[1:, :-1] = x[1:, :-1]


def test_small_arrays_with_the_same_elements_are_one_operand() -> None:
    """Programs make the same ones in every turn; tasks keep the elements of the moment of the call."""
    x, plain = np.array(PLAIN.reshape(-1, 20)) * 1.0, PLAIN.reshape(-1, 20)
    step = numpy.arange(1.0, 21.0)
    ours, theirs, stores = [], [], []
    for turn in range(6):
        ours += [x / (0.5 * step), x * step[::-1], x + numpy.arange(20), x - step[None, :]]
        theirs += [plain / (0.5 * step), plain * step[::-1], plain + numpy.arange(20), plain - step[None, :]]
        stores.append(len(engine.current().stores.storages))
        step[turn // 4 * 3] += turn // 4
    assert stores[3] - stores[2] == stores[2] - stores[1] == 4  # the results
    for a, b in zip(ours, theirs, strict=True):
        assert numpy.array_equal(numpy.asarray(a), b)
    same = numpy.zeros(4)
    for other in (-same, same.astype(int), same.reshape(2, 2), numpy.zeros(8)[::2]):
        assert access.snapshot(other) is not access.snapshot(same)
        assert numpy.asarray(access.snapshot(other)).tobytes() == other.tobytes()


def test_what_is_known_is_forgotten_when_other_arrays_are_small() -> None:
    x = np.array(PLAIN) * 1.0
    x + x
    assert KNOWN
    with using(small=SIZE + 1):
        assert not KNOWN


@pytest.mark.parametrize("hosted", [False, True])
def test_known_slices_are_views_with_the_flags_of_what_they_show(
        hosted: bool) -> None:
    x: Any = np.array(PLAIN) if hosted else np.array(PLAIN) * 1.0
    x + x
    first = x[10:-10]
    second = x[10:-10]
    assert second.part is first.part is not None and second is not first and second.base is x
    second[:] = 1.0
    first += 1.0
    assert float(x[9:12].sum()) == PLAIN[9] + 4.0
    for wrong in (slice(1.0, None), slice("a"), slice(None, None, 0)):
        with pytest.raises((TypeError, ValueError)) as theirs:
            PLAIN[wrong]
        with pytest.raises(type(theirs.value)):
            x[wrong]
    x.setflags(write=False)
    assert not x[10:-10].flags.writeable and first.flags.writeable
    x.setflags(write=True)
    x.shape = 200, 200
    assert x[10:-10].shape == (180, 200)


def test_an_empty_index_picks_the_element_of_an_array_without_dimensions() -> None:
    x = np.array(PLAIN) * 1.0
    total = x[:1].sum(keepdims=True).reshape(())
    for _ in range(2):
        total = total + total
    assert type(total[()]) is numpy.float64 and total[()] == PLAIN[0] * 4 and x[()].shape == (SIZE,)
    for _ in range(2):  # a number beside an array whose value is known is no store's operand
        assert float(np.add(np.array(2.0), 1.5)) == 3.5 and float(np.array(total) + 1.5) == PLAIN[0] * 4 + 1.5


def test_an_element_type_read_anew_is_another_view() -> None:
    x = np.array(PLAIN) * 1.0
    whole = x + x
    bits = x.view("int64") + x.view("int64")
    assert bits.dtype == "int64" and whole.dtype == "float64"
    assert numpy.array_equal(numpy.asarray(bits), PLAIN.view("int64") * 2)


def turns(m: Any, x: Any, y: Any, turn: int) -> list[Any]:
    """Calls that write into arrays, choose and roll, on arrays of 200 x 200 elements."""
    out = m.array(x)
    out += y
    out *= 1.5 + turn
    out -= 2
    out[1:-1, 1:-1] = y[:-2, 2:]
    out[:100] = turn
    m.add(out, y, out=out)
    m.sqrt(y, out=out[:, :])
    narrow = x[:, 3:-3]
    narrow += y[:, 6:]
    found = [out, narrow, m.where(x > y, x, y), m.where(x > 0.5, x, 0.25 * turn), m.where(x > 0.5, turn, 7)]
    found += [x.copy(), x.T.copy(), x.T.copy("F"), m.copy(y, "F"), x.astype("float32"), x.astype(bool),
              x[1:].copy(), x.astype("complex128", order="F"), x**2]
    found += [m.roll(x, -1, 0), m.roll(y, 201, 1), m.roll(x.ravel(), turn), m.roll(x, 0, 1), x.T + y]
    return found


def test_calls_that_write_choose_and_roll_are_found_by_one_look_up(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded: list[Any] = []
    real = library.record

    def record(*args: Any) -> Any:
        recorded.append(args[0])
        return real(*args)

    monkeypatch.setattr(library, "record", record)
    for turn in range(4):
        x, y = PLAIN.reshape(200, 200) + turn, PLAIN[::-1].reshape(200, 200) * 0.5
        one, other = np.array(x) * 1.0, np.array(y) * 1.0
        if turn == 3:
            recorded.clear()
        found, wanted = turns(np, one, other, min(turn, 2)), turns(numpy, x, y, min(turn, 2))
        for mine, theirs in zip(found, wanted, strict=True):
            assert mine.dtype == theirs.dtype and mine.strides == theirs.strides
            assert numpy.array_equal(numpy.asarray(mine), theirs)
    assert not recorded


def test_known_writes_look_at_what_views_do_not_tell() -> None:
    for _ in range(3):
        plain, wide = PLAIN.copy(), PLAIN.astype("c16")
        x: Any = np.array(plain) * 1.0
        for array in (x, plain):
            array += array
            array[1:] += array[:-1]
            array[:-1] = array[1:]
        assert numpy.array_equal(numpy.asarray(x), plain)
        x = np.array(plain) * 1.0
        locked = x[:]
        locked.setflags(write=False)
        x += 1.0
        x[2:] = 0.0
        with pytest.raises(ValueError, match="read-only"):
            locked += 1.0
        with pytest.raises(ValueError, match="read-only"):
            locked[2:] = 0.0
        whole = np.array(PLAIN).astype(int) * 1
        with pytest.warns(numpy.exceptions.ComplexWarning):
            x[1:] = np.array(wide)[1:]
        with pytest.raises(OverflowError):
            whole[1:] = 1 << 80
        with pytest.raises(ValueError):
            whole[1:] = float("nan")
        whole[1:] = 4
        with pytest.raises(TypeError):
            np.roll(x, 1, 1.0)
        np.roll(x, 1, 0), np.where(x > 0, whole, 3)
        with pytest.raises(OverflowError):
            np.where(x > 0, whole, 1 << 80)
        with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
            x /= 0.0
        x /= 4.0


def test_known_writes_of_one_memory_under_two_arrays() -> None:
    for _ in range(3):
        plain = PLAIN.copy()
        first, second = np.asarray(plain), np.asarray(plain)
        wanted = PLAIN.copy()
        wanted[1:] += wanted[:-1]
        one, other = first[1:], second[:-1]
        one += other
        assert numpy.array_equal(plain, wanted)


def test_known_calls_have_the_programs_line() -> None:
    x, y, out = (np.array(PLAIN) * k for k in (1.0, 2.0, 3.0))
    calls: list[Callable[[], Any]] = [
        lambda: x + y,
        lambda: 2.0 * x,
        lambda: -x,
        lambda: x ** 2,
        lambda: np.sqrt(x),
        lambda: np.maximum(x, y),
        lambda: np.add(x, y, out=out),
        lambda: out.__iadd__(y),
        lambda: operator.setitem(out, slice(1, -1), x[1:-1]),
        lambda: np.where(out, x, y),
        lambda: np.roll(x, 1),
    ]
    for _ in range(3):
        engine.fence()
        for call in calls:
            kept = call()
            task = engine.current().window.open.recorded[-1]
            assert (task[3].file, task[3].line) == (__file__, call.__code__.co_firstlineno), task[0].operation
            del kept


def test_a_small_array_of_numpys_is_read_as_it_is_at_the_call() -> None:
    x, row = np.ones((400, 100)), numpy.arange(100.0)
    first = x + row
    row[3] = 50.0
    second = row + x
    row.shape = (10, 10)
    assert numpy.array_equal(numpy.asarray(first)[0], numpy.arange(100.0) + 1.0)
    assert float(second[5, 3]) == 51.0 and float(second[5, 4]) == 5.0
    if core.TINY:
        snapshot = access.snapshot(row)
        assert access.snapshot(row) is snapshot and snapshot.shape == (10, 10)
        row[0, 0] = numpy.nan
        assert access.snapshot(row) is not snapshot

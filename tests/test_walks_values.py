"""Loops over slices of large arrays have NumPy's values, whatever is recorded or done at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse.library import call, current, fence
from diffuse.numpy.arrays.access import storage_of
from diffuse.numpy.arrays.base import view_of
from diffuse.observe import trace
from diffuse.settings import using
from tests.each import for_each
from tests.test_walks import PLAIN, SIDE, busy

pytestmark = pytest.mark.local_only("every rank records the same, whatever is at hand there")


INDICES: list[Any] = [3, -1, slice(2, -2), slice(None, None, -1), (slice(None), 5), (7, 9), (..., 0),
                      (None, 6), (slice(None), slice(1, 7)), (slice(None, None, 3), -2),
                      (4, slice(None, None, -2))]


def changed(x: Any, rng: Any) -> None:
    """Random small and large steps on views of views, overlapping and reversed, read and written."""
    views = [x, x.T, x[::-1], x[:, ::-1].T, x[1:], x[:-1, 2:], x.reshape(-1, 2 * x.shape[1])]
    for _ in range(60):
        target, source = (views[k] for k in rng.integers(len(views), size=2))
        index, other = (INDICES[k] for k in rng.integers(len(INDICES), size=2))
        kind = rng.integers(7)
        if kind == 0:
            target[index] = target[index]
        elif kind == 1:
            target[index] -= 0.25 * target[index]
        elif kind == 2:
            n = min(len(target), len(source)) - 1
            target[1:n, 0] = 0.5 * target[:n - 1, 0] + 0.25
        elif kind == 3:
            target[2:, :] = target[:-2, :]
        elif kind == 4:
            target[index] = (0.5 * source[other]).min()
        elif kind == 5:
            part = target[5:20]
            part[::-1][1:] += part[:-1] * 0.125
            part.T[1] = part.T[0]
        else:
            x *= 0.75


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("small", [0, 150, 16384])
def test_random_steps_on_views_of_one_array_are_numpys(small: int, seed: int) -> None:
    for side in (12, 60 if small == 0 else 180):
        plain = numpy.random.default_rng(seed).random((side * 2, side))
        with using(small=small):
            ours = np.array(plain) * 1.0
            changed(ours, numpy.random.default_rng(seed + 100))
            changed(plain, numpy.random.default_rng(seed + 100))
            assert numpy.array_equal(numpy.asarray(ours), plain)


def test_views_made_before_and_after_the_memory_is_known_show_the_same_elements() -> None:
    x = busy()
    early, column = x[3:7], x[:, 4]
    early_row = early[1]
    x[0] = 5.0
    assert float(x[0, 0]) == 5.0  # the memory is known from here on
    late, row = x[3:7], x[4]
    row[:] = 1.0
    assert float(early[1].sum()) == SIDE and float(early_row.max()) == 1.0 and float(column[4]) == 1.0
    x += 1.0  # pending
    early[0] = 9.0
    late[3, :2] = 8.0
    column[5] = 7.0
    plain = PLAIN * 1.0
    plain[0], plain[4] = 5.0, 1.0
    plain += 1.0
    plain[3], plain[6, :2], plain[5, 4] = 9.0, 8.0, 7.0
    assert numpy.array_equal(numpy.asarray(x), plain)
    assert row.base is x and late.base is x and early.base is x
    assert not row.flags.owndata and row.flags.writeable and late[1:].base is x
    assert late.strides == early.strides == plain[3:7].strides
    y = np.asarray(late)
    assert y is late or y.base is x


def test_mistakes_raise_numpys_errors_and_change_nothing() -> None:
    x = busy()
    float(x[0, 0])
    mistakes: list[Callable[[Any], Any]] = [
        lambda v: v.__setitem__(0, numpy.ones(3)), lambda v: v[SIDE], lambda v: v[0, SIDE],
        lambda v: v.__setitem__((0, SIDE), 1.0), lambda v: v[1] + numpy.ones(3),
        lambda v: v.__setitem__((1, slice(3)), v[1, :4]),
    ]
    for wrong in mistakes:
        with pytest.raises((ValueError, IndexError)) as theirs:
            wrong(PLAIN.copy())
        with pytest.raises(theirs.type) as ours:
            wrong(x)
        assert str(ours.value) == str(theirs.value)
    x.flags.writeable = False
    changes: list[Callable[[], Any]] = [lambda: x.__setitem__(0, 1.0), lambda: x.__setitem__((0, 0), 1.0),
                                        lambda: x[0].__iadd__(1.0)]
    for change in changes:
        with pytest.raises(ValueError, match="read-only"):
            change()
    assert numpy.array_equal(numpy.asarray(x), PLAIN)


def test_an_interrupt_where_a_loop_over_slices_begins_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = current()
    done: list[str] = []
    x = busy()
    flush = engine.flush

    def interrupted(reason: str = "the program waits") -> None:
        if "loop over slices" in reason and not done:
            done.append(reason)
            raise KeyboardInterrupt
        flush(reason)

    monkeypatch.setattr(engine, "flush", interrupted)
    plain, turn = PLAIN * 1.0, 0
    with pytest.raises(KeyboardInterrupt):
        for turn in range(1, SIDE):
            x[turn] = 0.5 * x[turn - 1]
    assert done
    for i in range(1, turn):
        plain[i] = 0.5 * plain[i - 1]
    found = numpy.asarray(x)
    for rows in (slice(turn), slice(turn + 1, None)):
        assert numpy.array_equal(found[rows], plain[rows])
    for i in range(turn, SIDE):
        x[i] = 0.5 * x[i - 1]
        plain[i] = 0.5 * plain[i - 1]
    assert numpy.array_equal(numpy.asarray(x), plain)


@pytest.mark.parametrize("wrong", [False, True])
def test_a_small_output_of_a_function_is_written_at_once(wrong: bool) -> None:
    x, plain = busy(), PLAIN * 1.0
    float(x[0, 0])
    if wrong:
        for module, v in ((np, x), (numpy, plain)):
            with pytest.raises(ValueError, match="non-broadcastable output|read-only"):
                module.add(v[:2, :7], v[2, :7], out=v[2, :7])
        x.flags.writeable = plain.flags.writeable = False
        for module, v in ((np, x), (numpy, plain)):
            with pytest.raises(ValueError, match="read-only"):
                module.add(v[1], v[2], out=v[3])
        return
    for module, v in ((np, x), (numpy, plain)):
        row = v[3, 1:]
        before = trace.snapshot()["recorded"]
        assert module.add(v[1, 1:], v[3, :-1], out=row) is row
        module.multiply(v[:, 0], 2.0, out=v[:, 1])
        module.sqrt(v[5], out=v[5])
        assert trace.snapshot()["recorded"] == before
    assert numpy.array_equal(numpy.asarray(x), plain)


def test_slices_of_an_array_that_was_lost_raise_although_its_memory_was_known() -> None:
    x, other = busy(), busy()
    rows = [x[3], other[3]]
    assert float(x[0, 0]) == PLAIN[0, 0] and float(rows[0][0]) == PLAIN[3, 0] == float(rows[1][0])

    def fail(a: Any, b: Any) -> None:
        raise ValueError("no result")

    call("failing", fail, ((storage_of(other), view_of(other)),), ((storage_of(x), view_of(x)),))
    with pytest.raises(ValueError, match="no result"):
        fence()
    fence()
    reads: list[Callable[[], Any]] = [
        lambda: x[3] + 1.0, lambda: rows[0] + 1.0, lambda: x[0, 0], lambda: x[3].sum(), lambda: x[2][1],
        lambda: x.max(), lambda: np.sqrt(x[:, 2]),
    ]
    for read in reads:
        with pytest.raises(ValueError, match="no result"):
            numpy.asarray(read())
    assert numpy.array_equal(numpy.asarray(rows[1] + 1.0), PLAIN[3] + 1.0)
    x[...] = other
    assert float((x[3] + 1.0)[0]) == PLAIN[3, 0] + 1.0
    assert not current().stores.lost


@for_each("number", [numpy.float32(0.3), numpy.float64(0.3), numpy.int8(3), numpy.complex64(1)
                     ])
@for_each("dtype", ["float32", "int16", "complex128"])
@for_each("size", [200, 40_000])
def test_numbers_of_numpys_on_the_left_count_as_in_numpy(number: Any, dtype: str, size: int) -> None:
    plain = (1 + numpy.arange(size) % 50).astype(dtype)
    x = np.array(plain)
    for ours, theirs in ((number + x, number + plain), (number - x, number - plain),
                         (number * x, number * plain), (number / x, number / plain),
                         (numpy.add(number, x), numpy.add(number, plain))):
        assert isinstance(ours, np.ndarray) and ours.dtype == theirs.dtype
        assert numpy.array_equal(numpy.asarray(ours), theirs)
    with pytest.raises(TypeError):
        number + x[:3] + [None]

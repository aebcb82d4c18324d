"""NumPy's functions that read and write through indices and masks, recorded: the same values and errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse import library
from diffuse.numpy.ops import choosing
from diffuse.observe import trace
from diffuse.settings import using
from tests.each import for_each
from tests.outcomes import outcome
from tests.test_fuzz_stream import stream

DRAW = numpy.random.default_rng(0)
X, Y = DRAW.integers(0, 4, (6, 7)) * 1.0, DRAW.random((6, 7))
F = numpy.asfortranarray(X)
AT, ROWS, MASK = DRAW.integers(-6, 6, 20), DRAW.integers(-7, 7, (6, 3)), DRAW.random((6, 7)) < 0.5
MANY = DRAW.integers(0, 3, 300)

READS: list[Callable[..., Any]] = [
    lambda m, a: m.take(a(X), a(AT)), lambda m, a: m.take(a(X), a(AT), 0),
    lambda m, a: m.take(a(F), a(ROWS), 1), lambda m, a: m.take(a(X), a(AT * 9), 1, mode="wrap"),
    lambda m, a: m.take(a(X), a(AT * 9), -1, mode="clip"), lambda m, a: a(X).take(a(MASK)),
    lambda m, a: m.take(a(X), [[1, 2], [3, 4]], 0), lambda m, a: m.take_along_axis(a(X), a(ROWS), 1),
    lambda m, a: m.take_along_axis(a(F), a(ROWS[:1]), 1),
    lambda m, a: m.take_along_axis(a(X), m.argsort(a(X), 0), 0),
    lambda m, a: m.take_along_axis(a(X), a(AT), None), lambda m, a: m.compress(a(MASK[0]), a(X), 1),
    lambda m, a: a(X).compress(a(MASK[:, 0]), 0), lambda m, a: m.compress(a(X[0]), a(Y)),
    lambda m, a: m.extract(a(MASK), a(X)), lambda m, a: m.nonzero(a(X)), lambda m, a: a(F).nonzero(),
    lambda m, a: m.where(a(X) > 1.0), lambda m, a: m.argwhere(a(X) > 1.0),
    lambda m, a: m.flatnonzero(a(F)), lambda m, a: m.argwhere(a(AT)),
    lambda m, a: m.count_nonzero(a(X) * 2.0), lambda m, a: m.count_nonzero(a(X), axis=1),
    lambda m, a: m.count_nonzero(a(MASK), 0, keepdims=True),
    lambda m, a: m.choose(a(X).astype(int) % 3, [a(Y), 7, a(X)[:, :1]]),
    lambda m, a: m.choose(a(AT), [a(AT), a(AT) * 2], mode="wrap"),
    lambda m, a: m.select([a(MASK), a(X) > 2.0], [a(X), a(Y)], 5.0),
    lambda m, a: m.piecewise(a(Y), [a(MASK), a(X) > 2.0], [lambda x: x * 2.0, -1.0, lambda x: x + 1.0]),
    lambda m, a: m.delete(a(X), a(AT), 0), lambda m, a: m.delete(a(X), slice(1, 5, 2), 1),
    lambda m, a: m.delete(a(X), a(MASK[0]), 1), lambda m, a: m.insert(a(X), 2, a(Y[0]), 0),
    lambda m, a: m.insert(a(AT), [1, 5, 5], a(AT[:3])), lambda m, a: m.diag(a(Y[0]), 2),
    lambda m, a: m.diag(a(Y[0]), -1),
]
WRITES: list[Callable[..., Any]] = [
    lambda m, a, x: m.put(x, a(AT), a(Y[0])), lambda m, a, x: x.put(a(AT * 9), 3, mode="wrap"),
    lambda m, a, x: m.put(x, a(ROWS * 99), a(Y), mode="clip"),
    lambda m, a, x: m.place(x, a(MASK), a(Y[0, :3])), lambda m, a, x: m.place(x, a(MASK), 4.0),
    lambda m, a, x: m.putmask(x, a(MASK), a(Y)), lambda m, a, x: m.putmask(x, a(MASK), a(Y[0, :4])),
    lambda m, a, x: m.putmask(x, x > 1.0, 2.5),
    lambda m, a, x: m.put_along_axis(x, a(ROWS), a(Y[:, :3]), 1),
    lambda m, a, x: m.copyto(x, a(Y), where=a(MASK)),
    lambda m, a, x: m.put_along_axis(x, m.argmax(x, 0)[None], 9.0, 0),
    lambda m, a, x: m.put_along_axis(x, a(ROWS[:1]), a(Y[:, :3]), 1),
    lambda m, a, x: m.put_along_axis(x, a(AT[:, None]), a(Y[0]), 0),
    lambda m, a, x: m.put_along_axis(x, a(AT[None]), x[:, :1], 1),
    lambda m, a, x: m.fill_diagonal(x, 5), lambda m, a, x: m.fill_diagonal(x, a(Y[0, :4]), wrap=True),
    lambda m, a, x: m.add.at(x, a(MANY), 1.5),
    lambda m, a, x: m.add.at(x, (a(MANY), a(MANY * 2)), a(Y[0, 0] / (MANY + 3))),
    lambda m, a, x: m.subtract.at(x, (slice(None), a(MANY)), a(Y[:, :1])),
    lambda m, a, x: m.maximum.at(x.ravel(), a(MANY), a(MANY)),
    lambda m, a, x: m.multiply.at(x[::-1, 1], a(MANY), 1.01),
]
WRONG: list[Callable[..., Any]] = [
    lambda m, a, x: m.take(x, a(AT * 9), 0), lambda m, a, x: m.take(x, a(AT), 5),
    lambda m, a, x: m.take(x, a(AT * 1.0)), lambda m, a, x: m.compress(a(MASK), x),
    lambda m, a, x: m.compress(a(X.ravel()), x, 0), lambda m, a, x: m.put(x, a(AT * 99), 1.0),
    lambda m, a, x: m.place(x, a(MASK[0]), 1.0), lambda m, a, x: m.place(x, a(MASK), a(AT[:0])),
    lambda m, a, x: m.putmask(x, a(MASK), a(Y * 1j)), lambda m, a, x: m.choose(a(AT), [x]),
    lambda m, a, x: m.select([a(AT)], [x]), lambda m, a, x: m.delete(x, a(AT + 9), 0),
    lambda m, a, x: m.take_along_axis(x, a(ROWS * 9), 1), lambda m, a, x: m.take_along_axis(x, a(AT), 1),
    lambda m, a, x: m.add.at(x, a(MANY + 9), 1.0), lambda m, a, x: m.fill_diagonal(a(AT), 1),
    lambda m, a, x: m.put_along_axis(x, a(ROWS[:1] * 9), 1.0, 1),
    lambda m, a, x: m.put_along_axis(x, a(ROWS[:1]), a(Y[:, :4]), 1),
    lambda m, a, x: m.insert(x, a(AT + 30), 1.0, 0), lambda m, a, x: m.nonzero(m.array(3.0)),
]


@pytest.fixture(autouse=True, params=["off", "wait"])
def several(request: pytest.FixtureRequest) -> Iterator[None]:
    """Small arrays are recorded and shared by several points, interpreted and compiled."""
    with stream(3, small=0, min_chunk=4), using(compile=request.param):
        yield


def agree(found: Any, expected: Any, layout: bool = True) -> None:
    if isinstance(expected, tuple):
        assert type(found) is tuple and len(found) == len(expected)
        for one, other in zip(found, expected):
            agree(one, other, layout)
        return
    if isinstance(expected, numpy.ndarray):
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
        assert found.strides == expected.strides or not layout
    assert numpy.array_equal(numpy.asarray(found), expected)


def recorded() -> int:
    return trace.snapshot()["recorded"]


@for_each("number", range(len(READS)))
@pytest.mark.local_only("some are NumPy's")
def test_reads(number: int) -> None:
    call, before = READS[number], recorded()
    agree(call(np, np.array), call(numpy, numpy.array))
    assert recorded() > before, "nothing was recorded"


@for_each("number", range(len(WRITES)))
@pytest.mark.local_only("some are NumPy's")
def test_writes(number: int) -> None:
    ours, theirs = np.array(X), X.copy()
    before = recorded()
    WRITES[number](np, np.array, ours)
    WRITES[number](numpy, numpy.array, theirs)
    assert recorded() > before, "nothing was recorded"
    assert ours.__array__().tobytes() == theirs.tobytes()


def pending(values: Any) -> Any:
    """The values as part of a large array that no task has written yet."""
    plain = numpy.asarray(values)
    whole = np.array(numpy.resize(plain.ravel(), 2000))
    whole = whole | False if plain.dtype == bool else whole + 0
    return whole[:plain.size].reshape(plain.shape)


def test_small_arrays_that_are_pending() -> None:
    """Some of what is computed on the way is then NumPy's own array, of few elements."""
    with using(small=1000):
        for read in READS:
            agree(read(np, pending), read(numpy, numpy.array), layout=False)
        for write in WRITES:
            ours, theirs = pending(X), X.copy()
            write(np, pending, ours)
            write(numpy, numpy.array, theirs)
            assert ours.__array__().tobytes() == theirs.tobytes()


@for_each("number", range(len(WRONG)))
def test_errors_are_numpys(number: int) -> None:
    ours, theirs = np.array(X), X.copy()
    expected = outcome(WRONG[number], numpy, numpy.array, theirs)
    assert isinstance(expected, tuple) and issubclass(expected[0], Exception)
    assert outcome(WRONG[number], np, np.array, ours) == expected
    assert numpy.array_equal(ours.__array__(), theirs)


def test_few_indices_of_a_large_array_at_hand_are_numpys_work() -> None:
    """At once, and of arrays that a task has made as well; what is pending is a task, or waited for."""
    data, few = numpy.random.default_rng(4).random(70_000), numpy.arange(0, 70_000, 70)
    with using(small=1000):
        x, places, values = np.array(data), np.array(few), np.array(data[:few.size])
        before = trace.counters["recorded"]
        taken = np.take(x, places)
        np.add.at(x, places, 1.5)
        np.subtract.at(x, places, values)
        assert trace.counters["recorded"] == before or not library.current().host_sees
    pending = x * 2.0
    expected = data.copy()
    numpy.add.at(expected, few, 1.5)
    numpy.subtract.at(expected, few, data[:few.size])
    assert numpy.array_equal(taken.__array__(), data[few])
    assert numpy.array_equal(np.take(pending, places).__array__(), (expected * 2.0)[few])
    np.add.at(pending, places, places * 0.5)
    expected *= 2.0
    numpy.add.at(expected, few, few * 0.5)
    assert numpy.array_equal(pending.__array__(), expected)


def test_place_takes_values_from_the_array_that_it_writes_as_numpy_does() -> None:
    found = []
    for m in (numpy, np):
        x = m.arange(16.0).reshape(4, 4)
        m.place(x, m.arange(16).reshape(4, 4) % 3 == 1, x.ravel())
        found.append(numpy.asarray(x).tolist())
    assert found[0] == found[1]


@pytest.mark.local_only("the host sees the memory of arrays")
@pytest.mark.parametrize("size", [choosing.SPACED * 4 - 1, choosing.SPACED * 4, 40_000])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int32", "bool", "complex128"])
def test_ranges_between_insertions_are_copied(size: int, dtype: str) -> None:
    x = (numpy.arange(size) % 7).astype(dtype)
    for places in ([3, 1, 3, -1], [0, 0, 0, size], [size, -size, 5, 4], [7]):
        for values in (True, 1, [1, 0, 1, 1][:len(places)], numpy.arange(len(places)) > 1):
            ours = values if not isinstance(values, numpy.ndarray) else np.array(values)
            found, wanted = np.insert(np.array(x), places, ours), numpy.insert(x, places, values)
            assert found.dtype == wanted.dtype and numpy.asarray(found).tobytes() == wanted.tobytes()
    with pytest.raises(IndexError):
        np.insert(np.array(x), [size + 1, 0], 1)


@pytest.mark.local_only("the host sees the memory of arrays")
def test_a_number_on_a_diagonal_is_written_at_once() -> None:
    for shape in ((300, 200), (200, 300), (2, 20_000), (20_000, 2)):
        for value in (2.5, 3, True, numpy.float64(1.5), numpy.nan):
            x, y = np.array(numpy.ones(shape)), numpy.ones(shape)
            np.fill_diagonal(x, value)
            numpy.fill_diagonal(y, value)
            np.fill_diagonal(x, value, True)
            numpy.fill_diagonal(y, value, True)
            assert numpy.asarray(x).tobytes() == y.tobytes()
    x = np.array(numpy.ones((300, 200)))
    x.flags.writeable = False
    with pytest.raises(ValueError):
        np.fill_diagonal(x, 1.0)
    with pytest.raises(OverflowError):
        np.fill_diagonal(np.array(numpy.ones((300, 200))), 10 ** 400)


@pytest.mark.local_only("the host sees the memory of arrays")
def test_many_indices_of_a_small_table() -> None:
    table = numpy.arange(1000.0)
    for count in (8 * 16384 - 1, 8 * 16384, 200_000):
        i = numpy.random.default_rng(count).integers(-1000, 1000, count)
        found = np.array(table)[np.array(i)]
        assert numpy.asarray(found).tobytes() == table[i].tobytes()
        i[-1] = 1000
        with pytest.raises(IndexError):
            np.array(table)[np.array(i)]

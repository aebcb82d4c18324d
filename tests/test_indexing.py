"""Reads and writes through arrays of indices and masks, as tasks: NumPy's values, layouts and errors."""

from __future__ import annotations

import random
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse.numpy.arrays import indices
from diffuse.observe import trace
from diffuse.settings import using
from diffuse.stream import engine
from tests.around import around
from tests.outcomes import launches, outcome
from tests.test_fuzz_stream import stream

TYPES = ("float64", "float32", "int64", "int32", "uint8", "bool", "complex128", "float16")
INTEGERS = ("int64", "int64", "int32", "int16", "int8", "uint8", "uint32", "uint64")


several = around(stream, 3, small=0, min_chunk=4)
"""Small arrays are recorded and shared by several points."""


class Pick(random.Random):
    """Random arrays and indices, as NumPy's and as Diffuse's."""

    def array(self, shape: tuple[int, ...], dtype: str = "") -> tuple[Any, Any]:
        """An array that lies in memory in some order, backwards or in steps."""
        rank = len(shape)
        plain = numpy.arange(numpy.prod(shape) * 2**rank).reshape([2 * n for n in shape])
        plain = (plain * 7 % 101).astype(dtype or self.choice(TYPES))
        axes = self.sample(range(rank), rank)
        cut = tuple([self.choice([slice(None, None, 2), slice(None, None, -2), slice(None, n)])
                     for n in plain.transpose(axes).shape])
        return plain.transpose(axes)[cut], np.array(plain).transpose(axes)[cut]

    def integers(self, extent: int, shape: tuple[int, ...]) -> Any:
        dtype = self.choice(INTEGERS)
        low = 0 if dtype[0] == "u" else -extent
        found = numpy.array([self.randrange(low, extent) for _ in range(numpy.prod(shape))], dtype)
        order: Any = self.choice("CCF")
        found = numpy.array(found.reshape(shape), order=order)
        return found + found.dtype.type(extent) if self.random() < 0.02 else found

    def index(self, shape: tuple[int, ...]) -> tuple[Any, Any]:
        """An index with arrays in it, for NumPy's array and for Diffuse's."""
        spread = tuple(self.randint(1, 4) for _ in range(self.randint(1, 3)))
        plain: list[Any] = []
        ours: list[Any] = []
        axis = 0
        while axis < len(shape):
            kind, part = self.random(), None
            if kind < 0.45:
                tail = spread[self.randrange(len(spread)):]
                part = self.integers(shape[axis], tuple(n if self.random() < 0.8 else 1 for n in tail))
            elif kind < 0.55:
                width = self.randint(1, len(shape) - axis)
                part = numpy.random.default_rng(self.randrange(99)).random(shape[axis:axis + width]) < 0.5
                axis += width - 1
            elif kind < 0.7:
                part = slice(self.choice([None, 1, -2]), None, self.choice([None, 2, -1]))
            elif kind < 0.8:
                part = self.randrange(-shape[axis], shape[axis])
            elif kind < 0.9:
                axis -= 1  # a new dimension
            else:
                break
            axis += 1
            plain.append(part)
            ours.append(np.array(part) if isinstance(part, numpy.ndarray) and self.random() < 0.8 else part)
        if len(plain) == 1 and self.random() < 0.7:
            return plain[0], ours[0]
        return tuple(plain), tuple(ours)


@pytest.mark.parametrize("mode, count", [("off", 150), ("wait", 25)])
def test_reads_are_numpys(mode: str, count: int) -> None:
    pick = Pick(mode)
    with using(compile=mode):
        for _ in range(count):
            theirs, ours = pick.array(tuple(pick.randint(1, 6) for _ in range(pick.randint(1, 4))))
            plain, index = pick.index(theirs.shape)
            expected = outcome(lambda x, k: x[k], theirs, plain)
            found = outcome(lambda x, k: x[k], ours, index)
            if isinstance(expected, numpy.ndarray):
                assert (found.shape, found.dtype) == (expected.shape, expected.dtype), plain
                assert not expected.size or all(
                    s == t or n == 1 for s, t, n in zip(found.strides, expected.strides, found.shape))
                assert numpy.array_equal(found.__array__(), expected), plain
            else:
                assert found == expected, plain


@pytest.mark.parametrize("mode, count", [("off", 150), ("wait", 25)])
def test_writes_are_numpys(mode: str, count: int) -> None:
    pick = Pick(mode)

    def write(x: Any, k: Any, v: Any) -> Any:
        x[k] = v

    with using(compile=mode):
        for _ in range(count):
            theirs, ours = pick.array(tuple(pick.randint(1, 6) for _ in range(pick.randint(1, 3))))
            plain, index = pick.index(theirs.shape)
            chosen = outcome(lambda x, k: x[k], theirs, plain)
            shape = chosen.shape if isinstance(chosen, numpy.ndarray) else (2,)
            shape = tuple(n if pick.random() < 0.8 else 1 for n in shape[pick.choice([0, 0, 0, 1]):])
            value, other = pick.array(shape, pick.choice(["int64", "uint8", str(theirs.dtype)]))
            if pick.random() < 0.2 or theirs.dtype.kind != "c" == value.dtype.kind:
                value = other = pick.choice([1, 2.5, True])
            assert outcome(write, ours, index, other) == outcome(write, theirs, plain, value), plain
            assert numpy.array_equal(ours.__array__(), theirs), (plain, value)


@pytest.mark.parametrize("mode", ["off", "wait"])
@pytest.mark.parametrize("shape, axis", [((50,), 0), ((40, 9), 0), ((9, 40), 1), ((5, 30, 4), 1),
                                         ((7, 400), 0)])
def test_of_equal_indices_the_last_one_wins_and_sums_are_in_order(mode: str, shape: tuple[int, ...],
                                                                  axis: int) -> None:
    draw = numpy.random.default_rng(axis)
    for count in (1, 63, 64, 65, 1000):
        i = draw.integers(-shape[axis], shape[axis], count)
        at: Any = (slice(None),) * axis
        value = draw.random((*shape[:axis], count, *shape[axis + 1:]))
        theirs, ours = numpy.zeros(shape), np.zeros(shape)
        with using(compile=mode):
            theirs[(*at, i)] = value
            ours[(*at, np.array(i))] = np.array(value)
            assert numpy.array_equal(ours.__array__(), theirs)
            for name in ("add", "multiply", "maximum", "subtract"):
                getattr(numpy, name).at(theirs, (*at, i), value)
                getattr(np, name).at(ours, (*at, np.array(i)), np.array(value))
            assert ours.__array__().tobytes() == theirs.tobytes()


@pytest.mark.parametrize("mode", ["off", "wait"])
def test_masks_of_many_blocks(mode: str) -> None:
    draw = numpy.random.default_rng(0)
    with using(compile=mode):
        for size in (1, 9, 511, 40_000, 100_001):
            for share in (0.0, 0.001, 0.5, 1.0):
                mask = draw.random(size) < share
                mask[:size // 3] &= share > 0.5
                values = draw.random(size)
                ours, x = np.array(mask), np.array(values)
                assert numpy.array_equal((x[ours] * 2.0).__array__(), values[mask] * 2.0)
                assert numpy.array_equal(np.flatnonzero(~ours).__array__(), numpy.flatnonzero(~mask))
                assert float(x[ours].sum()) == float(np.array(values[mask]).sum())
                theirs = values.copy()
                theirs[mask] = values[::-1][mask]
                x[ours] = x[::-1][ours]
                assert numpy.array_equal(x.__array__(), theirs)


@pytest.mark.parametrize("runtime", ["reference", "simt"])
@pytest.mark.local_only("other runtimes are asked for here")
def test_other_runtimes_have_the_same_bits(runtime: str) -> None:
    draw = numpy.random.default_rng(1)
    values, i, mask = draw.random((60, 7)), draw.integers(-60, 60, 90), draw.random(60) < 0.4

    def run(m: Any) -> Any:
        x, k, chosen = m.array(values), m.array(i), m.array(mask)
        y = x[k] * 2.0 + x[k, ::-1]
        x[k] = y
        x[chosen] += 1.0
        m.add.at(x[:, 2], k, y[:, 0])
        return [numpy.asarray(r) for r in (x, y, x[chosen], m.take(x, k % 7, 1), *m.nonzero(x > 2.0))]

    with using(runtime=runtime):
        found = run(np)
    assert all(numpy.array_equal(a, b) for a, b in zip(found, run(numpy)))


@pytest.mark.local_only("another runtime is asked for here")
def test_reads_on_a_gpu_whose_machine_code_is_interpreted(gpu: Any) -> None:
    draw = numpy.random.default_rng(2)
    values, i = draw.random((40, 5)), draw.integers(-40, 40, 70)
    x, k = np.array(values), np.array(i)
    expected = values[i] * 2.0 + values[i, ::-1]
    assert numpy.array_equal((x[k] * 2.0 + x[k, ::-1]).__array__(), expected)
    x[k] = expected  # by the host
    values[i] = expected
    assert numpy.array_equal(x.__array__(), values)


@pytest.mark.local_only("small masks are counted by the host")
def test_reads_fuse_with_what_uses_them() -> None:
    x, i = np.array(numpy.arange(500.0)), np.array(numpy.arange(400) % 7 - 3)
    assert launches(lambda: x[i]) == 1 + 1  # the first time all indices are looked at
    assert launches(lambda: x[i] * 2.0 + x[i - 1 + 1 - 0]) == 1 + 1
    assert launches(lambda: x[i] * 2.0 + 1.0) == 1
    assert launches(lambda: (x[i] * 2.0 + np.take(x, i)).sum()) == 1
    i += 1
    assert launches(lambda: x[i]) == 1 + 1  # they are others now


@pytest.mark.local_only("small masks are counted by the host")
def test_positions_of_a_masks_elements_are_known_to_lie_within_it() -> None:
    x, mask = np.array(numpy.arange(500.0)), np.array(numpy.arange(500) % 3 == 0)
    engine.fence()
    assert launches(lambda: x[mask] * 2.0) == 1
    where, = np.nonzero(mask)
    assert launches(lambda: x[where]) == 1
    assert numpy.array_equal(x[where].__array__(), numpy.arange(0.0, 500.0, 3.0))


def waits(call: Any) -> tuple[Any, int]:
    """What a call returns, and how often it waited."""
    running = engine.current()
    before = running.epoch
    return call(), running.epoch - before


@pytest.mark.local_only("small masks are counted by the host")
def test_a_mask_is_counted_once_until_it_changes() -> None:
    plain = numpy.arange(500.0)
    x, y = np.array(plain), np.array(-plain)
    mask = x % 3.0 == 0.0
    first, count = waits(lambda: x[mask])
    assert count == 1
    second, count = waits(lambda: y[mask])
    assert count == 0
    mask[:250] = True
    third, count = waits(lambda: x[mask])
    assert count == 1
    assert numpy.array_equal(first.__array__(), plain[::3])
    assert numpy.array_equal(second.__array__(), -plain[::3])
    assert numpy.array_equal(third.__array__(), plain[(plain < 250) | (plain % 3 == 0)])


@pytest.mark.local_only("small masks are counted by the host")
def test_a_task_finds_the_elements_of_a_mask_once() -> None:
    plain = numpy.arange(500.0)
    x, y, mask = np.array(plain), np.array(-plain), np.array(plain % 3 == 0)
    engine.fence()
    chosen = [x[mask] * 2.0, y[mask] * 3.0]
    engine.fence()
    kinds = [op.kind for loop in engine.current().plans[-1].composition.body.loops for op in loop.ops]
    assert kinds.count("pick") == 2 and kinds.count("nth") == 1
    assert numpy.array_equal(chosen[0].__array__(), plain[::3] * 2.0)
    assert numpy.array_equal(chosen[1].__array__(), plain[::3] * -3.0)


@pytest.mark.parametrize("mode", ["off", "wait"])
def test_runs_of_true_elements_are_found_as_single_ones_are(mode: str) -> None:
    values = numpy.arange(5000.0)
    with using(compile=mode):
        for begin in (0, 1, 7, 8, 513):
            for length in (7, 8, 9, 64, 2100):
                mask = numpy.zeros(5000, bool)
                mask[begin:begin + length] = mask[begin + 2200:begin + 2200 + length] = True
                mask[begin + length // 2] = length % 2 == 0
                found = np.array(values)[np.array(mask)] + 1.0
                assert numpy.array_equal(found.__array__(), values[mask] + 1.0)


@pytest.mark.local_only("small masks are counted by the host")
def test_indices_that_were_chosen_from_known_ones_lie_within_the_same_bounds() -> None:
    plain = numpy.arange(500.0)
    x, left = np.array(plain), np.arange(500)
    chosen = left[np.array(numpy.arange(500) % 3 == 0)]
    found, count = waits(lambda: x[chosen])
    assert count == 0 and numpy.array_equal(found.__array__(), plain[::3])
    chosen *= 2
    with pytest.raises(IndexError, match="index 504 is out of bounds for axis 0 with size 500"):
        x[chosen]


def test_no_byte_lies_outside_a_table_of_256() -> None:
    table, numbers = np.array(numpy.arange(256.0)), np.array(numpy.arange(300))
    image = numbers.astype(numpy.uint8)
    found, count = waits(lambda: table[image])
    assert count == 0
    assert numpy.array_equal(found.__array__(), numpy.arange(300) % 256)
    with pytest.raises(IndexError):
        table[:255][image]


def test_few_elements_are_read_at_once_through_a_mask() -> None:
    plain = numpy.arange(20_000.0)
    with using(small=16384):
        x = np.array(plain) * 2.0
        mask = x < 30_000.0
        engine.fence()
        kept = ~mask
        before = trace.counters["recorded"]
        found, other = x[kept], x[mask]
        assert trace.counters["recorded"] == before
        assert numpy.array_equal(found.__array__(), 2.0 * plain[15_000:])
        assert numpy.array_equal(other.__array__(), 2.0 * plain[:15_000])


def test_one_value_where_a_mask_is_true_is_written_to_all_elements_in_one_task() -> None:
    x, rows = np.array(numpy.ones((30, 20))), np.array(numpy.arange(30) % 2 == 0)
    engine.fence()

    def steps() -> Any:
        y = x * 3.0
        y[y > 2.0] = 0.5
        y[rows] = 7
        return y

    kept: list[Any] = []
    assert launches(lambda: kept.append(steps())) == 1
    assert numpy.array_equal(kept[0].__array__()[:2], [[7.0] * 20, [0.5] * 20])


def test_an_index_out_of_bounds_is_an_error_of_the_call_and_changes_nothing() -> None:
    x, i = np.array(numpy.arange(6.0)), np.array([1, 2, 9])
    later = i * 2 - 3
    for index in (i, later, -i):
        plain = index.__array__().copy()
        for call in (lambda a, k: a[k], lambda a, k: a.__setitem__(k, 0.0), lambda a, k: a.take(k)):
            expected = outcome(call, numpy.arange(6.0), plain)
            assert expected[0] is IndexError and outcome(call, x, index) == expected
    assert numpy.array_equal(x.__array__(), numpy.arange(6.0))


def test_an_index_of_an_array_without_elements_is_in_the_error_as_it_was_given() -> None:
    for shape in ((0,), (3, 0)):
        plain = numpy.zeros(shape)
        for index in (numpy.array([-1]), numpy.array([5, 0])):
            where = (slice(None), index) if len(shape) > 1 else index
            expected = outcome(lambda a: a[where], plain)
            assert expected[0] is IndexError and outcome(lambda a: a[where], np.array(plain)) == expected


def test_an_error_of_the_index_comes_before_one_of_the_number() -> None:
    def call(a: Any) -> None:
        a[mask] = numpy.nan

    plain = numpy.arange(4)
    for mask in (numpy.arange(5) > 3, numpy.arange(4) > 1, numpy.array([0, 9])):
        expected = outcome(call, plain)
        assert expected[0] in (IndexError, ValueError) and outcome(call, np.array(plain)) == expected


def test_operands_that_are_also_the_target_are_read_before_it_is_written() -> None:
    plain = numpy.arange(8)
    writes: list[Any] = [lambda m, x: x.__setitem__(x, x[::-1]), lambda m, x: x.__setitem__(x[::-1], x),
                         lambda m, x: x.__setitem__(x[1:], x[:-1]), lambda m, x: m.put(x, x[::-1], x)]
    for write in writes:
        theirs, ours = plain.copy(), np.array(plain)
        write(numpy, theirs)
        write(np, ours)
        assert numpy.array_equal(ours.__array__(), theirs)


def test_a_target_that_is_read_only_stays_as_it_is() -> None:
    x = np.array(numpy.arange(6.0))
    x.flags.writeable = False
    writes: list[Any] = [lambda: x.__setitem__(np.array([1, 2]), 0.0), lambda: np.put(x, [1], 5.0),
                         lambda: np.putmask(x, x > 1.0, 5.0)]
    for write in writes:
        with pytest.raises(ValueError, match="read-only"):
            write()
    assert numpy.array_equal(x.__array__(), numpy.arange(6.0))


def test_arrays_of_integers_that_nobody_wrote_to_are_looked_at_once() -> None:
    i = np.array(numpy.arange(5))
    assert indices.within(i, 5) and not indices.within(i, 4)
    i[2] = 7
    assert not indices.within(i, 5) and indices.within(i, 8)
    indices.know(i, 0, 99)
    assert indices.within(i, 8), "what is known is no more than bounds"


def test_the_name_of_an_arrays_elements_changes_with_each_write_of_one_element() -> None:
    x = np.array(numpy.zeros(40_000))
    x += 1.0
    names = []
    for k in range(600):        # Python keeps the numbers up to 256 for everybody
        engine.fence()
        names.append(indices.name(x))
        for _ in range(1 + k % 3):
            x[k] = float(k)
    assert len(set(names)) == len(names)
    before = indices.name(x)
    x[7] = x[8] = 3.0
    assert indices.name(x) != before and indices.name(x) == indices.name(x)

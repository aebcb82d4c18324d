"""numpy.arrays.views and assign: views alias exactly as NumPy's do, and so do assignments through them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy
import pytest

import diffuse.numpy
from diffuse.numpy.ops.creation import arange, zeros
from diffuse.numpy.ops.operands import wrap
from tests.each import for_each

pytestmark = pytest.mark.usefixtures("threshold")

VIEWS: list[Callable[[Any], Any]] = [
    lambda x: x[1],
    lambda x: x[-1, 2],
    lambda x: x[1:3, ::2],
    lambda x: x[::-1, ::-2],
    lambda x: x[..., None, 1],
    lambda x: x[None],
    lambda x: x[2:2],
    lambda x: x.T,
    lambda x: x.T[1:],
    lambda x: x.reshape(5, 4),
    lambda x: x.reshape(-1)[3:9],
    lambda x: x[:, 1:].reshape(-1),
    lambda x: x.T.reshape(-1),
    lambda x: x.ravel(),
    lambda x: x.T.ravel(),
    lambda x: x.ravel("K"),
    lambda x: x.T.ravel("F"),
    lambda x: x.swapaxes(0, 1),
    lambda x: x.diagonal(),
    lambda x: x.diagonal(1),
    lambda x: x[:1].squeeze(),
    lambda x: x.transpose(1, 0),
    lambda x: x.flatten(),
    lambda x: x.copy(),
    lambda x: x.view(),
    lambda x: x.view(numpy.int64),
    lambda x: x.real,
    lambda x: x[1:2, 1:2][0],
    lambda x: x[...],
    lambda x: x[()],
    lambda x: x[:, ::2].view(numpy.uint64),
]


def pair() -> tuple[Any, Any]:
    plain = numpy.arange(20.0).reshape(4, 5)
    return wrap(plain.copy()) + 0, plain


@for_each("view", VIEWS)
def test_views_show_and_change_the_same_elements(view: Callable[[Any], Any]) -> None:
    ours, plain = pair()
    first, second = view(ours), view(plain)
    assert first.shape == second.shape and first.strides == second.strides or second.size < 2
    assert numpy.array_equal(numpy.array(first), second) and first.flags.writeable == second.flags.writeable
    if not second.flags.writeable:
        return
    first += 1
    second += 1
    assert numpy.array_equal(numpy.array(ours), plain)


@for_each("view", VIEWS)
def test_writing_the_parent_shows_in_the_view(view: Callable[[Any], Any]) -> None:
    ours, plain = pair()
    first, second = view(ours), view(plain)
    ours *= 2
    plain *= 2
    assert numpy.array_equal(numpy.array(first), second)


OVERLAPS: list[Callable[[Any], Any]] = [
    lambda x: x.__setitem__(slice(1, None), x[:-1]),
    lambda x: x.__setitem__(slice(None), x[::-1]),
    lambda x: x[1:].__iadd__(x[:-1]),
    lambda x: x[:, 1:].__isub__(x[:, :-1]),
    lambda x: x[:4, :4].__imul__(x[:4, :4].T),
    lambda x: x.__setitem__((slice(None), 0), x[0, :4]),
    lambda x: x.__iadd__(x[0]),
    lambda x: x.__iadd__(x[:, :1]),
    lambda x: numpy.add(x[:-1], x[1:], out=x[1:]),
    lambda x: numpy.multiply(x[:, ::2], 2, out=x[:, 1:4]),
    lambda x: x[::2].__setitem__(slice(None), x[1::2]),
    lambda x: numpy.sqrt(x[:, :-1], out=x[:, 1:]),
    lambda x: numpy.divmod(x[1:3], x[:2] + 1, out=(x[:2], x[2:])),
    lambda x: x.__iadd__(x),
    lambda x: x.reshape(-1)[2:].__iadd__(x.reshape(-1)[:-2]),
    lambda x: x[0].__setitem__(slice(None), x[0][::-1]),
]


@for_each("change", OVERLAPS)
def test_overlapping_updates_read_before_they_write(change: Callable[[Any], Any]) -> None:
    ours, plain = pair()
    change(ours)
    change(plain)
    assert numpy.array_equal(numpy.array(ours), plain)


ASSIGNMENTS: list[tuple[Any, Any]] = [
    (slice(None), 3),
    (0, 2.5),
    ((1, 2), 7),
    ((slice(1, 3), slice(None, None, 2)), [[1, 2, 3]]),
    (Ellipsis, True),
    ((Ellipsis, 1), [1, 2, 3, 4]),
    (slice(None), numpy.arange(5)),
    (slice(None), numpy.ones((1, 1, 5))),
    ([0, 2], 9),
    ([0, 2], numpy.ones((2, 5))),
    (numpy.array([True, False, True, False]), -1),
    ((slice(None), [1, 3]), 8),
    (slice(2, 2), 5),
    (slice(None, None, -1), numpy.arange(20).reshape(4, 5)),
    (numpy.int64(1), 4),
    (None, 6),
    ((numpy.arange(4), numpy.arange(4)), [1, 2, 3, 4]),
    (slice(1, 2), numpy.float32(1.5)),
]


@for_each("index, value", ASSIGNMENTS)
@pytest.mark.parametrize("dtype", ["float64", "int32", "complex64", "bool", "uint8"])
def test_assignment(index: Any, value: Any, dtype: str) -> None:
    plain = numpy.arange(20).reshape(4, 5).astype(dtype)
    ours = wrap(plain.copy()) | 0 if dtype in ("int32", "uint8") else wrap(plain.copy())
    converted = value if not (isinstance(value, int) and value < 0 and dtype == "uint8") else 1
    ours[index] = wrap(converted.copy()) if isinstance(converted, numpy.ndarray) else converted
    plain[index] = converted
    assert numpy.array_equal(numpy.array(ours), plain)


def test_masks() -> None:
    ours, plain = pair()
    for x in (ours, plain):
        x[x > 7] = 0
        x[x == 3] += 100
        x[(x > 1) & (x < 5), ...] = numpy.float64(-1)
    assert numpy.array_equal(numpy.array(ours), plain)
    assert numpy.array_equal(numpy.array(ours[ours < 0]), plain[plain < 0])
    with pytest.raises(IndexError, match="boolean index did not match indexed array along axis 0"):
        ours[numpy.ones(3, bool)]


def test_complex_parts_are_views() -> None:
    plain = numpy.arange(6).reshape(2, 3) * (1 + 2j)
    ours = wrap(plain.copy()) + 0
    for x in (ours, plain):
        x.real += 1
        x.imag[0] = 5
        x.T.imag *= 2
    assert numpy.array_equal(numpy.array(ours), plain)
    with pytest.raises(TypeError, match="imaginary part"):
        zeros(3).imag = 1


def test_elements_are_scalars() -> None:
    x = arange(100000.0) * 2
    assert float(x[3]) == 6 and isinstance(x[3], numpy.float64)
    element = x[5]
    x[5] = 0
    assert element == 10


def test_read_only_views() -> None:
    with pytest.raises(ValueError, match="assignment destination is read-only"):
        arange(9.0).reshape(3, 3).diagonal()[0] = 1


def test_indices_may_be_lazy() -> None:
    x = arange(20000)
    k = (x * 1).argmax()
    assert x[k] == 19999 and x[k - 1] == 19998 and x[:k].shape == (19999,)


def test_number_out_of_range() -> None:
    x = zeros(10, numpy.uint8)
    with pytest.raises(OverflowError, match="Python integer 300 out of bounds for uint8"):
        x[1:4] = 300
    with pytest.raises(
        ValueError, match="could not broadcast input array from shape \\(3,\\) into shape \\(2,\\)"
    ):
        x[:2] = wrap(numpy.ones(3))


def test_what_is_written_to_elements_that_share_memory_is_the_last() -> None:
    results: list[list[Any]] = []
    for np in (numpy, diffuse.numpy):
        x = np.arange(20) + 0
        one = np.lib.stride_tricks.as_strided(x[3:], (7,), (0,))
        one[...] = np.arange(7) * 2
        results.append([one.tolist(), x.tolist()])
        windows = np.lib.stride_tricks.as_strided(x, (5, 3), (8, 8))
        windows[...] = np.arange(15).reshape(5, 3) * 3
        results[-1] += [(windows + 0).tolist(), x.tolist()]
        windows += 1
        np.multiply(windows, 2, out=windows)
        results[-1] += [(windows + 0).tolist(), x.tolist()]
        windows[windows > 20] = 7
        np.cumsum(np.arange(7) + 1, out=one)
        results[-1] += [(one + 0).tolist(), x.tolist()]
    assert results[1] == results[0]


@pytest.mark.parametrize("shape", [(300,), (40, 30), (7, 8, 9), (200, 300)])
def test_every_index_selects_what_numpys_does(shape: tuple[int, ...]) -> None:
    plain = numpy.arange(numpy.prod(shape), dtype=float).reshape(shape)
    ours = diffuse.numpy.array(plain)
    rng = numpy.random.default_rng(5)
    bounds = [None, 0, 1, 2, 5, -1, -3, 7, 1000, -1000, 10**30, numpy.int64(2)]

    def bound() -> Any:
        return bounds[rng.integers(len(bounds))]

    def part() -> Any:
        kind = rng.integers(10)
        if kind < 6:
            return slice(bound(), bound(), [None, 1, 2, -1, -2, 3, 0][rng.integers(7)])
        return [2, -1, 0, 50, 10**30, None, Ellipsis][rng.integers(7)]

    def told(x: Any, index: Any) -> tuple[Any, ...]:
        try:
            found = x[index]
        except (IndexError, ValueError) as error:
            return type(error), str(error)
        values = numpy.asarray(found)
        layout = [step for step, n in zip(values.strides, values.shape, strict=True) if n > 1 < values.size]
        return values.shape, layout, values.tobytes(), getattr(found, "ndim", 0), found.flags.c_contiguous

    for _ in range(2000):
        index = tuple([part() for _ in range(rng.integers(len(shape) + 2))])
        assert told(ours, index) == told(plain, index), index
        if len(index) == 1:
            assert told(ours, index[0]) == told(plain, index[0]), index


@for_each("kind", "?BifdlqD")
def test_fills_of_all_lengths(kind: str) -> None:
    for n in (128, 129, 511, 512, 513, 5000):
        for begin, end, step in ((0, n, 1), (1, n, 1), (3, n - 2, 1), (n - 1, 0, -1), (0, n, 2), (5, 5, 1)):
            theirs, ours = numpy.zeros(n, kind), zeros(n, kind)
            for x in (theirs, ours):
                x[begin:end:step] = 1
                x[begin + 1:end:step] = x.dtype.type(3)
            assert numpy.asarray(ours).tobytes() == theirs.tobytes(), (n, begin, end, step)


@pytest.mark.parametrize("n", [200, 50_000])
def test_slices_by_any_bounds(n: int) -> None:
    theirs, ours = numpy.arange(n), arange(n)
    assert int(ours[1]) == 1
    bounds = [None, 0, 1, -1, 7, -7, n, n + 1, -n, -n - 1, 1 << 62, -(1 << 62), 1 << 70, -(1 << 70)]
    for start in bounds:
        for stop in bounds:
            for step in (None, 1, -1, 2, -3, n, 1 << 62, -(1 << 62), 1 << 70, -(1 << 63), -(1 << 70)):
                one, other = ours[start:stop:step], theirs[start:stop:step]
                assert one.shape == other.shape and one.strides == other.strides, (start, stop, step)
                assert not other.size or (int(one[0]), int(one[-1])) == (other[0], other[-1])
    for step in (0, True):
        with pytest.raises(ValueError, match="zero") if not step else nullcontext():
            assert ours[::step].shape == theirs[::step].shape


REFUSED: list[Callable[[Any], Any]] = [
    lambda np: np.split([1, 2, 3, 4], 2), lambda np: np.hsplit((1, 2, 3, 4), 2),
    lambda np: np.vsplit([[1], [2]], 2),
    lambda np: np.dsplit([[[1, 2]]], 2), lambda np: np.exp(np.ones(300), dtype=np.ones(300)),
    lambda np: np.may_share_memory(np.ones(300), np.ones(300), max_work="all"),
    lambda np: np.shares_memory(np.ones(300), np.ones(300), max_work=-5),
    lambda np: np.round(np.ones(300), 1.5), lambda np: np.ones(300).round(None),
    lambda np: np.round(np.arange(300), 2.0), lambda np: np.round(np.ones(300), 1 << 40),
]


@for_each("call", REFUSED)
def test_arguments_that_numpy_refuses_are_refused(call: Callable[[Any], Any]) -> None:
    with pytest.raises((TypeError, ValueError, AttributeError, OverflowError)) as theirs:
        call(numpy)
    with pytest.raises(theirs.type) as ours:
        call(diffuse.numpy)
    assert str(ours.value) == str(theirs.value)
    parts = diffuse.numpy.split([1, 2, 3, 4], [1, 3])
    assert [part.tolist() for part in parts] == [[1], [2, 3], [4]]


COPIES: list[Callable[[Any, Any], Any]] = [
    lambda x, copy: x.reshape(40, copy=copy), lambda x, copy: x.T.reshape(40, copy=copy),
    lambda x, copy: x.__array__(copy=copy), lambda x, copy: x.__array__("f4", copy=copy),
]


@for_each("copy", ["f8", "", None, False, True, 0, 2, *numpy._CopyMode, []])
@for_each("use", COPIES)
def test_copy_is_what_numpy_takes_it_for(use: Callable[[Any, Any], Any], copy: Any) -> None:
    def outcome(np: Any) -> tuple[Any, ...]:
        x = np.arange(40.0).reshape(5, 8)
        try:
            found = use(x, copy)
        except (TypeError, ValueError) as error:
            return type(error), str(error)
        return found.shape, found.dtype, numpy.shares_memory(numpy.asarray(found), numpy.asarray(x))

    assert outcome(diffuse.numpy) == outcome(numpy)


@pytest.mark.parametrize("options", [
    {"subok": []}, {"subok": "a"}, {"subok": 1}, {"ndmin": numpy.float64(2)}, {"ndmin": [1]}], ids=str)
def test_array_takes_the_options_that_numpys_takes(options: Any) -> None:
    def outcome(np: Any) -> tuple[Any, ...]:
        try:
            return np.array(np.arange(40.0), **options).shape, ""
        except (TypeError, ValueError) as error:
            return type(error), str(error)

    assert outcome(diffuse.numpy) == outcome(numpy)

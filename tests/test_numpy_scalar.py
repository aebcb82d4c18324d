"""Pending numbers: what a program may do with the result of a reduction before anybody has computed it."""

from __future__ import annotations

import collections
import datetime
import decimal
import fractions
import io
import json
import math
import operator
import pickle
import sqlite3
import statistics
import struct
import sys
import warnings
import zlib
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse import library, settings
from diffuse.numpy.arrays.access import ready
from diffuse.numpy.arrays.core import PENDING
from diffuse.numpy.small import native
from tests.each import for_each

SIZE = 100_000


def total() -> Any:
    """A sum that nobody waited for."""
    found = (np.ones(SIZE) * 0.5).sum()
    assert type(found) in PENDING and not ready(found)
    return found


def count() -> Any:
    found = np.ones(SIZE, dtype=numpy.int64).sum()
    assert type(found) in PENDING and not ready(found)
    return found


USES: list[Callable[[Any, Any], Any]] = [
    lambda s, n: json.dumps({"a": [s], s: n.item()}),
    lambda s, n: json.dumps((s, {"b": s}), indent=2),
    lambda s, n: struct.pack("dq", s, n),
    lambda s, n: (math.sqrt(s), math.floor(s), math.fsum([s, s]), math.isclose(s, 50_000)),
    lambda s, n: (round(s), round(s, 2), f"{s:.3f}", "%g" % s, "%d" % n, str(s), repr(n)),
    lambda s, n: (isinstance(s, float), isinstance(s, numpy.float64), isinstance(n, numpy.integer)),
    lambda s, n: ({50_000.0: 1}[s], s in [1, 50_000.0], 50_000.0 in {s}, hash(s)),
    lambda s, n: (pickle.loads(pickle.dumps(s)), type(pickle.loads(pickle.dumps(n)))),
    lambda s, n: (numpy.sqrt(s), numpy.asarray(s).shape, numpy.array([s, n]).tolist(), numpy.float32(s)),
    lambda s, n: (1 if 3 < s < 60_000 and n == SIZE else 0, max(s, 1.0), sorted([s, 2.0]), sum([s, s])),
    lambda s, n: (len([0] * n), len(n * (1,)), len(range(n)), numpy.zeros(n).shape, "ab" * (n - n)),
    lambda s, n: (statistics.mean([s, s]), statistics.median([s, 1.0, 3.0])),
    lambda s, n: (s != None, s == "text", bool(n)),  # noqa: E711
    lambda s, n: (s.item(), s.dtype, s.shape, s.is_integer(), s.astype("float32"), int(s), complex(s)),
    lambda s, n: sqlite3.connect(":memory:").execute("select ?, ?", (s, n)).fetchall(),
    lambda s, n: [type(found) for found in (s == "a", s != None, n == {}, b"a" == s)],  # noqa: E711
    lambda s, n: numpy.full(2, s).tolist() + [numpy.linspace(0, s, 3).tolist()],
]


@for_each("use", USES)
def test_a_pending_number_serves_as_numpys(use: Callable[[Any, Any], Any]) -> None:
    assert use(total(), count()) == use(numpy.float64(50_000.0), numpy.int64(SIZE))


KINDS: list[Callable[[Any], Any]] = [
    lambda s: type(s)(3), lambda s: type(s)("3"), lambda s: type(s)(), lambda s: type(s)([1, 2]),
    lambda s: (str(type(s)), type(s).__name__, type(s).__module__, type(s).__qualname__, type(s).__doc__),
    lambda s: (type(s) == s.dtype.type, s.dtype.type == type(s), type(s) == int),  # noqa: E721
    lambda s: type(s) in (numpy.float64, numpy.float32, numpy.int64, numpy.bool_, numpy.complex128),
    lambda s: (numpy.dtype(type(s)), numpy.zeros(3, type(s)), np.ones(300).astype(type(s)).dtype),
    lambda s: (numpy.issubdtype(type(s), numpy.integer), numpy.can_cast(type(s), "i8")),
    lambda s: (isinstance(s.dtype.type(3), type(s)), isinstance(3j, type(s)), isinstance(s, type(s))),
    lambda s: (issubclass(s.dtype.type, type(s)), issubclass(str, type(s)), issubclass(type(s), type(s))),
    lambda s: (hasattr(s, "__index__"), hasattr(s, "number"), hasattr(type(s), "number")),
    lambda s: len(s), lambda s: list(s), lambda s: [1][s * 0], lambda s: s(), lambda s: s.__index__(),
    lambda s: numpy.finfo(type(s)).eps, lambda s: numpy.iinfo(type(s)).max,
]


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i8", "i4", "u1", "?", "c16", "c8"])
def test_the_class_of_a_pending_number_stands_for_numpys(dtype: str) -> None:
    def told(use: Callable[[Any], Any], number: Any) -> str:
        try:
            return repr(use(number))
        except Exception as error:
            text = str(error) if native is not None else str(error).replace("'numpy.", "'")
            return f"{type(error).__name__}: {text}"

    some: Any = np.ones(SIZE, dtype)
    number = some.sum() if dtype[0] == "c" else some.all() if dtype == "?" else some.max()
    assert type(number) in PENDING
    for use in KINDS:
        assert told(use, number) == told(use, numpy.ones((), dtype)[()])


Point = collections.namedtuple("Point", "x y")
ODD: list[Any] = [decimal.Decimal("1.5"), fractions.Fraction(1, 3), datetime.timedelta(1), None, "abc", b"ab",
                  {1, 2}, {1: 2}, Point(1, 2), (1, 2), [1, 2], range(3), int,
                  numpy.str_("a"), numpy.timedelta64(3, "s"), numpy.longdouble(2), numpy.ma.masked]


@for_each("odd", ODD)
@for_each("dtype", ["f8", "f4", "?"])
def test_operands_that_no_ufunc_knows_meet_the_value_of_a_pending_number(odd: Any, dtype: str) -> None:
    names = "add sub mul truediv floordiv mod pow lt le eq ne and_ lshift matmul".split()
    plain = numpy.ones(SIZE, dtype).max()

    def told(function: Callable[[Any, Any], Any], *operands: Any) -> str:
        try:
            found = function(*operands)
        except Exception as error:
            text = str(error) if native is not None else str(error).replace("'numpy.", "'")
            return f"{type(error).__name__}: {text}"
        return f"{found.__class__.__name__} {found}"

    for function in divmod, *[getattr(operator, name) for name in names]:
        number = np.ones(SIZE, dtype).max() if dtype != "?" else (np.ones(SIZE) > 0).any()
        assert type(number) in PENDING
        assert told(function, number, odd) == told(function, plain, odd)
        assert told(function, odd, number) == told(function, odd, plain)


def test_functions_take_pending_numbers_where_they_take_numpys_of_the_same_class() -> None:
    n, half, three = np.arange(SIZE).max() % 7, np.ones(SIZE).mean() / 2, np.full(SIZE, 3.0).max()
    assert {type(n), type(half), type(three)} <= PENDING
    table = np.arange(SIZE) * 2
    picked = np.take(table, n), np.take(table, n, mode="wrap"), table[n], table.reshape(2, -1)[0, n]
    assert all([isinstance(x, numpy.int64) for x in picked]) and set(picked) == {8}
    uses: list[Callable[[Any, Any, Any], Any]] = [
        lambda x, i, v: np.put(x, [i], v), lambda x, i, v: np.add.at(x, [i, i], v),
        lambda x, i, v: np.place(x, x > SIZE - 5, v), lambda x, i, v: np.insert(x, [1, i], v),
        lambda x, i, v: np.linspace(v, 9, SIZE), lambda x, i, v: x.__setitem__(slice(0, i), v),
        lambda x, i, v: np.interp(x, [5.0, 9.0], [1.0, 2.0], left=v),
        lambda x, i, v: np.copyto(x[:9], v), lambda x, i, v: np.putmask(x, x > i, v)]
    for function in uses:
        x, y = np.arange(float(SIZE)), numpy.arange(float(SIZE))
        ours, theirs = function(x, n, half * three), function(y, numpy.int64(4), numpy.float64(1.5))
        assert x.tolist() == y.tolist()
        assert ours is theirs is None or ours.tolist() == theirs.tolist()


def test_statistics_convert_their_results_to_the_class_of_pending_numbers() -> None:
    for dtype in "f8", "f4", "i8":
        some: list[Any] = [np.full(SIZE, n, dtype).max() for n in (1, 2, 3)]
        numbers: list[Any] = [numpy.array(n, dtype)[()] for n in (1, 2, 3)]
        assert type(some[0]) in PENDING
        expected = statistics.mean(numbers)
        for mixed in some, [some[0], *numbers[1:]], [*numbers[:2], some[2]]:
            mean = statistics.mean(mixed)
            assert mean == expected and type(mean) is type(expected)
    assert statistics.mean([np.ones(SIZE).max(), 2.0, 1]) == 4 / 3


@pytest.mark.skipif(native is None and sys.version_info < (3, 12), reason="Python classes give no buffers")
def test_a_pending_number_gives_its_bytes_as_numpys_does() -> None:
    pairs: tuple[tuple[Any, Any], ...] = (total(), numpy.float64(50_000)), (count(), numpy.int64(SIZE))
    for pending, number in pairs:
        ours, theirs = memoryview(pending), memoryview(number)
        assert (ours.format, ours.shape, ours.tobytes()) == (theirs.format, theirs.shape, theirs.tobytes())
        assert zlib.crc32(pending) == zlib.crc32(number) and io.BytesIO().write(pending) == 8
        assert numpy.frombuffer(pending, "u1").tolist() == list(number.tobytes())
        assert pending.__reduce__() == number.__reduce__()
        for request in (lambda x: numpy.frombuffer(x).fill(0), io.BytesIO(b"12345678").readinto):
            with pytest.raises((TypeError, ValueError)):  # it cannot be written to
                request(pending)
        array = numpy.asarray(pending)
        array[()] = 3
        assert array == 3 and pending == number  # nor through an array of its value


@pytest.mark.parametrize("use", [lambda s: s @ s, lambda s: s @ [1], lambda s: 2 @ s, lambda s: "a" + s])
def test_operators_of_a_pending_number_refuse_what_numpys_do(use: Callable[[Any], Any]) -> None:
    for value in (total(), numpy.float64(50_000.0)):
        with pytest.raises(TypeError, match="unsupported operand|can only concatenate"):
            use(value)


@pytest.mark.filterwarnings("ignore:'where' used without 'out'")
def test_a_pending_number_is_a_mask_as_numpys_is() -> None:
    for some, none in ((count(), np.zeros(SIZE, int).max()), (numpy.int64(3), numpy.int64(0))):
        out = numpy.zeros(300)
        np.add(np.ones(300), 1, out=out, where=none)
        assert not out.any()
        np.add(np.ones(300), 1, out=out, where=some)
        assert (out == 2).all()


def test_functions_of_shapes_and_types_read_the_value_of_a_pending_number() -> None:
    """Those that only look at descriptions must not take what a pending number has for memory."""
    three = (np.ones(SIZE, dtype=numpy.int64) * 3).max()
    assert type(three) in PENDING
    assert np.broadcast_shapes((three, 1), (1, 2)) == (3, 2) and np.broadcast_shapes(three) == (3,)
    assert np.promote_types("f4", three) == numpy.promote_types("f4", numpy.int64(3)) == "f8"
    assert np.result_type(three, "i1") == "i8" and np.min_scalar_type(three) == "u1"
    assert [part.tolist() for part in np.split(np.arange(6), three)] == [[0, 1], [2, 3], [4, 5]]
    with pytest.raises(ValueError, match="hsplit only works on arrays of 1 or more dimensions"):
        np.hsplit(three, three)
    found = np.astype(three, "f4")
    assert isinstance(found, numpy.float32) and not isinstance(found, np.ndarray)
    with pytest.raises(TypeError, match="`like` argument must be an array-like"):
        np.zeros(3, like=three)


def test_a_pending_number_stands_for_its_type_where_a_type_is_asked_for() -> None:
    assert np.ones(300).astype(count()).dtype == numpy.ones(300).astype(numpy.int64(1)).dtype == "int64"


def test_powers_of_a_lazy_truth_value_have_numpys_type() -> None:
    some = (np.ones(SIZE) * 0.5 > 0.25).any()
    assert type(some) in PENDING
    for exponent in (2, 0, 3, True, 2.0, numpy.int8(2)):
        assert repr(some ** exponent) == repr(numpy.True_ ** exponent)


def test_indices_of_a_pending_number_are_those_of_numpys() -> None:
    assert (total()[()], type(total()[...]), count()[None].shape) == (50_000.0, numpy.ndarray, (1,))
    for index in (0, slice(None), (0,), 1.5):
        with pytest.raises(IndexError, match="invalid index to scalar variable"):
            total()[index] += 1
    for use in (iter, list, lambda s: 1 in s):
        with pytest.raises(TypeError, match="iterable"):
            use(total())
    with pytest.raises(TypeError, match="item assignment"):
        total()[...] = 1


FUNCTIONS: list[Callable[[Any], Any]] = [
    lambda m: m.isclose((m.ones(SIZE) * 0.5).sum(), 50_000.0),
    lambda m: m.allclose((m.ones(SIZE) * 0.5).sum(), 50_000.0),
    lambda m: m.round(m.ones(SIZE, dtype=int).sum()),
    lambda m: m.nan_to_num((m.ones(SIZE) * 0.5).sum()),
    lambda m: m.average((m.ones(SIZE) * 0.5).sum()),
    *[lambda m, name=name: getattr(m, name)((m.ones(SIZE) * 0.5).sum())
      for name in ("squeeze", "transpose", "real", "imag")],
]


@pytest.mark.parametrize("call", FUNCTIONS)
def test_functions_of_a_pending_number_give_scalars(call: Callable[[Any], Any]) -> None:
    found, expected = call(np), call(numpy)
    assert not isinstance(found, np.ndarray) and repr(found) == repr(expected)


class Matrix:
    """An operand that answers operators itself, as SciPy's linear operators do."""

    __array_ufunc__ = None

    def __rmul__(self, other: Any) -> str:
        return f"answered {float(other)}"


def test_operands_that_answer_themselves_do_so_for_a_pending_number() -> None:
    assert total() * Matrix() == numpy.float64(50_000.0) * Matrix() == "answered 50000.0"


def test_what_a_pending_number_is_does_not_wait_for_its_value() -> None:
    found = total()
    value = numpy.float64(found.size)
    for name in ("shape", "ndim", "size", "dtype", "itemsize", "nbytes"):
        assert getattr(found, name) == getattr(value, name), name
    assert not ready(found)


def test_a_scalar_becomes_an_array_without_waiting() -> None:
    with settings.using(small=0):
        total, plain = np.sum(np.arange(6.0)) * 2.0, numpy.sum(numpy.arange(6.0)) * 2.0
        found = np.reshape(total, (1, 1))
        assert library.current().window.held and type(found) is np.ndarray
        assert numpy.array_equal(numpy.asarray(found), numpy.reshape(plain, (1, 1)))
        shapes: tuple[Any, ...] = (), []
        for empty in shapes:
            kinds: list[Any] = [type(np.reshape(total, empty)), type(numpy.reshape(plain, empty))]
            assert kinds == [numpy.float64, numpy.float64]


@pytest.mark.skipif(native is None, reason="without it NumPy asks the number for one of Python's")
@for_each("kind", ["u1", "i8", "?", "f4", "c16", "O", "U5", "m8[s]"])
@for_each("code", [
    "z[1] = x", "z[...] = x", "z[:2] = [x, x]", "z.flat[1] = x", "z.flat[:2] = [x, 1]", "z.fill(x)",
    "z[[0]] = x",
    "numpy.ndarray.__setitem__(z, 0, x)", "z = numpy.timedelta64(x, 's')", "z = np.array(x, z.dtype)"])
def test_numpys_own_array_takes_a_pending_number_for_its_element(code: str, kind: str) -> None:
    """A number of Python's has no element type: 300 does not wrap, and NaN is no integer."""
    def found(np: Any, value: Any) -> Any:
        x = np.full(20, value)[:1].sum()
        assert np is numpy or type(x) in PENDING
        scope = {"np": np, "numpy": numpy, "x": x, "z": numpy.zeros(3, kind)}
        try:
            exec(code, scope)
        except Exception as error:
            return type(error), str(error)
        return repr(scope["z"]), [type(one).__name__ for one in numpy.asarray(scope["z"]).ravel().tolist()]

    with settings.using(small=0), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for value in (300, -1, float("nan"), float("inf"), 1e300, 1j, True):
            assert found(np, value) == found(numpy, value), value


def test_a_pending_number_that_is_not_a_number_is_found_by_its_identity() -> None:
    with settings.using(small=0):
        x, y = np.full(20, numpy.nan).max(), np.full(20, numpy.nan).max()
        assert type(x) in PENDING
        assert {x: 1}[x] == 1 and hash(x) == hash(x) and len({x, y, x}) == 2
        assert hash(np.full(20, 2.0).max()) == hash(2.0)


@for_each("name", """real imag shape dtype ndim size itemsize nbytes T flat strides flags base
                      data device other""".split())
def test_assigning_an_attribute_of_a_number_raises_numpys_error(name: str) -> None:
    for number in total(), count():
        with pytest.raises(AttributeError) as expected:
            setattr(number.value(), name, 3)
        with pytest.raises(AttributeError) as found:
            setattr(number, name, 3)
        text = str(expected.value)
        if native is None and "has no attribute" in text:
            text = text.replace("'numpy.", "'")
        assert str(found.value) == text

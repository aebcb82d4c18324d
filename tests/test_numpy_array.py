"""diffuse.numpy.arrays.array: what an array looks like, how it is converted, copied, printed and shared."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse.numpy.arrays.array import ndarray
from diffuse.numpy.ops.conversion import asarray
from diffuse.numpy.ops.creation import arange, empty, eye, full, linspace, ones, zeros
from diffuse.numpy.ops.operands import wrap
from diffuse.numpy.small import native
from diffuse.observe import trace
from diffuse.stream import engine
from tests.each import for_each
from tests.kinds import is_ours

pytestmark = pytest.mark.usefixtures("threshold")


def same(ours: Any, plain: Any) -> None:
    got = numpy.asarray(ours)
    assert got.dtype == plain.dtype and got.shape == plain.shape
    assert numpy.array_equal(got, plain, equal_nan=plain.dtype.kind in "fc")


CREATED: list[Callable[[Any], Any]] = [
    lambda np: np.zeros((3, 4)),
    lambda np: np.ones(5, numpy.int8),
    lambda np: np.full((2, 2), 7),
    lambda np: np.full(3, 1.5),
    lambda np: np.zeros((), complex),
    lambda np: np.zeros((0, 3), bool),
    lambda np: np.arange(10),
    lambda np: np.arange(2, 20, 3),
    lambda np: np.arange(5.0),
    lambda np: np.arange(10, 0, -2),
    lambda np: np.arange(0, 1, 0.1),
    lambda np: np.arange(5, dtype=numpy.float32),
    lambda np: np.arange(0),
    lambda np: np.arange(1.5, 100.25, 0.37),
    lambda np: np.linspace(0, 1, 11),
    lambda np: np.linspace(2, 3, 7, False),
    lambda np: np.linspace(-1.5, 7.25, 1001),
    lambda np: np.eye(4),
    lambda np: np.eye(3, 5, 1, int),
    lambda np: np.eye(3, 3, -1),
    lambda np: np.identity(3),
    lambda np: np.zeros_like(np.ones((2, 3), numpy.int16)),
    lambda np: np.ones_like(np.zeros((2, 3), order="F")),
    lambda np: np.full_like(np.zeros(4), 2.5),
    lambda np: np.array([[1, 2], [3, 4]]),
    lambda np: np.array([1, 2.5, 3j]),
    lambda np: np.array(5),
    lambda np: np.array([1, 2], ndmin=3),
    lambda np: np.array([True, False]),
    lambda np: np.indices((2, 3)),
    lambda np: np.fromfunction(lambda i, j: i + 2 * j, (3, 4)),
    lambda np: np.ascontiguousarray(np.arange(6).reshape(2, 3).T),
    lambda np: np.asfortranarray(np.ones((2, 3))),
    lambda np: np.arange(numpy.float32(5)),
]


@for_each("make", CREATED)
def test_creation_gives_numpys_values_types_and_layout(make: Callable[[Any], Any]) -> None:
    ours, plain = make(np), make(numpy)
    assert isinstance(ours, ndarray)
    assert ours.strides == plain.strides or plain.size < 2 or 1 in plain.shape
    same(ours, plain)


def test_large_ranges_have_numpys_bits() -> None:
    for args in (
        (100000.0,),
        (0, 1000, 0.01),
        (-3.3, 70.1, 0.00123),
        (7, -90000, -1),
        (1e17, 1e17 + 1e5, 2.0),
    ):
        same(arange(*args), numpy.arange(*args))
    for first, last in ((0.0, 1.0), (-1.25, 3e5), (1e-3, 7)):
        same(linspace(first, last, 12345), numpy.linspace(first, last, 12345))
        same(linspace(first, last, 12345, endpoint=False), numpy.linspace(first, last, 12345, endpoint=False))


ATTRIBUTES = ("shape", "ndim", "size", "itemsize", "nbytes", "strides", "dtype")


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 4)])
def test_attributes(shape: tuple[int, ...]) -> None:
    ours, plain = ones(shape, numpy.float32), numpy.ones(shape, numpy.float32)
    for name in ATTRIBUTES:
        assert getattr(ours, name) == getattr(plain, name)
    assert ours.flags.c_contiguous == plain.flags.c_contiguous
    assert ours.flags["OWNDATA"] and ours.flags.writeable


def test_shape_can_be_set() -> None:
    ours = arange(12)
    ours.shape = (3, 4)
    same(ours, numpy.arange(12).reshape(3, 4))
    same(ours + 1, numpy.arange(12).reshape(3, 4) + 1)
    with pytest.raises(ValueError, match="cannot reshape array of size 12 into shape"):
        ours.shape = (5,)


def test_prints_like_numpy() -> None:
    for make in CREATED:
        assert repr(make(np)) == repr(make(numpy)) and str(make(np)) == str(make(numpy))
    assert repr(zeros((1000, 1000)) + 1) == repr(numpy.zeros((1000, 1000)) + 1)


def test_conversions_to_python() -> None:
    x = arange(6).reshape(2, 3) * 2
    assert x.tolist() == [[0, 2, 4], [6, 8, 10]] and len(x) == 2 and [row.sum() for row in x] == [6, 24]
    assert x.item(1, 2) == 10 and float(x[1, 1]) == 8.0 and int(full((), 3)) == 3 and 8 in x and 9 not in x
    assert x.tobytes() == numpy.asarray(x).tobytes() and [1, 2, 3][wrap(numpy.array(1))] == 2
    assert complex(full((), 2.0)) == 2 and bool(ones(1))


@for_each("wrong", [
        lambda x: bool(x),
        lambda x: float(x),
        lambda x: int(x),
        lambda x: len(x[0, 0:1].reshape(())),
        lambda x: x.item(),
        lambda x: [1][x],
        lambda x: iter(x.sum(keepdims=True).reshape(())),
        lambda x: x + "text",
        lambda x: x + numpy.ones(5),
        lambda x: x.reshape(7),
        lambda x: x.astype("int8", casting="safe"),
        lambda x: x[5],
        lambda x: x[0, 0, 0],
        lambda x: x["name"],
        lambda x: x.transpose(0, 0),
        lambda x: x.sum(axis=2),
        lambda x: x.swapaxes(0, 5),
        lambda x: x.squeeze(0),
        lambda x: x @ numpy.ones(5),
        lambda x: x.__setitem__(slice(None), numpy.ones(7)),
        lambda x: x.__setitem__((0, 0), [1, 2]),
        lambda x: x << 1.5,
        lambda x: x.__iadd__(1j),
        lambda x: x.__iand__(1.5),
        lambda x: numpy.add(x, x, out=numpy.ones(5)),
    ])
def test_mistakes_raise_numpys_errors(wrong: Callable[[Any], Any]) -> None:
    plain = numpy.arange(6.0).reshape(2, 3)
    ours = wrap(plain.copy()) + 0
    with pytest.raises(Exception) as expected:  # noqa: PT011
        wrong(plain)
    with pytest.raises(type(expected.value)) as raised:
        wrong(ours)
    said = str(raised.value).replace("diffuse.numpy.arrays.array.", "numpy.").strip()
    assert said == str(expected.value).strip()


def test_numpy_shares_memory_with_asarray() -> None:
    ours = arange(5.0) * 1
    plain = numpy.asarray(ours)
    plain[0] = 7
    assert ours[0] == 7
    ours += 1
    assert plain.tolist() == [8, 2, 3, 4, 5]
    memory = numpy.zeros(4)
    seen = asarray(memory)
    seen[1] = 5
    memory[2] = 6
    assert memory.tolist() == [0, 5, 6, 0] and seen.tolist() == [0, 5, 6, 0]
    assert np.asarray(ours) is ours


def test_memory_given_away_outlives_the_array() -> None:
    plain = numpy.asarray(ones(100000) + 1)
    for _ in range(5):
        numpy.asarray(zeros(100000) + 5)
    assert plain.sum() == 200000


def test_copies_are_independent() -> None:
    x = np.arange(4.0)
    for other in (x.copy(), copy.copy(x), copy.deepcopy(x), np.array(x), pickle.loads(pickle.dumps(x))):
        assert is_ours(other)
        other[0] = 9
        assert x[0] == 0 and other[0] == 9


def test_pickles_in_every_protocol() -> None:
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        same(pickle.loads(pickle.dumps(arange(6).reshape(2, 3).T, protocol)), numpy.arange(6).reshape(2, 3).T)


def test_numpys_functions_and_ufuncs_accept_arrays() -> None:
    x = np.arange(5.0)
    assert is_ours(numpy.add(x, 1)) and is_ours(numpy.float64(2) * x)
    assert is_ours(numpy.ones(5) + x)
    same(numpy.ones(5) + x, numpy.arange(5.0) + 1)
    plain = numpy.ones(5)
    plain += x
    assert plain.tolist() == [1, 2, 3, 4, 5]


@pytest.mark.not_gpu("NumPy takes an array on a GPU if it is asked for a copy, by device='cpu'")
def test_dlpack_and_buffers() -> None:
    x = arange(6.0) + 0
    assert numpy.from_dlpack(x).tolist() == [0, 1, 2, 3, 4, 5]
    assert x.__array_interface__["shape"] == (6,) and x.data.nbytes == 48 and x.ctypes.data


def test_types_without_kernels_stay_numpys() -> None:
    for value in (numpy.array(["a"]), numpy.array([None]), numpy.zeros(2, "M8[s]"), numpy.zeros(2, ">f8")):
        assert type(asarray(value)) is numpy.ndarray


def test_flags_make_an_array_read_only() -> None:
    x = arange(3.0) + 0
    x.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        x[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        x += 1
    x.flags.writeable = True
    x[0] = 1


def test_arrays_are_not_hashable() -> None:
    with pytest.raises(TypeError, match="unhashable type"):
        hash(arange(3))


def test_astype() -> None:
    plain = numpy.array([[1.7, -2.2, 300.0], [0.0, numpy.nan, 5.0]])
    with numpy.errstate(invalid="ignore"):
        for dtype in ("float32", "bool", "complex64", "float16"):
            same(wrap(plain.copy()).astype(dtype), plain.astype(dtype))
    x = ones(3)
    assert x.astype(float, copy=False) is x and x.astype(float) is not x
    with pytest.warns(numpy.exceptions.ComplexWarning):
        ones(3, complex).astype(float)


def test_a_pending_number_is_what_it_will_be() -> None:
    engine.fence()
    total = (arange(100000.0) + 1).sum()
    before = total
    assert isinstance(total, numpy.float64) and isinstance(total, float) and not isinstance(total, ndarray)
    total += 1
    assert total == before + 1 and float(before) == 5000050000.0 and hash(before) == hash(5000050000.0)
    assert (
        f"{before:.1f}" == "5000050000.0"
        and repr(before) == "np.float64(5000050000.0)"
        and str(before) == "5000050000.0"
    )
    assert int(before) == 5000050000 and bool(before) and before > 1 and {before: 1}[5000050000.0] == 1
    assert (
        pickle.loads(pickle.dumps(before)) == before
        and copy.deepcopy(before) == before
        and round(before) == 5000050000
    )
    assert (
        range(5)[arange(100000).argmin()] == 0
        and before.is_integer()
        and before.shape == ()
        and before.ndim == 0
    )
    same(arange(3.0) * before, numpy.arange(3.0) * 5000050000.0)


def test_empty_reserves_without_writing() -> None:
    assert empty((10, 10**6)).shape == (10, 10**6)
    with pytest.raises(ValueError, match="negative dimensions are not allowed"):
        empty((-1,))
    with pytest.raises(MemoryError):
        empty(10**15)


def test_identity_is_writable() -> None:
    x = eye(3)
    x[0, 1] = 5
    assert x.sum() == 8


def test_numpys_arrays_are_instances() -> None:
    ours, plain = ones(3), numpy.ones(3)
    kind: Any = type(ours)
    assert isinstance(ours, kind) and isinstance(plain, kind) and isinstance(numpy.ma.ones(3), kind)
    assert not isinstance(3.0, kind) and not isinstance([1], kind)
    assert issubclass(kind, kind) and issubclass(numpy.ndarray, kind) and not issubclass(int, kind)
    assert kind.__name__ == "ndarray" and kind[Any, numpy.dtype[numpy.float64]].__origin__ is kind
    assert kind((2, 3), dtype="int32").shape == (2, 3)
    assert kind((2,), buffer=numpy.arange(4.0), offset=8).tolist() == [1.0, 2.0]


def test_a_derived_class_is_one_of_numpys() -> None:
    kind: Any = type(ones(3))

    class Named(kind):  # type: ignore[misc]
        def __new__(cls, values: Any, name: str = "") -> Any:
            x = asarray(values).view(cls)
            x.name = name
            return x

        def __array_finalize__(self, parent: Any) -> None:
            self.name = getattr(parent, "name", "")

    x: Any = Named(ones(3), "a")
    assert issubclass(Named, numpy.ndarray) and isinstance(x, kind) and not isinstance(ones(3), Named)
    assert (x + 1).name == "a" and type(x[1:] + ones(2)) is Named and (x * 2).sum() == 6


SHAPES = [4.2, numpy.float64(4.2), True, numpy.True_, {}, None, "a", 1j, [[1]], [2.0], numpy.array(3.0), -1,
          (2, -1), (1,) * 70, numpy.int64(3), numpy.array([2, 3]), numpy.array(2), (), range(2), 1 << 70]


@for_each("shape", SHAPES)
@for_each("name", ["zeros", "ones", "empty", "zeros_like", "identity"])
def test_shapes_are_what_numpy_takes_for_shapes(name: str, shape: Any) -> None:
    def made(m: Any) -> Any:
        try:
            like = name == "zeros_like"
            found = m.zeros_like(m.ones(300), shape=shape) if like else getattr(m, name)(shape)
        except Exception as error:
            return type(error), str(error)
        return found.shape

    assert made(np) == made(numpy)


@pytest.mark.skipif(native is None, reason="the extension names the class")
@for_each("use", [hash, lambda x: x(), lambda x: x.none, lambda x: {x: 1}, lambda x: "%d" % x,
                  lambda x: setattr(x, "none", 1), lambda x: "".join([x]), open])
def test_errors_name_the_class_as_numpys(use: Callable[[Any], Any]) -> None:
    with pytest.raises((TypeError, AttributeError)) as theirs:
        use(numpy.ones(300))
    with pytest.raises(theirs.type) as ours:
        use(np.ones(300))
    assert str(ours.value) == str(theirs.value)


@pytest.mark.usefixtures("nothing_alone")
def test_memory_is_shown_for_as_long_as_somebody_looks() -> None:
    """While a NumPy array shares the memory calls are done when they return; afterwards they fuse again."""
    x = ones(100_000) * 2.0
    seen = numpy.asarray(x)[10:20]
    x += 1.0
    assert seen[0] == 3.0
    before = trace.counters["launched"]
    x += 1.0
    x *= 2.0
    assert trace.counters["launched"] - before == 2 and seen[0] == 8.0
    del seen
    before = trace.counters["launched"]
    x += 1.0
    x *= 2.0
    assert trace.counters["launched"] == before
    assert float(x[5]) == 18.0


def test_arrays_show_numpys_class() -> None:
    for array in (np.ones(3), np.ones(300), np.ones(30_000) + 1):
        assert repr(type(array)) == str(type(array)) == "<class 'numpy.ndarray'>"


@pytest.mark.skipif(native is None, reason="the extension was not built")
@for_each("name", """
    all argmax choose clip compress cumsum dot fill item max mean nonzero ravel repeat reshape round
    searchsorted squeeze std sum swapaxes take tolist trace transpose var view""".split())
def test_arguments_that_a_method_does_not_take_are_refused_in_numpys_words(name: str) -> None:
    plain = numpy.arange(300.0)
    for given in ("foo=1", "1, 1, 1, 1, 1, 1, 1, 1, 1"):
        found = []
        for x in (np.array(plain) + 0, plain):
            with pytest.raises((TypeError, ValueError)) as caught:
                eval(f"x.{name}({given})", {"x": x})  # a method that was looked up before has a shorter name
            found.append((caught.type, str(caught.value)))
        assert found[0] == found[1]

"""Arrays as Python objects: their size, signatures, refusals, identity inside other containers."""

from __future__ import annotations

import ctypes
import functools
import gc
import inspect
import pickle
import sys
import weakref
from collections.abc import Iterable, Sequence

import numpy
import pytest

import diffuse.numpy as np
from diffuse.numpy.arrays import core
from diffuse.numpy.small import native
from tests.kinds import is_ours


@pytest.mark.parametrize("n", [10, 100_000])
def test_the_size_of_an_array_counts_its_elements(n: int) -> None:
    x = np.ones(n)
    plain = numpy.arange(float(n))
    assert sys.getsizeof(x) == sys.getsizeof(plain) and sys.getsizeof(x[...]) == sys.getsizeof(plain[...])
    assert sys.getsizeof(x.reshape(1, n).copy()) > sys.getsizeof(x)


def test_functions_for_one_kind_of_arguments_know_all_arrays() -> None:
    @functools.singledispatch
    def told(value: object) -> str:
        return "something"

    told.register(np.ndarray, lambda value: "an array")
    told.register(float, lambda value: "a number")
    for n in 5, 300, 20_000:
        x = np.ones(n)
        found = told(x), told(x + 1), told(x.sum()), told([x])
        assert found == ("an array", "an array", "a number", "something")
    assert told(numpy.ones(5)) == told(numpy.matrix([1])) == "an array" and np.ndarray == numpy.ndarray


@pytest.mark.skipif(native is None, reason="without it the classes have hashes of their own")
@pytest.mark.parametrize("kind", [np.ndarray, numpy.ndarray])
def test_tables_of_types_find_short_and_large_arrays(kind: type) -> None:
    table, weak = {kind: "array", list: "list"}, weakref.WeakKeyDictionary({kind: "array"})
    for array in np.zeros(3), np.zeros(20_000), numpy.zeros(3), np.zeros(20_000)[:2]:
        assert table[type(array)] == weak[type(array)] == "array" and type(array) in {kind}
    assert {type(np.zeros(3)), type(np.zeros(20_000))} == {np.ndarray} and np.float64 not in table
    told = functools.singledispatch(lambda value: "something")
    told.register(kind, lambda value: "array")
    assert told(np.zeros(3)) == told(np.zeros(20_000)) == told(np.ma.array([1])) == "array"
    assert isinstance(np.zeros(20_000), Iterable) and not isinstance(np.zeros(20_000), Sequence)
    assert np.ndarray not in core.NUMBERS and "ndarray" in repr({np.ndarray: 1})


@pytest.mark.parametrize("name", ["device", "size", "ndim", "base", "T", "nbytes"])
def test_what_cannot_be_set_is_refused_as_by_numpy(name: str) -> None:
    with pytest.raises(AttributeError) as theirs:
        setattr(numpy.ones(2), name, 1)
    with pytest.raises(AttributeError) as ours:
        setattr(np.ones(2), name, 1)
    assert str(ours.value) == str(theirs.value).replace("'ndarray'", "'numpy.ndarray'")


def test_another_device_or_a_stream_is_refused_as_by_numpy() -> None:
    x = np.ones(2)
    assert x.to_device("cpu") is x
    with pytest.raises(ValueError, match=r"The stream argument in to_device\(\) is not supported"):
        x.to_device("cpu", stream=1)
    with pytest.raises(ValueError, match="Unsupported device: gpu"):
        x.to_device("gpu")


@pytest.mark.parametrize("shape", [3, 0, (2, 3)])
def test_a_pointer_of_ctypes_holds_the_array(shape: int | tuple[int, int]) -> None:
    x = np.ones(shape)
    alive = weakref.ref(x)
    pointer = x.ctypes.data_as(ctypes.c_void_p)
    del x
    gc.collect()
    assert alive() is not None
    del pointer
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize("name", ["inner", "where", "lexsort", "copyto", "can_cast"])
def test_functions_have_the_signatures_of_numpys(name: str) -> None:
    assert getattr(np, name).__signature__ == inspect.signature(getattr(numpy, name))


@pytest.mark.parametrize("name", ["arange", "fromiter", "promote_types"])
def test_functions_in_c_have_their_signatures_as_text(name: str) -> None:
    assert getattr(np, name).__text_signature__ == getattr(numpy, name).__text_signature__


def test_arrays_in_arrays_of_objects_are_the_programs_own() -> None:
    x, zero = np.ones((2, 2)), np.array(1.0)
    for make in np.array, np.asarray:
        ragged = make([x, [x]], dtype=object)
        assert ragged[0] is x
        assert make([zero, None], dtype=object)[0] is zero
    assert np.array([x, x], dtype=object).shape == (2, 2, 2)


def test_a_list_that_contains_itself_ends() -> None:
    items: list[object] = []
    items.append(items)
    assert np.array(items, dtype=object).ndim == 64


def test_the_base_of_foreign_memory_is_its_owner() -> None:
    data = bytes(16)
    x = np.frombuffer(data)
    assert x.base is data
    assert not x.flags.owndata
    assert np.asarray(numpy.ones(3)).flags.owndata
    assert np.ones(20_000).base is None
    with pytest.raises(ValueError, match="does not own"):
        x.resize(3)


@pytest.mark.parametrize("cut", [slice(None), slice(None, None, 2)])
@pytest.mark.parametrize("turned", [(0, 1, 2), (2, 0, 1)])
def test_buffers_of_pickles_are_the_memory_itself(cut: slice, turned: tuple[int, ...]) -> None:
    x = np.arange(48).reshape(2, 6, 4).transpose(turned)[..., cut]
    together = cut == slice(None)
    buffers: list[pickle.PickleBuffer] = []
    stream = pickle.dumps(x, protocol=5, buffer_callback=buffers.append)
    other = pickle.loads(stream, buffers=buffers)
    assert len(buffers) == together
    x[0, 0, 0] = -1
    assert is_ours(other)
    assert other[0, 0, 0] == (-1 if together else 0)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(x, protocol))
        assert is_ours(again)
        assert (again == x).all()
        again[...] = 7
        assert x[0, 0, 0] == -1


def test_what_cannot_be_deleted_or_resized_is_refused_as_by_numpy() -> None:
    x = np.zeros(3)
    with pytest.raises(ValueError, match="cannot delete array elements"):
        del x[0]
    with pytest.raises(TypeError, match="Cannot delete iterator elements"):
        del x.flat[0]
    with pytest.raises(TypeError):
        x.resize(4, refcheck="hi")
    with pytest.raises(ValueError, match="size exceeded"):
        np.arange(0, np.inf)
    view = np.zeros((10, 0))[...]
    view.resize((0, 10))
    assert view.shape == (0, 10)


def test_names_of_an_array_are_those_of_numpys() -> None:
    assert not [name for name in dir(np.ndarray) if name[0] != "_" and not hasattr(numpy.ndarray, name)]


def test_a_flat_copy_owns_its_elements() -> None:
    for n in 4, 40_000:
        x = np.arange(2 * n).reshape(2, n)
        for flat in x[::-1].ravel("K"), x.ravel("F"), x[:, ::2].flatten():
            assert flat.flags.owndata
        assert (x.ravel("F") == numpy.arange(2 * n).reshape(2, n).ravel("F")).all()
        assert (x[::-1].ravel("K") + 0 == numpy.arange(2 * n).reshape(2, n)[::-1].ravel("K")).all()


def test_copy_may_be_a_mode_of_numpys() -> None:
    modes, x = numpy._CopyMode, np.arange(3)
    for make in np.array, np.asarray:
        assert make(x, copy=modes.IF_NEEDED) is x
        assert make(x, copy=modes.NEVER) is x
        assert make(x, copy=modes.ALWAYS) is not x
        for given in x, [1, 2]:
            with pytest.raises(ValueError, match="strings are not allowed"):
                make(given, copy="always")


@pytest.mark.parametrize("copy", [True, None, False])
def test_the_array_that_an_object_gives_is_taken(copy: bool | None) -> None:
    x = np.arange(3)

    class Like:
        def __array__(self, dtype: object = None, copy: object = None) -> object:
            return x

    assert np.array(Like(), copy=copy) is x
    assert np.array(Like(), copy=copy, ndmin=2).shape == (1, 3)


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "round"])
def test_methods_of_masked_arrays_write_into_ours(name: str) -> None:
    for n in 4, 20_000:
        masked = np.ma.array(np.ones(n) * 1.25, mask=np.arange(n) == 1)
        out = np.empty(n)
        found = getattr(masked, name)(out=out)
        assert found is out
        assert numpy.array_equal(out, numpy.asarray(getattr(masked, name)().filled(out[1])))


def test_an_array_of_strings_without_width() -> None:
    assert np.ndarray(4, dtype=numpy.zeros(1, "S0,i4")["f0"].dtype).itemsize == 0

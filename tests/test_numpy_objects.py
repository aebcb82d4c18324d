"""Arrays as Python objects: their size, signatures, refusals, identity inside other containers."""

from __future__ import annotations

import ctypes
import gc
import inspect
import sys
import weakref

import numpy
import pytest

import diffuse.numpy as np


@pytest.mark.parametrize("n", [10, 100_000])
def test_the_size_of_an_array_counts_its_elements(n: int) -> None:
    x = np.ones(n)
    assert sys.getsizeof(x) > 8 * n
    assert sys.getsizeof(x[...]) < 8 * n + 100
    assert sys.getsizeof(x.reshape(1, n).copy()) > sys.getsizeof(x)


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

"""Faults that NumPy's own tests found with Diffuse in NumPy's place, on arrays of any size."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import diffuse.numpy as np

LARGE = 40_000
BOTH_WAYS = pytest.mark.usefixtures("threshold")


@BOTH_WAYS
@pytest.mark.parametrize(("low", "high"), [(-1, 300), (-1, 50), (100, 1000), (-1, None), (None, 300)])
def test_clip_writes_its_output_where_a_bound_is_beyond_the_type(low: Any, high: Any) -> None:
    given = numpy.arange(LARGE).astype("uint8")
    out: Any = np.ones(LARGE, "uint8")
    assert np.array(given).clip(low, high, out=out) is out
    assert numpy.array_equal(out, given.clip(low, high))


@BOTH_WAYS
@pytest.mark.parametrize("shape, dtype", [(3, "uint8"), (LARGE, "bool")])
@pytest.mark.parametrize(("low", "high"), [(0, None), (-1, None), (None, 255), (None, 300), (1, None)])
def test_clip_names_the_ufunc_that_refuses_the_output(low: Any, high: Any, shape: int, dtype: str) -> None:
    said = []
    for m in (numpy, np):
        with pytest.raises((ValueError, TypeError)) as refused:
            m.clip(m.arange(LARGE).astype("uint8"), low, high, out=m.empty(shape, dtype))
        said.append(str(refused.value))
    assert said[0] == said[1]


@BOTH_WAYS
@pytest.mark.parametrize("number", [1000, -1])
def test_choose_takes_the_low_bits_of_numbers_beyond_the_type(number: int) -> None:
    which, bytes_ = numpy.arange(LARGE) % 2, numpy.arange(LARGE).astype("uint8")
    choices: Any = [number, bytes_]
    found = np.choose(np.array(which), (number, np.array(bytes_)))
    assert found.dtype == "uint8"
    assert numpy.array_equal(found, numpy.choose(which, choices))


@BOTH_WAYS
def test_arrays_made_of_the_same_memory_share_it() -> None:
    x, other = np.arange(LARGE), np.arange(LARGE)
    again = np.array(memoryview(x), copy=False)
    again[0] = 99
    assert x[0] == 99
    assert np.may_share_memory(x, again)
    assert np.shares_memory(x[:10], again[5:20])
    assert not np.shares_memory(x[:10], again[10:])
    assert not np.may_share_memory(x, np.array(memoryview(other), copy=False))


@BOTH_WAYS
@pytest.mark.parametrize("write", [lambda x, v: x.__setitem__(3, v), lambda x, v: x.fill(v)])
def test_a_masked_value_is_asked_for_its_number(write: Callable[[Any, Any], None]) -> None:
    real: Any = np.arange(float(LARGE))
    with pytest.warns(UserWarning, match="masked element to nan"):
        write(real, np.ma.masked)
    assert numpy.isnan(real[3])
    with pytest.raises(np.ma.MaskError):
        write(np.arange(LARGE), np.ma.masked)


@BOTH_WAYS
def test_interfaces_are_equal_where_memory_is() -> None:
    x = np.arange(LARGE)
    same, other = x[:], x.copy()
    assert x.__array_interface__ == same.__array_interface__ == dict(same.__array_interface__)
    assert x.__array_interface__ != other.__array_interface__


def test_classes_of_all_arrays_are_equal() -> None:
    short, long = np.arange(5), np.arange(LARGE)
    for x in (short, long):
        assert type(x) == np.ndarray and not type(x) != np.ndarray  # noqa: E721
        assert type(x) in (list, np.ndarray)
    assert numpy.matrix != np.ndarray != numpy.generic


def test_strides_of_a_short_array_reach_through_the_buffer_that_it_was_made_of() -> None:
    x = np.arange(10)
    part: Any = np.ndarray([4], int, buffer=x, offset=32)
    with pytest.warns(DeprecationWarning):
        part.strides = (-8,)
    assert part.tolist() == [4, 3, 2, 1]


def test_documentation_of_a_ufunc_can_be_set_and_deleted() -> None:
    before = np.add.__doc__
    try:
        np.add.__doc__ = "another"
        assert np.add.__doc__ == np.add.__dict__["__doc__"] == "another"
    finally:
        del np.add.__doc__
    assert np.add.__doc__ == before == numpy.add.__doc__
    assert np.add.__dict__ == numpy.add.__dict__
    assert np.power.__doc__ == numpy.power.__doc__
    assert pickle.loads(pickle.dumps(np.add)) is np.add


def test_properties_have_the_documentation_of_numpy() -> None:
    for name in ("flat", "ctypes", "itemsize", "strides"):
        assert getattr(np.ndarray, name).__doc__ == getattr(numpy.ndarray, name).__doc__


def test_functions_that_only_numpy_has_equal_its_own() -> None:
    assert np.strings.str_len == numpy.strings.str_len
    assert hash(np.strings.str_len) == hash(numpy.strings.str_len)
    assert np.strings.str_len != numpy.strings.isalpha

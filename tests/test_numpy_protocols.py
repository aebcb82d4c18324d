"""Objects of other libraries: `__array__`, `__array_function__`, `__array_interface__` and shared memory."""

from __future__ import annotations

import weakref
from array import array
from typing import Any

import numpy
import pytest

import diffuse.numpy as dnp
from diffuse.numpy import base
from diffuse.numpy.interface import Interface
from tests.test_numpy_same_code import outcome

pytestmark = pytest.mark.usefixtures("threshold")

JOINED = """asarray(q) | asarray(q,dtype='f4') | array(q,dtype=int) | add(x,q) | add(q,q) | sin(q) |
asarray([q,q]) | sum(q) | concatenate([q,q]) | stack([q,x]) | sort(q) | where(x>1,q,0) | isclose(q,x) |
zeros_like(q) | full(3,q) | shape(q) | ndim(q) | size(q) | linspace(0,q,3) | percentile(q,30) |
linalg.norm(q) | asfortranarray(q) | diff(q)"""


class Answering:
    """An object that NumPy converts by its `__array__`."""

    def __init__(self, values: Any) -> None:
        self.values = values
        self.asked: list[tuple[Any, Any]] = []

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        self.asked.append((dtype, copy))
        found = self.values if dtype is None else self.values.astype(dtype)
        return found.copy() if copy else found


@pytest.mark.parametrize("code", [part.strip() for part in JOINED.split("|")])
def test_objects_whose_array_method_gives_diffuse_arrays(code: str) -> None:
    found = []
    for np in (dnp, numpy):
        found.append(outcome("np." + code, np, x=np.arange(3.0), q=Answering(np.arange(3.0) * 2)))
    assert found[0] == found[1] and "Error" not in found[0]


def test_what_an_array_method_gives_is_passed_on() -> None:
    q = Answering(dnp.arange(3.0) * 2)
    assert dnp.asarray(q) is q.values and dnp.array(q, copy=False) is q.values
    assert dnp.array(q) is not q.values
    dnp.asarray(q, dtype="f4")
    assert q.asked[-2:] == [(numpy.dtype("f4"), None)] * 2 and (None, True) in q.asked
    x = dnp.zeros(3)
    x[:] = q
    x += q
    assert x.tolist() == [0.0, 4.0, 8.0]


@pytest.mark.parametrize("count", [5, 20000])
def test_memory_of_other_objects_is_shared(count: int) -> None:
    """What `asarray` shares with an object may change later: what was computed before does not."""
    held = array("d", range(count))
    x = dnp.asarray(held)
    y = x + 1
    held[0] = 9.0
    assert y[0] == 1.0 and x[0] == 9.0
    answering = Answering(numpy.arange(float(count)))
    x = dnp.asarray(answering)
    y = x + 1
    answering.values[0] = 9.0
    assert y[0] == 1.0 and x[0] == 9.0


class Asked:
    """Another library's array, which answers NumPy's functions."""

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return function.__name__, len(args), sorted(kwargs)


ASKING = """concatenate([x,q]) | concatenate([q,x],axis=1) | stack([x,q],0) | vstack([q,q]) |
hstack([x,q]) | dstack([q]) | column_stack([x,q]) | block([[x,q]]) | append(x,q,axis=0) | append(q,1) |
roll(q,1) | tile(q,2) | repeat(q,2) | pad(q,1) | isclose(x,q) | allclose(q,x) | array_equal(x,q) |
diff(q) | gradient(q) | average(q) | trapezoid(q) | outer(x,q) | inner(q,x) | vdot(x,q) | dot(x,q) |
meshgrid(x,q) | zeros_like(q) | full_like(q,3) | copy(q) | array([1],like=q) | zeros(3,like=q) |
ones(3,like=q) | full(3,1,like=q) | eye(3,like=q) | arange(3,like=q)"""


@pytest.mark.parametrize("code", [part.strip() for part in ASKING.split("|")])
def test_other_libraries_arrays_answer_numpys_functions(code: str) -> None:
    name = code.partition("(")[0]
    found = [eval("np." + code, {"np": np, "x": np.arange(3.0), "q": Asked()}) for np in (dnp, numpy)]
    assert found[0][0] == found[1][0] == name


def test_the_interface_dict_is_a_buffer_for_numpy_and_an_address_for_python() -> None:
    x = dnp.arange(20000.0) * 2
    described = x.__array_interface__
    assert type(described) is Interface
    storage = base.storage_of(x)
    alive = weakref.ref(numpy.asarray(x).base)
    del described
    assert alive() is None and not storage.shown()
    address = x.__array_interface__["data"][0]
    assert {**x.__array_interface__}["data"] == dict(x.__array_interface__)["data"] == (address, False)
    assert address == numpy.asarray(x).ctypes.data
    assert storage.shown()  # for good: nobody knows what the address is used for


@pytest.mark.parametrize("value", [numpy.datetime64("2000-01-01"), numpy.ulonglong(2**64 - 1)])
def test_assigned_scalars_follow_rules_of_their_own(value: Any) -> None:
    for shape in ((), (3,)):
        theirs, ours = numpy.zeros(shape, "i8"), dnp.zeros(shape, "i8")
        with pytest.raises((TypeError, OverflowError)) as expected:
            theirs[(0,) * len(shape)] = value
        with pytest.raises(expected.type):
            ours[(0,) * len(shape)] = value


def test_creation_like_an_array_of_a_derived_class() -> None:
    class Mine(numpy.ndarray[Any, Any]):
        def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
            return super().__array_function__(func, types, args, kwargs).view(Mine)

    like = numpy.zeros(2).view(Mine)
    assert type(dnp.zeros(3, like=like)) is Mine and type(dnp.asarray([1], like=like)) is Mine
    assert type(dnp.zeros(3, like=dnp.zeros(1))) is dnp.ndarray


def test_the_namespace_and_the_wrapper_of_an_array() -> None:
    x = dnp.arange(3.0)
    assert x.__array_namespace__(api_version="2023.12") is dnp
    with pytest.raises(ValueError):
        x.__array_namespace__(api_version="1900.01")
    assert type(x.__array_wrap__(numpy.ones(3))) is dnp.ndarray
    assert x.__array_wrap__(dnp.ones(3)).tolist() == [1.0, 1.0, 1.0]


def test_truth_of_arrays_of_derived_classes() -> None:
    class Mine(numpy.ndarray[Any, Any]):
        pass

    x = numpy.eye(3).view(Mine)
    assert dnp.any(x) and not dnp.all(x) and type(dnp.any(x, axis=0)) is Mine
    assert dnp.any([0, 1]) and not dnp.all([0, 1])
    assert dnp.all(numpy.ma.array([1, 0], mask=[False, True]))

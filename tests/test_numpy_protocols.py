"""Objects of other libraries: `__array__`, `__array_function__`, `__array_interface__` and shared memory."""

from __future__ import annotations

import copy
import inspect
import operator
import pickle
import weakref
from array import array
from typing import Any

import numpy
import pytest

import diffuse.numpy as dnp
from diffuse.numpy.arrays import access
from diffuse.numpy.arrays.interface import Interface
from tests.each import for_each
from tests.kinds import is_ours
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


@for_each("code", [part.strip() for part in JOINED.split("|")])
def test_objects_whose_array_method_gives_diffuse_arrays(code: str) -> None:
    found = []
    for np in (dnp, numpy):
        found.append(outcome("np." + code, np, x=np.arange(3.0), q=Answering(np.arange(3.0) * 2)))
    assert found[0] == found[1] and "Error" not in found[0]


def test_what_an_array_method_gives_is_passed_on() -> None:
    q = Answering(dnp.arange(300.0) * 2)
    assert dnp.asarray(q) is q.values and dnp.array(q, copy=False) is q.values
    assert dnp.array(q) is not q.values
    dnp.asarray(q, dtype="f4")
    assert q.asked[-2:] == [(numpy.dtype("f4"), None)] * 2 and (None, True) in q.asked
    x = dnp.zeros(300)
    x[:] = q
    x += q
    assert x[:3].tolist() == [0.0, 4.0, 8.0]


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


@for_each("code", [part.strip() for part in ASKING.split("|")])
def test_other_libraries_arrays_answer_numpys_functions(code: str) -> None:
    name = code.partition("(")[0]
    found = [eval("np." + code, {"np": np, "x": np.arange(3.0), "q": Asked()}) for np in (dnp, numpy)]
    assert found[0][0] == found[1][0] == name


def test_the_interface_dict_is_a_buffer_for_numpy_and_an_address_for_python() -> None:
    x = dnp.arange(20000.0) * 2
    described = x.__array_interface__
    assert type(described) is Interface
    storage = access.storage_of(x)
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
    assert is_ours(dnp.zeros(3, like=dnp.zeros(1)))
    assert type(dnp.require(dnp.arange(300.0), like=like)) is Mine  # whose memory nobody asks its class for


def test_the_namespace_and_the_wrapper_of_an_array() -> None:
    x = dnp.arange(300.0)
    assert x.__array_namespace__(api_version="2023.12") is dnp
    with pytest.raises(ValueError):
        x.__array_namespace__(api_version="1900.01")
    assert is_ours(x.__array_wrap__(numpy.ones(3)))
    assert x.__array_wrap__(dnp.ones(300)).tolist() == [1.0] * 300


def test_truth_of_arrays_of_derived_classes() -> None:
    class Mine(numpy.ndarray[Any, Any]):
        pass

    x = numpy.eye(3).view(Mine)
    assert dnp.any(x) and not dnp.all(x) and type(dnp.any(x, axis=0)) is Mine
    assert dnp.any([0, 1]) and not dnp.all([0, 1])
    assert dnp.all(numpy.ma.array([1, 0], mask=[False, True]))


def in_a_program(code: str) -> dict[str, Any]:
    """What is defined by a module that imports Diffuse's NumPy, and not NumPy itself."""
    names: dict[str, Any] = {"np": dnp, "__name__": __name__}
    exec(code, names)
    return names


OVERRIDING = """
class Other:
    def __array_function__(self, func, types, args, kwargs):
        return func, types, args, kwargs
    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        return ufunc, method, inputs, kwargs

class Mine(np.ndarray):
    def __array_function__(self, func, types, args, kwargs):
        func.__name__, seen.append(func)
        return super().__array_function__(func, types, args, kwargs)
    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        seen.append(ufunc)
        plain = [x.view(np.ndarray) if isinstance(x, Mine) else x for x in inputs]
        return super().__array_ufunc__(ufunc, method, *plain, **kwargs)

class Wrapping(np.ndarray):
    def __array_wrap__(self, array, context=None, return_scalar=False):
        seen.append(context and context[0])
        return super().__array_wrap__(array, context, return_scalar)

class Refusing:
    __array_ufunc__ = None
    def __radd__(self, other):
        return type(other)

seen = []
"""

NAMES = """sum(q) | concatenate([q,q]) | concatenate([np.ones(3),q]) | mean(q) | median(q) | sort(q) |
where(q) | linalg.norm(q) | fft.fft(q) | zeros(3,like=q) | full(3,1,like=q) | asarray(1,like=q) |
asanyarray(1,like=q) | ascontiguousarray(1,like=q) | asfortranarray(1,like=q) | identity(2,like=q) |
fromfunction(abs,(2,),like=q) | fromstring("1",sep=" ",like=q) | require([1],like=q) | tri(2,like=q)"""


@for_each("code", [part.strip() for part in NAMES.split("|")])
@for_each("kind", ["Other", "Mine"])
def test_overrides_are_handed_the_function_that_the_program_called(code: str, kind: str) -> None:
    names = in_a_program(OVERRIDING)
    q = names["Other"]() if kind == "Other" else dnp.arange(3.0).view(names["Mine"])
    names["q"] = q
    called = eval("np." + code.partition("(")[0], names)
    found = eval("np." + code, names)
    if kind == "Mine":
        assert names["seen"] and names["seen"][0] is called
    else:
        assert found[0] is called and names["Other"] in found[1] and "like" not in found[3]


def test_arguments_of_overridden_functions_are_those_of_the_call() -> None:
    names = in_a_program(OVERRIDING)
    q = names["Other"]()
    assert dnp.sum(q)[2:] == ((q,), {})
    assert dnp.sum(q, 1, keepdims=True)[3] == {"axis": 1, "keepdims": True}


CALLS = """add(x,q) | add(q,x) | add(1,q) | multiply(x,x,out=q) | multiply(x,x,q) | sin(q) |
modf(x,out=(None,q)) | matmul(x,q) | add(x,x,where=q) | add.reduce(q) | add.reduce(q,0,None,None,False) |
add.accumulate(q,axis=1) | add.reduceat(q,[0],1) | add.outer(x,q) | add.at(q,[0],1) |
modf(q,None,None) | add(x,q,out=x)"""


@for_each("code", [part.strip() for part in CALLS.split("|")])
def test_overrides_are_handed_the_ufunc_and_the_arrays_of_the_call(code: str) -> None:
    names = in_a_program(OVERRIDING)
    names["q"], names["x"] = names["Other"](), dnp.arange(3.0)
    ufunc, method, inputs, kwargs = eval("np." + code, names)
    call = code.partition("(")[0].split(".")
    assert ufunc is getattr(dnp, call[0]) and method == (call[1] if len(call) > 1 else "__call__")
    real = {**names, "x": numpy.arange(3.0)}
    theirs = eval("np." + code, {**real, "np": numpy})
    assert len(inputs) == len(theirs[2]) and [*map(type, kwargs.values())] == [*map(type, theirs[3].values())]
    arrays = [v for v in (*inputs, *kwargs.get("out", ())) if isinstance(v, (dnp.ndarray, names["Other"]))]
    assert all(v is names["x"] or v is names["q"] for v in arrays)


def test_a_librarys_class_is_handed_numpys_objects() -> None:
    names = in_a_program("import numpy\n" + OVERRIDING)
    q = names["Other"]()
    assert dnp.sum(q)[0] is numpy.sum and dnp.zeros(3, like=q)[0] is numpy.zeros
    ufunc, _, inputs, _ = dnp.add(dnp.ones(3), q)
    assert ufunc is numpy.add and type(inputs[0]) is numpy.ndarray


def test_classes_derived_from_the_array_override_ufuncs() -> None:
    names = in_a_program(OVERRIDING)
    x = dnp.arange(3.0).view(names["Mine"])
    assert dnp.add(x, x).tolist() == [0.0, 2.0, 4.0] and names["seen"] == [dnp.add]
    assert x.max() == 2.0 and names["seen"][-1] is dnp.maximum
    y = dnp.arange(3.0).view(names["Wrapping"])
    assert type(dnp.sin(y)) is names["Wrapping"] and names["seen"][-1] is dnp.sin


def test_operators_leave_the_word_to_refusing_classes() -> None:
    q = in_a_program(OVERRIDING)["Refusing"]()
    x = dnp.ones(300)
    assert x.__add__(q) is NotImplemented and x + q is dnp.ndarray
    other = in_a_program(OVERRIDING)["Other"]()
    square = dnp.ones((20, 20))
    assert square.__array_ufunc__(dnp.add, "__call__", square, other) is NotImplemented
    square @= other
    assert square[0] is dnp.matmul and square[3]["out"][0].shape == (20, 20)


def test_the_method_of_the_array_runs_any_function() -> None:
    x = dnp.array([1, 2] * 100)
    found = x.__array_function__(func=lambda v: v * 2, types=(dnp.ndarray,), args=(x,), kwargs={})
    assert found.tolist() == [2, 4] * 100
    with pytest.raises(TypeError, match="args must be a tuple"):
        x.__array_function__(dnp.reshape, (dnp.ndarray,), x, {})
    with pytest.raises(TypeError, match="kwargs must be a dict"):
        x.__array_function__(dnp.reshape, (dnp.ndarray,), (x,), (2, 1))
    with pytest.raises(TypeError, match="ufunc"):
        x.__array_ufunc__(1, 2)


def test_outputs_of_ufuncs_with_several() -> None:
    for np in (dnp, numpy):
        with pytest.raises(TypeError, match="'out' must be a tuple of arrays"):
            np.modf(np.ones(2), out=np.ones(2))
        with pytest.raises(TypeError, match="'out' must be a tuple of arrays"):
            np.modf(1.5, out=None)


def test_ufuncs_are_found_in_tables_of_numpys() -> None:
    assert dnp.add == numpy.add and numpy.add == dnp.add and dnp.add != numpy.subtract and dnp.add != dnp.sin
    assert {numpy.add: 1}[dnp.add] == {dnp.add: 1}[numpy.add] == 1
    assert dnp.bitwise_count in [numpy.sin, numpy.bitwise_count] and dnp.add != "add"


def test_ufuncs_are_instances_of_numpys_class() -> None:
    assert isinstance(dnp.add, dnp.ufunc) and isinstance(dnp.add, numpy.ufunc)
    assert pickle.loads(pickle.dumps(dnp.add)) is dnp.add and copy.copy(dnp.add) is dnp.add


def test_ufuncs_have_signatures_and_give_arrays_where_asked() -> None:
    assert inspect.signature(dnp.add) == inspect.signature(numpy.add)
    for np in (dnp, numpy):
        found = np.add(1, 2, out=...)
        assert isinstance(found, np.ndarray) and found.shape == () and found == 3
        assert np.add(np.ones(3), 1, out=...).tolist() == [2.0] * 3
        with pytest.raises(AttributeError):
            np.add.missing


@for_each("number", [numpy.float64(1.5), numpy.float32(0.75), numpy.int64(3)])
@for_each("op", [operator.add, operator.sub, operator.mul, operator.truediv])
def test_numbers_of_numpys_on_the_left_of_arrays_and_of_other_things(op: Any, number: Any) -> None:
    """The extension takes the operators of these numbers before NumPy does."""
    for dtype in (numpy.float32, numpy.float64, numpy.int16, numpy.complex64):
        for size in (3, 300, 40_000):
            plain = numpy.arange(1, size + 1).astype(dtype)
            expected, found = op(number, plain), op(number, dnp.array(plain) + dtype(0))
            assert type(found) is type(dnp.array(plain) + dtype(0))
            assert found.dtype == expected.dtype and numpy.asarray(found).tobytes() == expected.tobytes()

    class Number(numpy.float64):
        """Inherits the operators."""

    ours = dnp.arange(300.0) + 1.0
    assert numpy.array_equal(op(Number(2.0), ours), op(2.0, numpy.arange(300.0) + 1.0))
    function = {"add": numpy.add, "sub": numpy.subtract, "mul": numpy.multiply}.get(op.__name__, numpy.divide)
    for other in (2, 2.5, True, number, numpy.ones(2), numpy.ma.ones(2)):
        assert numpy.array_equal(op(number, other), function(number, other))
    for left, right in ((number, None), (None, number)):
        with pytest.raises(TypeError):
            op(left, right)


@pytest.mark.usefixtures("threshold")
def test_an_object_that_answers_with_an_array_wraps_the_result_of_a_ufunc() -> None:
    class Holder:
        __array_priority__ = 3

        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return dnp.arange(40_000)

        def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
            return "wrapped", context[0].__name__, int(array[3])

    assert dnp.negative(Holder()) == ("wrapped", "negative", -3)
    assert dnp.add(dnp.arange(40_000), Holder()) == ("wrapped", "add", 6)


@for_each("priority", ["high", None, "method"])
def test_a_priority_that_is_no_number_is_passed_over(priority: Any) -> None:
    class Holder:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return numpy.arange(300.0)

        def __radd__(self, other: Any) -> str:
            return "theirs"

    Holder.__array_priority__ = Holder.__radd__ if priority == "method" else priority  # type: ignore[attr-defined]
    wanted = numpy.arange(300.0) + Holder()
    assert numpy.array_equal(numpy.asarray(dnp.arange(300.0) + Holder()), wanted)


@for_each("code", ["m.swapaxes(0)", "m.diagonal(0, offset=1)", "m.tolist(1)", "m.compress(1, 2, 3, 4, 5)",
                   "m.clip(1, 2, 3, 4, 5)", "np.array(m, 'f4', dtype='f4')", "np.zeros()", "np.roll(m)",
                   "np.sort(m, wrong=1)"])
def test_arguments_that_do_not_fit_have_numpys_words(code: str) -> None:
    said = []
    for library in dnp, numpy:
        with pytest.raises(TypeError) as raised:
            eval(code, {"np": library, "m": library.ones((20, 16))})
        said.append(str(raised.value))
    assert said[0] == said[1]


class Recording:
    """An object that handles ufuncs by telling what it was called with."""

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **options: Any) -> Any:
        given = {name: getattr(value, "dtype", value) for name, value in options.items() if name != "out"}
        return function.__name__, method, len(inputs), {**given, "where": "where" in options}


@pytest.mark.parametrize("call", [
    lambda np, x, q: np.add.reduce(x, where=q), lambda np, x, q: np.add.reduce(x, out=q),
    lambda np, x, q: np.maximum.reduce(x, 0, None, q), lambda np, x, q: np.add.accumulate(x, out=q),
    lambda np, x, q: np.add.reduce(q, keepdims=True),
], ids="where out position accumulate operand".split())
def test_methods_of_ufuncs_pass_on_the_arguments_that_were_given(call: Any) -> None:
    other = Recording()
    found = call(dnp, dnp.arange(3000.0), other)
    assert found == call(numpy, numpy.arange(3000.0), other) and found[0] in ("add", "maximum")

"""Arrays of other libraries (sparse, masked, `numpy.matrix`) beside ours: who answers, and with what."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import scipy.sparse

import diffuse.numpy as np
import diffuse.scipy.sparse as sp
from diffuse.numpy.small import native
from diffuse.settings import using
from tests.each import for_each
from tests.kinds import is_ours

VALUES = [[1.0, 2.0], [0.0, 4.0]]
OPERATORS = ["add", "sub", "mul", "truediv", "matmul", "eq", "ne", "lt", "ge"]


def masked() -> Any:
    return numpy.ma.masked_array(numpy.array(VALUES), numpy.array([[False, True], [False, False]]))


def same(found: Any, expected: Any) -> None:
    """The same kind of array, type and elements, masks and all."""
    if scipy.sparse.issparse(expected):
        assert (found.format, found.dtype) == (expected.format, expected.dtype)
        assert isinstance(found, scipy.sparse.sparray) == isinstance(expected, scipy.sparse.sparray)
        assert found.toarray().tolist() == expected.toarray().tolist()
        return
    if isinstance(expected, numpy.ndarray) and type(expected) is not numpy.ndarray:
        assert type(found) is type(expected)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    assert found.tolist() == expected.tolist()


@for_each("name", ["csr_array", "csr_matrix", "csc_array", "coo_matrix", "lil_array"])
@for_each("function, args", [
    ("transpose", ()), ("real", ()), ("imag", ()), ("reshape", ((1, 4),)), ("flip", ()), ("squeeze", ()),
    ("swapaxes", (0, 1)), ("moveaxis", (0, 1)), ("ravel", ()), ("round", (0,))])
def test_functions_ask_a_sparse_array(name: str, function: str, args: Any) -> None:
    ours, real = getattr(sp, name)(np.array(VALUES)), getattr(scipy.sparse, name)(numpy.array(VALUES))
    try:
        expected = getattr(numpy, function)(real, *args)
    except Exception as error:
        with pytest.raises(type(error)):
            getattr(np, function)(ours, *args)
        return
    found = getattr(np, function)(ours, *args)
    if scipy.sparse.issparse(expected):
        assert type(found).__module__ == "diffuse.scipy.sparse"
        same(found, expected)


@for_each("make", [lambda: numpy.matrix(VALUES), masked])
@for_each("function, args", [
    ("transpose", ()), ("real", ()), ("imag", ()), ("ravel", ()), ("reshape", ((1, 4),)), ("squeeze", ()),
    ("swapaxes", (0, 1)), ("flip", ()), ("atleast_2d", ()), ("expand_dims", (0,)), ("round", ()), ("fix", ()),
    ("clip", (0, 1)), ("astype", (numpy.float32,)), ("trace", ()), ("nansum", ()), ("nanprod", ()),
    ("tril", ()), ("triu", (1,))])
def test_functions_keep_numpys_subclasses(make: Any, function: str, args: Any) -> None:
    same(getattr(np, function)(make(), *args), getattr(numpy, function)(make(), *args))


def test_a_number_has_a_real_part_that_is_a_number() -> None:
    for value in (3.5, 2 + 1j, 7, numpy.float32(1.5), True):
        for name in ("real", "imag"):
            found, expected = getattr(np, name)(value), getattr(numpy, name)(value)
            assert type(found) is type(expected) and found == expected
    assert is_ours(np.real([1.0, 2.0]))


@for_each("symbol", OPERATORS)
@for_each("make", [
    lambda: scipy.sparse.csr_array(numpy.array(VALUES)), lambda: scipy.sparse.csc_matrix(numpy.array(VALUES)),
    lambda: numpy.matrix(VALUES), masked])
@for_each("left", [True, False])
def test_operators_leave_the_last_word_to_whom_numpy_does(symbol: str, make: Any, left: bool) -> None:
    """SciPy's own matrices know NumPy's arrays only; an array times a matrix is a product of matrices."""
    function = getattr(operator, symbol)
    ours, real = np.array([[1.0, 2.0], [3.0, 4.0]]), numpy.array([[1.0, 2.0], [3.0, 4.0]])
    try:
        expected = function(real, make()) if left else function(make(), real)
    except TypeError:  # a division by a sparse one
        with pytest.raises(TypeError, match="unsupported operand"):
            function(ours, make()) if left else function(make(), ours)
        return
    found = function(ours, make()) if left else function(make(), ours)
    assert type(expected) is numpy.ndarray or type(found) is type(expected)
    same(found, expected)


def test_operators_see_what_was_recorded() -> None:
    a = np.ones((300, 300))
    a += 1.0
    held = scipy.sparse.eye_array(300, format="csr")
    assert (a - held)[0, 0] == 1.0 and (held + a)[0, 1] == 2.0
    assert (a.sum() * held)[0, 0] == 2.0 * 90000
    assert ((2 * a) * numpy.matrix(numpy.ones((300, 1))))[0, 0] == 1200.0


def test_an_array_without_dimensions_is_a_scalar_to_scipys_matrices() -> None:
    for value in (np.array(2.0), np.ones(5000).sum() / 2500):
        found = value * scipy.sparse.csr_matrix(numpy.array(VALUES))
        same(found, 2.0 * scipy.sparse.csr_matrix(numpy.array(VALUES)))


def test_in_place_an_array_stays_an_array() -> None:
    a = np.array([[1.0, 2.0], [3.0, 4.0]])
    before = a
    a *= numpy.matrix(VALUES)
    assert a is before and a.tolist() == [[1.0, 4.0], [0.0, 16.0]]


class Answering:
    """A class of the program that NumPy lets answer, and that knows our arrays."""

    __array_ufunc__ = None

    def __radd__(self, other: Any) -> Any:
        return "radd", type(other)

    def __add__(self, other: Any) -> Any:
        return "add", type(other)

    def __gt__(self, other: Any) -> Any:
        return "gt", type(other)


def refused(apply: Callable[[Any, Any], Any], other: Any, n: int) -> list[str]:
    """What ours and NumPy say when they refuse an operator on an array and this operand."""
    told = []
    for a in np.ones(n), numpy.ones(n):
        with pytest.raises(TypeError) as error:
            apply(a, other)
        told.append(str(error.value))
    return told


@pytest.mark.parametrize("n", [5, 300, 20000])
def test_an_operator_in_place_is_not_left_to_who_has_no_ufuncs(n: int) -> None:
    for apply in operator.iadd, operator.imatmul, operator.ipow, operator.iand:
        ours, theirs = refused(apply, Answering(), n)
        assert ours == theirs and "does not support ufuncs" in ours


@pytest.mark.skipif(native is None, reason="Python classes have no operation of their own to concatenate")
@pytest.mark.parametrize("n", [5, 300, 20000])
def test_arrays_are_not_concatenated_as_sequences_are(n: int) -> None:
    class Mute:
        __array_ufunc__ = None

    for name in "concat", "iconcat", "add", "iadd", "mul":
        for other in [Mute(), [1.0]][:2 if "concat" in name else 1]:
            ours, theirs = refused(getattr(operator, name), other, n)
            assert ours == theirs


def test_who_knows_our_arrays_gets_them() -> None:
    a = np.ones(300)
    assert a + Answering() == ("radd", np.ndarray)
    assert Answering() + a == ("add", np.ndarray)
    assert (a < Answering()) == ("gt", np.ndarray)
    with pytest.raises(TypeError, match="unsupported operand"):
        a - Answering()
    with pytest.raises(TypeError, match="unsupported operand"):
        a ** Answering()
    assert (a == Answering()) is False


@for_each("make", [lambda: numpy.matrix(VALUES), masked])
@for_each("function, args", [
    ("sum", ()), ("sum", (0,)), ("prod", ()), ("max", (1,)), ("min", ()), ("mean", ()), ("var", ()),
    ("std", (0,)), ("argmax", ()), ("argmax", (1,)), ("argmin", (0,)), ("cumsum", ()), ("cumprod", (0,)),
    ("ptp", ()), ("average", ()), ("isreal", ()), ("iscomplex", ()), ("asanyarray", ()), ("repeat", (2,)),
    ("zeros_like", ()), ("dot", (numpy.array(VALUES),)), ("inner", (numpy.array(VALUES),)),
    ("outer", (numpy.array(VALUES),)), ("diff", ()), ("roll", (1,))])
def test_reductions_see_masks_and_give_matrices(make: Any, function: str, args: Any) -> None:
    """The sum of a masked array leaves out what is masked: NumPy's function asks the array."""
    same(getattr(np, function)(make(), *args), getattr(numpy, function)(make(), *args))


@pytest.mark.parametrize("function", ["argmax", "argmin", "sum", "mean", "max"])
def test_reductions_ask_a_sparse_array(function: str) -> None:
    ours, real = sp.csr_array(np.array(VALUES)), scipy.sparse.csr_array(numpy.array(VALUES))
    options: dict[str, Any]
    for options in ({}, {"axis": 0}):
        found, expected = getattr(np, function)(ours, **options), getattr(numpy, function)(real, **options)
        found, expected = (v.toarray() if scipy.sparse.issparse(v) else v for v in (found, expected))
        assert numpy.asarray(found).tolist() == numpy.asarray(expected).tolist()


@pytest.mark.parametrize("method", ["reduce", "accumulate", "outer"])
def test_methods_of_ufuncs_take_masked_arrays(method: str) -> None:
    args = (masked(), masked()) if method == "outer" else (masked(),)
    same(getattr(np.add, method)(*args), getattr(numpy.add, method)(*args))


class Keeping:
    """Answers NumPy's functions and ufuncs with an array that it keeps."""

    def __init__(self, size: int) -> None:
        self.kept = numpy.arange(size) * 1.0

    def __array_ufunc__(self, *args: Any, **kwargs: Any) -> Any:
        return self.kept

    def __array_function__(self, *args: Any, **kwargs: Any) -> Any:
        return [self.kept]


@pytest.mark.local_only("NumPy's views of the memory are copies there")
@pytest.mark.parametrize("call", [lambda x, other: x + other, lambda x, other: np.sort(other)[0]])
def test_an_array_that_a_class_answers_with_and_keeps_is_not_taken_over(call: Any) -> None:
    size = 2_000_000  # what is computed with so many elements is recorded
    other = Keeping(size)
    found = call(np.ones(size), other)
    before = found + 1
    other.kept[:] = -5.0
    after = found + 1
    found[3] = 7.0
    assert (before[5], after[5], other.kept[3]) == (6.0, -4.0, 7.0)


class Wrapped:
    """Answers ufuncs with its own class, as `pandas.Series` does: other operands become NumPy's arrays."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.values

    def __array_ufunc__(self, function: Any, method: str, *args: Any, **options: Any) -> Any:
        assert all(isinstance(x, Wrapped) or x.kind == "given" for x in args)
        return Wrapped(function(*[x.values if isinstance(x, Wrapped) else numpy.asarray(x) for x in args]))


class Given:
    """Converts to an array of the program's."""

    kind = "given"

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.arange(3)


def test_a_class_that_answers_ufuncs_answers_beside_an_object_with_an_array_of_ours() -> None:
    with using(small=0):
        assert is_ours(Given().__array__())
        for found in (np.add(Wrapped(numpy.ones(3)), Given()), np.add(Given(), Wrapped(numpy.ones(3)))):
            assert type(found) is Wrapped
            numpy.testing.assert_array_equal(found.values, [1, 2, 3])


class Recorded(numpy.ndarray[Any, Any]):
    """A class derived from NumPy's array."""


@for_each("name", ["mean", "var", "std", "sum", "prod", "any"])
@for_each("options", [{"axis": 0}, {"axis": ()}, {"axis": 0, "keepdims": True}, {"axis": (0,)},
                      {"axis": 1, "where": numpy.arange(300) % 3 > 0}])
@for_each("kind", [numpy.ndarray, Recorded])
@for_each("dtype", [">f8", ">c16", "i8", "f2"])
def test_methods_of_numpys_arrays_write_their_results_into_ours(
        name: str, options: Any, kind: Any, dtype: str, threshold: None) -> None:
    values = (numpy.arange(90_000).reshape(300, 300) % 11 - 4).astype(dtype).view(kind)
    expected = numpy.asarray(getattr(values, name)(**options))
    target = np.ones(expected.shape, expected.dtype.newbyteorder("=")) * np.array(3).astype(expected.dtype)
    found = getattr(values, name)(out=target, **options)
    assert found is target and type(target) is np.ndarray
    numpy.testing.assert_allclose(numpy.asarray(target), expected, rtol=2e-3 if dtype == "f2" else 1e-12)


def test_a_library_without_numpy_knows_our_arrays_and_numbers_by_the_module_of_a_base() -> None:
    # SymPy leaves `symbol * array` to such arrays, and takes what else has a `__float__` for a number
    with using(small=0):
        for x in (np.arange(3), np.arange(3).sum(), np.ones(1)):
            assert any(kind.__module__ == "numpy" for kind in type(x).__mro__)


@pytest.mark.parametrize("kind", ["q", "Q", "l", "L"])
def test_integers_of_c_keep_their_names(kind: str) -> None:
    """NumPy has two types of eight bytes, of which only one has kernels."""
    for plain in (numpy.array(2, kind), numpy.arange(300, dtype=kind), numpy.arange(20_000, dtype=kind)):
        for made in (np.asarray(plain), np.array(plain), np.array(plain[()])):
            assert made.dtype.char == kind

"""`out=`, `dtype=`, `where=` and `initial=` of reductions: what is converted when, and to what."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import numpy
import pytest

import diffuse.numpy
from diffuse import settings
from diffuse.stream import engine
from tests.each import for_each
from tests.outcomes import warned

pytestmark = pytest.mark.usefixtures("threshold")

VALUES = numpy.linspace(-2.7, 3.9, 40).reshape(5, 8)
MASK = numpy.arange(40).reshape(5, 8) % 3 > 0


def both(name: str, values: Any, *arguments: Any, out: Any = None, **options: Any) -> None:
    """One call of NumPy's function and of ours; the outputs are the results, and alike."""
    results = []
    for np in (numpy, diffuse.numpy):
        target = None if out is None else np.array(out)
        given = {key: np.array(value) if isinstance(value, numpy.ndarray) else value
                 for key, value in options.items()}
        found = attrgetter(name)(np)(np.array(values), *arguments, out=target, **given)
        assert target is None or found is target
        results.append(numpy.array(found))
    plain, ours = results
    assert (ours.dtype, ours.shape) == (plain.dtype, plain.shape)
    numpy.testing.assert_allclose(ours, plain, rtol=1e-6)


@for_each("name", ["sum", "prod", "nansum", "nanprod", "max", "add.reduce", "mean", "cumsum"])
@for_each("dtype", ["int64", "int32", "float32", "complex128", "bool", "uint8"])
def test_an_output_of_another_type_receives_what_numpy_puts_there(name: str, dtype: str) -> None:
    shape = (5, 8) if name == "cumsum" else (5,)
    both(name, VALUES, 1, out=numpy.zeros(shape, dtype))
    if not name.startswith(("nan", "cum", "mean")):
        both(name, VALUES, 1, out=numpy.zeros(5, dtype), where=MASK, initial=1)
    both(name, VALUES[0], 0, out=numpy.zeros(shape[1:], dtype))


def test_a_trace_with_an_output() -> None:
    both("trace", VALUES, out=numpy.zeros((), int))
    both("trace", VALUES, dtype="f4", out=numpy.zeros((), "f8"))


def test_elements_are_added_in_the_type_that_array_and_output_share() -> None:
    both("sum", numpy.full(1000, 0.1, "f4"), out=numpy.zeros((), "f8"))
    both("sum", numpy.full((10, 3), 100, "i1"), 0, out=numpy.zeros(3, "i1"))
    both("min", VALUES * 100, 0, out=numpy.zeros(8, "i1"))
    both("minimum.reduce", numpy.arange(40) * 100, dtype="i1", out=numpy.zeros((), int))


@pytest.mark.parametrize("name", ["sum", "prod", "nansum", "nanprod"])
def test_the_initial_value_counts_once_and_masked_elements_do_not(name: str) -> None:
    values = numpy.array([[1.0, 2.0], [3.0, 4.0]])
    both(name, values, 0, initial=5.0, where=numpy.array([True, False]))
    both(name, values, 0, initial=5.0, where=numpy.array([[True, False], [True, True]]), dtype="i4")
    both(name, values, 0, initial=5.0, where=numpy.array([True, False]), out=numpy.zeros(2, "f4"))


@pytest.mark.parametrize("name", ["min", "max"])
def test_extremes_of_what_the_mask_leaves(name: str) -> None:
    both(name, VALUES, 1, initial=1, where=MASK)
    both(name, VALUES, initial=-1.5, where=MASK[:, :1])


@pytest.mark.parametrize("initial", [[3], [1] * 8, numpy.array([3.0]), "a", 1j])
def test_an_initial_value_is_one_number(initial: Any) -> None:
    for values in (VALUES, VALUES.astype(int)):
        with pytest.raises((ValueError, TypeError)) as plain:
            values.sum(axis=0, initial=initial)
        with pytest.raises(plain.type):
            diffuse.numpy.array(values).sum(axis=0, initial=initial)


def test_a_mask_has_no_more_dimensions_than_the_array() -> None:
    for np in (numpy, diffuse.numpy):
        with pytest.raises(ValueError):
            np.sum(np.array(VALUES), axis=0, where=np.ones((2, 5, 8), bool))


def test_outputs_that_do_not_do() -> None:
    x = diffuse.numpy.array(VALUES)
    with pytest.raises(TypeError, match="Cannot cast ufunc 'sqrt' output"):
        diffuse.numpy.std(x, axis=0, out=diffuse.numpy.zeros(8, int))
    with pytest.raises(TypeError, match="Cannot cast ufunc 'subtract' output"):
        diffuse.numpy.ptp(x, axis=0, out=diffuse.numpy.zeros(8, int))
    with pytest.raises(TypeError, match="Cannot cast"):
        diffuse.numpy.argmax(x, axis=0, out=diffuse.numpy.zeros(8))
    with pytest.raises(ValueError, match="wrong size"):
        diffuse.numpy.cumsum(x[0], axis=0, out=diffuse.numpy.zeros(()))
    locked = diffuse.numpy.zeros(8)
    locked.flags.writeable = False
    with pytest.raises(ValueError, match="output array is read-only"):
        x.sum(axis=0, out=locked)


def test_methods_of_ufuncs_take_a_tuple_of_one_output() -> None:
    x = diffuse.numpy.array(VALUES)
    for name, shape in (("reduce", 8), ("accumulate", (5, 8)), ("reduceat", (1, 8))):
        out = diffuse.numpy.zeros(shape)
        arguments = ([0],) if name == "reduceat" else ()
        assert getattr(diffuse.numpy.add, name)(x, *arguments, out=(out,)) is out
        assert out[-1, -1] if name != "reduce" else out[-1] == VALUES[:, -1].sum()
        with pytest.raises(ValueError, match="exactly one entry"):
            getattr(diffuse.numpy.add, name)(x, *arguments, out=(out, out))
    with pytest.raises(TypeError, match="ArrayType"):
        diffuse.numpy.sum(x, axis=0, out=(diffuse.numpy.zeros(8),))


@for_each("name", ["mean", "var", "std"])
@for_each("dtype", ["complex128", "float32", "float16", "int64"])
def test_moments_in_a_type_that_was_asked_for(name: str, dtype: str) -> None:
    both(name, VALUES, dtype=dtype)
    both(name, VALUES, None if dtype == "int64" else 0, dtype=dtype)
    both(name, numpy.arange(40), dtype=dtype)
    if dtype == "complex128":
        both(name, VALUES + 1j * VALUES[::-1], 0, dtype=dtype)


def test_a_mean_in_half_precision_divides_by_the_number_of_elements() -> None:
    values = numpy.full(70000, 5e-3)
    assert diffuse.numpy.mean(diffuse.numpy.array(values), dtype="f2") == numpy.mean(values, dtype="f2")


def test_any_and_all_of_objects_are_truth_values() -> None:
    assert diffuse.numpy.any([1, None]).dtype == bool and diffuse.numpy.all([1, None]).dtype == bool


def test_averages_over_axes_given_as_a_list() -> None:
    x = diffuse.numpy.array(VALUES)
    assert numpy.allclose(diffuse.numpy.average(x, axis=[0]), VALUES.mean(axis=0))
    weights = numpy.arange(1, 9.0)
    expected = numpy.average(VALUES, axis=(1,), weights=weights)
    assert numpy.allclose(diffuse.numpy.average(x, axis=(1,), weights=weights), expected)
    with pytest.raises(TypeError):
        x.sum(axis=[0])


def test_arrays_without_elements() -> None:
    np = diffuse.numpy
    for shape in ((0, 3), (3, 0), (0, 0)):
        assert np.triu(np.zeros(shape)).shape == np.tril(np.zeros(shape)).shape == shape
    assert np.dot(np.zeros(0), np.zeros(0)) == np.dot(np.zeros(3)[:0], np.zeros(3)[:0]) == 0
    assert np.vdot(np.zeros(0), np.zeros(0)) == np.inner(np.zeros(0), np.zeros(0)) == 0
    assert numpy.array_equal(np.dot(np.zeros((2, 0)), np.zeros((0, 2))), numpy.zeros((2, 2)))
    assert np.dot(np.zeros((0, 3)), np.zeros((3, 2))).shape == (0, 2)
    x = np.arange(6.0) + 1  # pending
    assert np.dot(x[:0], x[:0]) == x[:0].sum() == 0 and np.where(x[:0] > 1, x[:0], 0).shape == (0,)


@pytest.mark.not_device("no floating-point flags are kept")
@pytest.mark.parametrize("compile", ["off", "wait"])
def test_sums_that_overflow_warn_once(compile: str) -> None:
    for shape, axis in (((5000, 2), 0), ((2, 5000), 1), ((9000,), None)):
        with settings.using(compile=compile, min_chunk=500), warned() as caught:
            x = diffuse.numpy.array(numpy.full(shape, 100, "f2"))
            found = x.sum(axis=axis)
            engine.fence()
        assert numpy.isinf(numpy.asarray(found)).all()
        assert [str(w.message).partition(" encountered")[0] for w in caught] == ["overflow"]


def test_a_total_of_elements_that_lie_across_those_of_the_store() -> None:
    values = numpy.arange(1000).astype("i1") % 3
    x = diffuse.numpy.array(values) + numpy.int8(1)
    ours, plain = (a[2:802].view("i4").reshape(20, 10)[:, ::2] for a in (x, values + numpy.int8(1)))
    assert ours.sum() == plain.sum() and (ours.sum(axis=0) == plain.sum(axis=0)).all()


@for_each("keepdims", [numpy.True_, numpy.float64(1), numpy.array(True), numpy.int8(1), 1, 2,
                       True])
@for_each("name", ["sum", "mean", "var", "std"])
def test_moments_take_what_numpy_takes_for_keepdims(name: str, keepdims: Any) -> None:
    told = []
    for library in (numpy, diffuse.numpy):
        with settings.using(small=0):
            try:
                told.append(str(getattr(library, name)(library.ones((2, 3)), keepdims=keepdims)))
            except TypeError as error:
                told.append(str(error))
    assert told[0] == told[1]

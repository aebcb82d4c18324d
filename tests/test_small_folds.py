"""Sums and products of small arrays, compiled: the bits and the warnings of the interpreted tree."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse import settings
from diffuse.kernels.build import small_folds
from diffuse.kernels.build.compiler import compiler
from diffuse.kernels.meaning import reduce
from tests.around import around
from tests.each import for_each
from tests.outcomes import warned

SHAPES: list[tuple[int, ...]] = [(33,), (100,), (1025,), (5000,), (64, 64), (3, 700), (700, 3), (1, 40),
                                 (40, 1), (5, 6, 7), (2, 3, 300), (300, 2, 3)]


compiled = around(settings.using, compile="wait")
"""At the first call."""


def cases() -> Iterator[tuple[str, str, tuple[int, ...], tuple[int, ...]]]:
    for operator in ("sum", "prod"):
        for char, shape in itertools.product(small_folds.TYPES[operator], SHAPES):
            for count in range(1, len(shape) + 1):
                for axes in itertools.combinations(range(len(shape)), count):
                    yield operator, char, shape, axes


def numbers(char: str, shape: tuple[int, ...]) -> Any:
    rng = numpy.random.default_rng(len(shape) + shape[0])
    found = rng.normal(size=shape) * 10.0 ** rng.integers(-2, 3, size=shape)
    return (found + 1j * found[::-1] if char in "FD" else found).astype(char)


@for_each("operator, char, shape, axes", list(cases()))
def test_compiled_folds_have_the_bits_of_the_tree(operator: str, char: str, shape: tuple[int, ...],
                                                  axes: tuple[int, ...]) -> None:
    array = numbers(char, shape)
    array = numpy.sign(array) + array / 1e4 if operator == "prod" else array
    turned = numpy.asfortranarray(array)
    wanted = reduce.reduce(operator, array, axes)
    wide = numpy.repeat(array, 2, axis=0)
    for given in (array, turned, numpy.repeat(array, 2, axis=-1)[..., ::2], wide[::2], wide[::2][::-1][::-1]):
        found = small_folds.fold(operator, axes, given)
        assert found is not None
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        assert found.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("values", [
    (1e308, 1e308), (numpy.inf, -numpy.inf), (numpy.nan, 1.0), (numpy.inf, 1.0),
])
def test_warnings_are_numpys(values: tuple[float, float], axis: int | None) -> None:
    array = numpy.ones((40, 50))
    array[3, 4], array[3, 5] = values
    array[4, 4] = values[1]
    said: list[list[str]] = []
    for module in (numpy, np):
        given = module.array(array)
        with warned() as caught:
            found = given.sum(axis=axis)
        said.append([str(w.message) for w in caught])
    assert said[0] == said[1]
    with numpy.errstate(all="ignore"):
        numpy.testing.assert_allclose(numpy.asarray(found), array.sum(axis=axis))


@pytest.mark.parametrize("operator", ["dot", "spread"])
@pytest.mark.parametrize("char", "fd")
@pytest.mark.parametrize("shape", [(1,), (33,), (40_000,), (70, 90), (3, 5, 300)])
def test_compiled_folds_of_two_have_the_bits_of_the_tree(operator: str, char: str, shape: tuple[int, ...]
                                                         ) -> None:
    one, other = numbers(char, shape), numbers(char, (*shape[:-1], shape[-1] + 1))[..., 1:]
    pairs = [(one, other), (one[..., ::-1], other), (one.T, other.T),
             *[(one, numpy.broadcast_to(one.mean(axis, keepdims=True), shape)) for axis in (None, 0, -1)]]
    for a, b in pairs:
        terms = a * b if operator == "dot" else (a - b) * (a - b)
        for axes in {tuple(range(len(shape))), (0,), (len(shape) - 1,)}:
            found, wanted = small_folds.fold(operator, axes, a, b), reduce.reduce("sum", terms, axes)
            assert found is not None and (found.dtype, found.tobytes()) == (wanted.dtype, wanted.tobytes())
            assert small_folds.of_two(operator, a, b, axes).tobytes() == wanted.tobytes()


def test_elements_that_are_not_aligned_are_copied() -> None:
    packed = numpy.empty(100, [("a", "u1"), ("b", "f8")])
    packed["b"] = numbers("d", (100,))
    assert not packed["b"].flags.aligned
    assert small_folds.fold("sum", (0,), packed["b"]) == reduce.reduce("sum", packed["b"].copy(), (0,))


def test_the_tree_is_interpreted_while_a_reduction_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_folds, "_folds", {})
    monkeypatch.setattr(small_folds, "_laid_out", {})
    compiler.forget()
    array = numbers("d", (50,))
    with settings.using(compile="off"):
        assert small_folds.fold("sum", (0,), array) is None
        assert small_folds.reduce("sum", array, (0,), "float64").shape == ()
        assert small_folds.of_two("dot", array, array, (0,)) == reduce.reduce("sum", array * array, (0,))
    with settings.using(compile="background"):
        first = small_folds.fold("sum", (0,), array)  # of the cache, if the code is there
        compiler.wait()
        assert first is None or first == small_folds.fold("sum", (0,), array)
        assert small_folds.fold("sum", (0,), array) == small_folds.reduce("sum", array, (0,), "float64")


@pytest.mark.parametrize("char", "fd")
@pytest.mark.parametrize("shape", [(50_000,), (200, 300), (3000, 10), (3000, 7), (20, 30, 40),
                                   (8, 9, 10, 40)])
def test_sums_along_an_axis_of_arrays_at_hand_have_the_bits_of_the_tree(char: str, shape: tuple[int, ...]
                                                                        ) -> None:
    array = numbers(char, shape)
    given = np.array(array)
    for axis in range(-len(shape), len(shape)):
        total = reduce.reduce("sum", array, (axis % len(shape),))
        mean = total / total.dtype.type(shape[axis])
        for found, wanted in ((given.sum(axis=axis), total), (given.sum(axis), total),
                              (np.sum(given, axis), total), (given.mean(axis=axis), mean),
                              (np.mean(given, axis=axis), mean)):
            assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
            assert numpy.asarray(found).tobytes() == wanted.tobytes()


@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "argmax", "argmin", "any", "all"])
@pytest.mark.parametrize("char", "bhqf")
def test_reductions_along_an_axis_of_arrays_at_hand_are_numpys(name: str, char: str) -> None:
    array = numpy.random.default_rng(3).integers(-3, 3, (300, 90)).astype(char)
    for plain in (array, array.T, array[::2], numpy.asfortranarray(array), array.reshape(30, 10, 90)):
        given = np.array(plain, copy=False) if plain is array else np.array(plain)
        for axis in (0, 1, -1):
            found, wanted = getattr(given, name)(axis=axis), getattr(plain, name)(axis=axis)
            assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
            assert numpy.array_equal(numpy.asarray(found), wanted)
        for odd in (3, -4, None, True, (0, 1)):
            said = []
            for x in (given, plain):
                try:
                    said.append(numpy.asarray(getattr(x, name)(axis=odd)).tolist())
                except Exception as error:
                    said.append(f"{type(error).__name__}: {error}")
            assert said[0] == said[1]


def test_means_that_are_too_small_for_their_type_warn_as_numpys() -> None:
    array = numpy.zeros((300, 90))
    array[0] = 5e-324
    said = []
    for module in (numpy, np):
        given = module.array(array)
        with module.errstate(under="warn"), warned() as caught:
            found = given.mean(axis=0), given.reshape(-1).mean(), given[:, :80].mean(axis=0)
        said.append([str(w.message) for w in caught])
        assert not any(map(numpy.any, found))
    assert said[0] == said[1] and said[0]


@for_each("ufunc", [np.add, np.maximum, np.minimum])
@for_each("shape", [(), (1,), (40,), (50_000,), (5, 8), (250, 200), (30, 40, 50)])
@for_each("char", "dfibB?")
def test_reductions_of_ufuncs_go_along_the_first_axis(ufunc: Any, shape: tuple[int, ...], char: str) -> None:
    array = (numpy.random.default_rng(3).random(shape) * 4).astype(char)
    given, plain = np.array(array), getattr(numpy, ufunc.__name__)
    for axis in ([], [0], [-1], [None], [len(shape)]):
        try:
            wanted = plain.reduce(array, *axis)
        except Exception as error:
            with pytest.raises(type(error)):
                ufunc.reduce(given, *axis)
            continue
        found = ufunc.reduce(given, *axis)
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        if char in "df" and ufunc is np.add and array.size > 10_000:
            numpy.testing.assert_allclose(numpy.asarray(found), wanted, 1e-5)
        else:
            assert numpy.array_equal(numpy.asarray(found), wanted)


def test_copies_of_small_arrays_have_the_order_and_the_type_of_numpys() -> None:
    for size in (3, 40, 120):
        for char in ("d", "i", "e", "?", "U3", "O", "M8[s]", ">f8"):
            array = numpy.zeros((size, size), char)
            for plain in (array, array.T, array[::2], array[:, ::-2], array[0, 0:1].reshape(())):
                given = np.array(plain)
                found, wanted = np.array(given), numpy.array(plain)
                assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
                assert found.strides == wanted.strides
                assert not numpy.shares_memory(numpy.asarray(found), numpy.asarray(given))

"""Sums and products of small arrays, compiled: the bits and the warnings of the interpreted tree."""

from __future__ import annotations

import itertools
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse import settings
from diffuse.kernels.build import jit, small_folds
from diffuse.kernels.meaning import reduce

SHAPES: list[tuple[int, ...]] = [(33,), (100,), (1025,), (5000,), (64, 64), (3, 700), (700, 3), (1, 40),
                                 (40, 1), (5, 6, 7), (2, 3, 300), (300, 2, 3)]


@pytest.fixture(autouse=True)
def compiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """At the first call."""
    monkeypatch.setattr(small_folds, "WORTH", 1)
    with settings.using(compile="wait"):
        yield


def cases() -> Iterator[tuple[str, str, tuple[int, ...], tuple[int, ...]]]:
    for operator, chars in small_folds.TYPES.items():
        for char, shape in itertools.product(chars, SHAPES):
            for count in range(1, len(shape) + 1):
                for axes in itertools.combinations(range(len(shape)), count):
                    yield operator, char, shape, axes


def numbers(char: str, shape: tuple[int, ...]) -> Any:
    rng = numpy.random.default_rng(len(shape) + shape[0])
    found = rng.normal(size=shape) * 10.0 ** rng.integers(-2, 3, size=shape)
    return (found + 1j * found[::-1] if char in "FD" else found).astype(char)


@pytest.mark.parametrize("operator, char, shape, axes", list(cases()))
def test_compiled_folds_have_the_bits_of_the_tree(operator: str, char: str, shape: tuple[int, ...],
                                                  axes: tuple[int, ...]) -> None:
    array = numbers(char, shape)
    array = numpy.sign(array) + array / 1e4 if operator == "prod" else array
    turned = numpy.asfortranarray(array)
    wanted = reduce.reduce(operator, array, axes)
    for given in (array, turned, numpy.repeat(array, 2, axis=-1)[..., ::2]):
        found = small_folds.fold(operator, given, axes)
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
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = given.sum(axis=axis)
        said.append([str(w.message) for w in caught])
    assert said[0] == said[1]
    with numpy.errstate(all="ignore"):
        numpy.testing.assert_allclose(numpy.asarray(found), array.sum(axis=axis))


def test_a_reduction_is_compiled_once_it_was_asked_for_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_folds, "WORTH", 3)
    monkeypatch.setattr(small_folds, "_built", {})
    monkeypatch.setattr(small_folds, "_asked", Counter())
    monkeypatch.setattr(jit, "cached", lambda body: False)
    array = numbers("d", (50,))
    assert [small_folds.fold("sum", array, (0,)) is None for _ in range(4)] == [True, True, False, False]


def test_without_compiling_the_tree_is_interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_folds, "_built", {})
    with settings.using(compile="off"):
        assert small_folds.fold("sum", numbers("d", (50,)), (0,)) is None
        assert small_folds.reduce("sum", numbers("d", (50,)), (0,), "float64").shape == ()

"""Operators and assignments on small arrays give NumPy's bits, layouts and warnings."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy
import pytest

import diffuse.numpy as dn
from tests.each import for_each
from tests.outcomes import warned

Pair = tuple[Any, Any]

BINARY = [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod,
          operator.and_, operator.or_, operator.xor, operator.lt, operator.le, operator.eq, operator.ne,
          operator.gt, operator.ge]
IN_PLACE: list[Callable[[Any, Any], Any]] = [
    operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ifloordiv, operator.iand,
    operator.ior, operator.ixor]
UNARY: list[Callable[[Any], Any]] = [operator.neg, abs, operator.invert, lambda x: x**2]
UFUNCS = ["sqrt", "exp", "log", "sin", "tanh", "floor", "isnan", "conjugate", "sign", "logical_not"]
BINARY_UFUNCS = ["maximum", "fmin", "hypot", "arctan2", "power", "logical_and", "copysign", "add",
                 "greater", "gcd"]
TYPES = ["bool", "uint8", "int32", "int64", "float32", "float64", "complex64", "complex128", ">f8"]
NUMBERS = [2, -1, 300, 2**53 + 1, 2**70, 0, 0.1, 1e300, 1e-310, float("nan"), float("inf"), 1.5 - 2j,
           True, numpy.float32(0.4), numpy.float64(0.4), numpy.int64(3), numpy.uint8(7),
           numpy.complex128(2j)]


def both(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Pair:
    """The same values as an array of NumPy's and one of ours; with a seed, some are special."""
    rng = numpy.random.default_rng(seed)
    whole = numpy.dtype(dtype).kind in "biu"
    values = rng.integers(0, 100, shape) if whole else 10 * rng.standard_normal(shape)
    if seed and not whole:
        values.flat[::17], values.flat[1::19], values.flat[2::23] = 0.0, numpy.inf, 1e-310
    with numpy.errstate(all="ignore"):
        plain = values.astype(dtype)
    return plain, dn.array(plain)


def done(f: Callable[[], Any]) -> tuple[Any, ...]:
    """What a call gives: type, layout, bytes and which warnings, or its error."""
    with warned() as seen:
        try:
            found = f()
        except (TypeError, ValueError, OverflowError) as error:
            return type(error), str(error)
    found = numpy.asarray(found)
    return (found.dtype, found.shape, found.strides if found.size > 1 else (), found.tobytes(),
            sorted({str(one.message) for one in seen}))


def library(x: Any) -> Any:
    return numpy if type(x) is numpy.ndarray else dn


def called(name: str) -> Callable[..., Any]:
    return lambda x, *others: getattr(library(x), name)(x, *others)


def alike(f: Callable[..., Any], *pairs: Pair) -> None:
    plain = done(lambda: f(*[one for one, _ in pairs]))
    assert done(lambda: f(*[ours for _, ours in pairs])) == plain


def viewed(pair: Pair, view: Callable[[Any], Any]) -> Pair:
    return view(pair[0]), view(pair[1])


VIEWS: list[tuple[tuple[int, ...], Callable[[Any], Any], tuple[int, ...], Callable[[Any], Any]]] = [
    ((200,), lambda x: x, (200,), lambda x: x),
    ((400,), lambda x: x[::2], (200,), lambda x: x[::-1]),
    ((30, 20), lambda x: x, (30, 20), lambda x: x),
    ((30, 20), lambda x: x, (20,), lambda x: x),
    ((30, 20), lambda x: x.T, (20, 30), lambda x: x),
    ((30, 20), lambda x: x.T, (30, 20), lambda x: x.T),
    ((30, 1), lambda x: x, (1, 20), lambda x: x),
    ((200, 300), lambda x: x[:, 7], (300, 200), lambda x: x[5]),
    ((6, 5, 40), lambda x: x[1:, :, ::3], (5, 1), lambda x: x),
    ((2, 3, 2, 3, 5), lambda x: x, (3, 5), lambda x: x),
    ((90, 3), lambda x: x, (3,), lambda x: x),
    ((90, 1), lambda x: x, (90, 3), lambda x: x[:, ::-1]),
    ((60, 8), lambda x: x[:, 1:7:2], (60, 3), lambda x: x),
    ((4, 9, 9, 3), lambda x: x[:, 2:5, 4:7, :, None], (3, 3, 3, 6), lambda x: x),
    # short rows, which are gathered in pieces
    ((30, 20, 4), lambda x: x[1:, 2:, 1:], (29, 18, 3), lambda x: x),
    ((12, 15, 9, 2), lambda x: x, (12, 15, 9), lambda x: x[..., None]),
    ((60, 50, 4), lambda x: x[..., 1:], (3,), lambda x: x),
    ((40, 3, 40, 2), lambda x: x[::2, :, ::2], (3, 1, 4), lambda x: x[..., :2]),
    ((3, 1, 1400, 4), lambda x: x[..., 1:], (1, 1400, 1), lambda x: x),
    ((200,), lambda x: x, (), lambda x: x),
    ((200,), lambda x: x, (190,), lambda x: x),
    ((0,), lambda x: x, (1,), lambda x: x)]


@for_each("dtype", TYPES)
@for_each("seed", [0, 1])
def test_operators_on_two_arrays(dtype: str, seed: int) -> None:
    for first, one, second, other in VIEWS:
        a, b = viewed(both(first, dtype, seed), one), viewed(both(second, dtype, seed + 5), other)
        for f in BINARY:
            alike(f, a, b)
        for name in BINARY_UFUNCS:
            alike(called(name), a, b)


@pytest.mark.parametrize("dtype", TYPES)
def test_operators_on_one_array(dtype: str) -> None:
    for first, one, _, _ in VIEWS:
        for seed in (0, 1):
            a = viewed(both(first, dtype, seed), one)
            for f in UNARY:
                alike(f, a)
            for name in UFUNCS:
                alike(called(name), a)


@for_each("dtype", TYPES)
@for_each("number", NUMBERS)
def test_operators_with_numbers(dtype: str, number: Any) -> None:
    a = both((200,), dtype)
    for f in BINARY:
        alike(lambda x, f=f: f(x, number), a)
        alike(lambda x, f=f: f(number, x), a)
    for name in BINARY_UFUNCS:
        alike(lambda x, name=name: called(name)(x, number), a)
        alike(lambda x, name=name: getattr(library(x), name)(number, x), a)


def changed(f: Callable[[Any, Any], Any], view: Callable[[Any], Any],
            other: Callable[[Any], Any]) -> Callable[..., Any]:
    def run(x: Any, y: Any) -> Any:
        x = x.copy()
        f(view(x), other(x) if y is None else y)
        return x
    return run


@for_each("dtype", TYPES)
@for_each("seed", [0, 1])
def test_operators_in_place(dtype: str, seed: int) -> None:
    a, b = both((60, 200), dtype, seed), both((200,), dtype, seed + 5)
    for f in IN_PLACE:
        for view in (lambda x: x[3], lambda x: x[:, 7], lambda x: x[10:12], lambda x: x[4, ::-1]):
            alike(changed(f, view, lambda x: x[5]), a, b)
            alike(changed(f, view, lambda x: 3), a, (None, None))
        # operands that overlap what is written
        alike(changed(f, lambda x: x[3, 1:], lambda x: x[3, :-1]), a, (None, None))
        alike(changed(f, lambda x: x[1:, 7], lambda x: x[:-1, 7]), a, (None, None))
        alike(changed(f, lambda x: x[3], lambda x: x[3, ::-1]), a, (None, None))


@for_each("dtype", TYPES)
@for_each("seed", [0, 1])
def test_short_rows_in_place(dtype: str, seed: int) -> None:
    a, b, c = both((40, 30, 5), dtype, seed), both((39, 30, 3), dtype, seed + 5), both((30, 1), dtype, seed)
    for f in [*IN_PLACE, lambda x, y: x.__setitem__(..., y)]:
        for view in (lambda x: x[1:, :, 1:4], lambda x: x[1:, :, ::2], lambda x: x[1:, ::-1, :3]):
            alike(changed(f, view, lambda x: x), a, b)
            alike(changed(f, view, lambda x: x), a, c)
            alike(changed(f, view, lambda x: 3), a, (None, None))
            alike(changed(f, view, lambda x: x[:-1, :, 2:]), a, (None, None))  # they overlap


@for_each("dtype", TYPES)
@for_each("kind", TYPES)
def test_assignments(dtype: str, kind: str) -> None:
    a, b = both((60, 200), dtype), both((60, 200), kind, 3)
    s = numpy.s_
    places = [(s[3], s[5]), (s[:, 7], s[:, 9]), (s[4, ::-1], s[4]), (s[:, 3], s[3, 60:120]),
              (s[5, 1:], s[5, :-1]), (s[6, ::2], s[6, 100:]), (s[7, :5], s[8, 3]), (s[9, :50], s[9, :49]),
              (s[2:4], s[1])]

    def assigned(x: Any, y: Any, places: Any) -> Any:
        x = x.copy()
        for target, source in places:
            x[target] = y[source]
            x[target] = x[source]  # which overlaps
        return x

    alike(lambda x, y: assigned(x, y, places), a, b)  # one shape does not fit: NumPy's error
    alike(lambda x, y: assigned(x, y, [place for place in places if place != places[7]]), a, b)


@for_each("dtype", TYPES)
@for_each("number", NUMBERS)
def test_assigned_numbers(dtype: str, number: Any) -> None:
    for size in (200, 40_000):
        def assigned(x: Any) -> Any:
            x = x.copy()
            x[3:130] = number
            x[150::2] = number
            return x
        alike(assigned, both((size,), dtype))


def test_errors_are_numpys() -> None:
    a = both((200,), "float64", 1)
    for modes in ({"divide": "raise"}, {"under": "warn"}, {"all": "ignore"}):
        def run(x: Any, modes: Any = modes) -> Any:
            with library(x).errstate(**modes):
                try:
                    x = x / x * 1e-300
                    x *= 1e-300
                except FloatingPointError as error:
                    return str(error).encode()
            return x
        alike(run, a)


def test_arrays_that_may_not_be_written() -> None:
    a = both((200,), "float64")
    for x in a:
        x.flags.writeable = False
    def write(x: Any) -> None:
        x[3:7] = 1.0

    def add(x: Any) -> None:
        x += 1.0
    alike(write, a)
    alike(add, a)


@pytest.mark.parametrize("dtype", TYPES)
def test_large_results_at_places_with_other_views_every_turn(dtype: str) -> None:
    a = both((300, 120), dtype)

    def run(x: Any) -> Any:
        return sum([float(numpy.abs((x[:, j, None] * x[:, j:])[::7]).max()) for j in range(40)])
    assert run(a[1]) == run(a[0])


REDUCED: list[Callable[[Any, Any], Any]] = [
    lambda m, x: x.sum(), lambda m, x: x.mean(), lambda m, x: x.max(), lambda m, x: m.min(x),
    lambda m, x: m.sum(x), lambda m, x: m.mean(x), lambda m, x: x.any(), lambda m, x: m.all(x)]


@for_each("dtype", TYPES)
@for_each("size", [1, 2, 9, 127, 128, 129, 1000, 8193])
def test_reductions_of_small_vectors_are_numpys(size: int, dtype: str) -> None:
    for seed in (0, 1):
        plain, ours = both((size,), dtype, seed)
        for values in (plain, plain[::-1], numpy.zeros_like(plain), plain[1:]):
            given = dn.array(values)
            for f in REDUCED:
                wanted = done(partial(f, numpy, values))
                assert done(partial(f, dn, given)) == wanted
                assert done(partial(f, dn, values)) == wanted
        assert done(ours[1::2].sum) == done(plain[1::2].sum)


@pytest.mark.parametrize("numbers", [
    [1.0, -0.0], [1, 2], [1, 2.5], [True, 1], [2**63], [2**70], [], [1.0] * 200, [numpy.float64(1.0), 2.0]])
def test_arrays_of_lists_are_numpys(numbers: list[Any]) -> None:
    for make in ("array", "asarray"):
        wanted, found = getattr(numpy, make)(numbers), getattr(dn, make)(numbers)
        assert found.dtype == wanted.dtype and found.shape == wanted.shape
        assert numpy.asarray(found).tolist() == wanted.tolist() and found.flags.writeable

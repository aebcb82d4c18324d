"""Operators and ufuncs on few elements that write into an operand that nobody else knows, and operators in
place: values, floating-point errors, and operands that somebody holds."""

from __future__ import annotations

import itertools
import operator
import platform
import sys
import tracemalloc
import warnings
from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse.numpy.small import native
from tests.jobs import python

SIZES = (300, 4096, 16_000)
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "divide": operator.truediv}
IN_PLACE: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.iadd, "subtract": operator.isub, "multiply": operator.imul, "divide": operator.itruediv}


def add(x: Any, y: Any) -> Any:
    return x * 1.0 + y


def subtract(x: Any, y: Any) -> Any:
    return x * 1.0 - y


def multiply(x: Any, y: Any) -> Any:
    return x * 1.0 * y


def divide(x: Any, y: Any) -> Any:
    return x * 1.0 / y


def reflected(x: Any, y: Any) -> Any:
    return 1.0 / (x - (y + 2.0 * x)) - (x - x * y)


def broadcast(x: Any, y: Any) -> Any:
    return (x.reshape(-1, 4) * 2.0 + y[:4]) - y.reshape(-1, 4)[:, :1]


CHAINS: dict[str, Callable[[Any, Any], Any]] = {
    "add": add, "subtract": subtract, "multiply": multiply, "divide": divide}


def library(x: Any) -> Any:
    return numpy if type(x) is numpy.ndarray else np


def limited(x: Any, y: Any) -> Any:
    m = library(x)
    return m.maximum(0.0, m.maximum(m.minimum(1.0, 2.0 * x), m.minimum(x + 1.0, y)))


def turned(x: Any, y: Any) -> Any:
    m = library(x)
    return m.abs(-(x - y)) + m.absolute(y * x) - abs(x - 1.0) + m.negative(y * 2.0)


def compared(x: Any, y: Any) -> Any:
    m = library(x)
    return m.maximum(m.less(x * 2.0, y), m.greater(x * 1.0, y * 1.0)) * m.maximum(x * 2.0, y[:1])


UFUNCS = {"limited": limited, "turned": turned, "compared": compared}


@pytest.fixture(autouse=True)
def learnt() -> None:
    """The extension knows how the interpreter calls operators and ufuncs: found out among the first ones."""
    x = np.array(numpy.ones(1000))
    for _ in range(200):
        for chain in (*CHAINS.values(), *UFUNCS.values()):
            chain(x, x)


def data(size: int, dtype: Any = numpy.float64) -> tuple[Any, Any]:
    random = numpy.random.default_rng(size)
    return tuple((random.random((2, size)) + 0.5).astype(dtype))


def same(ours: Any, theirs: Any) -> bool:
    found = numpy.asarray(ours)
    return bool(found.dtype == theirs.dtype and found.strides == theirs.strides
                and found.tobytes() == theirs.tobytes())


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128", "int64"])
@pytest.mark.parametrize("size", SIZES)
def test_results_in_temporaries_have_numpys_bits(size: int, dtype: str) -> None:
    X, Y = data(size, dtype)
    x, y = np.array(X), np.array(Y)
    for run in (*CHAINS.values(), *UFUNCS.values(), reflected, broadcast):
        with np.errstate(all="ignore"):
            assert same(run(x, y), run(X, Y))
        assert same(x, X) and same(y, Y)


@pytest.mark.parametrize("size", SIZES)
def test_special_numbers_in_temporaries_have_numpys_bits(size: int) -> None:
    special = [0.0, -0.0, numpy.nan, -numpy.nan, numpy.inf, -numpy.inf, 1.0, -2.0, 1e-310]
    X, Y = numpy.random.default_rng(size).choice(special, (2, size))
    x, y = np.array(X), np.array(Y)
    for run in UFUNCS.values():
        with np.errstate(all="ignore"):
            assert same(run(x, y), run(X, Y))
        assert reported(partial(run, x, y), all="warn") == reported(partial(run, X, Y), all="warn")


told = pytest.mark.skipif(native is None or platform.libc_ver()[0] != "glibc" or sys.version_info >= (3, 14),
                          reason="the extension finds out by glibc who the caller is")


def operators(x: Any) -> Any:
    return 2.0 - ((x * 2.0 + 1.0) * 3.0 - x) / x


def ufuncs(x: Any) -> Any:
    return np.maximum(np.negative(np.abs(x - 1.0)), -0.25)


@told
@pytest.mark.parametrize("chain", [operators, ufuncs])
@pytest.mark.parametrize("size", SIZES)
def test_results_take_the_memory_of_few_elements(size: int, chain: Callable[[Any], Any]) -> None:
    run = partial(chain, np.array(data(size)[0]))
    run()
    tracemalloc.start()
    try:
        run()
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 8 * size * 1.25 + 1000  # one array, and what Python itself takes


@told
def test_operators_that_other_code_calls_leave_the_interpreters_to_be_found_out() -> None:
    done = python("""
        import tracemalloc
        import numpy
        import diffuse.numpy as np
        x = np.array(numpy.ones(4096))
        for _ in range(200):  # adds what nobody else knows by code in C
            sum(x * 2.0 for _ in range(4))
        for _ in range(100):
            x * 2.0 + 1.0
        tracemalloc.start()
        x * 2.0 + 1.0
        assert tracemalloc.get_traced_memory()[1] < 8 * 4096 * 1.25 + 1000
        """)
    assert done.returncode == 0, done.tail


@pytest.mark.parametrize("size", SIZES)
def test_what_somebody_holds_keeps_its_value(size: int) -> None:
    X, Y = data(size)
    x, y = np.array(X), np.array(Y)
    for function in OPERATORS.values():
        for _ in range(3):
            arguments = (x * 2.0, y * 3.0)
            assert same(function(*arguments), function(X * 2.0, Y * 3.0))
            assert same(arguments[0], X * 2.0) and same(arguments[1], Y * 3.0)
            items = [x * 2.0, y * 3.0, x + 1.0]
            theirs = reduce(function, [X * 2.0, Y * 3.0, X + 1.0])
            assert same(reduce(function, items), theirs)
            assert same(items[0], X * 2.0) and same(items[1], Y * 3.0)
            sums = list(itertools.accumulate([x * 1.0, y * 1.0, x * 4.0], function))
            assert same(sums[1], function(X, Y)) and same(sums[0], X)
            held = numpy.empty(2, object)
            held[0], held[1] = x * 2.0, y * 3.0
            found = function(held, held[::-1])
            assert same(found[0], function(X * 2.0, Y * 3.0)) and same(held[0], X * 2.0)
            mapped = list(map(function, [x * 2.0], [y]))
            assert same(mapped[0], function(X * 2.0, Y))
            view = (x * 2.0)[1:]
            assert same(function(view, 1.0), function((X * 2.0)[1:], 1.0)) and same(view, (X * 2.0)[1:])


@pytest.mark.parametrize("size", SIZES)
def test_arguments_that_somebody_holds_keep_their_values(size: int) -> None:
    X = data(size)[0]
    x = np.array(X)
    for function, theirs in ((np.abs, numpy.abs), (np.negative, numpy.negative)):
        for _ in range(3):
            stored = partial(function, x * -2.0)
            first, second = stored(), stored()
            assert same(first, theirs(X * -2.0)) and same(second, theirs(X * -2.0))
            arguments = (x * -3.0,)
            assert same(function(*arguments), theirs(X * -3.0)) and same(arguments[0], X * -3.0)
            items = [x * -2.0, x * -5.0]
            assert same(list(map(function, items))[1], theirs(X * -5.0)) and same(items[1], X * -5.0)
            yielded = next(function(x * -float(k)) for k in (7, 8))
            assert same(yielded, theirs(X * -7.0))
            view = (x * -2.0)[1:]
            assert same(function(view), theirs((X * -2.0)[1:])) and same(view, (X * -2.0)[1:])
    bound = partial(np.maximum, x * 2.0, 1.5)
    assert same(bound(), numpy.maximum(X * 2.0, 1.5)) and same(bound.args[0], X * 2.0)
    assert same(reduce(np.minimum, [x * 2.0, x * 3.0, x + 1.0]),
                reduce(numpy.minimum, [X * 2.0, X * 3.0, X + 1.0]))


ALL = ("add", "subtract", "multiply", "divide")
ERRORS = {"overflow": (ALL, 1e308, {"subtract": -1e308, "divide": 1e-300}),
          "invalid value": (ALL, numpy.inf, {"add": -numpy.inf, "multiply": 0.0}),
          "divide by zero": (("divide",), 1.0, {"divide": 0.0}),
          "underflow": (("multiply", "divide"), 1e-300, {"divide": 1e300})}
"""The operators that have an error, the left operand that raises it, and the right one if it is another."""


def reported(run: Callable[[], Any], **modes: Any) -> list[Any]:
    """The warnings, or the exception, or the calls of a run."""
    calls: list[Any] = []
    chosen = np.errstate(**modes, call=lambda *a: calls.append(a))
    with warnings.catch_warnings(record=True) as caught, chosen:
        warnings.simplefilter("always")
        try:
            run()
        except FloatingPointError as error:
            calls.append(str(error))
    return [str(each.message) for each in caught] + calls


@pytest.mark.parametrize("name, error", [(name, error) for error in ERRORS for name in ERRORS[error][0]])
@pytest.mark.parametrize("mode", ["warn", "raise", "call", "ignore"])
def test_floating_point_errors_are_reported_as_numpy_does(name: str, error: str, mode: str) -> None:
    _, one, others = ERRORS[error]
    X, Y = data(2000)
    X[7], Y[7] = one, others.get(name, one)
    X[9], Y[9] = (1.0, 0.0) if name == "divide" else (1e308, 1e308)  # another one beside it
    x, y = np.array(X), np.array(Y)
    chain, function = CHAINS[name], OPERATORS[name]

    def in_place(a: Any, b: Any) -> Any:
        a = a.copy()
        for part, other in ((a[::2], b[::2]), (a[1::2], b[1::2]), (a.reshape(40, -1)[:, :40], 1.0)):
            IN_PLACE[name](part, other)
        return a

    for run in (chain, function, in_place):
        theirs = reported(partial(run, X, Y), all=mode)
        assert reported(partial(run, x, y), all=mode) == theirs
        assert bool(theirs) == (mode != "ignore")
    with np.errstate(all="ignore"):
        assert same(chain(x, y), chain(X, Y)) and same(in_place(x, y), in_place(X, Y))


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "complex128"])
def test_operators_in_place_on_parts_that_overlap_or_are_strided(dtype: str) -> None:
    start = (numpy.random.default_rng(4).random((60, 70)) * 100).astype(dtype)

    def run(a: Any) -> Any:
        a += a
        a[1:] += a[:-1]
        a[:, ::2] *= a[:, 1::2]
        a[::3] -= a[0]
        a[:, 5:50] += a[:, 4:49]
        a[3:9, 1:60] -= 2
        a *= a[:, :1]
        a.T[:] += 1
        b = a[10:50, 10:50]
        b -= b.T
        b[::-1] += b
        a.reshape(-1)[::7] *= 3
        return a

    with np.errstate(all="ignore"):
        assert same(run(np.array(start)), run(start.copy()))

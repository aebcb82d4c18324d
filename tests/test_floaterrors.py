"""Floating-point warnings: raised where NumPy raises them, and nowhere else, compiled and interpreted."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest

import diffuse.numpy
from diffuse import engine, settings

ORDINARY = numpy.random.default_rng(0).standard_normal(5001)
SPECIAL = numpy.array([numpy.inf, -numpy.inf, numpy.nan, 0.0, -0.0, 1e300, -1e300, 5e-324] * 8)
UNARY = """exp log sqrt sin cos tan arctan tanh sinh cosh arcsin arccosh log1p expm1 cbrt exp2 log2 log10
square reciprocal floor rint sign isfinite absolute negative""".split()
BINARY = """add subtract multiply divide maximum minimum fmax fmin less greater equal arctan2 hypot power
floor_divide remainder fmod copysign heaviside""".split()
COMPLEX = "exp sqrt sin cos square absolute sign conjugate".split()


@pytest.fixture(params=["wait", "off"], autouse=True)
def recorded(request: pytest.FixtureRequest) -> Iterator[None]:
    engine.fence()
    with settings.using(compile=request.param, small=0, min_chunk=1000):
        yield
        engine.fence()


def said(np: Any, call: Callable[[Any], Any]) -> list[str]:
    """The kinds of warnings of a call, when its result is looked at."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = call(np)
        if np is not numpy:
            engine.fence()
        del result
    return sorted(str(w.message).partition(" encountered")[0] for w in caught)


@pytest.mark.parametrize("values", [ORDINARY, SPECIAL, ORDINARY.astype("f4")],
                         ids=["ordinary", "special", "single"])
@pytest.mark.parametrize("name", UNARY)
def test_one_operand(name: str, values: Any) -> None:
    def call(np: Any) -> Any:
        return getattr(np, name)(np.array(values))

    assert said(diffuse.numpy, call) == said(numpy, call)


@pytest.mark.parametrize("values", [ORDINARY, SPECIAL], ids=["ordinary", "special"])
@pytest.mark.parametrize("name", BINARY)
def test_two_operands(name: str, values: Any) -> None:
    def call(np: Any) -> Any:
        return getattr(np, name)(np.array(values), np.array(numpy.roll(values, 9)))

    assert said(diffuse.numpy, call) == said(numpy, call)


@pytest.mark.parametrize("values", [ORDINARY + 1j * ORDINARY[::-1], numpy.zeros(5000, complex)],
                         ids=["ordinary", "zero"])
@pytest.mark.parametrize("name", COMPLEX)
def test_complex_operands(name: str, values: Any) -> None:
    def call(np: Any) -> Any:
        return getattr(np, name)(np.array(values))

    assert said(diffuse.numpy, call) == said(numpy, call)


def test_the_warning_is_at_the_users_line() -> None:
    x = diffuse.numpy.array(ORDINARY)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        y = diffuse.numpy.sqrt(x)
        engine.fence()
        del y
    assert [w.filename for w in caught] == [__file__]
    assert str(caught[0].message) == "invalid value encountered in sqrt"


def test_ignored_errors_are_silent() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with diffuse.numpy.errstate(all="ignore"):
            y = diffuse.numpy.log(diffuse.numpy.array(-numpy.ones(5000)))
        engine.fence()
        assert numpy.isnan(numpy.asarray(y)).all()


def test_an_error_that_raises_raises_at_the_call() -> None:
    x = diffuse.numpy.zeros(5000)
    with diffuse.numpy.errstate(divide="raise"), pytest.raises(FloatingPointError, match="divide by zero"):
        1.0 / x
    assert float((x + 1).sum()) == 5000.0


def test_the_warning_is_at_the_line_of_this_call_not_of_the_first_like_it() -> None:
    lines: list[int] = []
    for _ in range(2):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            x = diffuse.numpy.array(ORDINARY)
            if not lines:
                y = diffuse.numpy.arcsin(x)
            else:
                y = diffuse.numpy.arcsin(x)
            engine.fence()
            del y
        lines += [w.lineno for w in caught]
    assert lines[1] == lines[0] + 2


@pytest.mark.parametrize("name", ["argmin", "argmax"])
def test_nan_is_found_without_a_warning(name: str) -> None:
    x = numpy.arange(40000.0)
    x[777] = numpy.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert int(getattr(diffuse.numpy.array(x), name)()) == 777
        engine.fence()

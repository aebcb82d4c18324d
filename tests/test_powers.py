"""Powers to small constant exponents: rounding, special values, flags, and what is recorded."""

from __future__ import annotations

import ctypes
import math
import platform
from fractions import Fraction
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse import settings
from diffuse.kernels.body.operations import EXPONENTS
from diffuse.kernels.build import routines
from diffuse.stream import engine
from tests.around import around
from tests.each import for_each
from tests.outcomes import warned

INTEGERS = [name for name, exponent in EXPONENTS.items() if exponent == int(exponent)]
SPECIAL = numpy.array([numpy.inf, -numpy.inf, numpy.nan, 0.0, -0.0, 1.0, -1.0, 2.0, -3.0, 1e300, -1e300,
                       5e-324, -5e-324, 1e-310, 1e-200, 2.0 ** 511.5, 2.0 ** -511.5, 2.0 ** 512, 2.0 ** -537])


quiet = around(numpy.errstate, all="ignore")


def apply(name: str, x: Any, out: Any = None) -> Any:
    """The compiled operation on an array."""
    out = numpy.empty_like(x) if out is None else out
    routines.routine(name, (x.dtype.name,), x.dtype.name)(x, out=out)
    return out


def samples(exponent: float, count: int) -> Any:
    """Ordinary numbers, all magnitudes with a finite power, and those where it overflows or underflows."""
    random = numpy.random.default_rng(11)
    edges = [e / abs(exponent) for e in (-1074, -1022, -900, 900, 1024)]
    spans = [(0.0, 1.0), (-3.0, 3.0), (edges[0], edges[-1])] + [(e - 2.0, e + 2.0) for e in edges]
    powers = [numpy.clip(random.uniform(*span, count), -1074, 1023) for span in spans]
    return 2.0 ** numpy.concatenate([*powers, numpy.arange(-1074, 1024, 7.0)])


def exact(x: float, exponent: float) -> float:
    """The correctly rounded power: of a root, from 400 bits of it."""
    power = Fraction(x) ** int(abs(2 * exponent))
    shift = 400 + max(0, power.denominator.bit_length() - power.numerator.bit_length())
    shift += shift % 2
    root = math.isqrt((power.numerator << shift) // power.denominator)
    number = Fraction(root, 1 << shift // 2)
    if exponent == int(exponent):
        number = Fraction(x) ** int(abs(exponent))
    try:
        return float(number if exponent > 0 else 1 / number)
    except OverflowError:
        return math.inf


@pytest.mark.parametrize("name", EXPONENTS)
def test_within_one_unit_of_the_correctly_rounded_power(name: str) -> None:
    exponent = EXPONENTS[name]
    x = samples(exponent, 300 if name in INTEGERS else 60)
    found = apply(name, x)
    best = numpy.array([exact(value, exponent) for value in x.tolist()])
    bad = numpy.flatnonzero(abs(found.view("i8") - best.view("i8")) > 1)
    assert not bad.size, (x[bad[:3]], found[bad[:3]], best[bad[:3]])
    if name in INTEGERS:
        assert numpy.array_equal(apply(name, -x), -found if exponent % 2 else found)


@pytest.mark.parametrize("name", EXPONENTS)
def test_single_precision_within_one_unit(name: str) -> None:
    exponent = EXPONENTS[name]
    random = numpy.random.default_rng(5)
    x = (2.0 ** random.uniform(-149, 128, 20000) * random.uniform(0.5, 1, 20000)).astype("f4")
    x = numpy.concatenate([x, random.uniform(0, 9, 20000).astype("f4")])
    x = x[x > 0]
    found = apply(name, x)
    best = (x.astype(numpy.longdouble) ** numpy.longdouble(exponent)).astype("f4")
    assert numpy.abs(found.view("i4").astype("i8") - best.view("i4")).max() <= 1


@for_each("dtype", ["float32", "float64"])
@for_each("name", EXPONENTS)
def test_special_values_are_numpys(name: str, dtype: str) -> None:
    x = SPECIAL.astype(dtype)
    found, want = apply(name, x), numpy.power(x, EXPONENTS[name])
    ends = ~numpy.isfinite(want) | (want == 0)
    assert numpy.array_equal(found[ends], want[ends], equal_nan=True)
    known = ends & ~numpy.isnan(want)
    assert numpy.array_equal(numpy.signbit(found[known]), numpy.signbit(want[known]))
    assert numpy.array_equal(ends, ~numpy.isfinite(found) | (found == 0))


@pytest.mark.skipif(platform.machine() != "x86_64", reason="reads x86's floating-point flags")
@pytest.mark.parametrize("name", EXPONENTS)
def test_flags_are_those_of_pow(name: str) -> None:
    """Alone in its vector, each number raises the flags that the C library's `pow` raises for it."""
    exponent, libm = EXPONENTS[name], ctypes.CDLL("libm.so.6")
    power = libm.pow
    power.restype, power.argtypes = ctypes.c_double, [ctypes.c_double] * 2
    mixed = samples(exponent, 20)
    numbers = [*SPECIAL[:-4].tolist(), *mixed[numpy.frexp(mixed)[0] != 0.5].tolist()]  # of inexact powers
    if name == "power0.5":
        numbers = [x for x in numbers if x != -math.inf]  # NumPy takes the root of it, which is invalid
    apply(name, numpy.ones(3))
    for x in numbers:
        values, out = numpy.full(9, x), numpy.empty(9)
        libm.feclearexcept(61)
        power(x, exponent)
        want = libm.fetestexcept(29)
        libm.feclearexcept(61)
        apply(name, values, out=out)
        got = libm.fetestexcept(29)
        libm.feclearexcept(61)
        assert got == want, (x, exponent, got, want)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("exponent", [3, 3.0, 4, -2, 1.5, -0.5, 2.0, -1.0])
def test_the_same_bits_however_it_is_called(exponent: float, dtype: str) -> None:
    plain = numpy.random.default_rng(2).uniform(0.25, 4.0, (70, 130)).astype(dtype)
    results = []
    near = numpy.power(plain, exponent)
    for small, compiled in ((1 << 20, "wait"), (0, "wait"), (0, "off")):
        with settings.using(small=small, compile=compiled):
            x = np.array(plain)
            y = x.copy()
            y **= exponent
            out = np.empty_like(x)
            assert np.power(x, exponent, out=out) is out
            with np.errstate(over="raise"):
                eager = x ** exponent
            turned = (np.array(plain[::-1].T) ** exponent).T[::-1]
            found = [x ** exponent, np.power(x, exponent), y, out, turned, numpy.power(x, exponent),
                     x[3] ** exponent]
            assert all(f.dtype == dtype for f in found)
            arrays = [numpy.asarray(f) for f in found[:-1]]
            assert numpy.array_equal(numpy.asarray(found[-1]), near[3] if small else arrays[0][3])
            assert numpy.allclose(numpy.asarray(eager), arrays[0], rtol=1e-3)
            if small:
                assert all(f.tobytes() == near.tobytes() for f in arrays)
            else:
                results += arrays
    assert all(r.tobytes() == results[0].tobytes() for r in results)
    assert numpy.allclose(results[0], near, rtol=2 * float(numpy.finfo(dtype).eps), atol=0)


def test_exponents_for_which_numpy_takes_a_root_or_a_product_have_its_bits() -> None:
    plain = numpy.concatenate([SPECIAL, numpy.random.default_rng(4).random(20000) * 10])
    for exponent in (2.0, 0.5, -1.0, 2, -1):
        found, want = numpy.asarray(np.power(np.array(plain), exponent)), numpy.power(plain, exponent)
        assert numpy.array_equal(found.view("i8")[~numpy.isnan(want)], want.view("i8")[~numpy.isnan(want)])


def test_a_power_is_one_operation_without_pow() -> None:
    engine.fence()
    before = len(engine.current().plans)
    x = np.array(numpy.random.default_rng(2).random((200, 300)))
    y = x ** 3 + np.power(x, -2.5) * x ** 2.5
    engine.fence()
    operations = {name for plan in engine.current().plans[before:] for name in plan.operations}
    assert {"power3", "power2.5", "power"} <= operations
    del y


def test_integers_and_complex_numbers_are_raised_as_before() -> None:
    for plain in (numpy.arange(-20000, 20000), numpy.arange(40000) * (1 + 1e-3j)):
        assert numpy.array_equal(numpy.asarray(np.array(plain) ** 3), plain ** 3)


@pytest.mark.not_device("no floating-point flags are kept")
@pytest.mark.parametrize("small", [0, 1 << 20])
def test_warnings_name_the_power(small: int) -> None:
    loud = np.errstate(all="warn", under="ignore")
    with settings.using(small=small), warned() as caught, loud:
        x = np.array(numpy.full(20000, 1e200))
        y = x ** 3
        engine.fence()
        del y
    assert [str(w.message) for w in caught] == ["overflow encountered in power"]

"""Transcendental functions in LLVM IR: errors, special values, flags, and the same bits on every machine."""

from __future__ import annotations

import ctypes
import math
import platform
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest

from diffuse.ir import Privilege
from diffuse.kernels.body.expr import Argument, Body, Loop, Op, Space
from diffuse.kernels.build import codegen
from diffuse.kernels.llvm import nest
from diffuse.kernels.llvm.math import (
    exponential,
    inverse_trigonometric,
    logarithm,
    power,
    precise_logarithm,
    table,
    trigonometric,
)
from tests import machine_code, precise
from tests.around import around
from tests.each import for_each
from tests.precise import LONG, pi, polynomial
from tests.test_lowering import MACHINES, precisely, runs, same

Array = np.ndarray[Any, np.dtype[Any]]

OPERATIONS = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh",
              "atanh": "arctanh", "pow": "power", "atan2": "arctan2"}
BINARY = "pow", "atan2", "hypot", "logaddexp", "logaddexp2"


quiet = around(np.errstate, all="ignore")


def body(name: str, dtype: str) -> Body:
    """Load, apply, store."""
    count = 2 if name in BINARY else 1
    arguments = [Argument(k, 0, dtype, 0, "1", Privilege.READ) for k in range(count)]
    arguments.append(Argument(count, 0, dtype, 0, "1", Privilege.WRITE))
    ops = [Op("load", dtype, (), k) for k in range(count)]
    ops.append(Op(OPERATIONS.get(name, name), dtype, tuple(range(count))))
    ops.append(Op("store", dtype, (count,), count))
    return Body((Space(1, (0,)),), tuple(arguments), (), (Loop(0, (0,), tuple(ops)),))


class Compiled:
    """A function compiled for the machine that `codegen.host` names now."""

    def __init__(self, name: str, dtype: str) -> None:
        self.dtype, self.body = dtype, body(name, dtype)
        self.native = machine_code.native(self.body)

    def __call__(self, *operands: Array) -> Array:
        given = [np.ascontiguousarray(x, self.dtype) for x in operands]
        out = np.empty_like(given[0])
        words = [word for a in (*given, out) for word in (a.ctypes.data, a.itemsize)]
        machine_code.run(self.native, self.body, [1, out.size, out.size, *words], 1)
        return out


@cache
def compiled(name: str, dtype: str) -> Compiled:
    return Compiled(name, dtype)


# -- polynomials -----------------------------------------------------------------------------------------

def series(terms: Callable[[int], Fraction], z: Any, count: int = 60) -> Any:
    """A power series, in long double."""
    found = LONG(0)
    for k in reversed(range(count)):
        found = found * z + LONG(terms(k).numerator) / LONG(terms(k).denominator)
    return found


def spread(low: float, high: float) -> Any:
    return np.linspace(LONG(low), LONG(high), 4001)


def exp_error(coefficients: tuple[float, ...]) -> Any:
    r = spread(-math.log(2) / 2, math.log(2) / 2)
    exact = series(lambda k: Fraction(1, math.factorial(k + 2)), r)
    return (polynomial(coefficients, r) - exact) * r * r / np.exp(r)


def log_error(coefficients: tuple[float, ...]) -> Any:
    z = spread(0, (3 - 2 * math.sqrt(2)) ** 2)
    exact = series(lambda k: Fraction(2, 2 * k + 3), z)
    return (polynomial(coefficients, z) - exact) * z / (2 + z * exact)


def precise_log_error(coefficients: tuple[float, ...]) -> Any:
    r = spread(-0.0298, 0.0298)
    return (polynomial(coefficients, r) - series(lambda k: Fraction(2 * (-1) ** k, k + 3), r)) * r * r / 2


def precise_short_log_error(coefficients: tuple[float, ...]) -> Any:
    r = spread(-0.0298, 0.0298)
    return (polynomial(coefficients, r) - series(lambda k: Fraction((-1) ** (k + 1), k + 2), r)) * r


def short_log_error(coefficients: tuple[float, ...]) -> Any:
    f = spread(math.sqrt(0.5) - 1, math.sqrt(2) - 1)
    f = f[abs(f) > 1e-3]
    return (polynomial(coefficients, f) * f * f + f - np.log1p(f)) / np.log1p(f)


def sin_error(coefficients: tuple[float, ...]) -> Any:
    z = spread(0, (math.pi / 4) ** 2)
    exact = series(lambda k: Fraction((-1) ** (k + 1), math.factorial(2 * k + 3)), z, 30)
    return (polynomial(coefficients, z) - exact) * z / (1 + z * exact)


def cos_error(coefficients: tuple[float, ...]) -> Any:
    z = spread(0, (math.pi / 4) ** 2)
    exact = series(lambda k: Fraction((-1) ** k, math.factorial(2 * k + 4)), z, 30)
    return (polynomial(coefficients, z) - exact) * z * z / (1 - z / 2 + z * z * exact)


def tan_error(coefficients: tuple[float, ...]) -> Any:
    z = spread(1e-9, (math.pi / 4) ** 2)
    slope = np.tan(np.sqrt(z)) / np.sqrt(z)
    return polynomial(coefficients, z) / polynomial(trigonometric.TAN_BELOW, z) / slope - 1


def atan_error(coefficients: tuple[float, ...]) -> Any:
    z = spread(0, 0.25)
    exact = series(lambda k: Fraction((-1) ** (k + 1), 2 * k + 3), z)
    return (polynomial(coefficients, z) - exact) * z / (1 + z * exact)


def asin_error(coefficients: tuple[float, ...]) -> Any:
    z = spread(0, 0.25)
    exact = series(lambda k: Fraction(math.comb(2 * k + 2, k + 1), 4 ** (k + 1) * (2 * k + 3)), z)
    return (polynomial(coefficients, z) - exact) * z / (1 + z * exact)


def cbrt_error(coefficients: tuple[float, ...]) -> Any:
    h = spread(-0.58, -0.333)
    return polynomial(coefficients, h) * np.cbrt(1 - h) - 1


def root_error(coefficients: tuple[float, ...]) -> Any:
    h = spread(-0.0713, 0.0713)
    return polynomial(coefficients, h) * np.sqrt(1 - h) - 1


@for_each("error, coefficients, bound", [
    (exp_error, exponential.EXP, -56.3), (exp_error, exponential.EXP_SHORT, -33.2),
    (exp_error, exponential.EXP_SINGLE, -28.2),
    (log_error, logarithm.LOG, -58.9), (precise_log_error, precise_logarithm.LOG, -65.0),
    (short_log_error, logarithm.LOG_SHORT, -30.3), (short_log_error, logarithm.LOG_SINGLE, -27.8),
    (sin_error, trigonometric.SIN, -57.8), (sin_error, trigonometric.SIN_SHORT, -37.4),
    (cos_error, trigonometric.COS, -63.0), (cos_error, trigonometric.COS_SHORT, -32.9),
    (tan_error, trigonometric.TAN_ABOVE, -55.0),
    (atan_error, inverse_trigonometric.ATAN, -57.7), (atan_error, inverse_trigonometric.ATAN_SHORT, -31.8),
    (asin_error, inverse_trigonometric.ASIN, -55.8), (asin_error, inverse_trigonometric.ASIN_SHORT, -31.7),
    (cbrt_error, power.CBRT, -24.7), (cbrt_error, power.CBRT_SINGLE, -20.0),
    (root_error, power.ROOT, -29.9),
    (precise_short_log_error, precise_logarithm.LOG_SHORT, -37.0),
])
def test_polynomials(error: Callable[[tuple[float, ...]], Any], coefficients: tuple[float, ...],
                     bound: float) -> None:
    worst = float(np.abs(error(coefficients)).max())
    assert bound - 1.5 < math.log2(worst) < bound


def test_the_estimate_of_an_inverse_root_is_within_the_polynomials_range() -> None:
    y = np.linspace(1.0, 4.0, 100_001)[:-1]
    r = (power.ROOT_BITS - (y.view(np.int64) >> 1)).view(np.float64)
    assert abs(1 - y * r * r).max() < 0.0713


# -- errors of functions ---------------------------------------------------------------------------------

UNITS = {"exp": 0.95, "exp2": 1.2, "expm1": 1.5, "log": 0.9, "log2": 1.8, "log10": 2.0, "log1p": 2.0,
         "sin": 1.7, "cos": 1.7, "tan": 3.6, "asin": 2.3, "acos": 1.4, "atan": 1.9,
         "sinh": 2.3, "cosh": 1.6, "tanh": 2.7,
         "asinh": 2.4, "acosh": 2.4, "atanh": 2.4, "cbrt": 0.9, "erf": 3.0, "erfc": 3.6,
         "pow": 1.1, "atan2": 2.0,
         "hypot": 1.1, "logaddexp": 1.0, "logaddexp2": 1.0}
"""Errors in units in the last place: a little more than the largest of some millions of operands."""

SPANS: dict[str, tuple[tuple[float, float], ...]] = {
    "exp": ((-745, 709.7), (-1, 1)), "exp2": ((-1074, 1023.9), (-1, 1)), "expm1": ((-40, 709), (-1, 1)),
    "sinh": ((-710, 710), (-1, 1)), "cosh": ((-710, 710), (-1, 1)), "sin": ((-10, 10), (-1e6, 1e6)),
    "cos": ((-10, 10), (-1e6, 1e6)), "tan": ((-10, 10), (-1e6, 1e6)), "asin": ((-1, 1), (0.45, 0.55)),
    "acos": ((-1, 1), (0.45, 0.55)), "acosh": ((1, 2), (1, 100)), "atanh": ((-1, 1), (-0.1, 0.1)),
    "log": ((0.5, 2), (0, 1e3)), "log2": ((0.5, 2), (0, 1e3)), "log10": ((0.5, 2), (0, 1e3)),
    "log1p": ((-1, 1), (0, 1e3)), "erfc": ((-6, 26.5), (0, 9)), "pow": ((0.5, 2), (0, 30))}


def operands(name: str, dtype: str, count: int) -> list[Array]:
    draw = np.random.default_rng(sum(map(ord, name)))

    def magnitudes() -> Array:
        ends = (-1074, 1024) if dtype == "float64" else (-149, 128)
        return np.asarray(2.0 ** draw.uniform(*ends, count) * draw.choice([-1, 1], count))

    spans = SPANS.get(name, ((-5, 5), (-1, 1)))
    x = np.concatenate([*(draw.uniform(*span, count) for span in spans), magnitudes()])
    if name == "pow":
        reach = draw.uniform(*((-1074, 1023) if dtype == "float64" else (-149, 127)), x.size)
        x = np.abs(x)
        return [v.astype(dtype) for v in (x, reach / np.log2(x))]
    y = np.concatenate([*(draw.uniform(*span, count) for span in spans), magnitudes()])
    return [v.astype(dtype) for v in (x, y)[:2 if name in BINARY else 1]]


def exact(name: str, operands: list[Array]) -> Any:
    if name in ("erf", "erfc"):
        return precise.erf(operands[0]) if name == "erf" else precise.erfc(operands[0])
    return precisely(OPERATIONS.get(name, name), [v.astype(LONG) for v in operands])


@for_each("dtype", ["float64", "float32"])
@for_each("name", table.TABLE)
def test_errors(name: str, dtype: str) -> None:
    given = operands(name, dtype, 20_000)
    found, want = compiled(name, dtype)(*given), exact(name, given)
    rounded = want.astype(dtype)
    assert np.array_equal(np.isnan(found), np.isnan(rounded))
    numbers = np.isfinite(rounded) & np.isfinite(found)
    assert np.array_equal(found[~numbers], rounded[~numbers], equal_nan=True)
    size = np.maximum(np.abs(want[numbers]), np.finfo(dtype).tiny)
    unit = np.ldexp(LONG(1), np.frexp(size)[1] - np.finfo(dtype).nmant - 1)
    if name.startswith("logaddexp"):  # half a unit of terms that cancel
        unit += np.spacing(np.abs(np.maximum(*given)[numbers])) / 2
    units = np.abs(found[numbers] - want[numbers]) / unit
    worst = int(np.argmax(units))
    assert units[worst] < UNITS[name] + 0.1, [x[numbers][worst] for x in given]


def test_large_angles_are_reduced_exactly() -> None:
    draw = np.random.default_rng(5)
    x = np.concatenate([2.0 ** draw.uniform(28, 1024, 300), [6381956970095103 * 2.0 ** 797, 1.7e308]])
    quarter = pi(800) / 2
    found = {name: compiled(name, "float64")(x) for name in ("sin", "cos", "tan")}
    for k, value in enumerate(x.tolist()):
        turns = Fraction(value) / quarter
        n = round(turns)
        r = (turns - n) * quarter
        high = float(r)
        sine, cosine = np.sin(LONG(high) + float(r - Fraction(high))), np.cos(LONG(high))
        want = {"sin": (sine, cosine, -sine, -cosine)[n % 4], "cos": (cosine, -sine, -cosine, sine)[n % 4],
                "tan": (sine / cosine, -cosine / sine)[n % 2]}
        for name, values in found.items():
            unit = np.spacing(abs(float(want[name])))
            assert abs(values[k] - want[name]) < UNITS[name] * unit, (name, value)


EXACT = [("exp", 0.0, 1.0), ("exp2", 10.0, 1024.0), ("exp2", -1074.0, 5e-324), ("cos", 0.0, 1.0),
         ("cos", 1e-9, 1.0), ("log", 1.0, 0.0), ("log2", 2.0 ** -1070, -1070.0), ("log2", 8.0, 3.0),
         ("log10", 1000.0, 3.0), ("log10", 1e22, 22.0), ("cbrt", 27.0, 3.0), ("cbrt", -1e-300, -1e-100),
         ("acos", 1.0, 0.0), ("acos", -1.0, math.pi), ("atan", math.inf, math.pi / 2), ("tanh", 30.0, 1.0),
         ("erf", 6.0, 1.0), ("erfc", 0.0, 1.0), ("erfc", 1e-20, 1.0), ("erfc", -7.0, 2.0),
         ("acosh", 1.0, 0.0), ("cosh", 0.0, 1.0), ("expm1", -100.0, -1.0)]


@for_each("name, x, result", EXACT)
def test_exact_results(name: str, x: float, result: float) -> None:
    assert compiled(name, "float64")(np.full(11, x)).tolist() == [result] * 11
    if x == float(np.float32(x)) and result == float(np.float32(result)):
        assert compiled(name, "float32")(np.full(11, x)).tolist() == [result] * 11


def test_powers_that_are_numbers_are_exact() -> None:
    x, y = (v.ravel().astype(float) for v in np.meshgrid(np.arange(-40, 41), np.arange(0, 10)))
    want = np.array([float(int(a) ** int(b)) for a, b in zip(x, y, strict=True)])
    few = abs(want) < 2.0 ** 53
    assert np.array_equal(compiled("pow", "float64")(x, y)[few], want[few])
    assert np.array_equal(compiled("hypot", "float64")(x * 3, x * 4), abs(x) * 5)


# -- special values and flags ----------------------------------------------------------------------------

SPECIAL = [math.inf, math.nan, 0.0, 1.0, 0.5, 2.0, 3.0, 1e300, 5e-324, 1e-310, 1e-200, 2.0 ** 53,
           2.0 ** 53 + 2, 709.7, 709.8, 708.5, 740.0, 745.2, 746.0, 1e4, 1e-20, 1022.5, 1075.5, 1.5,
           100.0, 1e22, 1e30,
           0.9999999999999999, 1.0000000000000002, 1e-8, 27.0]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="reads x86's floating-point flags")
@for_each("dtype", ["float64", "float32"])
@for_each("name", [name for name in table.TABLE if not name.startswith("logaddexp")])
def test_special_values_and_flags_are_those_of_libm(name: str, dtype: str) -> None:
    """The flag of underflow may also be raised where an operand is below the normal numbers."""
    libm, kind = ctypes.CDLL("libm.so.6"), ctypes.c_double if dtype == "float64" else ctypes.c_float
    reference = getattr(libm, name + ("" if dtype == "float64" else "f"))
    count = 2 if name in BINARY else 1
    reference.restype, reference.argtypes = kind, [kind] * count
    line = np.array([*SPECIAL, *(-v for v in SPECIAL)]).astype(dtype).tolist()
    function, least = compiled(name, dtype), float(np.finfo(dtype).tiny)
    for given in [(x,) for x in line] if count == 1 else [(x, y) for x in line for y in line]:
        libm.feclearexcept(61)
        want = reference(*given)
        flags = libm.fetestexcept(29)
        arrays = [np.full(9, v, dtype) for v in given]
        libm.feclearexcept(61)
        found = function(*arrays)
        raised = libm.fetestexcept(29)
        libm.feclearexcept(61)
        assert found.tobytes() == np.full(9, found[0]).tobytes()
        assert raised & ~16 == flags & ~16, (given, raised, flags)
        small = any(0 < abs(v) < least for v in (*given, want))
        assert raised & 16 == flags & 16 or small, (given, raised, flags)
        got = float(found[0])
        if math.isfinite(want):
            assert abs(got - want) <= 4 * np.spacing(np.array(abs(want), dtype)), (given, got, want)
        assert math.isnan(want) == math.isnan(got) and math.isinf(want) == math.isinf(got), (given, got, want)
        assert math.isnan(want) or math.copysign(1, want) == math.copysign(1, got), (given, got, want)


# -- machines --------------------------------------------------------------------------------------------

VARIANTS = [("x86-64", 1, True), ("AVX", 4, True), ("AVX2", 8, True), ("AVX-512", 16, True),
            ("AVX2", 1, False), ("AVX-512", 8, False)]
"""Machines, lanes, and whether floating-point flags are read, as they are not on a GPU."""


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", table.TABLE)
def test_the_same_bits_on_every_machine(name: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    zeros = np.array([0.0, -0.0, 0.0, -0.0, 1.0], dtype)
    given = [np.concatenate([x, zeros]) for x in operands(name, dtype, 300)]
    want = compiled(name, dtype)(*given)
    for machine, lanes, flags in VARIANTS:
        if runs(machine):
            target = replace(MACHINES[machine], lanes=lanes, flags=flags)
            monkeypatch.setattr(codegen, "host", lambda target=target: target)
            assert same(Compiled(name, dtype)(*given), want).all(), (machine, lanes)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="reads x86's floating-point flags")
@pytest.mark.parametrize("machine", ["AVX2", "AVX-512"])
@pytest.mark.parametrize("name", BINARY)
def test_infinities_beside_each_other_raise_no_flag(name: str, machine: str,
                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors without masks compute what no lane takes."""
    if not runs(machine):
        pytest.skip(f"this processor has no {machine}")
    monkeypatch.setattr(codegen, "host", lambda: MACHINES[machine])
    function, libm = Compiled(name, "float64"), ctypes.CDLL("libm.so.6")
    x = np.array([math.inf, -math.inf, 2.0, -math.inf] * 4)
    libm.feclearexcept(61)
    function(x, -x[::-1].copy())
    function(x, -x)
    raised = libm.fetestexcept(29)
    libm.feclearexcept(61)
    assert not raised & ~16


@for_each("dtype", ["float64", "float32"])
@for_each("name", table.TABLE)
def test_no_library_is_called(name: str, dtype: str) -> None:
    text = nest.emit(body(name, dtype), MACHINES["AVX2"])
    outside = [line for line in text.splitlines() if line.startswith("declare") and "@llvm." not in line]
    assert not outside

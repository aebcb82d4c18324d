"""Complex transcendental functions in LLVM IR: errors, special values, flags, the same bits everywhere."""

from __future__ import annotations

import ctypes
import platform
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from diffuse.kernels.body import operations
from diffuse.kernels.body.expr import Body
from diffuse.kernels.build import codegen, routines
from diffuse.kernels.llvm import nest
from diffuse.kernels.llvm.code import COMPONENT
from diffuse.kernels.meaning import complexes
from tests import machine_code, test_lowering
from tests.around import around
from tests.each import for_each
from tests.test_lowering import MACHINES, precisely, runs
from tests.test_ptx_machine import launch

Array = np.ndarray[Any, np.dtype[Any]]

UNITS = {"sqrt": 2.5, "exp": 3.0, "log": 2.3, "sin": 3.3, "cos": 3.3, "tan": 6.0, "sinh": 3.3, "cosh": 3.3,
         "tanh": 6.0, "arcsin": 3.7, "arccos": 3.7, "arctan": 3.0, "arcsinh": 3.7, "arccosh": 3.7,
         "arctanh": 3.5}
"""Errors of each part in units in the last place: a little more than the largest of some 100,000 operands.
The C library's are about the same, between 0.9 less (exp) and 2.7 more (arctanh)."""
OTHERS = ("exp2", "expm1", "log1p", "log2", "log10", "power", "sign")
DTYPES = ("complex128", "complex64")


quiet = around(np.errstate, all="ignore")


def body(name: str, dtype: str) -> Body:
    count = 2 if name == "power" else 1
    return test_lowering.body([dtype], (dtype,) * count, [(name, dtype, tuple(range(count)))])


@cache
def compiled(name: str, dtype: str) -> Any:
    made = body(name, dtype)
    return made, machine_code.native(made)


def computed(name: str, *given: Array) -> Array:
    dtype = given[0].dtype.name
    made, native = compiled(name, dtype)
    return test_lowering.run(made, list(given), [dtype], native)[0]


def operands(dtype: str, count: int) -> Array:
    """Ordinary numbers, numbers near the unit circle and near 1, and numbers of all magnitudes."""
    draw, far = np.random.default_rng(4), 1020 if dtype == "complex128" else 120

    def signs() -> Array:
        return draw.choice([-1.0, 1.0], count)

    def sizes(low: float, high: float) -> Array:
        return 2.0 ** draw.uniform(low, high, count) * signs()

    circle = (1 + draw.choice([1e-3, 1e-8, 1e-15, 0.1], count) * draw.normal(size=count)) * np.exp(
        1j * draw.uniform(-np.pi, np.pi, count))
    found = [sizes(-7, 7) + 1j * sizes(-7, 7), sizes(-2, 2) + 1j * sizes(-2, 2), circle,
             signs() * (1 + sizes(-53, -1)) + 1j * sizes(-far // 2, 2),
             sizes(-far, far) + 1j * sizes(-far, far)]
    return np.concatenate(found).astype(dtype)


def special(dtype: str) -> Array:
    f = np.finfo(COMPONENT[dtype])
    line = np.array([0.0, 1.0, 0.5, 3.0, 1e-20, 1e10, 709.7, 800.0, np.inf, np.nan, f.max, f.tiny], f.dtype)
    line = np.concatenate([line, -line])
    found = np.empty(line.size ** 2, dtype)
    found.real, found.imag = np.repeat(line, line.size), np.tile(line, line.size)
    return found


def units(found: Array, want: Array, dtype: str) -> Any:
    """Errors in units in the last place, where both are finite."""
    f = np.finfo(dtype)
    numbers = np.isfinite(want.astype(dtype)) & np.isfinite(found)
    unit = np.ldexp(np.longdouble(1), np.frexp(np.maximum(np.abs(want), f.tiny))[1] - f.nmant - 1)
    return np.where(numbers, np.abs(found - want) / unit, 0)


@for_each("dtype", DTYPES)
@for_each("name", UNITS)
def test_errors_of_each_part(name: str, dtype: str) -> None:
    x = operands(dtype, 6000)
    found, want = computed(name, x), precisely(name, [x.astype(np.clongdouble)])
    for got, exact in ((found.real, want.real), (found.imag, want.imag)):
        errors = units(got, exact, COMPONENT[dtype])
        worst = int(np.argmax(errors))
        assert errors[worst] < UNITS[name], (x[worst], found[worst], want[worst])
        rounded = exact.astype(COMPONENT[dtype])
        assert np.array_equal(np.isnan(got), np.isnan(rounded))
        ends = np.isinf(got) != np.isinf(rounded)  # an overflow of the last bit
        assert (np.abs(rounded[ends]) > np.finfo(COMPONENT[dtype]).max * 0.999).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_powers_are_as_close_as_numpys(dtype: str) -> None:
    """An error of the logarithm grows with the exponent."""
    draw = np.random.default_rng(8)
    x, y = ((draw.normal(size=9000) + 1j * draw.normal(size=9000)).astype(dtype) for _ in "ab")
    y *= draw.choice([1, 3, 10], 9000).astype(COMPONENT[dtype])
    exact = np.power(x.astype(np.clongdouble), y.astype(np.clongdouble))
    found = computed("power", x, y), np.power(x, y)
    ordinary = np.isfinite(np.abs(found[0]) + np.abs(found[1])) & (np.abs(exact) > np.finfo(dtype).tiny)
    ours, numpys = (np.abs(z - exact)[ordinary] / np.abs(exact)[ordinary] for z in found)
    assert np.median(ours) < 1.1 * np.median(numpys) and ours.max() < 1.5 * numpys.max()


@pytest.mark.parametrize("dtype", DTYPES)
def test_square_roots_and_signs_have_numpys_bits(dtype: str) -> None:
    x = np.concatenate([operands(dtype, 6000), special(dtype)])
    for name in ("sqrt", "sign"):
        got, want = computed(name, x), getattr(np, name)(x)
        same = test_lowering.same(got, want)
        assert same.all(), (name, x[~same][:3], got[~same][:3], want[~same][:3])


def interpreted(name: str, dtype: str) -> tuple[Any, list[Any]]:
    """The routine of an operation, and what the interpreter may evaluate in its place."""
    found = complexes.function(name, dtype)
    if found is None:
        pytest.skip("NumPy does not fuse products on this processor")
    types = (dtype,) * operations.TABLE[name].arity
    formula = complexes.FORMULAS.get(name)
    return (routines.routine(name, types, operations.result(name, types)),
            [found] if formula in (None, found) else [found, formula])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", complexes.OPERATIONS)
def test_formulas_of_the_interpreter_have_the_bits_of_kernels(name: str, dtype: str) -> None:
    """Elements may lie apart, and one operand may be a single number."""
    kernel, functions = interpreted(name, dtype)
    count = operations.TABLE[name].arity
    result = operations.result(name, (dtype,) * count)
    numbers, others = (np.concatenate([operands(dtype, 2000), special(dtype)]) for _ in "ab")
    np.random.default_rng(3).shuffle(others)
    pairs = np.stack([np.concatenate([numbers, np.repeat(special(dtype), 40)]),
                      np.concatenate([others, np.resize(special(dtype)[::-7], 40 * special(dtype).size)])])
    for given in (pairs, pairs[:, ::-3], (pairs[0], np.array(3 - 4j, dtype)), pairs[:, :5], pairs[:, :0]):
        want, got = np.empty(len(given[0]), result), np.empty(2 * len(given[0]), result)[::2]
        kernel(*given[:count], out=want)
        for function in functions:
            function(*given[:count], out=got)
            same = test_lowering.same(got, want)
            assert same.all(), (given[0][~same][:3], got[~same][:3], want[~same][:3])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", complexes.FORMULAS)
def test_formulas_of_the_interpreter_raise_the_flags_of_kernels(name: str, dtype: str) -> None:
    """The flag of underflow may differ."""
    kernel, functions = interpreted(name, dtype)
    count = operations.TABLE[name].arity
    numbers, others = special(dtype), special(dtype)
    np.random.default_rng(5).shuffle(others)
    for k in range(numbers.size):
        given = [numbers[k:k + 1], others[k:k + 1]][:count]
        out = np.empty(1, operations.result(name, (dtype,) * count))
        routines.flags().clear()
        kernel(*given, out=out)
        expected = {*routines.flags().raised(), "underflow"}
        for function in functions:
            raised = {"underflow"}
            with np.errstate(all="call", call=lambda kind, _, raised=raised: raised.add(kind)):
                function(*given, out=out)
            assert raised == expected, (function, given)


class Pair128(ctypes.Structure):
    _fields_ = [("real", ctypes.c_double), ("imag", ctypes.c_double)]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="reads x86's floating-point flags")
@pytest.mark.parametrize("name", UNITS)
def test_special_values_and_flags_are_those_of_libm(name: str) -> None:
    """The flag of underflow may differ."""
    libm = ctypes.CDLL("libm.so.6")
    short = {"arcsin": "asin", "arccos": "acos", "arctan": "atan", "arcsinh": "asinh", "arccosh": "acosh",
             "arctanh": "atanh"}.get(name, name)
    reference = getattr(libm, "c" + short)
    reference.restype, reference.argtypes = Pair128, [Pair128]
    wrong = []
    for x in special("complex128").tolist():
        libm.feclearexcept(61)
        want = reference(Pair128(x.real, x.imag))
        flags = libm.fetestexcept(13)
        given = np.full(9, x)
        libm.feclearexcept(61)
        found = computed(name, given)
        raised = libm.fetestexcept(13)
        libm.feclearexcept(61)
        exact = np.array([want.real + 0j])
        exact.real, exact.imag = want.real, want.imag
        close = test_lowering.same(found[:1], exact) | (test_lowering.distance(found[:1], exact) <= 6)
        if not close[0] or flags != raised or found.tobytes() != np.full(9, found[0]).tobytes():
            wrong.append((x, found[0], complex(want.real, want.imag), flags, raised))
    assert not wrong, wrong


WRITTEN = [*[(name, "complex128") for name in (*UNITS, *OTHERS)], ("exp", "complex64"), ("sqrt", "complex64"),
           ("power", "complex64")]
"""Other functions of complex64 are written as those of complex128, between two conversions."""
VARIANTS = [("x86-64", 1, True), ("AVX2", 4, True), ("AVX-512", 16, True), ("AVX-512", 1, False)]
"""Machines, lanes, and whether floating-point flags are read, as they are not on a GPU."""


@pytest.mark.parametrize("name, dtype", WRITTEN)
def test_the_same_bits_on_every_machine(name: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.concatenate([operands(dtype, 50), special(dtype)])
    given = [x, x[::-1].copy()][:2 if name == "power" else 1]
    want = computed(name, *given)
    for machine, lanes, flags in VARIANTS:
        if runs(machine):
            target = replace(MACHINES[machine], lanes=lanes, flags=flags)
            monkeypatch.setattr(codegen, "host", lambda target=target: target)
            made = body(name, dtype)
            native = machine_code.native(made)
            (found,) = test_lowering.run(made, given, [dtype], native)
            assert test_lowering.same(found, want).all(), (machine, lanes)


@pytest.mark.parametrize("name, dtype", WRITTEN)
def test_gpus_have_the_hosts_bits_and_no_library_is_called(name: str, dtype: str) -> None:
    text = nest.emit(body(name, dtype), MACHINES["AVX2"])
    assert not [line for line in text.splitlines() if line.startswith("declare") and "@llvm." not in line]
    x = np.concatenate([operands(dtype, 20), special(dtype)])
    given = [x, x[::-1].copy()][:2 if name == "power" else 1]
    out = np.zeros_like(x)
    words = [word for a in (*given, out) for word in (a.ctypes.data, a.itemsize)]
    launch(body(name, dtype), [1, out.size, out.size, *words], (out.size,), [*given, out])
    assert test_lowering.same(out, computed(name, *given)).all()

"""`diffuse.scipy.special` against SciPy, against values of many digits, and against itself: compiled and
interpreted, alone and fused, first and last in an array."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy
import pytest

import diffuse
import diffuse.numpy as np
from diffuse.kernels.build import routines
from diffuse.kernels.meaning import interpret
from diffuse.numpy.bridge import fallback
from diffuse.settings import using

real = pytest.importorskip("scipy.special")

from diffuse.scipy import special  # noqa: E402 (they need SciPy)
from diffuse.scipy.special import ufuncs  # noqa: E402 (they need SciPy)
from tests.each import for_each  # noqa: E402
from tests.outcomes import silent, unwarned  # noqa: E402

VALUES = Path(__file__).parent / "golden" / "test_scipy_special" / "values.txt"
"""Function, argument, value to 22 digits, computed with mpmath in 60-digit arithmetic."""

NAMES = sorted(set(ufuncs.UFUNCS) - {"psi"})
ULPS = {"ndtr": 5, "log_ndtr": 5, "gamma": 5}
"""Allowed units in the last place where it is not 4."""

inf, nan = numpy.inf, numpy.nan
SPECIALS = numpy.array([
    0.0, -0.0, 1, -1, 2, -2, 3, -3, 0.5, -0.5, 0.25, 0.75, inf, -inf, nan, 171.7, -171.7, -180.5, 1e-300,
    -1e-300, 1e-20, 1e-8, -1e-8, 1e20, -1e20, 1e37, -1e37, 700, -700, 709.9, 712, 745, -746, 1023, 1024, 308,
    26.5, -26.7, 27.3, -38.5, 40, 1e19, -3e18, 8, 24, 23.999, 1e5, 4, 6, 1.5, -1.5, -2.5, 1.4616321449683623])


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    fallback.forget_warnings()
    yield


def arguments(name: str, dtype: str = "float64") -> list[Any]:
    """Special values and ordinary ones; all pairs of them for functions of two."""
    random = numpy.random.default_rng(3)
    line = numpy.concatenate([SPECIALS, random.normal(size=40) * 3, random.random(40)]).astype(dtype)
    if ufuncs.UFUNCS[name].nin == 1:
        return [line]
    return [numpy.repeat(line, line.size), numpy.tile(line, line.size)]


def same(a: Any, b: Any) -> Any:
    """Equal to the bit, where one NaN is like another."""
    return ((a == b) & (numpy.signbit(a) == numpy.signbit(b))) | (numpy.isnan(a) & numpy.isnan(b))


def close(name: str, got: Any, want: Any) -> None:
    assert got.dtype == want.dtype and got.shape == want.shape
    tolerance = 3e-12 if got.dtype == "float64" else 3e-7
    finite = numpy.isfinite(got) & numpy.isfinite(want) & (want != 0)
    with numpy.errstate(all="ignore"):
        near = finite & (abs(got - want) <= tolerance * abs(want))
    wrong = ~(same(got, want) | near)
    assert not wrong.any(), (name, got[wrong][:5], want[wrong][:5])


def compute(name: str, arrays: list[Any]) -> Any:
    return numpy.asarray(getattr(special, name)(*[np.array(a) for a in arrays]))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@for_each("name", NAMES)
def test_values_and_special_values_are_scipys(name: str, dtype: str, threshold: None) -> None:
    arrays = arguments(name, dtype)
    with unwarned():
        close(name, compute(name, arrays), getattr(real, name)(*arrays))


@for_each("name", sorted({line.split()[0] for line in VALUES.read_text().splitlines()}))
def test_values_are_within_four_units_in_the_last_place(name: str) -> None:
    rows = [line.split() for line in VALUES.read_text().splitlines() if line.split()[0] == name]
    with using(small=0):
        got = compute(name, [numpy.array([float(x) for _, x, _ in rows])])
    for (_, x, exact), value in zip(rows, got.tolist(), strict=True):
        unit = Fraction(float(numpy.spacing(abs(float(exact)))))
        assert abs(Fraction(value) - Fraction(exact)) <= ULPS.get(name, 4) * unit, (name, x, value, exact)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@for_each("name", NAMES)
def test_compiled_and_interpreted_have_the_same_bits(name: str, dtype: str) -> None:
    arrays = arguments(name, dtype)
    operation, count = ufuncs.UFUNCS[name].operation, arrays[0].size
    signature = (dtype,) * (len(arrays) + 1)
    compiled, interpreted = (numpy.empty(count, dtype) for _ in range(2))
    routines.routine(operation, signature[:-1], dtype)(*arrays, out=compiled)
    words = [w for a in (*arrays, interpreted) for w in (a.ctypes.data, a.itemsize)]
    interpret.point(routines.body(operation, signature[:-1], dtype), [1, count, count, *words], 0)
    assert same(compiled, interpreted).all()


@for_each("name", NAMES)
def test_a_result_does_not_depend_on_its_place(name: str) -> None:
    arrays = [a[:61] for a in arguments(name)]
    with using(small=0):
        whole = compute(name, arrays)
        for first, count in ((0, 1), (3, 1), (1, 7), (2, 9), (5, 33), (60, 1)):
            part = compute(name, [a[first:first + count] for a in arrays])
            assert same(part, whole[first:first + count]).all()


@for_each("name", NAMES)
def test_small_arrays_have_scipys_bits(name: str) -> None:
    arrays = arguments(name)
    with numpy.errstate(all="ignore"), using(small=1 << 20):
        out, plain = np.zeros(arrays[0].size), getattr(special, name)(*[np.array(a) for a in arrays])
        getattr(special, name)(*[np.array(a) for a in arrays], out=out)
        wanted = getattr(real, name)(*arrays)
    assert same(numpy.array(plain), wanted).all() and same(numpy.array(out), wanted).all()


def test_a_chain_of_them_is_one_task() -> None:
    x = np.linspace(0.1, 5.0, 50_000) + 0.0
    diffuse.fence()
    already = len(diffuse.explain().plans)
    y = special.gamma(x) * 2 + special.ndtr(x) - special.xlogy(x, x + 1)
    total = numpy.asarray(y)
    plain = numpy.asarray(x)
    want = real.gamma(plain) * 2 + real.ndtr(plain) - real.xlogy(plain, plain + 1)
    assert numpy.allclose(total, want, rtol=1e-13, atol=0)
    plans = diffuse.explain().plans[already:]
    assert [p.operations.count("special.gamma") for p in plans] == [1]
    assert {"special.ndtr", "special.xlogy", "multiply", "subtract"} <= set(plans[0].operations)
    assert plans[0].loops == 1 and plans[0].vanished >= 5


@for_each("dtype", ["bool", "int8", "uint8", "int16", "uint16", "int32", "int64", "uint64",
                    "float16", "float32"])
@for_each("name", ["gamma", "expit", "xlogy", "entr", "psi"])
def test_types_promote_as_scipys(name: str, dtype: str, threshold: None) -> None:
    function = getattr(special, name)
    arrays = [numpy.array([1, 0, 1, 3, 5]).astype(dtype)] * function.nin
    want = getattr(real, name)(*arrays)
    close(name, numpy.asarray(function(*[np.array(a) for a in arrays])), want)
    mixed = (numpy.array([1.5, 2.5, 3.5, 4.5, 5.5]), *arrays[1:])
    assert function(*[np.array(a) for a in mixed]).dtype == getattr(real, name)(*mixed).dtype


def test_scalars_lists_and_arrays_of_no_dimension(threshold: None) -> None:
    assert special.gamma(5.0) == 24.0 and isinstance(special.gamma(5.0), numpy.float64)
    assert type(special.gamma(numpy.float32(3))) is numpy.float32
    found = special.gamma([[1, 2], [3, 4]])
    assert isinstance(found, np.ndarray) and found.tolist() == [[1, 1], [2, 6]]
    assert isinstance(special.gamma(numpy.arange(1.0, 4)), np.ndarray)
    point = special.gamma(np.array(5.0))
    assert point == 24.0 and numpy.shape(point) == ()
    assert special.xlogy(2, np.ones(3)).tolist() == [0, 0, 0]
    single = numpy.ones(3, "float32")
    assert special.xlogy(np.array(single), 2.0).dtype == real.xlogy(single, 2.0).dtype
    assert special.gamma(np.empty((0, 3))).shape == (0, 3)


def test_factorials_are_exact(threshold: None) -> None:
    n = numpy.arange(1.0, 19.0)
    factorials = numpy.cumprod(numpy.append(1, n[:-1]))
    assert numpy.array_equal(numpy.asarray(special.gamma(np.array(n))), factorials)


def test_shapes_and_layouts(threshold: None) -> None:
    x = numpy.linspace(0.5, 3, 24).reshape(4, 6)
    y = numpy.linspace(1, 2, 6)
    close("xlogy", numpy.asarray(special.xlogy(np.array(x), np.array(y))), real.xlogy(x, y))
    for view in (x.T, x[::-1, ::2], numpy.asfortranarray(x)):
        got, want = special.gamma(np.array(view)), real.gamma(view)
        close("gamma", numpy.asarray(got), want)
    assert special.gamma(np.asfortranarray(np.array(x))).flags.f_contiguous
    with pytest.raises(ValueError, match="could not be broadcast"):
        special.xlogy(np.ones(3), np.ones(4))


def test_out_where_dtype_and_casting(threshold: None) -> None:
    x = numpy.linspace(0.5, 3, 7)
    a = np.array(x)
    out = np.zeros(7)
    assert special.gamma(a, out=out) is out and special.gamma(a, out) is out
    close("gamma", numpy.asarray(out), real.gamma(x))
    mask = numpy.array([True, False] * 3 + [True])
    special.gamma(a, out=out, where=np.array(mask))
    out = np.full(7, -1.0)
    special.gamma(a, out=(out,), where=np.array(mask))
    close("gamma", numpy.asarray(out), numpy.where(mask, real.gamma(x), -1.0))  # SciPy 1.17 shifts its mask
    single = np.zeros(7, "float32")
    special.gamma(a, out=single, casting="same_kind")
    close("gamma", numpy.asarray(single), real.gamma(x).astype("float32"))
    assert special.gamma(a, dtype="float32").dtype == "float32"
    special.gamma(a, out=a)
    close("gamma", numpy.asarray(a), real.gamma(x))
    host = numpy.zeros(7)
    special.expit(np.array(x), out=host)
    close("expit", host, real.expit(x))


@pytest.mark.parametrize("call", [
    lambda m, s: s.gamma(m.ones(3), out=m.zeros(3, "int64")),
    lambda m, s: s.gamma(m.ones(3), out=m.zeros(4)),
    lambda m, s: s.gamma(m.ones(3), dtype="float32", casting="safe"),
    lambda m, s: s.gamma(m.ones(3), m.ones(3), m.ones(3)),
    lambda m, s: s.gamma(),
    lambda m, s: s.xlogy(m.ones(3), m.ones(4)),
])
def test_errors_are_scipys(call: Any, threshold: None) -> None:
    with pytest.raises((TypeError, ValueError)) as theirs:
        call(numpy, real)
    with pytest.raises(theirs.type) as ours:
        call(np, special)
    assert str(ours.value).partition("(")[0] == str(theirs.value).partition("(")[0]


def test_complex_and_long_double_arrays_are_scipys_with_a_warning() -> None:
    with using(small=0, fallback="warn"):
        z = numpy.linspace(0.5, 3, 50) + 1j
        with pytest.warns(RuntimeWarning, match="scipy.special.gamma runs by"):
            found = special.gamma(np.array(z))
        assert isinstance(found, np.ndarray)
        assert numpy.array_equal(numpy.asarray(found), real.gamma(z))
        with pytest.warns(RuntimeWarning, match="scipy.special.jv runs by"):
            found = special.jv(2, np.array(z.real))
        assert numpy.array_equal(numpy.asarray(found), real.jv(2, z.real))
    wide = numpy.linspace(0, 1, 5).astype("longdouble")
    assert special.expit(wide).dtype == "longdouble"


@for_each("call", [
    lambda s, x: s.xlogy(x, x) * 2, lambda s, x: s.gamma(x - 2) + x, lambda s, x: s.gammaln(x - 2) + x,
    lambda s, x: s.digamma(x - 2) + x, lambda s, x: s.logit(x / 4) + x, lambda s, x: s.log1p(x - 1) + x,
    lambda s, x: s.entr(x) * x, lambda s, x: s.rel_entr(x, x + 1) * x, lambda s, x: s.kl_div(x, x + 1) * x,
    lambda s, x: s.expm1(x * 400) + x, lambda s, x: s.exprel(x) * x, lambda s, x: s.ndtri(x / 4) + x,
    lambda s, x: s.log_ndtr(x * 30 - 60) * x, lambda s, x: s.erfcx(x * 30 - 60) + x,
    lambda s, x: s.pseudo_huber(x, x) + x, lambda s, x: s.huber(x, x) + x, lambda s, x: s.ndtr(x) * x,
    lambda s, x: s.boxcox(x + 1, x) + x, lambda s, x: s.erfc(x * 6) * x, lambda s, x: s.expit(x * 400) * x,
    lambda s, x: s.i0(x * 400) + x, lambda s, x: s.exp10(x * 200) + x, lambda s, x: s.exp2(x * 600) + x])
def test_poles_and_overflow_are_silent_as_in_scipy(call: Any) -> None:
    """Also fused with operations that would be blamed for the flags of others."""
    x = np.arange(20_000) % 9 * 0.5
    with using(small=0), silent():
        got = numpy.asarray(call(special, x))
        diffuse.fence()
    with numpy.errstate(all="ignore"):
        want = call(real, numpy.arange(20_000) % 9 * 0.5)
    assert numpy.allclose(got, want, rtol=1e-12, atol=0, equal_nan=True)


SUMS = [numpy.linspace(-700, 800, 60).reshape(3, 4, 5), numpy.full((3, 4), -inf),
        numpy.array([[1, inf], [nan, 2]]), numpy.arange(6).reshape(2, 3),
        numpy.linspace(0, 1, 7, dtype="float32")]


@pytest.mark.parametrize("values", SUMS, ids=range(len(SUMS)))
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp"])
def test_exponential_sums(name: str, values: Any, threshold: None) -> None:
    with unwarned():
        for axis in (None, 0, -1, tuple(range(values.ndim))):
            options: list[dict[str, Any]] = [{}] + [{"keepdims": True}] * (name == "logsumexp")
            for extra in options:
                got = numpy.asarray(getattr(special, name)(np.array(values), axis=axis, **extra))
                want = numpy.asarray(getattr(real, name)(values, axis=axis, **extra))
                assert got.dtype == want.dtype and got.shape == want.shape
                tolerance = 1e-13 if got.dtype == "float64" else 1e-5
                assert numpy.allclose(got, want, rtol=tolerance, atol=tolerance * 1e-3, equal_nan=True)


def test_weights_and_signs_of_exponential_sums_are_scipys() -> None:
    x, weights = numpy.arange(4.0), numpy.array([1, -2, 3, 0.5])
    value, sign = special.logsumexp(np.array(x), b=np.array(weights), return_sign=True)
    want = real.logsumexp(x, b=weights, return_sign=True)
    assert (float(value), float(sign)) == tuple(map(float, want))
    assert float(special.logsumexp([0.0, 0.0])) == pytest.approx(numpy.log(2))
    assert special.softmax(np.arange(3.0) + 1j).dtype == "complex128"


def test_softplus_and_sinc(threshold: None) -> None:
    x = numpy.linspace(-50, 50, 101)
    if hasattr(real, "softplus"):
        got = numpy.asarray(special.softplus(np.array(x)))
        assert numpy.allclose(got, real.softplus(x), rtol=1e-15, atol=0)
    assert numpy.allclose(numpy.asarray(special.sinc(np.array(x))), real.sinc(x), rtol=1e-15, atol=1e-17)


def test_the_namespace_is_scipys() -> None:
    missing = [name for name in real.__all__ if getattr(special, name, None) is None]
    assert not missing and set(dir(special)) == set(real.__all__)
    assert special.psi is special.digamma and special.gamma.numpy is real.gamma
    assert special.comb(5, 2) == 10 and special.SpecialFunctionWarning is real.SpecialFunctionWarning
    assert pickle.loads(pickle.dumps(special.gamma)) is special.gamma
    with pytest.raises(AttributeError, match="no attribute 'gama'"):
        special.gama


@pytest.mark.parametrize("name", ["erf", "gammaln", "expit"])
def test_repeated_rows_that_are_cast_keep_their_places(name: str, threshold: None) -> None:
    """A cast copy of repeated rows lies in another order than they do, and the result as of the rows."""
    rows = numpy.arange(20).reshape(4, 5)
    found = getattr(special, name)(np.broadcast_to(np.array(rows), (3, 4, 5)))
    expected = getattr(real, name)(numpy.broadcast_to(rows, (3, 4, 5)))
    assert numpy.allclose(numpy.array(found), expected)


def test_logarithms_of_the_normal_distribution_are_finite_as_far_as_they_go() -> None:
    ends = [-1e154, -1.35e154, -1.896150381621835e154, -1.8961503816218352e154, -1.9e154, -numpy.inf]
    for dtype, points in ("f8", ends), ("f4", [-2e19, -2.6e19, -2.7e19, -3e38]):
        x = numpy.array(points * 40, dtype)
        with using(small=0), numpy.errstate(all="ignore"):
            found, wanted = numpy.asarray(special.log_ndtr(np.asarray(x))), real.log_ndtr(x)
        assert numpy.array_equal(numpy.isinf(found), numpy.isinf(wanted))
        assert numpy.allclose(found[numpy.isfinite(found)], wanted[numpy.isfinite(wanted)], rtol=1e-6)

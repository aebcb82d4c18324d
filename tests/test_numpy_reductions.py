"""diffuse.numpy.ops.reductions: every reduction with every argument, against NumPy's."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse.numpy.arrays.array import ndarray
from diffuse.numpy.ops import folds, reductions
from diffuse.numpy.ops.creation import arange, ones, zeros
from diffuse.numpy.ops.operands import wrap
from diffuse.numpy.order import team
from diffuse.settings import using
from tests.each import for_each

pytestmark = pytest.mark.usefixtures("threshold")

NAMES = ("sum", "prod", "min", "max", "any", "all", "mean", "var", "std", "ptp")
DTYPES = (
    "bool",
    "int8",
    "uint16",
    "int32",
    "int64",
    "uint64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
)


def close(ours: Any, plain: Any) -> None:
    assert numpy.shape(ours) == numpy.shape(plain) and isinstance(ours, ndarray) == isinstance(
        plain, numpy.ndarray
    )
    got = numpy.asarray(ours)
    assert got.dtype == plain.dtype
    tolerance = {"float16": 2e-3, "float32": 3e-6, "complex64": 3e-6}.get(plain.dtype.name, 1e-13)
    assert numpy.allclose(got, plain, rtol=tolerance, atol=tolerance, equal_nan=True), (got, plain)


def sample(dtype: str) -> Any:
    return ((numpy.arange(24) * 7 % 5) - (0 if dtype[0] in "ub" else 1)).reshape(2, 3, 4).astype(dtype)


@for_each("name", NAMES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_axis(name: str, dtype: str) -> None:
    if (name, dtype) == ("ptp", "bool"):
        pytest.skip("NumPy has no difference of booleans")
    plain = sample(dtype)
    for axis in (None, 0, 1, -1, (0, 2), (1, 0), ()):
        for keepdims in (False, True):
            if axis == () and name in ("var", "std"):
                continue
            ours = getattr(reductions, name)(wrap(plain.copy()), axis=axis, keepdims=keepdims)
            close(ours, getattr(numpy, name)(plain, axis=axis, keepdims=keepdims))
            close(getattr(wrap(plain.copy())[::-1, :, ::2], "sum")(axis), plain[::-1, :, ::2].sum(axis))


@pytest.mark.parametrize("name", ["argmin", "argmax"])
def test_positions(name: str) -> None:
    plain = sample("float64")
    for values in (plain, plain.T, numpy.where(plain == 3, numpy.nan, plain), plain.astype(bool)):
        for axis in (None, 0, 1, -1):
            x = wrap(values.copy(order="K"))
            close(getattr(x, name)(axis=axis), getattr(values, name)(axis=axis))
            close(getattr(x, name)(axis=axis, keepdims=True), getattr(values, name)(axis=axis, keepdims=True))


@for_each("name", ["cumsum", "cumprod"])
@for_each("dtype", ["bool", "int32", "float32", "float64", "complex128"])
def test_scans(name: str, dtype: str) -> None:
    plain = sample(dtype)
    for axis in (None, 0, 1, -1):
        close(getattr(wrap(plain.copy()), name)(axis=axis), getattr(plain, name)(axis=axis))
    close(
        getattr(wrap(plain.copy()), name)(axis=0, dtype=float), getattr(plain.real, name)(axis=0, dtype=float)
    )


def test_arguments() -> None:
    plain = sample("float64")
    x, mask = wrap(plain.copy()), wrap(plain > 0)
    close(x.sum(where=mask), plain.sum(where=plain > 0))
    close(x.prod(axis=1, where=mask), plain.prod(axis=1, where=plain > 0))
    close(x.max(axis=0, initial=2, where=mask), plain.max(axis=0, initial=2, where=plain > 0))
    close(x.sum(initial=5), plain.sum(initial=5))
    close(x.min(initial=-7), plain.min(initial=-7))
    close(x.sum(dtype=numpy.float32), plain.sum(dtype=numpy.float32))
    close(wrap(plain.astype(int)).sum(dtype=float), plain.astype(int).sum(dtype=float))
    close(x.mean(where=mask), plain.mean(where=plain > 0))
    close(x.std(ddof=1), plain.std(ddof=1))
    close(x.var(axis=1, ddof=1, keepdims=True), plain.var(axis=1, ddof=1, keepdims=True))
    close(reductions.var(x, correction=1), numpy.var(plain, correction=1))
    assert reductions.count_nonzero(x) == numpy.count_nonzero(plain)
    close(reductions.count_nonzero(x, axis=1), numpy.count_nonzero(plain, axis=1))
    close(x.trace(), plain.trace())
    out = zeros((2, 4))
    assert x.sum(axis=1, out=out) is out
    close(out, plain.sum(axis=1))


def test_zero_dimensions() -> None:
    for name in ("sum", "max", "mean", "all", "std"):
        close(getattr(wrap(numpy.array(2.5)), name)(), getattr(numpy.array(2.5), name)())
    close(wrap(numpy.array(3)).sum(axis=0), numpy.array(3).sum(axis=0))


def test_empty_arrays() -> None:
    for name in ("sum", "prod", "any", "all"):
        close(getattr(zeros((0, 3)), name)(axis=0), getattr(numpy.zeros((0, 3)), name)(axis=0))
        close(getattr(zeros(0), name)(), getattr(numpy.zeros(0), name)())
    with pytest.raises(
        ValueError, match="zero-size array to reduction operation minimum which has no identity"
    ):
        zeros(0).min()
    with pytest.raises(ValueError, match="attempt to get argmax of an empty sequence"):
        zeros(0).argmax()
    with pytest.warns(RuntimeWarning, match="Mean of empty slice"):
        assert numpy.isnan(zeros(0).mean())


def test_mistakes() -> None:
    x = ones((2, 3))
    with pytest.raises(numpy.exceptions.AxisError, match="axis 2 is out of bounds for array of dimension 2"):
        x.sum(axis=2)
    with pytest.raises(ValueError, match="duplicate value in 'axis'"):
        x.sum(axis=(0, 0))
    with pytest.raises(TypeError):
        x.sum(axis=1.5)
    with pytest.raises(ValueError, match="reduction operation 'minimum' does not have an identity"):
        x.min(where=wrap(numpy.ones((2, 3), bool)))
    with pytest.raises(ValueError) as plain:
        numpy.ones((2, 3)).sum(axis=0, out=numpy.zeros(7))
    with pytest.raises(ValueError, match=re.escape(str(plain.value))):
        x.sum(axis=0, out=zeros(7))
    with pytest.raises(ValueError, match="output parameter for reduction operation add has the wrong number"):
        x.sum(axis=0, out=zeros((3, 1)))


def test_special_values() -> None:
    plain = numpy.array([1.0, numpy.nan, -numpy.inf, 3.0])
    x = wrap(plain.copy())
    for name in ("min", "max", "sum", "argmin", "argmax", "any", "all"):
        close(getattr(x, name)(), getattr(plain, name)())
    assert not numpy.asarray(wrap(numpy.array([-0.0, -0.0])).sum()).any()


@pytest.mark.parametrize("compile", ["wait", "off"])
def test_sums_of_negative_zeros_are_numpys(compile: str) -> None:
    """They are 0.0, as a sum starts from it, and running sums and products are not."""
    calls: Any = [
        lambda m, x: x.sum(), lambda m, x: x.sum(0), lambda m, x: x.sum(1), lambda m, x: x.mean(axis=1),
        lambda m, x: x[:, :1].sum(axis=1), lambda m, x: x[:1].sum(axis=0), lambda m, x: m.trace(x),
        lambda m, x: m.nansum(x, axis=0), lambda m, x: m.add.reduce(x, axis=()), lambda m, x: x.cumsum(0),
        lambda m, x: x.sum(where=x == 0), lambda m, x: x.sum(axis=0, initial=-0.0), lambda m, x: x.prod(0),
        lambda m, x: x[0, 0].sum(), lambda m, x: m.dot(x[0], m.ones(x.shape[1])), lambda m, x: x.cumsum()]
    with using(small=0, compile=compile):
        for shape in ((3, 40), (40, 3), (70, 65)):
            for dtype in ("f8", "f4", "c16"):
                x = numpy.full(shape, -0.0 if dtype[0] == "f" else complex(-0.0, -0.0), dtype)
                for k, call in enumerate(calls):
                    if dtype[0] == "f" or k not in (11, 12, 14):
                        found, wanted = numpy.asarray(call(np, np.array(x))), numpy.asarray(call(numpy, x))
                        assert found.tobytes() == wanted.tobytes(), (shape, dtype, k)


def test_large_reductions_are_as_accurate_as_numpys() -> None:
    plain = numpy.random.default_rng(1).random(300003)
    x = wrap(plain.copy())
    exact = float(numpy.sum(plain.astype(numpy.longdouble)))
    assert abs(float(x.sum()) - exact) <= 2e-13 * exact
    assert x.max() == plain.max() and x.argmin() == plain.argmin()
    close(x.reshape(3, -1)[:, :100000].sum(axis=1), plain.reshape(3, -1)[:, :100000].sum(axis=1))
    assert abs(float(folds.product(x, x)) - plain @ plain) < 1e-8
    assert abs(float(x.std()) - plain.std()) < 1e-14


def test_results_feed_later_work_without_waiting() -> None:
    x = arange(100000.0)
    normed = (x - x.mean()) / x.std()
    plain = numpy.arange(100000.0)
    close(normed, (plain - plain.mean()) / plain.std())


@pytest.mark.parametrize("first, second", [("D", "D"), ("F", "F"), ("D", "d"), ("f", "D"), ("F", "l")])
def test_vdot_conjugates_its_first_operand(first: str, second: str) -> None:
    rng = numpy.random.default_rng(2)
    x, y = ((rng.standard_normal((40, 50)) * 9 + 1j * rng.standard_normal((40, 50))) for _ in "xy")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", numpy.exceptions.ComplexWarning)
        x, y = x.astype(first), y.astype(second)
    got, want = np.vdot(wrap(x.copy())[::2], wrap(y.copy())[::2]), numpy.vdot(x[::2], y[::2])
    assert got.dtype == want.dtype and abs(complex(got) - want) <= 1e-5 * abs(want)


@for_each("dtype", "efdFD")
@for_each("modes", ["warn", "raise"])
def test_vdot_never_warns(dtype: str, modes: str) -> None:
    large = numpy.full(3000, numpy.finfo(dtype).max, dtype)
    with warnings.catch_warnings(), np.errstate(all=modes):
        warnings.simplefilter("error" if modes == "raise" else "always")
        with warnings.catch_warnings(record=True) as seen:
            found = [complex(np.vdot(x, x)) for x in (wrap(large), wrap(large.reshape(-1, 8).copy()).T)]
    assert not seen and all(numpy.isinf(value.real) for value in found)


@for_each("dtype", "fdFD")
@for_each("shape", [(700,), (20, 30)])
def test_norms_of_small_arrays_have_numpys_bits(dtype: str, shape: tuple[int, ...]) -> None:
    rng = numpy.random.default_rng(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", numpy.exceptions.ComplexWarning)
        plain = (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)
    with using(small=10_000):
        for options in ({}, {"axis": 0}, {"axis": -1, "ord": 1}, {"keepdims": True}):
            got, want = np.linalg.norm(wrap(plain.copy()), **options), numpy.linalg.norm(plain, **options)
            assert got.dtype == want.dtype and (numpy.asarray(got) == want).all()


def test_threads_count_the_true_elements_of_many_floats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reductions, "MANY", 64)
    monkeypatch.setattr(reductions, "BLOCK", 100)
    monkeypatch.setattr(team, "SHARE", 50)
    monkeypatch.setattr(team, "threads", lambda: 3)
    numbers = numpy.arange(720) % 5
    for dtype in ("float64", "float32", "float16", "int8", "complex64", "bool"):
        plain = numbers.astype(dtype)
        if plain.dtype.kind in "fc":
            plain[3::11], plain[::13] = numpy.nan, -0.0
        for view in (plain, plain.reshape(20, 36).T, plain[::3], plain.reshape(4, 30, 6)[:, ::2]):
            found = reductions.count_nonzero(wrap(view))
            assert found == numpy.count_nonzero(view) and type(found) is type(numpy.count_nonzero(view))

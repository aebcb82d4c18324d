"""`reduce` and `accumulate` of the ufuncs that kernels fold with, on arrays of every element type."""

from __future__ import annotations

import warnings
from typing import Any

import numpy
import pytest

import diffuse.numpy as dnp
from diffuse.kernels.body.operations import FOLDS
from diffuse.settings import using
from tests.each import for_each

DTYPES = "bool int8 uint16 int32 int64 uint64 float32 float64 complex128".split()
CALLS = {
    "accumulate": lambda f, x, mask: f.accumulate(x),
    "accumulate, last axis": lambda f, x, mask: f.accumulate(x, axis=-1),
    "accumulate, reversed": lambda f, x, mask: f.accumulate(x.ravel()[::-1]),
    "accumulate, type": lambda f, x, mask: f.accumulate(x, 1, "int64"),
    "reduce": lambda f, x, mask: f.reduce(x),
    "reduce, all": lambda f, x, mask: f.reduce(x, axis=None),
    "reduce, kept": lambda f, x, mask: f.reduce(x, axis=1, keepdims=True),
    "reduce, first": lambda f, x, mask: f.reduce(x, axis=0, initial=1),
    "reduce, where": lambda f, x, mask: f.reduce(x, axis=0, where=mask),
}


def sample(dtype: str) -> Any:
    r = numpy.random.default_rng(5)
    values = r.integers(-100, 100, (220, 110)) / (7 if dtype[0] in "fc" else 1)
    if dtype[0] == "f":
        values[r.random(values.shape) < 0.05] = values[:, 7] = numpy.nan
    if dtype == "bool":
        return values > -90
    return values.astype("int64" if dtype[0] in "iu" else dtype).astype(dtype)


def outcome(call: Any, np: Any, name: str, plain: Any) -> Any:
    mask = np.array(numpy.random.default_rng(6).random(plain.shape) < 0.5)
    with warnings.catch_warnings(), numpy.errstate(all="ignore"), using(fallback="error"):
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            found = numpy.asarray(call(getattr(np, name), np.array(plain), mask))
        except (TypeError, ValueError) as error:
            return type(error), str(error)
    return found.dtype, found.shape, found.strides, found.copy()


@for_each("compile", ["wait", "off"])
@for_each("name", sorted(set(FOLDS.values()) - {"multiply"}))
def test_ufuncs_fold_as_numpys_do(name: str, compile: str) -> None:
    with using(compile=compile):
        for dtype in DTYPES:
            plain = sample(dtype)
            for said, call in CALLS.items():
                ours, numpys = outcome(call, dnp, name, plain), outcome(call, numpy, name, plain)
                assert ours[:3] == numpys[:3], (dtype, said)
                if len(numpys) > 2:
                    off = 0 if name != "add" else 1e-3 if dtype == "float32" else 1e-11
                    numpy.testing.assert_allclose(ours[3], numpys[3], off, off, err_msg=f"{dtype} {said}")


def test_running_values_of_elements_that_are_not_aligned_lie_as_numpys() -> None:
    def found(np: Any) -> Any:
        raw = np.zeros(24 * 8 + 1, "u1")[1:]
        x = raw.view("f8").reshape(2, 3, 4)
        x[...] = np.array(numpy.arange(24.0).reshape(2, 3, 4))
        turned = np.swapaxes(x, 1, 2)
        return np.add.accumulate(turned), np.cumsum(turned, axis=1)

    with using(small=0):
        for ours, numpys in zip(found(dnp), found(numpy), strict=True):
            assert ours.strides == numpys.strides and numpy.array_equal(numpy.asarray(ours), numpys)


@for_each("dtype", ["int8", "uint32", "int64", "float32", "float64"])
@for_each("name", ["maximum", "minimum", "fmax", "fmin", "bitwise_xor", "logical_and"])
def test_running_values_of_whole_vectors_have_numpys_bits(name: str, dtype: str) -> None:
    """Of lengths around those of vectors, with NaN of both signs and zeros of both."""
    r = numpy.random.default_rng(7)
    if dtype[0] == "f" and name == "bitwise_xor":
        pytest.skip("floats have no such ufunc")
    with using(compile="wait", small=0), numpy.errstate(invalid="ignore"):
        for size in (1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 64, 1000):
            for share in (0.0, 0.05, 0.6):
                plain = r.integers(-3, 4, size).astype(dtype)
                if dtype[0] == "f":
                    plain[r.random(size) < share] = numpy.nan
                    plain *= numpy.where(r.random(size) < 0.5, -1, 1).astype(dtype)
                expected = getattr(numpy, name).accumulate(plain)
                found = numpy.asarray(getattr(dnp, name).accumulate(dnp.array(plain)))
                assert found.tobytes() == expected.tobytes(), (size, share)

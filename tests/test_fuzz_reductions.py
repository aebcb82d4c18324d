"""Reductions: one result whatever the threads, the window, the fusion and the compiler do, and a good one."""

from __future__ import annotations

import random
from fractions import Fraction
from math import fsum, prod
from typing import Any

import numpy
import pytest

import diffuse.numpy
from diffuse.stream import engine
from tests.outcomes import unwarned
from tests.test_fuzz_stream import stream

VARIANTS: tuple[dict[str, Any], ...] = (
    dict(points=1, window=1, compile="off"),
    dict(points=2, window="auto", compile="wait"),
    dict(points=3, window="auto", compile="off"),
    dict(points=3, window=2, compile="wait"),
    dict(points=3, window="auto", compile="off", seed=3),
)
OPERATIONS = "sum prod max min any all argmax argmin mean var std count_nonzero".split()
DTYPES = "float64 float64 float32 int64 int8 uint16 bool complex128 complex64 float16".split()


def shaped(pick: random.Random) -> tuple[int, ...]:
    """Extents about the sizes of leaves, tiles and vectors."""
    kind = pick.randrange(4)
    if kind == 0:
        return (pick.choice((1, 5, 31, 32, 33, 1023, 1024, 1025, 2048, 3000, 5121, 9999)),)
    if kind == 1:
        return pick.choice((1, 2, 31, 32, 33, 64, 97, 130)), pick.choice((1, 3, 8, 17, 33, 40, 1025))
    if kind == 2:
        return pick.choice((1, 3, 33, 40)), pick.choice((1, 4, 32, 33)), pick.choice((1, 2, 9, 33))
    return pick.choice((3, 7)), pick.choice((2100, 1024, 3073))


def case(seed: int) -> tuple[Any, str, Any, int]:
    pick = random.Random(seed)
    shape, dtype = shaped(pick), pick.choice(DTYPES)
    operation = pick.choice(OPERATIONS)
    if dtype == "float16" and operation in ("var", "std"):
        dtype = "float32"  # NumPy's sum of squares overflows in float16, ours does not
    values = numpy.random.default_rng(seed).normal(0, 3, shape)
    if dtype.startswith("complex"):
        values = values + 1j * values[..., ::-1]
    if operation == "prod" and dtype[0] in "fc":
        values = values / abs(values).max() * 0.1 + 1
    if dtype[0] == "f" and pick.random() < 0.2:
        place = pick.randrange(prod(shape))
        values.reshape(-1)[place] = pick.choice((numpy.nan, numpy.inf, -numpy.inf, -0.0))
    axis: Any = pick.choice((None, *range(-1, len(shape))))
    if len(shape) > 1 and pick.random() < 0.3 and not operation.startswith("arg"):
        axis = tuple(sorted(pick.sample(range(len(shape)), 2)))
    return values.astype(dtype), operation, axis, pick.randrange(5)


def reduce(np: Any, a: Any, operation: str, axis: Any, how: int, alone: bool) -> Any:
    """The reduction; the array made on the way, viewed another way, or its result used at once."""
    a = np.array(a) if np is diffuse.numpy else a
    if how == 1:
        a = np.negative(a) if a.dtype != bool else ~a
    elif how == 2:
        a = a.T
    elif how == 3:
        a = a[::-1]
    if alone and np is diffuse.numpy:
        engine.flush()
    found = getattr(np, operation)(a, axis=axis)
    if how == 4:
        found = found + found
    return found


def trial(seed: int) -> None:
    a, operation, axis, how = case(seed)
    with unwarned():
        expected = numpy.asarray(reduce(numpy, a, operation, axis, how, False))
        first: Any = None
        for alone in (False, True):
            for variant in VARIANTS:
                with stream(small=0, min_chunk=random.Random(seed).choice((16, 100, 700)), **variant):
                    found = numpy.array(reduce(diffuse.numpy, a, operation, axis, how, alone))
                text = f"seed {seed}: {operation} of {a.dtype} {a.shape} axis {axis} {how} {variant} {alone}"
                assert (found.dtype, found.shape) == (expected.dtype, expected.shape), text
                first = found if first is None else first
                equal = found.tobytes() == first.tobytes() or \
                    numpy.array_equal(found, first, equal_nan=found.dtype.kind in "fc")
                assert equal, f"{text}\n{found} {first}"
    if found.dtype.kind in "fc":
        near = {2: 4e-3, 4: 1e-5, 8: 1e-11}[numpy.zeros((), found.dtype).real.dtype.itemsize]
        scale = numpy.abs(a.astype(complex)[numpy.isfinite(a)]).max(initial=1.0)
        numpy.testing.assert_allclose(found, expected, rtol=near, atol=near * scale * 20, err_msg=text)
    else:
        numpy.testing.assert_array_equal(found, expected, err_msg=text)


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_one_result_for_all_settings(first: int) -> None:
    for seed in range(first, first + 20):
        trial(seed)


@pytest.mark.parametrize("kind", ["positive", "mixed", "wide", "cancelling"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_sums_are_as_good_as_numpys(kind: str, dtype: str) -> None:
    """Root mean square of the error, against NumPy's of the same sums; both are pairwise."""
    ours: list[float] = []
    theirs: list[float] = []
    with stream(2, small=0, min_chunk=1000, compile="off"):
        for seed in range(60):
            draw = numpy.random.default_rng(seed)
            n = (100, 1000, 3000, 10000, 40001)[seed % 5]
            a = draw.random(n)
            if kind != "positive":
                a = draw.normal(0, 1, n)
            if kind == "wide":
                a *= 10.0 ** draw.integers(-8, 8, n)
            if kind == "cancelling":
                a = numpy.concatenate([a, -a[::-1] + 1e-6])
            a = a.astype(dtype)
            exact, size = fsum(a.tolist()), float(numpy.abs(a.astype("float64")).sum())
            for errors, found in ((ours, diffuse.numpy.array(a).sum()), (theirs, a.sum())):
                errors.append(float(Fraction(float(found)) - Fraction(exact)) / size)
    assert numpy.linalg.norm(ours) <= numpy.linalg.norm(theirs) * 1.25


@pytest.mark.parametrize("axis", [0, 1])
def test_sums_along_an_axis_are_as_good_as_numpys(axis: int) -> None:
    a = numpy.random.default_rng(1).normal(0, 1, (700, 900))
    with stream(2, small=0, min_chunk=1000, compile="off"):
        found = numpy.array(diffuse.numpy.array(a).sum(axis=axis))
    exact = numpy.array([fsum(line.tolist()) for line in (a if axis else a.T)])
    assert numpy.linalg.norm(found - exact) <= numpy.linalg.norm(a.sum(axis=axis) - exact) * 1.25

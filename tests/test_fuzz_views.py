"""Random programs over views of all kinds: reversed, with steps, transposed, reshaped with dimensions of one
index anywhere.  Results are compared with NumPy's.  Kernels use a view's strides and its map (ir/view.py)."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse.settings import using

Pair = tuple[Any, Any]
"""An array of Diffuse's, and NumPy's that is to have the same elements."""
RANK = 5
SLICES = (slice(None), slice(None, None, -1), slice(None, None, 2), slice(None, None, -2), slice(1, None),
          slice(None, -1))
OPERATIONS: tuple[Callable[[Any, Any, Any], Any], ...] = (
    lambda m, x, y: x + y,
    lambda m, x, y: x * 2 - 1,
    lambda m, x, y: m.sqrt(abs(x)),
    lambda m, x, y: m.where(x > y, x, y),
    lambda m, x, y: m.copy(x),
    lambda m, x, y: x - y * x,
    lambda m, x, y: m.flip(x),
    lambda m, x, y: x.sum(axis=-1, keepdims=True),
    lambda m, x, y: x.max(axis=0, keepdims=True),
    lambda m, x, y: m.cumsum(x, axis=0),
    lambda m, x, y: m.stack([x, x], axis=-1),
    lambda m, x, y: m.concatenate([x, x]),
)


def shape_like(pick: random.Random, old: tuple[int, ...]) -> list[int]:
    """A shape with as many elements: without some dimensions of one index, and with others."""
    shape = [n for n in old if n != 1 or pick.random() < 0.5]
    if shape and pick.random() < 0.3:
        k = pick.randrange(len(shape))
        divisor = next((d for d in (2, 3, 5) if shape[k] % d == 0), 1)
        shape[k:k + 1] = [divisor, shape[k] // divisor]
    while len(shape) < RANK and pick.random() < 0.6:
        shape.insert(pick.randint(0, len(shape)), 1)
    return shape


def viewed(pick: random.Random, pair: Pair) -> Pair:
    """The same random view of both arrays, through up to four steps."""
    ours, theirs = pair
    for _ in range(pick.randint(0, 4)):
        kind, rank = pick.random(), theirs.ndim
        if kind < 0.3:
            at = tuple([pick.choice(SLICES if n > 2 else SLICES[:2]) for n in theirs.shape])
            ours, theirs = ours[at], theirs[at]
        elif kind < 0.5:
            axes = pick.sample(range(rank), rank)
            ours, theirs = ours.transpose(axes), theirs.transpose(axes)
        else:
            shape = shape_like(pick, theirs.shape)
            ours, theirs = ours.reshape(shape), theirs.reshape(shape)
    return ours, theirs


def step(pick: random.Random, pairs: list[Pair]) -> None:
    """One statement: a new array, or a write into views of old ones."""
    (a, x), (b, y) = (viewed(pick, pick.choice(pairs)) for _ in range(2))
    try:
        together = numpy.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        (b, y), together = (a, x), x.shape
    if pick.random() < 0.25 and together == x.shape:
        if pick.random() < 0.5:
            a += b
            x += y
        else:
            a[...] = b
            x[...] = y
        return
    operation = pick.choice(OPERATIONS)
    if not x.ndim or numpy.prod(together) > 50_000 or x.ndim >= RANK:
        return
    pairs.append((operation(np, a, b), operation(numpy, x, y)))


@pytest.mark.parametrize("seed", range(40))
def test_programs_over_views_are_numpys(seed: int) -> None:
    pick = random.Random(seed)
    shape = [pick.choice((1, 2, 3, 4, 6, 9, 12, 17, 40)) for _ in range(pick.randint(1, 4))]
    dtype = pick.choice(("float64", "float64", "float32", "int64", "int16", "complex128"))
    first = numpy.random.default_rng(seed).integers(-20, 20, shape).astype(dtype)
    with using(small=0, min_chunk=pick.choice((1, 1 << 20)), compile="wait"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of overflows and casts to real numbers
        pairs = [(np.array(first), first.copy())]
        for _ in range(pick.randint(3, 8)):
            step(pick, pairs)
        for ours, theirs in pairs:
            found = numpy.asarray(ours)
            assert found.shape == theirs.shape and found.dtype == theirs.dtype
            assert numpy.allclose(found, theirs, rtol=1e-5, atol=1e-5, equal_nan=True)

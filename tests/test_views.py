"""Views and elements of arrays, small and large, at hand and pending: they are as NumPy's, and end so."""

from __future__ import annotations

import gc
import random
import weakref
from typing import Any

import numpy
import pytest

import diffuse
import diffuse.numpy as np
from tests.outcomes import outcome

SHAPES = [(7,), (300,), (40_000,), (5, 6), (150, 140), (3, 4, 5), (30, 20, 40), (2, 3, 4, 5),
          (1, 17_000), (2, 1, 3, 2, 2)]
DTYPES = ["float64", "float32", "int64", "bool", "complex128", "complex64", "uint8"]


def bound(chance: random.Random, n: int) -> Any:
    return chance.choice([None, 0, 1, -1, n // 2, n, -n, n + 3, -n - 3, chance.randrange(n + 1)])


def index(chance: random.Random, shape: tuple[int, ...]) -> Any:
    """An index of slices, numbers, None and ..., at times with too many of them or out of bounds."""
    parts: list[Any] = []
    for n in shape[:chance.randrange(len(shape) + 1)]:
        step = chance.choice([None, 1, 2, -1, -3, 0 if chance.random() < 0.05 else 1])
        sliced = slice(bound(chance, n), bound(chance, n), step)
        number = chance.choice([0, -1, n // 3, numpy.int64(n // 2), n if chance.random() < 0.1 else 0])
        parts.append(chance.choice([sliced, sliced, number, slice(None)]))
    for extra in (None, Ellipsis, None, Ellipsis, 0):
        if chance.random() < 0.15:
            parts.insert(chance.randrange(len(parts) + 1), extra)
    return parts[0] if len(parts) == 1 and chance.random() < 0.7 else tuple(parts)


def method(chance: random.Random, shape: tuple[int, ...]) -> tuple[str, tuple[Any, ...]]:
    """A method that gives a view, or an element, with arguments that fit more often than not."""
    size, rank = int(numpy.prod(shape)), len(shape)
    axes = chance.randrange(-rank - 1, rank + 1), chance.randrange(-rank - 1, rank + 1)
    return chance.choice([
        ("ravel", ()), ("transpose", ()), ("swapaxes", axes), ("reshape", (-1,)), ("reshape", (1, size)),
        ("reshape", ((size, 1, -1),)), ("reshape", (2, -1)), ("reshape", (-1, -1)), ("reshape", (size, 2)),
        ("view", (chance.choice(["int64", "float32", "uint8", "<f8", "nonsense", "M8[s]"]),)),
        ("item", (chance.randrange(-size, size + 1),)), ("item", ()), ("squeeze", ())])


def alike(ours: Any, theirs: Any) -> None:
    """The same type, geometry, flags, elements."""
    if not isinstance(theirs, numpy.ndarray):
        assert type(ours) is type(theirs) and ours == theirs
        return
    assert (ours.shape, ours.strides, ours.dtype) == (theirs.shape, theirs.strides, theirs.dtype)
    for name in ("c_contiguous", "f_contiguous", "aligned", "writeable"):
        assert getattr(ours.flags, name) == getattr(theirs.flags, name), name
    assert numpy.asarray(ours).tobytes() == theirs.tobytes()


@pytest.mark.parametrize("seed", range(6))
def test_views_look_like_numpys(seed: int) -> None:
    """Views are made of views that died; those that live, and their views, stay as they are."""
    chance, kept = random.Random(seed), []
    for _ in range(50):
        shape, dtype = chance.choice(SHAPES), chance.choice(DTYPES)
        theirs = (numpy.arange(numpy.prod(shape)) % 251).astype(dtype).reshape(shape)
        ours = np.array(theirs)
        if chance.random() < 0.3:
            ours = ours * np.ones((), dtype)  # pending, where it is large
        elif chance.random() < 0.2:
            theirs.flags.writeable = False
            ours.flags.writeable = False
        for _ in range(12):
            if chance.random() < 0.6:
                at = index(chance, theirs.shape)
                pair = outcome(lambda: ours[at]), outcome(lambda: theirs[at])  # noqa: B023
            elif chance.random() < 0.6:
                name, args = method(chance, theirs.shape)
                pair = (outcome(lambda: getattr(ours, name)(*args)),  # noqa: B023
                        outcome(lambda: getattr(theirs, name)(*args)))  # noqa: B023
            else:
                name = chance.choice(["T", "real", "imag"])
                pair = getattr(ours, name), getattr(theirs, name)
                if name == "imag" and theirs.dtype.kind != "c":
                    continue
            alike(*pair)
            if not isinstance(pair[1], numpy.ndarray) or not pair[1].size:
                continue
            if chance.random() < 0.5:
                kept.append(pair)
            if chance.random() < 0.4 and numpy.shares_memory(pair[1], theirs):
                ours, theirs = pair
    for pair in kept:
        alike(*pair)


@pytest.mark.parametrize("seed", range(4))
def test_assignments_of_elements_and_parts_are_numpys(seed: int) -> None:
    chance = random.Random(seed)
    values = [1, -2, 300, 2.5, True, 1e300, float("nan"), numpy.float32(1.5), numpy.int64(7), 2 + 1j, 10**30]
    for _ in range(40):
        shape, dtype = chance.choice(SHAPES), chance.choice(DTYPES)
        theirs = (numpy.arange(numpy.prod(shape)) % 251).astype(dtype).reshape(shape)
        ours = np.array(theirs)
        for _ in range(10):
            element = tuple(chance.randrange(-n, n) for n in shape)
            at = element if chance.random() < 0.5 else index(chance, shape)
            at = at[0] if type(at) is tuple and len(at) == 1 else at
            value = chance.choice(values)
            with numpy.errstate(all="ignore"):
                assert (outcome(lambda: ours.__setitem__(at, value))  # noqa: B023
                        == outcome(lambda: theirs.__setitem__(at, value)))  # noqa: B023
        alike(ours, theirs)


def test_a_view_keeps_memory_and_no_longer() -> None:
    x = np.array(numpy.arange(50_000.0))
    part = x[10:-10][::2]
    assert part.base is x and x[3:].T.base is x
    ends = weakref.ref(x)
    del x
    gc.collect()
    assert ends() is not None and part[5] == 20.0
    for _ in range(100):
        part.T, part[1:], part.reshape(-1, 1)
    del part
    gc.collect()
    assert ends() is None


def test_a_view_that_somebody_holds_is_not_used_again() -> None:
    x = np.array(numpy.arange(50_000.0))
    held: list[Any] = []
    watched: list[Any] = []
    for k in range(1, 40):
        part = x[k:-k]
        held.append(part.__array__())
        watched.append(numpy.asarray(x[k:k + 200]) if k % 2 else weakref.ref(part))
        del part
        x[:k], x[None], x.T
    for k, memory in enumerate(held, 1):
        assert memory.shape == (50_000 - 2 * k,) and memory[0] == k
    assert [memory[0] for memory in watched[::2]] == list(range(1, 40, 2))


@pytest.mark.parametrize("compute", [lambda v: v + v, lambda v: v * 2.0 - v[::-1]])
def test_parts_that_look_alike_are_found_again(compute: Any) -> None:
    """A part of one array is recorded as that of another of the same layout is, with its own elements."""
    theirs = [numpy.random.default_rng(k).random(60_000) for k in range(5)]
    ours = [np.array(x) for x in theirs]
    for x in ours:
        x += 0.0  # from here on it has a store
    diffuse.fence()
    for at in (slice(1, -1), slice(None, None, 2), slice(1, -1), slice(30_000, None), slice(None, 29_999)):
        for x, y in zip(ours, theirs, strict=True):
            assert compute(x[at]).tobytes() == compute(y[at]).tobytes()
    square, other = ours[0].reshape(200, 300), theirs[0].reshape(200, 300)
    for _ in range(3):
        assert compute(square[5:-5, 10:-10]).tobytes() == compute(other[5:-5, 10:-10]).tobytes()
        assert compute(square.T[5:-5]).tobytes() == compute(other.T[5:-5]).tobytes()


@pytest.mark.parametrize("at", [slice(1, -1), slice(None, None, 2), slice(20_000), None, Ellipsis])
def test_a_part_that_is_changed_in_place(at: Any) -> None:
    theirs = numpy.random.default_rng(1).random(60_000)
    ours, more = np.array(theirs), numpy.random.default_rng(2).random(60_000)
    added = np.array(more)
    for _ in range(6):
        ours[at] += added[at]
        theirs[at] += more[at]
        ours[at] *= 0.5
        theirs[at] *= 0.5
    ours[1:] = ours[:-1]
    theirs[1:] = theirs[:-1]
    ours[2:-1] = ours[3:]
    theirs[2:-1] = theirs[3:]
    assert ours.tobytes() == theirs.tobytes()
    ours.flags.writeable = False
    with pytest.raises(ValueError):
        ours[at] = ours[at]

"""The arrays that the audit of calls works on: any element type, any layout, any library.

`array` runs once with NumPy and once with Diffuse, from the same few arguments, so that a call is a text that
anybody can run again.  Of Diffuse's arrays some are still pending when the call comes.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy

DTYPES = "f8 f8 f8 f8 f4 f4 i8 i8 i4 i1 u1 u2 u4 u8 ? ? c16 c16 c8 f2 i2".split()
NATIVE = {numpy.dtype(name).str[1:] for name in DTYPES} | {"b1"}
"""Element types that Diffuse computes with."""
SELDOM = ">f8 >i4 >c16 g M8[D] m8[s] U3 O S2 G i4,f8".split()
"""Element types that only NumPy computes with, and other byte orders.  Strings of any length are left out:
NumPy 2.4 itself crashes in several of their functions."""

LAYOUTS = """C C C C F step back flip T off window locked folded pending pending later written
unaligned""".split()
FEW = ((), (1,), (0,), (7,), (7,), (40,), (4, 5), (4, 5), (3, 4), (5, 1), (1, 5), (0, 3), (3, 0), (2, 3, 4),
       (2, 3, 4), (6, 6), (3, 3), (130,), (12, 13), (1, 1, 1), (2, 2, 2, 2), (127,), (8, 16))
MANY = ((20000,), (20000,), (150, 130), (150, 130), (130, 150), (30, 40, 20), (1, 17000), (17000, 1),
        (2, 9000), (6, 3000), (4096, 5), (16383,), (128, 128))


def values(shape: tuple[int, ...], dtype: str, seed: int) -> Any:
    """Elements: ordinary ones, few different ones, or with the values at the ends of their type's range."""
    rng, kind = numpy.random.default_rng(seed), numpy.dtype(dtype).kind
    manner = seed % 8
    if kind == "b":
        return rng.random(shape) < 0.5
    if kind in "US":
        return rng.integers(0, 30, shape).astype(dtype)
    if kind == "V":
        found = numpy.zeros(shape, dtype)
        for name in found.dtype.names or ():
            found[name] = rng.integers(0, 9, shape)
        return found
    if kind in "Mm":
        found = rng.integers(-20, 20, shape).astype("i8")
        if manner in (0, 7):
            found = numpy.where(found > 10, numpy.iinfo("i8").min, found)  # not a time
        return found.astype(dtype)
    if kind == "O":
        return rng.integers(0, 9, shape).astype(object) if shape else numpy.array(3, object)
    if kind in "iu":
        ends = numpy.iinfo(dtype)
        low, high = (ends.min, ends.max) if manner == 0 else (max(ends.min, -6), 7)
        return rng.integers(low, high, shape, dtype=numpy.dtype(dtype).newbyteorder("="), endpoint=True)
    found = rng.normal(0, 3, shape) if manner > 1 else rng.integers(-3, 4, shape) * 1.0
    if kind == "c":
        found = found + 1j * (rng.normal(0, 3, shape) if manner > 1 else rng.integers(-3, 4, shape))
    found = numpy.asarray(found).astype(dtype)
    if manner in (0, 7) and found.size:
        odd = (numpy.nan, numpy.inf, -numpy.inf, -0.0, 0.0)
        places = rng.integers(0, found.size, 1 + min(4, found.size // 3))
        found.reshape(-1)[places] = rng.choice(odd, places.size)
    return found


def array(np: Any, shape: tuple[int, ...], dtype: str, layout: str, seed: int) -> Any:
    """An array of this library with given shape, element type and layout; its elements follow from `seed`."""
    data = numpy.asarray(values(shape, dtype, seed)).astype(dtype)
    if layout == "F":
        return np.array(data, order="F")
    if layout == "T":
        return np.array(data.T, order="C").T
    if layout == "locked":
        found = np.array(data)
        found.flags.writeable = False
        return found
    if layout == "unaligned":
        raw = np.zeros(data.nbytes + 1, "u1")[1:]
        found = raw.view(dtype).reshape(shape) if data.dtype.kind != "O" else np.array(data)
        found[...] = np.array(data)
        return found
    if layout == "pending":
        found = np.array(data)
        return np.positive(found) if data.dtype.kind in "iufc" and data.ndim else found
    if not shape or layout == "C":
        return np.array(data)
    if layout == "flip":
        backwards = (slice(None, None, -1),) * data.ndim
        return np.array(data[backwards])[backwards]
    if layout == "written":  # a copy, into which its elements are written after that
        found = np.array(data)
        found[...] = found[::-1]
        found[...] = np.array(data)
        return found
    if layout == "later":  # a part of what is pending
        whole = np.array(numpy.concatenate([data[:1], data, data[-1:]]) if data.size else data)
        found = np.positive(whole) if data.dtype.kind in "iufc" else whole
        return found[1:-1] if data.size else found
    if layout == "back":
        return np.array(data[::-1])[::-1]
    if layout == "folded":
        return np.broadcast_to(np.array(data[:1]), shape)
    if layout == "step":
        whole = np.zeros((2 * shape[0], *shape[1:]), dtype)
        found = whole[::2]
    elif layout == "off":
        whole = np.zeros(data.size + 3, dtype)
        found = whole[2:2 + data.size].reshape(shape)
    else:
        whole = np.zeros(tuple(n + 2 for n in shape), dtype)
        found = whole[tuple(slice(1, n + 1) for n in shape)]
    found[...] = np.array(data)
    return found


def shape_like(pick: Random, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that broadcasts with another one, or, seldom, does not."""
    kind = pick.randrange(10)
    if kind < 5:
        return shape
    if kind == 5:
        return shape[pick.randrange(len(shape) + 1):]
    if kind == 6:
        return tuple(n if pick.random() < 0.5 else 1 for n in shape)
    if kind == 7:
        return (1, *shape)
    return () if kind == 8 else pick.choice(((3,), (2, 1),
                                             shape[::-1] if max(shape, default=0) < 999 else (1,), (1,)))

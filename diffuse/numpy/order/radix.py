"""A stable parallel radix sort of one-dimensional arrays, with the order and the bits of NumPy's sorts.

Elements are sorted as keys (kernels/llvm/sorting/keys.py), by digits of eight bits; only digits that differ
between elements are used.  Both zeros have the same key, and so do all NaNs: if an array has different ones,
sorting it by key alone does not give NumPy's bits, which `Keys.plain` records.
"""

from __future__ import annotations

import os
from functools import cache, partial
from time import perf_counter
from typing import Any

import numpy

from diffuse import library
from diffuse.numpy.order import memory
from diffuse.numpy.order.team import on_parts, parts, together

Array = numpy.ndarray[Any, Any]

KINDS = "biuf"
"""Kinds of element types that have keys; floats only up to 64 bits."""
LANES, GROUPS = 8, 16
"""The shape of the facts that the routine `encode` records."""
DIGIT = 8
MASK = (1 << DIGIT) - 1
PATIENCE = 0.5
"""The most seconds for which a call waits for routines to be compiled."""
ROOM = 1 << 28
"""The bytes that are allocated without checking the available memory."""
FEWEST = 1 << 14
"""The number of elements of an array from which on compiled routines are faster than NumPy."""


def sortable(array: Array) -> bool:
    """Does an array have keys?"""
    dtype = array.dtype
    return dtype.kind in KINDS and dtype.itemsize <= 8 and bool(dtype.isnative)


def routines(count: int, *wanted: tuple[str, str]) -> Any:
    """Compiled routines for so many elements, by name and element type; None if one does not arrive in
    time."""
    return library.algorithms.routines(wanted, min(PATIENCE, count * 2e-8))


def wide(array: Array) -> str:
    """The element type of the keys of an array."""
    return "uint64" if array.dtype.itemsize == 8 else "uint32"


class Keys:
    """The keys of an array, and facts that they do not express."""

    def __init__(self, array: Array, keys: Array, varying: int, plain: bool, zero: int, nan: int) -> None:
        self.dtype, self.keys = array.dtype, keys
        self.varying = varying
        """The bits in which keys differ."""
        self.plain = plain
        """Do equal keys belong to elements of equal bits?"""
        self.zero, self.nan = zero, nan
        """The bits of the zeros and the NaNs among the elements, if `plain`."""


def room(nbytes: int) -> bool:
    """Is there memory for keys, and for everything else that is made besides an array?  NumPy sorts in
    place."""
    return nbytes < ROOM or nbytes < os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def keys_of(array: Array) -> Keys | None:
    """Encode the elements of a one-dimensional array; None if the routine has not arrived."""
    found = routines(array.size, ("encode", array.dtype.name)) if room(3 * array.nbytes) else None
    if found is None:
        return None
    encode, = found
    keys = memory.empty(array.size, wide(array))

    def one(low: int, high: int) -> Array:
        facts = numpy.zeros((GROUPS, LANES), numpy.uint64)
        encode(numpy.ascontiguousarray(array[low:high]), high - low, keys[low:high], facts)
        return facts

    return _noted(array, keys, on_parts(array.size, one, step=LANES))


def encoded(elements: Array, encode: Any) -> Array:
    """The keys of few elements."""
    keys = numpy.empty(elements.size, wide(elements))
    encode(elements, elements.size, keys, numpy.zeros((GROUPS, LANES), numpy.uint64))
    return keys


def _noted(array: Array, keys: Array, facts: list[Array]) -> Keys:
    """Combine the facts that the threads recorded while they encoded their parts."""
    raw = numpy.dtype(f"u{array.dtype.itemsize}")
    groups = [facts_ for found in facts for facts_ in ((found[:8], LANES), (found[8:], 1))]

    def lanes(row: int, dtype: Any) -> Array:
        return numpy.concatenate([group[row].view(dtype)[:lanes] for group, lanes in groups])

    both = numpy.bitwise_and.reduce(lanes(0, keys.dtype)), numpy.bitwise_or.reduce(lanes(1, keys.dtype))
    varying = int(both[0] ^ both[1])
    if array.dtype.kind != "f":
        return Keys(array, keys, varying, True, 0, 0)
    negative, positive, nan = (bool(lanes(2 + k, raw).any()) for k in range(3))
    all_, any_ = (int(ufunc.reduce(lanes(5 + k, raw)))
                  for k, ufunc in enumerate((numpy.bitwise_and, numpy.bitwise_or)))
    zero = 1 << 8 * array.dtype.itemsize - 1 if negative else 0
    plain = not (negative and positive) and not (nan and all_ != any_)
    return Keys(array, keys, varying, plain, zero, any_)


def digits(varying: int) -> list[int]:
    """The lowest bits of the digits in which keys differ, from the lowest to the highest."""
    found, shift = [], 0
    while varying >> shift:
        if varying >> shift & 1:
            found.append(shift)
            shift += DIGIT
        else:
            shift += 1
    return found


def ordered(keys: Array, varying: int) -> tuple[Array, Array] | None:
    """Sort keys.  Returns them, and memory of their size that is free for reuse; None if a routine has not
    arrived. The keys given are overwritten."""
    found = routines(keys.size, ("count", keys.dtype.name), ("scatter", keys.dtype.name))
    if found is None:
        return None
    count, scatter = found
    other = memory.empty(keys.size, keys.dtype)
    for shift in digits(varying):
        def move(low: int, high: int, offsets: Array) -> None:
            scatter(keys[low:high], high - low, shift, MASK, offsets, other)  # noqa: B023 (called at once)

        _pass(count, keys, shift, move)
        keys, other = other, keys
    return keys, other


def numbered(keys: Array, varying: int) -> tuple[Array, Array] | None:
    """Sort keys together with their positions, 32-bit integers.  Returns both; None if a routine has not
    arrived.  The keys given are overwritten."""
    n, kind = keys.size, keys.dtype.name
    found = routines(n, ("count", kind), ("scatter_numbered", kind), ("scatter_pairs", kind))
    if found is None:
        return None
    count, first, pairs = found
    other, target = memory.empty(n, keys.dtype), memory.empty(n, numpy.uint32)
    numbers: Array | None = None
    for shift in digits(varying):
        def move(low: int, high: int, offsets: Array) -> None:
            words = keys[low:high], high - low, shift, MASK, offsets, other  # noqa: B023 (called at once)
            if numbers is None:
                first(*words, low, target)  # noqa: B023
            else:
                pairs(*words, numbers[low:high], target)  # noqa: B023

        _pass(count, keys, shift, move)
        keys, other = other, keys
        numbers, target = target, memory.empty(n, numpy.uint32) if numbers is None else numbers
    return keys, numpy.arange(n, dtype=numpy.uint32) if numbers is None else numbers


def _pass(count: Any, keys: Array, shift: int, move: Any) -> None:
    """Sort keys by one digit: each thread counts the digits of its part, and moves the part to offsets that
    follow from all counts."""
    ranges = parts(keys.size)
    counts = numpy.zeros((len(ranges), MASK + 1), numpy.int64)
    together([partial(count, keys[low:high], high - low, shift, MASK, row)
              for row, (low, high) in zip(counts, ranges, strict=True)])
    flat = counts.T.ravel()
    offsets = numpy.ascontiguousarray((numpy.cumsum(flat) - flat).reshape(counts.T.shape).T)
    together([partial(move, low, high, row) for row, (low, high) in zip(offsets, ranges, strict=True)])


def sorted_values(known: Keys, kind: Any = None) -> Array | None:
    """The elements that were encoded, sorted, if equal keys mean equal bits; they have the bits of NumPy's
    sort of this kind.  Overwrites the keys."""
    found = ordered(known.keys, known.varying)
    return None if found is None else decoded(known, *found, kind)


def decoded(known: Keys, keys: Array, spare: Array, kind: Any = None) -> Array | None:
    """The elements with these keys, in the memory of an array of keys if they fit."""
    found = routines(keys.size, ("decode", known.dtype.name))
    if found is None:
        return None
    decode, = found
    fits = spare.itemsize == known.dtype.itemsize and spare.size == keys.size
    out = spare.view(known.dtype) if fits else memory.empty(keys.size, known.dtype)
    nan = _nan(known.dtype.name, known.nan, kind)

    def one(low: int, high: int) -> None:
        decode(keys[low:high], high - low, out[low:high], known.zero, nan)

    on_parts(keys.size, one, step=LANES)
    return out


@cache
def _nan(dtype: str, bits: int, kind: Any) -> int:
    """The bits of a NaN after NumPy's sort of this kind: on some processors it writes its own."""
    if not dtype.startswith("float"):
        return 0
    unsigned = numpy.dtype(dtype.replace("float", "uint"))
    sorted_ = numpy.sort(numpy.full(1000, bits, unsigned).view(dtype), kind=kind)
    return int(sorted_.view(unsigned)[0])


def firsts(line: Array) -> Array:
    """Return a mask that marks each sorted element, or key, that differs from the one before it."""
    mask = memory.empty(line.size, numpy.bool)
    mask[0] = True

    def one(low: int, high: int) -> None:
        numpy.not_equal(line[low + 1:high + 1], line[low:high], out=mask[low + 1:high + 1])

    on_parts(line.size - 1, one)
    return mask


def long(positions: Array) -> Array:
    """Convert positions to NumPy's type of indices."""
    if positions.dtype == numpy.intp:
        return positions
    out = memory.empty(positions.size, numpy.intp)
    on_parts(positions.size, lambda low, high: numpy.copyto(out[low:high], positions[low:high]))
    return out


def taken(array: Array, positions: Array) -> Array:
    """The elements at some positions."""
    out = memory.empty(positions.size, array.dtype)
    on_parts(positions.size, lambda low, high: numpy.copyto(out[low:high], array[positions[low:high]]))
    return out


VECTORIZED = 15e-9
"""Seconds per element below which a sort must use vector instructions."""


@cache
def vectorized(dtype: Any) -> bool:
    """Does NumPy sort this element type by vector instructions on this processor?"""
    with numpy.errstate(over="ignore"):
        sample = (numpy.arange(1 << 14, dtype=numpy.uint64) * 0x9E3779B97F4A7C15 >> 40).astype(dtype)
    times = []
    for _ in range(3):
        copy = sample.copy()
        start = perf_counter()
        copy.sort()
        times.append(perf_counter() - start)
    return min(times) < VECTORIZED * sample.size

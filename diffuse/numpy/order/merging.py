"""Sorts of one-dimensional arrays by NumPy's vectorized sort, by pieces or in runs, which threads sort.

Where NumPy sorts an element type by vector instructions, that is faster than sorting by digits (radix.py).
The elements are divided among threads by their values (dividing.py).  If too many are equal, each thread
sorts one run instead; then pairs of runs are merged, each pair by several threads, which cut the result into
parts of one length.  NumPy's order of zeros of both signs is not determined by their values, nor are the
bits of NaNs of several kinds: arrays with these are left to NumPy.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy

from diffuse.numpy.order import dividing, memory, radix
from diffuse.numpy.order.team import Job, parts, threads, together

Array = numpy.ndarray[Any, Any]

SHARE = 1 << 20
"""The fewest bytes of a run: as measured, NumPy sorts two shorter ones as fast as two threads do."""
SAMPLE = 1 << 12
"""The number of elements that are searched for zeros of both signs before the array is sorted."""


def many(nbytes: int) -> int:
    """The number of runs that an array of so many bytes is sorted in, a power of two."""
    return 1 << len(parts(nbytes, SHARE)).bit_length() - 1


def ordered(array: Array) -> Array | None:
    """A sorted copy of a one-dimensional array with the bits of NumPy's sort; None if these are not
    determined, or a routine has not arrived."""
    count = many(array.nbytes)
    if not radix.room(2 * array.nbytes) or not _alike(array[::max(1, array.size // SAMPLE)]):
        return None
    found = dividing.ordered(array, count) if count > 1 else None
    runs = [found] if found is not None else _runs(array, count)
    merge = radix.routines(array.size, ("merge", array.dtype.name)) if len(runs) > 1 else [None]
    if merge is None:
        return None
    nans = []
    if array.dtype.kind == "f":
        zero, nan = array.dtype.type(0), array.dtype.type(numpy.nan)
        places = [(int(run.searchsorted(zero)), int(run.searchsorted(zero, "right")),
                   int(run.searchsorted(nan))) for run in runs]
        zeros = [run[low:high] for run, (low, high, _) in zip(runs, places, strict=True)]
        nans = [run[end:] for run, (_, _, end) in zip(runs, places, strict=True)]
        if not _one_pattern(zeros) or not _one_pattern(nans):
            return None
        if len(runs) > 1:
            runs = [run[:end] for run, (_, _, end) in zip(runs, places, strict=True)]
    return runs[0] if len(runs) == 1 else _all_merged(runs, nans, array.size, merge[0])


def _runs(array: Array, count: int) -> list[Array]:
    """Copies of so many equal parts, each sorted by a thread."""
    whole = memory.empty(array.size, array.dtype)
    ends = [array.size * k // count for k in range(count + 1)]
    runs = [whole[low:high] for low, high in zip(ends, ends[1:], strict=False)]

    def one(run: Array, low: int) -> None:
        numpy.copyto(run, array[low:low + run.size])
        run.sort()

    together([partial(one, *pair) for pair in zip(runs, ends, strict=False)])
    return runs


def _alike(sample: Array) -> bool:
    """Have all zeros of a few elements the same bits?"""
    return sample.dtype.kind != "f" or _one_pattern([sample[sample == 0]])


def _one_pattern(pieces: list[Array]) -> bool:
    """Have all elements of some arrays the same bits?"""
    bits = [piece.view(f"u{piece.itemsize}") for piece in pieces if piece.size]
    return all(bool((piece == bits[0][0]).all()) for piece in bits)


def _all_merged(runs: list[Array], nans: list[Array], size: int, merge: Any) -> Array:
    """Merge runs, whose number is a power of two, in pairs, and append the NaNs, which have the same bits."""
    while len(runs) > 1:
        whole = memory.empty(size, runs[0].dtype)
        jobs: list[Job] = []
        merged, start = [], 0
        for one, other in zip(runs[::2], runs[1::2], strict=True):
            merged.append(whole[start:start + one.size + other.size])
            jobs += _jobs(one, other, merged[-1], merge, max(1, 2 * threads() // len(runs)))
            start += merged[-1].size
        together(jobs)
        runs = merged
    start = runs[0].size
    for piece in nans:
        whole[start:start + piece.size] = piece
        start += piece.size
    return whole


def merged(one: Array, other: Array) -> Array | None:
    """Merge two sorted arrays of one type, without NaN and without zeros of both signs; None if a routine has
    not arrived."""
    size = one.size + other.size
    found = radix.routines(size, ("merge", one.dtype.name))
    if found is None:
        return None
    out = memory.empty(size, one.dtype)
    together(_jobs(numpy.ascontiguousarray(one), numpy.ascontiguousarray(other), out, found[0],
                   len(parts(size))))
    return out


def _jobs(one: Array, other: Array, out: Array, merge: Any, count: int) -> list[Job]:
    """The merges of so many parts of the result."""
    cuts = [_cut(one, other, out.size * k // count) for k in range(count + 1)]
    jobs: list[Job] = []
    for (i, j), (after, end) in zip(cuts, cuts[1:], strict=False):
        jobs.append(partial(merge, one[i:after], after - i, other[j:end], end - j, out[i + j:]))
    return jobs


def _cut(one: Array, other: Array, place: int) -> tuple[int, int]:
    """How many elements of each of two sorted arrays are among the first `place` of both together."""
    low, high = max(0, place - other.size), min(place, one.size)
    while low < high:
        middle = (low + high) // 2
        if other[place - middle - 1] < one[middle]:
            high = middle
        else:
            low = middle + 1
    return low, place - low

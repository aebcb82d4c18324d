"""`unique` and the functions based on it: they sort elements or keys, and keep the first of equal ones.

Results do not depend on the sorting algorithm, except for zeros of both signs and different NaNs, of which
NumPy keeps the one that its own algorithm puts first: NumPy's function runs then.
"""

from __future__ import annotations

from functools import partial, reduce
from itertools import accumulate
from typing import Any

import numpy

from diffuse.numpy.arrays import core
from diffuse.numpy.arrays.base import UFUNCS
from diffuse.numpy.order import memory, merging, numbering, radix, sorting
from diffuse.numpy.order.calls import Array, at_hand, given, in_parts, own, table
from diffuse.numpy.order.searching import BLOCK, searchable
from diffuse.numpy.order.team import on_parts, parts, together

FEW = 8
"""The number of elements up to which each is compared with all others."""


def _sortable(a: Any) -> Array | None:
    """Return the elements of an array in one dimension, if they can be sorted by keys; else None."""
    array = at_hand(a)
    if array is None or not radix.sortable(array) or array.size > sorting.MOST:
        return None
    return array.reshape(-1)


def _kept(array: Array, mask: Array) -> Array:
    """Return the elements that a mask selects; the array itself if it selects all."""
    counts = on_parts(array.size, lambda low, high: int(numpy.count_nonzero(mask[low:high])))
    if sum(counts) == array.size:
        return array
    out = memory.empty(sum(counts), array.dtype)

    def one(part: tuple[int, int], start: int) -> None:
        chosen = array[slice(*part)][mask[slice(*part)]]
        out[start:start + chosen.size] = chosen

    together([partial(one, *pair) for pair in zip(parts(array.size), accumulate([0, *counts]), strict=False)])
    return out


def values(array: Array) -> Array | None:
    """Return the distinct elements of a one-dimensional array, in order."""
    found = _counted(array, False, False)
    return None if found is None else found[0]


def _counted(array: Array, counts: bool, each_nan: bool) -> tuple[Array, ...] | None:
    """Return the distinct elements, in order, and the number of each if `counts`."""
    line = sorting.settled(array)
    if line is None:
        return None
    mask = radix.firsts(line)
    if array.dtype.kind == "f" and not each_nan:
        mask[int(line.searchsorted(line.dtype.type(numpy.nan))) + 1:] = False
    different = _kept(line, mask)
    return (different, _lengths(mask)) if counts else (different,)


def _lengths(mask: Array) -> Array:
    """The lengths of runs whose first elements are marked."""
    return numpy.diff(numpy.append(numpy.flatnonzero(mask), mask.size))


def _with_positions(array: Array, index: bool, inverse: bool, counts: bool, each_nan: bool
                    ) -> tuple[Array, ...] | None:
    """Return the distinct elements and, if wanted, the position of the first of each, the index of each
    element among them, and their counts."""
    known = None if not index and sorting.few(array) else radix.keys_of(array)
    if known is None or not index and (not known.plain or each_nan and known.nan):
        return None  # NumPy does not sort equal ones by position
    order = numbering.ordered(known.keys, known.varying, marked=True)
    if order is None:
        return None
    positions, mask = order.positions, order.first
    assert mask is not None
    if each_nan and known.nan:
        mask[array.size - int(numpy.count_nonzero(numpy.isnan(array))):] = True
    first = _kept(positions, mask)
    result: tuple[Array, ...] = (radix.taken(array, first),)
    if index:
        result += (radix.long(first),)
    if inverse:
        result += (_ranks(positions, mask),)
    if counts:
        result += (_lengths(mask),)
    return result


def _ranks(positions: Array, mask: Array) -> Array:
    """For each element, in the order of the array, the number of marked ones up to it in the sorted order,
    less one."""
    counts = on_parts(mask.size, lambda low, high: int(numpy.count_nonzero(mask[low:high])))
    out = memory.empty(mask.size, numpy.intp)

    def one(part: tuple[int, int], before: int) -> None:
        for start in range(*part, BLOCK):
            end = min(part[1], start + BLOCK)
            found = numpy.cumsum(mask[start:end])
            found += before - 1
            out[positions[start:end]] = found
            before = int(found[-1]) + 1

    together([partial(one, *pair) for pair in zip(parts(mask.size), accumulate([0, *counts]), strict=False)])
    return out


def _unique(ar: Any, index: Any, inverse: Any, counts: Any, each_nan: bool) -> tuple[Any, ...] | None:
    array = _sortable(ar)
    if array is None:
        return None
    positions = index or inverse
    found = (_with_positions(array, index, inverse, counts, each_nan) if positions else
             _counted(array, counts, each_nan))
    if found is None:
        return None
    results = [given(one) for one in found]
    if inverse:
        results[2 if index else 1] = results[2 if index else 1].reshape(ar.shape)
    return tuple(results)


@own(numpy.unique, 0, by_lines=in_parts("unique"))
def unique(ar: Any, return_index: Any, return_inverse: Any, return_counts: Any, axis: Any, equal_nan: Any,
           sorted: Any = True) -> Any:
    whole = type(axis) is int and axis in (0, -1) and getattr(ar, "ndim", 0) == 1
    if not sorted or axis is not None and not whole:
        return None
    found = _unique(ar, return_index, return_inverse, return_counts, not equal_nan)
    return found if found is None or len(found) > 1 else found[0]


def _record(function: Any, ar: Any, index: bool, inverse: bool, counts: bool) -> Any:
    """The results of `unique_all` and its kin, as named tuples."""
    found = _unique(ar, index, inverse, counts, True)
    return None if found is None else type(function(numpy.empty(0)))(*found)


@own(numpy.unique_all, 0)
def unique_all(x: Any, /) -> Any:
    return _record(numpy.unique_all, x, True, True, True)


@own(numpy.unique_counts, 0)
def unique_counts(x: Any, /) -> Any:
    return _record(numpy.unique_counts, x, False, False, True)


@own(numpy.unique_inverse, 0)
def unique_inverse(x: Any, /) -> Any:
    return _record(numpy.unique_inverse, x, False, True, False)


def _sets(ar1: Any, ar2: Any, assume_unique: Any) -> tuple[Array, Array] | None:
    """Return the distinct elements of two arrays of one type, at least one of which is large."""
    one, other = table(ar1), table(ar2)
    if one is None or other is None or one.dtype != other.dtype or assume_unique or not radix.sortable(one):
        return None
    if max(one.size, other.size) < radix.FEWEST:
        return None
    found = [values(x.reshape(-1)) if x.size >= radix.FEWEST else numpy.unique(x) for x in (one, other)]
    first, second = found
    if first is None or second is None or one.dtype.kind == "f" and (_odd(first) or _odd(second)):
        return None
    return first, second


def _odd(different: Array) -> bool:
    """Are there zeros or NaNs among floats?  Which of two equal ones NumPy keeps depends on its algorithm."""
    return bool(different.size and (numpy.isnan(different[-1]) or (different == 0).any()))


def _merged(one: Array, other: Array) -> Array:
    """The elements of two sorted arrays, without NaN and zeros, in order."""
    both = merging.merged(one, other)
    if both is None:
        both = numpy.concatenate((one, other))
        both.sort()
    return both


@own(numpy.intersect1d, 0, 1)
def intersect1d(ar1: Any, ar2: Any, assume_unique: Any, return_indices: Any) -> Any:
    found = None if return_indices else _sets(ar1, ar2, assume_unique)
    if found is None:
        return None
    both = _merged(*found)
    return given(_kept(both[:-1], ~radix.firsts(both)[1:]))


@own(numpy.setxor1d, 0, 1)
def setxor1d(ar1: Any, ar2: Any, assume_unique: Any) -> Any:
    found = _sets(ar1, ar2, assume_unique)
    if found is None:
        return None
    both = _merged(*found)
    differs = numpy.append(radix.firsts(both), True)
    return given(_kept(both, differs[1:] & differs[:-1]))


@own(numpy.union1d, 0, 1, by_lines=in_parts("union1d"))
def union1d(ar1: Any, ar2: Any) -> Any:
    one, other = table(ar1), table(ar2)
    if one is None or other is None or one.dtype != other.dtype or not radix.sortable(one):
        return None
    both = numpy.concatenate((one, other), axis=None)
    found = values(both) if both.size >= radix.FEWEST else None
    return None if found is None else given(found)


@own(numpy.setdiff1d, 0, 1)
def setdiff1d(ar1: Any, ar2: Any, assume_unique: Any) -> Any:
    found = _sets(ar1, ar2, assume_unique)
    if found is None:
        return None
    one, other = found
    inside = _members(one, other, False)
    return given(one[~(numpy.isin(one, other, assume_unique=True) if inside is None else inside)])


def _members(elements: Array, tested: Array, invert: bool) -> Array | None:
    """A mask of the elements of a one-dimensional array that are in another one, whose elements are sorted
    and distinct."""
    searched = searchable(tested, elements, "left")
    if searched is None:
        return None
    out, last = memory.empty(elements.size, numpy.bool), tested.size - 1

    def one(low: int, high: int) -> None:
        places = numpy.empty(BLOCK, numpy.intp)
        for start in range(low, high, BLOCK):
            part = elements[start:min(high, start + BLOCK)]
            found = places[:part.size]
            searched.find(part, found)
            numpy.minimum(found, last, out=found)
            compare = numpy.not_equal if invert else numpy.equal
            compare(tested[found], part, out=out[start:start + part.size])

    on_parts(elements.size, one)
    return out


@own(numpy.isin, 0, 1, by_lines=in_parts("isin"))
def isin(element: Any, test_elements: Any, assume_unique: Any, invert: Any, kind: Any) -> Any:
    array, tested = at_hand(element), table(test_elements)
    if (array is None or tested is None or not tested.size or assume_unique or kind not in (None, "sort")
            or array.dtype != tested.dtype or not radix.sortable(array)):
        return None
    flat = array.reshape(-1)
    if tested.size <= FEW and type(element) is core.array_class:
        return _one_by_one(element.reshape(-1), tested.reshape(-1), bool(invert)).reshape(array.shape)
    if tested.size <= FEW or kind is None and _close(flat, tested):
        found: Any = numpy.concatenate(on_parts(
            flat.size, lambda low, high: numpy.isin(flat[low:high], tested, invert=invert, kind=kind)))
    else:
        different = values(tested.reshape(-1)) if tested.size >= radix.FEWEST else numpy.unique(tested)
        found = None if different is None else _members(flat, different, bool(invert))
    return None if found is None else given(found.reshape(array.shape))


def _one_by_one(flat: Any, tested: Array, invert: bool) -> Any:
    """Record a mask of the elements that equal one of a few others, or none of them if `invert`."""
    compare, combine = [UFUNCS[name] for name in (
        ("not_equal", "logical_and") if invert else ("equal", "logical_or"))]
    return reduce(combine, [compare(flat, value) for value in tested])


def _close(flat: Array, tested: Array) -> bool:
    """Does NumPy look integers up in a table of all between the smallest and the largest?"""
    if flat.dtype.kind not in "biu":
        return False
    between = int(tested.max()) - int(tested.min())
    return between <= (flat.size + tested.size) and between < flat.size // 2



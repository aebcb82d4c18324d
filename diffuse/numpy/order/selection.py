"""`median`, `percentile`, `quantile` and their variants without NaN: NumPy's functions over our own
partition.

NumPy's functions check the arguments, partition a copy of the array and compute with the few elements whose
ranks are then known.  Here they get a `Selection`, which makes no copies, and whose partition finds just
these elements: for each by a bracket of two elements of a sample, between which only few elements lie.  In
arrays with more dimensions the lines are partitioned in parallel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt
from typing import Any

import numpy

from diffuse.numpy.arrays import core
from diffuse.numpy.bridge.ranks import parts
from diffuse.numpy.ops.operands import wrap
from diffuse.numpy.order import radix
from diffuse.numpy.order.calls import Array, at_hand, own
from diffuse.numpy.order.team import on_parts, slabs

SAMPLE = 1 << 14
"""The most elements of a sample."""
SPREAD = 4.0
"""The half width of a bracket, in standard deviations of the rank of an element of the sample."""
MOST = 8
"""The most groups of ranks that are searched for; each takes a pass over the array."""


class Unknown(Exception):
    """Raised where NumPy has to partition the whole array for its bits."""


class Selection(numpy.ndarray[Any, Any]):
    """A NumPy array that is partitioned by this module."""

    source: Array | None = None
    """The elements of an array that stands for a copy and has none of its own yet."""

    apart: Any = None
    """The array that ranks have in parts, where this one stands for it and has no elements."""

    def copy(self, order: Any = "C") -> Any:
        if self.source is not None:
            raise Unknown
        plain = numpy.asarray(self)
        found = numpy.empty_like(plain).view(Selection)
        found.source, found.apart = plain, self.apart
        return found

    def flatten(self, order: Any = "C") -> Any:
        if self.apart is not None:
            return self.copy()
        return numpy.asarray(self).reshape(-1).view(Selection).copy()

    def transpose(self, *axes: Any) -> Any:
        found = super().transpose(*axes)
        if self.source is not None:
            found.source = self.source.transpose(*axes)
        return found

    def __getitem__(self, index: Any) -> Any:
        return numpy.asarray(self)[index]

    def take(self, indices: Any, axis: Any = None, out: Any = None, mode: Any = "raise") -> Any:
        return numpy.asarray(self).take(indices, axis, out, mode)

    def partition(self, kth: Any, axis: Any = -1, kind: Any = "introselect", order: Any = None) -> None:
        if self.source is None or kind != "introselect" or order is not None:
            raise Unknown
        source, self.source = self.source, None
        plain = numpy.asarray(self)
        if self.ndim > 1:
            def one(part: Any) -> None:
                numpy.copyto(plain[part], source[part])
                plain[part].partition(kth, axis=axis)

            slabs(one, self.shape, axis % self.ndim)
            return
        ranks = sorted({int(k) % self.size for k in numpy.ravel(kth)})
        if self.apart is not None:
            from diffuse.numpy.order import ranked

            found = ranked.selected(self.apart, ranks)
        else:
            found = selected(source, ranks)
        for rank, value in zip(ranks, found, strict=True):
            plain[rank] = value


def selected(array: Array, ranks: Sequence[int]) -> list[Any]:
    """The elements of a one-dimensional array with these ranks.  Raises `Unknown` if NumPy's bits may differ,
    or if many elements are equal."""
    last = array.size - 1
    found = {rank: _extreme(array, rank) for rank in sorted({0, last}.intersection(ranks), reverse=True)}
    groups: list[list[int]] = []
    for rank in sorted(set(ranks) - found.keys()):
        near = groups and rank - groups[-1][0] <= array.size >> 10
        groups[-1].append(rank) if near else groups.append([rank])
    if len(groups) > MOST:
        raise Unknown
    if groups:
        picked = sample(array)
        for group in groups:
            found.update(zip(group, _ranked(array, group, picked), strict=True))
    return [found[rank] for rank in ranks]


def _extreme(array: Array, rank: int) -> Any:
    """The smallest or the largest element; raises `Unknown` for NaN and zeros."""
    ufunc: Any = numpy.maximum if rank else numpy.minimum
    value = ufunc.reduce(on_parts(array.size, lambda low, high: ufunc.reduce(array[low:high])))
    if array.dtype.kind == "f" and not value:
        return _ranked(array, [rank], sample(array))[0]
    if value != value:
        raise Unknown
    return value


def _ranked(array: Array, ranks: list[int], sample: Array) -> list[Any]:
    """The elements of neighbouring ranks, found among the elements between two of a sorted sample."""
    size, dtype = array.size, array.dtype
    found = radix.routines(size, ("between", dtype.name), ("encode", dtype.name))
    if found is None:
        raise Unknown
    between, encode = found
    low, high = _bracket(sample, [rank / size for rank in (ranks[0], ranks[-1])], encode)

    def one(start: int, end: int) -> tuple[int, int, Array]:
        room = min(end - start, size // 4)  # one part has them all if the elements are sorted
        kept = numpy.empty(room + 1, dtype)
        words = between(numpy.ascontiguousarray(array[start:end]), end - start, low, high, kept, room, 0, 0)
        return int(words[6]), int(words[7]), kept[:min(room, int(words[7]))]

    pieces = on_parts(size, one)
    below = sum(piece[0] for piece in pieces)
    kept = numpy.concatenate([piece[2] for piece in pieces])
    places = [rank - below for rank in ranks]
    if kept.size != sum(piece[1] for piece in pieces) or not 0 <= places[0] <= places[-1] < kept.size:
        raise Unknown
    values = list(numpy.partition(kept, places)[places])
    if dtype.kind == "f":
        mixed = not all(values) and numpy.unique(numpy.signbit(kept[kept == 0])).size > 1
        if mixed or any(value != value for value in values):
            raise Unknown
    return values


def _bracket(sample: Array, shares: list[float], encode: Any) -> tuple[int, int]:
    """Keys that very likely bracket the elements at these shares of all ranks."""
    width = [SPREAD * sqrt(sample.size * share * (1 - share)) + 4 for share in shares]
    first = int(max(0, shares[0] * sample.size - width[0]))
    last = int(min(sample.size - 1, shares[1] * sample.size + width[1]))
    ends = sample[[first, last]]
    keys = radix.encoded(ends, encode)
    highest = int(numpy.iinfo(keys.dtype).max)
    return int(keys[0]) if first else 0, int(keys[1]) if last < sample.size - 1 else highest


def sample(array: Array, most: int = 0) -> Array:
    """A sorted sample, one element from each of as many equal pieces of an array, at varying places in the
    pieces.  Its size, at most `most` (0: SAMPLE), balances the time to sort it with that to partition the
    elements between two of it."""
    pieces = min(most or SAMPLE, array.size, int(2 * array.size ** (2 / 3)))
    starts = numpy.arange(pieces, dtype=numpy.uint64) * numpy.uint64(array.size) // numpy.uint64(pieces)
    turns = numpy.arange(pieces, dtype=numpy.uint64) * numpy.uint64(0x9E3779B97F4A7C15) >> numpy.uint64(33)
    found: Array = array[starts + turns % numpy.uint64(max(1, array.size // pieces))]
    found.sort()
    return found


def _over(real: Callable[..., Any], array: Array, axis: Any, args: tuple[Any, ...], options: dict[str, Any]
          ) -> Any:
    """Call NumPy's function on a selection of an array; None if NumPy has to partition the whole."""
    if array.ndim > 1 and axis is None:
        array = array.reshape(-1)
        if options.get("keepdims"):
            return None
    elif array.ndim > 1 and type(axis) is not int:
        return None
    if array.ndim == 1 and not radix.sortable(array) or array.dtype.kind not in "biufc":
        return None
    try:
        found = real(array.view(Selection), *args, axis=axis, **options)
    except Unknown:
        return None
    if isinstance(found, numpy.ndarray):
        found = numpy.asarray(found)
        return found if found.size < core.TINY and found.ndim else wrap(found) if found.ndim else found[()]
    return found


def _apart(real: Callable[..., Any], a: Any, axis: Any, args: tuple[Any, ...], options: dict[str, Any]
           ) -> Any:
    """Call NumPy's function on all elements of a distributed array; None for other arrays."""
    if not parts.wanted(a) or axis is not None and a.ndim > 1 or options.get("keepdims") and a.ndim > 1:
        return None
    from diffuse.numpy.order import ranked

    x = a.ravel()
    if real.__name__.startswith("nan"):  # NumPy's looks at all elements
        real = getattr(numpy, real.__name__[3:])
        if x.dtype.kind == "f" and not bool((kept := x == x).all()):
            x = x[kept]
    if not ranked.wanted(x) or not ranked.same(x):
        return None
    array = numpy.empty(x.size, x.dtype).view(Selection)
    array.apart = x
    try:
        return real(array, *args, axis=axis, **options)
    except Unknown:
        return None


def _without_nan(array: Array) -> Array | None:
    """A one-dimensional array without its NaNs; None if nothing is left."""
    if array.dtype.kind != "f":
        return array
    masks = on_parts(array.size, lambda low, high: array[low:high] == array[low:high])
    if all(mask.all() for mask in masks):
        return array
    pieces = on_parts(array.size, lambda low, high: array[low:high][array[low:high] == array[low:high]])
    found = numpy.concatenate(pieces)
    return found if found.size else None


def _plain(*options: Any) -> bool:
    """Are these values of `q` numbers, or lists, tuples or short arrays of numbers?"""
    return all(type(q) in core.NUMBERS or type(q) in (list, tuple) and all(type(v) in core.NUMBERS for v in q)
               or type(q) is numpy.ndarray and q.ndim < 2 for q in options)


def _median(real: Callable[..., Any], a: Any, axis: Any, out: Any, overwrite_input: Any, keepdims: Any
            ) -> Any:
    array = at_hand(a)
    if array is None or out is not None or overwrite_input:
        return None
    if real is numpy.nanmedian:
        array = _left(array, axis, keepdims)
    elif axis is None and keepdims is False and (found := _middle(array)) is not None:
        return found
    return None if array is None else _over(real, array, axis, (), {"keepdims": keepdims})


def _middle(array: Array) -> Any:
    """The median of a one-dimensional array, as NumPy's function computes it; None if NumPy has to partition
    the whole.  NumPy's own imports `numpy.ma` in its first call, which takes 8 ms."""
    if array.ndim != 1 or not radix.sortable(array) or array.dtype.kind not in "biuf":
        return None
    half, odd = divmod(array.size, 2)
    ranks = [half] if odd else [half - 1, half]
    last = [array.size - 1] if array.dtype.kind == "f" else []  # it is NaN if any element is
    try:
        values = selected(array, [*ranks, *last])
    except Unknown:
        return None
    return numpy.mean(numpy.array(values[:len(ranks)], array.dtype), axis=0)


def _left(array: Array, axis: Any, keepdims: Any) -> Array | None:
    """Return the elements of an array without NaN, for functions that reduce all of it; None for reductions
    of some axes."""
    if array.ndim > 1 and (axis is not None or keepdims is True):
        return None
    return _without_nan(array.reshape(-1))


def _median_by_lines(a: Any, axis: Any, out: Any, overwrite_input: Any, keepdims: Any) -> Any:
    if out is not None or overwrite_input or type(keepdims) is not bool:
        return None
    found = _apart(numpy.median, a, axis, (), {"keepdims": keepdims})
    if found is not None:
        return found
    found = parts.along("median", lambda array: numpy.median(array, axis), a, axis, left_out=True)
    return _kept(found, axis) if keepdims else found


def _kept(found: Any, axis: int, lead: int = 0) -> Any:
    """A result with the reduced dimension restored with length 1, as NumPy's `keepdims` does."""
    if found is None:
        return None
    place = axis + lead if axis >= 0 else found.ndim + 1 + axis
    return found[(slice(None),) * place + (None,)]


@own(numpy.median, 0, times=2, by_lines=_median_by_lines)
def median(a: Any, axis: Any, out: Any, overwrite_input: Any, keepdims: Any) -> Any:
    return _median(numpy.median, a, axis, out, overwrite_input, keepdims)


def _nanmedian_apart(a: Any, axis: Any, out: Any, overwrite_input: Any, keepdims: Any) -> Any:
    if out is not None or overwrite_input:
        return None
    return _apart(numpy.nanmedian, a, axis, (), {"keepdims": keepdims})


@own(numpy.nanmedian, 0, times=2, by_lines=_nanmedian_apart)
def nanmedian(a: Any, axis: Any, out: Any, overwrite_input: Any, keepdims: Any) -> Any:
    return _median(numpy.nanmedian, a, axis, out, overwrite_input, keepdims)


def _quantile(real: Callable[..., Any]) -> Callable[..., Any]:
    def run(a: Any, q: Any, axis: Any, out: Any, overwrite_input: Any, method: Any, keepdims: Any,
            weights: Any) -> Any:
        array = at_hand(a)
        if array is None or out is not None or overwrite_input or weights is not None or not _plain(q):
            return None
        if real.__name__.startswith("nan"):
            array = _left(array, axis, keepdims)
        options = {"method": method, "keepdims": keepdims}
        return None if array is None else _over(real, array, axis, (q,), options)

    run.__name__ = real.__name__
    run.__module__ = __name__
    return own(real, 0, times=2, by_lines=_quantile_by_lines(real))(run)


def _quantile_by_lines(real: Callable[..., Any]) -> Callable[..., Any]:
    """`quantile` or `percentile` of distributed arrays, each part with whole lines."""

    def run(a: Any, q: Any, axis: Any, out: Any, overwrite_input: Any, method: Any, keepdims: Any,
            weights: Any) -> Any:
        if (out is not None or overwrite_input or weights is not None or not _plain(q)
                or type(keepdims) is not bool):
            return None
        q = q.copy() if type(q) is numpy.ndarray else q
        found = _apart(real, a, axis, (q,), {"method": method, "keepdims": keepdims})
        if found is not None or real.__name__.startswith("nan"):
            return found
        lead = numpy.ndim(q)
        found = parts.along(real.__name__, lambda array: real(array, q, axis, method=method), a, axis, lead,
                            left_out=True)
        return _kept(found, axis, lead) if keepdims else found

    return run


quantile, percentile = _quantile(numpy.quantile), _quantile(numpy.percentile)
nanquantile, nanpercentile = _quantile(numpy.nanquantile), _quantile(numpy.nanpercentile)

"""Sorts distributed one-dimensional arrays, and selects the elements of given ranks in their order, by
splitting at exact places.

Each rank sorts its part.  Then all ranks look for the values at which the sorted whole is cut into the parts
of the result: in each turn a rank proposes the middle of what may still contain the cut, the median of the
proposals is counted on all ranks, and at least a quarter drops out.  Of equal elements those of lower ranks
come first, so that a stable sort stays stable.  Each element then moves once, and sorted pieces are merged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from diffuse.numpy.arrays import core, far
from diffuse.numpy.arrays.forms import row_major

Array = numpy.ndarray[Any, Any]
STABLE = "stable", "mergesort"


def wanted(x: Any) -> bool:
    """Is this a distributed one-dimensional array, which ranks sort together?"""
    return (type(x) is core.array_class and x.form.ndim == 1 and far.wanted(x) and far.located(x))


def same(x: Any) -> bool:
    """Do equal elements have equal bits, so that every sort has one result?"""
    if x.form.dtype.kind in "biu":
        return True
    if x.form.dtype.kind == "c":
        return False
    bits = x.view(f"i{x.form.itemsize}")
    below = numpy.iinfo(bits.dtype).min
    if bool((bits == below).any() & (bits == 0).any()):
        return False
    return not bool((x != x).any())


def sort(x: Any, kind: str, into: Any = None) -> Any:
    """Sort a distributed array into a new one, or into `into`; None if NumPy has to sort all of it."""
    if not wanted(x) or kind not in STABLE and not same(x):
        return None
    out = core.recorded(row_major(x.form.shape, x.form.dtype)) if into is None else into

    def run(peers: Any, given: Array, target: Array) -> None:
        numpy.copyto(target, given)
        target.sort(kind="stable" if kind in STABLE else None)
        pieces, _ = peers.swap(numpy.split(target, cuts(peers, target, peers.ends[1][1:-1])))
        pieces.sort(kind="stable")
        target[...] = pieces

    far.together("sort", run, (x,), (out,))
    return out


def argsort(x: Any, kind: str) -> Any:
    """Return the order of the elements; None if NumPy has to find it: if some are equal and the sort need not
    be stable."""
    if not wanted(x):
        return None
    out = core.recorded(row_major(x.form.shape, far.INDEX))
    ties = core.recorded(row_major((1,), far.INDEX))

    def run(peers: Any, given: Array, target: Array, tied: Array) -> None:
        local = given.argsort(kind="stable")
        values = given[local]
        local += peers.ends[0][peers.rank]
        places = cuts(peers, values, peers.ends[1][1:-1])
        numbers, _ = peers.swap(numpy.split(local, places))
        values, _ = peers.swap(numpy.split(values, places))
        order = values.argsort(kind="stable")
        numpy.take(numbers, order, out=target)
        if kind not in STABLE:
            found = peers.gather(numpy.array(_tied(peers, values[order])))
            tied[...] = found.any()

    far.together("argsort", run, (x,), (out, ties))
    return out if kind in STABLE or not int(ties[0]) else None


def _tied(peers: Any, values: Array) -> bool:
    """Are two of the sorted values equal, or not comparable, on this rank or where two ranks' parts meet?"""
    ends = numpy.concatenate((values[:1], values[-1:])) if len(values) else numpy.zeros(2, values.dtype)
    each, there = peers.gather(ends), peers.gather(numpy.array(len(values) > 0))
    ends = each[there]
    inner = not (values[1:] > values[:-1]).all() if len(values) > 1 else bool((values != values).any())
    return bool(inner or not (ends[1:, 0] > ends[:-1, 1]).all())


def selected(x: Any, ranks: Sequence[int]) -> list[Any]:
    """The elements that have these ranks in the order of an array."""
    out = core.recorded(row_major((len(ranks),), x.form.dtype))

    def run(peers: Any, given: Array, target: Array) -> None:
        _, values = _cuts(peers, numpy.sort(given), numpy.array(ranks))
        low, high = peers.ends[1][peers.rank:peers.rank + 2]
        target[...] = values[low:high]

    far.together("partition", run, (x,), (out,))
    return list(numpy.asarray(out[...].tolist(), x.form.dtype))


def cuts(peers: Any, ordered: Array, ranks: Sequence[int]) -> Array:
    """Return, for each number, how many of this rank's sorted elements are among the first so many of all."""
    return _cuts(peers, ordered, numpy.array(ranks, numpy.int64))[0]


def _cuts(peers: Any, ordered: Array, ranks: Array) -> tuple[Array, Array]:
    """Return the same, and the elements at these places in the order of all elements."""
    size = len(ordered)
    total = int(peers.gather(numpy.array(size)).sum())
    found = numpy.where(ranks >= total, size, 0)
    values = numpy.zeros(len(ranks), ordered.dtype)
    low, high = numpy.zeros(len(ranks), numpy.int64), numpy.full(len(ranks), size)
    todo = numpy.flatnonzero((ranks >= 0) & (ranks < total))
    while len(todo):
        middle = (low + high)[todo] // 2
        proposed = ordered[numpy.minimum(middle, size - 1)] if size else values[todo]
        pivots = _medians(peers.gather(proposed), peers.gather((high - low)[todo]))
        own = numpy.array([ordered.searchsorted(pivots, side) for side in ("left", "right")], numpy.int64)
        counts = peers.gather(own)
        below, upto = counts.sum(axis=0)
        inside = (below <= ranks[todo]) & (ranks[todo] < upto)
        equal = counts[:, 1] - counts[:, 0]
        before = equal[:peers.rank].sum(axis=0)
        taken = numpy.clip(ranks[todo] - below - before, 0, equal[peers.rank])
        done = todo[inside]
        found[done], values[done] = (own[0] + taken)[inside], pivots[inside]
        above, under = ranks[todo] >= upto, ranks[todo] < below
        low[todo[above]] = numpy.maximum(low[todo], own[1])[above]
        high[todo[under]] = numpy.minimum(high[todo], own[0])[under]
        todo = todo[~inside]
    return found, values


def _medians(proposed: Array, weights: Array) -> Array:
    """Return the weighted median of the values that ranks propose for each place."""
    order = proposed.argsort(axis=0, kind="stable")
    sums = numpy.take_along_axis(weights, order, 0).cumsum(axis=0)
    place = (2 * sums >= sums[-1]).argmax(axis=0)
    columns = numpy.arange(proposed.shape[1])
    found: Array = proposed[order[place, columns], columns]
    return found

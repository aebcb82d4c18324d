"""Reads ranges of the elements of distributed sparse arrays by requests between ranks, and reorders elements
by the other dimension."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

import diffuse.numpy as np
from diffuse.numpy.arrays import core, far
from diffuse.numpy.arrays.forms import row_major
from diffuse.scipy.sparse import products

Local = numpy.ndarray[Any, Any]
COUNT = numpy.dtype(numpy.int64)


def ranges(lows: Local, highs: Local) -> Local:
    """Return ranges (first, end) in ascending order as rows of an array; ranges that touch are merged, and
    empty ones left out."""
    kept = lows < highs
    lows, highs = lows[kept].astype(COUNT), highs[kept].astype(COUNT)
    if not len(lows):
        return numpy.zeros((0, 2), COUNT)
    breaks = numpy.flatnonzero(lows[1:] != highs[:-1])
    return numpy.stack((lows[numpy.concatenate(([0], breaks + 1))],
                        highs[numpy.concatenate((breaks, [-1]))]), axis=1)


def fetched(peers: Any, ends: Sequence[int], wanted: Local, *arrays: Local) -> list[Local]:
    """Return the elements in these ranges, one after another, of distributed arrays whose parts have these
    ends."""
    asked = []
    for low, high in zip(ends[:-1], ends[1:], strict=True):
        some = wanted[numpy.searchsorted(wanted[:, 1], low, "right"):numpy.searchsorted(wanted[:, 0], high)]
        asked.append(numpy.clip(some, low, high))
    requests, counts = peers.swap(asked)
    requests = requests - ends[peers.rank]
    lengths = requests[:, 1] - requests[:, 0]
    shifts = numpy.repeat(requests[:, 0] - numpy.cumsum(lengths) + lengths, lengths)
    chosen = numpy.arange(len(shifts)) + shifts
    sums = numpy.concatenate(([0], numpy.cumsum(lengths)))
    cuts = sums[numpy.cumsum(counts)[:-1]]
    return [peers.swap(numpy.split(array[chosen], cuts))[0] for array in arrays]


def by_other(positions: Any, indices: Any, length: int) -> tuple[Any, Any, Any]:
    """Compress a compressed array of rows (or columns) along the other dimension, of this length: returns
    positions, the row of each element, and its number among the elements.  Those of one column stay in
    order."""
    stored = indices.form.shape[0]
    counts = core.recorded(row_major((length,), COUNT))
    lines, order = [core.recorded(row_major((stored,), dtype)) for dtype in (indices.dtype, COUNT)]

    def sort(peers: Any, begins: Local, ends: Local, others: Local, counted: Local, *outs: Local) -> None:
        own = ranges(begins[:1], ends[-1:])
        others, = fetched(peers, peers.ends[2], own, others)
        starts = numpy.asarray(peers.ends[3])
        owners = numpy.searchsorted(starts[1:], others, "right")
        lengths = ends.astype(COUNT) - begins
        numbers = numpy.arange(len(others)) + (begins[0] if len(begins) else 0)
        line = numpy.repeat(numpy.arange(len(lengths)) + peers.ends[0][peers.rank], lengths)
        there = owners.argsort(kind="stable")
        cuts = numpy.cumsum(numpy.bincount(owners, minlength=peers.ranks))[:-1]
        others, line, numbers = [peers.swap(numpy.split(each[there], cuts))[0]
                                 for each in (others, line.astype(outs[0].dtype), numbers)]
        others = others - starts[peers.rank]
        counted[...] = numpy.bincount(others, minlength=len(counted))
        here = others.argsort(kind="stable")
        for k, (each, out) in enumerate(zip((line, numbers), outs, strict=True)):
            far.place(peers, peers.ends[4 + k], each[here], out)

    far.together("sparse_order", sort, (*products.ends(positions), indices), (counts, lines, order))
    found = np.concatenate((np.zeros(1, COUNT), np.cumsum(counts)))
    return found.astype(positions.dtype, copy=False), lines, order

"""Shuffles of distributed arrays: the exchanges of elements that NumPy makes, a block of them at a time.

NumPy shuffles with the algorithm of Fisher and Yates: from the last element down to the second it draws one
of the elements up to there, and exchanges both.  Every rank draws all numbers; a block of exchanges comes to
a permutation of the elements that it touches, and each rank sends those that other ranks get.  No rank holds
more than its part of the array and of one block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import numpy

from diffuse import library
from diffuse.numpy.arrays import core, far
from diffuse.numpy.arrays.forms import row_major

Array = numpy.ndarray[Any, Any]
BLOCK = 1 << 16
"""The number of exchanges that make one permutation."""
TRIED = 300
"""The number of elements of the trial that shows whether NumPy draws as is assumed here."""


_tried: dict[tuple[type, type, str], bool] = {}
"""The outcome of the trial for each class of generators, and each function."""


def permuted(function: Callable[..., Any], name: str, generator: Any, x: Any) -> tuple[Any] | None:
    """Return the result of a generator's `shuffle` or `permutation` of a distributed array, in a tuple; None
    if NumPy has to compute it."""
    apart = name == "permutation"
    if apart and not x.form.ordered or not far.wanted(x) or not far.located(x):
        return None
    if not _draws_so(function, name, generator):
        return None
    out = core.recorded(row_major(x.form.shape, x.form.dtype)) if apart else x
    begin = deepcopy(generator)

    def run(peers: Any, given: Array, target: Array) -> None:
        numpy.copyto(target, given)
        for steps, targets in _drawn(deepcopy(begin), peers.ends[1][-1]):
            _move(peers, target, *_moved(steps, targets))

    far.together(f"random.{name}", run, (x,), (out,))
    for _ in _drawn(generator, x.form.shape[0]):
        pass
    return (out if apart else None,)


def _draws_so(function: Callable[..., Any], name: str, generator: Any) -> bool:
    """Does this function of NumPy's make the exchanges that are drawn here, and leave the generator as
    drawing them does?"""
    bits = getattr(generator, "bit_generator", generator)
    key = type(generator), type(bits), name
    if key not in _tried:
        ours, plain = deepcopy(generator), deepcopy(generator)
        found, want = numpy.arange(TRIED), numpy.arange(TRIED)
        for steps, targets in _drawn(ours, TRIED):
            _move(library.Alone(((0, TRIED),) * 2), found, *_moved(steps, targets))
        made = function(plain, want)
        same = numpy.array_equal(found, want if made is None else made)
        _tried[key] = same and ours.random() == plain.random()
    return _tried[key]


def _drawn(generator: Any, count: int) -> Iterator[tuple[Array, Array]]:
    """Draw the exchanges of `count` elements, in blocks: from which element down, and each with which."""
    bits = generator.bit_generator if isinstance(generator, numpy.random.Generator) else None
    source = generator if bits is None else numpy.random.RandomState(bits)
    for high in range(count - 1, 0, -BLOCK):
        steps = numpy.arange(high, max(high - BLOCK, 0), -1)
        yield steps, numpy.random.RandomState.randint(source, 0, steps + 1, dtype=numpy.int64)


def _moved(steps: Array, targets: Array) -> tuple[Array, Array]:
    """The places that a block of exchanges gives another element, and where each of these elements was.

    Step m exchanges the element at steps[m] with that at targets[m].  Its own place then has its last
    element: that which the latest earlier step with the same target put there, and which was at the place of
    that step; if there is none, the one that was there before the block.
    """
    order = targets.argsort(kind="stable")
    ordered = targets[order]
    again = ordered[1:] == ordered[:-1]
    before = numpy.full(len(steps), -1)
    before[order[1:][again]] = order[:-1][again]
    last = numpy.flatnonzero(numpy.append(~again, True))
    written, writers = ordered[last], order[last]
    inside = written >= steps[-1]
    own = steps[0] - written[inside]
    exchanged = writers[inside]
    exchanged = numpy.where(exchanged == own, before[own], exchanged)  # a step may meet its own place
    origin = numpy.arange(len(steps))  # the step at whose place that element was before the block
    origin[own] = numpy.where(exchanged < 0, own, exchanged)
    while not numpy.array_equal(further := origin[origin], origin):
        origin = further
    sources = numpy.where(before < 0, targets, steps[origin[before]])
    return (numpy.concatenate((steps, written[~inside])),
            numpy.concatenate((sources, steps[origin[writers[~inside]]])))


def _move(peers: Any, part: Array, places: Array, sources: Array) -> None:
    """Set the element, or row, at each place to the one that was at its source.  `part` is this rank's part
    of the array; what other ranks have or get is exchanged with them."""
    ends, low = numpy.asarray(peers.ends[1][1:]), peers.ends[1][peers.rank]
    takers, givers = [numpy.searchsorted(ends, each, "right") for each in (places, sources)]
    given = numpy.flatnonzero(givers == peers.rank)
    given = given[takers[given].argsort(kind="stable")]
    counts = numpy.bincount(takers[given], minlength=peers.ranks)
    found, _ = peers.swap(numpy.split(part[sources[given] - low], numpy.cumsum(counts)[:-1]))
    taken = numpy.flatnonzero(takers == peers.rank)
    part[places[taken[givers[taken].argsort(kind="stable")]] - low] = found

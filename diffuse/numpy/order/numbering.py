"""The stable order of elements: their positions, sorted by their keys.

Where NumPy sorts 64-bit integers by vector instructions, the elements are sorted as words, each of which has
the leading bits of a key above the position of its element.  Words differ, so that any sort of them has one
result, which is stable.  Elements whose keys agree in these bits are then compared by their whole keys; they
are few, unless they are equal.  Elsewhere keys are sorted together with positions, by digits (radix.py).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy

from diffuse.numpy.order import dividing, memory, merging, radix
from diffuse.numpy.order.team import extremes, on_parts

Array = numpy.ndarray[Any, Any]

WORD = 64
"""The bits of a word."""
BLOCK = 1 << 14
"""How many words are compared at a time, so that they stay in cache between the steps."""
CLOSE = 16
"""Unless the order is right already, at most one of so many elements may share leading bits with another one
that has another key."""


class Order(NamedTuple):
    """The stable order of elements."""

    positions: Array
    """The positions of the elements in their order (int64 or uint32)."""
    first: Array | None
    """A mask of the elements, in their order, whose key differs from that of the one before, if wanted."""


class _Close(NamedTuple):
    """Elements whose leading bits are those of a neighbour, in the order of the words."""

    places: Array
    """Where their words are."""
    keys: Array
    """Their whole keys."""


def ordered(keys: Array, varying: int, marked: bool = False) -> Order | None:
    """The stable order of elements with these keys, which differ in some of the bits `varying`; `marked` asks
    for the mask.  None if a routine has not arrived.  The keys may be overwritten."""
    found = None
    if len(radix.digits(varying)) > 1 and radix.vectorized(numpy.dtype(numpy.uint64)):
        found = _by_words(keys, varying, marked)
    return _by_digits(keys, varying, marked) if found is None else found


def _by_digits(keys: Array, varying: int, marked: bool) -> Order | None:
    found = radix.numbered(keys, varying)
    return None if found is None else Order(found[1], radix.firsts(found[0]) if marked else None)


def _by_words(keys: Array, varying: int, marked: bool) -> Order | None:
    """Order elements by sorting words of leading bits of their keys; None if many elements have the leading
    bits of others and other keys."""
    size, bits = keys.size, max(1, (keys.size - 1).bit_length())
    count, wide = merging.many(size * WORD // 8), keys.dtype.name
    dividers = [(name, "uint64") for name in dividing.ROUTINES] if count > 1 else []
    found = radix.routines(size, ("number", wide), *dividers)
    if found is None:
        return None
    number, least, top = found[0], 0, varying.bit_length()
    if top + bits > WORD:  # integers of both signs differ in all bits, but not by much
        least, most = map(int, extremes(keys))
        top = (most - least).bit_length()
    words = memory.empty(size, numpy.uint64)
    shift, low_bits = min(WORD - top, WORD - 1), (1 << bits) - 1
    mask = (1 << WORD) - 1 - low_bits

    def one(low: int, high: int) -> None:
        number(keys[low:high], high - low, least, shift, mask, low, words[low:])

    on_parts(size, one)
    if count > 1:
        divided = dividing.ordered(words, count)
        if divided is None:
            return None
        words = divided
    else:
        words.sort()
    close = None
    if varying & (1 << max(0, top + bits - WORD)) - 1:  # some of the bits that have no place in a word
        close = _settled(words, keys, bits)
        if close is None:
            return None
    first = _marked(words, bits, close) if marked else None
    on_parts(size, lambda low, high: numpy.bitwise_and(words[low:high], low_bits, out=words[low:high]))
    return Order(words.view(numpy.int64), first)


def _settled(words: Array, keys: Array, bits: int) -> _Close | None:
    """Sort elements with the same leading bits by their keys; returns all of them, or None if too many are
    not in order."""
    places = _places(words, bits)
    mask = numpy.uint64((1 << bits) - 1)
    found = radix.taken(keys, (words[places] & mask).view(numpy.int64))
    if not bool((found[1:] < found[:-1]).any()):
        return _Close(places, found)
    if places.size * CLOSE > words.size:
        return None
    order = found.argsort(kind="stable")  # leading bits keep their order, and so do equal keys
    words[places] = words[places[order]]
    return _Close(places, found[order])


def _places(words: Array, bits: int) -> Array:
    """Return the positions of the words whose leading bits equal those of a neighbour."""
    least = numpy.uint64(1 << bits)

    def one(low: int, high: int) -> list[Array]:
        found = []
        for start in range(low, high, BLOCK):
            end = min(high, start + BLOCK)
            some = numpy.flatnonzero(words[start + 1:end + 1] ^ words[start:end] < least)
            if some.size:
                found.append(some + (start + 1))
        return found

    later = numpy.concatenate([numpy.empty(0, numpy.intp),
                               *[some for part in on_parts(words.size - 1, one) for some in part]])
    if not later.size:
        return later
    begins = numpy.concatenate(([True], later[1:] != later[:-1] + 1))
    before = numpy.flatnonzero(begins)
    return numpy.insert(later, before, later[before] - 1)


def _marked(words: Array, bits: int, close: _Close | None) -> Array:
    """The mask of the elements whose key differs from the preceding element's key."""
    mask, least = memory.empty(words.size, numpy.bool), numpy.uint64(1 << bits)
    mask[0] = True

    def one(low: int, high: int) -> None:
        for start in range(low, high, BLOCK):
            end = min(high, start + BLOCK)
            numpy.greater_equal(words[start + 1:end + 1] ^ words[start:end], least,
                                out=mask[start + 1:end + 1])

    on_parts(words.size - 1, one)
    if close is not None and close.places.size:
        mask[close.places[1:]] = close.keys[1:] != close.keys[:-1]
    return mask

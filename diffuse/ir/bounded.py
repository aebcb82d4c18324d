"""Bounded caches whose limits adapt to the program.

A cache begins small and is emptied when it is full, so that a program with ever new shapes uses little
memory. When most new entries had been there before, the program has come back to forgotten ones: the cache
then grows, up to its limit.
"""

from __future__ import annotations

from itertools import islice
from typing import TypeVar

LIMIT = 1 << 16
"""The most entries of a table."""
FIRST = 1 << 11
"""The first limit of a cache, in entries."""

FACTOR = 4
"""The factor by which a limit grows."""

K = TypeVar("K")
V = TypeVar("V")


class Past:
    """A Bloom filter with one hash function for the names that were there before; it takes 64 KB."""

    BITS = 1 << 19
    __slots__ = ("_bits", "_count")

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._bits = bytearray(self.BITS >> 3)
        self._count = 0

    def seen(self, name: int) -> bool:
        """Add the hash of a name, and return whether it was there before.  At most one answer in four is a
        false positive: when a quarter of the bits are set, the filter starts over."""
        name ^= name >> 23
        at, bit = name >> 3 & (self.BITS >> 3) - 1, 1 << (name & 7)
        found = bool(self._bits[at] & bit)
        self._bits[at] |= bit
        self._count += not found
        if self._count > self.BITS >> 2:
            self._clear()
        return found


class Size:
    """The limit of a cache, which grows up to `most` when most of the new entries were there before."""

    __slots__ = ("limit", "most", "_past", "_new", "_again")

    def __init__(self, first: int, most: int) -> None:
        self.limit, self.most = first, most
        self._past = Past()
        self._new = self._again = 0

    def count(self, name: int) -> None:
        """Count a new entry, given the hash of its name."""
        self._new += 1
        self._again += self._past.seen(name)

    def grows(self) -> bool:
        """Raise the limit if the program comes back to forgotten entries; False if the entries should be
        forgotten."""
        again, self._new, self._again = 2 * self._again > self._new, 0, 0
        if not again or self.limit >= self.most:
            return False
        self.limit = min(FACTOR * self.limit, self.most)
        return True


class Bounded(dict[K, V]):
    """A dictionary that is emptied when it is full: it may only hold what can be computed again."""

    __slots__ = ("limit", "_size", "_counted")

    def __init__(self, limit: int = LIMIT, first: int = FIRST) -> None:
        super().__init__()
        self._size = Size(first, limit) if limit > first else None
        self._counted = 0
        """How many of its entries, the oldest ones, `_size` has counted."""
        self.limit = min(limit, first)

    def __setitem__(self, key: K, value: V) -> None:
        if len(self) >= self.limit:
            self._make_room()
        super().__setitem__(key, value)

    def _make_room(self) -> None:
        """Raise the limit or drop all entries."""
        size = self._size
        if size is not None:  # only now, as counting each entry takes longer than adding it
            # a copy, made in one step: another thread may add an entry meanwhile
            for key in list(islice(self, self._counted, None)):
                size.count(hash(key))
            self._counted = len(self)
            if size.grows():
                self.limit = size.limit
                return
        self.clear()

    def clear(self) -> None:
        """Drop all entries."""
        super().clear()
        self._counted = 0

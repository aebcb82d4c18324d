"""Tables of what can be found again at some cost, whose sizes follow what the program needs.

A table begins small and is emptied when it is full, so that a program of ever new shapes leaves little
behind.  When most of its new entries had been there before, the program comes back to what was forgotten:
then the table grows, up to its limit.
"""

from __future__ import annotations

from typing import TypeVar

LIMIT = 1 << 16
"""Entries of a table, at most."""
FIRST = 1 << 11
"""Entries of a table before it is known that the program comes back to more."""

FACTOR = 4
"""By which a table grows."""

K = TypeVar("K")
V = TypeVar("V")


class Past:
    """The names that were there before: a Bloom filter of one hash function, which takes 64 KB."""

    BITS = 1 << 19
    __slots__ = ("_bits", "_count")

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._bits = bytearray(self.BITS >> 3)
        self._count = 0

    def seen(self, name: int) -> bool:
        """Was a name of this hash here before?  It was from now on.  False positives are at most one in four:
        when a quarter of the bits are set, the filter begins anew."""
        name ^= name >> 23
        at, bit = name >> 3 & (self.BITS >> 3) - 1, 1 << (name & 7)
        found = bool(self._bits[at] & bit)
        self._bits[at] |= bit
        self._count += not found
        if self._count > self.BITS >> 2:
            self._clear()
        return found


class Size:
    """How many entries a table may hold: more, up to `most`, when most of the new ones were there before."""

    __slots__ = ("limit", "most", "_past", "_new", "_again")

    def __init__(self, first: int, most: int) -> None:
        self.limit, self.most = first, most
        self._past = Past()
        self._new = self._again = 0

    def count(self, name: int) -> None:
        """Note a new entry by the hash of its name."""
        self._new += 1
        self._again += self._past.seen(name)

    def grows(self) -> bool:
        """May there be more entries than `limit`, which is raised then?  Else the entries are forgotten."""
        again, self._new, self._again = 2 * self._again > self._new, 0, 0
        if not again or self.limit >= self.most:
            return False
        self.limit = min(FACTOR * self.limit, self.most)
        return True


class Bounded(dict[K, V]):
    """A dictionary that is emptied when it is full: what it held is found again when it is asked for."""

    __slots__ = ("limit", "_size")

    def __init__(self, limit: int = LIMIT, first: int = FIRST) -> None:
        super().__init__()
        self._size = Size(first, limit) if limit > first else None
        self.limit = min(limit, first)

    def __setitem__(self, key: K, value: V) -> None:
        size = self._size
        if size is not None and key not in self:
            size.count(hash(key))
        if len(self) >= self.limit:
            if size is not None and size.grows():
                self.limit = size.limit
            else:
                self.clear()
        super().__setitem__(key, value)

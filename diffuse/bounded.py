"""Bounded caches, which keep what recurs and drop what does not.

A program whose shapes change all the time would fill its caches with entries that it never asks for again.
So whenever the caches have received some thousand new entries they are *swept*: each drops its new
entries, unless the program comes back to three quarters of them.  Then it had been given them before, not
long ago.  What a loop of ever new shapes leaves behind is as much after a thousand iterations as after a
million.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import count, islice
from typing import TypeVar

LIMIT = 1 << 16
"""The most entries of a table."""
SWEPT = 1 << 12
"""The number of new entries of all recurring tables together after which all are swept."""
FRESH = 704
"""The number of new entries of a single table after which all tables are swept."""

FACTOR = 4
"""The factor by which a limit, and these two numbers, grow for a program that comes back to its entries."""

K = TypeVar("K")
V = TypeVar("V")


def recurs(again: int, new: int) -> bool:
    """Does a program come back to its entries, if so many of the new ones were there before?

    A loop of ever new shapes comes by chance to more than half of them again: views and selections of an
    array often have the shape that another array had.
    """
    return 4 * again > 3 * new


class Past:
    """The names that were there before, not long ago: two Bloom filters with two hash functions each, of
    which the older one is dropped when the younger one is full."""

    __slots__ = ("turns", "_size", "_young", "_old", "_count")

    def __init__(self, size: int = 1 << 19) -> None:
        """Of `size` bits each, a power of two from 8 to 2**32: the past are the last `size / 16` names at
        least."""
        self.turns = 0
        """How often a filter was dropped."""
        self._size = size
        self._young, self._old = bytearray(size >> 3), bytes(size >> 3)
        self._count = 0

    def seen(self, name: int) -> bool:
        """Add the hash of a name, and return whether it was there before.  A few in a
        hundred answers are false positives, as an eighth of the bits are set at most."""
        young, old, last = self._young, self._old, self._size - 1
        name ^= name >> 29
        one, other = name & last, name >> 32 & last
        i, p, j, q = one >> 3, 1 << (one & 7), other >> 3, 1 << (other & 7)
        if young[i] & p and young[j] & q:
            return True
        self._count += (not young[i] & p) + (not young[j] & q)
        young[i] |= p
        young[j] |= q
        if self._count > self._size >> 3:
            self._young, self._old = bytearray(self._size >> 3), bytes(young)
            self._count = 0
            self.turns += 1
        return bool(old[i] & p and old[j] & q)


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
        again, self._new, self._again = recurs(self._again, self._new), 0, 0
        if not again or self.limit >= self.most:
            return False
        self.limit = min(FACTOR * self.limit, self.most)
        return True


class Bounded(dict[K, V]):
    """A dictionary that is emptied when it is full: it may only hold what can be computed again."""

    __slots__ = ("limit",)

    def __init__(self, limit: int = LIMIT) -> None:
        super().__init__()
        self.limit = limit

    def __setitem__(self, key: K, value: V) -> None:
        if len(self) >= self.limit:
            self.clear()
        super().__setitem__(key, value)


class Sweeps:
    """When recurring tables are swept, and which entries they were given before.

    Tables are swept more seldom while most of what is swept was there before: then the program comes back to
    more entries than would be added between two sweeps, and finds them all from its next turn on.
    """

    __slots__ = ("number", "left", "fresh", "past", "_new", "_again")

    def __init__(self) -> None:
        self.number = 0
        """The number of sweeps so far."""
        self.left, self.fresh = SWEPT, FRESH
        """The number of new entries of all tables until the next sweep, and that of one table from one sweep
        to the next."""
        self.past = Past(1 << 20)
        self._new = self._again = 0

    def begin(self) -> None:
        """Begin a sweep: each table is swept when it is given its next new entry."""
        factor = FACTOR if recurs(self._again, self._new) else 1
        self.left, self.fresh = factor * SWEPT, factor * FRESH
        self.number += 1
        self._new = self._again = 0

    def swept(self, new: int, again: int) -> None:
        """Count the new entries of a table that is swept, and those among them that it had held before."""
        self._new += new
        self._again += again


sweeps = Sweeps()
_tables = count()


class Recurring(Bounded[K, V]):
    """A bounded dictionary whose sweeps drop what does not recur (see above).

    Of keys with objects that are compared by identity, `name` gives a name by value: such an object may be
    made anew, and a later one at the address of another would seem to recur.
    """

    __slots__ = ("_name", "_number", "_swept", "_kept", "_turns")

    def __init__(self, limit: int = LIMIT, name: Callable[[K], Hashable] | None = None) -> None:
        super().__init__(limit)
        self._name = name
        self._number = next(_tables)
        """Distinguishes its keys from those of other tables."""
        self._swept = sweeps.number
        """The sweep after which it was last swept."""
        self._kept = 0
        """How many of its entries, the oldest ones, were kept then."""
        self._turns = sweeps.past.turns

    def __setitem__(self, key: K, value: V) -> None:
        if self._swept != sweeps.number:
            self._sweep()
        size = len(self)
        super().__setitem__(key, value)
        if len(self) != size:
            sweeps.left -= 1
            if sweeps.left <= 0 or size - self._kept >= sweeps.fresh:
                sweeps.begin()

    def _sweep(self) -> None:
        """Drop the new entries unless most of them were there before; and the others, too, if that was long
        ago."""
        self._swept, past = sweeps.number, sweeps.past
        # a copy, made in one step: another thread may add an entry meanwhile
        new = list(islice(self, self._kept, None))
        names = new if self._name is None else map(self._name, new)
        again = sum([past.seen(hash((self._number, name))) for name in names])
        sweeps.swept(len(new), again)
        if recurs(again, len(new)):
            self._kept = len(self)
        elif not self._kept or self._turns != past.turns:
            self.clear()
        else:
            for key in new:
                self.pop(key, None)
        self._turns = past.turns

    def clear(self) -> None:
        """Drop all entries."""
        super().clear()
        self._kept = 0

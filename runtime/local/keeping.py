"""How many bytes of freed blocks an allocator keeps for the arrays that come next.

A loop frees and takes the same sizes in each iteration; to keep them spares fresh memory, which the system
zeroes page by page.  A program whose arrays shrink or grow never takes a size again, and what is kept for it
is wasted.  So little is kept at first, besides what follows the memory in use, and more whenever blocks had
to be made anew of sizes that were given back before.
"""

from __future__ import annotations

FIRST = 16 << 20
"""Bytes kept at first."""
SIZES = 1 << 12
"""The most sizes of which it is known that blocks were given back."""


class Keeping:
    """The bound of an allocator's cache."""

    __slots__ = ("most", "_kept", "_gone", "_anew")

    def __init__(self, most: int, first: int = FIRST) -> None:
        self.most = most
        """The most bytes that are kept, besides a quarter of what is in use."""
        self._kept = min(first, most)
        self._gone: dict[int, int] = {}
        """How many blocks of each size were given back to the system and did not come again."""
        self._anew = 0
        """Bytes of blocks that did, since the bound last grew."""

    def limit(self, in_use: int, peak: int) -> int:
        """The bytes to keep, given those that are in use now and those that were at the most."""
        return min(self.most, max(self._kept, peak // 2)) + in_use // 4

    def gave(self, size: int) -> None:
        """Note that a block of this size went back to the system."""
        if len(self._gone) >= SIZES:
            self._gone.clear()
        self._gone[size] = self._gone.get(size, 0) + 1

    def made(self, size: int, peak: int) -> None:
        """Note that a block of this size came from the system; never more is kept than was in use at the
        most, so that a program takes at most about twice its arrays."""
        count = self._gone.pop(size, 0)
        if not count:
            return
        if count > 1:
            self._gone[size] = count - 1
        self._anew += size
        if self._anew >= self._kept:
            self._anew = 0
            self._kept = max(self._kept, min(2 * self._kept, peak, self.most))

"""How many bytes of freed blocks an allocator keeps for the arrays that come next.

A loop frees and allocates the same sizes in each iteration; keeping them avoids fresh memory, which the
system zeroes page by page.  A program whose arrays shrink or grow never needs a size again, and blocks kept
for it are wasted.  So little is kept at first, besides a share of the memory in use; each block that had to
be allocated of a size that was returned to the system before raises the bound by its size.
"""

from __future__ import annotations

FIRST = 16 << 20
"""Bytes kept at first."""
SHARE = 32
"""Of the machine's memory, at most this part is kept for sizes that are allocated again and again."""
SIZES = 1 << 12
"""The most sizes that are remembered as returned."""


class Keeping:
    """The bound of an allocator's cache."""

    __slots__ = ("most", "again", "least", "_kept", "_gone")

    def __init__(self, most: int, first: int = FIRST, again: int = 0) -> None:
        self.most = most
        """The most bytes that are kept, besides a quarter of what is in use, whatever their sizes."""
        self.again = max(most, again)
        """The most bytes that are kept where the same sizes are allocated again and again."""
        self.least = self._kept = min(first, most)
        """The bytes that are kept whatever is in use."""
        self._gone: dict[int, int] = {}
        """The number of blocks of each size that were returned to the system and not allocated again."""

    def limit(self, in_use: int, peak: int) -> int:
        """The most bytes to keep, given the bytes in use now and their peak.

        Together with those in use they are at most 9/4 of the peak, so a program takes little more than twice
        the memory of its arrays.
        """
        return min(self._bound(peak) + in_use // 4, max(self.least, 2 * peak + peak // 4 - in_use))

    def _bound(self, peak: int) -> int:
        return max(self._kept, min(self.most, peak // 2))

    def gave(self, size: int) -> None:
        """Note that a block of this size was returned to the system."""
        if len(self._gone) >= SIZES:
            self._gone.clear()
        self._gone[size] = self._gone.get(size, 0) + 1

    def made(self, size: int, peak: int) -> None:
        """Note that the system provided a block of this size.

        The bound grows up to twice the peak in use: the blocks of a turn, all free at its end, are more than
        are ever in use together where arrays of several sizes come one after another.
        """
        count = self._gone.pop(size, 0)
        if not count:
            return
        if count > 1:
            self._gone[size] = count - 1
        self._kept = max(self._kept, min(self._bound(peak) + size, 2 * peak, self.again))

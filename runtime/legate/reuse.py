"""Recycles Legate's stores: a freed store is cached for the next instance of its shape and element type.

A new store costs Legate a region and an instance, 70 us to 1 ms, and iterations need the same shapes again
and again.  The cache is bounded in bytes and evicts the oldest stores first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from diffuse.bounded import Bounded
from diffuse.ir import Point

SOMEWHERE = 0
"""The address of a store that Legate moves or keeps in another order: each task looks it up."""

MOST_PARTS = 256
"""The most cached partitions of one store."""


class Piece:
    """A store of Legate with its partitions and its address."""

    __slots__ = ("store", "nbytes", "parts", "address", "copied")

    def __init__(self, store: Any, nbytes: int, address: int | None = None) -> None:
        self.store = store
        self.nbytes = nbytes
        self.parts: dict[object, tuple[Any, Any]] = Bounded(MOST_PARTS)
        """Boxes and partitions made so far, each with the projection to its tiles (`Placement.part`)."""
        self.address = address
        """The permanent address of its first element; None until it is looked up."""
        self.copied = 0
        """The bytes of the largest copy that each rank got besides its part."""


class Reuse:
    """Cached stores by shape and element type: `limit` bytes at most, and `most` including stores in use.

    `part` is called with each evicted store, which running launches may still use.
    """

    def __init__(self, make: Callable[[Point, str], Any], part: Callable[[Piece], None], limit: int, most: int
                 ) -> None:
        self._make, self._part = make, part
        self._limit, self._most = limit, most
        self._kept: OrderedDict[tuple[Point, str], list[Piece]] = OrderedDict()
        self.bytes_kept = 0
        self.bytes_used = 0
        self.bytes_copied = 0
        """Bytes of copies of stores on each rank."""

    def take(self, shape: Point, dtype: str, nbytes: int) -> tuple[Piece, bool]:
        """A store, and whether it is recycled: initialised, with meaningless data."""
        key = (shape, dtype)
        pieces = self._kept.get(key)
        if pieces:
            piece = pieces.pop()
            if not pieces:
                del self._kept[key]
            self.bytes_kept -= nbytes
            self.bytes_used += nbytes
            return piece, True
        if self.bytes_used + self.bytes_kept + nbytes > self._most:
            self.shrink(max(0, self._most - self.bytes_used - nbytes))
        if self.bytes_used + nbytes > self._most:
            raise MemoryError(f"{nbytes} bytes for an array of shape {shape} and type {dtype}: Legate was "
                              f"given {self._most} bytes for arrays, of which {self.bytes_used} are in use; "
                              "give it more with DIFFUSE_LEGATE_MEMORY (or --sysmem in LEGATE_CONFIG), "
                              "or use more ranks")
        piece = Piece(self._make(shape, dtype), nbytes)
        self.bytes_used += nbytes
        return piece, False

    def give(self, shape: Point, dtype: str, piece: Piece) -> None:
        """Cache a store that nothing submitted from now on uses."""
        self.bytes_used -= piece.nbytes
        self._kept.setdefault((shape, dtype), []).append(piece)
        self._kept.move_to_end((shape, dtype))
        self.bytes_kept += piece.nbytes
        if self.bytes_kept > self._limit:
            self.shrink(self._limit)

    def copied(self, piece: Piece, nbytes: int) -> None:
        """Count a copy of a store, which stays as long as the store."""
        self.bytes_copied += max(0, nbytes - piece.copied)
        piece.copied = max(nbytes, piece.copied)

    def forget(self, piece: Piece) -> None:
        """Stop counting a store that another library holds, or that nobody needs."""
        self.bytes_used -= piece.nbytes
        self.bytes_copied -= piece.copied

    def keep(self, limit: int) -> None:
        """Cache at most so many bytes from now on."""
        self._limit = limit
        self.shrink(limit)

    def shrink(self, limit: int) -> None:
        """Drop the oldest cached stores until they take at most so many bytes."""
        while self.bytes_kept > limit:
            key = next(iter(self._kept))
            pieces = self._kept[key]
            piece = pieces.pop(0)
            self._part(piece)
            self.bytes_copied -= piece.copied
            self.bytes_kept -= piece.nbytes
            if not pieces:
                del self._kept[key]

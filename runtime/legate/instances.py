"""Where the data of a store is: in a store of Legate's, in host memory, or in both.

A store begins in neither. It is *home* when the host's copy counts (the host may write there without a
word); a launch that only reads then takes it from host memory, on every rank from that rank's own, and
nothing moves. A launch that writes takes it to Legate's store.
"""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.typing import NDArray

from diffuse.ir import ITEMSIZE, Point, Store
from diffuse.runtime.legate.reuse import Piece

DIMENSIONS = 6
"""Most dimensions of a store in Legate."""

HANDY = 4096
"""Bytes, at most, that launches read from the host's copy where Legate's store has them, too."""


def normal(shape: Point, dtype: str) -> tuple[Point, str]:
    """A store's shape as Legate gets it: no 0-d stores, none with too many dimensions."""
    if not shape:
        return (1,), dtype
    return (shape, dtype) if len(shape) <= DIMENSIONS else ((prod(shape),), dtype)


class LegateInstance:
    """The data of one store."""

    __slots__ = ("shape", "dtype", "nbytes", "piece", "filled", "written", "memory", "home", "fresh", "lent",
                 "handed", "foreign", "scattered", "number")

    address = 0
    """Nobody but a task knows where Legate keeps a store."""
    private = False

    def __init__(self, store: Store, memory: NDArray[np.uint8] | None = None) -> None:
        self.shape, self.dtype = normal(store.shape, store.dtype)
        self.nbytes = prod(self.shape) * ITEMSIZE[self.dtype]
        self.piece: Piece | None = None
        """Legate's store, once a launch needed one."""
        self.filled = False
        """Is the data in Legate's store?"""
        self.written = False
        """Has Legate's store ever been written as a whole?  Legate aborts where unwritten data is read."""
        self.memory = memory
        """The host's copy, once there is one; arrays of the program may show it, so it stays the same."""
        self.home = memory is not None
        """Does the host's copy count?"""
        self.fresh = memory is not None
        """Is the host's copy up to date?"""
        self.lent = -1
        """The last launch that reads the host's copy."""
        self.handed = False
        """Does another library hold Legate's store too?  Then that is where the data is; see exchange.py."""
        self.foreign = False
        """Was Legate's store made by another library?"""
        self.scattered = False
        """Is it part of a larger store, so that there are gaps between its rows?"""
        self.number = 0
        """What several ranks call it; see agreement.py."""

    @property
    def handy(self) -> bool:
        """Is the host's copy up to date, and so small that reading it there is cheaper than by Legate?"""
        return self.fresh and self.nbytes <= HANDY and not self.handed

    def __repr__(self) -> str:
        where = "home" if self.home else "away"
        return f"<store of shape {self.shape}, {self.dtype}, {where}>"

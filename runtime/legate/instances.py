"""Instances on Legate: where the valid data of a store is, in Legate's store, in the host's copy, or both.

A new store has data in neither.  While it is *home*, the host's copy is valid and the host may write to it
at any time.  A launch that only reads then reads the host's copy, each rank its own, without any transfer;
a launch that writes moves the data to Legate's store.
"""

from __future__ import annotations

from itertools import count
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffuse.ir import ITEMSIZE, Point, Store
from diffuse.runtime.legate.reuse import Piece
from diffuse.runtime.mpi.instances import MpiInstance

DIMENSIONS = 6
"""The largest rank of a store in Legate."""

HANDY = 4096
"""Stores of at most so many bytes are read from the host's copy where that is valid, too."""


_versions = count()


def normal(shape: Point, dtype: str) -> tuple[Point, str]:
    """The shape under which Legate gets a store: 0-d stores become 1-d, those of too large a rank flat."""
    if not shape:
        return (1,), dtype
    return (shape, dtype) if len(shape) <= DIMENSIONS else ((prod(shape),), dtype)


class LegateInstance:
    """The data of one store."""

    __slots__ = ("shape", "dtype", "nbytes", "piece", "filled", "written", "memory", "home", "fresh", "lent",
                 "shared", "foreign", "scattered", "number", "version", "exchanges", "cells", "array",
                 "store", "apart")

    address = 0
    """Unknown: Legate places stores anew for each task."""
    private = False

    def __init__(self, store: Store, memory: NDArray[np.uint8] | None = None) -> None:
        self.store = store
        """The store, under its own shape."""
        self.shape, self.dtype = normal(store.shape, store.dtype)
        self.nbytes = prod(self.shape) * ITEMSIZE[self.dtype]
        self.piece: Piece | None = None
        """Legate's store, from the first launch that needs it."""
        self.filled = False
        """Is the data in Legate's store valid?"""
        self.written = False
        """Was every element of Legate's store written at some time?  Legate aborts when uninitialised data is
        read."""
        self.memory = memory
        """The host's copy, from its first use on; always the same memory, which NumPy arrays may view."""
        self.home = memory is not None
        """Is the host's copy the valid one, which the host may write to?"""
        self.fresh = memory is not None
        """Is the host's copy up to date?"""
        self.lent = -1
        """The number of the last launch that reads the host's copy."""
        self.shared = False
        """Does another library share Legate's store, so that only that is valid?  See sharing.py."""
        self.foreign = False
        """Was Legate's store made by another library?"""
        self.scattered = False
        """Is it a slice of a larger store, with gaps between its rows?"""
        self.number = 0
        """The number of the instance in the digests of agreement.py, equal on all ranks."""
        self.version = next(_versions)
        """A number for these elements: no other elements of any instance have the same."""
        self.exchanges: dict[Any, Any] = {}
        """Of the columns of a matrix: how points exchange rows of what it is multiplied with (ghosts.py)."""
        self.cells: dict[Any, Any] = {}
        """How points exchange the rows at the borders of their tiles (borders.py)."""
        self.array: NDArray[np.uint8] | None = None
        """The memory that a host function sees while it runs on parts (calls.py)."""
        self.apart: MpiInstance | None = None
        """Its memory on the ranks, if the data does not lie in Legate's store (apart.py)."""

    def changed(self) -> None:
        """Note that elements may have changed."""
        self.version = next(_versions)

    def wrote(self) -> None:
        """Note that a launch wrote elements: only Legate's store is valid then."""
        self.filled = self.written = True
        self.home = self.fresh = False
        self.changed()

    @property
    def handy(self) -> bool:
        """Is the host's copy up to date and so small that reading it is cheaper than a transfer by Legate?"""
        return self.fresh and self.nbytes <= HANDY and not self.shared

    def __repr__(self) -> str:
        where = "home" if self.home else "away"
        return f"<store of shape {self.shape}, {self.dtype}, {where}>"

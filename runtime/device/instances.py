"""Instances on a device: where the valid data of a store is, on the device, in the host's copy, or in both.

A new store has data in neither place, so there is nothing to copy.  While it is *home*, the host's copy is
the valid one, and the next launch that uses the store copies it to the device before.  The store stays home
if outside code sees the copy, and may write to it at any time; that ends when a launch writes the store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


FOR_GOOD = -1
"""The loan count of an instance that stays shared as long as it lives."""


class DeviceInstance:
    """The data of one store."""

    __slots__ = ("address", "nbytes", "memory", "home", "fresh", "lease", "shared", "loans",
                 "copied")

    scattered = False
    private = False
    """The memory is never reused for another store, as the host may hold the copy."""

    def __init__(self, nbytes: int, lease: Any, memory: NDArray[np.uint8] | None = None) -> None:
        self.nbytes = nbytes
        self.lease = lease
        """Owns the device's memory."""
        self.address: int = lease.address
        """Where the data is on the device."""
        self.memory = memory
        """The host's copy, from its first use on; always the same memory, which NumPy arrays may view."""
        self.home = memory is not None
        """Is the host's copy the valid one?"""
        self.fresh = memory is not None
        """Is the host's copy up to date?"""
        self.shared = False
        """Does another library hold the device's memory?  See sharing.py."""
        self.copied = 0
        """The cost of copying parts to the host since a launch wrote the data, in bytes (`Device.piece`)."""
        self.loans = 0
        """The number of loans of the memory that have not been returned."""

    def __repr__(self) -> str:
        return f"<store of {self.nbytes} bytes, {'home' if self.home else 'away'}>"

"""What all parts of the runtime mpi know about their rank, and about the others."""

from __future__ import annotations

from abc import ABC

from diffuse.runtime.local.pool import Pool
from diffuse.runtime.mpi.network import Network
from diffuse.runtime.mpi.traffic import Traffic
from diffuse.runtime.ranks.agreement import Agreement


class Rank(ABC):
    """A rank among others; runtime.py sets these fields."""

    ranks: int
    """The number of ranks."""
    rank: int
    """The number of this one."""
    network: Network | None
    """The messages between ranks; None on a single rank, and where ranks are predicted."""
    agreement: Agreement | None
    """The check that all ranks run the same program; None where there is no network."""
    _pool: Pool
    _traffic: Traffic | None
    """The counter of the data that this rank sends."""

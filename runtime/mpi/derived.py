"""Data that one rank derives from a layout once for all of its launches, and the rank's counters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from diffuse.memory import address
from diffuse.runtime.base import Layout
from diffuse.runtime.mpi.moves import Move
from diffuse.runtime.mpi.shares import Share
from diffuse.runtime.mpi.validity import Validity

MOST_STEPS = 64
"""The most steps kept for one layout, each for one combination of states."""


class Prepared(NamedTuple):
    """Data derived from a layout once, for all of its launches."""

    share: Share
    form: bytes
    """A digest of the layout, for the comparison of ranks."""
    steps: dict[tuple[Validity, ...], Mine]


class Counts(NamedTuple):
    """Bytes and messages that one rank sent and received, and the memory that its arrays took."""

    sent: int
    messages: int
    received: int
    peak: int
    """The most bytes at any time."""


class Mine(NamedTuple):
    """The part of a step that one rank executes."""

    before: tuple[tuple[Move, ...], ...]
    """The moves of exchanges one after another, before the points run."""
    first: int
    points: int
    undivided: bool
    partials: tuple[tuple[tuple[Move, int], ...], ...]
    """The moves of exchanges one after another, whose `place` is an index into the launch's scratch memory,
    each with the offset of its array there."""
    late: tuple[Move, ...]
    meets: bool
    """Does `finish` run as a launch of its own, on any rank?"""
    finishes: bool
    after: tuple[Validity, ...]
    growth: tuple[int, ...] | None
    least: int
    """The fewest bytes that the launch can move; 0 where traffic is not counted."""


def addressed(packed: bytes, shared: Share, layout: Layout, instances: Sequence[Any]
              ) -> tuple[bytes, list[NDArray[np.uint8]]]:
    """Fill in the addresses of instances and scratch memory in a block; returns the block and the scratch
    memory."""
    block = memoryview(bytearray(packed)).cast("q")
    for word, place in shared.words:
        block[word] += instances[place].address
    scratch = []
    for piece in layout.scratch:
        scratch.append(np.zeros(max(piece.nbytes, 8), np.uint8))
        block[piece.word] = address(scratch[-1])
    return bytes(block), scratch

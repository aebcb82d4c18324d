"""Decides whether a small operation whose operands are not at hand is recorded, or waited for and done at
once."""

from __future__ import annotations

from diffuse import library
from diffuse.library import trace

MOST = 5 << 20
"""Bytes of memory that is filled with zeros for a small operation, which might be part of a task else."""


def begun() -> bool:
    """Does the program go through arrays in small steps (stream/walk.py), or is nothing recorded but a few
    fills with zeros?  If so, waits for all pending tasks, so that this small operation and those that follow
    find their operands at hand."""
    engine = library.current()
    if not engine.host_sees:
        return False
    if engine.walk.begun:
        trace.count("walks")
    elif not (0 < engine.zeros.size <= MOST and engine.idle):
        return False
    engine.fence("a loop over slices begins, which is done at once")
    return True

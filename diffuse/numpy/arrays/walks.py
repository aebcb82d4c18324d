"""Decides whether a small operation whose operands are not at hand is recorded, or waited for and done at
once."""

from __future__ import annotations

from diffuse import library
from diffuse.library import trace

MOST = 5 << 20
"""The most bytes that are filled with zeros for a small operation; the fill might otherwise become part of a
task."""


def begun() -> bool:
    """Is this a loop over slices (stream/walk.py), or is nothing recorded except a few fills with zeros?  If
    so, wait for all pending tasks, so that this small operation and those that follow find their operands at
    hand."""
    engine = library.current()
    if not engine.host_sees:
        return False
    if engine.walk.begun:
        trace.count("walks")
    elif not (0 < engine.zeros.size <= MOST and engine.idle):
        return False
    engine.fence("a loop over slices begins, which is done at once")
    return True

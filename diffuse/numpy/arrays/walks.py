"""Decides whether a small operation whose operands are not at hand is recorded, or waited for and done at
once."""

from __future__ import annotations

from diffuse import library
from diffuse.library import trace


def begun() -> bool:
    """Does the program go through arrays in small steps (stream/walk.py)?  If so, waits for all pending
    tasks, so that this small operation and those that follow find their operands at hand."""
    engine = library.current()
    if not engine.walk.begun or not engine.host_sees:
        return False
    trace.count("walks")
    engine.fence("a loop over slices begins, which is done at once")
    return True

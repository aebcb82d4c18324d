"""Small operations whose operands are not at hand: to record them, or to wait and do them at once?"""

from __future__ import annotations

from diffuse import library
from diffuse.library import trace


def begun() -> bool:
    """Does the program go through arrays in small steps (stream/walk.py)?  Then it is brought up to date, so
    that this small operation and all that follow find their operands at hand."""
    engine = library.current()
    if not engine.walk.begun or not engine.runtime.host_sees:
        return False
    trace.count("walks")
    engine.fence("a loop over slices begins, which is done at once")
    return True

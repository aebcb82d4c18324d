"""Python's garbage collector leaves alone what imports made, but not what the program has.

A recorded window is many small objects that live for milliseconds; they make the collector scan all objects
again and again.  What imports left behind (mostly code) need not be scanned: `gc.freeze` hides it.  But that
hides every object there is, and what is reachable from a hidden object is never finalized: at the end of the
process files that the program left open would not be flushed, and `__del__` of its objects not called.
"""

from __future__ import annotations

import atexit
import gc
from collections.abc import Callable
from typing import Any

_programs: list[Any] = gc.get_objects()
"""The objects that there were before Diffuse imported anything."""


def freeze(thaw: Callable[[list[Any], Any], None] | None) -> None:
    """Hide the objects that were made since this module was imported from the garbage collector.

    `thaw` takes objects from those that are hidden (diffuse/numpy/small/collector.c); without it all are
    hidden until the end of the process.  They go to the oldest generation, where they would be by now had
    they not been hidden: looking through them takes 5 ms, which the program's first operations would wait
    for.
    """
    gc.freeze()
    if thaw is None:
        atexit.register(gc.unfreeze)
    else:
        oldest: list[Any] = []
        gc.collect(1)  # there is hardly anything else
        thaw(_programs, oldest)
    _programs.clear()

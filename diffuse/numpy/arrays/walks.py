"""Loops over slices: when a small operation on a busy array is recorded, and when the program waits for it.

A program that goes through an array in small steps (rows one after another, windows, single elements) is best
served by NumPy on the array's memory: recording a step costs more than doing it.  But small operations also
stand between large ones, as the boundary conditions of a simulation do; these are recorded, for a wait would
part large operations that are fused, and the recording from the computing.

What tells one from the other is how many small tasks come in a row: `begun` is the rule.  It decides when
work is done, and never by which routine: operations whose kernels differ from NumPy in the last place go to
NumPy for all small arrays.
"""

from __future__ import annotations

from diffuse import library
from diffuse.library import trace

PIECES = 24
"""Small tasks in a row, and no large one between them, that are recorded: more than the faces of a box for
three fields, fewer than a loop over elements."""


def begun() -> bool:
    """Does the program walk over arrays in small steps?  Then it waits, for all small operations that come
    next find their operands at hand, until large ones are recorded again.

    Asked by a small operation whose operands are not at hand.
    """
    engine = library.current()
    if engine.small_in_a_row < PIECES or not engine.runtime.host_sees:
        return False
    trace.count("walks")
    engine.flush("small operations in a row: the next ones are done at once")
    return True

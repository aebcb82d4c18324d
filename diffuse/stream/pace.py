"""Estimates whether NumPy takes longer for an operation than a task does, the wait for the task included."""

from __future__ import annotations

SLOW = {"floor_divide": 20.0, "remainder": 9.0, "fmod": 12.0, "nextafter": 7.0, "sqrt": 1.1, "power0.5": 1.1,
        "logical_and": 0.8, "logical_or": 0.8, "logical_xor": 0.8, "logical_not": 0.6}
"""Operations on floats that NumPy computes one element at a time, with the nanoseconds per element."""
SINGLE = {"sqrt": 0.3, "power0.5": 0.3}
"""The same for float32, where it is a fraction: these take no longer than moving the elements."""
SELECT = 2.0
"""The same for `where`, of any type: 0.5 for conditions that a processor predicts, 3.6 for random ones."""
HALF = dict.fromkeys("""add subtract multiply divide square maximum minimum fmax fmin sqrt equal not_equal
    less less_equal greater greater_equal""".split(), 5.0)
"""The same for float16, whose elements NumPy converts one by one."""
WAIT = 60_000
"""Nanoseconds from recording a task to the end of waiting for it, on a machine that is also doing other
work."""


def lengthy(name: str, types: tuple[str, ...], elements: int) -> bool:
    """Does NumPy take longer for an operation on so many elements than recording a task and waiting for it
    takes?"""
    if name == "where":
        return SELECT * elements > WAIT
    if types[0][0] != "f":
        return False
    cost = max(SLOW.get(name, 0.0), HALF.get(name, 0.0) if types[0] == "float16" else 0.0)
    if types[0] == "float32":
        cost = SINGLE.get(name, cost)
    return cost * elements > WAIT

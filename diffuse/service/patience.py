"""Decides how long a task waits for machine code before it runs interpreted."""

from __future__ import annotations

from diffuse.settings import config

INTERPRETED = 2e-9
"""The seconds that interpreting takes, per operation and element: 1e-9 where elements are neighbours in
memory and temporaries stay in the cache, up to 1e-8 where they do not."""
WORTH_WAITING = 0.01
"""Seconds.  A task that is interpreted faster does not wait: the compile server may have to start first."""
COMPILED = 0.2e-3
"""The least seconds that compiling takes, per operation."""
SOON = 100
"""The operations of a kernel that takes about as long to compile as a routine."""


def patience(work: int, operations: int, interpretable: bool) -> float | None:
    """Return for how many seconds a task waits for machine code, None for as long as it takes.

    A task of so much `work` (operations times elements) waits as long as interpreting it is likely to take,
    so that it takes about twice the time of the faster way at most; and not at all where that is short, or
    shorter than it takes to compile a kernel of so many `operations`.  Where interpreting would have to wait
    for the compiler, too, for a routine of a function such as exp, the task waits for its own kernel, unless
    that is so long that the routine is there much earlier.  With the setting `compile` at "wait" it always
    does.
    """
    if config.compile == "wait" or (operations <= SOON and not interpretable):
        return None
    seconds = work * INTERPRETED
    return seconds if seconds > max(WORTH_WAITING, operations * COMPILED) else 0.0

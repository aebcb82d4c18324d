"""Decides how long a task waits for machine code before it runs interpreted."""

from __future__ import annotations

from diffuse.settings import config

INTERPRETED = 1e-9
"""Estimated seconds of interpretation per operation and element: 0.4e-9 to 1.1e-9 in steps of simulations, up
to 1e-8 where elements are not contiguous."""
WORTH_WAITING = 0.01
"""Seconds.  A task that is interpreted faster does not wait: the compile server may have to start first."""
COMPILED, LOOP = 0.2e-3, 5e-3
"""The least seconds of compilation per operation, and per loop, as LLVM takes most of its time for the code
around a loop's operations."""
SOON = 100
"""The number of operations of a kernel that takes about as long to compile as a routine."""


def effort(operations: int, loops: int) -> float:
    """Estimate the seconds that compiling a kernel of so many operations in so many loops takes, at least."""
    return max(operations * COMPILED, loops * LOOP)


def patience(work: int, operations: int, loops: int, interpretable: bool, waited: float = 0.0,
             delay: float = 0.0) -> float | None:
    """How many seconds a task waits for machine code; None for as long as it takes.

    A task of so much `work` (operations times elements) waits as long as interpreting it is likely to take,
    so that it takes at most about twice the time of the faster way.  It does not wait where that is short, or
    shorter than compiling a kernel of so many `operations` and `loops` by a server that begins it after a
    `delay`.  Where interpreting would have to wait for the compiler, too, for a routine of a function such as
    exp, the task waits for its own kernel, unless that is so long that the routine arrives much earlier.
    With the setting `compile` at "wait" it always waits.

    The seconds that earlier tasks of the same kernel have `waited` in vain are subtracted: interpreted tasks
    make progress while the compiler works, and repeated waits would not.
    """
    if config.compile == "wait" or (operations <= SOON and not interpretable):
        return None
    seconds = work * INTERPRETED
    if seconds <= max(WORTH_WAITING, delay + effort(operations, loops)):
        return 0.0
    return max(0.0, seconds - waited)

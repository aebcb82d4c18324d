"""Warnings about Diffuse itself, such as that a kernel did not compile.

Where the program has warnings raised as errors, one in the middle of a launch would lose the tasks at hand.
So what comes up inside of the engine waits until that is in order again.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

inside: Callable[[], bool] = bool
"""Is this thread inside the engine?  The engine sets the function that tells."""

waiting: deque[str] = deque()
_postponed = 0


@contextmanager
def postponed() -> Iterator[None]:
    """Postpone the warnings of what is done ahead of its need, which may never come."""
    global _postponed
    _postponed += 1
    try:
        yield
    finally:
        _postponed -= 1


def give(text: str) -> None:
    """Warn, now or when the engine is in order."""
    if _postponed or inside():
        waiting.append(text)
    else:
        warnings.warn(text, RuntimeWarning, stacklevel=2)


def report() -> None:
    """Give the warnings that were postponed."""
    while waiting:
        warnings.warn(waiting.popleft(), RuntimeWarning, stacklevel=2)

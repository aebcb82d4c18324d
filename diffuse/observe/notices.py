"""Warnings about Diffuse itself, such as that a kernel did not compile.

If the program turns warnings into errors, a warning in the middle of a launch would lose the current tasks.
So warnings inside the engine are postponed until its state is consistent.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

inside: Callable[[], bool] = bool
"""Is this thread inside the engine?  The engine sets this function."""

waiting: deque[str] = deque()
_postponed = 0


@contextmanager
def postponed() -> Iterator[None]:
    """Postpone the warnings of work that is done ahead of its need, which may never come."""
    global _postponed
    _postponed += 1
    try:
        yield
    finally:
        _postponed -= 1


def give(text: str) -> None:
    """Give a warning, now or when the engine's state is consistent."""
    if _postponed or inside():
        waiting.append(text)
    else:
        warnings.warn(text, RuntimeWarning, stacklevel=2)


def report() -> None:
    """Give the warnings that were postponed."""
    while waiting:
        warnings.warn(waiting.popleft(), RuntimeWarning, stacklevel=2)

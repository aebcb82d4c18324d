"""Defers Ctrl-C: an interrupt that comes while a function runs is handled when the function has ended.

NumPy's own functions do the same: Python looks for signals between two steps of Python, and they are one.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import Any


def deferred(function: Callable[[], None]) -> None:
    """Call a function, and handle an interrupt that comes meanwhile only when the function has returned."""
    handler: Any = signal.getsignal(signal.SIGINT)
    if not callable(handler) or threading.current_thread() is not threading.main_thread():
        function()
        return
    came: list[tuple[Any, Any]] = []

    def note(number: int, frame: Any) -> None:
        came.append((number, frame))

    try:
        signal.signal(signal.SIGINT, note)
        function()
    finally:
        signal.signal(signal.SIGINT, handler)
        if came:
            handler(*came[0])

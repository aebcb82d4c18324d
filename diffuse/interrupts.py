"""Keeps the exceptions of signal handlers apart: of Ctrl-C, and of any other handler of the program that
raises.

NumPy's own functions are one step of Python, and Python calls handlers between two steps.  Where Diffuse
takes several steps that belong together, handlers wait until they are done (`deferred`).  Elsewhere the
exception of a handler is told from an error of a task or of the system (`of_handler`), and passed on.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from importlib import import_module
from types import FrameType, TracebackType
from typing import Any

_signal: Any = import_module("_signal")
"""Python's signals as numbers: `signal` makes members of enumerations of all, which takes much longer."""
NUMBERS: tuple[int, ...] = tuple(sorted(map(int, _signal.valid_signals())))


def deferred(function: Callable[[], None]) -> None:
    """Call a function, and call the handlers of signals that come meanwhile only when it has returned."""
    if threading.current_thread() is not threading.main_thread():
        function()
        return
    handlers: dict[int, Any] = {}
    came: dict[int, Any] = {}
    ended = False

    def note(number: int, frame: Any) -> None:
        if ended:  # the handler of another signal raised an exception below, before this one was set again
            handlers[number](number, frame)
        else:
            came.setdefault(number, frame)

    try:
        for number in NUMBERS:
            handler = _signal.getsignal(number)
            if callable(handler):
                handlers[number] = handler
                _signal.signal(number, note)
        function()
    finally:
        ended = True
        with contextlib.ExitStack() as stack:
            for number in reversed(came):
                stack.callback(handlers[number], number, came[number])
            for number, handler in handlers.items():
                if _signal.getsignal(number) is note:  # the function has set no other handler
                    _signal.signal(number, handler)


def of_handler(error: BaseException) -> bool:
    """Was an exception raised by the handler of a signal?  Its arguments are the number of the signal and
    the frame that was interrupted."""
    from inspect import getargvalues

    trace = error.__traceback__
    while trace is not None:
        names, rest, _, found = getargvalues(trace.tb_frame)
        given = [*(found.get(name) for name in names), *(found.get(rest, ()) if rest else ())]
        if any([type(one) is FrameType for one in given]) and any([type(one) is int for one in given]):
            return True
        trace = trace.tb_next
    return False


class suppress(contextlib.suppress):
    """Ignores exceptions of these classes, but for those that the handlers of signals raise."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> bool:
        return super().__exit__(kind, error, trace) and error is not None and not of_handler(error)

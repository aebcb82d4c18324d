"""Interrupts at chosen moments: before the n-th line that some modules run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Container
from linecache import getline
from types import FrameType
from typing import Any

STEADY = ("with ", "try:")
"""Lines that are traced while they do nothing, at the end of a `with` for one: no interrupt comes there, and
none would find its handler."""


def interrupted(work: Callable[[], Any], moment: int, files: Container[str | None],
                skipped: Container[str] = ()) -> bool:
    """Do the work, with an interrupt before so many lines of these files, but for functions of the names
    `skipped`; False if it has not as many."""
    lines = 0

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal lines
        if frame.f_code.co_filename not in files or frame.f_code.co_name in skipped:
            return None
        text = getline(frame.f_code.co_filename, frame.f_lineno).lstrip()
        if event == "line" and not text.startswith(STEADY):
            lines += 1
            if lines == moment:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False

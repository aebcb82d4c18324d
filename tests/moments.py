"""Interrupts at chosen moments: before the n-th line that some modules run."""

from __future__ import annotations

import dis
import signal
import sys
from collections.abc import Callable, Container
from functools import cache
from types import CodeType, FrameType
from typing import Any


def interrupted(work: Callable[[], Any], moment: int, files: Container[str | None],
                skipped: Container[str] = (), raises: type[BaseException] = KeyboardInterrupt) -> bool:
    """Do the work, with an interrupt before so many lines of these files, but for functions of the names
    `skipped`; False if it has not as many.  It `raises` an exception as a handler of a signal does."""
    lines = 0

    def handler(number: int, frame: FrameType) -> None:
        raise raises

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal lines
        if frame.f_code.co_filename not in files or frame.f_code.co_name in skipped:
            return None
        if event == "line" and frame.f_lineno not in steady(frame.f_code):
            lines += 1
            if lines == moment:
                handler(signal.SIGALRM.value, frame)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    except raises:
        return True
    finally:
        sys.settrace(before)
    return False


@cache
def steady(code: CodeType) -> frozenset[int]:
    """Return the lines that begin a `with` or a `try` block.

    They are traced at moments at which no interrupt comes, as when a `with` block ends; its `__exit__` would
    not be called, and a lock stay held.  They are read from the code that runs: the source may have been
    edited since.
    """
    operations: dict[int, set[str]] = {}
    for instruction in dis.get_instructions(code):
        if instruction.positions is not None and instruction.positions.lineno is not None:
            operations.setdefault(instruction.positions.lineno, set()).add(instruction.opname)
    return frozenset(line for line, names in operations.items() if "BEFORE_WITH" in names or names == {"NOP"})

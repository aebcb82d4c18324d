"""Finds the user's line that made a call: the nearest frame outside of array libraries, as one `Where` per
line."""

from __future__ import annotations

import sys
from types import CodeType
from typing import Any

from diffuse.bounded import Bounded
from diffuse.ir import Where

LIBRARIES = {__name__.partition(".")[0]}
"""Packages whose calls are not the program's: this one, and array libraries that use the stream."""
NOWHERE = Where("?", 0)
running: Where | None = None
"""The line that recorded the host function which the engine is running, whatever line the program is at."""
NEAREST = 8
"""The number of the user's nearest calls that identify a path to a line."""

# By identity, for the hash of a code object goes through its instructions and constants; an entry holds the
# code it is about, so that the identity is never another's while the entry stands.
_known: dict[int, tuple[CodeType, dict[int, Where] | None]] = Bounded(1 << 12)
"""Code seen in call stacks: its callers' places by instruction and by line (as ~line), or None for library
code."""


def where(depth: int = 2) -> Where:
    """The user's line that led here, starting `depth` frames up."""
    global _last
    frame: Any = sys._getframe(depth)
    code, lines = _last
    if frame.f_code is not code:
        while frame is not None:
            code, found_lines = _known.get(id(frame.f_code)) or _look(frame)
            if found_lines is not None:
                lines = found_lines
                break
            frame = frame.f_back
        else:
            return NOWHERE
        _last = code, lines
    instruction = frame.f_lasti  # the line number needs a search in the code's line table
    found = lines.get(instruction)
    if found is None:
        line = frame.f_lineno
        found = lines[instruction] = lines.setdefault(~line, Where(frame.f_code.co_filename, line))
    return found


def instruction(depth: int = 2) -> tuple[int, int]:
    """The user's instruction that led here, as the identity of its code and its offset; the search starts
    `depth` frames up."""
    frame: Any = sys._getframe(depth)
    known = _known
    while frame is not None and (known.get(id(frame.f_code)) or _look(frame))[1] is None:
        frame = frame.f_back
    return (0, 0) if frame is None else (id(frame.f_code), frame.f_lasti)


def caller(*packages: str) -> Where:
    """The line of the nearest frame that belongs neither to array libraries nor to these packages."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        if (frame.f_globals.get("__name__") or "").partition(".")[0] not in (*LIBRARIES, *packages):
            return Where(frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return NOWHERE


_last: tuple[CodeType, dict[int, Where]] = where.__code__, {}
"""The user's code of the last call, and its places: in a loop most calls come from the same code."""


def calls(depth: int = 2) -> tuple[CodeType | int, ...]:
    """The user's nearest calls that led here, innermost first: code and instruction of each.

    Two calls of one function from one line differ in this; two iterations of a loop do not.
    """
    frame: Any = sys._getframe(depth)
    known = _known
    while frame is not None and (known.get(id(frame.f_code)) or _look(frame))[1] is None:
        frame = frame.f_back
    found: list[CodeType | int] = []
    for _ in range(NEAREST):
        if frame is None:
            break
        found += frame.f_code, frame.f_lasti
        frame = frame.f_back
    return tuple(found)


def _look(frame: Any) -> tuple[CodeType, dict[int, Where] | None]:
    """Record whether the code of a frame belongs to a library."""
    name = frame.f_globals.get("__name__") or ""
    ours = any(name == library or name.startswith(library + ".") for library in LIBRARIES)
    entry = _known[id(frame.f_code)] = (frame.f_code, None if ours else {})
    return entry

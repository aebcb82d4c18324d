"""Whose call this is: the nearest frame outside this package, as a `Where` that is made once per line."""

from __future__ import annotations

import sys
from types import CodeType
from typing import Any

from diffuse.ir import Where

PACKAGE = __name__.partition(".")[0]
NOWHERE = Where("?", 0)

_inside: dict[CodeType, bool] = {}
"""Code seen on the way: is it ours?"""
_lines: dict[CodeType, dict[int, Where]] = {}


def where(depth: int = 2) -> Where:
    """The user's line that led here, starting `depth` frames up."""
    frame: Any = sys._getframe(depth)
    inside = _inside
    while frame is not None:
        code = frame.f_code
        ours = inside.get(code)
        if ours is None:
            name = frame.f_globals.get("__name__") or ""
            ours = inside[code] = name == PACKAGE or name.startswith(PACKAGE + ".")
        if not ours:
            break
        frame = frame.f_back
    else:
        return NOWHERE
    lines = _lines.get(code)
    if lines is None:
        lines = _lines[code] = {}
    line = frame.f_lineno
    found = lines.get(line)
    if found is None:
        found = lines[line] = Where(code.co_filename, line)
    return found

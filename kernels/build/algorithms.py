"""Compiled routines that order, search and count (kernels/llvm/sorting), for the array library to call.

A routine is called with the words that its docstring lists; the call releases Python's lock, so that several
threads can run it on parts of the same memory.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from diffuse.kernels.build import jit
from diffuse.memory import address
from diffuse.service import code
from diffuse.service.client import Unavailable
from diffuse.settings import config

Words = np.ndarray[Any, np.dtype[np.int64]]
Routine = Callable[..., Words]

_loaded: dict[tuple[str, str], Routine | None] = {}
"""The routines by name and element type; None for those that cannot be compiled here."""
_waited: dict[tuple[tuple[str, str], ...], float] = {}
"""Seconds for which calls have waited for these routines in vain."""


def routines(wanted: tuple[tuple[str, str], ...], seconds: float) -> list[Routine] | None:
    """The routines with these names and element types, if they arrive within so many seconds; else None.
    The seconds for which earlier calls waited for the same routines are subtracted.

    A routine takes words, integers and arrays (for their addresses), and returns them with its modifications.
    """
    if config.compile == "off":
        return None
    for key in wanted:  # request all of them from the server
        _routine(key, 0.0)
    before = _waited.get(wanted, 0.0)
    left = max(0.0, seconds - before)
    end = time.monotonic() + left
    found = [_routine(key, max(0.0, end - time.monotonic())) for key in wanted]
    there = [one for one in found if one is not None]
    if len(there) == len(found):
        return there
    _waited[wanted] = before + left
    return None


def _routine(key: tuple[str, str], seconds: float) -> Routine | None:
    """A routine, if it arrives within so many seconds."""
    if key not in _loaded:
        name, dtype = key
        try:
            waits = None if config.compile == "wait" else seconds
            found = code.within(waits, jit.digest(f"routine {name} {dtype}"), ("k",), code.ROUTINE,
                                lambda: key)
        except (Unavailable, RuntimeError, ValueError, NotImplementedError):
            _loaded[key] = None  # a warning was given where there is no compiler
        else:
            if found is None:
                return None
            _loaded[key] = _callable(found)
    return _loaded[key]


def _callable(found: Any) -> Routine:
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(found.addresses["k"])

    def call(*words: Any) -> Words:
        block = np.array([address(word) if isinstance(word, np.ndarray) else word for word in words],
                         np.uint64 if any(type(w) is int and w >= 1 << 63 for w in words) else np.int64)
        run(address(block))
        return block.view(np.int64)

    vars(call)["keep"] = found
    return call

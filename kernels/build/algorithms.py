"""Compiled routines that order, search and count (kernels/llvm/sorting), for the array library to call.

A routine is called with the words that its own page lists; the call gives up Python's lock, so that several
threads can run it on parts of the same memory.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
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


def routines(wanted: Sequence[tuple[str, str]], seconds: float) -> list[Routine] | None:
    """The routines of these names and element types, if they are there within so many seconds; else None.

    A routine takes the words, integers and arrays (for their addresses), and returns them as it left them.
    """
    if config.compile == "off":
        return None
    for key in wanted:  # the server shall have all of them
        _routine(key, 0.0)
    end = time.monotonic() + seconds
    found = [_routine(key, max(0.0, end - time.monotonic())) for key in wanted]
    there = [one for one in found if one is not None]
    return there if len(there) == len(found) else None


def _routine(key: tuple[str, str], seconds: float) -> Routine | None:
    """A routine, if it is there within so many seconds."""
    if key not in _loaded:
        name, dtype = key
        try:
            waits = None if config.compile == "wait" else seconds
            found = code.within(waits, jit.digest(f"routine {name} {dtype}"), ("k",), code.ROUTINE,
                                lambda: key)
        except (Unavailable, RuntimeError, ValueError, NotImplementedError):
            _loaded[key] = None  # where there is no compiler, a warning has said so
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

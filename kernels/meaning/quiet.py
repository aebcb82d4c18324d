"""Calls of NumPy whose floating-point errors are ignored, at a tenth of the cost of `numpy.errstate`.

The program's error modes stay as they are, no error is recorded, and pending errors need not be reported
before.
"""

from __future__ import annotations

import importlib
from contextvars import Token
from typing import Any

umath = importlib.import_module("numpy._core.umath")
MODES: Any = umath._extobj_contextvar
"""The context variable in which NumPy keeps error modes."""
_IGNORE: Any = umath._make_extobj(all="ignore")


class quiet:
    """`with quiet():` is `with numpy.errstate(all="ignore"):` for code that only calls NumPy."""

    __slots__ = ("_token",)
    _token: Token[Any]

    def __enter__(self) -> None:
        self._token = MODES.set(_IGNORE)

    def __exit__(self, *error: object) -> None:
        MODES.reset(self._token)

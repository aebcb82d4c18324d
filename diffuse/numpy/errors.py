"""What floating-point errors do: NumPy's own state, kept in step with how Diffuse records.

While an error is to be raised, called, printed or logged, operations are computed at once, so that it shows
at the user's line.  Whatever was recorded before a change is done before it, so that its errors are treated
as was asked when it was recorded.
"""

from __future__ import annotations

from contextlib import ContextDecorator
from typing import Any

import numpy

from diffuse import engine
from diffuse.numpy import elementwise

EAGER = ("raise", "call", "print", "log")


def _follow() -> None:
    """Tell the array core whether errors must show at once."""
    elementwise.eager_errors = any(mode in EAGER for mode in numpy.geterr().values())


class errstate(ContextDecorator):
    """`numpy.errstate`, as a context manager and as a decorator."""

    def __init__(self, **kwargs: Any) -> None:
        self._kwargs = kwargs
        self._state: Any = numpy.errstate(**kwargs)

    def _recreate_cm(self) -> errstate:
        return errstate(**self._kwargs)

    def __enter__(self) -> None:
        engine.settle()
        self._state.__enter__()
        _follow()

    def __exit__(self, *error: Any) -> None:
        engine.settle()
        self._state.__exit__(*error)
        _follow()


def seterr(all: Any = None, divide: Any = None, over: Any = None, under: Any = None,
           invalid: Any = None) -> dict[str, Any]:
    engine.settle()
    before: Any = numpy.seterr(all=all, divide=divide, over=over, under=under, invalid=invalid)
    _follow()
    return dict(before)


def geterr() -> dict[str, Any]:
    return {**numpy.geterr()}


def seterrcall(func: Any) -> Any:
    return numpy.seterrcall(func)


def geterrcall() -> Any:
    return numpy.geterrcall()

"""When floating-point errors are reported: as the program asked when the operation was recorded.

Errors show when a task has run, which may be long after the call.  So what is recorded runs, and its warnings
are given, before Python's warning filters change.  A change of NumPy's error modes is only noted: its own
functions (`linalg`, printing) enter and leave `errstate` all the time and record nothing in between.  While
an error is to be raised, called, printed or logged, operations are computed at once.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
import warnings
from collections.abc import Callable
from contextvars import ContextVar, Token
from functools import wraps
from typing import Any

import numpy

from diffuse import library
from diffuse.library import floaterrors, provenance
from diffuse.numpy.ops import elementwise, known

EAGER = frozenset(("raise", "call", "print", "log"))
SERVANTS = "Dummy-"
"""How the names of threads begin that record nothing: those that Python did not start (and worker.py's)."""
PACKAGE = os.path.dirname(library.__file__) + os.sep

_main = threading.main_thread().ident
_eager: set[int] = set()
"""Threads in which errors must show at once."""
_watching = False
"""Was there ever such a thread?  Else the end of an `errstate` brings none back."""


class ErrorModes:
    """Stands in for the context variable in which NumPy's `errstate` and `seterr` keep the error modes."""

    def __init__(self, variable: ContextVar[Any]) -> None:
        self._variable = variable

    def set(self, value: Any) -> Token[Any]:
        if _serving():
            return self._variable.set(value)
        library.current().modes_change()
        token = self._variable.set(value)
        try:
            _follow()
        except BaseException:
            self._variable.reset(token)
            raise
        return token

    def reset(self, token: Token[Any]) -> None:
        if _serving():
            self._variable.reset(token)
            return
        try:
            library.current().modes_change()
        finally:
            self._variable.reset(token)
        if _watching:
            _follow()


def _follow() -> None:
    """Tell the array core whether errors must show at once in some thread."""
    global _watching
    if not EAGER.isdisjoint(numpy.geterr().values()):
        _watching = True
        _eager.add(threading.get_ident())
    elif not _eager:
        return
    else:
        _eager.discard(threading.get_ident())
    elementwise.eager_errors = known.eager = bool(_eager)


def _serving() -> bool:
    """Is this thread at work for the engine, and not for the program?"""
    return library.current().entered() or (
        threading.get_ident() != _main and threading.current_thread().name.startswith(SERVANTS))


def _settle() -> None:
    if library.current().unreported and not _serving():
        library.fence()


def _settling(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of `warnings` before which the errors so far are reported."""
    @wraps(function)
    def settled(*args: Any, **kwargs: Any) -> Any:
        _settle()
        return function(*args, **kwargs)

    return settled


def _leaving(leave: Callable[..., Any]) -> Callable[..., Any]:
    """`catch_warnings.__exit__`, before which the errors so far are reported.

    An exception that is on its way out of the block stays the one that the program sees.
    """
    @wraps(leave)
    def left(self: Any, *raised: Any) -> Any:
        try:
            _settle()
        except Exception:
            if not any(raised):
                raise
        finally:
            leave(self, *raised)

    return left


def _placing(show: Callable[[Any], None]) -> Callable[[Any], None]:
    """`warnings._showwarnmsg`, before which a warning at a line of this package moves to the program's line.

    NumPy warns at the line that called it, and what is computed at once is called from here.  Such lines are
    not remembered as having warned already: the program's are.
    """
    @wraps(show)
    def placed(message: Any) -> None:
        if not message.filename.startswith(PACKAGE):
            show(message)
            return
        frame: Any = sys._getframe(1)
        depth = 2
        while frame is not None and frame.f_code.co_filename != message.filename:
            frame, depth = frame.f_back, depth + 1
        where = provenance.where(depth) if frame is not None else provenance.NOWHERE
        if where is provenance.NOWHERE:
            show(message)
            return
        frame.f_globals["__warningregistry__"] = None
        vars(warnings)["onceregistry"].pop((str(message.message), message.category), None)
        floaterrors.warn(message.message, message.category, where)

    return placed


def _install() -> None:
    config = importlib.import_module("numpy._core._ufunc_config")
    if isinstance(config._extobj_contextvar, ErrorModes):
        return
    vars(config)["_extobj_contextvar"] = ErrorModes(config._extobj_contextvar)
    for name in ("simplefilter", "filterwarnings", "resetwarnings"):
        setattr(warnings, name, _settling(getattr(warnings, name)))
    vars(warnings)["_showwarnmsg"] = _placing(vars(warnings)["_showwarnmsg"])
    catch = vars(warnings)["catch_warnings"]
    catch.__enter__, catch.__exit__ = _settling(catch.__enter__), _leaving(catch.__exit__)


_install()

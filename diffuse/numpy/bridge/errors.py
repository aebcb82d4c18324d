"""Reports floating-point errors under the modes that held when the operation was recorded.

Errors show when a task has run, which may be long after the call.  So recorded tasks run, and their warnings
are given, before Python's warning filters change.  NumPy's error modes belong to a context, and the engine
looks at them whenever it records a task (stream/queue.py).  While an error is to be raised, called, printed
or logged, and while a filter turns warnings of it into exceptions, operations are computed at once, so that
a program can catch them around the call.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar, Token
from functools import wraps
from types import FunctionType
from typing import Any
from weakref import WeakSet

import numpy

from diffuse import library
from diffuse.library import floaterrors, provenance
from diffuse.numpy.ops import elementwise, known

SERVANTS = "Dummy-"
"""The name prefix of threads that record nothing: those that Python did not start (and worker.py's)."""
PACKAGE = os.path.dirname(library.__file__) + os.sep

_engine = library.current()
_config: Any = importlib.import_module("numpy._core._ufunc_config")
_modes: Callable[[], dict[str, Any]] = _config._get_extobj_dict
"""Returns NumPy's current error modes, as `geterr` finds them."""
_main = threading.main_thread().ident
_eager: set[int] = set()
"""Threads in which errors must show at once."""
_raising = False
"""May Python's warning filters raise a RuntimeWarning?"""
_watching = False
"""Was there ever such a thread?  Otherwise the end of an `errstate` cannot restore such a mode."""


class Mark:
    """Stands for the token of a block in which errors must show at once, from its beginning to its end: while
    a coroutine or a generator waits within such a block, its thread runs others."""

    __slots__ = ("token", "__weakref__")

    def __init__(self, token: Token[Any]) -> None:
        self.token = token


_blocks: WeakSet[Mark] = WeakSet()
"""The marks of such blocks.  `seterr` keeps none of its own."""


class ErrorModes:
    """Replaces the context variable in which NumPy's `errstate` and `seterr` keep the error modes."""

    def __init__(self, variable: ContextVar[Any]) -> None:
        self._variable = variable

    def set(self, value: Any) -> Token[Any] | Mark:
        if _serving():
            return self._variable.set(value)
        token = self._variable.set(value)
        try:
            eager = _follow()
        except BaseException:
            self._variable.reset(token)
            raise
        if not eager:
            return token
        mark = Mark(token)
        _blocks.add(mark)
        return mark

    def reset(self, given: Token[Any] | Mark) -> None:
        token = given.token if isinstance(given, Mark) else given
        if isinstance(given, Mark):
            _blocks.discard(given)
        self._variable.reset(token)
        if _watching and not _serving():
            _follow()


def _follow() -> bool:
    """Tell the array core whether errors must show at once in some thread; return whether they must in this
    one."""
    global _watching
    modes = _modes()
    eager = any([modes[kind.mode] in floaterrors.AT_ONCE for kind in floaterrors.KINDS.values()])
    if eager:
        _watching = True
        _eager.add(threading.get_ident())
    elif not _watching:
        return False
    else:
        _eager.discard(threading.get_ident())
    _tell()
    return eager


def _tell() -> None:
    """Tell the array core whether operations have to be computed at once."""
    elementwise.eager_errors = known.eager = _raising or bool(_eager) or bool(_blocks)


def _look_at_filters() -> None:
    """Compute operations at once from now on if the warning filters may raise a RuntimeWarning, and else
    record them again."""
    global _raising
    raising = False
    for action, message, category, module, line in warnings.filters:
        if issubclass(RuntimeWarning, category):
            raising = action == "error"
            if raising or message is None and module is None and not line:
                break
    if raising is not _raising:
        _raising = raising
        _tell()


def _serving() -> bool:
    """Does this thread work for the engine, rather than for the program?"""
    if threading.get_ident() != _main and threading.current_thread().name.startswith(SERVANTS):
        return True
    return _engine.entered()


def _settle(thorough: bool = False) -> None:
    if _engine.unreported and not _serving():
        (_engine.fence_thoroughly if thorough else _engine.fence)()


def _settling(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function of `warnings` that changes the filters, to report earlier errors before it runs."""
    @wraps(function)
    def settled(*args: Any, **kwargs: Any) -> Any:
        with suppress(MemoryError):  # it is raised where the program reads what could not be computed
            _settle()
        try:
            return function(*args, **kwargs)
        finally:
            _look_at_filters()

    return settled


def _leaving(leave: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `catch_warnings.__exit__`, to report earlier errors before it runs; where the block records
    warnings, also the errors of pending results that nobody holds any more: the program asks for them.

    An exception that leaves the block stays the one that the program sees.
    """
    @wraps(leave)
    def left(self: Any, *raised: Any) -> Any:
        try:
            _settle(self._record)
        except Exception as error:
            if not any(raised) or library.of_handler(error):
                raise
        finally:
            leave(self, *raised)
            _look_at_filters()

    return left


def _placing(show: Callable[[Any], None]) -> Callable[[Any], None]:
    """Wrap `warnings._showwarnmsg`, to move warnings at a line of this package to the program's line.

    NumPy warns at the line that called it, which is one of ours for operations computed at once, and in host
    functions, whose line is that which recorded them.  Such lines are not remembered as having warned
    already; the program's are.
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
        where = provenance.running if _engine.entered() else None
        if where is None:
            where = provenance.where(depth) if frame is not None else provenance.NOWHERE
        if where is provenance.NOWHERE or frame is None:
            show(message)
            return
        frame.f_globals["__warningregistry__"] = None
        vars(warnings)["onceregistry"].pop((str(message.message), message.category), None)
        floaterrors.warn(message.message, message.category, where)

    return placed


def _unfollowed(variable: ContextVar[Any]) -> Callable[..., Any]:
    """Make the `errstate` of `numpy.linalg`.

    Its blocks with a `call` hold one function in C, on NumPy's arrays.  Nothing is recorded or reported in
    them, so that the array core need not know of their modes: telling it took longer than to solve two
    equations.
    """
    scope = {**vars(_config), "_extobj_contextvar": variable}
    methods = {name: FunctionType(getattr(numpy.errstate, name).__code__, scope)
               for name in ("__enter__", "__exit__")}
    inside: Any = type("errstate", (numpy.errstate,), {"__slots__": (), **methods})

    def errstate(**options: Any) -> Any:
        return inside(**options) if "call" in options else numpy.errstate(**options)

    return errstate


def _install() -> None:
    if isinstance(_config._extobj_contextvar, ErrorModes):
        return
    linalg = importlib.import_module("numpy.linalg._linalg")
    vars(linalg)["errstate"] = _unfollowed(_config._extobj_contextvar)
    vars(_config)["_extobj_contextvar"] = ErrorModes(_config._extobj_contextvar)
    for name in ("simplefilter", "filterwarnings", "resetwarnings"):
        setattr(warnings, name, _settling(getattr(warnings, name)))
    vars(warnings)["_showwarnmsg"] = _placing(vars(warnings)["_showwarnmsg"])
    catch = vars(warnings)["catch_warnings"]
    catch.__enter__, catch.__exit__ = _settling(catch.__enter__), _leaving(catch.__exit__)
    _look_at_filters()


_install()

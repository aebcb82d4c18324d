"""What a call does: how many launches it takes, and its result or its error."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Thread
from types import CodeType
from typing import Any

import numpy

from diffuse.observe import trace
from diffuse.stream import engine


def launches(run: Callable[[], Any]) -> int:
    """The number of launches until everything that a call records is done, while its result is held."""
    engine.fence()
    before = trace.snapshot()["launched"]
    held = run()
    engine.fence()
    del held
    return trace.snapshot()["launched"] - before


def pending() -> set[int]:
    """The stores that groups use which are not forwarded yet."""
    stores = engine.current().stores
    return {store for store, number in stores.users.items() if number > stores.taken}


def python_calls(run: Callable[[], Any]) -> list[CodeType]:
    """The Python functions that a call runs, in order, from its own function on."""
    found: list[CodeType] = []

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call":
            found.append(frame.f_code)

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return found


def outcome(function: Callable[..., Any], *args: Any) -> Any:
    """The result of a call, or the class and the text of its error."""
    try:
        return function(*args)
    except Exception as error:
        return type(error), str(error)


def quiet_outcome(function: Callable[[], Any]) -> Any:
    """The result of a call without its warnings, or its exception."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function()
        except Exception as error:
            return error


def in_child(function: Callable[[], bool]) -> bool:
    """The verdict of a forked child; one that hangs is ended after two minutes."""
    child = os.fork()
    if not child:
        try:
            signal.alarm(120)
            os._exit(0 if function() else 1)
        finally:
            os._exit(2)
    return os.waitpid(child, 0)[1] == 0


def fails_alike(ours: Callable[[], Any], theirs: Callable[[], Any]) -> None:
    """Check that two calls raise the same error: the first one an error of the same class, or of a class that
    inherits it, with the same text."""
    expected, found = error(theirs), error(ours)
    assert isinstance(found, type(expected)) and str(found) == str(expected), (found, expected)


def error(function: Callable[[], Any]) -> Exception:
    """The error of a call, which has to raise one."""
    try:
        found = function()
    except Exception as raised:
        return raised
    raise AssertionError(f"no error, but {found!r}")


def run_all(threads: Sequence[Thread], seconds: float | None = None) -> None:
    """Start the threads, and wait for the end of each: so many seconds at most, if they are given."""
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds)


@contextmanager
def warned() -> Iterator[list[warnings.WarningMessage]]:
    """Record all warnings of the block."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught


@contextmanager
def unwarned() -> Iterator[None]:
    """Ignore all warnings and all floating-point errors of the block."""
    with warnings.catch_warnings(), numpy.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


@contextmanager
def silent() -> Iterator[None]:
    """Fail if the block warns.  A filter that raises would make NumPy compute everything at once."""
    with warned() as caught:
        yield
    assert not caught, [str(warning.message) for warning in caught]

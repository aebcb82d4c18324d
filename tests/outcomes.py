"""What a call does: how many launches it takes, and its result or its error."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Thread
from typing import Any

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
def silent() -> Iterator[None]:
    """Fail if the block warns.  A filter that raises would make NumPy compute everything at once."""
    with warned() as caught:
        yield
    assert not caught, [str(warning.message) for warning in caught]

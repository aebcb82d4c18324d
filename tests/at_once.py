"""What NumPy computes at once on large arrays: the bytes that tests allow it, and counts of what was done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from diffuse import library
from diffuse.numpy.arrays import core, soon
from diffuse.numpy.small import native
from diffuse.observe import trace
from diffuse.stream import engine


@contextmanager
def noticed() -> Iterator[None]:
    """What is waited for counts, which it does not in other tests (conftest.py)."""
    brevity = engine.current().brevity
    before, brevity.listener = brevity.listener, soon.allow
    try:
        yield
    finally:
        brevity.forget()
        brevity.listener = before


@contextmanager
def allowed(count: int = 1 << 40, trial: bool = False) -> Iterator[None]:
    """So many bytes may be read and written at once; on trial, as at the beginning of a program.

    As where the engine allows it (`soon.allow`), arrays show the memory of their stores.  After a change of
    the runtime, which a test before may have made, they do not."""
    core.see(library.current().host_sees)
    native.set_allowance(count, trial)
    try:
        yield
    finally:
        native.set_allowance(0)


def counted(run: Callable[[], Any]) -> tuple[int, int]:
    """Tasks recorded, and operations done at once, while a function runs."""
    before = trace.snapshot()
    run()
    after = trace.snapshot()
    return after["recorded"] - before["recorded"], after["single"] - before["single"]

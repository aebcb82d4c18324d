"""Lets NumPy compute at once on large arrays at hand: at the beginning of a program, and in programs that
read a value after every few operations.

Recording an operation for the first time takes a millisecond, and many operations are called only once, or
in loops that gain little.  So a program begins with a number of bytes that operations may read and write at
once (`TRIAL`).  Of those between two values that it reads, only what exceeds a bound is used up, since
recording saves nothing on fewer.  Once the bytes are used up, operations are recorded.

Later the engine detects programs that read a value after every few operations (stream/brevity.py), and grants
a number of bytes between two such values.

Only operations with NumPy's bits are done at once, so that results do not depend on this.  The extension does
it (small/soon.c); without the extension such operations are recorded, or done one by one (ops/single.py).
Sums and dot products of large vectors, and ufuncs on some 100,000 elements, it shares with the runtime's
threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from diffuse import library
from diffuse.numpy.arrays import core
from diffuse.numpy.small import native
from diffuse.settings import config, watch

TRIAL = 128 << 20
"""The bytes that operations of a program may read and write at once at its beginning."""


def _nothing() -> None:
    pass


looked: Callable[[], None] = _nothing
"""Note that the program reads a value."""


def _grant(_: int) -> None:
    pass


grant: Callable[[int], None] = _grant
"""Let the operations that follow read and write so many more bytes at once: what comes after an operation on
views that change in every turn (ops/moving.py) belongs to the same loop, and would have to be waited for.
With -1 bytes nothing more is granted."""


def allow(allowance: int) -> bool:
    """Set how many bytes operations may read and write at once between two reads.  -1 sets nothing; returns
    whether the last allowance was exceeded."""
    if allowance < 0:
        return bool(native.allowance() == 0)
    if allowance and not core.SEES and library.current().host_sees:  # else nothing is written at once
        core.see(True)
    native.set_allowance(allowance if config.small else 0)
    return False


def _team() -> Any:
    """The threads of the runtime for what the extension reduces at once (small/team.c); None where it has
    none."""
    running = library.current()
    asked = getattr(running.runtime, "team", None) if running.host_sees else None
    return None if asked is None else asked()


if native is not None:
    for _name in ("runtime", "threads"):
        watch(_name, lambda _: native.connect_team(_team))
    native.connect_team(_team)
    looked, grant = native.looked, native.grant
    library.current().brevity.listener = allow
    library.current().walk.foreseen = native.loop_met
    if config.small and config.runtime == "local":
        native.set_allowance(TRIAL, True)
    watch("small", lambda _: native.set_allowance(0))
    watch("runtime", lambda _: native.set_allowance(0))

"""Where point tasks run: `base` is the protocol, `reference` its plainest meaning, `local` threads,
`legate` the ranks of a distributed machine.

A runtime gets kernels as opaque objects (`base.Kernel`) and never learns what they compute.
"""

from __future__ import annotations

from collections.abc import Callable

from diffuse.runtime.base import Runtime

RUNTIMES = ("local", "reference", "legate")


def make(name: str, points: int | None = None) -> Runtime:
    """The runtime called `name`; `points`: point tasks it runs at once (default: the machine's)."""
    if name == "local":
        from diffuse.runtime.local.runtime import Local

        return Local(points)
    if name == "reference":
        from diffuse.runtime.reference import Reference

        return Reference(points)
    if name == "legate":
        from diffuse.runtime.legate.runtime import Legate

        return Legate(points)
    raise ValueError(f"runtime {name!r}: expected one of {', '.join(RUNTIMES)}")


def prepare(name: str) -> Callable[[], None] | None:
    """Have this process ready for a runtime that is not made yet.  What cannot wait is done: several ranks
    are alike from the program's first line on.  What may go on in the background is returned."""
    if name == "legate":
        from diffuse.runtime.legate import ranks

        ranks.settle_in_early()
    return _threads if name == "local" else None


def start(name: str) -> None:
    """Start what a runtime runs on, if that can be done only once and another library is about to do it.  No
    threads: an import may be under way, for which their imports would wait."""
    if name == "legate":
        from diffuse.runtime.legate import prepare

        prepare.start()


def _threads() -> None:
    """Make the thread pool's machine code."""
    from diffuse.runtime.local import pool

    pool.entry()

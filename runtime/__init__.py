"""Where point tasks run: `base` is the protocol, `reference` its plainest meaning, `local` threads,
`legate` the ranks of a distributed machine.

A runtime gets kernels as opaque objects (`base.Kernel`) and never learns what they compute.
"""

from __future__ import annotations

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

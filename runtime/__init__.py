"""Runtimes run point tasks: `base` is their protocol, `reference` defines its meaning, `local` uses the
threads of this process, `legate` and `mpi` the ranks of a distributed machine, `cuda` a GPU, `simt` a GPU's
kernels on the host.

A runtime gets kernels as opaque objects (`base.Kernel`) and does not know what they compute.
"""

from __future__ import annotations

from contextlib import suppress

from diffuse.observe import notices
from diffuse.runtime import heap
from diffuse.runtime.base import Runtime
from diffuse.service import code
from diffuse.service.client import Unavailable
from diffuse.settings import config

RUNTIMES = ("local", "reference", "legate", "mpi", "cuda", "simt")
RANKS = frozenset({"legate", "mpi"})
"""The runtimes of several processes."""
SEEN = frozenset({"local", "reference"})
"""The runtimes whose memory the host sees: one rank, and no memory of other libraries (base.py).  Listed by
name, so that a program on small arrays can ask without making a runtime."""


def make(name: str, points: int | None = None) -> Runtime:
    """Make the runtime called `name`; it runs `points` point tasks in parallel (default: the machine's)."""
    if name == "local":
        from diffuse.runtime.local.runtime import Local

        return Local(points)
    if name == "reference":
        from diffuse.runtime.reference import Reference

        return Reference(points)
    if name == "legate":
        from diffuse.runtime.legate.runtime import Legate

        return Legate(points)
    if name == "mpi":
        from diffuse.runtime.mpi import traffic

        if traffic.virtual is not None and traffic.simulated:
            from diffuse.runtime.mpi.virtual.simulated import Simulated

            return Simulated(traffic.virtual, points)
        if traffic.virtual is not None:
            from diffuse.runtime.mpi.virtual.predicted import Predicted

            return Predicted(traffic.virtual, points)
        from diffuse.runtime.mpi.runtime import Mpi

        return Mpi(points)
    if name == "simt":
        from diffuse.runtime.device.simt import Simt

        return Simt(points)
    if name == "cuda":
        from diffuse.runtime.device.cuda import Cuda

        return Cuda(points)
    raise ValueError(f"runtime {name!r}: expected one of {', '.join(RUNTIMES)}")


def prepare(name: str) -> None:
    """Prepare this process for a runtime that is made later.  Several ranks are synchronised at once, before
    the program's first line."""
    heap.keep()
    if name in RANKS:
        from diffuse.runtime.ranks import process

        process.settle_in_early()


_foreseen = False


def foresee(name: str) -> None:
    """Request the native code of a runtime, if the cache is empty, as soon as a large array appears: the
    compile server then starts while the program goes on.  Programs of small arrays never need it.  A program
    that may never launch anything does not load what the cache has."""
    global _foreseen
    if not _foreseen and name == "local" and config.compile != "off":
        _foreseen = True
        if not code.disk().empty():
            return
        from diffuse.runtime.local import pool

        with notices.postponed(), suppress(Unavailable):
            pool.ready()


def start(name: str) -> None:
    """Start the system under a runtime before another library starts it with other options.  It starts no
    threads: an import may be under way, which imports on other threads would wait for."""
    if name == "legate":
        from diffuse.runtime.legate import prepare

        prepare.start()

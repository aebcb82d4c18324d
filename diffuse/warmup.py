"""What every program needs soon, started while it still imports: LLVM, the pool's and the driver's code."""

from __future__ import annotations

import os
import threading
from contextlib import suppress

from diffuse.settings import config

_thread: threading.Thread | None = None


def start() -> None:
    """Warm up in the background, once; the program's end waits, since LLVM must not be left halfway."""
    global _thread
    if config.runtime == "legate":
        _settle_in()
    if _thread is None and config.compile != "off" and config.runtime == "local":
        _thread = threading.Thread(target=_run, name="diffuse-warm-up")
        _thread.start()


def _settle_in() -> None:
    """One of several ranks: alike from the first line of the program on, before there is a runtime."""
    from diffuse.runtime.legate import prepare, ranks

    if prepare.ranks() > 1:
        ranks.settle_in(prepare.rank(), prepare.ranks())
        ranks.seed(ranks.job() or b"")


def _run() -> None:
    # whatever fails here fails again, and is reported, where it is needed
    with suppress(Exception):
        from diffuse.runtime import pool

        pool.entry()
        from diffuse.kernels import jit, pipeline

        jit.prepare()
        pipeline.driver()


def _join() -> None:
    if _thread is not None and _thread is not threading.current_thread():
        _thread.join()


# A child of fork has no such thread, and would find its locks held for ever.
os.register_at_fork(before=_join)

"""What every program needs soon, started while it still imports: LLVM, the pool's and the driver's code."""

from __future__ import annotations

from contextlib import suppress

from diffuse import worker
from diffuse.settings import config


def start() -> None:
    """Warm up in the background, once."""
    if config.runtime == "legate":
        _settle_in()
    if config.compile != "off" and config.runtime == "local":
        worker.post(_run)


def _settle_in() -> None:
    """One of several ranks: alike from the first line of the program on, before there is a runtime."""
    from diffuse.runtime.legate import prepare, ranks

    if prepare.ranks() > 1:
        ranks.settle_in(prepare.rank(), prepare.ranks())
        ranks.seed(ranks.job() or b"")


def _run() -> None:
    # whatever fails here fails again, and is reported, where it is needed
    with suppress(Exception):
        from diffuse.runtime.local import pool

        pool.entry()
        from diffuse.kernels.build import jit
        from diffuse.kernels.llvm import pipeline

        jit.prepare()
        pipeline.driver()

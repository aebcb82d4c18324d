"""Load in the background what every program needs: LLVM, and the code of the pool and the row driver."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from diffuse import worker
from diffuse.runtime import prepare
from diffuse.settings import config


def start() -> None:
    """Warm up in the background, once."""
    slow = prepare(config.runtime)
    if slow is not None and config.compile != "off":
        worker.post(lambda: _run(slow))


def _run(slow: Callable[[], None]) -> None:
    # whatever fails here fails again, and is reported, where it is needed
    with suppress(Exception):
        slow()
        from diffuse.kernels.build import jit
        from diffuse.kernels.llvm import pipeline

        jit.prepare()
        pipeline.driver()

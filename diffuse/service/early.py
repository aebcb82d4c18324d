"""Starts the compile server ahead of the first request, if a program will most likely need it."""

from __future__ import annotations

import os
from functools import cache

from diffuse.interrupts import suppress
from diffuse.service.cache import Cache
from diffuse.service.client import client
from diffuse.settings import config


@cache
def start(program: str) -> bool:
    """Start the server if the cache is empty, or older than this file; returns whether it was started.
    Further calls return the same.

    The server takes nearly as long to import LLVM as the program takes to import NumPy, if each has a
    processor.  So this is called before anything else is imported, and imports little itself: a server that
    still starts when the program works would take a processor from threads such as those of BLAS.
    """
    if config.runtime != "local" or config.compile == "off" or len(os.sched_getaffinity(0)) < 2:
        return False
    kept = Cache(config.cache_dir, config.cache_size)
    return kept.limit != 0 and (kept.empty() or _changed(program, kept.folder)) and client.start()


def _changed(program: str, folder: str | os.PathLike[str]) -> bool:
    """Was the program's file changed since a kernel was written to the cache, or since the last call?"""
    with suppress(OSError):
        changed = os.stat(program).st_mtime > os.stat(folder).st_mtime
        if changed:
            os.utime(folder)
        return changed
    return False

"""Starts the compile server ahead of the first request, if a program will most likely need it."""

from __future__ import annotations

import os

from diffuse.interrupts import suppress
from diffuse.service.client import client
from diffuse.service.code import disk
from diffuse.settings import config


def start(program: str) -> bool:
    """Start the server if the cache is empty, or older than this file; returns whether it was started.

    The server takes as long to import LLVM as the program takes to import NumPy, if each has a processor.
    """
    if config.runtime != "local" or config.compile == "off" or len(os.sched_getaffinity(0)) < 2:
        return False
    kept = disk()
    return kept.limit != 0 and (kept.empty() or _changed(program, kept.folder)) and client.start()


def _changed(program: str, folder: str | os.PathLike[str]) -> bool:
    """Was the program's file changed since a kernel was written to the cache, or since the last call?"""
    with suppress(OSError):
        changed = os.stat(program).st_mtime > os.stat(folder).st_mtime
        if changed:
            os.utime(folder)
        return changed
    return False

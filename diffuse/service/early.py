"""Starts the compile server ahead of the first request, where a program will most likely need it."""

from __future__ import annotations

import os

from diffuse.service.client import client
from diffuse.service.code import disk
from diffuse.settings import config


def start() -> bool:
    """Start the server if the cache is empty and there is a processor for it; says whether it was.

    The server takes as long to import LLVM as the program takes to import NumPy.
    """
    if not (config.runtime == "local" and config.compile != "off" and len(os.sched_getaffinity(0)) > 1
            and disk().limit != 0 and disk().empty()):
        return False
    return client.start()

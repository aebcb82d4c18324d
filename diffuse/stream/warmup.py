"""Requests at import what every program needs compiled, if the cache is empty."""

from __future__ import annotations

from diffuse.runtime import prepare
from diffuse.service import code
from diffuse.service.client import Unavailable
from diffuse.settings import config


def start() -> None:
    """Prepare for the runtime; if the cache is empty, request its native code."""
    common = prepare(config.runtime)
    if common is not None and config.compile != "off" and code.disk().empty():
        try:
            common()
        except Unavailable:  # a warning has said so
            pass

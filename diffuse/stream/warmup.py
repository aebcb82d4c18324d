"""Start the compiling process early where a program will need it: where nothing is kept on disk yet."""

from __future__ import annotations

from diffuse.runtime import prepare
from diffuse.service import code
from diffuse.service.client import Unavailable
from diffuse.settings import config


def start() -> None:
    """Prepare for the runtime; with an empty cache, have compiled what every program needs."""
    common = prepare(config.runtime)
    if common is not None and config.compile != "off" and code.disk().empty():
        try:
            common()
        except Unavailable:  # of which the program was warned
            pass

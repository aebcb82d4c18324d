"""Objects of other libraries that show a store: one of the stream's, of Legate's, or the memory of a GPU."""

from __future__ import annotations

import sys
from typing import Any

from diffuse import library
from diffuse.library import start
from diffuse.numpy.arrays import base
from diffuse.numpy.arrays.core import Array
from diffuse.settings import config

PROTOCOL = "__diffuse__"
"""What an object shows a store of the stream's by (library.py)."""


class _Starter:
    """Starts Legate as Diffuse needs it, before cuPyNumeric does when a program imports that."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> None:
        if fullname == "cupynumeric":
            start(config.runtime)


sys.meta_path.insert(0, _Starter())


def shares(x: Any) -> bool:
    """Is this an object of another library that shows a store?"""
    if isinstance(x, Array):
        return False
    if hasattr(type(x), PROTOCOL):
        return True
    running = library.current()
    if running.host_sees:
        return False
    exchange = running.runtime.exchange
    return exchange is not None and exchange.shows(x)


def tensors() -> Any:
    """The module of DLPack's protocol for the memory of a GPU; None where the runtime has none."""
    running = library.current()
    if running.host_sees:
        return None
    from diffuse.numpy.bridge import device

    exchange = running.runtime.exchange
    if exchange is None or exchange.attribute != device.INTERFACE:
        return None
    from diffuse.numpy.bridge import tensors as found

    return found


def adopt(x: Any) -> Any:
    """The Diffuse array over the store that an object of another library shows, not copied if possible."""
    from diffuse.numpy.bridge import device, legate

    if hasattr(type(x), PROTOCOL):
        return base.showing(*x.__diffuse__())
    return device.adopt(x) if library.current().exchange.attribute == device.INTERFACE else legate.adopt(x)

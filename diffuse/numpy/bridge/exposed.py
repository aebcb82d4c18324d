"""Recognises objects of other libraries that expose a store of the stream, of Legate, or memory of a GPU."""

from __future__ import annotations

from typing import Any

from diffuse import library
from diffuse.numpy.arrays import base
from diffuse.numpy.arrays.core import Array

PROTOCOL = "__diffuse__"
"""The attribute through which an object exposes a store of the stream (library.py)."""


def shares(x: Any) -> bool:
    """Does an object of another library expose a store?"""
    if isinstance(x, Array):
        return False
    if hasattr(type(x), PROTOCOL):
        return True
    running = library.current()
    if running.stores.sides is not None:
        from diffuse.numpy.bridge import device

        if hasattr(type(x), device.INTERFACE):
            running.on_device()
    if running.host_sees:
        return False
    sharing = running.runtime.sharing
    return sharing is not None and sharing.shows(x)


def tensors() -> Any:
    """The module of DLPack's protocol for the memory of a GPU; None if the runtime has none."""
    running = library.current()
    running.on_device()
    if running.host_sees:
        return None
    from diffuse.numpy.bridge import device

    sharing = running.runtime.sharing
    if sharing is None or sharing.attribute != device.INTERFACE:
        return None
    from diffuse.numpy.bridge import tensors as found

    return found


def adopt(x: Any) -> Any:
    """The Diffuse array over the store that an object of another library exposes, without a copy if
    possible."""
    from diffuse.numpy.bridge import device, legate

    if hasattr(type(x), PROTOCOL):
        return base.showing(*x.__diffuse__())
    return device.adopt(x) if library.current().sharing.attribute == device.INTERFACE else legate.adopt(x)

"""Loads object code into memory: without LLVM on x86-64, through LLVM on other processors."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from typing import Protocol

from diffuse.service.elf import LoadError

__all__ = ["LoadError", "Loaded", "Text", "load"]


class Loaded(Protocol):
    """Functions in memory, valid as long as this object lives."""

    @property
    def addresses(self) -> Mapping[str, int]: ...


class Text:
    """Code that another program loads, such as a GPU's driver: what `load` is for code of this process."""

    def __init__(self, image: bytes, names: Sequence[str]) -> None:
        self.image = image
        self.addresses: Mapping[str, int] = {}


def load(image: bytes, names: Sequence[str]) -> Loaded:
    """Load object code; the result has the addresses of the functions `names`."""
    if platform.machine() == "x86_64":
        from diffuse.service import elf

        return elf.load(image, names)
    from diffuse.service import mcjit

    return mcjit.load(image, names)

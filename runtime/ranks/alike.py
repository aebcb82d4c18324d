"""Refuses to run ranks whose versions or settings differ where that decides what is submitted."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from zlib import crc32

import numpy as np

from diffuse.runtime.ranks import launcher
from diffuse.settings import SETTINGS, config

DECISIVE = "window", "small", "min_chunk", "memory", "compile", "fallback", "digest", "real", "aliases"
"""The settings that have to be equal on all ranks."""
WORD = 7
"""Bytes of text per gathered word."""
Gather = Callable[[int], list[int]]


def alike(gather: Gather, *more: tuple[str, object]) -> None:
    """Raise RuntimeError on every rank if ranks differ, naming the first difference and each rank's value.
    `more` are the runtime's own items, as pairs of a name and a value."""
    things = [("Diffuse", launcher.version("diffuse")), ("NumPy", np.__version__),
              ("SciPy", launcher.version("scipy")), ("Python", sys.version.split()[0]),
              *[(SETTINGS[name].variable, getattr(config, name)) for name in DECISIVE],
              ("PYTHONHASHSEED", os.environ.get("PYTHONHASHSEED")), *more]
    if len(set(gather(crc32(repr(things).encode())))) == 1:
        return
    for name, value in things:
        if len(set(gather(crc32(repr(value).encode())))) > 1:
            raise RuntimeError(_said(name, texts(gather, "none" if value is None else str(value))))


def _said(name: str, values: list[str]) -> str:
    other = next(rank for rank, value in enumerate(values) if value != values[0])
    return (f"ranks differ in {name}: rank 0 has {values[0]}, rank {other} has {values[other]}; make "
            "versions and settings the same on all ranks (`diffuse run --ranks` passes the settings on)")


def texts(gather: Gather, text: str) -> list[str]:
    """Gather a text of each rank; every rank has to call this."""
    own = text.encode()
    lengths = gather(len(own))
    found = [b""] * len(lengths)
    for begin in range(0, max(lengths), WORD):
        words = gather(int.from_bytes(own[begin:begin + WORD].ljust(WORD, b"\0"), "little"))
        found = [before + word.to_bytes(WORD, "little") for before, word in zip(found, words, strict=True)]
    return [each[:length].decode(errors="replace") for each, length in zip(found, lengths, strict=True)]

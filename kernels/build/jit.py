"""Turns a `Body` into callable machine code, from the cache or through the compile server (service/).

The process that runs the program never loads LLVM.  The key of a body in the cache is a digest of everything
that its machine code depends on.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from diffuse.ir.loops import ROWS, SEGMENT
from diffuse.kernels.body import abi
from diffuse.kernels.body.expr import Body
from diffuse.service import code, fingerprint, loader

EMITTERS = ("body", "llvm", "grid", "targets", "build")
"""The folders of `kernels` whose sources determine a kernel's machine code."""


class Native(NamedTuple):
    """A compiled body, valid as long as `keep` lives."""

    address: int
    """The address of `void k(ptr block, i64 point)`."""
    finish: int
    """The address of `void k_finish(ptr block)`; 0 if the body has no reductions."""
    keep: loader.Loaded


class Compilation:
    """The compilation of one body for this processor."""

    __slots__ = ("asked", "loads", "_body", "_key")

    kind = code.BODY

    def __init__(self, body: Body, loads: code.Loader = loader.load) -> None:
        self.loads = loads
        """Loads object code as functions."""
        self._body = body
        self._key = ""
        self.asked = False
        """Was it requested from the server, as the cache had no entry?"""

    @property
    def key(self) -> str:
        """The key of the body in the cache, computed once, as that is slow for large bodies."""
        if not self._key:
            self._key = self.digest()
        return self._key

    def digest(self) -> str:
        return key_of(self._body)

    def names(self) -> tuple[str, ...]:
        """The functions of the machine code."""
        return _names(self._body)

    def content(self) -> tuple[Any, ...]:
        """The content of a request."""
        return request(self._body)

    def made(self, found: loader.Loaded) -> Any:
        """Wrap loaded code as the object that runs it."""
        return _native(found)

    def compile(self) -> Any:
        """Load the machine code from the cache, or request it and return None."""
        found = code.stored(self.key, self.names(), self.loads)
        if found is None:
            code.ask(self.key, self.kind, self.content)
            self.asked = True
        return self.made(found) if found else None

    def look(self, seconds: float | None = 0.0) -> Any:
        """Load requested code if it arrives within so many seconds (None: wait without limit)."""
        found = code.arrived(self.key, self.names(), seconds, self.loads)
        if found is None and not code.asked(self.key):
            return self.compile()  # another caller took the reply, or this is a forked child
        return self.made(found) if found else None


def compile(body: Body) -> Native:
    """Compile a body, and wait for it."""
    found: Native = awaited(Compilation(body))
    return found


def awaited(way: Compilation) -> Any:
    """Wait for a compilation, and return its result."""
    found = way.compile()
    while found is None:
        found = way.look(None)
    return found


def cached(body: Body) -> bool:
    """Is the body in the cache?  Then `compile` takes a fraction of a millisecond."""
    return code.cached(key_of(body))


def request(body: Body) -> tuple[Any, ...]:
    """The content of a request: the body, and the user-defined functions that it applies."""
    if (user := sys.modules.get("diffuse.kernels.body.user")) is None:  # the program defines no functions
        return body, []
    kinds = {op.kind for loop in body.loops for op in loop.ops}
    return body, [user.FUNCTIONS[kind] for kind in sorted(kinds) if kind in user.FUNCTIONS]


def key_of(body: Body) -> str:
    """The digest of everything that the machine code of a body depends on."""
    return digest(repr(body))


def digest(what: str) -> str:
    """The digest of something to be compiled, and of everything else that its machine code depends on."""
    from hashlib import sha256

    return sha256(f"{what}\n{_circumstances()}".encode()).hexdigest()


@cache
def _circumstances() -> str:
    """Describe the processor, the versions, and the source code of the emitter.  NumPy's version is among
    them, as some results differ between its versions (llvm/ops/bits.py)."""
    from hashlib import sha256

    import numpy

    root = Path(__file__).parent.parent
    sources = [file for folder in EMITTERS for file in _sources(str(root / folder), folder)]
    found = sha256(f"{root} {sorted(sources)} {SEGMENT} {ROWS}".encode()).hexdigest()
    return f"{fingerprint.processor()}\n{fingerprint.llvm()}\n{numpy.__version__}\n{found}"


def _sources(folder: str, name: str) -> Iterator[tuple[str, int, int]]:
    """The source files of a folder by size and modification time, as Python validates bytecode.  Reading them
    would cost every program with kernels 1 ms."""
    with os.scandir(folder) as files:
        for file in files:
            if file.name.endswith(".py"):
                found = file.stat()
                yield f"{name}/{file.name}", found.st_size, found.st_mtime_ns
            elif file.is_dir() and file.name != "__pycache__":
                yield from _sources(file.path, f"{name}/{file.name}")


def _names(body: Body) -> tuple[str, ...]:
    return ("k", "k_finish") if abi.finishes(body) else ("k",)


def _native(found: loader.Loaded) -> Native:
    return Native(found.addresses["k"], found.addresses.get("k_finish", 0), found)

"""Machine code by key: loaded from the disk, or asked of the compiling process and loaded when it is there.

A key is a digest of everything that the object code depends on, so that what is kept under it is right.
"""

from __future__ import annotations

import builtins
import time
from collections.abc import Callable, Sequence
from functools import cache
from hashlib import sha256
from typing import Any

from diffuse import settings
from diffuse.observe import trace
from diffuse.service import fingerprint
from diffuse.service.cache import Cache
from diffuse.service.client import Unavailable, client
from diffuse.service.loader import Loaded, LoadError, load

BODY, TEXT = "body", "text"
"""Kinds of requests: the body of a kernel, or LLVM IR for any processor of this machine's kind."""

PATIENCE = 2.0
"""Seconds for which a process that follows another one waits for what that has compiled."""
GLANCE = 0.002
"""Seconds between two looks at the disk meanwhile."""

_others: dict[str, tuple[float, Callable[[], Any]]] = {}
"""What another process is expected to have compiled: until when, and how to ask for it after that."""
_follows = False


def disk() -> Cache:
    """The cache in the folder that the settings name now."""
    return _cache(settings.config.cache_dir, settings.config.cache_size)


@cache
def _cache(folder: str, limit: int | None) -> Cache:
    return Cache(folder, limit)


def cached(key: str) -> bool:
    """Is there an entry on the disk?  Then `stored` most likely has the code, within a millisecond."""
    return disk().path(key).is_file()


def stored(key: str, names: Sequence[str]) -> Loaded | None:
    """Load the code that the disk has under a key."""
    kept = disk()
    image = kept.get(key)
    if image is None:
        return None
    try:
        found = load(image, names)
    except LoadError:  # whole, and yet not what was asked for
        kept.drop(key)
        return None
    trace.count("cache hits")
    return found


def follow() -> None:
    """Leave it to another process, which runs the same program beside this one, to have code compiled, and
    take it from the disk."""
    global _follows
    _follows = True


def ask(key: str, kind: str, content: Callable[[], Any]) -> None:
    """Have code compiled beside the program.  `Unavailable` if that is not possible any more."""
    if not _follows or disk().limit == 0:
        _ask(key, kind, content)
    elif not asked(key):
        _others[key] = time.monotonic() + PATIENCE, lambda: _ask(key, kind, content)


def _ask(key: str, kind: str, content: Callable[[], Any]) -> None:
    kept = disk()

    def request() -> tuple[Any, ...]:
        if kept.limit != 0:
            kept.make()
        return str(kept.folder), kept.limit, kind, content()

    client.ask(key, request)


def asked(key: str) -> bool:
    """Is code being made, or there to be loaded?"""
    return client.knows(key) or key in _others


def arrived(key: str, names: Sequence[str], seconds: float | None = 0.0) -> Loaded | None:
    """Load the code that was asked for, if it comes within so many seconds (None: however long that takes).

    Raises what went wrong in the compiling process.
    """
    if key in _others and ((found := _from_another(key, names, seconds)) is not None or key in _others):
        return found
    answer = client.answer(key) if seconds == 0 else client.wait(key, seconds)
    if answer is None:
        return None
    if answer.error is not None:
        client.take(key)
        raise _exception(*answer.error)
    try:
        found = load(answer.image, names)
    except LoadError:
        client.take(key)
        raise
    trace.count("compilations" if answer.compiled else "cache hits")
    client.take(key)
    return found


def _from_another(key: str, names: Sequence[str], seconds: float | None) -> Loaded | None:
    """What another process has compiled meanwhile; if that takes too long, the code is asked for here, and so
    is all that is needed from then on."""
    global _follows
    end = None if seconds is None else time.monotonic() + seconds
    patience, ask_here = _others[key]
    while (found := stored(key, names)) is None:
        now = time.monotonic()
        if now > patience:
            _follows = False
            ask_here()
            break
        if end is not None and now >= end:
            return None
        time.sleep(GLANCE)
    _others.pop(key, None)
    return found


def fetch(key: str, names: Sequence[str], kind: str, content: Callable[[], Any]) -> Loaded:
    """Load code from the disk, or have it compiled and wait for that."""
    while (found := stored(key, names)) is None:
        ask(key, kind, content)
        if (found := arrived(key, names, None)) is not None:
            break
    return found


def text_key(text: str) -> str:
    """The key of LLVM IR that is compiled for any processor of this machine's kind."""
    return sha256(f"{text}\n{fingerprint.machine()}\n{fingerprint.llvm()}".encode()).hexdigest()


def _exception(kind: str, text: str) -> Exception:
    """An exception of the other process's, of the same class if Python has that."""
    if kind == Unavailable.__name__:
        return Unavailable(text)
    found = getattr(builtins, kind, None)
    if isinstance(found, type) and issubclass(found, Exception) and not issubclass(found, UnicodeError):
        return found(text)
    return RuntimeError(f"{kind}: {text}")

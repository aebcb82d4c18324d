"""Looks machine code up by key: in the cache, or else from the compile server.

A key is a digest of everything that the object code depends on, so an entry of the cache is never stale.
"""

from __future__ import annotations

import builtins
import os
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from diffuse import settings
from diffuse.observe import trace
from diffuse.service import BODY as BODY
from diffuse.service import GRID as GRID
from diffuse.service import PTX as PTX
from diffuse.service import ROUTINE as ROUTINE
from diffuse.service import TEXT as TEXT
from diffuse.service import fingerprint
from diffuse.service.cache import Cache
from diffuse.service.client import Unavailable, client
from diffuse.service.loader import Loaded, LoadError, load

PATIENCE = 2.0
"""Seconds for which a follower waits for an entry of the cache before it sends a request itself."""
GLANCE = 0.002
"""Seconds between two looks at the cache while a follower waits."""

_others: dict[str, tuple[float, Callable[[], Any]]] = {}
"""Keys that a follower waits for: the deadline, and the call that sends the request after it."""
_follows = False


def disk() -> Cache:
    """Return the cache in the folder that the settings name now."""
    return _cache(settings.config.cache_dir, settings.config.cache_size)


@cache
def _cache(folder: str, limit: int | None) -> Cache:
    return Cache(folder, limit)


def cached(key: str) -> bool:
    """Is there an entry in the cache?  It may still prove invalid when it is loaded."""
    return disk().path(key).is_file()


Loader = Callable[[bytes, Sequence[str]], Loaded]
"""Makes callable addresses from an entry; by default those of functions for this processor."""


def stored(key: str, names: Sequence[str], load: Loader = load) -> Loaded | None:
    """Load the entry of the cache with this key, if there is a valid one."""
    kept = disk()
    image = kept.get(key)
    if image is None:
        return None
    try:
        found = load(image, names)
    except LoadError:  # intact, but not the object code of this request
        kept.drop(key)
        return None
    trace.count("cache hits")
    return found


def follow() -> None:
    """Make this process a follower: a peer that runs the same program sends the requests, and this process
    loads the results from the cache."""
    global _follows
    _follows = True


def ask(key: str, kind: str, content: Callable[[], Any]) -> None:
    """Request compilation in the background; `Unavailable` if no server can be started."""
    if not _follows or disk().limit == 0:
        _ask(key, kind, content)
    elif not asked(key):
        _others[key] = time.monotonic() + PATIENCE, lambda: _ask(key, kind, content)


def _ask(key: str, kind: str, content: Callable[[], Any]) -> None:
    kept = disk()

    def request() -> tuple[Any, ...]:
        if kept.limit != 0:
            kept.make()
        return os.path.abspath(kept.folder), kept.limit, kind, content()

    client.ask(key, request)


def asked(key: str) -> bool:
    """Was this code requested and not loaded yet?"""
    return client.knows(key) or key in _others


def missed(key: str, work: float) -> None:
    """Note that the program did so much work (operations times elements) without code that it requested."""
    client.missed(key, work)


def delay(key: str) -> float:
    """Estimate the seconds until the compile server begins a request."""
    return client.delay(key)


def urge(key: str) -> None:
    """Have requested code compiled before any other."""
    client.urge(key)


def arrived(key: str, names: Sequence[str], seconds: float | None = 0.0, load: Loader = load
            ) -> Loaded | None:
    """Load code that was requested, if it arrives within so many seconds (None: wait without limit).

    An exception of the compiler's is raised here.
    """
    if key in _others and ((found := _from_another(key, names, seconds, load)) is not None or key in _others):
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


def _from_another(key: str, names: Sequence[str], seconds: float | None, load: Loader) -> Loaded | None:
    """Wait for a peer's entry in the cache; after the deadline send the request, and stop following."""
    global _follows
    end = None if seconds is None else time.monotonic() + seconds
    patience, ask_here = _others[key]
    while (found := stored(key, names, load)) is None:
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


def fetch(key: str, names: Sequence[str], kind: str, content: Callable[[], Any], load: Loader = load
          ) -> Loaded:
    """Load code from the cache, or request it and wait."""
    while (found := within(None, key, names, kind, content, load)) is None:
        pass
    return found


def within(seconds: float | None, key: str, names: Sequence[str], kind: str, content: Callable[[], Any],
           load: Loader = load) -> Loaded | None:
    """Load code from the cache, or request it, and load it if it arrives within so many seconds."""
    if not asked(key):
        found = stored(key, names, load)
        if found is not None:
            return found
        ask(key, kind, content)
    return arrived(key, names, seconds, load)


def text_key(text: str) -> str:
    """Compute the key of LLVM IR that is compiled for the generic processor."""
    from hashlib import sha256

    return sha256(f"{text}\n{fingerprint.machine()}\n{fingerprint.llvm()}".encode()).hexdigest()


def _exception(kind: str, text: str) -> Exception:
    """Rebuild an exception of the server's; one that is not built in becomes a RuntimeError."""
    if kind == Unavailable.__name__:
        return Unavailable(text)
    found = getattr(builtins, kind, None)
    if isinstance(found, type) and issubclass(found, Exception) and not issubclass(found, UnicodeError):
        return found(text)
    return RuntimeError(f"{kind}: {text}")

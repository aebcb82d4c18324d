"""Compiled code on disk, by content: from a key to the object code that was kept under it, or nothing.

An entry is its SHA-256 followed by its bytes, so a truncated or altered one is recognised and costs a
recompile.  It is written to a temporary file, synced and renamed, so processes share a folder without locks.
Nothing here is an error to the program: a folder that cannot be read or written is a cache that never hits.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
import time
from hashlib import sha256
from pathlib import Path

SUFFIX = ".kernel"
DIGEST = 32
FRESH = 3600.0
"""Seconds for which a use of an entry is not noted again."""
STALE = 3600.0
"""Seconds after which a temporary file is taken for abandoned."""


class Cache:
    """The entries of one folder, at most `limit` bytes of them; the least recently used go first."""

    def __init__(self, folder: str | os.PathLike[str], limit: int | None = 512 << 20) -> None:
        self.folder, self.limit = Path(folder), limit
        self._size: int | None = None
        self._lock = threading.Lock()

    def path(self, key: str) -> Path:
        return self.folder / (key + SUFFIX)

    def get(self, key: str) -> bytes | None:
        """The bytes kept under a key, if they are there and whole."""
        path = self.path(key)
        try:
            entry = path.read_bytes()
        except OSError:
            return None
        content = entry[DIGEST:]
        if len(entry) <= DIGEST or sha256(content).digest() != entry[:DIGEST]:
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        with contextlib.suppress(OSError):  # note the use, for the sake of `_evict`
            if time.time() - path.stat().st_mtime > FRESH:
                os.utime(path)
        return content

    def put(self, key: str, content: bytes) -> bool:
        """Keep bytes under a key; says whether that worked."""
        entry = sha256(content).digest() + content
        if self.limit is not None and len(entry) > self.limit:
            return False
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._write(self.path(key), entry)
        except OSError:
            return False
        with self._lock, contextlib.suppress(OSError):
            if self._size is None:
                self._size = sum(size for _, size, _ in self._entries())
            else:
                self._size += len(entry)
            if self.limit is not None and self._size > self.limit:
                self._evict(self.limit)
        return True

    def _write(self, path: Path, entry: bytes) -> None:
        handle, temporary = tempfile.mkstemp(prefix=".", suffix=".partial", dir=self.folder)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(entry)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise

    def entries(self) -> tuple[int, int]:
        """How many entries there are, and their bytes."""
        found = []
        with contextlib.suppress(OSError):
            found = self._entries()
        return len(found), sum(size for _, size, _ in found)

    def clear(self) -> int:
        """Remove every entry; returns how many there were."""
        removed = 0
        with self._lock, contextlib.suppress(OSError):
            for _, _, path in self._entries():
                with contextlib.suppress(OSError):
                    os.unlink(path)
                    removed += 1
            self._size = None
        return removed

    def _entries(self) -> list[tuple[float, int, str]]:
        """(last use, bytes, path) of every entry; abandoned temporary files are removed on the way."""
        found = []
        with os.scandir(self.folder) as items:
            for item in items:
                with contextlib.suppress(OSError):
                    status = item.stat(follow_symlinks=False)
                    if item.name.endswith(SUFFIX):
                        found.append((status.st_mtime, status.st_size, item.path))
                    elif item.name.endswith(".partial") and time.time() - status.st_mtime > STALE:
                        os.unlink(item.path)
        return found

    def _evict(self, limit: int) -> None:
        """Remove what was used least recently, down to four fifths of the limit."""
        found = sorted(self._entries())
        size = sum(bytes_ for _, bytes_, _ in found)
        for _, bytes_, path in found:
            if size <= limit * 4 // 5:
                break
            with contextlib.suppress(OSError):
                os.unlink(path)
                size -= bytes_
        self._size = size

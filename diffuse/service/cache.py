"""Compiled code on disk: maps a key to the object code that was stored under it, if any.

An entry is a SHA-256 of its key and its bytes, followed by the bytes, so a truncated, altered or renamed one
is recognised and costs a recompile.  It is written to a temporary file and renamed, so processes share a
folder without locks.  It is not synced, as that takes longer than compiling: an entry damaged by a crash of
the machine is recognised like any other damage.

Entries are code that runs in this process.  So only their owner may access them, and an entry that another
user owns or may write to is ignored; root is trusted.

Nothing here raises an error in the program: a folder that cannot be read or written is a cache without hits.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from pathlib import Path

from diffuse.interrupts import of_handler, suppress

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
        self.trouble = ""
        """Why the last `put` failed; empty if the entry was larger than the limit."""
        self._size: int | None = None
        self._lock = threading.Lock()

    def path(self, key: str) -> Path:
        return self.folder / (key + SUFFIX)

    def get(self, key: str) -> bytes | None:
        """Return the content of an entry, if it is there, intact, and owned by this user."""
        path = self.path(key)
        entry = _read(path)
        if entry is None:
            return None
        content = entry[DIGEST:]
        if len(entry) <= DIGEST or _digest(key, content) != entry[:DIGEST]:
            self.drop(key)
            return None
        with suppress(OSError):  # note the use, for `_evict`
            if time.time() - path.stat().st_mtime > FRESH:
                os.utime(path)
        return content

    def drop(self, key: str) -> None:
        """Remove an entry."""
        with suppress(OSError):
            self.path(key).unlink()

    def make(self) -> bool:
        """Create the folder with mode 0700 if it does not exist; returns whether it exists now."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            if of_handler(error):
                raise
            self.trouble = error.strerror or str(error)
            return False
        return True

    def put(self, key: str, content: bytes, make: bool = True) -> bool:
        """Write an entry, and `make` the folder if necessary; returns whether that succeeded."""
        entry = _digest(key, content) + content
        self.trouble = ""
        if self.limit is not None and len(entry) > self.limit:
            return False
        if make and not self.make():
            return False
        try:
            if self.folder.stat().st_uid not in (os.geteuid(), 0):
                raise PermissionError(0, "it belongs to another user")
            self._write(self.path(key), entry)
        except OSError as error:
            if of_handler(error):
                raise
            self.trouble = error.strerror or str(error)
            return False
        with self._lock, suppress(OSError):
            if self._size is None:
                self._size = sum(size for _, size, _ in self._entries())
            else:
                self._size += len(entry)
            if self.limit is not None and self._size > self.limit:
                self._evict(self.limit)
        return True

    def _write(self, path: Path, entry: bytes) -> None:
        # a process's number comes again in the next container, and files of killed processes stay
        temporary = f"{self.folder}/.{path.stem[:16]}-{os.urandom(8).hex()}.partial"
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(entry)
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise

    def empty(self) -> bool:
        """Is there no entry at all?"""
        with suppress(OSError), os.scandir(self.folder) as items:
            return not any(item.name.endswith(SUFFIX) for item in items)
        return True

    def entries(self) -> tuple[int, int]:
        """The number of entries, and their bytes."""
        found = []
        with suppress(OSError):
            found = self._entries()
        return len(found), sum(size for _, size, _ in found)

    def clear(self) -> int:
        """Remove every entry; returns their number."""
        removed = 0
        with self._lock, suppress(OSError):
            for _, _, path in self._entries():
                with suppress(OSError):
                    os.unlink(path)
                    removed += 1
            self._size = None
        return removed

    def _entries(self) -> list[tuple[float, int, str]]:
        """(last use, bytes, path) of every entry; abandoned temporary files are removed on the way."""
        found = []
        with os.scandir(self.folder) as items:
            for item in items:
                with suppress(OSError):
                    status = item.stat(follow_symlinks=False)
                    if item.name.endswith(SUFFIX):
                        found.append((status.st_mtime, status.st_size, item.path))
                    elif item.name.endswith(".partial") and time.time() - status.st_mtime > STALE:
                        os.unlink(item.path)
        return found

    def _evict(self, limit: int) -> None:
        """Remove the least recently used entries, down to four fifths of the limit."""
        found = sorted(self._entries())
        size = sum(bytes_ for _, bytes_, _ in found)
        for _, bytes_, path in found:
            if size <= limit * 4 // 5:
                break
            with suppress(OSError):
                os.unlink(path)
                size -= bytes_
        self._size = size


def _digest(key: str, content: bytes) -> bytes:
    from hashlib import sha256  # loads OpenSSL, which a program without kernels does not need

    return sha256(key.encode() + b"\0" + content).digest()


def _read(path: Path) -> bytes | None:
    """Read a regular file that is owned by this user or root and writable by no one else."""
    with suppress(OSError):
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            status = os.fstat(handle)
            if (stat.S_ISREG(status.st_mode) and status.st_uid in (os.geteuid(), 0)
                    and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)):
                return file.read()
    return None

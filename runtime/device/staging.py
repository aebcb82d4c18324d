"""Copies between the host's memory and a device's, through memory that the device reaches by itself.

The driver copies pageable memory only after everything in the stream has ended.  From *pinned* memory it
copies in the stream's order while the program goes on.  So what is to be copied goes through a ring of pinned
memory, piece by piece; a piece of the ring is used again when its copy has ended, which an event tells.
Where the system gives no pinned memory, the driver copies from pageable memory.
"""

from __future__ import annotations

import ctypes
import threading
from collections import deque
from collections.abc import Iterator
from typing import Any, Protocol

SIZES = 16 << 20, 1 << 20
"""Bytes of the ring: the second if there is not enough memory for the first."""
PARTS = 4
"""A piece takes at most this part of the ring, so that one is copied while others are filled."""
LINE = 64
"""Pieces begin at multiples of this."""


class Link(Protocol):
    """The driver, as far as copies need it (driver.py); addresses and events are numbers."""

    def pinned(self, nbytes: int) -> int:
        """Allocate pinned memory; 0 if there is not enough."""
        ...

    def send(self, target: int, source: int, nbytes: int) -> None:
        """Copy to the device in the stream's order."""
        ...

    def receive(self, target: int, source: int, nbytes: int) -> None:
        """Copy from the device in the stream's order."""
        ...

    def event(self) -> Any:
        """Make an event."""
        ...

    def record(self, event: Any) -> None:
        """Note where the stream is."""
        ...

    def reach(self, event: Any) -> None:
        """Wait until the stream has come to where it was when the event was recorded."""
        ...

    def wait(self) -> None:
        """Wait until everything in the stream has ended."""
        ...


class Piece:
    """A piece of the ring that a copy uses."""

    __slots__ = ("begin", "end", "event")

    def __init__(self, begin: int, end: int) -> None:
        self.begin, self.end = begin, end
        self.event: Any = None
        """Recorded behind the copy; None if an interrupt or an error came before."""


class Staging:
    """The ring, and copies through it."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._lock = threading.Lock()
        self._base: int | None = None
        """The ring's address; 0 if there is none."""
        self._size = self._next = 0
        self._used: deque[Piece] = deque()
        """Pieces whose copies may not have ended, oldest first."""
        self._events: list[Any] = []
        """Events for pieces to come."""

    def upload(self, target: int, source: int, nbytes: int) -> None:
        """Copy to the device; the host's memory may change as soon as this returns."""
        with self._lock:
            if not self._ring():
                self._link.send(target, source, nbytes)
                self._link.wait()  # memory that others pinned is copied later
                return
            for offset, n in self._cut(nbytes):
                piece = self._take(n)
                ctypes.memmove(self._place(piece), source + offset, n)
                self._link.send(target + offset, self._place(piece), n)
                self._submitted(piece)

    def download(self, target: int, source: int, nbytes: int) -> None:
        """Copy from the device, and wait."""
        with self._lock:
            if not self._ring():
                self._link.receive(target, source, nbytes)
                self._link.wait()
                return
            begun: deque[tuple[Piece, int, int]] = deque()
            for offset, n in self._cut(nbytes):
                if len(begun) >= PARTS // 2:
                    self._land(target, *begun.popleft())
                piece = self._take(n)
                self._link.receive(self._place(piece), source + offset, n)
                self._submitted(piece)
                begun.append((piece, offset, n))
            while begun:
                self._land(target, *begun.popleft())

    def _ring(self) -> bool:
        """Is there a ring?  It is allocated for the first copy."""
        if self._base is None:
            found = 0
            for self._size in SIZES:
                found = self._link.pinned(self._size)
                if found:
                    break
            self._base = found
        return self._base != 0

    def _cut(self, nbytes: int) -> Iterator[tuple[int, int]]:
        """Offset and size of each piece of so many bytes."""
        most = self._size // PARTS
        return ((offset, min(most, nbytes - offset)) for offset in range(0, nbytes, most))

    def _place(self, piece: Piece) -> int:
        return (self._base or 0) + piece.begin

    def _take(self, nbytes: int) -> Piece:
        """The next piece of the ring, when the copies that used it have ended."""
        begin = self._next if self._next + nbytes <= self._size else 0
        end = begin + nbytes
        while any(used.begin < end and begin < used.end for used in self._used):
            self._end(self._used[0])
        piece = Piece(begin, end)
        self._used.append(piece)  # before the copy: an interrupt may come behind it
        self._next = -(-end // LINE) * LINE
        return piece

    def _submitted(self, piece: Piece) -> None:
        """Note that the copy of a piece is in the stream."""
        event = self._events.pop() if self._events else self._link.event()
        self._link.record(event)
        piece.event = event

    def _land(self, target: int, piece: Piece, offset: int, nbytes: int) -> None:
        """Copy what came from the device on to where it belongs, and free the piece and all before it."""
        self._end(piece)
        ctypes.memmove(target + offset, self._place(piece), nbytes)

    def _end(self, piece: Piece) -> None:
        """Wait for the copy of a piece.  Those before it have ended then, too."""
        if piece.event is None:
            self._link.wait()
        else:
            self._link.reach(piece.event)
        while self._used:
            ended = self._used.popleft()
            if ended.event is not None:
                self._events.append(ended.event)
            if ended is piece:
                break

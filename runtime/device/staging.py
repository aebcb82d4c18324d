"""Copies between the host's memory and a device's, through pinned memory, which the device can access.

The driver copies pageable memory only after everything in the stream has ended.  From *pinned* memory it
copies in the stream's order while the program goes on.  So data is copied through a ring of pinned memory,
piece by piece; a piece is reused when its copy has ended, which an event signals. Where the system gives no
pinned memory, the driver copies from pageable memory.
"""

from __future__ import annotations

import ctypes
import threading
from collections import deque
from collections.abc import Iterator
from typing import Any, Protocol

SIZES = 16 << 20, 1 << 20
"""Bytes of the ring; the second size is tried if there is not enough memory for the first."""
PARTS = 4
"""A piece takes at most one part in this many of the ring, so that one is copied while others are filled."""
LINE = 64
"""The alignment of pieces, in bytes."""


class Link(Protocol):
    """The operations of the driver that copies need (driver.py); addresses and events are numbers."""

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
        """Record an event at the end of the stream."""
        ...

    def reach(self, event: Any) -> None:
        """Wait until the stream has reached the event's last recording."""
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
        """Recorded after the copy; None if an interrupt or an error came before."""


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
        """Events that are free for reuse."""

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
        """Allocate the ring at the first copy; returns whether there is one."""
        if self._base is None:
            found = 0
            for self._size in SIZES:
                found = self._link.pinned(self._size)
                if found:
                    break
            self._base = found
        return self._base != 0

    def _cut(self, nbytes: int) -> Iterator[tuple[int, int]]:
        """Divide so many bytes into pieces: the offset and size of each."""
        most = self._size // PARTS
        return ((offset, min(most, nbytes - offset)) for offset in range(0, nbytes, most))

    def _place(self, piece: Piece) -> int:
        return (self._base or 0) + piece.begin

    def _take(self, nbytes: int) -> Piece:
        """Reserve the next piece of the ring, waiting for the copies that used it."""
        begin = self._next if self._next + nbytes <= self._size else 0
        end = begin + nbytes
        while any(used.begin < end and begin < used.end for used in self._used):
            self._end(self._used[0])
        piece = Piece(begin, end)
        self._used.append(piece)  # before the copy, as an interrupt may follow it
        self._next = -(-end // LINE) * LINE
        return piece

    def _submitted(self, piece: Piece) -> None:
        """Record an event after the copy of a piece."""
        event = self._events.pop() if self._events else self._link.event()
        self._link.record(event)
        piece.event = event

    def _land(self, target: int, piece: Piece, offset: int, nbytes: int) -> None:
        """Copy data that came from the device to its destination, and free the piece and all before it."""
        self._end(piece)
        ctypes.memmove(target + offset, self._place(piece), nbytes)

    def _end(self, piece: Piece) -> None:
        """Wait for the copy of a piece, and with it for all before it."""
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

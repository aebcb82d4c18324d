"""Messages between a program and its compiling process, over a pair of connected sockets.

A message is one packet.  One that is too large for that goes through a file without a name, in memory, whose
descriptor is sent in its place.
"""

from __future__ import annotations

import array
import os
import pickle
import socket
from typing import Any, NamedTuple

PACKET = 1 << 16
"""Bytes of the largest message that is sent as it is.  Systems allow at least three times as many."""

NOW = socket.MSG_DONTWAIT
QUIET = socket.MSG_NOSIGNAL
"""A program may let SIGPIPE end it; a compiling process that went away is no reason."""

READY, BEGUN, DONE, FAILED, LEAVING = "ready", "begun", "done", "failed", "leaving"
"""What the compiling process says: (READY, its number), (BEGUN, key), (DONE, key, Answer), (FAILED, why it
cannot work), (LEAVING,) when nobody needed it for a while."""
COMPILE, URGENT = "compile", "urgent"
"""What a program says: (COMPILE, key, folder, limit, kind, content) and (URGENT, key)."""


class Answer(NamedTuple):
    """What became of a request."""

    image: bytes = b""
    """Object code; empty if there was an error."""
    compiled: bool = False
    """Was it compiled just now?  Else another process had kept it meanwhile."""
    error: tuple[str, str] | None = None
    """Class and text of the exception."""
    unkept: str = ""
    """Why it could not be kept on disk, though it should be."""


def pair() -> tuple[socket.socket, socket.socket]:
    """Two connected ends."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def packed(message: tuple[Any, ...]) -> bytes:
    return pickle.dumps(message, pickle.HIGHEST_PROTOCOL)


def unpacked(packet: bytes) -> tuple[Any, ...]:
    message: tuple[Any, ...] = pickle.loads(packet)
    return message


def send(end: socket.socket, packet: bytes) -> None:
    """Send a packed message, or raise BlockingIOError where the other end has not yet read enough."""
    if len(packet) <= PACKET:
        end.send(packet, NOW | QUIET)
        return
    handle = _file(packet)
    try:
        rights = array.array("i", [handle])
        end.sendmsg([b"\0"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)], NOW | QUIET)
    finally:
        os.close(handle)


def receive(end: socket.socket, look: bool = False) -> bytes:
    """The next packed message; nothing once the other end is closed.  A mere `look` leaves it there."""
    flags = NOW | socket.MSG_CMSG_CLOEXEC | (socket.MSG_PEEK if look else 0)
    size = array.array("i").itemsize
    packet, rights, _, _ = end.recvmsg(PACKET, socket.CMSG_LEN(size), flags)
    for _, kind, data in rights:
        if kind == socket.SCM_RIGHTS:
            (handle,) = array.array("i", data[:size])
            try:
                packet = _content(handle)
            finally:
                os.close(handle)
    return packet


def _file(content: bytes) -> int:
    """A file without a name, with this content."""
    if hasattr(os, "memfd_create"):
        handle = os.memfd_create("diffuse", os.MFD_CLOEXEC)
    else:
        import tempfile

        with tempfile.TemporaryFile() as file:
            handle = os.dup(file.fileno())
    try:
        view, at = memoryview(content), 0
        while at < len(view):
            at += os.pwrite(handle, view[at:], at)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _content(handle: int) -> bytes:
    size, found = os.fstat(handle).st_size, bytearray()
    while len(found) < size and (more := os.pread(handle, size - len(found), len(found))):
        found += more
    return bytes(found)

"""The wire protocol between a program and its compile server, over a pair of SEQPACKET sockets.

A message is one packet.  A message that is too large for a packet is written to an anonymous file in memory,
and the file's descriptor is sent instead.
"""

from __future__ import annotations

import array
import os
import pickle
import socket
from typing import Any, NamedTuple

PACKET = 1 << 16
"""Bytes of the largest message that is sent as one packet.  Linux allows three times as many by default."""

NOW = socket.MSG_DONTWAIT
QUIET = socket.MSG_NOSIGNAL
"""Without this flag a server that has exited would end a program whose SIGPIPE has the default action."""

READY, BEGUN, DONE, FAILED, LEAVING = "ready", "begun", "done", "failed", "leaving"
"""Messages of the server: (READY, process id), (BEGUN, key), (DONE, key, Answer), (FAILED, why it cannot
compile anything), (LEAVING,) before it exits for lack of requests."""
COMPILE, WANTED = "compile", "wanted"
"""Messages of the program: (COMPILE, key, folder, limit, kind, content), and (WANTED, key, weight) of a
request: the work interpreted for lack of it, in operations times elements; infinite if the program waits."""


class Answer(NamedTuple):
    """The reply to a request."""

    image: bytes = b""
    """Object code; empty if there was an error."""
    compiled: bool = False
    """Was it compiled for this request?  Otherwise the cache had it already."""
    error: tuple[str, str] | None = None
    """Class name and text of the exception, if there was one."""
    unkept: str = ""
    """Why it could not be written to the cache; empty if it was written or need not be."""


def pair() -> tuple[socket.socket, socket.socket]:
    """Make a connected pair of sockets."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def packed(message: tuple[Any, ...]) -> bytes:
    return pickle.dumps(message, pickle.HIGHEST_PROTOCOL)


def unpacked(packet: bytes) -> tuple[Any, ...]:
    message: tuple[Any, ...] = pickle.loads(packet)
    return message


def send(end: socket.socket, packet: bytes) -> None:
    """Send a packed message without waiting; BlockingIOError if the queue is full."""
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
    """Receive the next packed message, empty at end of file; `look` leaves it in the queue."""
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
    """Return the descriptor of an anonymous file with this content."""
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

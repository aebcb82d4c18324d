"""The compiling process of a program: takes requests, compiles them, keeps the object code on disk, replies.

It knows the emitter and LLVM, and neither NumPy nor the rest of Diffuse.  Requests are served in the order in
which they came, but for those that the program waits for.  Before each it says which one it begins, so that
the program knows what it worked on if LLVM ends it.

When the program has ended, what it had asked for is still compiled, for its next run, as long as that takes
no more than some seconds.  The process also ends when nobody needs it for a while.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from collections import deque
from typing import Any

from diffuse.service import channel
from diffuse.service.cache import Cache
from diffuse.service.channel import Answer

IDLE = 30.0
"""Seconds without a request after which the process ends."""
GRACE = 5.0
"""Seconds for which it goes on when the program has ended."""


class Server:
    """Requests by key, in the order in which they are served."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._requests: dict[str, tuple[Any, ...]] = {}
        self._said: deque[bytes] = deque()
        """What the program has not yet read enough to be sent."""
        self._over = 0.0
        """When the program ended."""
        self._caches: dict[tuple[Any, ...], Cache] = {}

    def serve(self) -> None:
        """Until the program ends or needs nothing for a while."""
        while self._listen():
            key = next(iter(self._requests))
            self.say(channel.BEGUN, key)
            self.say(channel.DONE, key, tuple(self._answer(key, *self._requests[key])))
            del self._requests[key]

    def say(self, *message: Any) -> None:
        """Send a message, now or when the program has read enough."""
        self._said.append(channel.packed(message))
        self._flush()

    def _flush(self) -> None:
        try:
            while self._said:
                channel.send(self._end, self._said[0])
                self._said.popleft()
        except BlockingIOError:
            pass
        except OSError:  # the program has ended
            self._said.clear()

    def _listen(self) -> bool:
        """Take in what the program has said, waiting if there is nothing to do; False: end."""
        idle = time.monotonic() + IDLE
        while True:
            self._flush()
            if not self._over:
                wait = 0.0 if self._requests else max(0.0, idle - time.monotonic())
                found, _, _ = select.select([self._end], [self._end] if self._said else [], [], wait)
                if found:
                    self._take()
                    continue
            if self._requests:
                return not self._over or time.monotonic() - self._over < GRACE
            if self._over:
                return False
            if time.monotonic() >= idle:
                self.say(channel.LEAVING)
                return False

    def _take(self) -> None:
        """Take in one message."""
        try:
            packet = channel.receive(self._end)
        except (BlockingIOError, ConnectionResetError):  # what the program said before its end comes next
            return
        if not packet:
            self._over = time.monotonic()
            return
        kind, key, *rest = channel.unpacked(packet)
        if kind == channel.COMPILE:
            self._requests.setdefault(key, tuple(rest))
        elif key in self._requests:
            self._requests = {key: self._requests[key], **self._requests}

    def _answer(self, key: str, folder: str, limit: int | None, kind: str, content: Any) -> Answer:
        cache = self._caches.setdefault((folder, limit), Cache(folder, limit))
        image = cache.get(key)
        if image is not None:  # another program has asked for the same
            return Answer(image)
        try:
            image = compiled(kind, content)
        except Exception as error:
            return Answer(error=(type(error).__name__, str(error)))
        kept = cache.put(key, image, make=False)  # the program may end, and then its folder may be removed
        return Answer(image, True, None, "" if kept or not cache.trouble else f"{folder}: {cache.trouble}")


def compiled(kind: str, content: Any) -> bytes:
    """The object code that a request asks for."""
    from diffuse.kernels.body import user
    from diffuse.kernels.build import codegen

    if kind == "text":
        return codegen.common_code(content)
    body, functions = content
    for function in functions:
        user.declare(function)
    return codegen.object_code(body)


def main() -> None:
    """Serve the program at the other end of standard input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _close_others()
    server = Server(socket.socket(fileno=0))
    server.say(channel.READY, os.getpid())
    try:
        import diffuse.kernels.build.codegen  # noqa: F401 (what takes long, before the first request)
    except Exception as error:
        server.say(channel.FAILED, f"{type(error).__name__}: {error}")
        return
    server.serve()


def _close_others() -> None:
    """Close what the program's libraries let its children inherit."""
    try:
        last = max(map(int, os.listdir("/proc/self/fd")))
    except OSError:  # this system does not tell
        last = 1 << 10
    os.closerange(3, last + 1)

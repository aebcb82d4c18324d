"""The compile server: a process that compiles kernels for one program, writes them to the cache, and replies.

It imports the emitter and LLVM, but neither NumPy nor the rest of Diffuse.  It serves the request with the
largest weight per compilation time first, and equal ones in order of arrival.  It tells the program which
request it begins, so that the program knows which one crashed LLVM.

After the program has exited, its requests are still served for a few seconds, so that its next run finds them
in the cache.  The server also exits after a while without requests.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import time
from collections import deque
from typing import Any

from diffuse.service import GRID, PTX, ROUTINE, TEXT, channel
from diffuse.service.cache import Cache
from diffuse.service.channel import Answer

IDLE = 30.0
"""Seconds without a request after which the server exits."""
GRACE = 5.0
"""Seconds for which requests are served after the program has exited."""


class Server:
    """The state of the server: queued requests, and messages that could not be sent yet."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._requests: dict[str, tuple[Any, ...]] = {}
        self._costs: dict[str, int] = {}
        """For each request its length in bytes, which is about proportional to the time to compile it."""
        self._weights: dict[str, float] = {}
        """The weight of each request for which the program sent one."""
        self._said: deque[bytes] = deque()
        """Packed messages that wait for room in the socket's queue."""
        self._over = 0.0
        """Time at which the program exited; 0 while it runs."""
        self._caches: dict[tuple[Any, ...], Cache] = {}

    def serve(self) -> None:
        """Serve requests until the program exits or sends none for a while."""
        while self._listen():
            key = max(self._requests, key=lambda key: self._weights.get(key, 1.0) / self._costs[key])
            self.say(channel.BEGUN, key)
            self.say(channel.DONE, key, tuple(self._answer(key, *self._requests[key])))
            del self._requests[key], self._costs[key]
            self._weights.pop(key, None)

    def say(self, *message: Any) -> None:
        """Send a message now, or later if the socket's queue is full."""
        self._said.append(channel.packed(message))
        self._flush()

    def _flush(self) -> None:
        try:
            while self._said:
                channel.send(self._end, self._said[0])
                self._said.popleft()
        except BlockingIOError:
            pass
        except OSError:  # the program has exited
            self._said.clear()

    def _listen(self) -> bool:
        """Receive all requests that have arrived, and wait if there is none; False ends the server."""
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
        """Receive one message."""
        try:
            packet = channel.receive(self._end)
        except (BlockingIOError, ConnectionResetError):  # after a reset, what was sent before follows
            return
        if not packet:
            self._over = time.monotonic()
            return
        kind, key, *rest = channel.unpacked(packet)
        if kind == channel.COMPILE:
            self._requests.setdefault(key, tuple(rest))
            self._costs.setdefault(key, len(packet))
        elif key in self._requests:
            (self._weights[key],) = rest

    def _answer(self, key: str, folder: str, limit: int | None, kind: str, content: Any) -> Answer:
        cache = self._caches.setdefault((folder, limit), Cache(folder, limit))
        image = cache.get(key)
        if image is not None:  # another program has compiled it
            return Answer(image)
        try:
            image = compiled(kind, content)
        except Exception as error:
            return Answer(error=(type(error).__name__, str(error)))
        kept = cache.put(key, image, make=False)  # do not create a folder again that was removed
        return Answer(image, True, None, "" if kept or not cache.trouble else f"{folder}: {cache.trouble}")


def compiled(kind: str, content: Any) -> bytes:
    """Compile a request to object code."""
    from diffuse.kernels.body import user
    from diffuse.kernels.build import codegen

    if kind == TEXT:
        return codegen.common_code(content)
    if kind == ROUTINE:
        return codegen.routine_code(*content)
    if kind == PTX:
        from diffuse.kernels.build import ptx

        return ptx.compile(*content).encode()
    body, functions, *target = content
    for function in functions:
        user.declare(function)
    return codegen.grid_code(body, *target) if kind == GRID else codegen.object_code(body)


def main() -> None:
    """Serve the program at the other end of standard input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.chdir("/")  # the program may remove the folder that it was started in
    _close_others()
    server = Server(socket.socket(fileno=0))
    server.say(channel.READY, os.getpid())
    try:  # do what is slow before the first request
        import hashlib  # noqa: F401 (for the cache)

        from diffuse.kernels.build import codegen

        codegen.start()
    except Exception as error:
        server.say(channel.FAILED, f"{type(error).__name__}: {error}")
        return
    gc.freeze()
    gc.enable()
    server.serve()


def _close_others() -> None:
    """Close the file descriptors that were inherited from the program."""
    try:
        last = max(map(int, os.listdir("/proc/self/fd")))
    except OSError:  # /proc is not mounted
        last = 1 << 10
    os.closerange(3, last + 1)

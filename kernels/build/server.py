"""The compile server: a process that compiles kernels for one program, writes them to the cache, and replies.

It imports the emitter and LLVM, but neither NumPy nor the rest of Diffuse.  It serves the request with the
largest weight per compilation time first, and equal ones in order of arrival.  Its threads compile several
requests at once, as many as the program asks for: while it waits for a kernel, the processors are free.
It tells the program which requests it begins, so that the program knows which ones may have crashed LLVM.

After the program has exited, its requests are still served for a few seconds, so that its next run finds them
in the cache.  The server also exits after a while without requests.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import sys
import threading
import time
from collections import deque
from queue import SimpleQueue
from typing import Any

from diffuse.service import GRID, MARK, PTX, ROUTINE, TEXT, channel
from diffuse.service.cache import Cache
from diffuse.service.channel import Answer

IDLE = 30.0
"""Seconds without a request after which the server exits."""
SWITCH = 0.0005
"""Seconds after which a thread that holds Python's lock gives it to another one that waits for it."""
ALONE = frozenset((GRID, PTX))
"""Kinds of requests that set options of LLVM for the whole process: no other one is compiled meanwhile."""
GRACE = 5.0
"""Seconds for which requests are served after the program has exited."""


class Server:
    """The state of the server: queued requests, and messages that could not be sent yet."""

    def __init__(self, end: socket.socket, threads: int = 1) -> None:
        self._end = end
        self._requests: dict[str, tuple[Any, ...]] = {}
        """The queued requests."""
        self._costs: dict[str, int] = {}
        """For each request its length in bytes, which is about proportional to the time to compile it."""
        self._weights: dict[str, float] = {}
        """The weight of each request for which the program sent one."""
        self._begun: dict[str, str] = {}
        """The kinds of the requests that are being compiled."""
        self._threads = threads
        self._given: SimpleQueue[tuple[str, tuple[Any, ...]]] = SimpleQueue()
        self._ended: deque[str] = deque()
        """The keys of requests whose reply is sent now, or was."""
        self._woken, self._wake = os.pipe()
        """A byte is written to this pipe for each of them."""
        self._said: deque[bytes] = deque()
        """Packed messages that wait for room in the socket's queue."""
        self._saying = threading.Lock()
        self._over = 0.0
        """Time at which the program exited; 0 while it runs."""
        self._caches: dict[tuple[Any, ...], Cache] = {}

    def serve(self) -> None:
        """Serve requests until the program exits or sends none for a while."""
        for _ in range(self._threads):
            threading.Thread(target=self._work, daemon=True).start()
        while self._listen():
            key = self._next()
            request = self._requests.pop(key)
            self._begun[key] = request[2]
            self._costs.pop(key)
            self._weights.pop(key, None)
            self.say(channel.BEGUN, key)
            self._given.put((key, request))

    def _work(self) -> None:
        """Compile what is given, in a thread of its own."""
        from diffuse.kernels.build import codegen

        codegen.start()
        while True:
            key, request = self._given.get()
            answer = self._answer(key, *request)
            self._ended.append(key)  # first, as the program may ask again once it has the reply
            self.say(channel.DONE, key, tuple(answer))
            os.write(self._wake, b".")  # last, as the reply may have to wait for room

    def _next(self) -> str:
        """The key of the request to begin next."""
        return max(self._requests, key=lambda key: self._weights.get(key, 1.0) / self._costs[key])

    def _ready(self) -> bool:
        """Can a queued request begin now?  Code for GPUs is compiled with other options of the whole process,
        and so with nothing beside it."""
        if not self._requests or len(self._begun) >= self._threads:
            return False
        return not self._begun or ALONE.isdisjoint((self._requests[self._next()][2], *self._begun.values()))

    def say(self, *message: Any) -> None:
        """Send a message now, or later if the socket's queue is full."""
        with self._saying:
            self._said.append(channel.packed(message))
        self._flush()

    def _flush(self) -> None:
        with self._saying:
            try:
                while self._said:
                    channel.send(self._end, self._said[0])
                    self._said.popleft()
            except BlockingIOError:
                pass
            except OSError:  # the program has exited
                self._said.clear()

    def _listen(self) -> bool:
        """Receive what has arrived until a request can begin; False ends the server."""
        idle = time.monotonic() + IDLE
        while True:
            self._flush()
            ends: list[Any] = [self._woken] if self._over else [self._woken, self._end]
            busy = bool(self._requests or self._begun)
            wait = 0.0 if self._ready() else IDLE if busy else max(0.0, idle - time.monotonic())
            if self._over:
                wait = min(wait, max(0.0, self._over + GRACE - time.monotonic())) if busy else 0.0
            found, _, _ = select.select(ends, [self._end] if self._said else [], [], wait)
            if self._woken in found:
                os.read(self._woken, 1 << 10)
                idle = time.monotonic() + IDLE
            self._note_ended()
            if self._end in found:
                self._take()
            if found:
                continue
            if self._over and (not busy or time.monotonic() - self._over >= GRACE):
                return False
            if self._ready():
                return True
            if not busy and time.monotonic() >= idle:
                self.say(channel.LEAVING)
                return False

    def _note_ended(self) -> None:
        """Take note of the requests that have ended."""
        while self._ended:
            self._begun.pop(self._ended.popleft(), None)

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
            self._note_ended()
            if key not in self._begun:
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
    sys.setswitchinterval(SWITCH)
    server = Server(socket.socket(fileno=0), int(os.environ.get(MARK, "1")))
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

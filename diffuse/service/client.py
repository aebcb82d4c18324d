"""The client of the compile server: sends requests for object code and receives the replies.

A program has at most one server process.  It is started for the first request and exits with the program, or
after a while without requests.  LLVM, its locks and its crashes are confined to it: a failure of the server
raises no error in the program, which interprets the kernels that cannot be compiled.

An interrupt may be raised between any two steps here, so every step is idempotent.  A reply is peeked at,
recorded, and only then removed from the socket (and what was removed is recorded, too, as another thread may
have removed the reply that was peeked at).  A request that may or may not have been sent is sent again; the
server finds its result in the cache.
"""

from __future__ import annotations

import atexit
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diffuse.bounded import Bounded
from diffuse.interrupts import of_handler, suppress
from diffuse.observe import notices
from diffuse.service import MARK, fingerprint

if TYPE_CHECKING:
    import socket

    from diffuse.service.channel import Answer

LIMIT = 60.0
"""Seconds without a message while requests are outstanding, after which the server is killed."""
TICK = 0.02
"""Longest sleep of a waiting thread in seconds: another thread may receive the reply that it waits for."""
START = 0.05
"""The least seconds from starting the server until it begins a request."""
ENDS = 8e-3
"""Estimated seconds until the next request ends that the server has begun."""
TRIES = 2
"""The number of servers that a request may crash before it fails."""
DEATHS = 8
"""Crashes after which no further server is started."""
URGENT = float("inf")
"""The weight of a request that is waited for."""
ANSWERS = 256
"""The most replies that are kept until they are taken; those that are dropped can be requested again."""

BOOT = """
try:
    import os
    if os.fork():
        os._exit(0)
    os.setsid()
    import gc  # disabled: it would look through the imported modules again and again
    gc.disable()
    import sys
    sys.path += sys.argv[1:]
    from diffuse.kernels.build import server
except BaseException as error:
    import pickle, socket
    said = "failed", f"{type(error).__name__}: {error}"
    socket.socket(fileno=0).send(pickle.dumps(said))
else:
    server.main()
"""
"""The server's code.  It forks at once: a direct child would be found by the program's own `os.wait`."""


class Unavailable(RuntimeError):
    """No server can be started any more; a warning has been given."""


class _Request:
    """A request without a reply."""

    __slots__ = ("message", "sent", "weight", "told", "deaths")

    def __init__(self, message: bytes) -> None:
        self.message = message
        self.sent = False
        self.weight = self.told = 0.0
        """The work that the program did without the reply, and the part of it that the server was told."""
        self.deaths = 0


class Client:
    """Outstanding requests, and untaken replies, by key."""

    def __init__(self) -> None:
        self._end: socket.socket | None = None
        self.reset()

    def reset(self) -> None:
        """Drop the connection and all requests: in a forked child, the server is the parent's."""
        self._lock = threading.RLock()
        self.close()
        self._starter = 0
        """Process id of the child that forks the server and exits, until it is reaped."""
        self.process = 0
        """Process id of the server, once it is ready; else 0."""
        self._asked: dict[str, _Request] = {}
        self._answers: dict[str, Answer] = Bounded(ANSWERS)
        self._begun: set[str] = set()
        """Keys of the requests that the server has begun."""
        self._heard = 0.0
        """Time of the server's last message, or of the first request after it was idle."""
        self._opened = 0.0
        """Time at which the server was started."""
        self._leaving = False
        self.deaths = 0
        self.refusal = ""
        """Why no server can be started any more; empty while one can."""
        self._warned: set[str] = set()

    # -- requests and replies ------------------------------------------------------------------------------

    def start(self) -> bool:
        """Start the server ahead of the first request, which tries again and warns if that fails."""
        with self._lock, suppress(OSError, LookupError):
            if self._end is None and not self.refusal:
                self._open()
                # reaped soon, as without a request the program's own `os.wait` would find it
                threading.Thread(target=self._reap, args=(0,), daemon=True).start()
        return self._end is not None

    def delay(self, key: str) -> float:
        """Estimate the seconds until the server begins a request: while it starts, or while each of its
        threads has another one.  Of those that are queued, what is waited for comes first."""
        if key in self._begun or key not in self._asked:
            return 0.0
        busy = ENDS if len(self._asked) > _threads() else 0.0
        return busy + max(0.0, self._opened + START - time.monotonic())

    def ask(self, key: str, request: Callable[[], tuple[Any, ...]]) -> None:
        """Request object code; a second request with the same key has no effect."""
        if key in self._asked or key in self._answers:
            return
        if self.refusal:
            raise Unavailable(self.refusal)
        from diffuse.service import channel

        with self._lock:
            self._asked[key] = _Request(channel.packed((channel.COMPILE, key, *request())))
            self.poll()

    def missed(self, key: str, work: float) -> None:
        """Note that the program did so much work without the reply to a request.

        The server is not told the first time, as many kernels are needed only once, and later each time the
        work has doubled.
        """
        request = self._asked.get(key)
        if request is None or request.told == URGENT:
            return
        before = request.weight
        request.weight += work
        if before and request.weight >= 2 * request.told:
            self._tell(key, request)

    def urge(self, key: str) -> None:
        """Serve a request before all others, as its reply is waited for."""
        request = self._asked.get(key)
        if request is not None and request.told != URGENT:
            request.weight = URGENT
            self._tell(key, request)

    def knows(self, key: str) -> bool:
        """Is a request with this key outstanding, or its reply here?"""
        return key in self._asked or key in self._answers

    def answer(self, key: str) -> Answer | None:
        """Return the reply to a request, or None if it has not arrived."""
        if key not in self._answers:
            self.poll()
        return self._answers.get(key)

    def wait(self, key: str, seconds: float | None = None) -> Answer | None:
        """Wait for the reply to a request, at most so many seconds; None if it does not arrive in time."""
        end = None if seconds is None else time.monotonic() + seconds
        while (found := self.answer(key)) is None and key in self._asked:
            self.urge(key)
            left = TICK if end is None else min(TICK, end - time.monotonic())
            if left <= 0:
                break
            if (ours := self._end) is None:
                continue
            with suppress(OSError, ValueError):  # another thread has closed it
                select.select([ours], [], [], left)
        return found

    def take(self, key: str) -> None:
        """Drop a reply that has been used."""
        self._answers.pop(key, None)

    def poll(self) -> None:
        """Receive what has arrived, and send the requests that could not be sent before."""
        with self._lock:
            if self._end is not None:
                self._listen(self._end)
            if self._asked:
                self._push()
            self._reap()

    def close(self) -> None:
        """Close the connection; the server exits when it has served what was sent."""
        end, self._end = self._end, None
        if end is not None:
            end.close()

    # -- the server ----------------------------------------------------------------------------------------

    def _connect(self) -> socket.socket | None:
        """Return the socket to the server, which is started if there is none; None if it cannot be."""
        if self._end is not None or self.refusal:
            return self._end
        try:
            return self._open()
        except (OSError, LookupError) as error:
            if of_handler(error):
                raise
            self._refuse(str(error))
            return None

    def _open(self) -> socket.socket:
        """Start a server; return the socket to it."""
        from diffuse.service import channel

        self._reap()
        ours, theirs = channel.pair()
        try:
            with theirs:
                # one thread after a crash, so that no other request is blamed for the next one
                self._starter = _spawn(theirs.fileno(), 1 if self.deaths else _threads())
        except (OSError, LookupError):
            ours.close()
            raise
        self._heard = self._opened = time.monotonic()
        self._begun, self.process, self._leaving = set(), 0, False
        self._end = ours
        return ours

    def _listen(self, ours: socket.socket) -> None:
        from diffuse.service import channel

        while self._end is ours:
            try:
                packet = channel.receive(ours, look=True)
                if packet:
                    self._note(channel.unpacked(packet))
                    if self._end is ours and (packet := channel.receive(ours)):
                        self._note(channel.unpacked(packet))
            except BlockingIOError:
                if self._overdue():
                    self._kill()
                    self._ended(ours, f"did not answer for {LIMIT:g} seconds, and was killed")
                return
            except ConnectionResetError:  # it has exited; what it sent before is still in the socket
                continue
            if not packet:
                self._ended(ours, "has died")

    def _overdue(self) -> bool:
        return (time.monotonic() - self._heard > LIMIT
                and any(request.sent for request in self._asked.values()))

    def _note(self, message: tuple[Any, ...]) -> None:
        from diffuse.service import channel

        self._heard = time.monotonic()
        match message:
            case (channel.READY, process):
                self.process = process
            case (channel.BEGUN, key):
                self._begun.add(key)
            case (channel.DONE, key, answer):
                self._begun.discard(key)
                found = channel.Answer(*answer)
                if key in self._asked:
                    self._keep(key, found)
                if found.unkept:
                    self._warn(f"compiled kernels are not kept for the next run ({found.unkept})")
            case (channel.FAILED, why):
                self._refuse(why)
            case (channel.LEAVING,):
                self._leaving = True

    def _keep(self, key: str, answer: Answer) -> None:
        """Keep the reply to a request until it is taken."""
        self._answers[key] = answer
        self._asked.pop(key, None)

    def _push(self) -> None:
        """Send the requests that were not sent; the server is started if there is none."""
        from diffuse.service import channel

        unsent = [request for request in self._asked.values() if not request.sent]
        if not unsent or (ours := self._connect()) is None:
            return
        if len(unsent) == len(self._asked):
            self._heard = time.monotonic()
        for request in unsent:
            with suppress(OSError):  # its queue is full, or it has exited, which the next `_listen` detects
                channel.send(ours, request.message)
                request.sent = True
            if not request.sent:
                return

    def _tell(self, key: str, request: _Request) -> None:
        """Send the weight of a request to the server, unless there are no other requests."""
        from diffuse.service import channel

        ours = self._end
        if ours is None or len(self._asked) == 1:
            return
        with self._lock:
            if not request.sent:
                self._asked = {key: request, **self._asked}
                self._push()
            if request.sent:
                with suppress(OSError):  # its queue is full: the next call tries again
                    channel.send(ours, channel.packed((channel.WANTED, key, request.weight)))
                    request.told = request.weight

    def _ended(self, ours: socket.socket, how: str) -> None:
        """Handle the server's exit: requests being compiled fail if they crashed a server before, all others
        are sent again."""
        from diffuse.service import channel

        if self._end is not ours:  # handled already
            return
        culprits = [key for key in self._begun if key in self._asked]
        idle = not any(request.sent for request in self._asked.values())
        for request in self._asked.values():
            request.sent = False
            request.told = 0.0
        ready, self.process = self.process, 0
        self.close()
        if self._leaving or idle and ready:
            return
        self.deaths += 1
        for key in culprits:
            self._asked[key].deaths += 1
            if self._asked[key].deaths >= TRIES:
                self._keep(key, channel.Answer(
                    error=("RuntimeError", f"the compile server {how} while it worked on it")))
        if self.deaths >= DEATHS or (not ready and self.deaths > 1):
            self._refuse(f"it {how}, {self.deaths} times" if ready else f"it {how} before it was ready")

    def _kill(self) -> None:
        if self.process:
            with suppress(OSError):
                os.kill(self.process, signal.SIGKILL)

    def _refuse(self, why: str) -> None:
        """Stop starting servers: fail all requests, with one warning."""
        from diffuse.service import channel

        self.refusal = f"the compile server does not run ({why})"
        self.close()
        for key in list(self._asked):
            self._keep(key, channel.Answer(error=("Unavailable", self.refusal)))
        self._warn(f"{self.refusal}; what is not yet compiled runs interpreted, and functions such as exp by "
                   "NumPy, whose last digit may differ")

    def _warn(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            notices.give(text)

    def _reap(self, options: int = os.WNOHANG) -> None:
        """Reap the child that forked the server, if it has exited."""
        if starter := self._starter:
            with suppress(OSError):  # reaped by other code
                if not os.waitpid(starter, options)[0]:
                    return
            if self._starter == starter:
                self._starter = 0


def _threads() -> int:
    """The number of requests that the server compiles at once: a program that waits leaves two processors."""
    return min(2, len(os.sched_getaffinity(0)))


def _spawn(theirs: int, threads: int) -> int:
    """Start the server with this socket as its standard input; return the id of the child that forks it."""
    if not sys.executable or getattr(sys, "frozen", False):
        raise LookupError("the path of the Python interpreter is unknown")
    if MARK in os.environ:
        raise LookupError(f"{sys.executable} is no Python that could run it")
    llvm = fingerprint.llvmlite()
    if llvm is None:
        raise LookupError("llvmlite is not installed")
    options = ["-S", "-I", "-B"] if sys.dont_write_bytecode else ["-S", "-I"]
    if sys.pycache_prefix:
        options += ["-X", f"pycache_prefix={sys.pycache_prefix}"]
    roots = [str(Path(__file__).resolve().parent.parent.parent), str(llvm.parent)]
    files: list[tuple[Any, ...]] = [(os.POSIX_SPAWN_DUP2, theirs, 0)]
    files += [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_WRONLY, 0) for number in (1, 2)]
    return os.posix_spawn(sys.executable, [sys.executable, *options, "-c", BOOT, *roots],
                          {**os.environ, MARK: str(threads)}, file_actions=files, setsigmask=[])


client = Client()

atexit.register(client.close)
os.register_at_fork(after_in_child=client.reset)

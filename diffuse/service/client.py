"""The program's side of its compiling process: asks for object code, and takes in what is done.

A program has at most one such process.  It is started for the first request, ends with the program, and when
nobody needs it for a while.  LLVM, its locks and its crashes stay there: nothing that goes wrong in it is an
error to the program, which runs interpreted what it cannot have compiled.

An interrupt may come between any two steps here.  Every step can be repeated: a reply is looked at, noted,
and only then taken from the socket (and noted again, as another thread may have taken the one that was looked
at), and a request that may or may not have been sent is sent again, which costs the other side a look at the
disk.
"""

from __future__ import annotations

import atexit
import os
import select
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diffuse.ir.bounded import Bounded
from diffuse.service import fingerprint

if TYPE_CHECKING:
    import socket

    from diffuse.service.channel import Answer

LIMIT = 60.0
"""Seconds for which the process may say nothing while there is something to do; then it is killed."""
TICK = 0.02
"""Seconds between two looks of one who waits: another thread may have taken in what it waits for."""
TRIES = 2
"""How often a request may be in work while the process dies; the next one gives it up."""
DEATHS = 8
"""Deaths of processes after which no further one is started."""
ANSWERS = 256
"""Answers that are kept for somebody to take."""

MARK = "_DIFFUSE_COMPILES"
"""Says in its environment what the process is for.  A program that Python is embedded in may take itself for
its Python: it would run again instead, and ask for a process again."""

BOOT = """
try:
    import os
    if os.fork():
        os._exit(0)
    os.setsid()
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
"""What the process runs.  It forks at once, and so is no child of the program, which may wait for its own."""


class Unavailable(RuntimeError):
    """Nothing can be compiled for this program any more.  It has been warned."""


class _Request:
    """What was asked for and has no answer yet."""

    __slots__ = ("message", "sent", "urged", "deaths")

    def __init__(self, message: bytes) -> None:
        self.message = message
        self.sent = self.urged = False
        self.deaths = 0


class Client:
    """Requests and answers by key."""

    def __init__(self) -> None:
        self._end: socket.socket | None = None
        self.reset()

    def reset(self) -> None:
        """Begin without a process and without requests: in a forked child, the process is the parent's."""
        self._lock = threading.RLock()
        self.close()
        self._starter = 0
        """The child that starts the process and ends at once, until it is waited for."""
        self.process = 0
        """The number of the process, once it is ready."""
        self._asked: dict[str, _Request] = {}
        self._answers: dict[str, Answer] = Bounded(ANSWERS)
        self._begun = ""
        """What the process said last that it works on."""
        self._heard = 0.0
        """When it said something last, or was given something to do."""
        self._leaving = False
        self.deaths = 0
        self.refusal = ""
        """Why there is no process and will be none."""
        self._warned: set[str] = set()

    # -- what a program does -------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the process, before there is anything to do for it."""
        with self._lock:
            self._connect()

    def ask(self, key: str, request: Callable[[], tuple[Any, ...]]) -> None:
        """Ask for object code; to ask again changes nothing."""
        if key in self._asked or key in self._answers:
            return
        if self.refusal:
            raise Unavailable(self.refusal)
        from diffuse.service import channel

        with self._lock:
            self._asked[key] = _Request(channel.packed((channel.COMPILE, key, *request())))
            self.poll()

    def knows(self, key: str) -> bool:
        """Was this asked for, and not taken?"""
        return key in self._asked or key in self._answers

    def answer(self, key: str) -> Answer | None:
        """The answer to a request, if it has come."""
        if key not in self._answers:
            self.poll()
        return self._answers.get(key)

    def wait(self, key: str, seconds: float | None = None) -> Answer | None:
        """The answer to a request, waiting no longer than that; None if it does not come or was not asked."""
        end = None if seconds is None else time.monotonic() + seconds
        while (found := self.answer(key)) is None and key in self._asked:
            self._urge(key)
            left = TICK if end is None else min(TICK, end - time.monotonic())
            if left <= 0:
                break
            if (ours := self._end) is None:
                continue
            try:
                select.select([ours], [], [], left)
            except (OSError, ValueError):  # another thread has closed it
                continue
        return found

    def take(self, key: str) -> None:
        """Forget an answer: what it brought is where it belongs."""
        self._answers.pop(key, None)

    def poll(self) -> None:
        """Take in what the process has said, and send what it was not told."""
        with self._lock:
            if self._end is not None:
                self._listen(self._end)
            if self._asked:
                self._push()
            self._reap()

    def close(self) -> None:
        """Let go of the process, which ends when it has done what it was asked for."""
        end, self._end = self._end, None
        if end is not None:
            end.close()

    # -- the process ---------------------------------------------------------------------------------------

    def _connect(self) -> socket.socket | None:
        """The program's end of the connection, the process started if it is not."""
        if self._end is not None or self.refusal:
            return self._end
        from diffuse.service import channel

        self._reap()
        try:
            ours, theirs = channel.pair()
        except OSError as error:
            self._refuse(str(error))
            return None
        try:
            with theirs:
                self._starter = _spawn(theirs.fileno())
        except (OSError, LookupError) as error:
            ours.close()
            self._refuse(str(error))
            return None
        self._heard = time.monotonic()
        self._begun, self.process, self._leaving = "", 0, False
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
            except ConnectionResetError:  # it has ended, and what it had said before comes next
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
                self._begun = key
            case (channel.DONE, key, answer):
                if key in self._asked:
                    self._answers[key] = channel.Answer(*answer)
                    self._asked.pop(key, None)
                if answer[3]:
                    self._warn(f"compiled kernels are not kept for the next run ({answer[3]})")
            case (channel.FAILED, why):
                self._refuse(why)
            case (channel.LEAVING,):
                self._leaving = True

    def _push(self) -> None:
        """Send what was not sent, the process started if there is none."""
        from diffuse.service import channel

        unsent = [request for request in self._asked.values() if not request.sent]
        if not unsent or (ours := self._connect()) is None:
            return
        if len(unsent) == len(self._asked):
            self._heard = time.monotonic()
        for request in unsent:
            try:
                channel.send(ours, request.message)
            except OSError:  # it has not yet read enough, or has ended, as the next look will show
                return
            request.sent = True

    def _urge(self, key: str) -> None:
        """Have a request served before those that nobody waits for."""
        from diffuse.service import channel

        request, ours = self._asked.get(key), self._end
        if request is None or ours is None or request.urged or len(self._asked) == 1:
            return
        with self._lock:
            if not request.sent:
                self._asked = {key: request, **self._asked}
                self._push()
            try:
                if request.sent:
                    channel.send(ours, channel.packed((channel.URGENT, key)))
                    request.urged = True
            except OSError:
                pass

    def _ended(self, ours: socket.socket, how: str) -> None:
        """The process is gone.  What it worked on is tried once more; what it had not begun, as often as
        needed."""
        from diffuse.service import channel

        if self._end is not ours:  # noted already
            return
        culprit = self._asked.get(self._begun)
        idle = not any(request.sent for request in self._asked.values())
        for request in self._asked.values():
            request.sent = request.urged = False
        ready, self.process = self.process, 0
        self.close()
        if self._leaving or idle and ready:
            return
        self.deaths += 1
        if culprit is not None:
            culprit.deaths += 1
            if culprit.deaths >= TRIES:
                self._answers[self._begun] = channel.Answer(
                    error=("RuntimeError", f"the compiling process {how} while it worked on it"))
                self._asked.pop(self._begun, None)
        if self.deaths >= DEATHS or (not ready and self.deaths > 1):
            self._refuse(f"it {how}, {self.deaths} times" if ready else f"it {how} before it was ready")

    def _kill(self) -> None:
        if self.process:
            try:
                os.kill(self.process, signal.SIGKILL)
            except OSError:
                pass

    def _refuse(self, why: str) -> None:
        """Start no process any more."""
        from diffuse.service import channel

        self.refusal = f"the compiling process does not run ({why})"
        self.close()
        for key in list(self._asked):
            self._answers[key] = channel.Answer(error=("Unavailable", self.refusal))
            self._asked.pop(key, None)
        self._warn(f"{self.refusal}; what is not yet compiled runs interpreted, and functions such as exp by "
                   "NumPy, whose last digit may differ")

    def _warn(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            warnings.warn(text, RuntimeWarning, stacklevel=2)

    def _reap(self) -> None:
        """Wait for the child that started the process, which has ended by now or will soon."""
        if self._starter:
            try:
                if os.waitpid(self._starter, os.WNOHANG)[0]:
                    self._starter = 0
            except OSError:  # somebody else has waited for it
                self._starter = 0


def _spawn(theirs: int) -> int:
    """Start the process, with this end of the connection as its standard input; returns a child's number."""
    if not sys.executable or getattr(sys, "frozen", False):
        raise LookupError("the program does not know where its Python is")
    if MARK in os.environ:
        raise LookupError(f"{sys.executable} is no Python that could run it")
    llvm = fingerprint.llvmlite()
    if llvm is None:
        raise LookupError("llvmlite is not installed")
    options = ["-S", "-I"]
    if sys.dont_write_bytecode:
        options.append("-B")
    if sys.pycache_prefix:
        options += ["-X", f"pycache_prefix={sys.pycache_prefix}"]
    roots = [str(Path(__file__).resolve().parent.parent.parent), str(llvm.parent)]
    files: list[tuple[Any, ...]] = [(os.POSIX_SPAWN_DUP2, theirs, 0)]
    files += [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_WRONLY, 0) for number in (1, 2)]
    return os.posix_spawn(sys.executable, [sys.executable, *options, "-c", BOOT, *roots],
                          {**os.environ, MARK: "1"}, file_actions=files, setsigmask=[])


client = Client()

atexit.register(client.close)
os.register_at_fork(after_in_child=client.reset)

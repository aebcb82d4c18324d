"""Finds the rank that others wait for in vain, names its line and theirs, and ends the program.

A thread in every rank observes its rank.  When a rank has waited for a while it tells rank 0, whose thread
then asks all ranks for reports, and judges (judgement.py).  They use TCP, separate from the data transport,
which a rank that is stuck does not call.  The port accepts only connections that present a random token,
which rank 0 distributes through the runtime's own gather.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import selectors
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from diffuse.runtime.ranks import launcher
from diffuse.runtime.ranks.activity import TICK, Activity, Report
from diffuse.runtime.ranks.judgement import BUSY, SILENT, Seen, judge
from diffuse.runtime.ranks.process import before_the_end, end
from diffuse.settings import config

PLACES = 4
"""The most addresses of rank 0 that other ranks try."""
CONNECTING = 2.0
"""Seconds to establish a connection."""
LONGEST = 4096
"""The most bytes of a report."""
LATE = 3 * TICK
"""Seconds after which an answer is late."""
GOODBYE = "goodbye"
"""The message of a rank that ends in good order, or that has reported its error itself."""
SIOCGIFADDR = 0x8915


def watch(rank: int, ranks: int, gather: Callable[[int], list[int]], activity: Activity) -> None:
    """Start the thread of this rank.  All ranks have to call at the same place: they gather a few words."""
    limit = max(gather(config.watchdog if isinstance(config.watchdog, int) else 0))
    if not limit:
        return
    own = [0] * (1 + PLACES)
    server: socket.socket | None = None
    if not rank:
        alone = launcher.local_ranks() == ranks
        server = socket.create_server(("127.0.0.1" if alone else "", 0), backlog=min(ranks, 1024))
        port = server.getsockname()[1]
        places = [address << 16 | port for address in _addresses(alone)]
        own = [secrets.randbits(62), *places, *own][:1 + PLACES]
    token, *places = [gather(word)[0] for word in own]
    if server is not None:
        work: Callable[[], None] = _Judge(server, token, ranks, float(limit), activity).work
    else:
        work = _Witness(rank, ranks, [place for place in places if place], token, float(limit), activity).work
    threading.Thread(target=_guarded, args=(work,), daemon=True, name="diffuse watchdog").start()


def _guarded(work: Callable[[], None]) -> None:
    """Run a thread; a network failure in it must not fail the program."""
    with suppress(OSError, ValueError):
        work()


def _addresses(alone: bool) -> list[int]:
    """The addresses of this machine, those that others can reach before its own name for itself."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            with suppress(OSError):
                request = struct.pack("256s", name.encode()[:15])
                found.append(socket.inet_ntoa(fcntl.ioctl(probe.fileno(), SIOCGIFADDR, request)[20:24]))
    local = "127.0.0.1"
    outside = [place for place in found if place != local]
    chosen = [local] if alone else [*outside[:PLACES - 1], local]
    return [struct.unpack("!I", socket.inet_aton(place))[0] for place in chosen]


class _Judge:
    """Rank 0's thread: it takes connections, asks all ranks when one waits, and judges."""

    def __init__(self, server: socket.socket, token: int, ranks: int, limit: float, activity: Activity
                 ) -> None:
        self._server, self._token, self._ranks = server, token, ranks
        self._limit, self._activity = limit, activity
        self._selector = selectors.DefaultSelector()
        self._selector.register(server, selectors.EVENT_READ)
        self._lines: dict[int, socket.socket] = {}
        self._rest: dict[socket.socket, bytes] = {}
        """For each connection, the bytes received that are not a whole line yet."""
        self._heard: dict[int, tuple[Report, float]] = {}
        """The last report of each rank, and when it came."""

    def work(self) -> None:
        asked, said, looked = 0.0, False, 0.0
        while True:
            for key, _ in self._selector.select(TICK):
                self._hear(key.fileobj)
            now = time.monotonic()
            if now - looked < TICK:
                continue
            looked, own = now, self._activity.look(now)
            fresh = [own, *[report for report, at in self._heard.values() if now - at < LATE]]
            if max([report.waited for report in fresh]) < self._limit / 2:
                asked, said = 0.0, False
                continue
            asked, own = asked or now, self._activity.look(now, closely=True)
            self._ask()
            verdict = judge({0: Seen(own), **{k: self._seen(k, asked, now) for k in range(1, self._ranks)}},
                            self._limit)
            if verdict is None or said and not verdict.ends:
                continue
            if verdict.ends:
                end(1, verdict.said)
            said = True
            os.write(2, verdict.said.encode())

    def _seen(self, rank: int, asked: float, now: float) -> Seen:
        report, at = self._heard.get(rank, (None, 0.0))
        silent = now - max(at, asked)
        return Seen(report if silent < LATE and at >= asked - LATE else None,
                    silent if silent >= LATE else 0.0, rank in self._lines)

    def _ask(self) -> None:
        for rank, line in list(self._lines.items()):
            try:
                line.send(b"?")
            except BlockingIOError:  # it has not read earlier questions, and still owes the answers
                pass
            except OSError:
                self._drop(line)
                del self._lines[rank]

    def _hear(self, line: object) -> None:
        """Accept a connection, or read from one."""
        if line is self._server:
            with suppress(OSError):
                new, _ = self._server.accept()
                new.setblocking(False)
                self._rest[new] = b""
                self._selector.register(new, selectors.EVENT_READ)
            return
        assert isinstance(line, socket.socket)
        try:
            text = line.recv(LONGEST)
        except OSError:
            text = b""
        *lines, self._rest[line] = (self._rest[line] + text).split(b"\n")
        try:
            for each in lines:
                self._take(line, each)
        except (ValueError, TypeError, KeyError):
            text = b"?"
        if not text:
            self._ended(line)
        if not text or text == b"?" or len(self._rest[line]) > LONGEST:
            self._drop(line)

    def _ended(self, line: socket.socket) -> None:
        """Report that a rank ended without a message; the launcher is about to end this one."""
        for rank in [rank for rank, each in self._lines.items() if each is line]:
            own = self._activity.look(time.monotonic(), closely=True)
            os.write(2, f"rank {rank} of {self._ranks} has ended without a word: killed, by os._exit or by "
                     f"an error in C code\n    rank 0 was at {own.line}\n    after: {own.event}\n".encode())

    def _take(self, line: socket.socket, text: bytes) -> None:
        """Process one report; a message without the token is rejected."""
        token, *fields = json.loads(text)
        if token == self._token and fields == [GOODBYE]:
            self._lines = {rank: each for rank, each in self._lines.items() if each is not line}
            return
        report = Report(*fields)
        if token != self._token or not 0 < report.rank < self._ranks:
            raise ValueError(report.rank)
        self._lines[report.rank] = line
        self._heard[report.rank] = report, time.monotonic()

    def _drop(self, line: socket.socket) -> None:
        self._selector.unregister(line)
        self._rest.pop(line, None)
        line.close()


class _Witness:
    """The thread of another rank: it reports to rank 0 when its rank waits or when it is asked."""

    def __init__(self, rank: int, ranks: int, places: list[int], token: int, limit: float, activity: Activity
                 ) -> None:
        self._rank, self._ranks, self._places, self._token = rank, ranks, places, token
        self._limit, self._activity = limit, activity

    def work(self) -> None:
        line = self._connected()
        asked, looked, said = time.monotonic(), 0.0, False
        while True:
            now = time.monotonic()
            if now - looked >= TICK:
                looked, own = now, self._activity.look(now)
                if own.waited >= self._limit / 2:
                    own = self._activity.look(now, closely=True)
                if line is not None and own.waited >= self._limit / 2:
                    self._tell(line, own)
                waited = own.waited if line is None else min(own.waited, now - asked)
                if waited > (self._limit + self._rank % 64 * TICK / 16) * (BUSY if line is None else 1):
                    end(1, self._alone(own, line is not None))
                if line is None and waited > self._limit and not said:
                    said = True
                    os.write(2, self._alone(own, False).encode())
            if line is None:
                time.sleep(TICK)
            elif self._asked(line):
                asked = time.monotonic()
                self._tell(line, self._activity.look(asked, closely=True))

    def _alone(self, own: Report, reachable: bool) -> str:
        """The message of a waiting rank that gets no answer from rank 0."""
        if reachable:
            return (f"rank 0 of {self._ranks} does not answer{SILENT}\n    rank {self._rank} waited for it "
                    f"for {own.waited:.0f} s at {own.line}\n    after: {own.event}\n")
        return (f"rank {self._rank} of {self._ranks} has waited for {own.waited:.0f} s at {own.line}, and "
                "cannot reach rank 0 to ask for whom\n")

    def _asked(self, line: socket.socket) -> bool:
        """Wait at most one tick for a question from rank 0; returns whether one came."""
        line.settimeout(TICK)
        try:
            said = line.recv(LONGEST)
        except TimeoutError:
            return False
        if not said:
            raise ConnectionError("rank 0 has ended")
        return True

    def _tell(self, line: socket.socket, own: Report) -> None:
        line.settimeout(CONNECTING)
        self._say(line, list(own))

    def _say(self, line: socket.socket, words: list[object]) -> None:
        with suppress(OSError):
            line.sendall(json.dumps([self._token, *words]).encode() + b"\n")

    def _connected(self) -> socket.socket | None:
        """Connect to rank 0 and send it a first report; None if it cannot be reached."""
        for place in self._places:
            with suppress(OSError):
                host = socket.inet_ntoa(struct.pack("!I", place >> 16))
                line = socket.create_connection((host, place & 0xFFFF), CONNECTING)
                self._tell(line, self._activity.look(time.monotonic()))
                before_the_end(lambda: self._say(line, [GOODBYE]))
                return line
        return None

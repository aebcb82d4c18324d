"""Messages between ranks: exchanges of bytes, and an all-gather of one word.

Nothing here blocks inside MPI: a rank that waits polls for messages, yields its processor, and after a while
tells the other ranks what it waits for.  Ranks that diverged wait for messages that nobody will send; they
detect this from what they tell each other (`Doubt`), and end.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from diffuse.runtime.mpi import prepare
from diffuse.runtime.ranks.process import leave

Messages = Sequence[tuple[int, Any]]
"""Other ranks, each with the buffer to send to it or to receive from it into."""
LONGEST = 1 << 30
"""The most bytes of one message, as MPI counts with 32 bits."""
SOON, NAP = 0.01, 1e-4
"""Seconds of waiting after which a rank sleeps between two polls, and for how long."""
PATIENCE = 0.5
"""Seconds of waiting after which a rank tells the others what it waits for."""


class Network:
    """The other ranks.  One thread at a time may call."""

    def __init__(self) -> None:
        self._mpi = mpi = prepare.start()
        self._world = mpi.COMM_WORLD.Dup()
        self.rank: int = self._world.rank
        self.ranks: int = self._world.size
        self._word, self._words = np.zeros(2, np.int64), np.zeros((self.ranks, 2), np.int64)
        self.raised: Callable[[], int] = lambda: 0
        """The floating-point exceptions of this rank that no other knows of; they are sent with each word."""
        self.flags = 0
        """The floating-point exceptions of all ranks."""
        self.doubt: Callable[[float], None] | None = None
        """Called from time to time with the seconds for which this rank has been waiting."""
        self.since = 0.0
        """The time when this rank began to wait for others; 0 if it does not wait."""
        self.sent = self.messages = self.received = 0
        """Bytes that this rank sent in exchanges, the number of messages, and bytes that it received."""

    def gather(self, word: int) -> list[int]:
        """Gather one word of every rank."""
        self._word[:] = word, self.raised()
        self._wait([self._world.Iallgather(self._word, self._words)])
        for found, flags in (rows := self._words.tolist()):
            self.flags |= flags
        return [found for found, _ in rows]

    def swap(self, words: Sequence[int]) -> list[int]:
        """Exchange one word with each rank (all-to-all)."""
        mine, theirs = np.array(words, np.int64), np.zeros(self.ranks, np.int64)
        self._wait([self._world.Ialltoall(mine, theirs)])
        return [int(word) for word in theirs]

    def exchange(self, sends: Messages, receives: Messages, tag: int) -> None:
        """Send and receive bytes; for each pair of ranks both sides list their messages in the same order.

        The tag identifies the exchange.  The tags of a rank that diverged differ, so its messages never
        arrive where they do not fit, which Open MPI may answer by damaged memory."""
        requests = [self._world.Irecv([piece, self._mpi.BYTE], peer, tag)
                    for peer, memory in receives for piece in _pieces(memory)]
        self.received += sum([memory.nbytes for _, memory in receives])
        for peer, memory in sends:
            self.sent += memory.nbytes
            self.messages += 1
            requests += [self._world.Isend([piece, self._mpi.BYTE], peer, tag) for piece in _pieces(memory)]
        self._wait(requests)

    def _wait(self, requests: list[Any]) -> None:
        try:
            self._look(requests)
        except self._mpi.Exception as error:  # a message that is longer than expected, most likely
            self._end(str(error))

    def _end(self, error: str) -> NoReturn:
        """End the program, after leaving ranks the time to detect that they diverged.  It never returns,
        because MPI may still write to message buffers that the callers would free."""
        for k in range(50):
            if self.doubt is not None:
                self.doubt(k / 10)
            time.sleep(0.1)
        leave(1, f"rank {self.rank} of {self.ranks}: MPI failed: {error}\n")

    def _look(self, requests: list[Any]) -> None:
        """Wait until the requests have completed."""
        test = self._mpi.Request.Testall
        looks, begun, told = 0, 0.0, PATIENCE
        while not test(requests):
            os.sched_yield()
            looks += 1
            if looks & 255:
                continue
            now = time.monotonic()
            begun = self.since = begun or now
            if now - begun > SOON:
                time.sleep(NAP)
                looks |= 255  # look at the clock each time
            if now - begun > told and self.doubt is not None:
                self.doubt(now - begun)
                told += PATIENCE / 5
        self.since = 0.0

    def channel(self) -> Any:
        """Make a communicator for other messages; every rank has to call this."""
        return self._world.Dup()


def _pieces(memory: Any) -> list[Any]:
    if memory.nbytes <= LONGEST:
        return [memory]
    return [memory[k:k + LONGEST] for k in range(0, memory.nbytes, LONGEST)]

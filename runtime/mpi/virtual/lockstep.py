"""Runs the virtual ranks of one process on threads, one at a time, each until it waits for another.

Who goes on is decided here alone, in the order of the ranks, so that every run is the same run.  A rank
whose messages nobody can send any more is found at once: an error says for what each rank waits.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from diffuse.runtime.mpi.network import Messages, Network

T = TypeVar("T")


class Stuck(RuntimeError):
    """Ranks wait for messages that nobody sends."""


class Lockstep:
    """Threads of virtual ranks, of which one runs at a time."""

    def __init__(self, ranks: int) -> None:
        self.ranks = ranks
        self.turn = 0
        """The rank that runs; 0 while the program does."""
        self._threads: list[threading.Thread] = []
        self._go = [_closed() for _ in range(ranks)]
        self._done = _closed()
        self._function: Callable[[int], Any] = int
        self._found: list[Any] = []
        self._errors: list[BaseException | None] = []
        self._over: list[bool] = []
        self._waits: list[tuple[Callable[[], object], str] | None] = []
        """For each rank that waits, a test for whether it can go on, and what it waits for; else None."""
        self._stuck = ""

    def run(self, function: Callable[[int], T]) -> list[T]:
        """Run a function on every rank and return the results; the error of a rank is raised here."""
        ranks = self.ranks
        if ranks == 1:
            return [function(0)]
        self._function, self._stuck = function, ""
        self._found, self._errors, self._waits = [None] * ranks, [None] * ranks, [None] * ranks
        self._over = [False] * ranks
        if not self._threads:
            self._threads = [threading.Thread(target=self._serve, args=(rank,), daemon=True,
                                              name=f"rank {rank} of {ranks}") for rank in range(ranks)]
            for thread in self._threads:
                thread.start()
        self._next(ranks - 1)
        interrupt = _opened(self._done)
        self.turn, self._function = 0, int
        found, errors = self._found, [error for error in self._errors if error is not None]
        self._found, self._errors = [], []
        if errors:
            raise next((error for error in errors if not isinstance(error, Stuck)), errors[0])
        if interrupt is not None:
            raise interrupt
        return found

    def wait(self, ready: Callable[[], object], what: str) -> None:
        """Let other ranks run until this one can go on."""
        if ready():
            return
        rank = self.turn
        self._waits[rank] = ready, what
        self._next(rank)
        self._go[rank].acquire()
        self._waits[rank] = None
        if self._stuck:
            raise Stuck(self._stuck)

    def _next(self, rank: int) -> None:
        """Wake the next rank, in cyclic order, that can go on."""
        order = [(rank + k) % self.ranks for k in range(1, self.ranks + 1)]
        left = [other for other in order if not self._over[other]]
        if not left:
            self._done.release()
            return
        for other in left:
            waits = self._waits[other]
            if self._stuck or waits is None or waits[0]():
                break
        else:
            self._stuck = "ranks wait for each other: " + "; ".join(
                [f"rank {k} for {waits[1]}" for k, waits in enumerate(self._waits) if waits is not None])
            other = left[0]
        self.turn = other
        self._go[other].release()

    def _serve(self, rank: int) -> None:
        while True:
            self._go[rank].acquire()
            try:
                self._found[rank] = self._function(rank)
            except BaseException as error:  # raised where the program waits
                self._errors[rank] = error
            self._over[rank] = True
            self._next(rank)


def _closed() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock


def _opened(lock: threading.Lock) -> BaseException | None:
    """Wait for a lock; return what the handler of a signal raised meanwhile, which has to wait until
    ranks are done."""
    interrupt: BaseException | None = None
    while True:
        try:
            lock.acquire()
            return interrupt
        except BaseException as error:
            interrupt = error


class Post:
    """Messages and rounds that are under way between ranks."""

    def __init__(self, lockstep: Lockstep) -> None:
        self.lockstep = lockstep
        self.boxes: dict[tuple[int, int, int], deque[Any]] = defaultdict(deque)
        """Messages that nobody has got yet, by sender, receiver and tag."""
        self.rounds: dict[int, dict[int, Any]] = defaultdict(dict)
        """The words that ranks contributed to each round in which all of them meet."""
        self.left: dict[int, int] = {}
        """The number of ranks that have yet to read the words of each round."""


class Line(Network):
    """One virtual rank's line to the others: messages are copies of bytes in this process."""

    def __init__(self, rank: int, post: Post) -> None:
        self.rank, self.ranks = rank, post.lockstep.ranks
        self.raised = lambda: 0
        self.flags, self.doubt, self.since = 0, None, 0.0
        self.sent = self.messages = self.received = 0
        self._post = post
        self._round = 0

    def gather(self, word: int) -> list[int]:
        rows = self._meet((int(word), self.raised()))
        for _, flags in rows:
            self.flags |= flags
        return [found for found, _ in rows]

    def swap(self, words: Sequence[int]) -> list[int]:
        return [int(row[self.rank]) for row in self._meet(list(words))]

    def _meet(self, said: Any) -> list[Any]:
        """Contribute to a round, and return the contributions of all ranks."""
        post, number = self._post, self._round
        self._round += 1
        heard = post.rounds[number]
        heard[self.rank] = said
        post.lockstep.wait(lambda: len(heard) == self.ranks, "all others to meet it")
        found = [heard[rank] for rank in range(self.ranks)]
        post.left[number] = post.left.get(number, self.ranks) - 1
        if not post.left[number]:
            del post.left[number], post.rounds[number]
        return found

    def exchange(self, sends: Messages, receives: Messages, tag: int) -> None:
        boxes = self._post.boxes
        for peer, memory in sends:
            self.sent += memory.nbytes
            self.messages += 1
            boxes[self.rank, peer, tag].append(np.array(memory, copy=True))
        if receives:
            self._arrived(Counter([(peer, self.rank, tag) for peer, _ in receives]))
        for peer, memory in receives:
            key = peer, self.rank, tag
            message = boxes[key].popleft()
            if not boxes[key]:
                del boxes[key]
            if message.nbytes != memory.nbytes:
                raise RuntimeError(f"rank {peer} sent {message.nbytes} bytes to rank {self.rank}, which "
                                   f"expects {memory.nbytes}")
            memory[...] = message
            self.received += memory.nbytes

    def _arrived(self, wanted: Counter[tuple[int, int, int]]) -> None:
        """Wait until this many messages of each sender are there: for all at once, as switching between ranks
        takes time."""
        boxes, missing = self._post.boxes, list(wanted.items())

        def ready() -> bool:
            while missing and len(boxes.get(missing[-1][0], ())) >= missing[-1][1]:
                missing.pop()
            return not missing

        senders = ", ".join([str(sender) for sender, _, _ in wanted])
        self._post.lockstep.wait(ready, f"messages of rank {senders}")

    def channel(self) -> Any:
        raise RuntimeError("virtual ranks have no channel: who waits for whom is known without one")

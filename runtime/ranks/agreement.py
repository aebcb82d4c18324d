"""Detects that ranks diverge: each keeps a chain of digests of what it submits, and ranks compare them.

Every rank runs the same program and has to submit the same launches.  If ranks diverge (random numbers,
time, files, sets of strings), Legate or MPI deadlock or compute nonsense.  So each rank keeps a chain of
digests, with a link for each launch and copy.  Before ranks wait for each other they compare the last links
by MPI; if these differ, they search for the first link that does, and the program ends with what each rank
was about to submit there.  Ranks wait for each other when one wants results; under Legate also when it makes
a store or a partition.  What needs these is an event that begins before, so that one comparison is enough for
all of them.
"""

from __future__ import annotations

import atexit
import os
import re
import time
from array import array
from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import Any

from diffuse.runtime.ranks.process import leave

HEARD = 0.5
"""Seconds for the launcher to forward the messages of all ranks before one of them ends the job."""
APART = 64
"""Events after which ranks compare in any case, before Legate's own flow control blocks one of them."""


class Agreement:
    """The chain of digests of what this rank submitted.

    `gather` is an all-gather of one word.  With `close`, ranks compare before each event and not only at
    synchronisations, and include the contents of host arrays that launches read.
    """

    def __init__(self, rank: int, gather: Callable[[int], list[int]], close: bool) -> None:
        self._rank, self._gather, self.close = rank, gather, close
        self._chain = bytes(8)
        self._count = 0
        self._recent: list[tuple[bytes, str]] = []
        """The link of each event since the last comparison, with the event's description."""
        self._stores = 0
        self.last = "the beginning"
        """The description of the last event."""
        atexit.register(self.meet, "the end of the program")

    def launch(self, form: bytes, title: str, owners: Iterable[Any], block: bytes) -> None:
        """Add a launch that is about to be submitted: its form, instances, scalars and offsets."""
        numbers = []
        for owner in owners:
            if not owner.number:  # in the order of their first use, which is the same on all ranks
                self._stores += 1
                owner.number = self._stores
            numbers.append(owner.number)
        self._add(title, form, array("q", numbers), block)

    def event(self, event: str, content: Any = b"") -> None:
        """Add anything else that is about to be submitted."""
        self._add(event, event.encode(), content)

    def meet(self, event: str) -> None:
        """Compare, as this rank is about to wait for all others."""
        self._add(event, event.encode())
        self._compare()

    def settle(self, event: str) -> None:
        """Compare, unless there was no event since the last comparison, as Legate is about to wait for all
        others.  What it waits for follows from the last event."""
        if self._recent:
            self.meet(event)

    def _add(self, said: str, *parts: Any) -> None:
        found = blake2b(self._chain, digest_size=8)
        for part in parts:
            found.update(part)
        self._chain = found.digest()
        self._count += 1
        self.last = said
        self._recent.append((self._chain, said))
        if self.close or len(self._recent) >= APART:
            self._compare()

    def _compare(self) -> None:
        """End the program if ranks have diverged."""
        if self._equal(self._chain):
            self._recent.clear()
            return
        self._say(*self._difference())
        self._gather(0)  # until all have printed it
        time.sleep(HEARD)
        leave(1, "")

    def _say(self, number: int, event: str) -> None:
        said = (f"rank {self._rank}: the ranks went different ways; number {number} of what they submitted "
                f"is here\n    {event}\nLook for what differs between ranks (random numbers without a seed, "
                "time, files, os.getpid, the order of a set of strings, a test for the rank) and make it the "
                "same.\n")
        os.write(2, said.encode())

    @property
    def links(self) -> tuple[int, list[bytes]]:
        """The number of events before the last comparison, and the links of those since then."""
        return self._count - len(self._recent), [link for link, _ in self._recent]

    @property
    def tag(self) -> int:
        """A number for messages that belong to the last event: on ranks that agree, the same."""
        return int.from_bytes(self._chain, "little") & (1 << 22) - 1

    def progress(self) -> tuple[int, str]:
        """The number of events so far, and the description of the last one."""
        return self._count, self.last

    def judge(self, before: int, links: list[bytes]) -> None:
        """End the program if the links of another rank, the first of which has the number after `before`,
        differ from those here.  For ranks that wait for each other and do not compare."""
        own, mine = self.links
        for k, (_, event) in enumerate(self._recent):
            number = own + k - before
            if 0 <= number < len(links) and links[number] != mine[k]:
                self._say(own + k + 1, event)
                time.sleep(HEARD)
                leave(1, "")

    def _equal(self, chain: bytes) -> bool:
        return len(set(self._gather(int.from_bytes(chain, "little", signed=True)))) == 1

    def _difference(self) -> tuple[int, str]:
        """The number of the first event that differs, and its description here.  Chains that differ once
        differ from there on, so all ranks find it by the same bisection."""
        before = self._count - len(self._recent)
        low, high = max(self._gather(before + 1)), min(self._gather(self._count))
        while low < high:
            middle = (low + high) // 2
            if self._equal(self._recent[middle - before - 1][0]):
                low = middle + 1
            else:
                high = middle
        return low, self._recent[low - before - 1][1]


def form(title: str, *parts: object) -> bytes:
    """A digest of what all launches of a layout share.  Names of folders may differ between machines."""
    return blake2b(repr((re.sub(r"[^\s\[]*/", "", title), *parts)).encode(), digest_size=16).digest()

"""What all ranks know of each other: a word from each, and whether they still run the same program.

Every rank submits the same launches, by its own reading of the same program. Where ranks differ (random
numbers, time, files, sets of strings), Legate waits for ever or computes nonsense; with the setting
`digest` each launch is preceded by a comparison, and the first difference ends the program with what each
rank was doing.
"""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Callable
from hashlib import blake2b

from diffuse.runtime.legate.ranks import leave

HEARD = 0.5
"""Seconds in which every rank can say its part before one of them ends the job."""

Gather = Callable[[int], list[int]]
"""From this rank's word to those of all ranks."""


class Stream:
    """What this rank submitted so far, as a number that other ranks can compare with theirs."""

    def __init__(self, rank: int, gather: Gather) -> None:
        self._rank, self._gather = rank, gather
        self._hash = blake2b(digest_size=7)
        self._count = 0
        atexit.register(self.compare, "the end of the program")

    def compare(self, event: str, *details: object) -> None:
        """Add an event, and end the program if another rank was about to do something else."""
        self._count += 1
        self._hash.update(repr((event, details)).encode())
        words = self._gather(int.from_bytes(self._hash.digest(), "little"))
        if len(set(words)) > 1:
            said = (f"rank {self._rank}: the ranks went different ways; number {self._count} of what they "
                    f"submitted is here\n    {event}\nLook for what differs between ranks (random numbers "
                    "without a seed, time, files, os.getpid, the order of a set of strings) and make it the "
                    "same.\n")
            os.write(2, said.encode())
            time.sleep(HEARD)
            leave(1, "")

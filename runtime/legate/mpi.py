"""Messages between ranks over MPI, beside Legate.

Legate requires that all ranks submit the same operations, so ranks cannot use these to check whether they do,
and knows nothing of what a host function finds out on each rank.  Legate itself starts by MPI, and brings a
library over it (named by LEGATE_MPI_WRAPPER) whose interface is the same for every MPI.  A gather over two
ranks takes 20 us.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from ctypes import CDLL, POINTER, addressof, byref, c_int, c_int64, c_ssize_t, c_void_p, create_string_buffer
from time import monotonic
from typing import Any

from diffuse.memory import address
from diffuse.runtime.legate import prepare
from diffuse.runtime.ranks.peers import Messages

TAG = 7
STATUS = 128
"""Bytes of an MPI status, with a margin."""
PIECE = 1 << 30
"""The most bytes of one message, whose length is a C int."""


class Network:
    """Messages between all ranks; main thread only.  Each method waits until all ranks have called it."""

    def __init__(self, rank: int, ranks: int) -> None:
        self.rank, self.ranks = rank, ranks
        name = os.environ.get("LEGATE_MPI_WRAPPER") or str(prepare.mpi_wrapper(prepare.find().site))
        library = CDLL(name)
        for function in (library.legate_mpi_comm_world, library.legate_mpi_int64_t, library.legate_mpi_byte):
            function.restype = c_ssize_t
        library.legate_mpi_comm_dup.argtypes = [c_ssize_t, POINTER(c_ssize_t)]
        one: list[Any] = [c_void_p, c_int, c_ssize_t, c_int, c_int]
        library.legate_mpi_send.argtypes = [*one, c_ssize_t]
        library.legate_mpi_recv.argtypes = [*one, c_ssize_t, c_void_p]
        library.legate_mpi_sendrecv.argtypes = [*one, *one, c_ssize_t, c_void_p]
        running = c_int()
        library.legate_mpi_initialized(byref(running))
        if not running.value:
            raise RuntimeError(f"Legate runs on {ranks} ranks without MPI, which Diffuse needs there: leave "
                               "out REALM_UCP_BOOTSTRAP_MODE, or set it to mpi")
        communicator = c_ssize_t()  # a tag of our own, so that messages of other libraries never match
        library.legate_mpi_comm_dup(library.legate_mpi_comm_world(), byref(communicator))
        self._library, self._communicator = library, communicator
        self._word, self._byte = library.legate_mpi_int64_t(), library.legate_mpi_byte()
        self._status = create_string_buffer(STATUS)
        self._words = (c_int64 * ranks)()
        self.since = 0.0
        """The time when this rank began to wait for others; 0 if it does not wait."""

    def gather(self, word: int) -> list[int]:
        """Gather one word of every rank, by Bruck's algorithm: the number of known words doubles in each
        round."""
        rank, ranks, words = self.rank, self.ranks, self._words
        words[0], known, base = word, 1, addressof(words)
        self.since = monotonic()
        while known < ranks:
            count = min(known, ranks - known)
            self._library.legate_mpi_sendrecv(base, count, self._word, (rank - known) % ranks, TAG,
                                              base + 8 * known, count, self._word, (rank + known) % ranks,
                                              TAG, self._communicator, self._status)
            known += count
        self.since = 0.0
        return [words[(k - rank) % ranks] for k in range(ranks)]

    def swap(self, words: Sequence[int]) -> list[int]:
        """Exchange one word with each rank (all-to-all)."""
        mine, theirs = (c_int64 * self.ranks)(*words), (c_int64 * self.ranks)(*words)
        self.since = monotonic()
        for k in range(1, self.ranks):
            to, source = (self.rank + k) % self.ranks, (self.rank - k) % self.ranks
            self._library.legate_mpi_sendrecv(addressof(mine) + 8 * to, 1, self._word, to, TAG,
                                              addressof(theirs) + 8 * source, 1, self._word, source, TAG,
                                              self._communicator, self._status)
        self.since = 0.0
        return list(theirs)

    def exchange(self, sends: Messages, receives: Messages, tag: int) -> None:
        """Send and receive bytes; for each pair of ranks both sides list their messages in the same order."""
        given, taken = self._pieces(sends), self._pieces(receives)
        self.since = monotonic()
        for k in range(1, self.ranks):
            to, source = (self.rank + k) % self.ranks, (self.rank - k) % self.ranks
            outgoing, incoming = given.get(to, []), taken.get(source, [])
            for number in range(max(len(outgoing), len(incoming))):
                out, into = outgoing[number:number + 1], incoming[number:number + 1]
                if out and into:
                    self._library.legate_mpi_sendrecv(*out[0], *into[0], self._communicator, self._status)
                elif out:
                    self._library.legate_mpi_send(*out[0], self._communicator)
                else:
                    self._library.legate_mpi_recv(*into[0], self._communicator, self._status)
        self.since = 0.0

    def _pieces(self, messages: Messages) -> dict[int, list[tuple[int, int, int, int, int]]]:
        """The arguments of MPI for these messages, for each other rank."""
        found: dict[int, list[tuple[int, int, int, int, int]]] = {}
        for peer, memory in messages:
            begin, nbytes = address(memory), memory.nbytes
            found.setdefault(peer, []).extend([(begin + low, min(PIECE, nbytes - low), self._byte, peer, TAG)
                                               for low in range(0, nbytes, PIECE)])
        return found

"""An all-gather of one word over MPI, beside Legate.

Legate requires that all ranks submit the same operations, so ranks cannot use these to check whether they do.
Legate itself starts by MPI, and brings a library over it (named by LEGATE_MPI_WRAPPER) whose interface is the
same for every MPI.  A gather over two ranks takes 20 us.
"""

from __future__ import annotations

import os
from ctypes import CDLL, POINTER, addressof, byref, c_int, c_int64, c_ssize_t, c_void_p, create_string_buffer
from time import monotonic

from diffuse.runtime.legate import prepare

TAG = 7
STATUS = 128
"""Bytes of an MPI status, with a margin."""


class Gather:
    """Gathers a word from every rank on every rank, in the order of ranks; main thread only."""

    def __init__(self, rank: int, ranks: int) -> None:
        self._rank, self._ranks = rank, ranks
        name = os.environ.get("LEGATE_MPI_WRAPPER") or str(prepare.mpi_wrapper(prepare.find().site))
        library = CDLL(name)
        for function in (library.legate_mpi_comm_world, library.legate_mpi_int64_t):
            function.restype = c_ssize_t
        library.legate_mpi_comm_dup.argtypes = [c_ssize_t, POINTER(c_ssize_t)]
        library.legate_mpi_sendrecv.argtypes = [c_void_p, c_int, c_ssize_t, c_int, c_int,
                                                c_void_p, c_int, c_ssize_t, c_int, c_int, c_ssize_t, c_void_p]
        running = c_int()
        library.legate_mpi_initialized(byref(running))
        if not running.value:
            raise RuntimeError(f"Legate runs on {ranks} ranks without MPI, which Diffuse needs there: leave "
                               "out REALM_UCP_BOOTSTRAP_MODE, or set it to mpi")
        communicator = c_ssize_t()  # a tag of our own, so that messages of other libraries never match
        library.legate_mpi_comm_dup(library.legate_mpi_comm_world(), byref(communicator))
        self._exchange = library.legate_mpi_sendrecv
        self._communicator, self._type = communicator, library.legate_mpi_int64_t()
        self._status = create_string_buffer(STATUS)
        self._words = (c_int64 * ranks)()
        self.since = 0.0
        """The time when this rank began to wait for others; 0 if it does not wait."""

    def __call__(self, word: int) -> list[int]:
        """Wait until all ranks have called, by Bruck's algorithm: the number of known words doubles in each
        round."""
        rank, ranks, words = self._rank, self._ranks, self._words
        words[0], known, base = word, 1, addressof(words)
        self.since = monotonic()
        while known < ranks:
            count = min(known, ranks - known)
            self._exchange(base, count, self._type, (rank - known) % ranks, TAG,
                           base + 8 * known, count, self._type, (rank + known) % ranks, TAG,
                           self._communicator, self._status)
            known += count
        self.since = 0.0
        return [words[(k - rank) % ranks] for k in range(ranks)]

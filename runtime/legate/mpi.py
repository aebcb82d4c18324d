"""Words that ranks send each other past Legate: one word of this rank's in, the words of all ranks out.

Legate's own operations expect that all ranks submit the same ones, so ranks that want to know whether they do
cannot ask by way of Legate.  MPI is there anyway: Legate starts with it, and has a small library over it
(named by LEGATE_MPI_WRAPPER) whose interface is the same for every MPI.  A gather of two ranks takes 20 us.
"""

from __future__ import annotations

import os
from ctypes import CDLL, POINTER, addressof, byref, c_int, c_int64, c_ssize_t, c_void_p, create_string_buffer

from diffuse.runtime.legate import prepare

TAG = 7
STATUS = 128
"""Bytes of a status, and more."""


class Gather:
    """A word from every rank to every rank, in the order of their numbers; from the main thread."""

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
        communicator = c_ssize_t()  # of our own: what another library sends is never taken for ours
        library.legate_mpi_comm_dup(library.legate_mpi_comm_world(), byref(communicator))
        self._exchange = library.legate_mpi_sendrecv
        self._communicator, self._type = communicator, library.legate_mpi_int64_t()
        self._status = create_string_buffer(STATUS)
        self._words = (c_int64 * ranks)()

    def __call__(self, word: int) -> list[int]:
        """Waits until all ranks have called.  In each turn the words known to a rank double (Bruck's way)."""
        rank, ranks, words = self._rank, self._ranks, self._words
        words[0], known, base = word, 1, addressof(words)
        while known < ranks:
            count = min(known, ranks - known)
            self._exchange(base, count, self._type, (rank - known) % ranks, TAG,
                           base + 8 * known, count, self._type, (rank + known) % ranks, TAG,
                           self._communicator, self._status)
            known += count
        return [words[(k - rank) % ranks] for k in range(ranks)]

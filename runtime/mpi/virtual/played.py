"""Runs a function that ranks run together in one process that has all of their parts: each rank is a
thread."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import numpy as np

from diffuse.runtime.independent import Ends
from diffuse.runtime.ranks.peers import Run


class Stage:
    """The state that all ranks of a call share: the pieces that they give each other, and the traffic that
    they would cause."""

    def __init__(self, ranks: int) -> None:
        self.shown: list[Any] = [None] * ranks
        self.barrier = Barrier(ranks)
        self.sent = [[0, 0] for _ in range(ranks)]
        """Bytes and messages of each rank."""


class Played:
    """The peers of one of these ranks, with the methods of `peers.Together`."""

    def __init__(self, stage: Stage, rank: int, ends: Ends) -> None:
        self.rank, self.ranks, self.ends = rank, len(stage.shown), ends
        self._stage = stage

    def gather(self, array: Any) -> Any:
        return np.stack(self._show([array] * self.ranks))

    def swap(self, pieces: Sequence[Any]) -> tuple[Any, list[int]]:
        found = self._show(pieces)
        return np.concatenate(found), list(map(len, found))

    def _show(self, pieces: Sequence[Any]) -> list[Any]:
        """Give each rank a copy of its piece; returns the pieces given to this rank."""
        stage = self._stage
        sizes = [piece.nbytes for rank, piece in enumerate(pieces) if rank != self.rank and piece.nbytes]
        stage.sent[self.rank][0] += sum(sizes)
        stage.sent[self.rank][1] += len(sizes)
        stage.shown[self.rank] = pieces
        stage.barrier.wait()
        found = [shown[self.rank].copy() for shown in stage.shown]
        stage.barrier.wait()
        return found


def played(run: Run, firsts: Sequence[int]) -> tuple[int, int, int]:
    """Run a function as all ranks; returns the exceptions that it raised, and the bytes and messages that
    ranks would send."""
    ranks = len(firsts) - 1
    stage = Stage(ranks)

    def one(rank: int) -> int:
        try:
            return run(lambda ends: Played(stage, rank, ends), firsts, rank)
        except BaseException:
            stage.barrier.abort()
            raise

    with ThreadPoolExecutor(ranks) as pool:
        flags = 0
        for found in pool.map(one, range(ranks)):
            flags |= found
    return flags, sum([nbytes for nbytes, _ in stage.sent]), sum([count for _, count in stage.sent])

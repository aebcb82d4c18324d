"""How the partial results of a fold come together: rules that ranks follow, and that plans count by."""

from __future__ import annotations

FEW = 1 << 10
"""The most bytes that ranks may receive so that each computes redundantly what one could compute for all; and
the most partial results that a rank gives to each other one, however many ranks there are."""
LARGE = 1 << 16
"""Bytes from which on one rank computes for all: of the partial results that all ranks together would
receive, or of the results that each would compute."""
DIRECT = 8
"""The most ranks that send their partial results to each other directly: these messages wait for none."""


def at_one(every: int, ranks: int) -> bool:
    """Does one rank combine the partial results of all, which take so many bytes?"""
    return ranks * every > LARGE and every > ranks * FEW


def distances(ranks: int) -> tuple[int, ...]:
    """The distance between sender and receiver in each round of an all-gather."""
    return tuple([1 << k for k in range((ranks - 1).bit_length())])


def rounds(ranks: int) -> tuple[int, ...]:
    """The rounds in which ranks gather what every one of them combines; none if they send it directly."""
    return () if ranks <= DIRECT else distances(ranks)

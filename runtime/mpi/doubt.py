"""Detects ranks that diverged while they wait for messages that nobody will send.

A rank that has waited for a while sends the others the digests of its recent submissions.  A rank that
receives digests which differ from its own reports this and ends the program.
"""

from __future__ import annotations

from typing import Any

from diffuse.runtime.mpi.network import Network
from diffuse.runtime.ranks.agreement import Agreement


class Doubt:
    """What this rank knows of the other waiting ranks."""

    def __init__(self, network: Network, agreement: Agreement) -> None:
        self._channel = network.channel()
        self._rank, self._ranks = network.rank, network.ranks
        self._agreement = agreement
        self._told: object = None
        """The digests that this rank sent last."""
        self._sending: list[Any] = []
        self._heard: dict[int, tuple[int, list[bytes]]] = {}
        network.doubt = self.waits

    def waits(self, seconds: float) -> None:
        """Exchange digests with the other ranks, as this one has waited long, and end the program if they
        differ."""
        links = self._agreement.links
        if links != self._told:
            self._told = links
            self._sending = [request for request in self._sending if not request.Test()]
            self._sending += [self._channel.isend((self._rank, *links), other)
                              for other in range(self._ranks) if other != self._rank]
        while self._channel.iprobe():
            other, before, theirs = self._channel.recv()
            self._heard[other] = before, theirs
        for before, theirs in self._heard.values():
            self._agreement.judge(before, theirs)

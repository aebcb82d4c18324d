"""A route: the steps that bring an array from one layout to another, rank by rank, and what they cost.

A step lists for each rank the boxes that it receives from and sends to each other rank.  Everything else is
derived from that: bytes, messages, memory, and the time that a machine is expected to take.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, log2, prod
from typing import Protocol

from diffuse.ir import Point
from diffuse.movement.boxes import Box, Holding, Layout, describe, placed, size, total, volume
from diffuse.movement.machine import Machine

Pieces = tuple[tuple[int, Box], ...]
"""Boxes, each with the rank that sends or receives it."""


@dataclass(frozen=True, slots=True)
class Load:
    """The load of a step on ranks, in messages and elements."""

    messages: int
    """Messages that are sent in all."""
    rounds: int
    """Messages that the busiest rank waits for one after the other."""
    received: int
    """Elements that the busiest rank receives."""
    sent: int
    """Elements that the busiest rank sends."""
    moved: int
    """Elements that are sent in all."""


class RouteStep(Protocol):
    """One step of a route, after which ranks hold `held`."""

    @property
    def name(self) -> str: ...

    @property
    def held(self) -> Layout: ...

    @property
    def load(self) -> Load: ...

    @property
    def most(self) -> int:
        """The most elements that a rank holds after the step."""

    @property
    def needed(self) -> int:
        """The most elements that a rank needs during the step: what it holds before and after it together,
        but for a slice, which needs no other memory."""

    def arriving(self, rank: int) -> Pieces:
        """Return the boxes that a rank receives, with their senders."""

    def leaving(self, rank: int) -> Pieces:
        """Return the boxes that a rank sends, with their receivers."""


@dataclass(frozen=True)
class Group:
    """A collective on tiles: each rank has one tile before and one after, and receives from the tiles of its
    sources the elements of its new one."""

    kind: str
    name: str
    factor: int
    tiles: tuple[Point, Point]
    """The shape of a tile before and after."""
    begins: tuple[Sequence[Point], Sequence[Point]]
    """The offset of the tile of each rank, before and after."""
    sources: tuple[tuple[int, ...], ...]
    """The ranks that each rank receives from, including itself if it keeps something."""
    readers: tuple[tuple[int, ...], ...]
    """The ranks that receive from each rank."""

    @cached_property
    def held(self) -> Layout:
        return placed(self.begins[1], self.tiles[1])

    @property
    def most(self) -> int:
        return prod(self.tiles[1])

    @property
    def needed(self) -> int:
        return prod(self.tiles[0]) + (0 if self.kind == "dynslice" else self.most)

    def arriving(self, rank: int) -> Pieces:
        return tuple((other, self._piece(other, rank)) for other in self.sources[rank] if other != rank)

    def leaving(self, rank: int) -> Pieces:
        return tuple((other, self._piece(rank, other)) for other in self.readers[rank] if other != rank)

    def _piece(self, sender: int, receiver: int) -> Box:
        return tuple(range(max(a, b), min(a + m, b + n)) for a, m, b, n in zip(
            self.begins[0][sender], self.tiles[0], self.begins[1][receiver], self.tiles[1], strict=True))

    @cached_property
    def load(self) -> Load:
        before, after = map(prod, self.tiles)
        ranks, n = len(self.sources), self.factor
        match self.kind:
            case "dynslice":
                return Load(0, 0, 0, 0, 0)
            case "allgather":
                moved = after - before
                return Load(ranks * (n - 1), ceil(log2(n)), moved, moved, ranks * moved)
            case "alltoall":
                moved = after - after // n
                return Load(ranks * (n - 1), n - 1, moved, moved, ranks * moved)
        movers = sum(rank not in sources for rank, sources in enumerate(self.sources))
        return Load(movers, 1, after, after, movers * after)


@dataclass(frozen=True)
class Exchange:
    """Boxes from any rank to any other, all at once."""

    before: Layout
    held: Layout
    arrivals: tuple[Pieces, ...]

    name = "exchange of boxes"

    @cached_property
    def most(self) -> int:
        return total(self.held)

    @cached_property
    def needed(self) -> int:
        return max(size(a) + size(b) for a, b in zip(self.before, self.held, strict=True))

    def arriving(self, rank: int) -> Pieces:
        return self.arrivals[rank]

    def leaving(self, rank: int) -> Pieces:
        return self._departures[rank]

    @cached_property
    def _departures(self) -> tuple[Pieces, ...]:
        found: list[list[tuple[int, Box]]] = [[] for _ in self.held]
        for receiver, pieces in enumerate(self.arrivals):
            for sender, box in pieces:
                found[sender].append((receiver, box))
        return tuple(map(tuple, found))

    @cached_property
    def load(self) -> Load:
        """All boxes from one rank to another count as one message."""
        received = [sum(volume(box) for _, box in pieces) for pieces in self.arrivals]
        sent = [sum(volume(box) for _, box in pieces) for pieces in self._departures]
        incoming = [len({other for other, _ in pieces}) for pieces in self.arrivals]
        outgoing = [len({other for other, _ in pieces}) for pieces in self._departures]
        return Load(sum(incoming), max(incoming + outgoing, default=0), max(received, default=0),
                    max(sent, default=0), sum(received))


@dataclass(frozen=True, slots=True)
class Actions:
    """The actions of one rank in one step."""

    name: str
    sends: Pieces
    receives: Pieces
    before: Holding
    after: Holding


@dataclass(frozen=True)
class Route:
    """Steps from one layout to another.  It prints as one line per step."""

    shape: Point
    itemsize: int
    have: Layout
    want: Layout
    steps: tuple[RouteStep, ...]
    method: str

    @cached_property
    def held(self) -> tuple[Layout, ...]:
        """The layouts before, between and after the steps."""
        return (self.have, *(step.held for step in self.steps))

    def rank(self, number: int) -> tuple[Actions, ...]:
        """Return the actions of one rank, step by step."""
        return tuple(
            Actions(step.name, step.leaving(number), step.arriving(number), before[number], step.held[number])
            for step, before in zip(self.steps, self.held, strict=False))

    @cached_property
    def height(self) -> int:
        """The most bytes that a rank holds before, between or after steps (the paper's height)."""
        return self.itemsize * max((total(self.have), *(step.most for step in self.steps)))

    @property
    def peak(self) -> int:
        """The most bytes that a rank needs at any time, during steps included."""
        return max((self.height, *(self.itemsize * step.needed for step in self.steps)))

    @property
    def received(self) -> int:
        """The most bytes that a rank receives in each step, summed over the steps."""
        return self.itemsize * sum(step.load.received for step in self.steps)

    @property
    def moved(self) -> int:
        """The bytes that all ranks send together."""
        return self.itemsize * sum(step.load.moved for step in self.steps)

    @property
    def messages(self) -> int:
        """The messages that all ranks send together."""
        return sum(step.load.messages for step in self.steps)

    def seconds(self, machine: Machine) -> float:
        """Return the expected time of the steps, one after the other."""
        return sum(machine.seconds(step.load.rounds, self.itemsize * max(step.load.received, step.load.sent))
                   for step in self.steps)

    def __str__(self) -> str:
        title = f"{describe(self.have, self.shape)} -> {describe(self.want, self.shape)} on " \
                f"{len(self.have)} ranks, {self.method}"
        rows = [(step.name, describe(step.held, self.shape), f"{self.itemsize * step.load.moved:,} bytes",
                 f"{step.load.messages:,} messages", f"peak {self.itemsize * step.needed:,} bytes a rank")
                for step in self.steps]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  " + "  ".join([row[0].ljust(widths[0]), row[1].ljust(widths[1]),
                                   *(cell.rjust(w) for cell, w in zip(row[2:], widths[2:], strict=True))])
                 for row in rows]
        return "\n".join([f"{title}: {self.moved:,} bytes, {self.messages:,} messages" if rows
                          else f"{title}: nothing moves", *lines])

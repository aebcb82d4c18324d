"""The inspector: finds out, once, what the points of each rank read at places that are data.

Rows of a sparse matrix that a rank has say which rows of a dense operand it reads.  Of those that it has not
(its ghosts) it tells their owners, and a plan of the exchange is kept for as long as the matrix is what it
is: afterwards the owners send those rows alone, each time the operand has changed.  Ghosts are no part of the
validity map: only the rank that has them knows them, and they are good for one version of the operand.
Where ranks are predicted, one process inspects for all of them, and nobody is told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from diffuse.ir import ITEMSIZE
from diffuse.ir.bounded import Bounded
from diffuse.ir.view import shown
from diffuse.movement.boxes import Layout
from diffuse.runtime.base import Layout as Launched
from diffuse.runtime.mpi.gathers import Reader, Rows, distinct, holders, lacking, read, readers, written
from diffuse.runtime.mpi.instances import PAGE, MpiInstance
from diffuse.runtime.mpi.moves import Move
from diffuse.runtime.mpi.network import Network
from diffuse.runtime.mpi.shares import Share, share, spread
from diffuse.runtime.mpi.validity import State

MOST = 16
"""Inspections of one array, and plans of one inspection, that are kept."""


class Ranks(Protocol):
    """What the inspector needs of a runtime."""

    ranks: int
    rank: int
    network: Network | None

    def fetch(self, instance: MpiInstance, want: Layout, title: str) -> None:
        """Give each rank what it wants of a store, and wait until that is there."""
        ...

    def ask(self, title: str) -> int:
        """Meet the other ranks, to ask them for something; returns a tag for messages."""
        ...

    def asked(self, nbytes: int, messages: int) -> None:
        """Count messages with which ranks asked."""
        ...


@dataclass(frozen=True, eq=False, slots=True)
class Ghosts:
    """The exchange after which each rank has the rows of a dense operand that it reads."""

    moves: tuple[Move, ...]
    """Those of this rank; none where ranks are predicted."""
    base: int
    """The byte of the store that the moves count from."""
    nbytes: int
    """What all ranks send together."""
    messages: int
    """In how many messages, where ranks are predicted."""
    growth: tuple[int, ...]
    """The bytes of memory that the ghosts of each rank take."""


@dataclass(frozen=True, eq=False, slots=True)
class Inspection:
    """What is known of one matrix in one version."""

    bounds: tuple[tuple[int, int], ...]
    """From where to where each rank reads its elements."""
    wanted: dict[int, Rows]
    """The rows of a dense operand that it reads: of this rank, or of all where they are predicted."""
    plans: dict[Any, Ghosts | None]


Due = list[tuple[Ghosts, MpiInstance]]


class Inspector:
    """Inspects for the ranks of a runtime."""

    def __init__(self, runtime: Ranks) -> None:
        self._runtime = runtime
        self._ranks = runtime.ranks
        self._network = runtime.network
        self._here = range(self._ranks) if self._network is None else [runtime.rank]

    def inspect(self, layout: Launched, shared: Share, instances: Sequence[MpiInstance],
                watched: Sequence[Any], make: Callable[[Share], Any]) -> tuple[Any, Due] | None:
        """What `make` makes of the share in which each rank reads what it needs alone, and the ghosts that it
        needs besides; None where ranks read as the share says.  Arrays that code outside may write to at
        any time, which are `watched`, are not looked into."""
        found = layout.derived.get(("readers", self._ranks))
        if found is None:
            found = layout.derived["readers", self._ranks] = readers(layout, shared, self._ranks)
        looked = {instances[k] for reader in found for k in
                  (reader.gather.low, reader.gather.high, *reader.gather.along[1:])}
        cut = [k for reader in found for k in (*reader.gather.along, reader.gather.dense)
               if k >= 0 and not instances[k].state.whole]
        if not cut or not looked.isdisjoint(watched):
            return None
        inspections = tuple([self._inspection(reader, layout, instances) for reader in found])
        due: Due = []
        for reader, inspection in zip(found, inspections, strict=True):
            dense = instances[reader.gather.dense] if reader.gather.dense >= 0 else None
            if dense is not None and not dense.state.whole:
                ghosts = self._ghosts(inspection, reader, dense.state, layout.title)
                if ghosts is None:
                    return None
                if ghosts not in dense.ghosts and all(ghosts is not other for other, _ in due):
                    due.append((ghosts, dense))
        made = layout.derived.setdefault(("inspected", self._ranks), Bounded(MOST))
        if inspections not in made:
            made[inspections] = make(self._share(layout, found, inspections))
        return made[inspections], due

    def _share(self, layout: Launched, found: Sequence[Reader], inspections: Sequence[Inspection]) -> Share:
        """The share in which ranks read of a matrix what they need, and nothing of dense operands."""
        known: dict[int, Layout] = {}
        for reader, inspection in zip(found, inspections, strict=True):
            for k in reader.gather.along:
                known[k] = _parts(layout, k, inspection.bounds)
            if reader.gather.dense >= 0:
                known.setdefault(reader.gather.dense, ((),) * self._ranks)
        return share(layout, self._ranks, known)

    def _inspection(self, reader: Reader, layout: Launched, instances: Sequence[MpiInstance]) -> Inspection:
        gather, arguments = reader.gather, layout.arguments
        low, high, last = instances[gather.low], instances[gather.high], instances[gather.along[-1]]
        keeper = last if gather.columns >= 0 else low
        access = arguments[gather.along[-1]].access
        key = (keeper.version, low, low.version, high, high.version, reader.ends,
               arguments[gather.low].storage[1], arguments[gather.high].storage[1],
               gather.columns >= 0, last.nbytes, shown(access).offset, access.store.dtype)
        found: Inspection | None = keeper.inspected.get(key)
        if found is None:
            if any(before[0] != keeper.version for before in keeper.inspected):
                keeper.inspected.clear()
            while len(keeper.inspected) >= MOST:
                del keeper.inspected[next(iter(keeper.inspected))]
            found = keeper.inspected[key] = self._inspect(reader, layout, instances)
        return found

    def _inspect(self, reader: Reader, layout: Launched, instances: Sequence[MpiInstance]) -> Inspection:
        """Look at the rows that each rank has, and at the columns of their elements."""
        gather, arguments, title = reader.gather, layout.arguments, f"inspect {layout.title}"
        for k, want in zip((gather.low, gather.high), reader.boxes, strict=True):
            self._runtime.fetch(instances[k], want, title)
        low, high = [instances[k].array.view(arguments[k].storage[1]) for k in (gather.low, gather.high)]
        last = gather.along[-1]
        view, item = shown(arguments[last].access), ITEMSIZE[arguments[last].access.store.dtype]
        most = (instances[last].nbytes - view.offset) // item
        mine = [_bounds(low[slice(*reader.ends[0][rank])], high[slice(*reader.ends[1][rank])], most)
                for rank in self._here]
        self._runtime.ask(title)
        bounds = tuple(zip(self._told([a for a, _ in mine]), self._told([b for _, b in mine]), strict=True))
        wanted: dict[int, Rows] = {}
        if gather.columns >= 0:
            self._runtime.fetch(instances[last], _parts(layout, last, bounds), title)
            columns = instances[last].array[view.offset:view.offset + most * item]
            columns = columns.view(arguments[last].access.store.dtype)
            wanted = {rank: distinct(columns[slice(*bounds[rank])]) for rank in self._here}
        return Inspection(bounds, wanted, Bounded(MOST))

    def _ghosts(self, inspection: Inspection, reader: Reader, state: State, title: str) -> Ghosts | None:
        """The exchange of the rows that ranks lack; None if some rows are nobody's alone."""
        key = state, reader.base, reader.pitch
        if key not in inspection.plans:
            held = holders(state, reader.base, reader.pitch)
            inspection.plans[key] = None
            if held is not None:
                needs = [lacking(inspection.wanted[rank], state, rank, reader.base, reader.pitch, held)
                         for rank in self._here]
                inspection.plans[key] = self._plan(needs, reader, state, f"inspect {title}")
        return inspection.plans[key]

    def _plan(self, needs: Sequence[dict[int, Rows]], reader: Reader, state: State, title: str) -> Ghosts:
        """The exchange of the rows that the ranks here lack, by the ranks that they get them from."""
        tag, base, pitch = self._runtime.ask(title), reader.base, reader.pitch
        requests = [{sender: written(rows) for sender, rows in need.items()} for need in needs]
        self._runtime.asked(sum(message.nbytes for each in requests for message in each.values()),
                            sum(map(len, requests)))
        rows = self._told([sum(map(len, need.values())) for need in needs])
        growth = self._told([_memory(need, base, pitch) for need in needs])
        moves: list[Move] = []
        if self._network is not None:
            total = (int(np.prod(state.shape)) * state.itemsize - base) // pitch
            gives = _requested(self._network, requests[0], tag)
            moves = [_move(peer, sends, some, total, pitch)
                     for sends, named in ((True, gives), (False, needs[0]))
                     for peer, some in sorted(named.items())]
        return Ghosts(tuple(moves), base, sum(rows) * pitch, sum(map(len, needs)), tuple(growth))

    def _told(self, words: list[int]) -> list[int]:
        """The words of all ranks, given those of the ranks here."""
        return words if self._network is None else self._network.gather(words[0])


def _bounds(low: NDArray[Any], high: NDArray[Any], most: int) -> tuple[int, int]:
    """From where to where rows have elements that begin and end there; of none, nowhere."""
    if not low.size:
        return 0, 0
    first, last = max(int(low.min()), 0), min(int(high.max()), most)
    return (first, last) if first < last else (0, 0)


def _parts(layout: Launched, k: int, bounds: Sequence[tuple[int, int]]) -> Layout:
    """The boxes in which ranks find the elements that they read through an argument, from there to there."""
    argument = layout.arguments[k]
    view, item = shown(argument.access), ITEMSIZE[argument.access.store.dtype]
    shape, dtype = argument.storage
    return tuple([spread(view.offset + low * item, view.offset + high * item, shape, ITEMSIZE[dtype])
                  if low < high else () for low, high in bounds])


def _requested(network: Network, requests: dict[int, Rows], tag: int) -> dict[int, Rows]:
    """Tell other ranks which rows this one needs of them; returns those that they need of this one."""
    sizes = network.swap([requests[rank].nbytes if rank in requests else 0 for rank in range(network.ranks)])
    messages = {peer: np.empty(nbytes // 8, np.int64) for peer, nbytes in enumerate(sizes) if nbytes}
    network.exchange([(peer, message.view(np.uint8)) for peer, message in sorted(requests.items())],
                     [(peer, message.view(np.uint8)) for peer, message in messages.items()], tag)
    return {peer: read(message) for peer, message in messages.items()}


def _move(peer: int, sends: bool, rows: Rows, total: int, pitch: int) -> Move:
    """The move of rows of an array; those that are one run of memory are not packed."""
    low, high = int(rows[0]), int(rows[-1]) + 1
    region = (low * pitch, high * pitch) if high - low == len(rows) else (rows,)
    return Move(0, peer, sends, (total,), pitch, region, len(rows) * pitch)


def _memory(need: dict[int, Rows], base: int, pitch: int) -> int:
    """The bytes of the pages in which rows lie."""
    rows = np.concatenate([np.zeros(0, np.int64), *need.values()])
    return max(len(np.unique((base + rows * pitch) // PAGE)) * PAGE, len(rows) * pitch)

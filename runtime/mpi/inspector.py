"""The inspector: finds out, once, which data-dependent elements the points of each rank read.

The rows of a sparse matrix that a rank holds determine which rows of a dense operand it reads.  It requests
those that it does not hold (its ghosts) from their owners.  The resulting exchange plan is kept until the
matrix changes: the owners then send just those rows whenever the operand has changed.  Ghosts are not part of
the validity map: only the rank that has them knows of them, and they are valid for one version of the
operand. Where ranks are predicted, one process inspects for all of them, and no messages are sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from diffuse.bounded import Bounded
from diffuse.ir import ITEMSIZE
from diffuse.ir.view import shown
from diffuse.movement.boxes import Box, Layout
from diffuse.runtime.base import Layout as Launched
from diffuse.runtime.mpi.gathers import Reader, holders, lacking, read, readers, written
from diffuse.runtime.mpi.instances import PAGE, MpiInstance
from diffuse.runtime.mpi.moves import Move
from diffuse.runtime.mpi.network import Network
from diffuse.runtime.mpi.shares import Share, share, spread
from diffuse.runtime.mpi.validity import Validity
from diffuse.runtime.ranks.numbers import RowNumbers, distinct, reach

MOST = 16
"""The most inspections kept for one array, and plans for one inspection."""


class Ranks(Protocol):
    """The part of a runtime that the inspector uses."""

    ranks: int
    rank: int
    network: Network | None
    measure: Callable[[Layout, Layout], tuple[int, int]]
    """Counts the bytes and messages of an exchange, where ranks are predicted."""

    def fetch(self, instance: MpiInstance, want: Layout, title: str) -> None:
        """Send each rank the boxes that it wants of a store, and wait until they have arrived."""
        ...

    def arrived(self, instance: MpiInstance) -> None:
        """Wait until what was launched has written a store."""
        ...

    def ask(self, title: str) -> int:
        """Synchronise with the other ranks before a request; returns a message tag."""
        ...

    def asked(self, nbytes: int, messages: int) -> None:
        """Count the request messages that ranks sent."""
        ...


@dataclass(frozen=True, eq=False, slots=True)
class Ghosts:
    """An exchange that gives each rank the rows of a dense operand that it reads."""

    moves: tuple[Move, ...]
    """The sends and receives of this rank; empty where ranks are predicted."""
    base: int
    """The byte offset in the store from which the moves count."""
    nbytes: int
    """Bytes that all ranks send together, or what the runtime measures instead where ranks are predicted."""
    messages: int
    """The number of messages, where ranks are predicted."""
    growth: tuple[int, ...]
    """The bytes of memory that the ghosts of each rank take."""


@dataclass(frozen=True, eq=False, slots=True)
class Inspection:
    """The results of inspecting one version of a matrix."""

    bounds: tuple[tuple[int, int], ...]
    """For each rank, the first element of the matrix that it reads and the one after the last."""
    wanted: dict[int, RowNumbers]
    """For each rank in this process, the rows of the dense operand that it reads."""
    plans: dict[Any, Ghosts | None]


Due = list[tuple[Ghosts, MpiInstance]]


class Inspector:
    """Inspects the gathers of launches for the ranks of a runtime."""

    def __init__(self, runtime: Ranks) -> None:
        self._runtime = runtime
        self._ranks = runtime.ranks
        self._network = runtime.network
        self._here = range(self._ranks) if self._network is None else [runtime.rank]

    def inspect(self, layout: Launched, shared: Share, instances: Sequence[MpiInstance],
                watched: Sequence[Any], make: Callable[[Share], Any]) -> tuple[Any, Due] | None:
        """Call `make` with a share in which each rank reads only what its gathers need.  Returns the result
        and the missing ghosts; None if the launch keeps its share.  Arrays that outside code may write to at
        any time (`watched`) are not inspected."""
        found = self._readers(layout, shared)
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
        made = layout.derived.setdefault(("inspected", self._ranks, self._runtime.rank), Bounded(MOST))
        if inspections not in made:
            made[inspections] = make(share(layout, self._ranks, without(
                layout, [*zip(found, inspections, strict=True)], self._ranks)))
        return made[inspections], due

    def recalled(self, layout: Launched, shared: Share, instances: Mapping[int, MpiInstance]
                 ) -> list[tuple[Reader, Inspection]]:
        """Return the gathers of a launch, each with the inspection of its matrix, given the instances by
        argument; nothing if a matrix was not inspected yet and ranks would have to exchange its elements to
        do so."""
        found: list[tuple[Reader, Inspection]] = []
        for reader in self._readers(layout, shared):
            keeper, key = _named(reader, layout, instances)
            inspection = keeper.inspected.get(key)
            if inspection is None:
                inspection = self._seen(reader, layout, instances)
                if inspection is None:
                    return []
                _keep(keeper, key, inspection)
            found.append((reader, inspection))
        return found

    def needed(self, inspection: Inspection, reader: Reader, state: Validity) -> int | None:
        """Count the rows of a dense operand in this state that the ranks of this process want and do not
        hold; None if no rank holds some row as a whole."""
        base, pitch = reader.base, reader.pitch
        held = holders(state, base, pitch)
        return None if held is None else sum([
            len(rows) for rank in self._here
            for rows in lacking(inspection.wanted[rank], state, rank, base, pitch, held).values()])

    def _readers(self, layout: Launched, shared: Share) -> tuple[Reader, ...]:
        found: tuple[Reader, ...] | None = layout.derived.get(("readers", self._ranks))
        if found is None:
            found = layout.derived["readers", self._ranks] = readers(layout, shared, self._ranks)
        return found

    def _inspection(self, reader: Reader, layout: Launched, instances: Sequence[MpiInstance]) -> Inspection:
        keeper, key = _named(reader, layout, instances)
        found: Inspection | None = keeper.inspected.get(key)
        if found is None:
            found = self._inspect(reader, layout, instances)
            _keep(keeper, key, found)
        return found

    def _seen(self, reader: Reader, layout: Launched, instances: Mapping[int, MpiInstance]
              ) -> Inspection | None:
        """Inspect a gather without messages, if every rank has all row bounds and all columns; else return
        None."""
        gather, arguments = reader.gather, layout.arguments
        looked = gather.low, gather.high, gather.along[-1]
        if not all([instances[k].state.whole for k in looked]):
            return None
        for k in looked:
            self._runtime.arrived(instances[k])
        low, high = [instances[k].array.view(arguments[k].storage[1]) for k in looked[:2]]
        columns = _elements(layout, gather.along[-1], instances[gather.along[-1]])
        bounds = tuple([reach(low[slice(*one)], high[slice(*other)], len(columns))
                        for one, other in zip(*reader.ends, strict=True)])
        wanted = {} if gather.columns < 0 else {
            rank: distinct(columns[slice(*bounds[rank])]) for rank in self._here}
        return Inspection(bounds, wanted, Bounded(MOST))

    def _inspect(self, reader: Reader, layout: Launched, instances: Sequence[MpiInstance]) -> Inspection:
        """Read each rank's row bounds, and the column numbers of the elements in those rows."""
        gather, arguments, title = reader.gather, layout.arguments, f"inspect {layout.title}"
        for k, want in zip((gather.low, gather.high), reader.boxes, strict=True):
            self._runtime.fetch(instances[k], want, title)
        low, high = [instances[k].array.view(arguments[k].storage[1]) for k in (gather.low, gather.high)]
        last = gather.along[-1]
        columns = _elements(layout, last, instances[last])
        mine = [reach(low[slice(*reader.ends[0][rank])], high[slice(*reader.ends[1][rank])], len(columns))
                for rank in self._here]
        self._runtime.ask(title)
        bounds = tuple(zip(self._told([a for a, _ in mine]), self._told([b for _, b in mine]), strict=True))
        wanted: dict[int, RowNumbers] = {}
        if gather.columns >= 0:
            self._runtime.fetch(instances[last], _parts(layout, last, bounds), title)
            wanted = {rank: distinct(columns[slice(*bounds[rank])]) for rank in self._here}
        return Inspection(bounds, wanted, Bounded(MOST))

    def _ghosts(self, inspection: Inspection, reader: Reader, state: Validity, title: str) -> Ghosts | None:
        """The plan that exchanges the rows that ranks lack; None if there is a row that no rank holds as a
        whole."""
        key = state, reader.base, reader.pitch
        if key not in inspection.plans:
            held = holders(state, reader.base, reader.pitch)
            inspection.plans[key] = None
            if held is not None:
                needs = [lacking(inspection.wanted[rank], state, rank, reader.base, reader.pitch, held)
                         for rank in self._here]
                inspection.plans[key] = self._plan(needs, reader, state, f"inspect {title}")
        return inspection.plans[key]

    def _plan(self, needs: Sequence[dict[int, RowNumbers]], reader: Reader, state: Validity,
              title: str) -> Ghosts:
        """Plan the exchange of missing rows; `needs` maps senders to rows, for each rank in this process."""
        tag, base, pitch = self._runtime.ask(title), reader.base, reader.pitch
        requests = [{sender: written(rows) for sender, rows in need.items()} for need in needs]
        self._runtime.asked(sum(message.nbytes for each in requests for message in each.values()),
                            sum(map(len, requests)))
        rows = self._told([sum(map(len, need.values())) for need in needs])
        growth = self._told([_memory(need, base, pitch) for need in needs])
        moves: list[Move] = []
        nbytes, messages = sum(rows) * pitch, sum(map(len, needs))
        if self._network is None:
            nbytes, messages = self._runtime.measure(*_schematic(needs, pitch))
        else:
            total = (int(np.prod(state.shape)) * state.itemsize - base) // pitch
            gives = _requested(self._network, requests[0], tag)
            moves = [_move(peer, sends, some, total, pitch)
                     for sends, named in ((True, gives), (False, needs[0]))
                     for peer, some in sorted(named.items())]
        return Ghosts(tuple(moves), base, nbytes, messages, tuple(growth))

    def _told(self, words: list[int]) -> list[int]:
        """Gather one word of every rank, given the words of the ranks in this process."""
        return words if self._network is None else self._network.gather(words[0])


def _keep(keeper: MpiInstance, key: tuple[Any, ...], inspection: Inspection) -> None:
    """Keep the inspection of one version of a matrix."""
    if any(before[0] != keeper.version for before in keeper.inspected):
        keeper.inspected.clear()
    while len(keeper.inspected) >= MOST:
        del keeper.inspected[next(iter(keeper.inspected))]
    keeper.inspected[key] = inspection


def _elements(layout: Launched, k: int, instance: MpiInstance) -> Any:
    """View the memory of the elements of a matrix, columns or values, that argument `k` accesses."""
    view, dtype = shown(layout.arguments[k].access), layout.arguments[k].access.store.dtype
    most = (instance.nbytes - view.offset) // ITEMSIZE[dtype]
    return instance.array[view.offset:view.offset + most * ITEMSIZE[dtype]].view(dtype)


def _named(reader: Reader, layout: Launched, instances: Sequence[MpiInstance] | Mapping[int, MpiInstance]
           ) -> tuple[MpiInstance, tuple[Any, ...]]:
    """Return the instance that keeps the inspection of a gather, and its key there."""
    gather, arguments = reader.gather, layout.arguments
    low, high, last = instances[gather.low], instances[gather.high], instances[gather.along[-1]]
    keeper = last if gather.columns >= 0 else low
    access = arguments[gather.along[-1]].access
    return keeper, (keeper.version, low, low.version, high, high.version, reader.ends,
                    arguments[gather.low].storage[1], arguments[gather.high].storage[1],
                    gather.columns >= 0, last.nbytes, shown(access).offset, access.store.dtype)


def without(layout: Launched, inspected: Sequence[tuple[Reader, Inspection]], ranks: int
            ) -> dict[int, Layout]:
    """Return what each rank reads through the arguments of gathers: its part of a matrix, and nothing of
    dense operands."""
    known: dict[int, Layout] = {}
    for reader, inspection in inspected:
        for k in reader.gather.along:
            known[k] = _parts(layout, k, inspection.bounds)
        if reader.gather.dense >= 0:
            known.setdefault(reader.gather.dense, ((),) * ranks)
    return known


def _parts(layout: Launched, k: int, bounds: Sequence[tuple[int, int]]) -> Layout:
    """For each rank, the boxes of the store with the elements that it reads through argument `k`."""
    argument = layout.arguments[k]
    view, item = shown(argument.access), ITEMSIZE[argument.access.store.dtype]
    shape, dtype = argument.storage
    return tuple([spread(view.offset + low * item, view.offset + high * item, shape, ITEMSIZE[dtype])
                  if low < high else () for low, high in bounds])


def _requested(network: Network, requests: dict[int, RowNumbers], tag: int) -> dict[int, RowNumbers]:
    """Send the other ranks the row numbers requested of them; returns those that they request of this one."""
    sizes = network.swap([requests[rank].nbytes if rank in requests else 0 for rank in range(network.ranks)])
    messages = {peer: np.empty(nbytes // 8, np.int64) for peer, nbytes in enumerate(sizes) if nbytes}
    network.exchange([(peer, message.view(np.uint8)) for peer, message in sorted(requests.items())],
                     [(peer, message.view(np.uint8)) for peer, message in messages.items()], tag)
    return {peer: read(message) for peer, message in messages.items()}


def _move(peer: int, sends: bool, rows: RowNumbers, total: int, pitch: int) -> Move:
    """The message with these rows; rows that are contiguous in memory need no packing."""
    low, high = int(rows[0]), int(rows[-1]) + 1
    region = (low * pitch, high * pitch) if high - low == len(rows) else (rows,)
    return Move(0, peer, sends, (total,), pitch, region, len(rows) * pitch)


def _schematic(needs: Sequence[dict[int, RowNumbers]], pitch: int) -> tuple[Layout, Layout]:
    """The layouts that ranks have and want, in one dimension: each box has the bytes of a message."""
    have: list[list[Box]] = [[] for _ in needs]
    want: list[list[Box]] = [[] for _ in needs]
    at = 0
    for wanted, need in zip(want, needs, strict=True):
        for sender, rows in need.items():
            box = (range(at, at + len(rows) * pitch),)
            have[sender].append(box)
            wanted.append(box)
            at = box[0].stop
    return tuple(map(tuple, have)), tuple(map(tuple, want))


def _memory(need: dict[int, RowNumbers], base: int, pitch: int) -> int:
    """Bytes of the pages that hold these rows."""
    rows = np.concatenate([np.zeros(0, np.int64), *need.values()])
    return max(len(np.unique((base + rows * pitch) // PAGE)) * PAGE, len(rows) * pitch)

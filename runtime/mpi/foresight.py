"""Predicts where stores lie, and what moves between ranks, for launches that are not submitted.

States advance by the rules of steps.py, as on ranks that run the launches.  Elements that a sparse matrix
refers to are counted where the matrix has been inspected, or where every rank has all of it and can look for
itself; the ghosts of all ranks together are a sum over the ranks, so that all of them have to look ahead
alike.  Nothing moves, and no instance changes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from diffuse.bounded import Bounded
from diffuse.ir import ITEMSIZE, Frame
from diffuse.movement.boxes import Layout as Boxes
from diffuse.movement.boxes import volume
from diffuse.movement.direct import exchange
from diffuse.runtime.base import Layout, Moved
from diffuse.runtime.mpi.collected import replicated
from diffuse.runtime.mpi.derived import MOST_STEPS
from diffuse.runtime.mpi.gathers import Reader
from diffuse.runtime.mpi.inspector import Inspection, Inspector, without
from diffuse.runtime.mpi.instances import MpiInstance
from diffuse.runtime.mpi.parts import cheapest
from diffuse.runtime.mpi.shares import Share, share, together
from diffuse.runtime.mpi.steps import LaunchStep, arriving_in_rounds, fetched, step
from diffuse.runtime.mpi.validity import Validity, all_of, fresh

Places = tuple[tuple[Inspector, Mapping[int, MpiInstance]], ...]
"""The inspector of each rank of this process, and the rank's instances by store."""


class Transfer(NamedTuple):
    """The elements that ranks send and receive in one exchange, and the pairs of ranks that communicate."""

    sent: tuple[int, ...]
    received: tuple[int, ...]
    pairs: frozenset[tuple[int, int]]
    """Senders and receivers."""


def transfer(have: Boxes, want: Boxes) -> Transfer:
    """Return the traffic of the direct exchange between two distributions."""
    sent, received = [0] * len(have), [0] * len(have)
    pairs = set()
    for receiver, pieces in enumerate(exchange(have, want).arrivals):
        for sender, box in pieces:
            sent[sender] += volume(box)
            received[receiver] += volume(box)
            pairs.add((sender, receiver))
    return Transfer(tuple(sent), tuple(received), frozenset(pairs))


class Foresight:
    """The states of stores while launches are foreseen, one after another."""

    def __init__(self, ranks: int, places: Places, add: Callable[[int], int], frames: Mapping[int, Frame],
                 watched: Collection[int]) -> None:
        self.ranks, self._places, self._add, self._frames = ranks, places, add, frames
        self._states: dict[int, Validity] = {}
        self._ghosts: dict[int, set[object]] = {}
        """The exchanges of ghosts of each store since it was last written."""
        self._written: set[int] = set()
        """Stores that foreseen launches have written: their instances do not have these elements."""
        self._watched = watched
        """Stores that outside code may write to at any time."""
        self._needs: dict[object, int] = {}

    def state(self, store: int) -> Validity:
        """Return the ranks that would hold the elements of a store."""
        found = self._states.get(store)
        if found is None:
            instance = self._places[0][1].get(store)
            shape, dtype = self._frames[store]
            found = self._states[store] = (fresh(shape, ITEMSIZE[dtype], self.ranks) if instance is None
                                           else instance.state)
        return found

    def turn(self, returning: Collection[tuple[int, int]], new: Collection[int]) -> None:
        """Begin another turn of a loop: the second store of each pair takes over the state of the first one,
        and new stores have none."""
        passed = [(begin, self.state(last), self._ghosts.get(last, set())) for last, begin in returning]
        for store in new:
            self._states.pop(store, None)
            self._ghosts.pop(store, None)
        for begin, state, ghosts in passed:
            self._states[begin], self._ghosts[begin] = state, ghosts
            self._written.add(begin)

    def launch(self, layout: Layout, stores: Sequence[int]) -> Moved:
        """Advance by a launch on these stores, and return its traffic."""
        known, ghosts = self._inspected(layout, self._shared(layout, "launch", share), stores)
        return _joined([self._step(known, stores), *ghosts])

    def parts(self, layouts: Sequence[Layout], stores: Sequence[int]) -> tuple[int, Moved]:
        """Advance by a host function on parts; return the number of the layout that it is called by, and its
        traffic."""
        number = cheapest(layouts, [self.state(store) for store in stores], self.ranks)
        return number, self._step(self._shared(layouts[number], "launch", share), stores)

    def together(self, layout: Layout, stores: Sequence[int]) -> Moved:
        """Advance by a host function that all ranks call together; return the traffic before it, without the
        messages that the function itself exchanges."""
        shared = self._shared(layout, "together", lambda *some: together(layout.domain, share(*some)))
        return self._step(shared, stores)

    def whole(self, stores: Sequence[int]) -> Moved:
        """Gather these stores on every rank, as before a host function that runs on whole stores; return the
        traffic."""
        moved = []
        for store in dict.fromkeys(stores):
            state = self.state(store)
            if not state.whole:
                want = (all_of(state.shape),) * self.ranks
                rounds = replicated(0, state, want)
                parts = (arriving_in_rounds(rounds, transfer) if rounds
                         else (fetched(state, want, transfer)[0],))
                moved += [_moved([(state.itemsize, part)]) for part in parts]
                self._states[store] = state.received(want)
        return _joined(moved)

    def wrote(self, stores: Collection[int]) -> None:
        """Note that a host function wrote these stores."""
        for store in stores:
            self._ghosts.pop(store, None)
            self._written.add(store)

    def _shared(self, layout: Layout, way: str, divided: Callable[[Layout, int], Share]) -> Known:
        key = "foreseen", way, self.ranks
        found: Known | None = layout.derived.get(key)
        if found is None:
            found = layout.derived[key] = Known(divided(layout, self.ranks), Bounded(MOST_STEPS))
        return found

    def _step(self, known: Known, stores: Sequence[int]) -> Moved:
        """Advance by one step, and return its traffic."""
        states = tuple([self.state(stores[use.place]) for use in known.share.uses])
        found = known.steps.get(states)
        if found is None:
            made = step(known.share, states, self.ranks, transfer)
            found = known.steps[states] = _of_step(made, states, known.share), made.after
        for use, state in zip(known.share.uses, found[1], strict=True):
            self._states[stores[use.place]] = state
            if use.every_write or use.late_writes:
                self.wrote((stores[use.place],))
        return found[0]

    # -- gathers -------------------------------------------------------------------------------------------

    def _inspected(self, layout: Layout, known: Known, stores: Sequence[int]) -> tuple[Known, list[Moved]]:
        """Return the launch with the elements that its gathers read, if they were inspected, and the traffic
        of the exchanges of ghosts."""
        gathers = [k for gather in layout.gathers for k in (gather.low, gather.high, *gather.along)]
        if not gathers or not self._written.isdisjoint([stores[k] for k in gathers]):
            return known, []
        looked = [k for gather in layout.gathers for k in (gather.low, gather.high, *gather.along[1:])]
        if any([stores[k] not in self._places[0][1] for k in gathers]) or any([
                stores[k] in self._watched for k in looked]):
            return known, []
        every = [inspector.recalled(layout, known.share, {k: instances[stores[k]] for k in gathers})
                 for inspector, instances in self._places]
        found = every[0]
        if not [k for reader, _ in found for k in (*reader.gather.along, reader.gather.dense)
                if k >= 0 and not self.state(stores[k]).whole]:
            return known, []
        ghosts = []
        for number, (reader, _) in enumerate(found):
            dense = reader.gather.dense
            if dense >= 0 and not self.state(stores[dense]).whole:
                moved = self._exchanged(reader, [each[number][1] for each in every], stores[dense])
                if moved is None:
                    return known, []
                ghosts.append(moved)
        made = layout.derived.setdefault(("foreseen gathers", self.ranks), Bounded(MOST_STEPS))
        key = tuple([inspection for _, inspection in found])
        if key not in made:
            made[key] = Known(share(layout, self.ranks, without(layout, found, self.ranks)),
                              Bounded(MOST_STEPS))
        return made[key], ghosts

    def _exchanged(self, reader: Reader, inspections: Sequence[Inspection], store: int) -> Moved | None:
        """Return the traffic of an exchange of ghosts; None if no rank has some row as a whole."""
        state = self.state(store)
        name = inspections[0], state.have, reader.base, reader.pitch
        rows = self._needs.get(name)
        if rows is None:
            mine = [inspector.needed(inspection, reader, state) for (inspector, _), inspection
                    in zip(self._places, inspections, strict=True)]
            if None in mine:
                return None
            rows = self._needs[name] = self._add(sum([n for n in mine if n is not None]))
        if name in self._ghosts.setdefault(store, set()):
            return Moved(0, 0.0, 0)
        self._ghosts[store].add(name)
        moved = rows * reader.pitch
        return Moved(moved, moved / self.ranks, min(2, self.ranks - 1) if moved else 0)


class Known(NamedTuple):
    """A launch divided among the ranks; by the states before a step, its traffic and the states after it."""

    share: Share
    steps: dict[tuple[Validity, ...], tuple[Moved, tuple[Validity, ...]]]


def _of_step(found: LaunchStep, states: Sequence[Validity], shared: Share) -> Moved:
    """Return the traffic of a step that was made with `transfer`."""
    sizes = {use.place: state.itemsize for use, state in zip(shared.uses, states, strict=True)}
    exchanges: list[list[tuple[int, Any]]] = [
        [(sizes[place], each) for place, each in found.before],
        *[[(whole.itemsize, each)] for whole, some in found.early for each in some],
        [(1, each) for _, each in found.partials],
        *[[(1, each) for _, each in some] for some in found.rounds],
        [(sizes[place], each) for place, each in found.late]]
    return _joined([_moved([part for part in some if isinstance(part[1], Transfer)]) for some in exchanges])


def _moved(parts: Sequence[tuple[int, Transfer]]) -> Moved:
    """Return the traffic of one exchange, given the bytes of an element and the transfer of each part."""
    if not parts:
        return Moved(0, 0.0, 0)
    ranks = range(len(parts[0][1].sent))
    sent = [sum([item * part.sent[rank] for item, part in parts]) for rank in ranks]
    received = [sum([item * part.received[rank] for item, part in parts]) for rank in ranks]
    pairs = {pair for _, part in parts for pair in part.pairs}
    messages = [sum([pair[side] == rank for pair in pairs]) for side in (0, 1) for rank in ranks]
    return Moved(sum(sent), float(max(*sent, *received)), max(messages))


def _joined(moved: Sequence[Moved]) -> Moved:
    """Return the total traffic of exchanges that follow one another."""
    return Moved(sum([each.bytes for each in moved]), sum([each.busiest for each in moved]),
                 sum([each.messages for each in moved]))

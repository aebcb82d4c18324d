"""Arrays that Legate lacks memory to move: they lie in memory of each rank, and the runtime mpi moves parts.

Where a task accesses a store in other boxes than the last one did, Legate makes a second instance of it, and
ends the program if there is no memory for that.  So where arrays take much of the memory, launches run here,
by the runtime mpi: its messages go over Legate's MPI, and it raises MemoryError on all ranks alike.  So do
host functions on parts of arrays.  An array moves here with the first launch or call that needs it, and stays
until a launch uses it that does not run here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from diffuse.ir import ITEMSIZE, Point
from diffuse.memory import address
from diffuse.movement.boxes import Layout as Boxes
from diffuse.observe import trace
from diffuse.runtime.base import Launch, Layout
from diffuse.runtime.legate import message, prepare
from diffuse.runtime.legate.instances import LegateInstance
from diffuse.runtime.legate.placement import COPIED
from diffuse.runtime.legate.requirements import Need, shared
from diffuse.runtime.mpi.instances import MpiInstance
from diffuse.runtime.mpi.runtime import Mpi

if TYPE_CHECKING:
    from diffuse.runtime.legate.runtime import Legate


class Apart(Mpi):
    """The runtime mpi beside Legate, on the same ranks."""

    setting = "DIFFUSE_LEGATE_MEMORY (or --memory)"

    def __init__(self, runtime: Legate) -> None:
        self._legate, self._place = runtime, runtime.placement
        self.ranks, self.rank = runtime.ranks, runtime.rank
        network: Any = self._place.network  # with all that launches need of the other one
        self.network, self.agreement = network, self._place.agreement
        self.threads = runtime.points // runtime.ranks
        self._begin(self.threads, prepare.memory_given())
        self._traffic = None
        self._given = self._most

    @property
    def held(self) -> int:
        """The bytes of all arrays that lie here."""
        return self._held

    def launch(self, launch: Launch) -> None:
        """Run a launch on arrays that move here."""
        owners: Any = launch.instances
        watched: Any = launch.watched
        instances = tuple(self.taken(owners))
        watched = tuple([owner.apart for owner in watched])
        super().launch(launch._replace(instances=instances, watched=watched))
        self._place.launched += 1
        trace.count("beside Legate")

    def taken(self, instances: Sequence[LegateInstance]) -> list[MpiInstance]:
        """Move arrays here, and return their memory."""
        self._most = self._given - self._place.occupied
        return [owner.apart or self._take(owner) for owner in instances]

    def _take(self, owner: LegateInstance) -> MpiInstance:
        if owner.lent > self._place.fenced:  # tasks of Legate's read the host's copy
            self._legate.fence()
        stale = owner.filled and not owner.fresh
        parted = stale and moves_in_parts(owner)
        if stale and not parted:
            self._legate.host(owner, False)
        if owner.memory is None:
            made = self.create(owner.nbytes, owner.store)
        else:  # the host may look at it
            made = self.attach(owner.memory[:owner.nbytes], owner.store)
        if parted:
            try:
                self._get_parts(owner, made)
            except MemoryError:
                self.release(made)
                raise
        self._place.forget(owner)
        owner.home = owner.fresh = owner.filled = owner.written = False
        owner.apart = made
        owner.changed()
        return made

    def _get_parts(self, owner: LegateInstance, made: MpiInstance) -> None:
        """Copy each rank's part of Legate's store to the memory of the rank."""
        need, parts = self._parts(owner)
        self._tell(_moving(owner))
        after = made.state.written(parts)
        self._afford([b - a for a, b in zip(made.state.bytes, after.bytes, strict=True)],
                     f"parts of an array of shape {owner.shape}")
        self._copy(message.GET, owner, need, made)
        self._legate.fence()
        made.state, made.home = after, after.have

    def give_back(self, owner: LegateInstance) -> None:
        """Move an array to Legate's store."""
        made = owner.apart
        assert made is not None
        if not moves_in_parts(owner):
            owner.memory = self.host(made, False)
            owner.home = owner.fresh = True
        else:
            need, parts = self._parts(owner)
            self._tell(_moving(owner))
            self._get(made, parts)
            self._pool.wait(made.used)
            owner.memory = made.array if made.seen else None
            self._place.store(owner)
            self._copy(message.PUT, owner, need, made)
            owner.filled = owner.written = True
            self._place.lent.append(made.array)
        owner.apart = None
        owner.changed()
        self.release(made)

    def _copy(self, order: int, owner: LegateInstance, need: Need, made: MpiInstance) -> None:
        """Submit a copy of each point's tile between Legate's store and the memory of its rank."""
        place, spread = self._place, (self._legate.processors,)
        part, projection = place.part(owner, need, spread)
        task = place.task(spread)
        (task.add_input if order == message.GET else task.add_output)(part, projection)
        place.send(task, message.moving(order, 0, owner.shape, ITEMSIZE[owner.dtype], need.low,
                                        address(made.array)))

    def _parts(self, owner: LegateInstance) -> tuple[Need, Boxes]:
        """Return the parts of a store on Legate's processors, and the same as boxes of the ranks."""
        shape: Point = owner.shape
        processors = self._legate.processors
        d = 0 if shape[0] >= processors else shape.index(max(shape))
        tile = -(-shape[d] // processors)
        each = tile * (processors // self.ranks)
        ends = [min(rank * each, shape[d]) for rank in range(self.ranks + 1)]
        whole = tuple(map(range, shape))
        parts = [((*whole[:d], range(low, high), *whole[d + 1:]),) if high > low else ()
                 for low, high in zip(ends, ends[1:])]
        return shared(shape, ((d, 0, tile),)), tuple(parts)

    def _announce(self, form: bytes, layout: Layout, instances: Sequence[Any], packed: bytes) -> None:
        """Compare ranks before each launch: they could not find out while they wait for messages here."""
        super()._announce(form, layout, instances, packed)
        self._tell(layout.title)

    def _tell(self, event: str, content: bytes = b"") -> None:
        if self.agreement is not None:
            self.agreement.meet(event)

    def raised(self) -> int:
        """Wait for what was launched, and return the floating-point exceptions that no other rank knows of
        yet."""
        self._pool.fence()
        return self._raised()

    def host(self, instance: Any, write: bool) -> NDArray[np.uint8]:
        self._most = self._given - self._place.occupied
        return super().host(instance, write)

    def fence(self) -> None:
        self._legate.fence()


def moves_in_parts(owner: LegateInstance) -> bool:
    """Do ranks copy their parts of a store between Legate and their memory?  Else they copy all of it, where
    it is small or Legate has it under another shape."""
    return owner.nbytes > COPIED and owner.shape == owner.store.shape


def _moving(owner: LegateInstance) -> str:
    """Describe, for the comparison of ranks, that an array moves between Legate's store and their memory."""
    return f"moving parts of an array of shape {owner.shape}, {owner.dtype}"

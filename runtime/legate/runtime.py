"""The legate runtime: launches become tasks of Legate, over stores that Legate places and moves.

A process with one rank and one Legate processor is *alone*: launches are queued on Diffuse's thread pool
while the program records on.  Legate only tells where a store lies, once per store, or, for stores that
other libraries share, in an inline task at each launch.  Otherwise a launch is an index launch over all
Legate processors of all ranks, each of which runs its share of the points; every rank runs the same program
and submits the same launches.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import nullcontext
from math import prod
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from diffuse.ir import ITEMSIZE, Store
from diffuse.memory import address
from diffuse.observe import trace
from diffuse.runtime import machine
from diffuse.runtime.base import CodeUse, Fate, Instance, Launch, Layout
from diffuse.runtime.legate import message, orders
from diffuse.runtime.legate.borders import Borders
from diffuse.runtime.legate.calls import Calls
from diffuse.runtime.legate.ghosts import Divided, Exchanges
from diffuse.runtime.legate.instances import LegateInstance
from diffuse.runtime.legate.orders import Orders, Prepared
from diffuse.runtime.legate.placement import COPIED, Placement
from diffuse.runtime.legate.requirements import Need, shared
from diffuse.runtime.legate.sharing import LegateSharing
from diffuse.runtime.local.pool import Pool
from diffuse.runtime.ranks import process
from diffuse.runtime.ranks.interpret import interpret
from diffuse.runtime.reference import HostInstance, attached

MOST_LENT = 4096
"""Host copies of dropped instances that queued launches may read; with more the runtime waits."""
NOTHING = nullcontext()


class Legate(Calls):
    """Launches as tasks of Legate."""

    name = "legate"
    addressed = host_sees = False
    completes = True
    """True for processors; for grid kernels, the groups' results are combined afterwards."""
    blocks = 0
    code = CodeUse.NEEDED
    target = "host"
    """Or the architecture of Legate's GPUs; launches without grid kernels then run on processors."""

    def __init__(self, points: int | None = None) -> None:
        self.placement = place = Placement()
        self.threads = place.threads() if points is None else max(1, points // place.processors)
        """Points of the launch domain that one Legate point runs."""
        self.points = place.processors * self.threads
        if place.devices is not None:
            self.threads, self.points = 1, place.devices.number
            self.target = place.devices.target
            self.completes = False
        if self.threads > 1 or place.alone:
            spin = 200.0 if self.threads <= machine.processors() else 10.0
            place.pool = Pool(self.threads - 1, spin=spin)
            place.code.pool(place.pool)
        if place.ranks > 1:
            process.settle_in(place.rank, place.ranks)
            place.share(place.processors // place.ranks * self.threads)
        self.rank, self.ranks = place.rank, place.ranks
        self.processors, self.alone = place.processors, place.alone
        self.splits = place.ranks > 1 and place.devices is None
        self.sharing = LegateSharing(self)
        self._exchanges, self._borders = Exchanges(self), Borders(place)
        self._profiled = "--profile" in os.environ.get("LEGATE_CONFIG", "").split()
        self._owed: list[LegateInstance] = []
        """Shared instances whose host copy is being written: it is copied to the store right after."""
        self._noted = 0
        """Floating-point exceptions of interpreted launches."""

    @property
    def pipelines(self) -> bool:
        """Alone, a launch sees whole stores and has the thread pool to itself; on several ranks points
        exchange border rows (passes.py)."""
        return self.alone or self.splits

    def passes(self, layout: Layout) -> bool:
        return self.alone or self._prepared(layout, prod(layout.domain)) is not None

    def _prepared(self, layout: Layout, points: int) -> Prepared | None:
        """What all launches of a layout share; None for a pass that cannot be cut."""
        if points not in layout.derived:
            layout.derived[points] = orders.derived(layout, self.threads, self.alone, self.splits)
        found: Prepared | None = layout.derived[points]
        return found

    # -- stores --------------------------------------------------------------------------------------------

    def scratch(self, nbytes: int) -> HostInstance:
        return HostInstance(np.empty(nbytes, np.uint8))  # not for a task of Legate's, which has its own

    def create(self, nbytes: int, store: Store | None = None) -> LegateInstance:
        return LegateInstance(store or Store(-1, (nbytes,), "uint8"))

    def zeroed(self, nbytes: int, store: Store | None = None) -> LegateInstance | None:
        return None

    def attach(self, array: NDArray[Any], store: Store | None = None) -> LegateInstance:
        memory = attached(array)
        return LegateInstance(store or Store(-1, memory.shape, "uint8"), memory)

    def release(self, instance: Instance) -> None:
        if isinstance(instance, LegateInstance):
            self.placement.drop(instance)
            self.freed(instance)

    def host(self, instance: Instance, write: bool) -> NDArray[np.uint8]:
        if not isinstance(instance, LegateInstance):
            raise TypeError(f"{instance!r} is no instance of this runtime")
        if self.brought(instance):
            return self.apart.host(instance.apart, write)
        stale = instance.shared or not instance.fresh
        if instance.lent > self.placement.fenced and (write or stale):
            self.fence()
        if instance.memory is None:
            instance.memory = np.empty(instance.nbytes, np.uint8)
        if stale:
            if instance.filled and instance.nbytes:
                if self.placement.devices is not None:
                    trace.counters["downloads"] += 1
                self.placement.check_thread()
                self.placement.move(message.GET, instance)
                self.fence()
            instance.fresh = True
        if write and instance.shared:
            self._owed.append(instance)
        elif write:
            instance.home, instance.filled = True, False
            instance.changed()
        return instance.memory

    # -- launches ------------------------------------------------------------------------------------------

    def launch(self, launch: Launch) -> None:
        place, layout, instances = self.placement, launch.layout, launch.instances
        place.check_thread()
        place.sweep()
        if len(place.lent) > MOST_LENT:
            self.fence()
        assert layout is not None
        if launch.kernel.native is None:
            self._interpret(launch)
            return
        prepared = self._prepared(layout, launch.points)
        assert prepared is not None
        if self.runs_apart(cast(Any, instances), prepared.replicated):
            self.apart.launch(launch)
            return
        process.tick()
        if place.alone and self._run_directly(launch, prepared):
            return
        divided = self._divided(launch, prepared)
        if divided is not None:
            prepared = divided.prepared
        owners: list[Any] = [instances[k] for k in prepared.slots]
        needs = prepared.cut.needs
        grid = orders.on_grid(launch.kernel.native)
        # inputs are read from the host's copies where these are valid, or small and up to date
        edges = {edge.need for edge in prepared.border.edges} if prepared.border is not None else ()
        hosted = tuple([not need.writes and k not in edges
                        and (not owner.nbytes or not grid and (owner.home or owner.handy))
                        for k, (need, owner) in enumerate(zip(needs, owners, strict=True))])
        key = hosted if divided is None else (hosted, divided.received)
        found = prepared.messages.get(key)
        if found is None:
            found = prepared.messages[key] = orders.orders(
                launch, prepared, hosted, not place.alone, place.devices, divided.received if divided else ())
        block = launch.kernel.pack(launch.values)
        if place.agreement is not None:  # before Legate makes stores or partitions for the launch
            place.agreement.launch(prepared.form, prepared.layout.title, launch.instances,
                                   block[8 * layout.header:] + bytes(hosted))
        watched = self._send_home(launch, needs, owners) if grid else ()
        if place.devices is not None and not grid:
            trace.counters["on the host"] += 1
        with self._named(layout):
            if place.alone:
                self._run_alone(launch, found.running, block, needs, owners, hosted)
            else:
                self._run(launch, prepared, found, block, owners, hosted, divided)
        for owner in watched:
            if owner.fresh:  # the launch did not write it
                owner.home, owner.filled = True, False

    def _run_directly(self, launch: Launch, prepared: Prepared) -> bool:
        """Alone: queue the launch on the thread pool.  False if a task of Legate has to find a store."""
        place, layout, native = self.placement, launch.layout, launch.kernel.native
        assert layout is not None and place.pool is not None and native is not None
        instances: Any = launch.instances
        block = memoryview(bytearray(launch.kernel.pack(launch.values))).cast("q")
        for k, need, writes, words in prepared.direct:
            owner: LegateInstance = instances[k]
            if not writes and (owner.home or not owner.nbytes):
                address = place.lend(owner)
            else:
                piece = owner.piece if owner.filled else None
                if not (address := piece and piece.address or place.address(owner, need)):
                    return False
            for word in words:
                block[word] += address
        place.launched += 1
        finish = native.finish if launch.points > 1 else 0
        scratch = _scratch(layout, block) if layout.scratch else ()
        place.pool.submit(native.address, finish, launch.points, bytes(block), (native, launch.keep, scratch))
        for k, _, writes, _ in prepared.direct:
            if writes:
                instances[k].wrote()
        return True

    def _run_alone(self, launch: Launch, words: message.Message, packed: bytes, needs: Sequence[Need],
                   owners: Sequence[LegateInstance], hosted: Sequence[bool]) -> None:
        """Alone: queue the launch on the thread pool from an inline task."""
        place, layout, native = self.placement, launch.layout, launch.kernel.native
        assert layout is not None and place.pool is not None and native is not None
        task = place.task((1,))
        pointers, keep = [], [native, *launch.keep]
        for need, owner, at_home in zip(needs, owners, hosted, strict=True):
            if at_home:
                pointers.append(place.lend(owner))
                continue
            store = place.ready(owner, need)
            if need.reads:
                task.add_input(store)
            if need.writes:
                task.add_output(store)
            keep.append(store)
        block = memoryview(bytearray(packed)).cast("q")
        keep += _scratch(layout, block)
        finish = native.finish if launch.points > 1 else 0
        place.send(task, words.pack(native.address, finish, True, pointers, bytes(block)))
        place.pool.keep(keep)
        _all_written(needs, owners)

    def _send_home(self, launch: Launch, needs: Sequence[Need], owners: Sequence[LegateInstance]
                   ) -> list[LegateInstance]:
        """Move the data that grid kernels read to Legate's stores, as GPUs do not see the host's copies.
        Returns the instances whose copies the host may write to at any time, which stay the valid ones."""
        watched = []
        for need, owner in zip(needs, owners, strict=True):
            if owner.home and need.reads and owner.nbytes:
                trace.counters["uploads"] += 1
                self.placement.ready(owner, need)
                owner.home = False
                if owner in launch.watched:
                    watched.append(owner)
        return watched

    def _divided(self, launch: Launch, prepared: Prepared) -> Divided | None:
        """A launch of sparse products whose dense operands are divided among its points; None if one has to
        be replicated, or there is none."""
        if not self.splits or not prepared.cut.several or launch.layout is None or not launch.layout.gathers:
            return None
        instances: Any = launch.instances
        return self._exchanges.find(launch.layout, launch.points, self.threads, instances, launch.watched)

    def _run(self, launch: Launch, prepared: Prepared, told: Orders, block: bytes,
             owners: Sequence[LegateInstance], hosted: Sequence[bool], divided: Divided | None) -> None:
        """Submit an index launch with the points of the cut, and a task for `finish`."""
        place, cut, instances = self.placement, prepared.cut, cast(Any, launch.instances)
        assert launch.layout is not None
        place.afford(prepared.replicated, prepared.layout.title)
        if divided is not None:
            self._exchanges.bring(divided, instances)
        border = prepared.border
        cells = self._borders.bring(border, cut, owners, prepared.layout.title) if border is not None else ()
        task = place.task(cut.spread, bool(told.launcher))
        pointers = []
        if prepared.replicated >= COPIED:
            for need, owner in zip(cut.needs, owners, strict=True):
                place.copied(owner, need.whole * ITEMSIZE[owner.dtype])
        for need, owner, at_home in zip(cut.needs, owners, hosted, strict=True):
            if at_home:
                pointers.append(place.lend(owner, need))
                continue
            if owner.piece is None or not owner.filled:
                place.ready(owner, need)
            part, projection = place.part(owner, need, cut.spread)
            if need.reads:
                task.add_input(part, projection)
            if need.writes:
                task.add_output(part, projection)
        for ghosts in divided.exchanges if divided is not None else ():
            task.add_input(*place.part(ghosts.store, ghosts.received, cut.spread))
            pointers.append(address(ghosts.table))
        for edge, each in zip(border.edges if border is not None else (), cells, strict=True):
            task.add_input(*place.part(each.now, each.received, cut.spread))
            if edge.writes:
                task.add_output(*place.part(each.next, each.sent, cut.spread))
        partials = self._partials(task, prepared) if cut.several and prepared.layout.scratch else []
        finish = launch.points > 1 and not cut.several or border is not None
        turn = place.launched + 1 if prod(cut.spread) >= self.processors else 0
        place.send(task, told.pack(told.running, launch.kernel.native, finish, pointers, block, turn))
        _all_written(cut.needs, owners)
        if border is not None:
            self._borders.passed(border, owners, cells)
        if told.folding is not None:
            self._fold(launch, prepared, told, partials, block)

    def _partials(self, task: Any, prepared: Prepared) -> list[LegateInstance]:
        """Make stores for the partial results of a launch; each Legate point writes a tile of them."""
        place, cut, found = self.placement, prepared.cut, []
        for plane in [plane for piece in prepared.layout.scratch for plane in piece.planes]:
            owner = LegateInstance(Store(-1, plane.shape, "uint8"))
            place.store(owner)
            need = shared(plane.shape, cut.tiles(plane.tiles))
            task.add_output(*place.part(owner, need, cut.spread))
            found.append(owner)
        return found

    def _fold(self, launch: Launch, prepared: Prepared, told: Orders, partials: Sequence[LegateInstance],
              block: bytes) -> None:
        """Submit the task that combines the partial results in one fixed tree, whatever the number of
        points."""
        place = self.placement
        assert told.folding is not None
        task = place.task((1,), bool(told.launcher))
        owners: list[Any] = [launch.instances[k] for k in prepared.results]
        for need, owner in zip(prepared.cut.results, owners, strict=True):
            place.ready(owner, need)
            part, _ = place.part(owner, need, (1,))
            if need.reads:
                task.add_input(part)
            if need.writes:
                task.add_output(part)
        for partial in partials:
            task.add_input(place.store(partial))
        place.send(task, told.pack(told.folding, launch.kernel.native, True, (), block))
        _all_written(prepared.cut.results, owners)
        for partial in partials:
            self.release(partial)

    def _named(self, layout: Layout) -> Any:
        """Name tasks by their operations and source lines in Legate's profiles."""
        return self.placement.core.Scope(provenance=layout.title) if self._profiled else NOTHING

    def _interpret(self, launch: Launch) -> None:
        """Interpret a launch whose kernel has no machine code, over the host's copies, on every rank."""
        assert launch.layout is not None
        if self.placement.agreement is not None:
            self.placement.agreement.event(f"{launch.layout.title}, interpreted",
                                           repr(launch.values).encode())
        self.fence()
        interpret(launch, self.host, self._note)
        self._pay()

    # -- waiting -------------------------------------------------------------------------------------------

    def fence(self) -> None:
        place = self.placement
        place.check_thread()
        if place.launched != place.fenced:
            place.noted |= self.raised()
            place.wait()
        place.lent.clear()
        place.sweep()
        complaint = place.complaint()
        if complaint is not None:
            raise RuntimeError(f"a task of Legate's failed: {complaint}")

    def mark(self) -> int:
        return 0

    def fate(self, mark: int) -> Fate:
        return Fate.LOST

    def _note(self, kind: str, flag: int) -> None:
        self._noted |= flag

    def flags(self) -> int:
        seen, self._noted = self.placement.flags() | self._noted, 0
        return seen


def _scratch(layout: Layout, block: memoryview) -> list[NDArray[np.uint8]]:
    """Allocate a launch's scratch memory and write its addresses to the launch's block."""
    found = []
    for piece in layout.scratch:
        found.append(np.empty(max(piece.nbytes, 8), np.uint8))
        block[piece.word] = address(found[-1])
    return found


def _all_written(needs: Sequence[Need], owners: Sequence[LegateInstance]) -> None:
    for need, owner in zip(needs, owners, strict=True):
        if need.writes:
            owner.wrote()

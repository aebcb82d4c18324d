"""The mpi runtime: each rank runs its share of the points of a launch, on its threads, over its parts.

Every rank runs the same program and submits the same launches.  Before its points run, a rank receives what
it lacks from ranks that hold it: all ranks know who holds what (validity.py), and so send and receive without
requests (steps.py).  A launch is then queued on the thread pool; the program waits for the pool only where
messages need what is queued.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from struct import Struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffuse.bounded import Bounded
from diffuse.ir import Frame, Store
from diffuse.runtime import machine
from diffuse.runtime.base import Instance, Launch, Layout
from diffuse.runtime.kernel import MachineCode
from diffuse.runtime.local.allocator import Allocator, Lease
from diffuse.runtime.local.pool import Pool
from diffuse.runtime.mpi import prepare, traffic
from diffuse.runtime.mpi.answers import Answers
from diffuse.runtime.mpi.calls import Calls
from diffuse.runtime.mpi.collected import Collected
from diffuse.runtime.mpi.derived import MOST_STEPS, Counts, Mine, Prepared, addressed
from diffuse.runtime.mpi.doubt import Doubt
from diffuse.runtime.mpi.exchanges import Exchanges
from diffuse.runtime.mpi.foresight import Foresight
from diffuse.runtime.mpi.inspector import Inspector
from diffuse.runtime.mpi.instances import MpiInstance, Reserved
from diffuse.runtime.mpi.moves import Move, collecting, in_rounds, moves
from diffuse.runtime.mpi.network import Network
from diffuse.runtime.mpi.parts import shared_out
from diffuse.runtime.mpi.reads import Reads
from diffuse.runtime.mpi.shares import Share
from diffuse.runtime.mpi.steps import LaunchStep, step
from diffuse.runtime.mpi.validity import Validity
from diffuse.runtime.ranks import launcher, process
from diffuse.runtime.ranks.activity import Activity
from diffuse.runtime.ranks.agreement import Agreement, form
from diffuse.runtime.ranks.alike import alike
from diffuse.runtime.ranks.interpret import interpret
from diffuse.runtime.ranks.watchdog import watch
from diffuse.runtime.reference import attached
from diffuse.settings import config

KEPT = 64 << 20
"""Bytes of freed stores that are kept for reuse, besides a quarter of what is in use."""
BOUNDS = Struct("<2q")
"""A rank's first point and its number of points, at the beginning of a block with a header."""


class Mpi(Answers, Exchanges, Reads, Calls):
    """Launches on the ranks of MPI."""

    def __init__(self, points: int | None = None) -> None:
        if said := prepare.refusal():
            raise RuntimeError(said)
        self.ranks, self.rank = launcher.ranks(), 0
        self.network: Network | None = None
        self.agreement: Agreement | None = None
        threads, memory = _threads(), prepare.memory()
        if self.ranks > 1:
            self.network = network = Network()
            self.rank = network.rank
            process.settle_in(self.rank, self.ranks)
            alike(network.gather)
            threads, memory = min(network.gather(threads)), min(network.gather(memory))
            self.agreement = Agreement(self.rank, network.gather, config.digest)
            Doubt(network, self.agreement)
            watch(self.rank, self.ranks, network.gather,
                  Activity(self.rank, self.agreement.progress, lambda: network.since, time.process_time))
        self.threads = threads if points is None else max(1, points // self.ranks)
        self._begin(self.threads, memory)
        if self.network is not None:
            self.network.raised = self._raised

    def _begin(self, workers: int, memory: int) -> None:
        """Initialise, with this many threads here and this many bytes for the arrays of a rank."""
        self.points, self.blocks = self.ranks * self.threads, self.threads
        spin = 200.0 if workers * launcher.local_ranks() <= machine.processors() else 10.0
        self._pool = Pool(workers - 1, spin=spin)
        self._allocator = Allocator(self._pool, KEPT, Reserved(), limited=False)
        self._most = memory
        self._touched = [0] * self.ranks
        """Bytes of memory that the stores of each rank take."""
        self._live: dict[int, MpiInstance] = {}
        """The stores that take memory, in the order in which they were made."""
        self._peak = 0
        """The most of them on this rank at any time."""
        self._held = 0
        """Bytes of all stores."""
        self._noted = 0
        """Floating-point exceptions of interpreted launches."""
        self._own = 0
        """Floating-point exceptions of the parts of host functions that this rank ran."""
        self._traffic = traffic.kept
        """The counter of the data that this rank sends."""
        self._key: object = self.name
        """The key under which a layout keeps what this rank derives from it."""
        self._inspector = Inspector(self)
        self._process = os.getpid()

    # -- stores --------------------------------------------------------------------------------------------

    def create(self, nbytes: int, store: Store | None = None) -> MpiInstance:
        if config.memory is not None and self._held + nbytes > config.memory:
            raise MemoryError(f"{nbytes} bytes requested, {self._held} in use: the setting memory "
                              f"(DIFFUSE_MEMORY) allows {config.memory} bytes; raise it or hold fewer arrays")
        lease = Lease(self._allocator, nbytes)
        return self._made(MpiInstance(lease, None, _named(store, nbytes), self.ranks))

    def attach(self, array: NDArray[Any], store: Store | None = None) -> MpiInstance:
        memory = attached(array)
        if self.agreement is not None and self.agreement.close:
            what = f"taking an array of shape {array.shape}, {array.dtype} from the host"
            self._tell(what, memory.tobytes())
        return self._made(MpiInstance(None, memory, _named(store, memory.nbytes), self.ranks))

    def _made(self, instance: MpiInstance) -> MpiInstance:
        instance.used = self._pool.submitted  # by whoever had the memory before
        self._held += instance.nbytes
        self._live[id(instance)] = instance
        self._charge(instance.state.bytes, 1)
        return instance

    def release(self, instance: Instance) -> None:
        if not isinstance(instance, MpiInstance):
            return
        if instance._memory is None:
            self._pool.keep(instance._array)
        self._held -= instance.nbytes
        self._live.pop(id(instance), None)
        self._charge(instance.state.bytes, -1)
        self._free_ghosts(instance)
        instance._array = instance._memory = None

    # -- launches ------------------------------------------------------------------------------------------

    def launch(self, launch: Launch) -> None:
        self._check()
        layout, native = launch.layout, launch.kernel.native
        instances: Any = launch.instances
        assert layout is not None
        if native is None:
            self._interpret(launch)
        else:
            self._compiled(launch, layout, native, instances)

    def _compiled(self, launch: Launch, layout: Layout, native: MachineCode, instances: Any) -> None:
        """Run this rank's share of a launch by machine code, and what it needs of other ranks before."""
        packed = launch.kernel.pack(launch.values)
        shared, mine = self._begun(layout, instances, packed, launch.watched)
        words, scratch = addressed(packed, shared, layout, instances)
        self._bring_all(mine.before, instances)
        number = self._run(mine, native, words, (native, launch.keep, scratch), layout.header)
        if mine.meets:
            number = self._finish(mine, native, words, scratch, instances, number)
        self._passed(shared, mine.after, instances, number)

    def _begun(self, layout: Layout, instances: Sequence[Any], packed: bytes, watched: Sequence[Any] = (),
               shares: Callable[[Share], Share] = lambda shared: shared) -> tuple[Share, Mine]:
        """Begin a launch or a host function: share it out, find this rank's step, and exchange ghosts."""
        process.tick()
        known = layout.derived.get(self._key)
        if known is None:
            known = layout.derived[self._key] = self._prepared(layout, shares(shared_out(layout, self.ranks)))
        known, ghosts = self._inspected(layout, known.share, instances, watched, lambda shared: (
            self._prepared(layout, shared))) or (known, [])
        self._announce(known.form, layout, instances, packed)
        mine = self._steps_of(layout, known, instances)
        short = mine.growth is not None and not self._affords(mine.growth)
        if short and self._relocated(known.share, instances):
            mine = self._steps_of(layout, known, instances)
        if short and mine.growth is not None and not self._affords(mine.growth):
            self._relieved(instances)
        if mine.growth is not None:
            self._afford(mine.growth, layout.title)
        if self._traffic is not None:
            self._traffic.begin(layout.title, mine.least + sum([each.nbytes for each, _ in ghosts]))
        for each, instance in ghosts:
            self._bring_ghosts(each, instance)
        return known.share, mine

    def _steps_of(self, layout: Layout, known: Prepared, instances: Sequence[Any]) -> Mine:
        """This rank's part of the step that follows from the present states."""
        states = tuple([instances[use.place].state for use in known.share.uses])
        mine: Mine | None = known.steps.get(states)
        if mine is None:
            mine = known.steps[states] = self._mine(layout, known.share, states)
        return mine

    def _prepared(self, layout: Layout, shared: Share) -> Prepared:
        return Prepared(shared, form(layout.title, shared), Bounded(MOST_STEPS))

    def _passed(self, shared: Share, after: Sequence[Validity], instances: Sequence[Any],
                number: int) -> None:
        """Record the states after the launch with this number."""
        for use, state in zip(shared.uses, after, strict=True):
            instance = instances[use.place]
            instance.state, instance.used = state, number
            if use.every_write or use.late_writes:
                instance.written, instance.pieces, instance.version = number, 0, instance.version + 1
                instance.home = state.have
                instance.ghosts.clear()
                self._trim(instance, number)

    def _mine(self, layout: Layout, shared: Share, states: Sequence[Validity]) -> Mine:
        """This rank's part of a step."""
        found, least = self._step(layout, shared, states)
        at = {use.place: state for use, state in zip(shared.uses, states, strict=True)}

        def own(arriving: Any) -> tuple[Move, ...]:
            return tuple([move for place, arrivals in arriving for move in
                          moves(self.rank, place, arrivals, at[place].shape, at[place].itemsize)])

        direct = tuple([(move, partial.offset) for partial, arrivals in found.partials
                        for move in moves(self.rank, partial.scratch, arrivals, partial.shape, 1)])
        rounds = [tuple([(move, partial.offset) for partial, _ in some for move in collecting(
                         Collected(partial.scratch, partial.shape, 1, partial.writes), self.rank, 1 << k,
                         self.ranks)])
                  for k, some in enumerate(found.rounds)]
        early = [todo for whole, _ in found.early for todo in in_rounds(whole, self.rank)]
        first, points = found.runs[self.rank]
        return Mine(tuple([some for some in (own(found.before), *early) if some]), first, points,
                    not shared.divided,
                    tuple([some for some in (direct, *rounds) if some]), own(found.late),
                    bool(found.finishing), self.rank in found.finishing, found.after,
                    found.growth if any(found.growth) else None, least)

    def _step(self, layout: Layout, shared: Share, states: Sequence[Validity]) -> tuple[LaunchStep, int]:
        """The step of all ranks, and the fewest bytes that it can move, if somebody counts."""
        return step(shared, states, self.ranks), (
            traffic.least(layout, shared, states, self.ranks) if self._traffic is not None else 0)

    def _run(self, mine: Mine, native: Any, block: bytes, keep: object, header: int) -> int:
        """Queue this rank's points; returns the number of the last launch."""
        if mine.points and mine.undivided:
            finish = native.finish if mine.points > 1 else 0
            return self._pool.submit(native.address, finish, mine.points, block, keep)
        if mine.points and header:
            block = BOUNDS.pack(mine.first, mine.points) + block[BOUNDS.size:]
        if mine.points:
            self._pool.submit_part(native.address, mine.first, mine.points, block, keep)
        if mine.points > 1 and header:
            self._pool.submit(native.finish, 0, 1, block, keep)
        return self._pool.submitted

    def _finish(self, mine: Mine, native: Any, block: bytes, scratch: Sequence[NDArray[np.uint8]],
                instances: Any, number: int) -> int:
        """Combine the partial results of all points, where the step says; returns the number of the last
        launch."""
        if mine.partials or mine.late:
            self._pool.wait(number)
        for exchange in mine.partials:
            self._carry([move for move, _ in exchange], [scratch[move.place][at:] for move, at in exchange])
        self._bring(mine.late, instances)
        if not mine.finishes:
            return number
        return self._pool.submit(native.finish, 0, 1, block, (native, scratch, instances))

    def _interpret(self, launch: Launch) -> None:
        assert launch.layout is not None
        self._tell(f"{launch.layout.title}, interpreted", repr(launch.values).encode())
        self.fence()
        interpret(launch, self.host, self._note)

    def foresight(self, instances: Mapping[int, Any], frames: Mapping[int, Frame],
                  watched: Collection[int]) -> Foresight:
        """Return the predictor of launches on these instances, and on stores of these frames, given the
        stores whose memory outside code sees (`watched`).  Every rank has to predict the same."""
        return Foresight(self.ranks, ((self._inspector, instances),), self.over_ranks, frames, watched)

    # -- waiting -------------------------------------------------------------------------------------------

    def _announce(self, form: bytes, layout: Layout, instances: Sequence[Any], packed: bytes) -> None:
        """Tell the agreement that a launch or a call follows."""
        if self.agreement is not None:
            self.agreement.launch(form, layout.title, instances, packed[8 * layout.header:])

    def _tell(self, event: str, content: bytes = b"") -> None:
        if self.agreement is not None:
            self.agreement.event(event, content)

    def _check(self) -> None:
        """Refuse work in a forked child: the other ranks know nothing of it."""
        if self.ranks > 1 and os.getpid() != self._process:
            raise RuntimeError("this is a forked child of a rank, which the other ranks do not have: compute "
                               "in the rank itself, or start children with the method spawn")

    def over_ranks(self, number: int) -> int:
        """Sum a number over all ranks; every rank has to call this."""
        if self.network is None or self.agreement is None:
            return number
        self.agreement.meet("adding up a number of each rank")
        return sum(self.network.gather(number))

    def counted(self) -> list[Counts]:
        """Return what each rank counted; every rank has to call this."""
        if self.network is None or self.agreement is None:
            return [Counts(0, 0, 0, self._peak)]
        self.agreement.meet("counting what each rank sent")
        words = [self.network.sent, self.network.messages, self.network.received, self._peak]
        return [Counts(*each) for each in zip(*map(self.network.gather, words), strict=True)]

    def call(self, function: Callable[[], None]) -> None:
        self._pool.fence()
        function()

    def fence(self) -> None:
        self._check()
        self._pool.fence()
        if self.agreement is not None:
            self.agreement.meet("waiting for everything submitted")

    def _note(self, kind: str, flag: int) -> None:
        self._noted |= flag

    def _raised(self) -> int:
        """The floating-point exceptions that no other rank knows of yet."""
        found, self._own = self._own, 0
        return found | self._pool.flags()

    def flags(self) -> int:
        seen, self._noted = self._noted, 0
        if self.network is None:
            return seen | self._raised()
        seen, self.network.flags = seen | self.network.flags, 0
        return seen


def _named(store: Store | None, nbytes: int) -> Store:
    return store or Store(-1, (nbytes,), "uint8")


def _threads() -> int:
    """Threads of this rank: the setting, or its share of the machine's processors."""
    if config.threads != "auto":
        return machine.threads()
    return max(1, machine.processors() // launcher.local_ranks())

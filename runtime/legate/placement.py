"""Places data in Legate: stores of instances, their partitions, and copies to and from the host.

Legate may be called from the main thread only.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffuse.ir import ITEMSIZE, Point
from diffuse.memory import address
from diffuse.runtime import machine
from diffuse.runtime.legate import gpus, message, prepare
from diffuse.runtime.legate.board import Board, board
from diffuse.runtime.legate.instances import LegateInstance
from diffuse.runtime.legate.joining import WHOLE, Tiles
from diffuse.runtime.legate.mpi import Network
from diffuse.runtime.legate.requirements import Need, shared
from diffuse.runtime.legate.reuse import SOMEWHERE, Piece, Reuse
from diffuse.runtime.legate.trampoline import GridTrampoline, Trampoline
from diffuse.runtime.local.pool import Pool
from diffuse.runtime.ranks import launcher
from diffuse.runtime.ranks.activity import Activity
from diffuse.runtime.ranks.agreement import Agreement
from diffuse.runtime.ranks.alike import alike
from diffuse.runtime.ranks.launcher import version
from diffuse.runtime.ranks.watchdog import watch
from diffuse.settings import config

FORKED = -1
"""A thread identifier that no thread has."""
COPIED = 1 << 20
"""Bytes of copies on a rank for which there is always room."""


@cache
def _registered() -> tuple[Trampoline, Any, Any]:
    """The task, its library and its number there, registered once a process: Legate ends the process at a
    second registration, and a program may leave this runtime and come back to it."""
    core, found = prepare.start(), prepare.find()
    code = Trampoline(found.site, found.version or "")
    library, _ = core.get_legate_runtime().find_or_create_library(
        "diffuse", config=core.ResourceConfig(max_tasks=16))
    return code, library, code.register(core, library)


@cache
def _registered_on_gpus() -> tuple[GridTrampoline, Any, gpus.Devices] | None:
    """The task for GPUs, its number in the same library, and the GPUs; None if Legate has none."""
    core, found = prepare.start(), prepare.find()
    devices = gpus.find(core)
    if devices is None:
        return None
    code = GridTrampoline(found.site, found.version or "")
    return code, code.register(core, _registered()[1]), devices


class Placement:
    """The Legate runtime, the registered tasks, and the stores of all instances."""

    def __init__(self) -> None:
        core = prepare.start()
        self.core, self.legate = core, core.get_legate_runtime()
        self._main = threading.get_ident()
        os.register_at_fork(after_in_child=self._forked)
        self.ranks: int = self.legate.node_count
        self.rank: int = self.legate.node_id
        self.processors = max(1, core.get_machine().count(core.TaskTarget.CPU))
        """Legate processors on all ranks."""
        self.alone = self.processors == 1 and prepare.inline()
        self.code, self._library, self._number = _registered()
        if prepare.polling is not None:
            self.code.network(prepare.polling)
        self._grid_code: GridTrampoline | None = None
        self._grid_number: Any = None
        self.devices: gpus.Devices | None = None
        """The GPUs; None if Legate has none."""
        if not self.alone and (found := _registered_on_gpus()) is not None:
            self._grid_code, self._grid_number, self.devices = found
        self.pool: Pool | None = None
        self.agreement: Agreement | None = None
        """Compares what this rank submits with the others; None with one rank."""
        self.network: Network | None = None
        """Messages of ours between the ranks; None with one rank."""
        if self.ranks > 1:
            self.network = Network(self.rank, self.ranks)
            self.agreement = Agreement(self.rank, self.network.gather, config.digest)
            self._watch(self.network, self.agreement)
        self.board: Board | None = None
        """Where ranks of this machine say what they have begun; None if they do not."""
        self._types = {name: getattr(core.types, "bool_" if name == "bool" else name) for name in ITEMSIZE}
        self._binary = lru_cache(core.types.binary_type)
        most = prepare.memory_given() * self.ranks
        if self.devices is not None:
            most = min(most, int(prepare.SHARE * self.devices.memory))
        if config.memory is not None:
            most = min(most, config.memory)
        self._reuse = Reuse(self._made, self._keep, most // 4, most)
        self._projections: dict[tuple[int, tuple[tuple[int, int], ...]], Any] = {}
        self.lent: list[Any] = []
        """Host memory of dropped instances that queued launches may still read."""
        self._dropped: deque[LegateInstance] = deque()
        self.launched = self.fenced = 0
        """The number of tasks submitted, and the number of them at the last fence."""
        self._flags = self.noted = 0
        """Floating-point exceptions of host functions on this rank, until the ranks wait for each other."""

    def _watch(self, network: Network, agreement: Agreement) -> None:
        """Compare this rank's environment with the others', and start its watchdog.  Only the main thread's
        activity counts, as the threads that poll for messages are never idle."""
        alike(network.gather, ("Legate", version("legate")), ("Legate's processors", self.processors))
        clock = time.pthread_getcpuclockid(self._main)
        watch(self.rank, self.ranks, network.gather,
              Activity(self.rank, agreement.progress, lambda: network.since,
                       lambda: time.clock_gettime(clock)))

    def threads(self) -> int:
        """Threads of each Legate processor: the setting, or a share of the machine's processors."""
        if config.threads != "auto":
            return machine.threads()
        sharing: int = launcher.local_ranks() * max(1, self.processors // self.ranks)
        return max(1, machine.processors() // sharing)

    def share(self, threads: int) -> None:
        """Have the ranks of a machine begin launches abreast, if they compute on all of its processors, each
        on so many threads."""
        assert self.network is not None
        crowded = launcher.local_ranks() * threads >= machine.together()
        self.board = board(self.rank, self.network.gather, crowded)
        if self.board is not None:
            self.code.board(self.board)

    # -- tasks ---------------------------------------------------------------------------------------------

    def task(self, spread: Point, grid: bool = False) -> Any:
        """Make a task over a launch domain of Legate points, without arguments yet; `grid`: of grid
        kernels."""
        if self.alone:
            return self.legate.create_auto_task(self._library, self._number)
        if grid and self.ranks > 1:
            # Legate does not know how much scratch memory these tasks take.  Two of them that are mapped at a
            # time may each get their memory on one rank, and wait on the other one until the other has ended.
            self.legate.issue_mapping_fence()
        return self.legate.create_manual_task(self._library, self._grid_number if grid else self._number,
                                              spread)

    def complaint(self) -> str | None:
        """The first error of a task since the last call; None if there was none."""
        return self.code.complaint() or (self._grid_code.complaint() if self._grid_code else None)

    def send(self, task: Any, words: bytes) -> None:
        """Submit a task with its message."""
        self.launched += 1
        task.add_scalar_arg(words, self._binary(len(words)))
        task.execute()

    def wait(self) -> None:
        """Wait until everything submitted has ended on all ranks."""
        if self.alone and self.pool is not None:
            self.pool.fence()
        else:
            if self.agreement is not None:
                self.agreement.meet("waiting for everything submitted")
            self.legate.issue_execution_fence(block=True)
            if self.network is not None:
                own, self.noted = self.noted, 0
                for flags in self.network.gather(self.code.flags() | own):
                    self._flags |= flags
        self.fenced = self.launched

    def flags(self) -> int:
        """Floating-point exceptions on any rank since the last call; valid after `wait`."""
        if self.ranks == 1:
            return self.code.flags()
        seen, self._flags = self._flags, 0
        return seen

    def _forked(self) -> None:
        """Refuse work in a forked child: it has none of Legate's threads, and would wait for them forever."""
        self._main = FORKED

    def check_thread(self) -> None:
        if threading.get_ident() != self._main:
            if self._main == FORKED:
                raise RuntimeError("a forked process has no Legate: start it with "
                                   'multiprocessing.get_context("spawn"), or run with DIFFUSE_RUNTIME=local')
            raise RuntimeError("Legate takes work from the main thread only, and "
                               f"{threading.current_thread().name!r} is another: compute there with "
                               "DIFFUSE_RUNTIME=local, or hand the work to the main thread")

    # -- stores --------------------------------------------------------------------------------------------

    def _made(self, shape: Point, dtype: str) -> Any:
        """Make a Legate store."""
        if self.agreement is not None:
            self.agreement.settle(f"making a store of shape {shape}, {dtype}")
        return self.legate.create_store(self._types[dtype], shape)

    @property
    def used(self) -> int:
        """The bytes of all stores in use, on all ranks together."""
        return self._reuse.bytes_used

    def afford(self, nbytes: int, what: str) -> None:
        """Refuse copies of so many bytes on a rank, beside its parts of all stores, if they exceed its
        memory: Legate would end the program.  Raises MemoryError, on all ranks alike."""
        if self.ranks == 1 or self.devices is not None or nbytes < COPIED:
            return
        used, most = self.used // self.ranks, prepare.memory_given()
        if used + nbytes > most:
            raise MemoryError(f"{nbytes} bytes whole on a rank for {what}, where parts of arrays take {used} "
                              f"of the {most} bytes that Legate was given: use smaller arrays, or give it "
                              "more with DIFFUSE_LEGATE_MEMORY (or --memory)")
        self._reuse.shrink(most - used - nbytes)

    @property
    def occupied(self) -> int:
        """The bytes of a rank's parts of all stores, and of its whole copies of stores."""
        return (self._reuse.bytes_used + self._reuse.bytes_kept) // self.ranks + self._reuse.bytes_copied

    def copied(self, owner: LegateInstance, nbytes: int) -> None:
        """Note that each rank gets a copy of so many bytes of a store, which Legate keeps."""
        if owner.piece is not None:
            self._reuse.copied(owner.piece, nbytes)

    def leave(self) -> None:
        """Keep no freed stores from now on."""
        self._reuse.keep(0)

    def store(self, owner: LegateInstance) -> Any:
        """Legate's store of an instance, made now if there is none."""
        if owner.piece is None:
            owner.piece, owner.written = self._reuse.take(owner.shape, owner.dtype, owner.nbytes)
        return owner.piece.store

    def ready(self, owner: LegateInstance, need: Need) -> Any:
        """Legate's store of an instance, with valid data wherever the launch does not overwrite it."""
        store = self.store(owner)
        if not owner.filled:
            whole = need.low == (0,) * len(need.low) and need.high == owner.shape
            if need.reads or not whole:  # elements outside the box are kept
                self.fill(owner)
        return store

    def fill(self, owner: LegateInstance) -> None:
        """Copy the host's data to Legate's store, or initialise the store: Legate aborts on uninitialised
        reads."""
        if owner.home:
            self.move(message.PUT, owner)
        elif not owner.written:
            self.store(owner).fill(np.zeros((), owner.dtype))
            owner.written = True

    def address(self, owner: LegateInstance, need: Need) -> int:
        """The permanent address of an instance's store in row-major order, with valid data wherever the
        launch does not overwrite it; SOMEWHERE if a task has to find it.  Alone only.

        It is the memory that inline tasks get: Legate maps a store once, when it is first used.
        """
        self.ready(owner, need)
        piece = owner.piece
        assert piece is not None
        if piece.address is None:
            piece.address = _located(piece.store, owner)
        return piece.address

    def part(self, owner: LegateInstance, need: Need, spread: Point) -> tuple[Any, Any]:
        """The part of the store that a need describes (the store, a box or a partition), and the projection
        of a launch domain to the tiles of a partition."""
        piece = owner.piece
        assert piece is not None
        _, low, high, tiles, _, _ = need
        if tiles == WHOLE and high == owner.shape and not any(low):
            return piece.store, None
        key = low, high, tiles, spread
        found = piece.parts.get(key)
        if found is None:
            if self.agreement is not None:
                self.agreement.settle(f"dividing a store of shape {owner.shape}, {owner.dtype}")
            found = piece.parts[key] = self._part(piece.store, owner.shape, need, spread)
        return found

    def _part(self, box: Any, shape: Point, need: Need, spread: Point) -> tuple[Any, Any]:
        for d, (low, high, size) in enumerate(zip(need.low, need.high, shape, strict=True)):
            if (low, high) != (0, size):
                box = box.slice(d, slice(low, high))
        if need.tiles == WHOLE:
            return box, None
        tile = [high - low for low, high in zip(need.low, need.high, strict=True)]
        colors = [1] * len(shape)
        for d, launch, size in need.tiles:
            tile[d], colors[d] = size, spread[launch]
        return box.partition_by_tiling(tuple(tile), tuple(colors)), self._projection(len(shape), need.tiles,
                                                                                     len(spread))

    def _projection(self, rank: int, tiles: Tiles, launch_rank: int) -> Any:
        """Map the coordinates of the launch domain to the tiles of a store."""
        cuts = tuple([(d, launch) for d, launch, _ in tiles])
        if rank == launch_rank and cuts == tuple(zip(range(rank), range(rank), strict=True)):
            return None  # the identity
        if (rank, cuts) not in self._projections:
            found = [self.core.constant(0)] * rank
            for d, launch in cuts:
                found[d] = self.core.dimension(launch)
            self._projections[rank, cuts] = tuple(found)
        return self._projections[rank, cuts]

    def drop(self, instance: LegateInstance) -> None:
        """Drop an instance, on any thread; its store is freed on the main thread, by `sweep`."""
        if instance.piece is not None:
            self._dropped.append(instance)
        if instance.lent > self.fenced:
            self.lent.append(instance.memory)

    def sweep(self) -> None:
        """Free or recycle the stores of dropped instances."""
        while self._dropped:
            instance = self._dropped.popleft()
            if instance.shared or instance.foreign:
                self.forget(instance)
            else:
                piece, instance.piece = instance.piece, None
                assert piece is not None
                self._reuse.give(instance.shape, instance.dtype, piece)

    def forget(self, instance: LegateInstance) -> None:
        """Free the store of an instance whose data lies elsewhere from now on."""
        piece, instance.piece = instance.piece, None
        if piece is not None:
            self._keep(piece)
            self._reuse.forget(piece)

    def _keep(self, piece: Piece) -> None:
        """Keep a store alive until everything submitted has ended; Legate does so only for its own tasks."""
        if self.alone and self.pool is not None:
            self.pool.keep(piece)

    # -- the host ------------------------------------------------------------------------------------------

    def lend(self, owner: LegateInstance, need: Need | None = None) -> int:
        """The address of an instance's host copy, which may not change until the next fence."""
        if owner.memory is None:  # never written, or no elements: the contents do not matter
            owner.memory = np.empty(max(owner.nbytes, 1), np.uint8)
        elif need is not None and self.agreement is not None and self.agreement.close:
            part = tuple(map(slice, need.low, need.high))
            whole = owner.memory[:owner.nbytes].view(owner.dtype).reshape(owner.shape)
            self.agreement.event(f"taking an array of shape {owner.shape}, {owner.dtype} from the host",
                              whole[part].tobytes())
        owner.lent = self.launched + 1
        return address(owner.memory)

    def move(self, order: int, instance: LegateInstance) -> None:
        """Submit a copy between Legate's store and the host's copies, which are equal on all ranks."""
        assert instance.memory is not None
        if self.agreement is not None:
            what = "reading" if order == message.GET else "writing"
            content = instance.memory if order == message.PUT and self.agreement.close else b""
            self.agreement.event(f"{what} an array of shape {instance.shape}, {instance.dtype}", content)
        if order == message.PUT:
            self.lend(instance)
        self._copy(order, instance, instance.memory)
        if order == message.PUT:
            instance.filled = instance.written = True

    def _copy(self, order: int, owner: LegateInstance, memory: NDArray[Any]) -> None:
        shape, spread = owner.shape, self.processors
        words = message.moving(order, self.processors // self.ranks, shape, ITEMSIZE[owner.dtype],
                               (0,) * len(shape), address(memory))
        store = self.store(owner)
        if self.alone:
            self.wait()
        if order == message.GET:  # every rank gets the whole store
            self.afford(owner.nbytes, f"reading an array of shape {owner.shape}, {owner.dtype}")
            self.copied(owner, owner.nbytes)
            task = self.task((spread,))
            task.add_input(store)
        elif self.alone:
            task = self.task((1,))
            task.add_output(store)
        else:  # each rank gets its own part
            tile = -(-shape[0] // spread)
            domain = (-(-shape[0] // tile),)
            task = self.task(domain)
            task.add_output(*self.part(owner, shared(shape, ((0, 0, tile),)), domain))
        self.send(task, words)


def _located(store: Any, owner: LegateInstance) -> int:
    """The address of a store's first element; SOMEWHERE if the store is not in row-major order."""
    memory = store.get_physical_store().get_inline_allocation()
    pitch = ITEMSIZE[owner.dtype]
    for size, stride in zip(reversed(owner.shape), reversed(memory.strides), strict=True):
        if size > 1 and stride != pitch:
            return SOMEWHERE
        pitch *= size
    return int(memory.ptr)

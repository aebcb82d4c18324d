"""The local runtime: launches run in order on native threads of this process, while the program records on.

A kernel with machine code is queued on the thread pool and `launch` returns.  One without, as yet, is
interpreted on the calling thread, after everything submitted before it.
"""

from __future__ import annotations

from collections.abc import Callable
from sys import getrefcount
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from diffuse.interrupts import deferred
from diffuse.ir import Store
from diffuse.memory import address
from diffuse.runtime import machine
from diffuse.runtime.base import CodeUse, Fate, Instance, Launch, Layout
from diffuse.runtime.kernel import Divisible, Kernel
from diffuse.runtime.local import polling, pool
from diffuse.runtime.local.ahead import Ahead
from diffuse.runtime.local.allocator import Allocator, Lease, Usage
from diffuse.runtime.local.polling import Polling
from diffuse.runtime.local.pool import Pool, Team
from diffuse.runtime.local.system import MAPPED
from diffuse.runtime.reference import attached
from diffuse.runtime.together import OneRank
from diffuse.service.client import Unavailable
from diffuse.service.patience import patience
from diffuse.settings import config

if TYPE_CHECKING:
    from numpy.typing import NDArray


LIGHT = 5_000_000
"""The work (operations times elements) from which on waking a sleeping processor pays.  One thread does as
much in some 0.3 ms, and a wake takes 0.05 to 0.5 ms of the program's time, the more the busier the machine
is."""


class LocalInstance:
    """The memory of one store: an allocated block, or that of an attached array."""

    __slots__ = ("_array", "_memory", "address", "nbytes")

    shared = scattered = False

    def __init__(self, memory: Lease | None, array: NDArray[np.uint8] | None) -> None:
        self._memory, self._array = memory, array
        if memory is not None:
            self.address, self.nbytes = memory.address, memory.nbytes
        elif array is not None:
            self.address, self.nbytes = address(array), array.nbytes

    @property
    def private(self) -> bool:
        """Is this the only reference?  Any other one is a reference to our array, or to the lease."""
        if self._memory is None:
            return False
        if self._array is None:
            return getrefcount(self._memory) <= 2
        return getrefcount(self._array) <= 2 and getrefcount(self._memory) <= 3

    @property
    def array(self) -> NDArray[np.uint8]:
        """The memory as bytes, valid after a fence; the array keeps it alive."""
        if self._array is None:
            if self._memory is None:
                raise ValueError("this instance was released; ask for its array before")
            self._array = np.asarray(self._memory)
        return self._array


class Local(OneRank):
    """Launches on the threads of this machine.

    `points` threads compute: those of the pool, and the program's own while it waits.  While the program
    records it keeps one processor busy itself, so the pool has one thread less than there are points.
    """

    name = "local"
    addressed = host_sees = completes = True
    code = CodeUse.PREFERRED
    target = "host"
    blocks = 0
    splits = False
    sharing = None

    def __init__(self, points: int | None = None) -> None:
        self.points = points or machine.threads()
        # To wake a sleeping processor costs the program 20 to 500 us, a hundred times what a look costs it:
        # poll for about as long as recording a fused task takes, unless others need the processor.
        own = self.points <= machine.processors()
        self._pool = Pool(self.points - 1, spin=polling.SHORT if own else 10.0)
        self._polling = Polling(self._pool.threads.poll) if own else None
        self._allocator = Allocator(self._pool)
        self._submit: Callable[..., int] | None = None
        """The pool's `submit`, once its code is loaded."""
        self._submitted = self._pool.threads.submitted
        self._ahead = Ahead(self._pool)
        self._asleep = 0
        """The work submitted since the program last waited, or last woke a sleeping processor."""
        self._flags = 0
        self._turns = 0
        """The number of launches interpreted and host functions called."""
        self._unfinished = -1
        """The mark at which the last of these began; -1 once it has ended."""

    @property
    def pipelines(self) -> bool:
        """True unless the thread pool's native code is missing: a pipeline cannot be interpreted."""
        return self._submit is not None or self._starts(patience(0, 0, 0, True))

    def passes(self, layout: Layout) -> bool:
        return True

    def scratch(self, nbytes: int) -> LocalInstance:
        return self.create(nbytes)

    def create(self, nbytes: int, store: Store | None = None) -> LocalInstance:
        return LocalInstance(Lease(self._allocator, nbytes), None)

    def zeroed(self, nbytes: int, store: Store | None = None) -> LocalInstance | None:
        if nbytes < MAPPED:
            return None
        try:
            return LocalInstance(Lease(self._allocator, nbytes, zero=True), None)
        except MemoryError:  # the caller initialises it if needed
            return None

    def attach(self, array: NDArray[Any], store: Store | None = None) -> LocalInstance:
        return LocalInstance(None, attached(array))

    def host(self, instance: Instance, write: bool) -> NDArray[np.uint8]:
        if not isinstance(instance, LocalInstance):
            raise TypeError(f"{instance!r} is no instance of this runtime")
        return instance.array

    def known(self, instance: Any) -> NDArray[np.uint8]:
        found: NDArray[np.uint8] = instance.array
        return found

    def piece(self, instance: Instance, offset: int, nbytes: int) -> NDArray[np.uint8]:
        return self.host(instance, False)[offset:offset + nbytes]

    def team(self) -> Team | None:
        """The threads for C code; None if there are none, or their code has not arrived."""
        return self._pool.team() if self.points > 1 and self._starts(0.0) else None

    def launch(self, launch: Launch) -> None:
        kernel, values, points, keep, _, _, work, *_ = launch
        native, submit = kernel.native, self._submit
        if native is not None and submit is None:  # the patience needs the interpreter, so look at once first
            if self._starts(0.0) or self._starts(_patience(kernel, work)):
                submit = self._submit
        if native is None or submit is None:
            self._interpret(launch)
            return
        # a single point combines its own reductions
        finish = native.finish if points > 1 else 0
        if self._polling is not None and self._polling.idle:
            self._polling.launched()
        self._asleep += work
        light = self._asleep < LIGHT
        if not light:
            self._asleep = 0
        sequence = submit(native.address, finish, points, kernel.pack(values), (native, keep), light)
        if work:
            self._ahead.add(sequence, work)

    def _starts(self, seconds: float | None) -> bool:
        """Is the thread pool's code there, or does it arrive within so many seconds?  The first call requests
        it."""
        try:
            if seconds is None:
                pool.entry()
            elif not pool.ready(seconds=seconds):
                return False
        except Unavailable:  # a warning has said so
            return False
        self._submit = self._pool.submit
        return True

    def _interpret(self, launch: Launch) -> None:
        """Interpret a launch; if its machine code is ready before the end, that runs the rest."""
        if self._submit is None and config.compile != "off":
            self._starts(0.0)  # requested before the first kernel that is compiled
        self._pool.fence()
        deferred(lambda: self._turn(lambda: self._by_points(launch)))

    def _turn(self, work: Callable[[], None]) -> None:
        """Run a step synchronously, and note whether it completed."""
        self._unfinished = self.mark()
        self._turns += 1
        work()
        self._unfinished = -1

    def _by_points(self, launch: Launch) -> None:
        kernel, values, points, *_ = launch
        divides = kernel.native is None and hasattr(kernel, "divide")
        divisible = cast(Divisible, kernel) if divides else None
        division = None if divisible is None else divisible.divide(values)
        if division is not None:
            values, points = division.values, division.points
        with np.errstate(all="call", call=self._note):
            for p in range(points):
                if division is not None and divisible is not None and divisible.arrived():
                    self.launch(launch._replace(values=division.rest(p)))
                    return
                kernel.point(values, p)
            kernel.finish(values)

    def _note(self, kind: str, flag: int) -> None:
        self._flags |= flag

    def call(self, function: Callable[[], None]) -> None:
        self._pool.fence()
        deferred(lambda: self._turn(function))

    def fence(self) -> None:
        self._asleep = 0
        self._pool.fence()
        if self._polling is not None:
            self._polling.waited()

    def release(self, instance: Instance) -> None:
        if not isinstance(instance, LocalInstance):  # of a previous runtime
            return
        # An attached array must outlive the launches on it; a block goes back now, or with its last array.
        if instance._memory is None:
            self._pool.keep(instance._array)
        instance._array = instance._memory = None

    def flags(self) -> int:
        seen, self._flags = self._flags | self._pool.flags(), 0
        return seen

    def mark(self) -> int:
        """Launches submitted or run, and host functions called, so far.  Each counts from the moment on at
        which nothing, an interrupt included, can keep it from running."""
        submitted: int = self._submitted.value
        return submitted + self._turns

    def fate(self, mark: int) -> Fate:
        if self.mark() == mark:
            return Fate.PENDING
        return Fate.LOST if self._unfinished >= mark else Fate.DONE

    def usage(self) -> Usage:
        """Bytes of array memory: in use, the peak, cached."""
        return self._allocator.usage()

    def trim(self) -> int:
        """Return cached memory to the system; returns the bytes freed."""
        self._pool.fence()
        return self._allocator.trim()

    def close(self) -> None:
        """Wait for everything and end the threads; a later launch starts them again."""
        self._pool.close()


def _patience(kernel: Kernel, work: int) -> float | None:
    """How many seconds a launch waits for the thread pool's code; None, without limit, if the kernel cannot
    be interpreted."""
    interpretable = hasattr(kernel, "divide") and cast(Divisible, kernel).interpretable()
    return patience(work, 0, 0, interpretable)

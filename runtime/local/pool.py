"""A pool of native threads, which runs launches (kernel, parameter block, points) in submission order.

The threads, the queue and the waiting are LLVM IR text (`native`), compiled like kernels and kept with them:
no C compiler is needed, and no thread of the pool ever touches Python or its lock.

One word, the *ticket*, orders everything: its high bits are the number of the running launch (and so of the
launches that have ended), its low bits the next unclaimed point of it.  A point is claimed by one
compare-and-swap of the ticket.  Values of the ticket never repeat, so a stale value cannot claim a point of
another launch (no ABA problem).  The thread that ends the last point runs the kernel's `finish` and advances
the ticket.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
import weakref
from collections import deque
from functools import cache
from typing import Any, NamedTuple

from diffuse import worker
from diffuse.interrupts import of_handler
from diffuse.observe import notices
from diffuse.observe.floaterrors import raised
from diffuse.runtime.local import native
from diffuse.service import code
from diffuse.service.client import Unavailable
from diffuse.service.loader import Loaded

FAULTS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL}
"""Synchronous signals, which a thread raises itself."""

SLICE = 50_000_000
"""Nanoseconds that a wait sleeps at most before Python checks for signals."""


NAMES = "submit", "submit_light", "submit_part", "wait", "stop", "empty", "pauses", "worker"
"""The names of the entry points of the pool's machine code."""


class Entry:
    """The entry points of the pool's machine code.  It is never unloaded, as threads may execute it until the
    process ends."""

    def __init__(self, loaded: Loaded) -> None:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(loaded))
        self.addresses = found = loaded.addresses
        word, pointer = ctypes.c_int64, ctypes.c_void_p
        # submit never blocks, so it keeps Python's lock: giving it up would cost more than the call
        submitting = ctypes.PYFUNCTYPE(word, pointer, pointer, pointer, word, ctypes.c_char_p, word)
        self.submit, self.submit_light = submitting(found["submit"]), submitting(found["submit_light"])
        partly = ctypes.PYFUNCTYPE(word, pointer, pointer, pointer, word, ctypes.c_char_p, word, word)
        self.submit_part = partly(found["submit_part"])
        self.wait = ctypes.CFUNCTYPE(word, pointer, word, word)(found["wait"])
        self.stop = ctypes.PYFUNCTYPE(None, pointer)(found["stop"])
        self.empty = ctypes.PYFUNCTYPE(None, pointer)(found["empty"])
        rest = ctypes.PYFUNCTYPE(None, word)(found["pauses"])
        start = time.perf_counter_ns()
        rest(1000)
        self.pauses = 1_000_000 / (time.perf_counter_ns() - start)
        """Pause instructions per microsecond: processors differ by a factor of ten."""
        self.worker: int = found["worker"]


_entries: dict[bool, Entry] = {}
_failed: set[bool] = set()
"""The kinds of entry points whose code cannot be compiled."""


@cache
def _text(portable: bool) -> tuple[str, str]:
    """The cache key and the LLVM IR of the machine code."""
    text = native.text(portable)
    return code.text_key(text), text


def entry(portable: bool = False) -> Entry:
    """Load the entry points, once a process, and wait for them; raises `Unavailable` if they are not cached
    and cannot be compiled."""
    while not ready(portable, None):
        pass
    return _entries[portable]


def ready(portable: bool = False, seconds: float | None = 0.0) -> bool:
    """Are the entry points loaded, or do they arrive within so many seconds?  The first call requests them
    where the cache lacks them.  Raises `Unavailable` if they cannot be compiled, the first time with a
    warning."""
    if portable not in _entries:
        if portable in _failed:
            raise Unavailable("the code of the thread pool did not compile")
        key, text = _text(portable)
        try:
            found = code.within(seconds, key, NAMES, code.TEXT, lambda: text)
        except Unavailable:
            raise
        except Exception as error:
            if of_handler(error):
                raise
            _failed.add(portable)
            notices.give(f"the code of the thread pool did not compile ({type(error).__name__}: {error}); "
                         "everything runs interpreted, with the same results")
            raise Unavailable("the code of the thread pool did not compile") from error
        if found is None:
            code.urge(key)  # no kernel runs without the pool
            return False
        _entries[portable] = Entry(found)
    return True


class Threads:
    """The memory and the threads of a pool, which live until the threads have ended."""

    def __init__(self, count: int, depth: int, spin: float, portable: bool) -> None:
        self.count, self.spin, self.portable = count, spin, portable
        self.memory = ctypes.create_string_buffer(native.size(depth) + native.LINE)
        start = ctypes.addressof(self.memory)
        self.address = start + -start % native.LINE
        self.ticket = self.field(ctypes.c_uint64, "ticket")
        self.submitted = self.field(ctypes.c_uint64, "submitted")
        self.flags = self.field(ctypes.c_uint32, "flags")
        self.field(ctypes.c_uint64, "mask").value = depth - 1
        self.field(ctypes.c_int32, "avoided").value = -1
        self.started = False
        self.handles: list[ctypes.c_void_p] = []
        self.kept: deque[tuple[int, Any]] = deque()
        self.purging = False

    @property
    def entry(self) -> Entry:
        """The entry points, loaded at the first launch: a program may never need them."""
        return entry(self.portable)

    def field(self, kind: Any, name: str) -> Any:
        return kind.from_address(self.address + native.FIELDS[name])

    def start(self) -> None:
        """Create the threads."""
        worker.shielded(self._start)

    def _start(self) -> None:
        """Create the threads with signals blocked, so that Python's threads handle all but faults."""
        if self.started:
            return
        self.field(ctypes.c_uint64, "spin").value = int(self.spin * self.entry.pauses)
        self.field(ctypes.c_uint32, "stopping").value = 0
        self.field(ctypes.c_uint32, "apart").value = self.count < len(os.sched_getaffinity(0))
        create = ctypes.CDLL(None).pthread_create
        create.argtypes = [ctypes.c_void_p] * 4
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - FAULTS)
        try:
            while len(self.handles) < self.count:
                handle = ctypes.c_void_p()
                if create(ctypes.addressof(handle), None, self.entry.worker, self.address):
                    break  # no more threads: slower but correct, as a waiting thread runs points
                self.handles.append(handle)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self.started = True

    def poll(self, microseconds: float) -> None:
        """Have threads poll for work for so long, from the next time on that one has none."""
        self.spin = microseconds
        if self.started:
            self.field(ctypes.c_uint64, "spin").value = int(microseconds * self.entry.pauses)

    def wait(self, sequence: int) -> None:
        """Wait until `sequence` launches have ended; safe to interrupt."""
        while not self.entry.wait(self.address, sequence, SLICE):
            pass

    def purge(self) -> None:
        """Release the objects that launches which have ended kept alive."""
        # One thread at a time, or the second would drop what the first has not examined.  What is dropped may
        # come back here through a finalizer: it is turned away too.  A flag and no lock: neither a thread nor
        # an interrupt comes between looking at it and setting it, but one may follow on a call of `acquire`.
        if self.purging:
            return
        self.purging = True
        try:
            done = self.ticket.value >> native.POINT_BITS
            kept = self.kept
            while kept and kept[0][0] <= done:
                kept.popleft()
        finally:
            self.purging = False

    def shutdown(self) -> None:
        """Run what was submitted, then end the threads."""
        if self.started:
            try:
                self.wait(self.submitted.value)
            except BaseException:
                # Interrupted: the threads run until the process ends, so the memory that they use stays.
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))
                raise
            worker.shielded(self._end)
        self.kept.clear()

    def _end(self) -> None:
        if not self.started:
            return
        self.entry.stop(self.address)
        join = ctypes.CDLL(None).pthread_join
        join.argtypes = [ctypes.c_void_p] * 2
        for handle in self.handles:
            join(handle, None)
        self.handles.clear()
        self.started = False
        self.entry.empty(self.address)

    def orphan(self) -> None:
        """Forget the threads, and the launches that only they could run, in a forked child."""
        ran = self.started
        self.started = False
        self.handles.clear()
        self.kept.clear()
        self.purging = False
        if ran or self.submitted.value:
            self.entry.empty(self.address)


class Team(NamedTuple):
    """Threads that C code can launch machine code on without a task (numpy/small/team.c), by addresses."""

    submit: int
    """Submits a launch, and wakes a thread; see `runtime.local.calls`."""
    submit_light: int
    """Submits a launch to threads that poll for work."""
    wait: int
    pool: int
    ticket: int
    """The word whose high bits are the number of launches that have ended."""
    submitted: int
    sleepers: int
    flags: int
    shift: int
    """Where these bits of the ticket begin."""
    workers: int
    """The number of threads."""
    keep: object
    """Keeps the memory of the pool."""


class Pool:
    """Native threads that run launches one after another, the points of each launch in parallel.

    Points run on `count` threads and on any thread that waits; with `count` 0, launches run when a thread
    waits.  `spin` is how many microseconds a thread polls for work before it sleeps.  Submitting relies on
    Python's lock: a pool does not support several free-threaded submitters.
    """

    def __init__(self, count: int, depth: int = 256, spin: float = 50.0, portable: bool = False) -> None:
        if depth < 1 or depth & (depth - 1):
            raise ValueError(f"depth={depth}: expected a power of two")
        self.threads = threads = Threads(count, depth, spin, portable)
        self.address = threads.address
        self._submit: Any = None
        """The entry points that submit a launch: one for heavy ones, one for light ones."""
        self._depth = depth
        self._finalizer = weakref.finalize(self, threads.shutdown)  # also at exit
        _pools.add(threads)

    def start(self) -> None:
        """Create the threads now instead of at the first launch."""
        if self._submit is None or not self.threads.started:
            entries = self.threads.entry
            self._submit = entries.submit, entries.submit_light
            self.threads.start()

    def submit(self, kernel: int, finish: int, points: int, block: bytes, keep: object = None,
               light: bool = False) -> int:
        """Queue a launch and return its number, counted from 1.

        `block` is copied; `keep` is kept alive until the launch has run.  Waits only if the queue is full.
        For a `light` launch no sleeping thread is woken: the thread that waits for it runs it sooner by
        itself.
        """
        threads = self.threads
        if not threads.started:
            self.start()
        expected = threads.submitted.value + 1
        kept = threads.kept
        if keep is not None:  # before the launch, for an interrupt may follow on it
            kept.append((expected, keep))
        enter = self._submit[light]
        sequence: int = enter(self.address, kernel, finish, points, block, len(block))
        while sequence <= 0:
            self._blocked(sequence, points, len(block))
            sequence = enter(self.address, kernel, finish, points, block, len(block))
        if keep is not None:
            if sequence != expected:  # another thread came between
                kept.append((sequence, keep))
            try:
                ended = kept[0][0] <= threads.ticket.value >> native.POINT_BITS
            except IndexError:  # another thread released everything
                ended = False
            if ended:
                threads.purge()
        return sequence

    def team(self) -> Team:
        """Start the threads, and say where they are to C code, which launches on them with Python's lock."""
        self.start()
        threads, code, at = self.threads, self.threads.entry.addresses, self.address
        return Team(code["submit"], code["submit_light"], code["wait"], at, at + native.FIELDS["ticket"],
                    at + native.FIELDS["submitted"], at + native.FIELDS["sleepers"],
                    at + native.FIELDS["flags"], native.POINT_BITS, len(threads.handles), threads)

    def submit_part(self, kernel: int, first: int, points: int, block: bytes, keep: object) -> int:
        """Queue some of the points of a launch, from `first` on, and not its `finish`; see `submit`."""
        if not self.threads.started:
            self.start()
        part = self.threads.entry.submit_part
        while (sequence := part(self.address, kernel, None, points, block, len(block), first)) <= 0:
            self._blocked(sequence, points, len(block))
        self.threads.kept.append((sequence, keep))
        self.threads.purge()
        return int(sequence)

    def keep(self, thing: object) -> None:
        """Keep an object alive until everything submitted so far has ended."""
        self.threads.kept.append((self.submitted, thing))
        self.threads.purge()

    def _blocked(self, code: int, points: int, size: int) -> None:
        """Wait for room in a full queue, or raise the error that the launch was refused for."""
        if code == native.BAD_POINTS:
            raise ValueError(f"points={points}: a launch has between 1 and {native.MOST_POINTS} points")
        if code == native.NO_MEMORY:
            raise MemoryError(f"no memory for a block of {size} bytes")
        self.threads.wait(self.submitted - self._depth // 2)

    @property
    def submitted(self) -> int:
        return int(self.threads.submitted.value)

    @property
    def completed(self) -> int:
        return int(self.threads.ticket.value) >> native.POINT_BITS

    def wait(self, sequence: int) -> None:
        """Return when the launch of this number, and all before it, have ended."""
        if self.completed < sequence:
            self.threads.wait(sequence)

    def fence(self) -> None:
        """Return when everything submitted has ended."""
        self.wait(self.submitted)
        self.threads.purge()

    def flags(self) -> int:
        """Floating-point exceptions raised by kernels since the last call; valid after a fence."""
        raw = int(self.threads.flags.value)
        self.threads.flags.value = 0
        return raised(raw)

    def close(self) -> None:
        """Finish everything and end the threads; a later submit starts them again."""
        self.threads.shutdown()


_pools: weakref.WeakSet[Threads] = weakref.WeakSet()


def _settle() -> None:
    for threads in list(_pools):
        if threads.started:
            threads.wait(threads.submitted.value)


def _orphan() -> None:
    for threads in list(_pools):
        threads.orphan()


os.register_at_fork(before=_settle, after_in_child=_orphan)

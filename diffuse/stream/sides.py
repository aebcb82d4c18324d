"""Where a program with a GPU runs: on the device, or, while its operations are small, on the host.

A launch takes some 30 us on a GPU, whatever it computes, and so does a value that the program reads.  A loop
over columns or elements, which on the host works on memory at hand (walk.py), is ten times as slow as NumPy
there.  So the engine estimates, at each launch and small operation, how much sooner the other side would have
been done.  When the sum exceeds what a change costs, all stores move to the other side, where the program
goes on: it never takes much longer than on the better side alone.  What that is may change, and every change
doubles what the next one has to save.

The estimates count launches, operations and bytes, and measure no time: a program changes at the same places
in each run.  Kernels have the same bits on both sides; docs/gpu.md says what has not.
"""

from __future__ import annotations

from threading import get_ident
from typing import TYPE_CHECKING

from diffuse.observe import trace
from diffuse.runtime import machine, make
from diffuse.runtime.base import Runtime
from diffuse.settings import announce, config

if TYPE_CHECKING:
    from diffuse.stream.queue import Queue

LAUNCH, CALL = 30e-6, 5e-6
"""Seconds that a launch takes on a device, or a copy of few bytes, and that a launch takes on the host."""
LOOK = 10e-6
"""Seconds that a small operation takes longer on a device, where the extension does not do it at once."""
WORK = 5e-11
"""Seconds that one thread of the host takes for one unit of work (`Launch.work`)."""
THREADS = 8
"""The most threads that run faster together: more wait for the memory."""
FASTER = 30
"""How many times as fast as these threads a device is."""
BANDWIDTH = 4e9
"""Bytes copied in a second from or to a device."""
TO_HOST, TO_DEVICE = 5e-3, 0.1
"""Seconds that a change takes besides copying: groups are analysed again, and the device's kernels, for which
launches wait, may have to be compiled."""


class Sides:
    """The runtimes of a program on a GPU, and how much sooner the one that it is not on would be done."""

    __slots__ = ("device", "host", "lead", "changes", "alone", "_thread", "_threads", "_limit",
                 "_copies", "_bytes")

    def __init__(self, device: Runtime) -> None:
        self.device = device
        self.host: Runtime | None = None
        """The runtime on the host, once the program was there."""
        self.lead = 0.0
        """Seconds by which the other side would have been done sooner, since this was last zero."""
        self.changes = 0
        """How often the program changed sides, or lacked the memory to."""
        self.alone = True
        """Did only one thread use the program's stores so far?  Another one might be reading a store that
        moves."""
        self._thread = get_ident()
        self._threads = min(machine.threads(), THREADS)
        self._limit = TO_HOST
        """What the lead has to exceed before the cost of a change is computed again."""
        self._copies, self._bytes = copies()

    def launched(self, runtime: Runtime, work: int) -> None:
        """Note that a launch of this much work was submitted, or a function was called on the host."""
        computing = work * WORK / self._threads
        on_host, on_device = CALL + computing, LAUNCH + computing / FASTER
        if runtime is not self.device:
            gain = on_host - on_device
        else:
            before, (self._copies, self._bytes) = (self._copies, self._bytes), copies()
            on_device += (self._copies - before[0]) * LAUNCH + (self._bytes - before[1]) / BANDWIDTH
            gain = on_device - on_host
        self.lead = max(0.0, self.lead + gain)

    def met(self) -> None:
        """Note which thread uses stores."""
        self.alone = self.alone and get_ident() == self._thread

    @property
    def asks(self) -> bool:
        """May the lead exceed what a change costs?"""
        return self.lead > self._limit

    def pays(self, runtime: Runtime, nbytes: int) -> bool:
        """Does it pay to change sides with stores of so many bytes?"""
        once = TO_HOST if runtime is self.device else TO_DEVICE
        self._limit = (once + nbytes / BANDWIDTH) * 2 ** min(self.changes, 20)
        return self.asks

    def looked(self, queue: Queue) -> None:
        """Note that a small operation looks for the memory of an operand, while the program is on the
        device."""
        if config.sides:
            self.met()
            self.lead += LOOK
            if self.asks:
                with queue._lock:
                    self.consider(queue)

    def consider(self, queue: Queue) -> None:
        """Change sides if that pays, and nothing binds the program to this one: another thread, a region that
        plans its tasks, another library that holds memory of the device."""
        instances, to_host = list(queue.stores.instances.values()), queue.runtime is self.device
        nbytes = sum([instance.nbytes for instance in instances])
        bound = not config.sides or not self.alone or queue.forwarder.busy or queue.window.region is not None
        if bound or any([instance.shared for instance in instances]):
            self.lead = 0.0
        elif self.pays(queue.runtime, nbytes):
            if to_host and 2 * nbytes > machine.memory_available():
                self.lead = 0.0  # else each launch would ask again
                return
            try:
                self.change(queue)
            except MemoryError:  # all stores are where they were
                self.lead, self.changes = 0.0, self.changes + 1

    def change(self, queue: Queue) -> None:
        """Wait for everything, and go on on the other side."""
        to = "host" if queue.runtime is self.device else "device"
        queue.fence(f"the program goes on on the {to}")
        announce("runtime")  # before: who knows nothing is right on both sides, if an interrupt comes
        if to == "device":
            queue.stores.move(self.device)
        else:
            self.host = self.host or make("local")
            queue.stores.move(self.host)
        self.lead, self._limit = 0.0, 0.0
        self.changes += 1
        self._copies, self._bytes = copies()
        trace.counters[f"to the {to}"] += 1
        trace.event("side", f"goes on on the {to}")
        queue._begin_epoch()


def copies() -> tuple[int, int]:
    """The copies between host and device so far, and their bytes."""
    counters = trace.counters
    return (counters["uploads"] + counters["downloads"],
            counters["bytes uploaded"] + counters["bytes downloaded"])

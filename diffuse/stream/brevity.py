"""Programs that read a value after every few operations, which NumPy does sooner than they can be waited for.

To record a task and to run it again costs some 2 us of the program, each kernel's launch 12 and a wait some
65; and NumPy takes a microsecond for a call and another for each 80 KB that it reads and writes, of which
fusion spares all but the largest task of a kernel at best.  So operations between two values that the program
reads are sooner done at once where they are few and small, or where they fuse so little that their launches
cost more than that spares.  A library that can do that learns it from here: after a few such
waits in a row it may read and write so many bytes at once (`allowed`) between two values that the program
reads.  What exceeds them is recorded, and then the program has to wait so again.
"""

from __future__ import annotations

from collections.abc import Callable

from diffuse.ir import ITEMSIZE
from diffuse.ir.template import Template
from diffuse.stream.waits import MANY, size
from diffuse.stream.window import Window, opaque

LONGEST = 64
"""Tasks of a chain that is looked at."""
OFTEN = 4
"""Waits in a row after which operations are done at once."""
MICROSECOND = 80_000
"""Bytes that NumPy reads and writes meanwhile."""
WAIT, TASK, LAUNCH = 65.0, 0.7, 12.0
"""Microseconds: of a wait with one launch, on a machine that has other work, too; of a task, beyond what
NumPy's call takes; of each other launch."""
RUNNING = ("cumsum", "cumprod")
ROOM = 1_500_000
"""Bytes that operations between two values may take more than those did that were waited for."""


class Brevity:
    """How often in a row the program waited for few and small operations."""

    __slots__ = ("often", "most", "listener")

    def __init__(self) -> None:
        self.often = 0
        self.most = 0
        """Bytes of the longest of these chains, calls included."""
        self.listener: Callable[[int], bool] | None = None
        """What a library does when it may read and write so many bytes at once: none, if the number is 0.
        True if it exceeded what it was given."""

    def note(self, window: Window, idle: bool) -> None:
        """Note that the program waits for what a window holds; `idle`: and for nothing else."""
        if self.listener is None:
            return
        if not window.held:
            if self.often >= OFTEN and not self.listener(-1):
                self._allow()
            return
        cost = brief(window) if idle else 0
        if cost and not (self.often >= OFTEN and self.listener(-1)):
            self.often += 1
            self.most = max(self.most, cost)
            if self.often == OFTEN:
                self._allow()
        elif self.often:
            self.forget()

    def _allow(self) -> None:
        if self.listener is not None:
            self.listener(self.most + self.most // 4 + ROOM)

    def forget(self) -> None:
        """Record everything again, until the program has waited so often once more."""
        if self.listener is not None and self.often >= OFTEN:
            self.listener(0)
        self.often = self.most = 0


def brief(window: Window) -> int:
    """What NumPy reads and writes in the time that it takes for the tasks of a window, if it is sooner done
    with them than these can be waited for; else 0.  Host functions take as long in any case."""
    tasks = window.held
    if tasks > LONGEST:
        return 0
    used = spared = launches = 0
    for group in (*window.closed, window.open):
        sizes = [bytes_of(task[0]) for task in group.recorded]
        if sizes:
            if max(sizes) >= MANY:
                return 0
            used += sum(sizes)
            spared += sum(sizes) - max(sizes)
            launches += 1
    costs = WAIT + TASK * tasks + LAUNCH * (launches - 1)
    return used + tasks * MICROSECOND if spared <= costs * MICROSECOND else 0


def bytes_of(made: Template) -> int:
    """Bytes that a task reads and writes, very many if NumPy may not do it (waits.size)."""
    if opaque(made):
        return 0
    if made.operation.startswith(RUNNING) and made.signature[0][0] in "iu":  # NumPy's bits, not so of floats
        return made.elements * sum([ITEMSIZE[use.dtype] for use in made.uses])
    return size(made)

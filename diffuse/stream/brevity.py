"""Finds programs that read a value after every few operations, which NumPy computes sooner than a wait takes.

Recording a task again costs the program some 2 us, launching a kernel 12 and waiting some 65.  NumPy takes 1
us for a call and another for each 80 KB that it reads and writes; at best, fusion spares all of these bytes
but those of the largest task of each loop.  So the operations between two values that the program reads are
done sooner at once where they are few and small, or where they fuse so little that launches cost more than
fusion spares.

After a few such waits in a row a library may read and write a number of bytes at once (`allowed`) between two
values that the program reads.  Operations that exceed it are recorded, and the counting of waits begins anew.
"""

from __future__ import annotations

from collections.abc import Callable

from diffuse.ir import ITEMSIZE
from diffuse.ir.template import Template
from diffuse.stream.waits import MANY, size
from diffuse.stream.window import Window, opaque

LONGEST = 64
"""The most tasks between two values that are weighed; longer chains are recorded."""
OFTEN = 4
"""The number of such waits in a row after which operations are done at once."""
MICROSECOND = 80_000
"""Bytes that NumPy reads and writes in a microsecond."""
WAIT, TASK, LAUNCH, LOOP = 65.0, 0.7, 12.0, 4.0
"""Microseconds of a wait with one launch, on a machine with other work; of recording a task, beyond what a
call of NumPy's takes; of each further launch; and of each loop of a kernel beyond the first."""
SHARED = 12 << 20
"""The bytes of a task from which on several threads gain more on it than waiting takes."""
RUNNING = ("cumsum", "cumprod")
ROOM = 1_500_000
"""The bytes of an allowance beyond five quarters of the most that operations between two values took."""


class Brevity:
    """Counts how often in a row the program waited for few and small operations."""

    __slots__ = ("often", "most", "listener")

    def __init__(self) -> None:
        self.often = 0
        self.most = 0
        """The most bytes between two of these waits, with `MICROSECOND` for each call."""
        self.listener: Callable[[int], bool] | None = None
        """The function by which a library is told how many bytes it may read and write at once, 0 for none.
        It returns whether the last allowance was exceeded."""

    def note(self, window: Window, idle: bool, alone: bool) -> None:
        """Note that the program waits for the tasks of a window, and if `idle`, for nothing else.

        `alone`: one thread runs them.
        """
        if self.listener is None:
            return
        if not window.held:
            if self.often >= OFTEN and not self.listener(-1):
                self._allow()
            return
        cost = brief(window, alone) if idle else 0
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


def brief(window: Window, alone: bool) -> int:
    """Return the bytes that NumPy would read and write for the tasks of a window, calls included, if it is
    done sooner than a wait for them; else 0.

    `alone`: tasks have one thread, as NumPy's functions have.  Host functions take as long in both cases.
    """
    tasks = window.held
    if tasks > LONGEST:
        return 0
    used = spared = launches = loops = 0
    for group in (*window.closed, window.open):
        sizes = sorted([bytes_of(task[0]) for task in group.recorded])
        if sizes:
            if sizes[-1] >= (MANY if alone else SHARED):
                return 0
            used += sum(sizes)
            spared += sum(sizes[:-max(group.trail.node.loops, 1)])
            launches += 1
            loops += max(group.trail.node.loops - 1, 0)
    costs = WAIT + TASK * tasks + LAUNCH * (launches - 1) + LOOP * loops
    return used + tasks * MICROSECOND if spared <= costs * MICROSECOND else 0


def bytes_of(made: Template) -> int:
    """Return the bytes that a task reads and writes; very many if NumPy may not compute it (waits.size)."""
    if opaque(made):
        return 0
    if made.operation.startswith(RUNNING) and made.signature[0][0] in "iu":  # NumPy's bits, not so of floats
        return made.elements * sum([ITEMSIZE[use.dtype] for use in made.uses])
    return size(made)

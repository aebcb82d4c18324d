"""Finds programs that read a value after every few operations, for which NumPy is faster than recording.

Recording a task again costs the program some 2 us and launching a kernel 12.  Waiting takes some 65, but
whole programs lose about 300 by it.  NumPy takes 1 us for a call and another for each 80 KB that it reads and
writes; at best, fusion saves all of these bytes except those of the largest task of each loop.  So the
operations between two reads by the program are faster when done at once if they are few and small, or if they
fuse so little that launches cost more than fusion saves.

After a few such waits in a row a library may read and write a number of bytes at once (`allowed`) between two
reads by the program.  Operations beyond it are recorded, and the counting of waits starts over.  Of the
operations that a library does not compute so, as their bits are not NumPy's, simple ones count as waited for
alone then.
"""

from __future__ import annotations

from collections.abc import Callable

from diffuse.ir import ITEMSIZE
from diffuse.ir.template import Recorded, Template
from diffuse.kernels.body import operations
from diffuse.stream.group import Group, opaque
from diffuse.stream.waits import BRIEF, MANY, size
from diffuse.stream.window import Window

LONGEST = 64
"""The most tasks between two reads that are considered; longer chains are recorded."""
OFTEN = 4
"""The number of such waits in a row after which operations are done at once."""
MICROSECOND = 80_000
"""Bytes that NumPy reads and writes in a microsecond."""
WAIT, TASK, LAUNCH, LOOP = 300.0, 0.7, 12.0, 4.0
"""Microseconds of a wait with one launch, as whole programs are faster or slower for it; of recording a task,
beyond what a call of NumPy's takes; of each further launch; and of each loop of a kernel beyond the first."""
SHARED = 12 << 20
"""The bytes of a task from which on several threads gain more than waiting costs."""
BROAD = 6 << 20
"""The bytes of a task from which on two threads take half the time of one, beside other such tasks."""
RUNNING = ("cumsum", "cumprod")
ROOM = 1_500_000
"""The allowance in bytes beyond 3/2 of the most that operations between two reads took."""


class Brevity:
    """Counts how often in a row the program waited for few and small operations."""

    __slots__ = ("often", "most", "listener")

    def __init__(self) -> None:
        self.often = 0
        self.most = 0
        """The most bytes between two of these waits, with `MICROSECOND` for each call."""
        self.listener: Callable[[int], bool] | None = None
        """The function that tells a library how many bytes it may read and write at once, 0 for none.  It
        returns whether the last allowance was exceeded."""

    def note(self, window: Window, idle: bool, alone: bool) -> None:
        """Note that the program waits for the tasks of a window and, if `idle`, for nothing else.

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
            if self.often >= OFTEN:
                _alone(window)
        elif self.often >= OFTEN:
            self.forget()
        else:
            self.often = self.most = 0

    def _allow(self) -> None:
        if self.listener is not None:
            self.listener(self.most + self.most // 2 + ROOM)

    def forget(self) -> None:
        """Record everything again, until the program has waited `OFTEN` times again."""
        if self.listener is not None:
            self.listener(0)
        self.often = self.most = 0


def brief(window: Window, alone: bool) -> int:
    """The bytes that NumPy would read and write for the tasks of a window, with an allowance for calls, if
    NumPy is faster than waiting for them; else 0.

    `alone`: tasks have one thread, as NumPy's functions do.  Host functions take the same time either way.
    """
    tasks = window.held
    if tasks > LONGEST:
        return 0
    used = spared = launches = loops = 0
    for group in (*window.closed, window.open):
        if group.recorded:
            largest, whole, fused, shared = sizes_of(group)
            if largest >= (MANY if alone else SHARED):
                return 0
            used += whole
            spared += fused if alone else fused + shared
            launches += 1
            loops += max(group.trail.node.loops - 1, 0)
    costs = WAIT + TASK * tasks + LAUNCH * (launches - 1) + LOOP * loops
    return used + tasks * MICROSECOND if spared <= costs * MICROSECOND else 0


def sizes_of(group: Group) -> tuple[int, int, int, int]:
    """Return the bytes that tasks of a group read and write: the largest task; all tasks; all but as many of
    the largest as the kernel has loops, which fusion spares at best; and half of the broad ones among these
    largest, which a second thread spares.  The group's trail determines its templates, and keeps the
    numbers."""
    trail = group.trail
    if trail.sizes is None:
        sizes = sorted([bytes_of(task[0], fills(task)) for task in group.recorded])
        kept = max(trail.node.loops, 1)
        broad = sum([size for size in sizes[-kept:] if size >= BROAD])
        trail.sizes = sizes[-1], sum(sizes), sum(sizes[:-kept]), broad // 2
    return trail.sizes


def bytes_of(made: Template, fills: bool) -> int:
    """The bytes that a task reads and writes; a very large number if it must not be computed at once
    (waits.size).  `fills`: it is an assignment through a mask, which takes less time than `where`."""
    if opaque(made):
        return 0
    nbytes = made.elements * sum([ITEMSIZE[use.dtype] for use in made.uses])
    whole = made.operation.startswith(RUNNING) and made.signature[0][0] in "iu"  # NumPy's bits
    return nbytes if whole or fills or (nbytes <= BRIEF and simple(made)) else size(made)


def fills(task: Recorded) -> bool:
    """Is a task `x[mask] = number`?"""
    made, stores, *_ = task
    return made.operation == "where" and len(stores) > 2 and stores[-1] == stores[-2]


def simple(made: Template) -> bool:
    """Is an operation of little code that has other bits than NumPy's?  Its machine code runs at once where
    the program waits for it alone (numpy/ops/single.py)."""
    row = operations.find(made.operation) if operations.known(made.operation) else None
    return (row is not None and row.name == made.operation and row.elementwise and row.cost == 1
            and made.signature[0][0] == "c" and not operations.exact(row.name, made.signature[:-1]))


def _alone(window: Window) -> None:
    """Count the simple operations of a window as waited for alone."""
    for group in (*window.closed, window.open):
        for made, *_ in group.recorded:
            if simple(made):
                made.alone = max(made.alone, OFTEN)

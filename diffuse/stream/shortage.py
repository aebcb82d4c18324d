"""What becomes of a group for which there is too little memory: its tasks run one by one.

A fused task allocates all its results before it runs.  If one of them is too large, the others need not be
lost: NumPy, too, computes what comes before an operation for which there is no memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from diffuse.interrupts import of_handler
from diffuse.runtime.base import Fate
from diffuse.stream.group import Group
from diffuse.stream.losses import lose
from diffuse.stream.singly import divided

if TYPE_CHECKING:
    from diffuse.stream.window import Window


def one_by_one(error: MemoryError, taken: list[Group], mark: int, window: Window,
               run: Callable[[Group], None]) -> None:
    """Run the tasks of groups whose launch failed for want of memory one by one.  The results of those that
    fail again, and of those that need them, are lost, and the first of their errors is raised.

    `taken` has the groups, and is empty in the end; `mark` is the runtime's mark before the launch.  Raises
    the error itself if the launch had begun, if there is nothing to divide, and where several ranks have to
    do the same.
    """
    stores, first = window.stores, None
    several = any([len(group.recorded) > 1 for group in taken])
    if not several or window.region is not None or stores.runtime.fate(mark) is not Fate.PENDING:
        raise error
    stores.take_back()
    taken[:] = [one for group in taken for one in divided(window, group)]
    while taken:
        one = taken[0]
        stores.taken = one.number
        try:
            run(one)
        except Exception as failure:
            if of_handler(failure):
                raise
            first = first or failure
            lose(stores, one.tasks, failure)
            taken.remove(one)
    if first is not None:
        raise first

"""Groups that are launched before the window is full, so that the threads run them while the program records.

A closed group waits for the program to drop stores, which are then temporaries.  One that was launched before
for the stores that are live now would gain nothing by waiting longer.  The window is looked at a few times
after such a group was closed; what is launched then is what would have been launched later.

A look costs as much as recording four tasks.  So each trail keeps how many tasks after its groups these were
ready, which a loop repeats, and the looks of later turns search for the first such number by halves.  Groups
of a trail that are never ready in time are looked at in fewer and fewer turns.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from diffuse.stream.liveness import liveness

if TYPE_CHECKING:
    from diffuse.stream.group import Group
    from diffuse.stream.stores import Stores
    from diffuse.stream.window import Window

HEAVY = 2_000_000
"""The least work (operations times elements) of such a group: some 0.1 ms of one thread."""
STEP = 8
"""The tasks after which a closed group is looked at for the first time; then after half as many again."""
PATIENCE = 4
"""Groups of a trail in succession that are looked at although none was ready in time."""
AGAIN = 64
"""Groups that were ready after which to search anew for the first look at which they are."""


class Looks:
    """What is known of the looks at the groups of a trail, by the number of tasks recorded after a group."""

    __slots__ = ("found", "missed", "times", "vain", "group")

    def __init__(self) -> None:
        self.found = 0
        """The last look at which a group was ready; 0: none, or a later one was not ready then."""
        self.missed = 0
        """The last look at which a group was not ready."""
        self.times = 0
        """How many groups were ready."""
        self.vain = 0
        """Groups since the last one that was ready."""
        self.group = -1
        """The number of the last group."""

    def pays(self, group: int) -> bool:
        """Is the group of this number to be looked at?"""
        if self.group != group:
            self.group = group
            self.vain += 1
        return self.vain <= PATIENCE or self.vain & self.vain - 1 == 0

    def after(self, since: int) -> int:
        """The tasks after which to look next, if so many were recorded after the group."""
        for look in ((self.missed + self.found + 1) // 2, self.found):
            if since < look <= self.found:
                return look - since
        return max(STEP, since // 2)

    def note(self, since: int, ready: bool) -> None:
        """Keep whether a group was ready after so many tasks."""
        if ready:
            self.found, self.vain = since, 0
            self.times += 1
            if self.missed >= since or self.times % AGAIN == 0:
                self.missed = 0
        else:
            self.missed = since
            if since >= self.found:
                self.found = 0


def waits(group: Group, stores: Stores) -> bool:
    """Is a closed group worth an early launch, as soon as its stores are those of the last one?

    Not one that may run as one pass with the next group (pairs.py), and not on several ranks, which would
    have to decide alike.
    """
    trail, runtime = group.trail, stores.runtime
    if trail.live is None or trail.plans is None or runtime.ranks > 1 or not runtime.addressed:
        return False
    plan = trail.plans.get(trail.live)
    if plan is None or plan.kernel is None or plan.rowwise or plan.kernel.native is None:
        return False
    replay = trail.replays.get(plan)
    return replay is not None and bool(replay.work >= HEAVY)


def ready(window: Window) -> bool:
    """Are the stores of the oldest closed group, whose launch may come early, live as in the last one?"""
    group, stores = window.closed[0], window.stores
    if not waits(group, stores):
        return False
    looks = _looks(group)
    if not looks.pays(group.number):
        return False
    found = _live_as_before(group, stores)
    looks.note(_since(window), found)
    return found


def _live_as_before(group: Group, stores: Stores) -> bool:
    """Are the stores of a group live as in the last one of its trail?

    The store that was not at the last look, at this group or at one like it, is asked first: most looks end
    with it.
    """
    before, slot = group.trail.live, group.trail.unlike
    assert before is not None
    if slot >= 0:
        if group.unlike[0] != slot:
            group.unlike = slot, next(islice(group.slots, slot, None))
        store = group.unlike[1]
        if (store in stores.alive or stores.users[store] > group.number) != before[slot]:
            return False
    found = liveness(group, stores, group.number)
    if found == before:
        return True
    group.trail.unlike = next(slot for slot in group.slots.values() if found[slot] != before[slot])
    return False


def next_look(window: Window) -> int:
    """The number of tasks held at which the queue should look at the window next: soon, if the oldest closed
    group may be launched early; else when the window is full."""
    if not window.closed or window.region is not None or not waits(window.closed[0], window.stores):
        return window.limit
    group = window.closed[0]
    looks = _looks(group)
    if not looks.pays(group.number):
        return window.limit
    return min(window.limit, window.held + looks.after(_since(window)))


def _looks(group: Group) -> Looks:
    """What is known of the looks at groups of the same trail."""
    found: Looks | None = group.trail.looks
    if found is None:
        found = group.trail.looks = Looks()
    return found


def _since(window: Window) -> int:
    """The number of tasks that are held after the oldest closed group."""
    return window.held - len(window.closed[0].recorded)

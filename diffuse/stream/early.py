"""Groups that are launched before the window is full, so that the threads run them while the program records.

A closed group waits for the program to drop stores, which are then temporaries.  One that was launched before
for the stores that are live now would gain nothing by waiting longer.  The window is looked at a few times
after such a group was closed; what is launched then is what would have been launched later.
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


def ready(group: Group, stores: Stores) -> bool:
    """Are the stores of a group, whose launch may come early, live as in the last one?

    The store that was not at the last look, at this group or at one like it, is asked first: most looks end
    with it.
    """
    if not waits(group, stores):
        return False
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
    since = window.held - len(window.closed[0].recorded)
    return min(window.limit, window.held + max(STEP, since // 2))

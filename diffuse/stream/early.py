"""Groups that are launched before the window is full, so that the threads run them while the program records;
and which stores of a group are live, on which that depends.

A closed group waits for the program to drop stores, which are then temporaries.  One that was launched before
for the stores that are live now would gain nothing by waiting longer.  The window is looked at a few times
after such a group was closed; what is launched then is what would have been launched later.

A group has about as many stores as tasks, and is asked for them whenever it is forwarded.  Where there is the
extension, compiled code answers (`connect`).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from diffuse.stream.group import Group
    from diffuse.stream.stores import Stores
    from diffuse.stream.window import Window

HEAVY = 2_000_000
"""The least work (operations times elements) of such a group: some 0.1 ms of one thread."""
STEP = 8
"""The tasks after which a closed group is looked at for the first time; then after half as many again."""


def live_bits(slots: Mapping[int, int], alive: set[int], users: Mapping[int, int], taken: int) -> bytes:
    """For each store of these slots, whether it is live once groups up to the number `taken` are taken: the
    program holds it, or a later group uses it."""
    return bytes([store in alive or users[store] > taken for store in slots])


def unreferenced(done: Iterable[int], alive: set[int], users: Mapping[int, int], taken: int,
                 instances: Container[int]) -> tuple[list[int], list[int]]:
    """Those of these stores that neither the program nor a group after the number `taken` refers to, and
    those among them that have memory."""
    gone = [store for store in done if store not in alive and users.get(store, 0) <= taken]
    return gone, [store for store in gone if store in instances]


def forget(table: dict[int, Any], stores: Iterable[int]) -> None:
    """Remove these stores from a table that has some of them."""
    for store in stores:
        table.pop(store, None)


bits: Callable[[dict[int, int], set[int], dict[int, int], int], bytes] = live_bits
"""`live_bits`, or the same in C."""
ended: Callable[[set[int], set[int], dict[int, int], int, dict[int, Any]],
                tuple[list[int], list[int]]] = unreferenced
"""`unreferenced`, or the same in C."""
drop: Callable[[dict[int, Any], list[int]], None] = forget
"""`forget`, or the same in C."""


def connect(compiled: Any) -> None:
    """Take the functions of the extension in place of those above."""
    global bits, ended, drop
    bits, ended, drop = compiled.live_bits, compiled.unreferenced, compiled.forget


def liveness(group: Group, stores: Stores, taken: int) -> bytes:
    """For each store of a group, whether it is live once groups up to this number are taken."""
    return bits(group.slots, stores.alive, stores.users, taken)


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
    """Are the stores of a group, whose launch may come early, live as in the last one?"""
    return waits(group, stores) and liveness(group, stores, group.number) == group.trail.live


def next_look(window: Window) -> int:
    """The number of tasks held at which the queue should look at the window next: soon, if the oldest closed
    group may be launched early; else when the window is full."""
    if not window.closed or window.region is not None or not waits(window.closed[0], window.stores):
        return window.limit
    since = window.held - len(window.closed[0].recorded)
    return min(window.limit, window.held + max(STEP, since // 2))

"""Which stores of a group are live, and which of those that launched tasks used are not referenced any more.

A group has about as many stores as tasks, and is asked for them whenever it is forwarded.  Where there is the
extension, compiled code answers (`connect`).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from diffuse.stream.group import Group
    from diffuse.stream.stores import Stores


def live_bits(slots: Mapping[int, int], alive: set[int], users: Mapping[int, int], taken: int) -> bytes:
    """For each store of these slots, is it live once groups up to the number `taken` are taken?  The program
    holds a live store, or a later group uses it."""
    return bytes([store in alive or users[store] > taken for store in slots])


def unreferenced(done: Iterable[int], alive: set[int], users: Mapping[int, int], taken: int,
                 instances: Container[int]) -> tuple[list[int], list[int]]:
    """Find the stores that neither the program nor a group after the number `taken` refers to, and those
    among them that have memory."""
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

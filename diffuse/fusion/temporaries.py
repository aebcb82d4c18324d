"""Finds the stores that exist only inside a fusible prefix (papers/003, section 5.1).

A temporary is written by the prefix and used by nothing else: every read of it finds what its own point wrote
earlier in the prefix, no pending task reads or reduces it, and the program holds no reference to it.  A store
that is only written and then dropped is one, too.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from diffuse.ir import Access, IndexTask, Point, Privilege, Relation, covers, relation


def temporaries(prefix: Sequence[IndexTask], pending: Iterable[IndexTask] = (),
                live: Container[int] = ()) -> set[int]:
    """The ids of the stores that vanish when `prefix` becomes one task and only `pending` and `live`
    remain."""
    complete: dict[int, list[Access]] = {}
    written: set[int] = set()
    visible: set[int] = set()
    for task in prefix:
        # all reads of a task precede its writes: an in-place update reads the previous contents
        writes = []
        for access in task.accesses:
            id, privilege = access[0][0], access[2]
            if privilege is Privilege.REDUCE:
                visible.add(id)
                continue
            if privilege is not Privilege.READ:
                writes.append(access)
            if privilege is not Privilege.WRITE and id not in visible:
                if not _inside(complete.get(id, ()), access, task.domain):
                    visible.add(id)
        for access in writes:
            id = access[0][0]
            written.add(id)
            if covers(access):
                complete.setdefault(id, []).append(access)
    for task in pending:
        visible.update(a.store.id for a in task.accesses if a.privilege is not Privilege.WRITE)
    return {id for id in written - visible if id not in live}


def results(tasks: Sequence[IndexTask]) -> set[int]:
    """Ids of the stores that no task reads behind the last one that writes them."""
    read: set[int] = set()
    found: set[int] = set()
    for task in reversed(tasks):
        found.update(a.store.id for a in task.accesses if a.privilege is not Privilege.READ
                     and a.store.id not in read)
        read.update(a.store.id for a in task.accesses if a.privilege is not Privilege.WRITE)
    return found


def _inside(complete: Sequence[Access], read: Access, domain: Point) -> bool:
    """Does each point read only what it wrote itself, by a write without gaps?"""
    return bool(complete) and all(
        relation(write, read, domain) in (Relation.SAME, Relation.ALIGNED) for write in complete)

"""Tasks, windows and refusals as text, one line per task: the same in traces, golden files and bug reports.

    add[4]  %0@2+0:R, %0@2+1:R, %1@2+0:W
    copy[4] %1@2+0:R, %0@2+1:W
    -- copy stays out: anti-dependence on store 0@2+1

An access is `%store@partition:privilege`; a partition names, for each dimension of the store, the tile and
where the first one starts (`2+1`), or the slice that every point sees (`0:4`).  Rows of `canonical` print
without any extent: `%slot.view` in place of the store and its partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from diffuse.ir import Access, IndexTask, Partition, Privilege, Replicated, Store, Tiling


def partition_text(partition: Partition, store: Store) -> str:
    """`2+0`: tiles of 2 from 0; `2+1<9`: ending before the store does; `-2+6`: running backwards;
    `2p1+0`: cut by launch dimension 1; `4/2+0`: elements two apart; `2^4+0`: tiles that reach over 4;
    `0:3`: not cut."""
    if isinstance(partition, Replicated):
        return ""
    return "@" + ",".join(_dimension(partition, d, size) for d, size in enumerate(store.shape))


def _dimension(partition: Tiling, d: int, size: int) -> str:
    tile, start, stride = partition.tile[d], partition.offset[d], partition.stride[d]
    dim, weight, _ = partition.projection.coordinates[d]
    low, high = partition.bounds[d]
    step = f"/{stride}" if stride != 1 else ""
    if not weight:
        return f"{low}:{high}{step}"
    sign = {1: "", -1: "-"}.get(weight, f"{weight}*")
    axis = f"p{dim}" if dim else ""
    reach = f"^{partition.extent[d]}" if partition.extent[d] != tile else ""
    end = f"<{high}" if high != size else ""
    return f"{sign}{tile}{axis}{step}{reach}+{start}{end}"


def store_text(access: Access) -> str:
    """The store of an access and the part of it that is accessed: `0@2+1`."""
    return f"{access.store.id}{partition_text(access.partition, access.store)}"


def access_text(access: Access) -> str:
    return f"%{store_text(access)}:{_privilege(access.privilege, access.operator)}"


def head_text(task: IndexTask) -> str:
    """Operation and launch domain: `add[4]`."""
    return f"{task.operation}[{'x'.join(map(str, task.domain))}]"


def task_text(task: IndexTask) -> str:
    """One task on one line, with its scalars and its line of the program if it has them."""
    return window_text([task])


def window_text(window: Sequence[IndexTask], refusal: object = None) -> str:
    """A window, one line per task; below it why the next task stayed out, if one did."""
    heads = [head_text(task) for task in window]
    width = max(map(len, heads), default=0)
    lines = [f"{head:{width}} {_arguments(task)}" for head, task in zip(heads, window, strict=True)]
    return "\n".join(lines if refusal is None else [*lines, f"-- {refusal}"])


def refusal_text(constraint: str, earlier: IndexTask, later: IndexTask, access: Access | None = None) -> str:
    """Describe a refusal: the task that stays out of a group, the constraint, the store, and both source
    lines."""
    where = f" on store {store_text(access)}" if access is not None else ""
    same = access is None and earlier.domain != later.domain
    names = [head_text(t) if same else t.operation for t in (earlier, later)]
    lines = [f" ({task.where})" if task.where is not None else "" for task in (earlier, later)]
    blame = f", {names[0]}{lines[0]} then {names[1]}{lines[1]}" if same or any(lines) else ""
    return f"{later.operation} stays out: {constraint}{where}{blame}"


def key_text(key: tuple[Any, ...]) -> str:
    """A key of `canonical` as text, which contains no extents and so is the same at every size.

    A view that appears for the first time is described in brackets: element type, stride classes, relations
    (of one that is written to the slot's views so far and to itself, of one that is read to the written
    ones), `frame` if it sees the memory in another shape, `covers` if it is the whole store.  A view that is
    read first and written later gets its relations then.
    """
    rows, live = key
    lines = [row_text(row) for row in rows]
    return "\n".join([*lines, "live: " + (" ".join(f"%{s}" for s, bit in enumerate(live) if bit) or "none")])


def row_text(row: tuple[Any, ...]) -> str:
    operation, signature, space, place, scalars = row[:5]
    domain = "=" if place is True else "x".join("1" if one else "p" for one in place)
    known = isinstance(space, int)
    over = f"space {space}" if known else f"new space of rank {space[0]} cut along {_tuple(space[1])}"
    over += "" if known or len(space) == 2 else ", flat"
    arguments = [f"{dtype}@{position}" for position, dtype in scalars]
    for slot, view, privilege, operator in zip(*(row[k::4] for k in range(5, 9)), strict=True):
        arguments.append(f"%{slot}.{_view(view)}:{_privilege(privilege, operator)}")
    return f"{operation}({_tuple(signature)})[{domain}] in {over}: {', '.join(arguments)}"


def _view(view: Any) -> str:
    if isinstance(view, int):
        return str(view)
    if len(view) == 2:
        return f"{view[0]}[{_relations(*view)}]"
    number, dtype, classes, relations, first, covers = view
    words = [dtype, classes or "-"]
    words += [_relations(number, relations)] if relations else []
    words += [] if first else ["frame"]
    words += ["covers"] if covers else []
    return f"{number}[{' '.join(words)}]"


def _relations(number: int, relations: Iterable[tuple[int, Any]]) -> str:
    return "/".join(r.value if k == number else f"{r.value} {k}" for k, r in relations)


def _privilege(privilege: Privilege, operator: str | None) -> str:
    return f"{privilege.value}({operator})" if operator else privilege.value


def _arguments(task: IndexTask) -> str:
    parts = [access_text(access) for access in task.accesses]
    parts += [f"{scalar.dtype}({scalar.value!r})" for scalar in task.scalars]
    return ", ".join(parts) + (f"  # {task.where}" if task.where is not None else "")


def _tuple(values: Iterable[object]) -> str:
    return ",".join(map(str, values))

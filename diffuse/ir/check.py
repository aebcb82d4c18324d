"""Checks that a task is well formed, by a table of named rules, each of which returns an error message or
None.

Later code relies on these checks: the constraints of `fusion` are sound only for tasks that pass (equal
partitions imply point-wise dependence only if writes are disjoint over the points).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from diffuse.ir import (
    ONE,
    Access,
    AccessMap,
    IndexTask,
    Privilege,
    Relation,
    Replicated,
    Scalar,
    Split,
    Store,
    Tiling,
    disjoint,
    relation,
    tiling,
)
from diffuse.ir.task import WHOLE
from diffuse.ir.text import access_text, head_text, partition_text

Rule = Callable[[IndexTask], str | None]


def check(task: IndexTask) -> None:
    """Raise TypeError or ValueError, naming thing, rule and next step, unless `task` is well formed.

    A task without a decomposition is checked as one point would run it.
    """
    for name, rule in RULES.items():
        if name == "partition":  # its maps have been checked by now
            task = divided(task)
        sentence = rule(task)
        if sentence is not None:
            where = f" ({task.where})" if task.where is not None else ""
            raise (TypeError if name in TYPE_RULES else ValueError)(f"{name}: {sentence}{where}")


def divided(task: IndexTask) -> IndexTask:
    """The task with the partitions that follow from its decomposition, where accesses have none of their own.
    Without a decomposition it runs on one point."""
    decomposition = task.decomposition or ONE
    accesses = tuple([
        access if access.partition is not WHOLE
        else access._replace(partition=tiling(access.store, access.map, task.shape, decomposition.splits))
        for access in task.accesses])
    return task._replace(decomposition=decomposition, accesses=accesses)


def _parts(task: IndexTask) -> str | None:
    for noun, value, kind in _typed(task):
        if not isinstance(value, kind):
            expected = " or ".join(k.__name__ for k in kind)
            return f"{noun} {value!r} of task {task.operation!r} is no {expected}: build it with diffuse.ir"
    return None


def _typed(task: IndexTask) -> Iterator[tuple[str, object, tuple[type, ...]]]:
    """The parts of a task with their expected types."""
    for split in () if task.decomposition is None else task.splits:
        yield "split", split, (Split,)
    for scalar in task.scalars:
        yield "scalar", scalar, (Scalar,)
    for access in task.accesses:
        yield "access", access, (Access,)
        yield "store", access.store, (Store,)
        yield "map", access.map, (AccessMap,)
        yield "partition", access.partition, (Replicated, Tiling)
        yield "privilege", access.privilege, (Privilege,)


def _signature(task: IndexTask) -> str | None:
    have = len(task.accesses) + len(task.scalars)
    if len(task.signature) != have:
        return (f"task {task.operation!r} names {len(task.signature)} element types for {len(task.accesses)} "
                f"accesses and {len(task.scalars)} scalars: give one for each of the {have}")
    return None


def _extents(task: IndexTask) -> str | None:
    domain = (1,) if task.decomposition is None else task.domain
    for noun, extents in (("iteration space", task.shape), ("launch domain", domain)):
        if any(n < 1 for n in extents):
            return f"{noun} {extents} of task {task.operation!r} is empty: issue no task for no elements"
    return None


def _splits(task: IndexTask) -> str | None:
    if task.decomposition is None:
        return None
    if len(task.splits) != len(task.domain):
        return (f"task {head_text(task)} has {len(task.splits)} splits for {len(task.domain)} launch "
                "dimensions: give one each, Split(-1, 0) where nothing is cut")
    for d, (axis, tile, begin) in enumerate(task.splits):
        if not -1 <= axis < len(task.shape):
            return (f"split {d} of task {head_text(task)} cuts axis {axis} of shape {task.shape}: "
                    "name an axis of it")
        if axis >= 0 and axis in [other.axis for other in task.splits[:d]]:
            return (f"splits of task {head_text(task)} cut axis {axis} twice: "
                    "give each launch dimension its own")
        if begin is not None and not (axis >= 0 and 0 < tile - begin
                                      and (task.domain[d] - 1) * tile - begin < task.shape[axis]):
            return (f"split {d} of task {head_text(task)} leaves points without indices of axis {axis}: "
                    f"tiles of {tile} from {-begin} on must have their cuts within it")
        if begin is None and axis >= 0 and (tile < 1 or tile * task.domain[d] < task.shape[axis]):
            return (f"split {d} of task {head_text(task)} leaves out indices of axis {axis}: "
                    f"{task.domain[d]} tiles of {tile} must reach {task.shape[axis]}")
    return None


def _dimensions(task: IndexTask) -> str | None:
    for access in task.accesses:
        rows = access.map.rows
        if len(rows) != len(access.store.shape):
            return (f"map of store {access.store.id} has {len(rows)} rows for {len(access.store.shape)} "
                    "dimensions: give one row each")
        for _, terms in rows:
            named = [k for k, _ in terms]
            if any(not 0 <= k < len(task.shape) for k in named):
                return (f"map of store {access.store.id} follows dimensions {named} of an iteration space of "
                        f"rank {len(task.shape)}: name its dimensions from 0")
            if len(set(named)) != len(named) or any(step == 0 for _, step in terms):
                return (f"map of store {access.store.id} has a row with terms {terms}: give each dimension "
                        "once, and none with step 0")
    return None


def _inside(task: IndexTask) -> str | None:
    for access in task.accesses:
        for d, ((offset, terms), size) in enumerate(zip(access.map.rows, access.store.shape, strict=True)):
            ends = [step * (task.shape[k] - 1) for k, step in terms]
            low, high = offset + sum(min(0, e) for e in ends), offset + sum(max(0, e) for e in ends)
            if low < 0 or high >= size:
                return (f"map of store {access.store.id} reaches {low} to {high} in dimension {d} of extent "
                        f"{size}: keep the view within its store")
    return None


def _partitions(task: IndexTask) -> str | None:
    for access in task.accesses:
        expected = tiling(access.store, access.map, task.shape, task.splits)
        if access.partition != expected:
            text = partition_text(expected, access.store) or "Replicated"
            return (f"access {access_text(access)} of task {head_text(task)} is not split as the task is: "
                    f"expected {text}, as ir.tiling gives it")
    return None


def _operators(task: IndexTask) -> str | None:
    for access in task.accesses:
        if (access.privilege is Privilege.REDUCE) != (access.operator is not None):
            return (f"access {access_text(access)} has privilege {access.privilege.name} and operator "
                    f"{access.operator!r}: a REDUCE, and only a REDUCE, names its operator")
    return None


def _scalars(task: IndexTask) -> str | None:
    inputs = sum(a.privilege is Privilege.READ for a in task.accesses) + len(task.scalars)
    positions = [s.position for s in task.scalars]
    if len(set(positions)) != len(positions) or any(not 0 <= p < inputs for p in positions):
        return (f"scalars of task {task.operation!r} stand at positions {positions} of {inputs} inputs: "
                "give each a position of its own")
    return None


def _order(task: IndexTask) -> str | None:
    output = False
    for access in task.accesses:
        if access.privilege is not Privilege.READ:
            output = True
        elif output:
            return (f"task {task.operation!r} reads {access_text(access)} after an output: "
                    "list the inputs first")
    return None


def _data(task: IndexTask) -> str | None:
    for access in task.accesses:
        turned = access.map.turned
        if turned and access.privilege is not Privilege.READ:
            return (f"task {head_text(task)} writes {access_text(access)}, which is shifted along the "
                    f"dimensions {[k for k, _ in turned]}: only reads may be")
        if any(not 0 <= k < len(task.shape) or n != task.shape[k] for k, n in turned):
            return (f"map of store {access.store.id} is shifted along {turned}: name dimensions of the "
                    f"iteration space {task.shape}, each with its extent")
        if access.map.free and access.privilege is not Privilege.READ:
            return (f"task {head_text(task)} writes {access_text(access)}, whose coordinates "
                    f"{access.map.free} are data: only reads may gather")
        if any(not 0 <= d < len(access.map.rows) or access.map.rows[d][1] for d in access.map.free):
            return (f"map of store {access.store.id} leaves dimensions {access.map.free} to data: name "
                    "dimensions of the store, in rows without terms")
    return None


def disjoint_writes(task: IndexTask) -> str | None:
    """No two points may write one element: a precondition that the paper leaves to the runtime."""
    for access in task.accesses:
        if access.privilege.writes and not disjoint(access.partition, task.domain):
            return (f"task {head_text(task)} writes {access_text(access)}, whose tiles are not disjoint: "
                    "split along a dimension that the output follows, or REDUCE")
    return None


def injective_writes(task: IndexTask) -> str | None:
    """An output must write different elements at different indices of the dimensions that it follows.  Then
    iterations of one point that share a map share elements only if they are equal, and loops over them may
    fuse."""
    for access in task.accesses:
        if access.privilege is Privilege.READ:
            continue
        for d, (_, terms) in enumerate(access.map.rows):
            span = 0
            for step, n in sorted((abs(step), task.shape[k]) for k, step in terms if task.shape[k] > 1):
                if step <= span:
                    return (f"task {head_text(task)} writes elements of store {access.store.id} more than "
                            f"once along dimension {d}: write to a copy of the overlapping view")
                span += step * (n - 1)
    return None


def _overlaps(task: IndexTask) -> str | None:
    harmless = (Relation.SAME, Relation.APART)
    for i, output in enumerate(task.accesses):
        if output.privilege is Privilege.READ:
            continue
        for other in task.accesses[:i]:
            if other.store.id != output.store.id or relation(other, output, task.domain) in harmless:
                continue
            verb = "reads" if other.privilege is Privilege.READ else "writes"
            return (f"task {head_text(task)} {verb} {access_text(other)} and writes {access_text(output)}, "
                    "which overlap: copy one of them first")
    return None


RULES: dict[str, Rule] = {
    "parts": _parts,
    "signature": _signature,
    "extents": _extents,
    "splits": _splits,
    "map dimensions": _dimensions,
    "data": _data,
    "map inside store": _inside,
    "partition": _partitions,
    "operator": _operators,
    "inputs first": _order,
    "scalar positions": _scalars,
    "disjoint writes": disjoint_writes,
    "injective writes": injective_writes,
    "overlap": _overlaps,
}
"""The rules in the order of their application; a later one may rely on an earlier one."""

TYPE_RULES = frozenset({"parts"})
"""Rules whose violation is a TypeError; all others raise ValueError."""

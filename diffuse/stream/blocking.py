"""Cache blocking: the loops of a fused task take turns on pieces of their rows that stay in a core's cache.

Each point of a launch runs the loops of its kernel one after another over all of its rows.  Data that the
first loop writes and the second one reads goes through memory in between, if it exceeds the cache.  A launch
of more points, of fewer rows each, is the same computation: whether a group is fusible over several points
does not depend on their number of rows, if all of its loops are cut alike.  So a softmax goes once through
memory: the maximum of a few rows, their exponentials and sums, and the quotients.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from diffuse.ir import ITEMSIZE, IndexTask
from diffuse.ir.loops import ROWS, SEGMENT
from diffuse.kernels.body import abi
from diffuse.kernels.body.compose import Composition

CACHE = 1 << 19
"""The bytes that a piece accesses: half of a common second-level cache."""
LEAST = 1 << 12
"""The least iterations of a piece, so that entering the loops costs little in comparison."""


Tasks = Mapping[int, IndexTask] | Sequence[IndexTask]
"""The tasks of a group, or those among them that determine a launch (`Plan.telling`), by their numbers."""


def pieces(composition: Composition, tasks: Tasks) -> tuple[int, int] | None:
    """The number of pieces and the rows of each, for a launch of several points with one launch dimension;
    None if the loops cannot take turns, or need not."""
    body = composition.body
    main = body.loops[:len(body.loops) - body.epilogue]
    domain = tasks[0].domain
    if len(main) < 2 or len(domain) != 1 or domain[0] < 2:
        return None
    cut = [tasks[composition.spaces[space]] for space in {loop.space for loop in main}]
    splits = [task.splits[0] for task in cut]
    tile = splits[0].tile
    if any([split.axis < 0 or split.tile != tile for split in splits]) or not _rows_apart(composition, tasks):
        return None
    lengths = [task.shape[split.axis] for task, split in zip(cut, splits, strict=True)]
    leaves = len(abi.reductions(body)) > len(body.whole)
    last = any([split.axis == len(task.shape) - 1 for task, split in zip(cut, splits, strict=True)])
    unit = SEGMENT if last else ROWS if leaves else 1
    iterations = max([prod(task.shape) // n for task, n in zip(cut, lengths, strict=True)])
    rows = max(CACHE // max(_row_bytes(composition, tasks), 1), -(-LEAST // iterations))
    rows = max(rows // unit, 1) * unit
    if rows >= tile:
        return None
    count = -(-tile // rows)
    rows = -(-tile // count // unit) * unit  # of about equal length
    ends = [n + (split.begin or 0) for n, split in zip(lengths, splits, strict=True)]
    return -(-max(ends) // rows), rows


def _rows_apart(composition: Composition, tasks: Tasks) -> bool:
    """Are the rows of everything that the kernel writes disjoint?  They would overlap if a store coordinate
    depended on the rows and another dimension."""
    arguments = composition.body.arguments
    written = {a.slot for a in arguments if a.privilege.writes}
    for argument, (number, position) in zip(arguments, composition.arguments, strict=True):
        task = tasks[number]
        axis, rows = task.splits[0].axis, task.accesses[position].map.rows
        if argument.slot in written and any(
                len(terms) > 1 and any(k == axis for k, _ in terms) for _, terms in rows):
            return False
    return True


def _row_bytes(composition: Composition, tasks: Tasks) -> int:
    """The bytes of all stores that one row of the loops accesses."""
    found: dict[int, int] = {}
    for argument, (number, _) in zip(composition.body.arguments, composition.arguments, strict=True):
        shape, axis = tasks[number].shape, tasks[number].splits[0].axis
        if len(argument.classes) > axis >= 0 and argument.classes[axis] != "0":
            elements = prod([n for d, n in enumerate(shape) if d != axis and argument.classes[d] != "0"])
            found[argument.slot] = max(found.get(argument.slot, 0), elements * ITEMSIZE[argument.dtype])
    return sum(found.values())

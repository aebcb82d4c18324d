"""Layouts of arrays and operators on a mesh: for each axis of the mesh a dimension, a loop, or nothing.

A mesh has axes of sizes whose product is the number of ranks.  A *layout* of an array names for each axis
the dimension that it cuts, or -1: along that axis the array is repeated.  An *assignment* of an operator
names for each axis the loop that it cuts, or -1: along that axis the work is repeated.  Axes commute: a
dimension that two axes cut is cut into as many blocks as their sizes' product, and a rank's block is told by
its two coordinates, in whatever order the axes were chosen, as papers/002's recursion supposes.

Along an axis with `PENDING` ranks hold terms of a sum that is still to be added up.  Whatever an operator
writes there is one term more.  An operator that is linear in an operand may run on the terms of that operand
(`of_terms`), with terms of its own result.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from math import prod

from diffuse.ir import Point
from diffuse.spec.opspec import Indexing, OpSpec

Layout = tuple[int, ...]
Mesh = tuple[int, ...]
"""The sizes of the axes of a mesh."""
PENDING = -2
"""Along an axis: each rank holds a term of the sum that the array is."""


def of_terms(operand: int) -> int:
    """The entry of an assignment for an axis along which an operator runs on the terms of one operand."""
    return PENDING - operand


def choices(extents: Point, mesh: Mesh, repeats: bool = True, candidates: Iterable[int] | None = None,
            terms: Sequence[int] = ()) -> list[Layout]:
    """All assignments of the axes of a mesh to dimensions, or loops, of these extents; none is cut into more
    parts than it has indices.  `repeats` allows axes without one; `candidates` are those that may be cut, and
    `terms` what else axes may have, `PENDING` and `of_terms`.  If nothing can be cut on every axis, the one
    assignment that cuts nothing is returned."""
    dimensions = list(range(len(extents)) if candidates is None else candidates)
    found = [layout for layout in product([*dimensions, *([-1] if repeats else []), *terms],
                                                 repeat=len(mesh))
             if all(parts(layout, mesh, d) <= extents[d] for d in dimensions)]
    return found or choices(extents, mesh, True, dimensions, terms)


def parts(layout: Layout, mesh: Mesh, dimension: int) -> int:
    """The number of parts into which a layout cuts a dimension."""
    return prod(size for axis, size in zip(layout, mesh, strict=True) if axis == dimension)


def followed(use: Indexing, loop: int) -> int:
    """The dimension of an operand that a loop cuts; -1 if there is none, or several."""
    found = [d for d, (_, terms) in enumerate(use.map.rows) if any(k == loop for k, _ in terms)]
    return found[0] if len(found) == 1 else -1


def seen(use: Indexing, assignment: Layout) -> Layout:
    """The layout in which an operator reads an operand, or writes it, under an assignment."""
    return tuple([followed(use, loop) if loop >= 0 else -1 for loop in assignment])


def border(spec: OpSpec, use: Indexing, dimension: int) -> int:
    """The elements that neighbouring parts of a dimension share, when a loop that indexes it is cut."""
    _, terms = use.map.rows[dimension]
    widths = [abs(step) * (spec.shape[k] - 1) for k, step in terms]
    reach = sum(use.reach[dimension]) if use.reach else 0
    return reach + (sum(widths) - max(widths) if widths else 0)

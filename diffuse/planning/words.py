"""The number of elements that all ranks receive when an operator runs on arrays in given layouts.

"Supporting very large models using automatic dataflow graph partitioning" (papers/002, section 4.4), in
closed form for all states at once: of an operand, a rank receives what it needs and does not hold; a result
moves from every rank that computed a part or a term of it to the one that holds it.  Where an operand is a
sum of terms that are still to be added up, a rank receives all terms of what it needs; or ranks add up a part
each first, and exchange the parts, as in a reduce-scatter and an all-gather, if that is less.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from diffuse.ir import Point
from diffuse.planning.layouts import PENDING, Layout, Mesh, border, of_terms, seen
from diffuse.spec.opspec import Indexing, OpSpec

Table = np.ndarray[Any, np.dtype[np.float64]]
NEVER = 1e30
"""The elements that stand for what must not be: an operator on terms of an array that has none."""


def read(spec: OpSpec, use: Indexing, shape: Point, assignments: Sequence[Layout], layouts: Sequence[Layout],
         mesh: Mesh) -> Table:
    """Elements received of an operand, for each assignment of the operator and layout of the array."""
    needed = np.array([seen(use, a) for a in assignments]).reshape(len(assignments), 1, len(mesh))
    own = np.array(assignments).reshape(needed.shape) == of_terms(use.operand)
    held = np.array(layouts).reshape(1, len(layouts), len(mesh))
    need, both = np.ones((len(assignments), 1)), np.ones((len(assignments), len(layouts)))
    here = np.ones((1, len(layouts)))
    for d, extent in enumerate(shape):
        tile = extent / _parts(needed == d, mesh)
        shared = border(spec, use, d)
        need = need * np.where(tile < extent, np.minimum(tile + shared, extent), tile)
        both = both * extent / _parts((needed == d) | (held == d), mesh)
        here = here * extent / _parts(held == d, mesh)
    terms = _parts((held == PENDING) & ~own, mesh)
    added = np.where(terms > 1, (terms - 1) / terms * here + need - both / terms, np.inf)
    found: Table = prod(mesh) * np.minimum(terms * need - both, added)
    return np.where((own & (held != PENDING)).any(-1), NEVER, found)


def written(use: Indexing, shape: Point, assignments: Sequence[Layout], layouts: Sequence[Layout], mesh: Mesh
            ) -> Table:
    """Elements received of a result, terms of sums included, for each assignment and layout.  To hold terms
    costs nothing: who computed one holds it."""
    made = np.array([seen(use, a) for a in assignments]).reshape(len(assignments), 1, len(mesh))
    idle = (np.array(assignments) == -1).reshape(len(assignments), 1, len(mesh))
    held = np.array(layouts).reshape(1, len(layouts), len(mesh))
    both = np.ones((len(assignments), len(layouts)))
    for d, extent in enumerate(shape):
        both = both * extent / _parts((made == d) | (held == d), mesh)
    makers = _parts(~idle & (held != PENDING) & ~((made == held) & (made >= 0)), mesh)
    return prod(mesh) * (makers - 1) * both


def repeated(spec: OpSpec, assignments: Sequence[Layout], mesh: Mesh) -> Table:
    """The iterations, of all ranks together, that running on terms adds to those of the operator itself."""
    found: Table = spec.volume * (_parts(np.array(assignments) <= PENDING, mesh) - 1.0)
    return found


def _parts(axes: Any, mesh: Mesh) -> Table:
    """The product of the sizes of the axes that are marked, in the last dimension."""
    found: Table = np.prod(np.where(axes, np.array(mesh, np.float64), 1.0), axis=-1)
    return found

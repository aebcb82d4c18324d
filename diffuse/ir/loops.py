"""What the loops of a kernel depend on beside their extents: the leaves of the reduction tree, where two
dimensions run as one loop, and how accesses move along each dimension.
"""

from __future__ import annotations

from diffuse.ir import Access, Decomposition, Point

SEGMENT = 512
"""A row leaf of the reduction tree: so many indices of the last iteration dimension, at multiples of it.
Tiles of that dimension are multiples of it too: a leaf never straddles points."""

SHORT = 32
"""Longest last dimension that a loop may run over together with the one before it (kernels/llvm/flat.py)."""

ROWS = 32
"""A column leaf: so many indices of the innermost reduced dimension, with tiles to match."""


def flat(shape: Point, decomposition: Decomposition) -> int:
    """If the last dimension is short, never cut, and would leave lanes of vectors unused: the vectors of
    eight elements that a row takes; else 0."""
    if (len(shape) < 2 or not 1 < shape[-1] <= SHORT or shape[-2] < 8 or decomposition.gaps
            or any(split.axis == len(shape) - 1 for split in decomposition.splits)):
        return 0
    vectors = -(-shape[-1] // 8)
    return vectors if shape[-1] < 8 or 8 * vectors >= 1.2 * shape[-1] else 0


def letters(access: Access, shape: Point, flattened: int) -> str:
    """How an access moves along each dimension (see `kernels.body.expr.Argument`)."""
    found = access.map.classes(len(shape))
    if flattened and found[-1] == "1" and found[-2] != "0":
        pitch, step = 1, 0
        for size, (_, terms) in zip(reversed(access.store.shape), reversed(access.map.rows), strict=True):
            step += pitch * sum(s for k, s in terms if k == len(shape) - 2)
            pitch *= size
        if step == shape[-1]:
            found = found[:-2] + "c1"
    return found

"""Decomposition: over how many points each task of the window runs, and where they cut its iteration space.

Chosen when the task stands behind others in the window, from what they are.  One rule, mostly a function of
extents, so that operations over equal spaces are cut alike and can fuse: small spaces stay whole; others are
cut along the first dimension long enough to give every processor a share.  A small task whose rows are those
of a large task beside it is cut as that one is, so that borders fuse with the interior.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

from diffuse.ir import ONE, Decomposition, Point, Privilege, Split
from diffuse.ir.launch import ROWS, SEGMENT
from diffuse.ir.template import Template
from diffuse.kernels.body import operations


def decompose(template: Template, beside: Decomposition | None, processors: int, chunk: int) -> Template:
    """The template with the decomposition of a task that follows others.

    `beside` is how the last task before it was cut that several points share by rows, in the same group;
    a point is worth `chunk` elements at least.
    """
    if template.decomposition is not None:  # whoever submitted the task chose it
        return template.under(template.decomposition)
    key = beside, processors, chunk
    found = template.chosen.get(key)
    if found is None:
        found = template.chosen[key] = _decompose(template, beside, processors, chunk)
    return found


def _decompose(template: Template, beside: Decomposition | None, processors: int, chunk: int) -> Template:
    if not operations.known(template.operation):
        return template.under(ONE)
    found = template.under(alone(template, processors, chunk))
    if found.decomposition != ONE and not found.valid:
        return template.under(ONE)
    if found.decomposition == ONE and beside is not None and adapts(template, beside):
        other = template.under(beside)
        return other if other.valid else found
    return found


def adapts(template: Template, beside: Decomposition) -> bool:
    """Has an elementwise task as many rows as `beside` cuts?"""
    if not operations.find(template.operation).elementwise:
        return False
    (points,), ((axis, tile),) = beside
    return axis == 0 and bool(template.shape) and (points - 1) * tile < template.shape[0] <= points * tile


def alone(template: Template, processors: int, chunk: int) -> Decomposition:
    """What a task is cut like when nothing is said about others: by its extents and what it reduces."""
    _, _, attribute = template.operation.partition(":")
    whole = frozenset({int(attribute)}) if attribute else frozenset()
    result = template.uses[-1]
    rank = len(template.shape)
    reduced = [k for k in range(rank) if result.privilege is Privilege.REDUCE and not result.map.follows(k)]
    leaves = reduced[-1] if reduced and reduced[-1] != rank - 1 else -1
    return by_extents(template.shape, processors, chunk, whole, leaves)


@lru_cache(maxsize=1 << 14)
def by_extents(shape: Point, processors: int, chunk: int, whole: frozenset[int] = frozenset(),
           leaves: int = -1) -> Decomposition:
    """The decomposition of a task over `shape`.

    `whole` are dimensions that must not be cut (a scan's); `leaves` is the dimension whose cuts must lie
    between leaves of the reduction tree (the innermost reduced one, when the last dimension is kept).
    """
    points = min(processors, prod(shape) // chunk)
    if points <= 1:
        return ONE
    last = len(shape) - 1
    candidates = [d for d, n in enumerate(shape) if d not in whole and n >= (2 * SEGMENT if d == last else 2)]
    if not candidates:
        return ONE
    axis = next((d for d in candidates if shape[d] >= 4 * points), max(candidates, key=lambda d: shape[d]))
    tile = -(-shape[axis] // points)
    if axis == last:
        tile = -(-tile // SEGMENT) * SEGMENT
    elif axis == leaves:
        tile = -(-tile // ROWS) * ROWS
    if tile >= shape[axis]:
        return ONE
    return Decomposition((points,), (Split(axis, tile),))

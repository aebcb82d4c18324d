"""Decomposition: chooses over how many points each task of the window runs, and where they cut its iteration
space.

The choice is made when the task is in the window, and depends on the tasks before it.  The rule is mostly a
function of extents, so that operations over equal spaces are cut alike and can fuse: small spaces stay whole;
others are cut along the first dimension long enough to give every processor a share.  A small task with the
rows of a large task beside it (or its columns, if that is short and wide) is cut like that task, so that
borders fuse with the interior.

Launches that are chosen here have one dimension.  A task that brings its own decomposition may have any
number: a grid of tiles.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

from diffuse.ir import ONE, Decomposition, Point, Privilege, Split, volume
from diffuse.ir.kinds import kind
from diffuse.ir.loops import ROWS, SEGMENT
from diffuse.ir.template import Template
from diffuse.kernels.body import operations
from diffuse.runtime.base import CodeUse

if TYPE_CHECKING:
    from diffuse.runtime.base import Runtime
    from diffuse.stream.shapes import Shapes

LONG = 16 * ROWS
"""The tile length from which on all tasks use multiples of leaves, as reductions must: a reduction then fuses
with the task that computes its input, and no point gets more than a sixteenth more than its share."""

SEARCHING = 32
"""A task that writes at indices into a vector is divided only if each point gets at least this many times the
smallest number of elements of a point in other tasks.  Every point reads all the indices, which takes half as
long as writing to a shorter vector."""


def processors_of(runtime: Runtime, template: Template) -> int:
    """Return over how many processors a task is divided: those of the runtime, but two where one thread of
    this machine runs everything, as two groups run as one pass over rows (pairs.py) only if both are cut into
    rows.  Writes at indices stay whole there, since every point reads all the indices."""
    points = runtime.points
    alone = points == 1 and runtime.addressed and runtime.code is CodeUse.PREFERRED
    return 2 if alone and not template.operation.startswith("scatter") else points


def decompose(template: Template, beside: Decomposition | None, processors: int, chunk: int,
              gaps: bool = False, completes: bool = False, shapes: Shapes | None = None) -> Template:
    """The template with the decomposition of a task that follows others.

    `beside` is the decomposition of earlier tasks in the group over several points (`followed`); a point gets
    at least `chunk` elements; `gaps` and `completes` are part of the decomposition; `shapes` is what is known
    of the program's arrays, where ranks hold parts of them. Raises ValueError if the task has a decomposition
    that no kernel supports.
    """
    learned = None if shapes is None else (shapes.number, shapes.version)
    key = beside, processors, chunk, gaps, completes, learned
    found = template.chosen.get(key)
    if found is None:
        template.cut = True
        own = template.decomposition
        chosen = (chosen_for(template, beside, processors, chunk, shapes) if own is None
                  else _own(template, own))
        found = template.chosen[key] = template.under(flagged(chosen, gaps, completes))
    return found


@lru_cache(maxsize=1 << 10)
def flagged(decomposition: Decomposition, gaps: bool, completes: bool) -> Decomposition:
    """The decomposition with these flags."""
    return decomposition._replace(gaps=gaps, completes=completes)


def chosen_for(template: Template, beside: Decomposition | None, processors: int, chunk: int,
               shapes: Shapes | None) -> Decomposition:
    """The decomposition of a task that comes without one; `decompose` has the arguments."""
    if not operations.known(template.operation):
        return ONE
    found = (alone(template, processors, chunk) if shapes is None
             else shapes.decomposition(template, processors, chunk))
    if found != ONE and not (_fits(template, found) if shapes is None else template.fits(found)):
        return ONE
    if beside is not None and volume(found.domain) < volume(beside.domain):
        return adapted(template, beside) or found
    return found


def _fits(template: Template, decomposition: Decomposition) -> bool:
    """`Template.fits` for a decomposition that was chosen by extents, remembered for all templates of a kind.
    Tiles are shorter than the dimensions that they cut, so only the choice of these dimensions matters."""
    known = kind(template)
    if known is None:
        return template.fits(decomposition)
    axes = tuple([split.axis for split in decomposition.splits])
    found = known.fits.get(axes)
    if found is None:
        found = known.fits[axes] = template.fits(decomposition)
    return found


def _own(template: Template, own: Decomposition) -> Decomposition:
    """The decomposition that a task was submitted with."""
    if volume(own.domain) <= 1 or not operations.known(template.operation):
        return ONE
    sentence = refusal(template, own)
    if sentence is not None:
        task = f"{template.operation}[{'x'.join(map(str, own.domain))}]"
        raise ValueError(f"decomposition: task {task} over {template.shape} {sentence}")
    return own


def refusal(template: Template, decomposition: Decomposition) -> str | None:
    """The reason why no kernel can run a well-formed task under this decomposition, and what to do; None if
    one can."""
    whole, leaves = constraints(template)
    for axis, tile, begin in decomposition.splits:
        if begin is not None:
            return f"has a begin along dimension {axis}: only the stream gives one, so leave it out"
        if axis in whole:
            return f"accumulates along dimension {axis}: do not cut that one"
        if axis >= 0 and axis == leaves and tile % unit(template.shape, axis) and tile < template.shape[axis]:
            return (f"reduces along dimension {axis}, which tiles of {tile} cut within leaves of the "
                    f"reduction tree: give it a multiple of {unit(template.shape, axis)}")
    return None


def unit(shape: Point, axis: int) -> int:
    """The number of indices of a dimension in one leaf of the reduction tree."""
    return SEGMENT if axis == len(shape) - 1 else ROWS


def constraints(template: Template) -> tuple[frozenset[int], int]:
    """The dimensions that must not be cut (a scan's), and the one whose tiles must be multiples of leaves of
    the reduction tree: the innermost reduced one, or -1."""
    _, _, attribute = template.operation.partition(":")
    result = template.uses[-1]
    reduced = [k for k in range(len(template.shape))
               if result.privilege is Privilege.REDUCE and not result.map.follows(k)]
    scanned = attribute.isdigit() and not operations.find(template.operation).elementwise
    return frozenset({int(attribute)}) if scanned else frozenset(), reduced[-1] if reduced else -1


def leading(decomposition: Decomposition) -> bool:
    """Does it cut the first dimensions in their order, as into rows?"""
    return all(split.axis == d for d, split in enumerate(decomposition.splits))


@lru_cache(maxsize=1 << 10)
def followed(decomposition: Decomposition, before: Decomposition | None) -> Decomposition | None:
    """The decomposition that small tasks after this one follow: this one, if it cuts rows, or if it cuts one
    dimension and `before` is None.  One with a `begin` is followed without it, and only if `before` is
    None."""
    if any([split.begin is not None for split in decomposition.splits]):
        plain = tuple([split._replace(begin=None) for split in decomposition.splits])
        return before or decomposition._replace(splits=plain)
    if leading(decomposition) or (before is None and len(decomposition.splits) == 1
                                  and decomposition.splits[0].axis >= 0):
        return decomposition
    return before


def adapted(template: Template, beside: Decomposition) -> Decomposition | None:
    """The decomposition of a small elementwise task that cuts as many rows as `beside`; or, if that cuts
    one other dimension, a last dimension of the same length: a row of a short, wide array."""
    if not operations.find(template.operation).elementwise or len(beside.domain) > len(template.shape):
        return None
    found = beside
    if not leading(beside):
        if len(beside.splits) > 1:
            return None
        found = beside._replace(splits=(Split(len(template.shape) - 1, beside.splits[0].tile),))
    fits = all([(points - 1) * tile < template.shape[axis] <= points * tile
                for points, (axis, tile, _) in zip(found.domain, found.splits, strict=True)])
    if not fits:
        return None
    several = all([points > 1 for points in found.domain])
    return found if (_fits(template, found) if several else template.fits(found)) else None


def alone(template: Template, processors: int, chunk: int) -> Decomposition:
    """The decomposition of a task by itself, from its extents and the dimensions that it reduces."""
    if len(template.shape) == 1 and template.operation.startswith("scatter"):
        chunk *= SEARCHING
    known = kind(template)
    if known is None:
        return by_extents(template.shape, processors, chunk, *constraints(template))
    if known.constraints is None:
        known.constraints = constraints(template)
    return by_extents(template.shape, processors, chunk, *known.constraints)


@lru_cache(maxsize=1 << 10)
def by_extents(shape: Point, processors: int, chunk: int, whole: frozenset[int] = frozenset(),
               leaves: int = -1, units: tuple[tuple[int, int], ...] = ()) -> Decomposition:
    """The decomposition of a task over `shape`.

    `whole` are dimensions that must not be cut (a scan's); `leaves` is the dimension whose cuts must lie
    between leaves of the reduction tree (the innermost reduced one); cuts of the last one always do.  `units`
    are (dimension, unit): tile lengths are multiples.
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
    elif axis == leaves or tile >= LONG:
        tile = -(-tile // ROWS) * ROWS
    for d, length in units:
        if d == axis:
            tile = -(-tile // length) * length
    if tile >= shape[axis]:
        return ONE
    return Decomposition((points,), (Split(axis, tile),))

"""Copies the small parts of an array that a task reads, where the program then overwrites the array.

In `d[:] = np.minimum(d, d[:, k, None] + d[k])` every point reads row k, which one of them overwrites.  So the
sum may not be in one group with the assignment, and the minimum goes to memory and back.  Once an assignment
has been refused a few times because of such an operand of the same operation of the same line, that operand
is copied first, which takes little as it is small, and the operation reads the copy.  All three operations
then run as one pass, in place.

A copy has the bits of what it copies, so results do not depend on this.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from diffuse.bounded import Bounded
from diffuse.ir import ITEMSIZE, ONE, Frame, Privilege
from diffuse.ir.kinds import kind
from diffuse.ir.template import Recorded, Template, Use
from diffuse.ir.view import View
from diffuse.observe import trace
from diffuse.settings import config
from diffuse.stream.decompose import flagged
from diffuse.stream.group import Group
from diffuse.stream.memo import Later, Node, Trail
from diffuse.stream.sketch import Sketch
from diffuse.stream.stores import Storage

if TYPE_CHECKING:
    from diffuse.stream.window import Window

TIMES = 6
"""How often an assignment is refused because of small operands of an operation before these are copied."""
AGAIN = 256
"""How many refusals more it takes where copies turned out to be useless."""
SMALLER = 64
"""An operand is small if the task has so many times as many iterations as it has elements."""
REASON = "small operands are copied"
"""The reason why the groups before copies and of copies end."""
READ, WRITE = Privilege.READ, Privilege.WRITE
Part = tuple[Template, Frame, View]
"""How a part of a store is copied: the template of the copy, its frame, and its view in the space of the task
that reads it."""


class Snapshots:
    """The operations of the program whose small operands are copied, by name and line."""

    __slots__ = ("lines", "_counts", "_last", "_nodes", "_templates")

    def __init__(self) -> None:
        self.lines: set[tuple[str, Any]] = set()
        self._counts: dict[tuple[str, Any], int] = Bounded(1 << 10)
        """How often an assignment was refused because of small operands of an operation; once they are
        copied, how often that would still have to turn out useless until they no longer are."""
        self._last: dict[tuple[str, Any], tuple[Group, set[int]]] = Bounded(1 << 10)
        """For each operation the group that last read copies, and the stores of which it read them."""
        self._nodes: dict[tuple[Any, ...], Node] = Bounded(1 << 8)
        """The nodes of groups of copies, by the rows of their sketches."""
        self._templates: dict[tuple[Any, ...], Template] = Bounded(1 << 10)
        """The templates of tasks that read copies."""

    def note(self, group: Group, recorded: Recorded) -> bool:
        """Learn from an assignment that is refused, because points of this group read what others would
        overwrite; returns whether operands are copied from now on that were not before."""
        found = False
        for store, use in zip(recorded[1], recorded[0].uses, strict=True):
            if use.privilege is not READ:
                for name in _before(group, store, use.map):
                    count = self._counts[name] = self._counts.get(name, 0) + 1
                    if count == TIMES:
                        self.lines.add(name)
                        found = True
        return found

    def lifted(self, recorded: Recorded, window: Window) -> tuple[Recorded, list[Storage]]:
        """Add the copies of the small operands of a task to the window; returns the task that reads them, and
        the handles of the copies, which have to live until that is added."""
        template, stores, values, where = recorded
        uses, ids = list(template.uses), list(stores)
        handles: list[Storage] = []
        copies: list[Recorded] = []
        if template.signature and template.decomposition is None and window.region is None:
            for k, use in enumerate(template.uses):
                if use.privilege is READ and _small(use.map, template):
                    copy, frame, view = _part(use.map)
                    handles.append(window.stores.new(frame))
                    copies.append((copy, (ids[k], handles[-1].id), (), where))
                    uses[k], ids[k] = Use.of(view, READ), handles[-1].id
        if not copies or not self._pays((template.operation, where)):
            return recorded, handles
        trace.counters["snapshots"] += len(copies)
        self._add(copies, window)
        self._last[template.operation, where] = window.open, {copied for _, (copied, _), *_ in copies}
        key = (template.operation, template.signature, template.numbers, template.shape,
               *[(use.map.token, use.privilege, use.operator) for use in uses])
        made = self._templates.get(key)
        if made is None:
            made = self._templates[key] = Template(template.operation, template.signature, template.shape,
                                                   tuple(uses), template.numbers)
        return (made, tuple(ids), values, where), handles

    def _pays(self, name: tuple[str, Any]) -> bool:
        """Are the operands of an operation still copied?  Not if its groups did not overwrite the arrays, so
        many times in a row; then it takes longer to learn it again."""
        last = self._last.get(name)
        if last is None or _overwrites(*last):
            self._counts[name] = TIMES
            return True
        self._counts[name] = left = self._counts.get(name, TIMES) - 1
        if left <= 0:
            self.lines.discard(name)
            self._counts[name] = -AGAIN
            del self._last[name]
        return left > 0

    def _add(self, copies: list[Recorded], window: Window) -> None:
        """Add copies to the window as a group of their own, which runs on one point.

        Where their views move, the analysis would take longer than all else.  So the node of such a group is
        remembered by its rows in a sketch."""
        group = window.open
        if group.recorded:
            group = window.close(REASON)
        slots: dict[int, int] = {}
        for _, stores, *_ in copies:
            for store in stores:
                slots.setdefault(store, len(slots))
        runtime = window.stores.runtime
        chosen = flagged(ONE, not runtime.addressed, runtime.completes)
        sketch = Sketch()
        rows = [sketch.row(kind(copy), copy, chosen, stores, slots) for copy, stores, *_ in copies]
        known = (None not in rows and None not in [row[0] for row in rows if row]
                 and all([copy.elements < config.min_chunk for copy, *_ in copies]))
        node = self._nodes.get(tuple(rows)) if known else None
        if node is None:
            for copy in copies:
                window.add(copy)
            group = window.open
            if known and len(group.recorded) == len(copies) and group.domain == ONE.domain:
                self._nodes[tuple(rows)] = group.trail.node
        else:
            trail = window.memo.start
            for copy in copies:
                trail = Trail(node, (trail.templates, Later(copy[0], chosen)), ONE.domain)
            group.recorded, group.slots, group.trail = copies, slots, trail
            group.first, group.shape = (copies[0][0].operation, copies[0][3]), copies[0][0].shape
            group.shapes = {copy.shape for copy, *_ in copies}
            window.stores.users.update(dict.fromkeys(slots, group.number))
            window.held += len(copies)
        window.close(REASON)


def _small(view: View, template: Template) -> bool:
    """Is a view a small part of its store, each element of which a task reads many times?"""
    kept = [n for n, step in zip(view.shape, view.strides, strict=True) if step]
    count = prod(kept)
    return (bool(kept) and not view.free and not view.turned and SMALLER * count <= template.elements
            and SMALLER * count <= prod(view.frame))


def _overwrites(group: Group, stores: set[int]) -> bool:
    """Does a group write to one of these stores?"""
    return any([use.privilege is not READ and store in stores for template, used, *_ in group.recorded
                for use, store in zip(template.uses, used, strict=True)])


def _before(group: Group, store: int, target: View) -> list[tuple[str, Any]]:
    """The tasks of a group that read small parts of a store whose view `target` is overwritten next, by
    operation and line; none if copies of these parts would not do."""
    found = []
    for template, stores, _, where in group.recorded:
        for use, other in zip(template.uses, stores, strict=True):
            if other == store:
                if use.privilege is not READ:
                    return []
                if _small(use.map, template):
                    found.append((template.operation, where))
                elif use.map != target or use.map.shape != target.shape or use.map.frame != target.frame:
                    return []
    return found


_parts: dict[int, Part] = Bounded(1 << 10)
_roots: dict[tuple[Any, ...], tuple[View, View]] = Bounded(1 << 8)


def _part(view: View) -> Part:
    """Describe a copy of the elements of a view, each once, although the view may repeat them."""
    found = _parts.get(view.token)
    if found is None:
        kept = tuple([k for k, step in enumerate(view.strides) if step])
        shape = tuple([view.shape[k] for k in kept])
        place = {k: position for position, k in enumerate(kept)}
        rows = tuple([(offset, tuple([(place[k], step) for k, step in terms if k in place]))
                      for offset, terms in view.rows])
        strides = tuple([view.strides[k] for k in kept])
        source = View(rows, view.frame, view.dtype, shape, view.offset, strides)
        root, spread = _copied(view.dtype, shape, kept, view.shape)
        copy = Template("copy", (view.dtype, view.dtype), shape,
                        (Use.of(source, READ), Use.of(root, WRITE)))
        found = _parts[view.token] = copy, Frame(shape, view.dtype), spread
    return found


def _copied(dtype: str, shape: tuple[int, ...], kept: tuple[int, ...], space: tuple[int, ...]
            ) -> tuple[View, View]:
    """The view of a whole copy, and that in a space whose dimensions `kept` are those of the copy."""
    key = dtype, shape, kept, space
    found = _roots.get(key)
    if found is None:
        steps = [ITEMSIZE[dtype] * prod(shape[d + 1:]) for d in range(len(shape))]
        root = View(tuple([(0, ((d, 1),)) for d in range(len(shape))]), shape, dtype, shape, 0, tuple(steps))
        strides = [0] * len(space)
        for d, k in enumerate(kept):
            strides[k] = steps[d]
        spread = View(tuple([(0, ((k, 1),)) for k in kept]), shape, dtype, space, 0, tuple(strides))
        found = _roots[key] = root, spread
    return found

"""Kinds: what is left of a view, and of a template, without its extents and offsets.

Templates of one kind differ in extents above `CONCRETE`, and in the offsets of their views.  All else that
a decision of the stream can depend on is the same: the operation and its element types, which dimension of
the iteration moves which dimension of a store and by which step, which dimensions of stores are covered from
end to end, which are indexed by data, and every smaller extent, among them 0, 1 (a broadcast) and those for
which kernels have special loops (ir/loops.py).  A view has no form if it moves one dimension of a store by
several of the iteration, is shifted cyclically, or is empty; a template with such a view has no kind.
"""

from __future__ import annotations

from itertools import count
from typing import Any

from diffuse.bounded import Recurring
from diffuse.ir.task import Split
from diffuse.ir.template import Template
from diffuse.ir.view import View

CONCRETE = 128
"""The largest extent that is part of a kind.  Larger ones exceed every extent, and every product of a special
stride and a special extent, that `ir/loops.py` compares with."""
NONE = -2
"""In place of the iteration dimension that moves a dimension of a store, where there is none."""


Cuts = tuple[tuple[int, int, int], ...]
"""Which dimensions of a store are cut by which launch dimension, into tiles of which length."""


class Form:
    """A view without extents, and the extents that belong to it."""

    __slots__ = ("number", "bounds", "axes", "plain", "_last")

    def __init__(self, number: int, bounds: tuple[tuple[int, int], ...], axes: tuple[int, ...],
                 plain: bool) -> None:
        self.number = number
        """Equal for views that differ in extents and offsets only."""
        self.bounds = bounds
        """For each dimension of the store the first coordinate of the view, and the one after the last."""
        self.axes = axes
        """For each dimension of the store the iteration dimension that moves it, or `NONE`."""
        self.plain = plain
        """Is each step 1?"""
        self._last: tuple[Any, Cuts] = (None, ())

    def cuts(self, splits: tuple[Split, ...]) -> Cuts:
        """Which dimensions of the store are cut, if these splits cut the iteration space."""
        if self._last[0] is splits:
            return self._last[1]
        found: Cuts = ()
        for launch, (axis, tile, _) in enumerate(splits):
            if axis in self.axes:
                found += tuple([(d, launch, tile) for d, moved in enumerate(self.axes) if moved == axis])
        self._last = splits, found
        return found


class Kind:
    """What templates of one kind share; compared by identity."""

    __slots__ = ("constraints", "movable", "fits")

    def __init__(self) -> None:
        self.constraints: Any = None
        """`stream.decompose.constraints` of the templates; None until it is asked for."""
        self.movable: bool | None = None
        """`stream.cuts.movable` of the small ones among them; None until it is asked for."""
        self.fits: dict[Any, bool] = {}
        """`Template.fits`, by the dimensions that a decomposition cuts."""


_next = count()
_numbers: dict[tuple[Any, ...], int] = Recurring()
"""The numbers of forms; none is given twice, also after the table was full."""
_kinds: dict[tuple[Any, ...], Kind] = Recurring()


def form(view: View) -> Form | None:
    """The form of a view; None if it has none."""
    found = view.form
    if found is None:
        found = _form(view) or False
        object.__setattr__(view, "form", found)
    return found or None


def _form(view: View) -> Form | None:
    shape, frame = view.shape, view.frame
    if view.turned or 0 in shape or 0 in frame:
        return None
    key: list[Any] = [view.dtype, len(shape)]
    bounds, axes, plain = [], [], True
    for d, ((offset, terms), size) in enumerate(zip(view.rows, frame, strict=True)):
        axis, step = NONE, 0
        low, high = offset, offset + 1
        if d in view.free:
            low, high, step = 0, size, -1
            if terms:
                return None
        elif terms:
            if len(terms) > 1:
                return None
            (axis, step), = terms
            if step == 1:
                high = offset + shape[axis]
            else:
                plain = False
                reach = step * (shape[axis] - 1)
                low, high = offset + min(0, reach), offset + max(0, reach) + 1
        bounds.append((low, high))
        axes.append(axis)
        key += (axis, step, low == 0 and high == size, size if size <= CONCRETE else -1)
    name = tuple(key)
    number = _numbers.get(name)
    if number is None:
        number = _numbers[name] = next(_next)
    return Form(number, tuple(bounds), tuple(axes), plain)


def kind(template: Template) -> Kind | None:
    """The kind of a template that is not decomposed; None if it has none, as host functions."""
    found = template.kind
    if found is None:
        found = template.kind = _kind(template) or False
    return found or None


def _kind(template: Template) -> Kind | None:
    if template.decomposition is not None or not template.signature or 0 in template.shape:
        return None
    key: list[Any] = [template.operation, template.signature, template.numbers,
                      *[n if n <= CONCRETE else -1 for n in template.shape]]
    for frame, dtype, view, privilege, operator, _ in template.uses:
        found = view.form or form(view)
        if found is None or frame != view.frame or dtype != view.dtype or view.shape != template.shape:
            return None
        key += (found.number, privilege, operator)
    name = tuple(key)
    made = _kinds.get(name)
    if made is None:
        made = _kinds[name] = Kind()
    return made

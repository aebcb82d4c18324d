"""A language to describe operators in: a function on symbolic indices.

After the tensor description language of "Supporting very large models using automatic dataflow graph
partitioning" (papers/002, section 4.1).  A convolution::

    describe(lambda data, filters: lambda b, co, x:
             Sum(lambda ci, dx: data[b, ci, x + dx] * filters[ci, co, dx]), (8, 4, 34), (4, 16, 3))

The outer function takes the operands, the inner one a name for each loop of the result, and a reducer names
the loops that it folds.  Indices are affine; `:` takes a whole dimension; `Opaque(a[b, :, :])[i, j]` is an
element of the result of an unknown function of these operands.  The body is traced symbolically, never
computed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from diffuse.ir import AccessMap, Point
from diffuse.spec.opspec import Indexing, Loop, OpSpec, row


class Index:
    """An affine expression of loop indices."""

    def __init__(self, steps: dict[str, int], offset: int = 0) -> None:
        self.steps = {name: step for name, step in steps.items() if step}
        self.offset = offset

    def __add__(self, other: Index | int) -> Index:
        if isinstance(other, int):
            return Index(self.steps, self.offset + other)
        if not isinstance(other, Index):
            return NotImplemented
        names = {**self.steps, **other.steps}
        return Index({n: self.steps.get(n, 0) + other.steps.get(n, 0) for n in names},
                     self.offset + other.offset)

    def __mul__(self, factor: int) -> Index:
        if not isinstance(factor, int):
            raise TypeError(f"{self} * {factor!r}: an index is an affine expression, so multiply it by "
                            "integers alone, or take ':' for the whole dimension")
        return Index({n: step * factor for n, step in self.steps.items()}, self.offset * factor)

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> Index:
        return self * -1

    def __sub__(self, other: Index | int) -> Index:
        return self + -other

    def __rsub__(self, other: int) -> Index:
        return -self + other

    def __repr__(self) -> str:
        return " + ".join([*[f"{step}*{n}" for n, step in self.steps.items()], str(self.offset)])


class Element(NamedTuple):
    """One element of an operand."""

    operand: int
    at: tuple[Index | None, ...]
    """The indices; None for each dimension that is needed whole."""


class FoldedLoops(NamedTuple):
    """The loops over which a value is folded, and the reducer."""

    operator: str
    loops: tuple[str, ...]


class Value:
    """A symbolic value, as a function of the elements of the operands that it reads."""

    def __init__(self, reads: tuple[Element, ...] = (), linear: frozenset[int] = frozenset(),
                 whole: frozenset[str] = frozenset(), fold: FoldedLoops | None = None) -> None:
        self.reads = reads
        self.linear = linear
        """The operands in which it is linear."""
        self.whole = whole
        """Loops that must not be cut: those of folds whose results are used, and of opaque results."""
        self.fold = fold

    def used(self) -> Value:
        """The value as part of another expression: its fold must be complete at every point."""
        loops = self.fold.loops if self.fold else ()
        return Value(self.reads, self.linear, self.whole | frozenset(loops))

    @property
    def operands(self) -> frozenset[int]:
        return frozenset(element.operand for element in self.reads)

    def __add__(self, other: Any) -> Value:
        # A sum is linear in an operand if both terms are; with a term that does not have it, it is affine.
        return function(self, other, linear=self.linear & other.linear if isinstance(other, Value) else None)

    def __mul__(self, other: Any) -> Value:
        if not isinstance(other, Value):
            return function(self, linear=self.linear)
        return function(self, other, linear=(self.linear - other.operands) | (other.linear - self.operands))

    def __truediv__(self, other: Any) -> Value:
        return function(self, other,
                        linear=self.linear - (other.operands if isinstance(other, Value) else frozenset()))

    def __neg__(self) -> Value:
        return function(self, linear=self.linear)

    def __pow__(self, other: Any) -> Value:
        return function(self, other)

    __radd__ = __sub__ = __rsub__ = __add__
    __rmul__ = __mul__
    __rtruediv__ = __rpow__ = __pow__


def function(*values: Any, linear: frozenset[int] | None = None) -> Value:
    """An unspecified function of values, applied to each element, such as `exp`; not linear unless declared
    so."""
    parts = [value.used() for value in values if isinstance(value, Value)]
    return Value(tuple(read for part in parts for read in part.reads), linear or frozenset(),
                 frozenset().union(*[part.whole for part in parts]))


class Operand:
    """An operand that the description indexes."""

    def __init__(self, number: int, rank: int) -> None:
        self.number, self.rank = number, rank

    def __getitem__(self, index: Any) -> Value:
        items = index if isinstance(index, tuple) else (index,)
        if len(items) != self.rank:
            raise TypeError(f"operand {self.number} has {self.rank} dimensions, but {len(items)} indices are "
                            "given; ':' takes a whole dimension")
        element = Element(self.number, tuple(_item(item, self.number) for item in items))
        return Value((element,), frozenset({self.number}))


def _item(item: Any, operand: int) -> Index | None:
    if isinstance(item, Index):
        return item
    if isinstance(item, int) and not isinstance(item, bool):
        return Index({}, item)
    if isinstance(item, slice) and item == slice(None):
        return None
    raise TypeError(f"index {item!r} of operand {operand}: expected an affine expression of loops, or ':' "
                    "for the whole dimension, as it is needed where the coordinate is data")


class Opaque:
    """The result of an undescribed function of operands: index it with the loops of the result.

    Loops that occur only in that index are not cut: every point would repeat the whole call.
    """

    def __init__(self, *operands: Value) -> None:
        self.operands = operands

    def __getitem__(self, index: Any) -> Value:
        items = index if isinstance(index, tuple) else (index,)
        found = function(*self.operands)
        inside = {name for element in found.reads for i in element.at if i is not None for name in i.steps}
        outside = {name for item in items if isinstance(item, Index) for name in item.steps}
        return Value(found.reads, whole=found.whole | (outside - inside))


def _folder(operator: str) -> Callable[[Callable[..., Value]], Value]:
    def fold(body: Callable[..., Value]) -> Value:
        names = tuple(inspect.signature(body).parameters)
        value = body(*[Index({name: 1}) for name in names])
        inner = value.fold
        if inner is not None and inner.operator == operator:
            names, value = names + inner.loops, Value(value.reads, value.linear, value.whole)
        value = value.used()
        return Value(value.reads, value.linear if operator == "sum" else frozenset(), value.whole,
                     FoldedLoops(operator, names))

    fold.__doc__ = f"The {operator} of a value over the loops that the parameters of `body` name."
    return fold


Sum, Prod, Max, Min = (_folder(operator) for operator in ("sum", "prod", "max", "min"))


def describe(operator: Callable[..., Callable[..., Value]], *shapes: Point, **extents: int) -> OpSpec:
    """Read the description of an operator on operands of these shapes.

    The extent of a loop is the largest one for which all indices lie in their operands; `extents` gives those
    of loops that no index determines.  Raises ValueError for a loop whose extent remains unknown and for an
    index that leaves its operand; TypeError for indices that are not affine.
    """
    operands = [Operand(number, len(shape)) for number, shape in enumerate(shapes)]
    result = operator(*operands)
    kept = tuple(inspect.signature(result).parameters)
    value = result(*[Index({name: 1}) for name in kept])
    folded = value.fold.loops if value.fold else ()
    names = [name for name in (*kept, *folded) if name not in value.whole]
    numbers = {name: k for k, name in enumerate(names)}
    found = _extents(value, shapes, extents)
    unknown = [name for name in names if name not in found]
    if unknown:
        raise ValueError(f"loop {unknown[0]}: no index tells its extent; give it, as {unknown[0]}=8")
    loops = tuple(Loop(name, found[name], name in folded) for name in names)
    reads = tuple(Indexing(element.operand, _map(element.at, numbers))
                  for element in dict.fromkeys(value.reads))
    written = tuple(Index({name: 1}) if name in numbers else None for name in kept)
    return OpSpec(loops, reads, (Indexing(len(shapes), _map(written, numbers)),),
                  value.fold.operator if value.fold and set(folded) & set(names) else None,
                  value.linear, "written")


def _map(index: Sequence[Index | None], numbers: dict[str, int]) -> AccessMap:
    """The access map of an index; a dimension that follows a loop which is not cut is needed whole."""
    whole = tuple(d for d, i in enumerate(index) if i is None or not numbers.keys() >= i.steps.keys())
    rows = [row(0) if d in whole or i is None
            else row(i.offset, *[(numbers[n], step) for n, step in i.steps.items()])
            for d, i in enumerate(index)]
    return AccessMap(tuple(rows), whole)


def _extents(value: Value, shapes: Sequence[Point], given: dict[str, int]) -> dict[str, int]:
    """The extents of the loops: given, or found from one index after another that has one unknown loop."""
    found = dict(given)
    indices = [(i, shapes[element.operand][d], element.operand) for element in value.reads
               for d, i in enumerate(element.at) if i is not None]
    for _ in range(len(indices) + 1):
        limits: dict[str, int] = {}
        for i, size, _ in indices:
            unknown = [name for name in i.steps if name not in found]
            if len(unknown) == 1 and i.steps[unknown[0]] > 0:
                reach = i.offset + sum(max(0, i.steps[n] * (found[n] - 1)) for n in i.steps if n in found)
                limit = max(0, (size - 1 - reach) // i.steps[unknown[0]] + 1)
                limits[unknown[0]] = min(limits.get(unknown[0], limit), limit)
        if not limits:
            break
        found |= limits
    for i, size, operand in indices:
        if any(not found.get(n, 1) for n in i.steps) or not i.steps.keys() <= found.keys():
            continue
        low = i.offset + sum(min(0, step * (found[n] - 1)) for n, step in i.steps.items())
        high = i.offset + sum(max(0, step * (found[n] - 1)) for n, step in i.steps.items())
        if low < 0 or high >= size:
            raise ValueError(f"index {i} of operand {operand} runs from {low} to {high}, the dimension "
                             f"from 0 to {size - 1}")
    return found

"""How results of parts combine to the whole result: the rules that discovery tries.

ShardCombine (papers/004, section 4): the parts are equal, are folded, or are concatenated, possibly in
interleaved pieces or without a border that padding added.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy

from diffuse.spec import running

FOLDS = {"b": ("any", "all", "parity"), "f": ("sum", "max", "min", "prod", "mean", "nanmax", "nanmin"),
         "c": ("sum", "prod", "mean"),
         **dict.fromkeys("iu", ("sum", "max", "min", "prod", "bitand", "bitor", "bitxor"))}
"""The folds that are tried, by the kind of element type."""


class Combine(NamedTuple):
    """One rule: "same", a reducer, or "gather" along a dimension."""

    kind: str
    dimension: int = -1
    block: int = 1
    """The number of pieces per part; the first pieces of all parts come first, then the second ones, and so
    on."""
    trim: tuple[int, int] = (0, 0)
    """The elements dropped where a part meets the one below, and the one above."""

    def __str__(self) -> str:
        if self.kind != "gather":
            return self.kind
        block = f" block {self.block}" if self.block > 1 else ""
        trim = f" trimmed {self.trim[0]} {self.trim[1]}" if any(self.trim) else ""
        return f"gather {self.dimension}{block}{trim}"

    def __call__(self, parts: Sequence[Any], weights: Sequence[int]) -> Any:
        """Combine the results of parts; `weights` are their shares of the dimension that is cut."""
        if self.kind == "same":
            return parts[0]
        if self.kind != "gather":
            return running.fold(self.kind, parts, weights)
        below, above = self.trim
        kept = [_cut(part, self.dimension, below if k else 0, above if k < len(parts) - 1 else 0)
                for k, part in enumerate(parts)]
        pieces = [numpy.split(part, self.block, self.dimension) for part in kept]
        return numpy.concatenate([piece for turn in zip(*pieces, strict=True) for piece in turn],
                                 self.dimension)


def _cut(part: Any, axis: int, below: int, above: int) -> Any:
    index = [slice(None)] * part.ndim
    index[axis] = slice(below, part.shape[axis] - above)
    return part[tuple(index)]


def candidates(parts: Sequence[Any], whole: Any, border: tuple[int, int] = (0, 0)) -> Iterator[Combine]:
    """The rules whose shapes fit, the cheapest to run on ranks first.  At joints a part may only lose its
    whole `border`: otherwise parts that repeat everything would pass."""
    shapes = {part.shape for part in parts}
    if shapes == {whole.shape}:
        yield Combine("same")
        yield from map(Combine, FOLDS.get(whole.dtype.kind, ()))
    for d in range(whole.ndim):
        others = {shape[:d] + shape[d + 1:] for shape in shapes if len(shape) == whole.ndim}
        if others != {whole.shape[:d] + whole.shape[d + 1:]}:
            continue
        extra = sum(part.shape[d] for part in parts) - whole.shape[d]
        if not extra:
            yield Combine("gather", d)
            yield from (Combine("gather", d, block) for block in _blocks(parts, whole, d))
        elif any(border) and extra == sum(border) * (len(parts) - 1):
            yield Combine("gather", d, 1, border)


def _blocks(parts: Sequence[Any], whole: Any, d: int) -> Iterator[int]:
    """The possible numbers of pieces per part, derived from the leading rows that part and whole have in
    common."""
    extent = parts[0].shape[d]
    if len({part.shape for part in parts}) > 1:
        return
    alike = 0
    for mine, its in zip(numpy.moveaxis(parts[0], d, 0), numpy.moveaxis(whole, d, 0), strict=False):
        if running.differing(numpy.asarray(mine), numpy.asarray(its)) is not None:
            break
        alike += 1
    if 0 < alike < extent and extent % alike == 0:
        yield extent // alike


def combining(parts: Sequence[Sequence[Any]], whole: Sequence[Any], weights: Sequence[int],
              border: tuple[int, int] = (0, 0)) -> list[list[Combine]]:
    """For each result, the rules that combine the parts' results to it."""
    found = []
    for k, expected in enumerate(whole):
        mine = [part[k] for part in parts]
        found.append([rule for rule in candidates(mine, expected, border)
                      if holds(rule, mine, expected, weights)])
    return found


def holds(rule: Combine, parts: Sequence[Any], whole: Any, weights: Sequence[int]) -> bool:
    """Does a rule combine the parts' results to the whole result?"""
    if rule.kind == "same" and any(running.differing(part, whole) is not None for part in parts[1:]):
        return False
    try:
        made = rule(parts, weights)
    except ValueError:  # shapes that do not fit together
        return False
    made = numpy.asarray(made)
    return running.differing(made if rule.kind == "gather" else made.astype(whole.dtype), whole) is None

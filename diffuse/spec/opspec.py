"""Descriptions of operators as far as partitioning is concerned: their loops, and how these index the
operands.

An `OpSpec` describes an element-wise operation, a matrix product and a convolution in the same terms: a box
of *loops*, some of which are reduced, and for each operand the affine map from loop indices to its elements
(the maps of dimensions and subsets of "Partition work, not data", papers/000, and the tensor description
language of papers/002, section 4).  To run an operator in parallel is to cut loops; what every point then
reads and writes follows from the maps (`diffuse.spec.tiling`).  Its `origin` tells how the description was
made.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from diffuse.ir import AccessMap, Point

REDUCERS = ("sum", "prod", "max", "min", "any", "all", "mean", "nanmax", "nanmin", "bitand", "bitor",
            "bitxor", "parity")
"""The ways to fold values; "mean" weights parts by their iterations."""


class Loop(NamedTuple):
    """One loop of an operator."""

    name: str
    extent: int
    reduced: bool = False
    """Are the values of its iterations folded into one, by the operator's reducer?"""


class Indexing(NamedTuple):
    """How the loops index one operand.

    `map` has a row for each dimension of the operand and numbers the loops as the `OpSpec` does.  Every
    iteration needs, or writes, its `free` dimensions as a whole: a dimension that the operator sorts along,
    or one with data-dependent coordinates.
    """

    operand: int
    map: AccessMap
    reach: tuple[tuple[int, int], ...] = ()
    """For each dimension, the elements below and above those of the map that an iteration also reads, clipped
    to the operand: the border that a function pads.  Empty: none."""


class Trim(NamedTuple):
    """The surplus of a padding function that runs on a part: the elements of a result, along the dimension
    that follows the loop, at each joint with the part below or above."""

    loop: int
    below: int
    above: int


@dataclass(frozen=True, slots=True)
class OpSpec:
    """The description of one operator on operands of given shapes.

    Raises ValueError for an invalid description: a loop without iterations or without use, an unknown
    reducer, a result that follows a reduced loop or misses another one.
    """

    loops: tuple[Loop, ...]
    reads: tuple[Indexing, ...]
    writes: tuple[Indexing, ...]
    reducer: str | None = None
    """The fold of the values of reduced loops; None if no loop is reduced."""
    linear: frozenset[int] = frozenset()
    """The operands in each of which the operator is linear while the others stay constant: f(x + y) = f(x) +
    f(y). Partial sums may pass through it."""
    origin: str = "derived"
    """"derived" from a task, "einsum", "written" by hand, or "discovered" by running the operator."""
    trims: tuple[Trim, ...] = ()
    """For each loop along which the operator pads its operands, the elements dropped where parts meet."""

    def __post_init__(self) -> None:
        check(self)

    @property
    def shape(self) -> Point:
        """The extents of the iteration space."""
        return tuple(loop.extent for loop in self.loops)

    @property
    def volume(self) -> int:
        """The number of iterations."""
        return prod(self.shape)

    def loop(self, name: str) -> int:
        """The number of a loop; the ValueError for an unknown one lists the loops."""
        for number, loop in enumerate(self.loops):
            if loop.name == name:
                return number
        raise ValueError(f"no loop {name!r}: the loops are {', '.join(loop.name for loop in self.loops)}")

    def __str__(self) -> str:
        return text(self)


def check(spec: OpSpec) -> None:
    """Raise ValueError for a description that no operator can have."""
    names = [loop.name for loop in spec.loops]
    if len(names) != len(set(names)):
        raise ValueError(f"loops {', '.join(names)}: every loop needs a name of its own")
    for loop in spec.loops:
        if loop.extent < 0:
            raise ValueError(f"loop {loop.name} has extent {loop.extent}: extents are not negative")
    if any(loop.reduced for loop in spec.loops) != (spec.reducer is not None):
        raise ValueError(f"reducer {spec.reducer!r}: name one if loops are reduced, and only then")
    if spec.reducer is not None and spec.reducer not in REDUCERS:
        raise ValueError(f"reducer {spec.reducer!r}: choose one of {', '.join(REDUCERS)}")
    for indexing in (*spec.reads, *spec.writes):
        used = [k for _, terms in indexing.map.rows for k, _ in terms]
        if any(not 0 <= k < len(spec.loops) for k in used):
            raise ValueError(f"operand {indexing.operand} follows loop {max(used)} of {len(spec.loops)}")
    for number, loop in enumerate(spec.loops):
        followed = [w.map.follows(number) for w in spec.writes]
        if loop.reduced and any(followed):
            raise ValueError(f"loop {loop.name} is reduced, but a result follows it")
        if not loop.reduced and not all(followed):
            raise ValueError(f"loop {loop.name} is not reduced, but a result does not follow it: its "
                             "iterations would write the same element")


def row(offset: int = 0, *terms: tuple[int, int]) -> tuple[int, tuple[tuple[int, int], ...]]:
    """One row of an access map: `offset + sum(step * index of loop)` for terms `(loop, step)`."""
    return offset, tuple(terms)


def plain(operand: int, loops: Sequence[int | None]) -> Indexing:
    """The access of an operand whose dimensions follow one loop each; None for a dimension that is needed
    whole."""
    rows = tuple(row(0) if loop is None else row(0, (loop, 1)) for loop in loops)
    return Indexing(operand, AccessMap(rows, tuple(d for d, loop in enumerate(loops) if loop is None)))


def text(spec: OpSpec) -> str:
    """`i:8 j:16 | sum k:12 | %0[i,k] %1[k,j] -> %2[i,j]`: loops, reduced ones, operands read and written."""
    kept = " ".join(f"{loop.name}:{loop.extent}" for loop in spec.loops if not loop.reduced)
    folded = " ".join(f"{loop.name}:{loop.extent}" for loop in spec.loops if loop.reduced)
    parts = [kept or "one", *([f"{spec.reducer} {folded}"] if folded else []),
             f"{_operands(spec, spec.reads)} -> {_operands(spec, spec.writes)}"]
    return " | ".join(parts)


def _operands(spec: OpSpec, uses: Iterable[Indexing]) -> str:
    return " ".join(f"%{use.operand}[{','.join(_index(spec, use, d) for d in range(len(use.map.rows)))}]"
                    for use in uses)


def _index(spec: OpSpec, use: Indexing, dimension: int) -> str:
    """One index as text: `i`, `2*i+k-1`, `i^1^2` with one element below and two above, or `:` for a whole
    dimension."""
    if dimension in use.map.free:
        return ":"
    offset, terms = use.map.rows[dimension]
    words = [f"{'-' if step < 0 else '+'}{'' if abs(step) == 1 else f'{abs(step)}*'}{spec.loops[k].name}"
             for k, step in terms]
    if offset or not words:
        words.append(f"{offset:+d}")
    below, above = use.reach[dimension] if use.reach else (0, 0)
    return "".join(words).removeprefix("+") + (f"^{below}^{above}" if below or above else "")

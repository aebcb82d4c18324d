"""The kernel language: what a fused task computes, as one typed list of operations per loop nest.

A `Body` is a value in the terms of slots, views and spaces: it names no store, no address, no extent
and no scalar value, so isomorphic fused tasks share one body, one kernel and one cache entry.  It names
no target either: `llvm` lowers it for the host or for a GPU, `interpret` says with NumPy what it means.

    Body   ::= spaces, arguments, scalars, loops
    Loop   ::= space, order, ops
    Op     ::= kind dtype args attribute            (the value number of an op is its index in the loop)

Kinds of `Op`:

    load      attribute = argument                  the element of the argument at this iteration
    scalar    attribute = scalar                    a parameter given by value
    const     attribute = Python value              a literal that belongs to the structure
    index     attribute = iteration dimension       the iteration index, an int64
    cast      args = (value,)                       NumPy's `astype` to `dtype`
    store     args = (value,), attribute = argument
    reduce    args = (value,), attribute = (operator, argument)      over the iteration dimensions that the
              argument does not follow, in the fixed tree of `reduction`; dtype = the accumulator's
    scan      args = (value,), attribute = (operator, dimension)     value = running sum or product
    spmv      args = (low, high), attribute = (values, columns, dense), three arguments: value = the sum of
              values[k] * dense[columns[k]] for low <= k < high, in that order from zero; over a second
              iteration dimension j, dense[columns[k], j].  attribute = (values,) alone: the sum of values[k]
              as `numpy.add.reduceat` adds them, added to zero: never -0.0
    pick      args = (distance,), attribute = argument: the element of the argument that lies so many
              elements (int64) behind that of this iteration: its coordinates along some dimensions are data
    nth       args = (elements, blocks), attribute = (mask, counts), two arguments: the position of a mask's
              true element (counted from 0) whose number is the iteration's first index.  `counts` has the
              number of true elements before each block of `operations.COUNTED` elements, and that of all
    turn      args = (shift, ...), attribute = (argument, (dimension, ...)): the element of the argument at
              this iteration, but along each of these dimensions, of extent n, at index (i + shift) mod n;
              0 <= shift < n
    scatter   args = (count, pitch, ascending), attribute = (operator, target, indices, values, dimension,
              letter), three of them arguments: for k = 0, 1, ... below `count`, in this order, at
              iterations whose index along the dimension is indices[k]: target = values[k], or
              operator(target, values[k]) if there is one, where elements k of the values lie `pitch`
              elements apart.  `ascending` is 1 if the indices are known to be in order, else 0.  With the
              letter "d", and not "a", a maximum or minimum of floats notes an invalid value where it meets
              NaN.  Such a loop has nothing else
    otherwise an op of the table (operations.py), as "add", "exp", "where" or "clip", computing in the dtypes
              of its args, with a result of `dtype`
"""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import pack
from typing import Any, NamedTuple

from diffuse.ir import Privilege

STRUCTURAL = {"load": 0, "scalar": 0, "const": 0, "index": 0, "cast": 1, "store": 1, "reduce": 1, "scan": 1,
              "spmv": 2, "turn": -1, "pick": 1, "nth": 2,
              "scatter": 3}
"""Kinds of ops outside the table of operations, with their number of inputs; -1: the attribute determines
it."""


EFFECTS = frozenset(("store", "reduce", "scatter"))
"""Kinds of ops that write memory and have no value."""


class Literal(float):
    """A constant in a kernel's structure.  Literals are equal if their bits are: 0.0 and -0.0 differ, and NaN
    equals itself."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, float) and pack("<d", self) == pack("<d", other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(pack("<d", self))


class Op(NamedTuple):
    kind: str
    dtype: str
    args: tuple[int, ...] = ()
    attribute: Any = None

    @property
    def arguments(self) -> tuple[int, ...]:
        """The arguments that the op names."""
        match self.kind:
            case "load" | "store" | "pick":
                return (self.attribute,)
            case "reduce":
                return (self.attribute[1],)
            case "turn":
                return (self.attribute[0],)
            case "spmv" | "nth":
                return tuple(self.attribute)
            case "scatter":
                return tuple(self.attribute[1:4])
        return ()


class Argument(NamedTuple):
    """One way in which a fused task accesses one slot.  Base address and strides are passed at launch."""

    slot: int
    view: int
    """The number of the view among the slot's distinct views; equal (slot, view, space) means equal
    elements."""
    dtype: str
    space: int
    classes: str
    """One letter per iteration dimension: 0 not followed (broadcast or reduced), 1 neighbouring elements
    are neighbours in memory, s any other stride, c the stride of rows that lie one behind the other, n that
    of rows with one index left out between them; of the last dimension also 2, 3 or 4, a stride of so many
    elements; of the one before it also p or q, the stride of neighbouring elements each of which the last
    dimension repeats two or four times."""
    privilege: Privilege


class Space(NamedTuple):
    """An iteration space.  Its extents, and one tile for each launch dimension, are passed at launch."""

    rank: int
    axes: tuple[int, ...]
    """For each dimension of the launch domain, the iteration dimension that it cuts; -1: none."""
    flat: int = 0
    """Where the last dimension is so short that the last two are better iterated as one: the number of
    vectors per row (loops.flat); else 0."""
    begins: bool = False
    """Does the split of each launch dimension have a `begin`, passed at launch?"""


class Loop(NamedTuple):
    space: int
    order: tuple[int, ...]
    """Iteration dimensions from the outermost loop to the innermost."""
    ops: tuple[Op, ...]


@dataclass(frozen=True)
class Body:
    spaces: tuple[Space, ...]
    arguments: tuple[Argument, ...]
    scalars: tuple[str, ...]
    """Element types of the parameters given by value."""
    loops: tuple[Loop, ...]
    """The loops, which each point runs one after another."""
    epilogue: int = 0
    """The number of loops at the end, over single elements, that run once after all points, when their
    reductions have been combined."""
    whole: tuple[int, ...] = ()
    """The numbers of the reductions whose results each of several points completes at the end of their loop,
    because it has all elements of the rows that it folds."""

    parts: tuple[int, ...] = ()
    """The numbers of the reductions of which each of several points folds the subtrees with only its own
    leaves (`abi.leaf_runs`), so that little remains to combine after all points."""

    streams: bool = False
    """Does the first result use non-temporal stores?  It would leave the cache before it is read again."""

    split: tuple[int, ...] = ()
    """Dense operands of sparse products whose rows lie in two places: some, which follow one another, at the
    argument's address, and all others at a second address, both passed at launch."""

    @property
    def launch_rank(self) -> int:
        """The number of dimensions of the launch domain."""
        return len(self.spaces[0].axes) if self.spaces else 1

    def __str__(self) -> str:
        return "\n".join(_lines(self))


@dataclass
class Builder:
    """Writes the body fragment of one operation for its generator; values are integers.

    `inputs[k]` and `outputs[k]` name the operation's inputs and outputs by position, wherever they live.
    """

    inputs: tuple[Op, ...]
    """For each input the op that produces it: a load or a scalar, in its element type in memory."""
    outputs: tuple[Any, ...]
    """For each output, an `Output`."""
    signature: tuple[str, ...]
    attribute: str = ""
    """The part of the operation's name after the colon ("1" in "cumsum:1")."""
    ops: list[Op] = field(default_factory=list)

    def emit(self, kind: str, dtype: str, *args: int, attribute: Any = None) -> int:
        ops = self.ops
        ops.append(tuple.__new__(Op, (kind, dtype, args, attribute)))
        return len(ops) - 1

    def input(self, position: int) -> int:
        """The input at `position`, cast to the element type that the signature computes in."""
        op = self.inputs[position]
        self.ops.append(op)
        return self.cast(len(self.ops) - 1, self.signature[position])

    def cast(self, value: int, dtype: str) -> int:
        return value if self.ops[value].dtype == dtype else self.emit("cast", dtype, value)

    def const(self, value: Any, dtype: str) -> int:
        return self.emit("const", dtype, attribute=Literal(value) if isinstance(value, float) else value)

    def index(self, dimension: int) -> int:
        return self.emit("index", "int64", attribute=dimension)

    def argument(self, position: int) -> Any:
        """The argument of the input at `position`, for an op that reads elements of its own choice."""
        op = self.inputs[position]
        if op.kind != "load":
            raise ValueError(f"input {position} is given by value: only a store has elements to pick")
        return op.attribute

    def store(self, value: int, position: int = 0) -> None:
        """Write output `position`, cast to its element type in memory."""
        out = self.outputs[position]
        self.emit("store", out.dtype, self.cast(value, out.dtype), attribute=out.argument)

    def reduce(self, value: int, operator: str, position: int = 0) -> None:
        """Fold `value` into output `position` over the dimensions that the output does not follow."""
        out = self.outputs[position]
        self.emit("reduce", self.ops[value].dtype, value, attribute=(operator, out.argument))


class Output(NamedTuple):
    dtype: str
    argument: int
    rank: int = 0
    """The number of dimensions of the iteration space."""


def _lines(body: Body) -> list[str]:
    """A body as text: one line per op, the form of traces and golden files."""
    lines = [f"space {i}: rank {s.rank}, cut along {','.join(map(str, s.axes))}{', flat' if s.flat else ''}"
             f"{', with begins' if s.begins else ''}"
             for i, s in enumerate(body.spaces)]
    lines += [f"argument {i}: %{a.slot}.{a.view} {a.dtype} [{a.classes}] "
              f"in space {a.space} {a.privilege.value}{', in two places' if i in body.split else ''}"
              for i, a in enumerate(body.arguments)]
    lines += [f"scalar {i}: {dtype}" for i, dtype in enumerate(body.scalars)]
    folds = 0
    for number, loop in enumerate(body.loops):
        last = ", at the end" if number >= len(body.loops) - body.epilogue else ""
        lines.append(f"loop {number} over space {loop.space}, order {loop.order}{last}:")
        for i, op in enumerate(loop.ops):
            args = ", ".join(f"v{a}" for a in op.args)
            attribute = "" if op.attribute is None else f" #{op.attribute}"
            name = "" if op.kind in EFFECTS else f"v{i}: {op.dtype} = "
            done = ""
            if op.kind == "reduce":
                done = (", complete at each point" if folds in body.whole else
                        ", its subtrees at each point" if folds in body.parts else "")
                folds += 1
            lines.append(f"  {name}{op.kind} {args}{attribute}".rstrip() + done)
    return lines

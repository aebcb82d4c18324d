"""Programs of described operators on named arrays, and their division by a grid of processes.

The loops of all operators share their names: what is cut is a loop, for the whole program.  A process of the
grid has one block of every loop that is cut, and so one block of every array.  It begins with a piece of its
block of each operand, some of its rows: the processes that need the same block gather it.  Values that a cut
loop reduces are combined where the next operator needs them, or scattered if they are the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from diffuse.spec import Loop, OpSpec, einsum
from diffuse.spec.opspec import plain
from diffuse.spmd.sparse import SparseProduct, spmv

Names = tuple[str, ...]
"""Names of loops, one for each dimension of an array."""


class IndexedArray(NamedTuple):
    """An array that the program is given, as one of its operators indexes it."""

    name: str
    loops: Names
    source: str
    """The array whose elements these are: another name if another operator indexes it by other loops."""


class Statement(NamedTuple):
    """One operator: its description, the arrays that it reads and the one that it makes, and how."""

    spec: OpSpec
    reads: Names
    makes: str
    formula: str = ""
    """An expression of NumPy with the arrays' names in braces; empty: the product, or the fold of one."""

    def loops(self, number: int) -> Names:
        """The loops that index an operand: those read, then the one made."""
        use = (*self.spec.reads, *self.spec.writes)[number]
        return tuple([self.spec.loops[terms[0][0]].name for _, terms in use.map.rows])

    @property
    def result(self) -> Names:
        """The loops that index what is made."""
        return self.loops(len(self.reads))

    @property
    def reduced(self) -> Names:
        """The loops over which values are folded."""
        return tuple([loop.name for loop in self.spec.loops if loop.reduced])


@dataclass(frozen=True)
class Program:
    """Operators in the order in which they run; the last one makes the result."""

    name: str
    said: str
    """What it computes, in words."""
    operands: tuple[IndexedArray, ...]
    operations: tuple[Statement, ...]

    @property
    def extents(self) -> dict[str, int]:
        """The loops and their extents, in the order of the operands' dimensions, then of the operators."""
        found: dict[str, int] = {}
        every = {loop.name: loop.extent for one in self.operations for loop in one.spec.loops}
        for name in [*[name for one in self.operands for name in one.loops], *every]:
            found.setdefault(name, every[name])
        return found

    @property
    def sources(self) -> tuple[IndexedArray, ...]:
        """The arrays that the program is given, each once."""
        return tuple([one for one in self.operands if one.name == one.source])


def cut(program: Program, grid: Mapping[str, int]) -> dict[str, int]:
    """Return the loops that a grid cuts into several parts.  Raises ValueError for a grid that does not fit
    the program."""
    extents = program.extents
    for name, parts in grid.items():
        if name not in extents:
            raise ValueError(f"grid: no loop {name!r}; the loops are {', '.join(extents)}")
        if parts < 1:
            raise ValueError(f"grid: {parts} processes along {name}; give at least 1")
    found = {name: parts for name, parts in grid.items() if parts > 1}
    made: dict[str, Names] = {}
    for one in program.operations:
        for number, name in enumerate(one.reads):
            for mine, theirs in zip(made.get(name, ()), one.loops(number)):
                if mine != theirs and (mine in found or theirs in found):
                    raise ValueError(f"grid: {name} is made in blocks of {mine} and read in blocks of "
                                     f"{theirs}: cut neither of the two")
        made[one.makes] = one.result
    return found


def sharing(loops: Names, grid: Mapping[str, int]) -> Names:
    """The cut loops that do not index an array: processes that differ in these alone need the same block."""
    return tuple([name for name in grid if name not in loops])


def words(program: Program, grid: Mapping[str, int]) -> float:
    """Return the elements that all processes together receive: the parts of operand blocks that a process
    does not begin with, and what combining sums moves if every process combines an equal part."""
    grid = cut(program, grid)
    extents, ranks = program.extents, prod(grid.values())

    def block(loops: Names) -> float:
        return prod([extents[name] / grid.get(name, 1) for name in loops])

    seen: set[tuple[str, Names]] = set()
    total = 0.0
    for operand in program.operands:
        key = operand.source, tuple([name if name in grid else "" for name in operand.loops])
        if key not in seen:
            seen.add(key)
            total += ranks * block(operand.loops) * _rest(sharing(operand.loops, grid), grid)
    for one in program.operations:
        rest = _rest(tuple([name for name in one.reduced if name in grid]), grid)
        scatters = one is program.operations[-1] and one.result
        total += ranks * block(one.result) * rest * (1 if scatters else 2)
    return total


def _rest(loops: Names, grid: Mapping[str, int]) -> float:
    """Return the share of a block that a process receives from others, if the processes along these loops
    have equal pieces of it."""
    return 1 - 1 / prod([grid[name] for name in loops])


# -- programs ----------------------------------------------------------------------------------------------


def of_spec(spec: OpSpec, name: str = "product") -> Program:
    """Make the program of one Einstein sum.  Raises ValueError for any other description."""
    if spec.origin != "einsum" or any(len(loop.name) > 1 or not loop.name.islower() for loop in spec.loops):
        raise ValueError(f"{spec}: write a program of an Einstein sum whose loops are lower-case letters")
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    one = Statement(spec, tuple(letters[:len(spec.reads)]), letters[len(spec.reads)])
    for number in range(len(spec.reads)):
        if len(set(one.loops(number))) < len(one.loops(number)):
            raise ValueError(f"{spec}: operand {number} is a diagonal, of which no process has a block")
    terms = " * ".join([_indexed(x, one.loops(k)) for k, x in enumerate(one.reads)])
    over = f"sum over {', '.join(one.reduced)} of " if one.reduced else ""
    return Program(name, f"{_indexed(one.makes, one.result)} = {over}{terms}", tuple(
        [IndexedArray(x, one.loops(k), x) for k, x in enumerate(one.reads)]), (one,))


def _indexed(name: str, loops: Names) -> str:
    return f"{name}[{','.join(loops)}]"


def matmul(m: int, k: int, n: int) -> Program:
    """The product of two matrices."""
    return of_spec(einsum("mk,kn->mn", (m, k), (k, n)), "matmul")


def softmax(b: int, h: int, s: int, t: int) -> Program:
    """The softmax of scores along their last dimension."""
    extents = {"b": b, "h": h, "s": s, "t": t}
    return Program("softmax", "Y[b,h,s,:] = softmax of X[b,h,s,:]", (IndexedArray("X", tuple("bhst"), "X"),),
                   _softmax("X", "Y", extents))


def attention(b: int, s: int, e: int, h: int, d: int) -> Program:
    """Self-attention: batches, places, features, heads and the features of a head.  The places that are
    looked at are the loop t, and the features of the result the loop f."""
    extents = {"b": b, "s": s, "t": s, "e": e, "h": h, "d": d, "f": e}
    operands = [IndexedArray("X", tuple("bse"), "X"), IndexedArray("XT", tuple("bte"), "X"),
                *[IndexedArray(f"W{x}", tuple("ehd"), f"W{x}") for x in "QKV"],
                IndexedArray("WO", tuple("hdf"), "WO")]
    operations = (
        _product(extents, "bse,ehd->bhsd", "X", "WQ", "Q"),
        _product(extents, "bte,ehd->bhtd", "XT", "WK", "K"),
        _product(extents, "bte,ehd->bhtd", "XT", "WV", "V"),
        _product(extents, "bhsd,bhtd->bhst", "Q", "K", "S"),
        _formula(extents, "bhst", "{S} / np.sqrt(" + str(float(d)) + ")", "S", {"S": "bhst"}),
        *_softmax("S", "P", extents),
        _product(extents, "bhst,bhtd->bhsd", "P", "V", "O"),
        _product(extents, "bhsd,hdf->bsf", "O", "WO", "Y"))
    return Program("attention", "Y[b,s,:] = self-attention of X[b,s,:] with the heads h", tuple(operands),
                   operations)


def _softmax(given: str, made: str, extents: Mapping[str, int]) -> tuple[Statement, ...]:
    whole = {given: "bhst"}
    return (_fold(extents, "max", "top", "bhs", given, "bhst"),
            _formula(extents, "bhst", f"np.exp({{{given}}} - {{top}})", "E", {**whole, "top": "bhs"}),
            _fold(extents, "sum", "total", "bhs", "E", "bhst"),
            _formula(extents, "bhst", "{E} / {total}", made, {"E": "bhst", "total": "bhs"}))


def _product(extents: Mapping[str, int], subscripts: str, *names: str) -> Statement:
    terms = subscripts.partition("->")[0].split(",")
    spec = einsum(subscripts, *[tuple([extents[x] for x in term]) for term in terms])
    return Statement(spec, names[:-1], names[-1])


def _fold(extents: Mapping[str, int], reducer: str, makes: str, result: str, name: str, letters: str
          ) -> Statement:
    loops = tuple([Loop(x, extents[x], x not in result) for x in letters])
    uses = [plain(k, [letters.index(x) for x in term]) for k, term in enumerate((letters, result))]
    return Statement(OpSpec(loops, (uses[0],), (uses[1],), reducer, origin="written"), (name,), makes)


def _formula(extents: Mapping[str, int], letters: str, text: str, makes: str, reads: Mapping[str, str]
             ) -> Statement:
    loops = tuple([Loop(x, extents[x]) for x in letters])
    terms = *reads.values(), letters
    uses = [plain(k, [letters.index(x) for x in term]) for k, term in enumerate(terms)]
    spec = OpSpec(loops, tuple(uses[:-1]), (uses[-1],), origin="written")
    return Statement(spec, tuple(reads), makes, text)


KNOWN: dict[str, tuple[Callable[..., Program | SparseProduct], Sequence[str]]] = {
    "matmul": (matmul, "mkn"), "softmax": (softmax, "bhst"), "attention": (attention, "bsehd"),
    "spmv": (spmv, "mn")}
"""The programs that have a name, and the loops whose extents they are given."""

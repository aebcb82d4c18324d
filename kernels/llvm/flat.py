"""Runs two dimensions as one loop: a short last dimension and the one before it.

Rows of three elements would leave most lanes of a vector unused.  Where the stores of a loop are contiguous
over both dimensions, or every second to fourth element is stored, the loop counts elements across rows.
Contiguous arrays are then read by whole vectors.  Rows longer than a vector may have gaps between them, as
those of `x[:, 1:]`: a step of the loop then accesses at most two of them, each under a mask (gaps.py), or
runs through a gap of one index (skips.py).
An array each of whose elements is used for a whole row of two or four is read by parts of vectors.
An array that repeats in every row (a row of coefficients) is copied to a small table of one row plus as many
elements as there are lanes, and a step reads it from its starting column on.  All other arrays (one number
per row, every second element) are read lane by lane, at distances from the step's row that another table
holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from diffuse.ir import ITEMSIZE
from diffuse.ir.loops import LEFT_OUT, NEAR, REPEATS, SHORT
from diffuse.kernels.body.expr import Argument, Body, Loop
from diffuse.kernels.body.operations import TABLE
from diffuse.kernels.llvm import gaps, skips
from diffuse.kernels.llvm.block import Block
from diffuse.kernels.llvm.code import COMPONENT, Code, carrying, counted
from diffuse.kernels.llvm.memory import MASKED, Place, Step, element, load_one, store_one

ALONG, REPEATED, FIXED = "c1", "0", "00"
"""The stride classes of an access in the last two dimensions: contiguous over both; the same row repeated
(first letter); a single element."""
APART = ("s1", *["s" + step for step in NEAR])
"""Those of an access to rows with gaps between them: of elements side by side, and of every second to fourth
element.  The former are better read as vectors row by row than lane by lane."""
NEARBY = tuple(["c" + step for step in NEAR])
"""Those of an access to every second to fourth element over both dimensions."""
BY_VECTORS = (REPEATED, *REPEATS)
"""First letters of accesses that are not read lane by lane."""
LEFT = 0.5
"""The vectors that a loop saves in each row, on average, if it runs through gaps of one index: no vector ends
with the row."""
GAP = 2
"""The additional instructions of an access with gaps, per vector of memory."""


def applies(body: Body, loop: Loop, order: tuple[int, ...], code: Code) -> bool:
    """Can, and should, this loop run over the elements of its last two dimensions at once?"""
    space, lanes = body.spaces[loop.space], code.module.target.lanes
    if not space.flat or lanes == 1 or order[-2:] != (space.rank - 2, space.rank - 1):
        return False
    if any(op.kind in ("reduce", "scan", "index", "spmv", "turn", "pick") for op in loop.ops):
        return False
    stored, loaded = ([body.arguments[op.attribute] for op in loop.ops if op.kind == kind]
                      for kind in ("store", "load"))
    over = gapped(body, loop.space, code)
    apart = [argument.classes[-2:] for argument in stored + loaded if over(argument)]
    if skips.applies(body, loop, code):
        count = _cost(loop)
        return (space.flat - LEFT) * (count + len(loaded)) < _rows(space.flat, count, stored + loaded)
    if any(argument.classes[-2:] not in (ALONG, *NEARBY) and not over(argument) for argument in stored):
        return False
    if not stored or any(_ends(argument) == APART[0] and not over(argument) for argument in loaded):
        return False
    count = _cost(loop) if apart else len(loop.ops)
    picked = sum(argument.classes[-2:] not in (ALONG, *NEARBY) and not over(argument)
                 and argument.classes[-2] not in BY_VECTORS for argument in loaded)
    more = 3 * lanes * picked + GAP * sum([int(letters[1]) for letters in apart])
    return bool((space.flat - 0.625) * (count + more) < _rows(space.flat, count, stored + loaded))


def _cost(loop: Loop) -> int:
    """The instructions of a loop for a vector."""
    return sum([TABLE[op.kind].cost if op.kind in TABLE else 1 for op in loop.ops])


def _rows(vectors: int, count: int, accesses: list[Argument]) -> int:
    """The instructions for a row of so many vectors on its own, of `count` for each vector."""
    return vectors * count + 2 * len(accesses) + 12


def _ends(argument: Argument) -> str:
    """The letters of the last two dimensions of an access, where the gap between rows does not matter."""
    return argument.classes[-2:].replace(LEFT_OUT, "s")


def gapped(body: Body, space: int, code: Code) -> Callable[[Argument], bool]:
    """A function that says whether a loop over this space may access an argument along rows with gaps."""
    possible = body.spaces[space].flat > 1 and code.module.target.permutes

    def over(argument: Argument) -> bool:
        return (possible and _ends(argument) in APART and argument.dtype not in COMPONENT
                and ITEMSIZE[argument.dtype] >= MASKED)

    return over


class Rows:
    """The position of such a loop: the column and the row in which a step begins, if an access depends on
    them."""

    def __init__(self, code: Code, block: Block, body: Body, loop: Loop) -> None:
        self.code, self.block, self.body, space = code, block, body, loop.space
        self.rank = body.spaces[space].rank
        self.width = block.extent(space, self.rank - 1)
        self.skips = skips.applies(body, loop, code)
        self.period = code.let(f"add nuw nsw i64 {self.width}, 1") if self.skips else self.width
        """The number of columns from one row to the next, with the one that is left out between them."""
        self.columns = code.let(f"urem i64 {code.lanes}, {self.period}")
        self.rows = code.let(f"udiv i64 {code.lanes}, {self.period}")
        self.size = SHORT + code.lanes
        self.gapped = gapped(body, space, code)
        self.counts = 1 if self.skips else max(self._depends(body.arguments[argument])
                                               for op in loop.ops for argument in op.arguments)
        """How many of the column and the row an access depends on."""
        self.position: list[str] = []
        """The column and the row in which the next step begins, as far as an access depends on them."""
        self.distances: dict[int, str] = {}
        """For each argument that is read lane by lane, the table of its distances in bytes."""
        self.rows_repeated: dict[int, str] = {}
        """For each argument with the same row in the whole loop nest, the table of that row."""

    def prepare(self, bases: dict[int, str]) -> None:
        """Fill the tables that do not change during the loop nest."""
        code = self.code
        for argument, base in bases.items():
            kind = self.body.arguments[argument]
            letters = kind.classes[-2:]
            if letters != FIXED and {*kind.classes[:-1]} == {"0"}:
                self.rows_repeated[argument] = self._row(argument, base)
            if self._depends(kind) < 2 or self.gapped(kind):
                continue
            table = self.distances[argument] = self.block.room("int64", self.size)
            down, along = (self.block.stride(argument, self.rank - k) for k in (2, 1))
            with self._entries() as (k, row, column):
                far = code.let(f"mul nsw i64 {row}, {down}")
                near = code.let(f"mul nsw i64 {column}, {along}")
                distance = code.let(f"add nsw i64 {far}, {near}")
                store_one(code, "int64", element(code, "int64", table, k), distance)

    @staticmethod
    def _depends(kind: Argument) -> int:
        """On what an access depends besides the number of an element, counted across rows: nothing (0), the
        column (1), or the column and the row (2)."""
        letters = kind.classes[-2:]
        if letters in (ALONG, FIXED, *NEARBY) or letters[0] in REPEATS:
            return 0
        return 1 if letters[0] == REPEATED else 2

    def place(self, argument: int, base: str) -> Place:
        """The place of an argument in the rows that begin at `base`."""
        kind = self.body.arguments[argument]
        letters = _ends(kind)
        if self.skips and letters[0] != REPEATED:
            letters = "c" + letters[1]
        if letters == ALONG:
            return Place(kind.dtype, "1", base)
        if letters in NEARBY:
            return Place(kind.dtype, letters[1], base, self.block.stride(argument, self.rank - 1))
        if letters[0] in REPEATS:
            return Place(kind.dtype, letters[0], base)
        if letters == FIXED:
            return Place(kind.dtype, "0", base)
        if letters[0] != REPEATED:
            down = self.block.stride(argument, self.rank - 2)
            if not self.gapped(kind):
                return Place(kind.dtype, "d", base, down, self.distances[argument])
            apart = int(letters[1])
            row = self.code.let(f"mul nsw i64 {self.width}, {apart * ITEMSIZE[kind.dtype]}")
            gap = self.code.let(f"sub nsw i64 {down}, {row}")
            return Place(kind.dtype, "g", base, down, apart=apart, gap=gap)
        return Place(kind.dtype, "r", self.rows_repeated.get(argument) or self._row(argument, base))

    def _row(self, argument: int, base: str) -> str:
        """The table of a row that repeats, which is filled from address `base` on."""
        code, kind = self.code, self.body.arguments[argument]
        table, along = self.block.room(kind.dtype, self.size), self.block.stride(argument, self.rank - 1)
        with self._entries() as (k, _, column):
            offset = code.let(f"mul nsw i64 {column}, {along}")
            source = code.let(f"getelementptr inbounds i8, ptr {base}, i64 {offset}")
            value = load_one(code, kind.dtype, source)
            store_one(code, kind.dtype, element(code, kind.dtype, table, k), value)
        return table

    def bounds(self, low: str, high: str) -> tuple[str, str]:
        """Convert bounds in rows to bounds in elements, and begin in the first column."""
        code = self.code
        self.position = ["0", low][:self.counts]
        first, end = (code.let(f"mul nsw i64 {bound}, {self.period}") for bound in (low, high))
        return first, code.let(f"sub nsw i64 {end}, 1") if self.skips else end

    @contextmanager
    def steps(self, low: str, high: str, length: int) -> Iterator[str]:
        """A loop over steps of so many elements, which carries the position in registers; yields the
        index."""
        begin = [("i64", number) for number in self.position]
        with carrying(self.code, low, high, length, begin) as (index, values):
            self.position = values.copy()
            yield index
            values[:] = self.position
        self.position = values

    def at(self, step: Step) -> Step:
        """The step with the column and the row in which it begins."""
        return self._begun(step, self.position)

    def _begun(self, step: Step, position: list[str]) -> Step:
        """The step with this column and row."""
        if not position:
            return step
        column, row = [*position, ""][:2]
        left = self.code.let(f"sub nsw i64 {self.width}, {column}")
        step = step._replace(row=row, column=column, left=left)
        return skips.at(self.code, step) if self.skips else step

    def advance(self, step: Step) -> None:
        """Advance the column and the row to the next step."""
        self.position = self._next(step)

    def behind(self, step: Step) -> Step:
        """The next step."""
        return self._begun(step, self._next(step))

    def _next(self, step: Step) -> list[str]:
        """The column and the row of the first element of the next step."""
        code = self.code
        if not self.counts:
            return []
        column = code.let(f"add nsw i64 {step.column}, {self.columns}")
        over = code.let(f"icmp sge i64 {column}, {self.period}")
        back = code.let(f"select i1 {over}, i64 {self.period}, i64 0")
        found = [code.let(f"sub nsw i64 {column}, {back}")]
        if self.counts > 1:
            row = code.let(f"add nsw i64 {step.row}, {self.rows}")
            more = code.let(f"zext i1 {over} to i64")
            found.append(code.let(f"add nsw i64 {row}, {more}"))
        return found

    @contextmanager
    def _entries(self) -> Iterator[tuple[str, str, str]]:
        """A loop over the entries of a table; yields the entry's number, row and column."""
        code = self.code
        end = code.let(f"add nsw i64 {self.period}, {code.lanes - 1}")
        with counted(code, "0", end) as k:
            column = code.let(f"urem i64 {k}, {self.period}")
            if self.skips:  # the column that is left out has what the last one has
                column = gaps.least(code, column, code.let(f"sub nsw i64 {self.width}, 1"))
            yield k, code.let(f"udiv i64 {k}, {self.period}"), column

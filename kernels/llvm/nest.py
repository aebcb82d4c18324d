"""Emits the LLVM module of a `Body`: loops, and in them the ops one after another.

A loop nest follows the loop's order of dimensions.  Along the innermost one it processes `lanes` elements at
a time as explicit vectors, and the remainder once more under a mask; a loop with a scan of which the order of
additions shows, or with strided accesses, goes element by element.  Everything is written in its final form
(vectors chosen, invariants hoisted), so that no pass has to improve it: compilation costs little more than
instruction selection.

The ops themselves are written by iteration.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from diffuse.ir import ITEMSIZE
from diffuse.ir.loops import LEFT_OUT, SEGMENT
from diffuse.kernels.body import abi
from diffuse.kernels.body.expr import Body, Op
from diffuse.kernels.body.operations import TABLE
from diffuse.kernels.body.user import FUNCTIONS
from diffuse.kernels.llvm import (
    aligned,
    columns,
    crossing,
    flat,
    memory,
    merge,
    paired,
    reduce,
    scan,
    scatter,
    staged,
)
from diffuse.kernels.llvm.block import Block
from diffuse.kernels.llvm.code import COMPONENT, Code, Module, counted, guarded, with_lanes
from diffuse.kernels.llvm.combine import combine, fold
from diffuse.kernels.llvm.crossing import plain
from diffuse.kernels.llvm.flags import unflagged
from diffuse.kernels.llvm.iteration import HEAD, INNER, ROW, Iteration
from diffuse.kernels.llvm.memory import Place, Step
from diffuse.kernels.targets.base import Target

OF_BYTES = frozenset("""load turn store scalar const cast copy add subtract multiply negative positive
    absolute bitwise_and bitwise_or bitwise_xor invert left_shift right_shift logical_and logical_or
    logical_xor logical_not equal not_equal less less_equal greater greater_equal maximum minimum where
    clip""".split())
"""Kinds of ops that have instructions for vectors of bytes."""
NARROW = 4
"""The least bytes of an element for which all other kinds of ops have vector instructions."""

SHORT, REGISTERS = 12, 16
"""The largest cost of an innermost loop, in additions, and the most registers of its reductions, for which
its steps are unrolled over all accumulators."""

APART = 4
"""The largest cost of the ops of a loop that goes element by element, in additions per access."""
CHAIN = 48
"""The most ops of such a loop of which each needs the result of the one before it."""
DEEP = 64
"""The same for loops of which fewer accesses are strided."""

AHEAD = 1024
"""How many bytes ahead of a step the lines of arrays are fetched that outgrew the second-level cache: a
processor overlaps few steps of a long loop, so it asks for their memory late."""
ROWS_AHEAD = 4
"""The least length of a row for that, in such distances: what is fetched behind its end may be in vain."""
BUSY = 2
"""The least cost of such a loop's ops, in additions; loops that reduce need only one beside the reduction."""

ATTRIBUTES = 'nounwind "prefer-vector-width"="512"'


def emit(body: Body, target: Target) -> str:
    """The module of a body, with functions `k` and, if `finish` has work, `k_finish`."""
    module = Module(target)
    combines = [combine(module, body, number) for number in range(len(abi.reductions(body)))]
    folds = {number: fold(module, body, number) for number in body.parts}
    code = Code(module, target.lanes)
    code.label("entry")
    block = Block(code, body)
    main = len(body.loops) - body.epilogue
    for number in range(main):
        _Nest(code, block, body, number).write()
        mine = [k for k, reduction in enumerate(abi.reductions(body)) if reduction.loop == number]
        for k in mine:
            if k in body.whole or k in folds:
                code.do(combines[k] if k in body.whole else folds[k])
        if any(k not in body.whole for k in mine):
            with guarded(code, code.let(f"icmp eq i64 {block.points()}, 1")):
                for k in mine:
                    if k not in body.whole:
                        code.do(combines[k])
    if body.streams and target.sse:  # non-temporal stores are not ordered for other threads
        code.declare("declare void @llvm.x86.sse.sfence()")
        code.do("call void @llvm.x86.sse.sfence()")
    code.do("ret void")
    _function(module, "k(ptr %block, i64 %point)", code)
    if abi.finishes(body):
        _function(module, "k_finish(ptr %block)", _finish(module, body, combines))
    return str(module)


def _finish(module: Module, body: Body, combines: list[str]) -> Code:
    """Write `k_finish`, which runs once after all points: it combines reductions, then runs the epilogue's
    loops."""
    code = Code(module, 1)
    code.label("entry")
    block = Block(code, body)
    for number, call in enumerate(combines):
        if number not in body.whole:
            code.do(call)
    for number in range(len(body.loops) - body.epilogue, len(body.loops)):
        _Nest(code, block, body, number).write()
    code.do("ret void")
    return code


def _depth(ops: Sequence[Op]) -> int:
    """The number of ops on the longest path from a load to a store."""
    found: list[int] = []
    for op in ops:
        found.append(1 + max([found[a] for a in op.args], default=-1))
    return max(found)


def _function(module: Module, head: str, code: Code) -> None:
    module.functions.append("\n".join([f"define void @{head} {ATTRIBUTES} {{", *code.lines, "}"]))


class _Nest(Iteration):
    """One loop nest being written."""

    def __init__(self, code: Code, block: Block, body: Body, number: int) -> None:
        order = abi.order_of(body, body.loops[number])
        self.flat = flat.applies(body, body.loops[number], order, code)
        """Does the innermost loop run over two dimensions?"""
        super().__init__(code, block, body, number, order[-2:] if self.flat else ())
        self.rows: flat.Rows | None = None
        depth = _depth(self.loop.ops)
        self.gathers = depth > DEEP or depth > CHAIN and self._apart()
        """Is the loop so long that assembling vectors from strided elements would take long to compile?"""
        self.staged: staged.Staged | None = None
        """The buffer through which its strided elements pass."""
        self.streamed = aligned.streamed(self) if body.streams and number == 0 else -1
        """The argument whose stores bypass the caches; -1 for none."""
        self.folds = dict(reduce.of_loop(body, number))
        self.reductions = self.folds
        self.fetched = self._fetched()
        self.crosses = not self.flat and crossing.applies(body, self.loop, self.order)
        """Are the rows still to be cut into parts?"""

    def write(self) -> None:
        with with_lanes(self.code, self._lanes()):
            if self.number >= len(self.body.loops) - self.body.epilogue:
                self._bounded([])
                return
            point = self.block.coordinates()
            along = [p for p, axis in zip(point, self.space.axes, strict=True) if axis < 0]
            with self._at_origin(along) if along else nullcontext():
                self._bounded(point)

    def _lanes(self) -> int:
        """The number of elements per step.

        Where no element is wider than four bytes, and the processor masks vectors of bytes (AVX-512), more
        elements than the target's lanes fill a vector.
        """
        target, kinds = self.code.module.target, {op.kind for op in self.loop.ops}
        if "scatter" in kinds or not self.order or "scan" in kinds and not self._scans_vectors():
            return 1
        if not self.flat and not self.gathers and self._apart():
            return 1
        if self.flat or not target.masks_bytes or not plain(self.loop.ops, "turn"):
            return target.lanes
        if not self._beside():
            return target.lanes
        widest = max([ITEMSIZE[op.dtype] for i, op in enumerate(self.loop.ops) if i not in self.turns.shifts])
        return target.lanes * 8 // min(max(widest, 1 if kinds <= OF_BYTES else NARROW), 8)

    def _scans_vectors(self) -> bool:
        """May the scans of the loop fold vectors of elements that lie side by side?"""
        return all([scan.associative(op) for op in self.loop.ops if op.kind == "scan"]) and self._beside()

    def _beside(self) -> bool:
        """Do the elements of each access lie side by side along the innermost dimension, or at one place?"""
        return set(self._letters()) <= {"0", "1"}

    def _letters(self) -> list[str]:
        """How the elements of each access lie along the innermost dimension (`Argument.classes`)."""
        found = [self.body.arguments[a].classes[self.inner] for op in self.loop.ops for a in op.arguments]
        return ["s" if letter == LEFT_OUT else letter for letter in found]

    def _apart(self) -> bool:
        """Are most accesses strided, with little computation?

        Vectors would then be assembled element by element, which gains nothing and takes ten times as long to
        compile, unless the ops of one element form so long a chain that the processor does not reach the next
        element meanwhile.
        """
        if not self.order or not plain(self.loop.ops):
            return False
        letters = self._letters()
        apart = len(letters) - letters.count("0")
        cost = sum([TABLE[op.kind].cost for op in self.loop.ops if op.kind in TABLE])
        return 4 * letters.count("s") > 3 * apart and cost <= APART * apart

    def _at_origin(self, coordinates: list[str]) -> AbstractContextManager[None]:
        """Guard the code inside by these coordinates of the point being all 0."""
        bits, *others = coordinates
        for other in others:
            bits = self.code.let(f"or i64 {bits}, {other}")
        return guarded(self.code, self.code.let(f"icmp eq i64 {bits}, 0"))

    def _bounded(self, point: list[str]) -> None:
        """Compute the bounds of each dimension at these coordinates, and run unless the inner loop is
        empty."""
        code = self.code
        self.bounds = self.block.bounds(self.loop.space, point)
        for reduction in self.folds.values():
            reduction.prepare(self.block)
        if self.gathers and not self.flat and self.code.lanes > 1:
            self.staged = staged.Staged(self)
        bases = self.bases()
        if not self.order:
            self._head(bases)
            return
        apart = self.order[:-1] if self.flat else self.order
        merge.rows(self.block, self.body, self.loop, apart, self.bounds)
        low, high = self.bounds[self.order[-2] if self.flat else self.inner]
        with guarded(code, code.let(f"icmp slt i64 {low}, {high}")):
            self._head(bases)

    def _head(self, bases: dict[int, str]) -> None:
        if self.flat:
            self.rows = flat.Rows(self.code, self.block, self.body, self.loop)
            self.rows.prepare(bases)
        self.write_ops(HEAD, Step("0"))
        if self.loop.ops[-1].kind == "scatter":
            scatter.Scatter(self, self.loop.ops[-1], self.bounds).write()
            return
        with unflagged(self.code, self.block) if self.silent else nullcontext():
            self._dimension(0, bases)

    def _dimension(self, depth: int, bases: dict[int, str]) -> None:
        """Open the loop over dimension order[depth], with the arguments' addresses at its start."""
        if depth >= len(self.order) - (2 if self.flat else 1):
            self._opened(bases)
            self._row()
            return
        if depth == len(self.order) - 2 and self.crosses:
            self._crossed(depth, bases)
            return
        if depth == len(self.order) - 2 and columns.applies(self):
            columns.write(self, bases)
            return
        code, d = self.code, self.order[depth]
        with counted(code, *self.bounds[d]) as index:
            self.index[d] = index
            self._dimension(depth + 1, self.along(d, bases))

    def open_row(self, index: str, bases: dict[int, str]) -> None:
        """Begin the row at this index of the second innermost dimension."""
        self.index[self.order[-2]] = index
        self._opened(self.along(self.order[-2], bases))

    def _opened(self, bases: dict[int, str]) -> None:
        self.accesses = {a: self.place(a, base) for a, base in bases.items()}

    def row_at(self, index: str, bases: dict[int, str]) -> None:
        """Write the row at this index of the second innermost dimension."""
        self.open_row(index, bases)
        self._row()

    def _crossed(self, depth: int, bases: dict[int, str]) -> None:
        """Open the loop over dimension order[depth] anew for every so many elements of the innermost one."""
        code, whole = self.code, self.bounds
        self.crosses = False
        with counted(code, *whole[self.inner], crossing.ELEMENTS) as start:
            end = self.end(start, crossing.ELEMENTS, whole[self.inner][1])
            self.bounds = {**whole, self.inner: (start, end)}
            self._dimension(depth, bases)
        self.bounds = whole

    def end(self, start: str, length: int, high: str) -> str:
        """The end of so many elements from a start on, at most that of all of them."""
        stop = self.code.let(f"add nsw i64 {start}, {length}")
        short = self.code.let(f"icmp slt i64 {high}, {stop}")
        return self.code.let(f"select i1 {short}, i64 {high}, i64 {stop}")

    def _row(self) -> None:
        code = self.code
        self.write_ops(ROW, Step("0"))
        for reduction in self.folds.values():
            reduction.row(self.index)
        self.start_scans()
        self.start_counts(self.bounds[self.inner][0] if self.order else "0")
        segmented = [r for r in self.folds.values() if r.by_rows]
        if not self.order:
            self.write_ops(INNER, Step("0"))
        elif self.rows is not None:
            self._inner(*self.rows.bounds(*self.bounds[self.order[-2]]))
        elif not segmented:
            self._inner(*self.bounds[self.inner])
        else:
            low, high = self.bounds[self.inner]
            distance = self.distance(low, high)
            with counted(code, low, high, SEGMENT) as start:
                end = self.end(start, SEGMENT, high)
                for reduction in segmented:
                    reduction.begin_leaf()
                rest = self._rounds(start, end, segmented, distance) if self._short(segmented) else start
                self._inner(rest, end)
                for reduction in segmented:
                    reduction.end_leaf(start)

    def _short(self, folds: list[reduce.Fold]) -> bool:
        """Is the innermost loop short enough to be unrolled four times, and do its accumulators fit into
        registers?"""
        inner = [op.kind for op, place in zip(self.loop.ops, self.places, strict=True) if place == INNER]
        cost = sum([TABLE[kind].cost if kind in TABLE else 1 for kind in inner])
        long = not {*FUNCTIONS, "spmv", "turn", "pick", "nth"}.isdisjoint(inner)
        return (self.code.lanes == reduce.WIDTH and cost <= SHORT and not long
                and sum([len(fold.start()) for fold in folds]) <= REGISTERS)

    def _rounds(self, low: str, high: str, folds: list[reduce.Fold], distance: str) -> str:
        """Write a loop each of whose iterations goes once through all accumulators, and fetches lines so many
        elements ahead; returns the index at which it ends."""
        code = self.code
        middle = self.before_last(low, high, abi.ACCUMULATORS)
        with reduce.in_registers(code, low, middle, folds) as index:
            for at in range(0, abi.ACCUMULATORS, code.lanes):
                place = code.let(f"add nsw i64 {index}, {at}") if at else index
                self.fetch(place, distance)
                self.write_ops(INNER, Step(place))
        return middle

    def before_last(self, low: str, high: str, step: int) -> str:
        """The end of the last complete step, for steps of so many elements (a power of 2)."""
        length = self.code.let(f"sub i64 {high}, {low}")
        whole = self.code.let(f"and i64 {length}, {-step}")
        return self.code.let(f"add i64 {low}, {whole}")

    def _inner(self, low: str, high: str) -> None:
        """Write the innermost loop: full steps, then the remainder under a mask."""
        code = self.code
        if code.lanes == 1:
            with counted(code, low, high) as index:
                self.write_ops(INNER, Step(index))
            return
        if self.staged is not None and self.staged.numbers:
            self.staged.write(low, high)
            return
        if self.streamed >= 0:
            aligned.write(self, low, high)
            return
        self.plain(low, high)

    def bases(self) -> dict[int, str]:
        bases = super().bases()
        if self.staged is None:
            return bases
        return {argument: base for argument, base in bases.items() if argument not in self.staged.numbers}

    def plain(self, low: str, high: str) -> None:
        """Write full steps from the first element on, and the remainder."""
        middle = self.full(low, high)
        self.rest(middle, high)

    def full(self, low: str, high: str) -> str:
        """Write full steps from the first element on; returns where they end."""
        code, pairs = self.code, paired.applies(self)
        middle = self.before_last(low, high, code.lanes * (1 + pairs))
        distance = self.distance(low, high)
        if pairs:
            paired.write(self, low, middle, distance)
            return middle
        with counted(code, low, middle, code.lanes) as index:
            step = Step(index) if self.rows is None else self.rows.at(Step(index))
            self.fetch(index, distance)
            self.write_ops(INNER, step)
            if self.rows is not None:
                self.rows.advance(step)
        return middle

    def rest(self, low: str, high: str) -> None:
        """Write the remainder under a mask: less than a vector, or than two of them."""
        code = self.code
        if not paired.applies(self):
            with guarded(code, code.let(f"icmp slt i64 {low}, {high}")):
                self._masked(memory.last(code, low, high))
            return
        with counted(code, low, high, code.lanes) as index:
            step = self._masked(memory.last(code, index, self.end(index, code.lanes, high)))
            if self.rows is not None:
                self.rows.advance(step)

    def _masked(self, step: Step) -> Step:
        """Write a partial step; returns it with its position."""
        placed = step if self.rows is None else self.rows.at(step)
        self.write_ops(INNER, placed)
        return placed

    def _fetched(self) -> dict[int, bool]:
        """Return the arguments whose elements lie side by side and are fetched ahead, and for each whether it
        is only written."""
        kinds = {op.kind for op in self.loop.ops}
        cost = sum([TABLE[kind].cost for kind in (op.kind for op in self.loop.ops) if kind in TABLE])
        if not self.code.module.target.ahead or self.flat or cost < (1 if "reduce" in kinds else BUSY):
            return {}
        if self._lanes() == 1 or not plain(self.loop.ops, "reduce"):
            return {}
        found: dict[int, bool] = {}
        for op in self.loop.ops:
            if op.kind in ("load", "store") and op.attribute != self.streamed:
                argument = self.body.arguments[op.attribute]
                if argument.classes[self.inner] == "1" and argument.dtype not in COMPONENT:
                    found.setdefault(op.attribute, op.kind == "store")
        return found

    def distance(self, low: str, high: str) -> str:
        """How many elements ahead of a step lines are fetched; none in short rows."""
        if not self.fetched:
            return "0"
        code, count = self.code, AHEAD // max([ITEMSIZE[self.accesses[a].dtype] for a in self.fetched])
        length = code.let(f"sub i64 {high}, {low}")
        long = code.let(f"icmp sge i64 {length}, {ROWS_AHEAD * count}")
        return code.let(f"select i1 {long}, i64 {count}, i64 0")

    def fetch(self, index: str, distance: str) -> None:
        """Fetch the lines that a later step of the innermost loop accesses."""
        code = self.code
        later = code.let(f"add i64 {index}, {distance}") if self.fetched else index
        for argument, write in self.fetched.items():
            place = self.accesses[argument]
            there = code.let(f"getelementptr {code.memory(place.dtype, 1)}, ptr {place.base}, i64 {later}")
            memory.prefetch(code, there, write=write, keep=True)

    def place(self, argument: int, base: str) -> Place:
        if self.rows is not None:
            return self.rows.place(argument, base)
        return super().place(argument, base)._replace(streams=argument == self.streamed,
                                                      gathers=self.gathers)

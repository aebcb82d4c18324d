"""Emits the LLVM module of a `Body`: loops, and in them the ops one after another.

A loop nest follows the loop's order of dimensions.  Along the innermost one it processes `lanes` elements at
a time as explicit vectors, and the remainder once more under a mask; a loop with a scan of which the order of
additions shows, or with strided accesses, goes element by element.  Everything is written in its final form
(vectors chosen, invariants hoisted), so that no pass has to improve it: compilation costs little more than
instruction selection.

The ops themselves are written by iteration.py; width.py chooses the number of lanes.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from diffuse.ir.loops import SEGMENT
from diffuse.kernels.body import abi
from diffuse.kernels.body.expr import Body
from diffuse.kernels.body.operations import TABLE
from diffuse.kernels.body.user import FUNCTIONS
from diffuse.kernels.llvm import (
    ahead,
    aligned,
    columns,
    crossing,
    flat,
    memory,
    merge,
    paired,
    reduce,
    scatter,
    staged,
    width,
)
from diffuse.kernels.llvm.block import Block
from diffuse.kernels.llvm.code import Code, Module, counted, guarded, with_lanes
from diffuse.kernels.llvm.combine import combine, fold
from diffuse.kernels.llvm.flags import unflagged
from diffuse.kernels.llvm.iteration import HEAD, INNER, ROW, Iteration
from diffuse.kernels.llvm.memory import Place, Step
from diffuse.kernels.targets.base import Target

SHORT, REGISTERS = 12, 16
"""The largest cost of an innermost loop, in additions, and the most registers of its reductions, for which
its steps are unrolled over all accumulators."""

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
        self.gathers = width.gathers(self)
        self.staged: staged.Staged | None = None
        """The buffer through which its strided elements pass."""
        self.streamed = aligned.streamed(self) if body.streams and number == 0 else -1
        """The argument whose stores bypass the caches; -1 for none."""
        self.folds = dict(reduce.of_loop(body, number))
        self.reductions = self.folds
        self.ahead = ahead.Ahead(self)
        self.crosses = not self.flat and crossing.applies(body, self.loop, self.order)
        """Are the rows still to be cut into parts?"""

    def write(self) -> None:
        with with_lanes(self.code, width.lanes(self)):
            if self.number >= len(self.body.loops) - self.body.epilogue:
                self._bounded([])
                return
            point = self.block.coordinates()
            along = [p for p, axis in zip(point, self.space.axes, strict=True) if axis < 0]
            with self._at_origin(along) if along else nullcontext():
                self._bounded(point)

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
            distance = self.ahead.distance(low, high)
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
                self.ahead.fetch(place, distance)
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
        distance = self.ahead.distance(low, high)
        if pairs:
            paired.write(self, low, middle, distance)
            return middle
        with self.steps(low, middle, code.lanes) as index:
            step = Step(index) if self.rows is None else self.rows.at(Step(index))
            self.ahead.fetch(index, distance)
            self.write_ops(INNER, step)
            if self.rows is not None:
                self.rows.advance(step)
        return middle

    def steps(self, low: str, high: str, length: int) -> AbstractContextManager[str]:
        """The innermost loop, by steps of so many elements; gives the index."""
        if self.rows is None:
            return counted(self.code, low, high, length)
        return self.rows.steps(low, high, length)

    def rest(self, low: str, high: str) -> None:
        """Write the remainder under a mask: less than a vector, or than two of them."""
        code = self.code
        if not paired.applies(self):
            with guarded(code, code.let(f"icmp slt i64 {low}, {high}")):
                self._masked(memory.last(code, low, high))
            return
        with self.steps(low, high, code.lanes) as index:
            step = self._masked(memory.last(code, index, self.end(index, code.lanes, high)))
            if self.rows is not None:
                self.rows.advance(step)

    def _masked(self, step: Step) -> Step:
        """Write a partial step; returns it with its position."""
        placed = step if self.rows is None else self.rows.at(step)
        self.write_ops(INNER, placed)
        return placed

    def place(self, argument: int, base: str) -> Place:
        if self.rows is not None:
            return self.rows.place(argument, base)
        return super().place(argument, base)._replace(streams=argument == self.streamed,
                                                      gathers=self.gathers)

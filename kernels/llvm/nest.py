"""From a `Body` to the text of an LLVM module: loops, and in them the ops one after another.

A loop nest follows the loop's order of dimensions.  Along the innermost one it takes `lanes` elements at a
time, each value an explicit vector, and runs what is left over once more under a mask; a loop with a scan
goes element by element.  Everything is written in the form it should run in (vectors chosen, invariants
hoisted), so that no pass has to improve it: compiling costs instruction selection and little more.

The ops themselves are written by iteration.py.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from diffuse.ir import ITEMSIZE
from diffuse.ir.loops import SEGMENT
from diffuse.kernels.body import abi
from diffuse.kernels.body.expr import Body
from diffuse.kernels.body.operations import TABLE
from diffuse.kernels.body.user import FUNCTIONS
from diffuse.kernels.llvm import flat, memory, reduce, scatter
from diffuse.kernels.llvm.block import Block
from diffuse.kernels.llvm.code import Code, Module, counted, guarded, with_lanes
from diffuse.kernels.llvm.flags import unflagged
from diffuse.kernels.llvm.iteration import HEAD, INNER, ROW, Iteration
from diffuse.kernels.llvm.memory import Place, Step
from diffuse.kernels.targets.base import Target

OF_BYTES = frozenset("""load turn store scalar const cast copy add subtract multiply negative positive
    absolute bitwise_and bitwise_or bitwise_xor invert left_shift right_shift logical_and logical_or
    logical_xor logical_not equal not_equal less less_equal greater greater_equal maximum minimum where
    clip""".split())
"""Kinds of ops that have instructions for vectors of bytes."""

SHORT, REGISTERS = 12, 16
"""The cost of an innermost loop, in additions, and how many registers its reductions have, at most, where its
steps are written out for all accumulators in turn."""

ATTRIBUTES = 'nounwind "prefer-vector-width"="512"'


def emit(body: Body, target: Target) -> str:
    """The module of a body: functions `k` and, if there is something to finish, `k_finish`."""
    module = Module(target)
    combines = [reduce.combine(module, body, number) for number in range(len(abi.reductions(body)))]
    code = Code(module, target.lanes)
    code.label("entry")
    block = Block(code, body)
    main = len(body.loops) - body.epilogue
    for number in range(main):
        _Nest(code, block, body, number).write()
        mine = [name for name, r in zip(combines, abi.reductions(body), strict=True) if r.loop == number]
        if mine:
            with guarded(code, code.let(f"icmp eq i64 {block.points()}, 1")):
                for name in mine:
                    code.do(f"call void @{name}(ptr %block)")
    code.do("ret void")
    _function(module, "k(ptr %block, i64 %point)", code)
    if abi.finishes(body):
        _function(module, "k_finish(ptr %block)", _finish(module, body, combines))
    return str(module)


def _finish(module: Module, body: Body, combines: list[str]) -> Code:
    """What runs once, after all points: reductions are combined, then the epilogue's loops run."""
    code = Code(module, 1)
    code.label("entry")
    block = Block(code, body)
    for name in combines:
        code.do(f"call void @{name}(ptr %block)")
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
        self.flat = flat.applies(body, body.loops[number], order, code.module.target.lanes)
        """Does the innermost loop run over two dimensions?"""
        super().__init__(code, block, body, number, order[-2:] if self.flat else ())
        self.rows: flat.Rows | None = None
        self.folds = dict(reduce.of_loop(body, number))
        self.reductions = self.folds

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
        """How many elements a step takes: of bytes, eight times as many as of others, which are up to eight
        bytes wide, where the processor loads vectors of bytes under a mask."""
        target, kinds = self.code.module.target, {op.kind for op in self.loop.ops}
        if not {"scan", "scatter"}.isdisjoint(kinds) or not self.order:
            return 1
        if self.flat or not target.masks_bytes or not kinds <= OF_BYTES:
            return target.lanes
        beside = all(self.body.arguments[a].classes[self.inner] in "01"
                     for op in self.loop.ops for a in op.arguments)
        wide = beside and all(ITEMSIZE[op.dtype] == 1 for i, op in enumerate(self.loop.ops)
                              if i not in self.turns.shifts)
        return 8 * target.lanes if wide else target.lanes

    def _at_origin(self, coordinates: list[str]) -> AbstractContextManager[None]:
        """Enter where these coordinates of the point are all 0."""
        bits, *others = coordinates
        for other in others:
            bits = self.code.let(f"or i64 {bits}, {other}")
        return guarded(self.code, self.code.let(f"icmp eq i64 {bits}, 0"))

    def _bounded(self, point: list[str]) -> None:
        """Find the bounds of each dimension at these coordinates; enter unless the inner loop is empty."""
        code, space = self.code, self.loop.space
        self.bounds = {d: ("0", self.block.extent(space, d)) for d in range(self.space.rank)}
        for d, (coordinate, axis) in enumerate(zip(point, self.space.axes, strict=False)):
            if axis < 0:
                continue
            tile = self.block.tile(space, d)
            low = code.let(f"mul nsw i64 {coordinate}, {tile}")
            high = code.let(f"add nsw i64 {low}, {tile}")
            extent = self.bounds[axis][1]
            if self.space.begins:
                low, high = self._from_begin(d, coordinate, low, high)
            less = code.let(f"icmp slt i64 {high}, {extent}")
            self.bounds[axis] = low, code.let(f"select i1 {less}, i64 {high}, i64 {extent}")
        for reduction in self.folds.values():
            reduction.prepare(self.block, self.bounds)
        bases = self.bases()
        if not self.order:
            self._head(bases)
            return
        # a point behind the last row has none: low > high
        low, high = self.bounds[self.order[-2] if self.flat else self.inner]
        with guarded(code, code.let(f"icmp slt i64 {low}, {high}")):
            self._head(bases)

    def _from_begin(self, d: int, coordinate: str, low: str, high: str) -> tuple[str, str]:
        """The bounds of a tile whose split has a begin; those of the last one are to be clipped."""
        code = self.code
        begin = self.block.begin(self.loop.space, d)
        low, high = code.let(f"sub nsw i64 {low}, {begin}"), code.let(f"sub nsw i64 {high}, {begin}")
        first = code.let(f"icmp eq i64 {coordinate}, 0")
        following = code.let(f"add nsw i64 {coordinate}, 1")
        last = code.let(f"icmp eq i64 {following}, {self.block.word(d)}")
        early = code.let(f"icmp slt i64 {low}, 0")  # of a piece that is shorter than the begin
        none = code.let(f"or i1 {first}, {early}")
        return (code.let(f"select i1 {none}, i64 0, i64 {low}"),
                code.let(f"select i1 {last}, i64 {(1 << 62)}, i64 {high}"))

    def _head(self, bases: dict[int, str]) -> None:
        if self.flat:
            self.rows = flat.Rows(self.code, self.block, self.body, self.loop.space)
            self.rows.prepare(list(bases))
        self.write_ops(HEAD, Step("0"))
        if self.loop.ops[-1].kind == "scatter":
            scatter.Scatter(self, self.loop.ops[-1], self.bounds).write()
            return
        with unflagged(self.code, self.block) if self.silent else nullcontext():
            self._dimension(0, bases)

    def _dimension(self, depth: int, bases: dict[int, str]) -> None:
        """Open the loop over dimension order[depth], with the addresses where it starts."""
        if depth >= len(self.order) - (2 if self.flat else 1):
            self.accesses = {a: self.place(a, base) for a, base in bases.items()}
            self._row()
            return
        code, d = self.code, self.order[depth]
        with counted(code, *self.bounds[d]) as index:
            self.index[d] = index
            self._dimension(depth + 1, self.along(d, bases))

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
            with counted(code, low, high, SEGMENT) as start:
                stop = code.let(f"add nsw i64 {start}, {SEGMENT}")
                short = code.let(f"icmp slt i64 {high}, {stop}")
                end = code.let(f"select i1 {short}, i64 {high}, i64 {stop}")
                for reduction in segmented:
                    reduction.begin_leaf()
                rest = self._rounds(start, end, segmented) if self._short(segmented) else start
                self._inner(rest, end)
                for reduction in segmented:
                    reduction.end_leaf(start)

    def _short(self, folds: list[reduce.Fold]) -> bool:
        """Is the innermost loop so short that four steps of it are, too, and do their accumulators fit into
        registers?"""
        inner = [op.kind for op, place in zip(self.loop.ops, self.places, strict=True) if place == INNER]
        cost = sum([TABLE[kind].cost if kind in TABLE else 1 for kind in inner])
        long = not {*FUNCTIONS, "spmv", "turn", "pick", "nth"}.isdisjoint(inner)
        return (self.code.lanes == reduce.WIDTH and cost <= SHORT and not long
                and sum([len(fold.start()) for fold in folds]) <= REGISTERS)

    def _rounds(self, low: str, high: str, folds: list[reduce.Fold]) -> str:
        """Write a loop whose turns go once through all accumulators; returns the index at which it ends."""
        code = self.code
        middle = self._before_last(low, high, abi.ACCUMULATORS)
        with reduce.in_registers(code, low, middle, folds) as index:
            for at in range(0, abi.ACCUMULATORS, code.lanes):
                self.write_ops(INNER, Step(code.let(f"add nsw i64 {index}, {at}") if at else index))
        return middle

    def _before_last(self, low: str, high: str, step: int) -> str:
        """The index at which steps of so many elements, a power of 2, end."""
        length = self.code.let(f"sub i64 {high}, {low}")
        whole = self.code.let(f"and i64 {length}, {-step}")
        return self.code.let(f"add i64 {low}, {whole}")

    def _inner(self, low: str, high: str) -> None:
        """The innermost loop: full steps, then what is left under a mask."""
        code = self.code
        if code.lanes == 1:
            with counted(code, low, high) as index:
                self.write_ops(INNER, Step(index))
            return
        middle = self._before_last(low, high, code.lanes)
        with counted(code, low, middle, code.lanes) as index:
            step = Step(index) if self.rows is None else self.rows.at(Step(index))
            self.write_ops(INNER, step)
            if self.rows is not None:
                self.rows.advance(step)
        with guarded(code, code.let(f"icmp slt i64 {middle}, {high}")):
            step = memory.last(code, middle, high)
            self.write_ops(INNER, step if self.rows is None else self.rows.at(step))

    def place(self, argument: int, base: str) -> Place:
        if self.rows is not None:
            return self.rows.place(argument, base)
        return super().place(argument, base)

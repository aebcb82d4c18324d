"""From a `Body` to the text of an LLVM module: loops, and in them the ops one after another.

A loop nest follows the loop's order of dimensions.  Along the innermost one it takes `lanes` elements at a
time, each value an explicit vector, and runs what is left over once more under a mask; a loop with a scan
goes element by element.  Everything is written in the form it should run in (vectors chosen, invariants
hoisted), so that no pass has to improve it: compiling costs instruction selection and little more.

Ops are written at one of three places: at the head of the loop nest (literals, scalars and what depends on
nothing else), at the head of a row (what does not change along it), or in the innermost loop.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext

from diffuse.ir import ITEMSIZE
from diffuse.ir.loops import SEGMENT
from diffuse.kernels.body import abi
from diffuse.kernels.body.expr import Body, Loop, Op
from diffuse.kernels.body.operations import identity
from diffuse.kernels.body.user import FUNCTIONS
from diffuse.kernels.llvm import flat, memory, predication, reduce, sparse
from diffuse.kernels.llvm.block import Block
from diffuse.kernels.llvm.code import Code, Module, Value, counted, guarded, with_lanes
from diffuse.kernels.llvm.flags import unflagged
from diffuse.kernels.llvm.memory import Place, Step
from diffuse.kernels.llvm.ops.rules import RULES, cast, fold
from diffuse.kernels.targets.host import Target

HEAD, ROW, INNER = range(3)

OF_BYTES = frozenset("""load store scalar const cast copy add subtract multiply negative positive absolute
    bitwise_and bitwise_or bitwise_xor invert left_shift right_shift logical_and logical_or logical_xor
    logical_not equal not_equal less less_equal greater greater_equal maximum minimum where clip""".split())
"""Kinds of ops that have instructions for vectors of bytes."""

ATTRIBUTES = 'nounwind "prefer-vector-width"="512"'


def emit(body: Body, target: Target) -> str:
    """The module of a body: functions `k` and, if there is something to finish, `k_finish`."""
    module = Module(target)
    combines = [reduce.combine(module, body, number) for number in range(len(abi.reductions(body)))]
    code = Code(module, target.lanes)
    code.label("entry")
    block = Block(code, body)
    main = len(body.loops) - body.epilogue
    for number, loop in enumerate(body.loops[:main]):
        _Nest(code, block, body, number, loop).write()
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
        _Nest(code, block, body, number, body.loops[number]).write()
    code.do("ret void")
    return code


def _function(module: Module, head: str, code: Code) -> None:
    module.functions.append("\n".join([f"define void @{head} {ATTRIBUTES} {{", *code.lines, "}"]))


def order_of(body: Body, loop: Loop) -> tuple[int, ...]:
    """Dimensions from the outermost loop to the innermost.

    A loop's iterations are independent, so one with reductions may take the order of their tree: the last
    dimension innermost, and outermost what a column reduction keeps, so that its leaves are finished one
    after another.
    """
    rank = body.spaces[loop.space].rank
    folds = [op.attribute[1] for op in loop.ops if op.kind == "reduce"]
    if not folds:
        return loop.order
    columns = [body.arguments[a].classes for a in folds if rank and body.arguments[a].classes[-1] != "0"]
    outer = sorted(range(rank - 1), key=lambda d: (columns[0][d] == "0") if columns else False)
    return (*outer, rank - 1) if rank else ()


def places(body: Body, loop: Loop, inner: Collection[int]) -> list[int]:
    """For each op of a loop, where it is written; its innermost loop runs over the dimensions `inner`."""
    stored = {body.arguments[op.attribute][:2] for op in loop.ops if op.kind == "store"}
    found: list[int] = []
    for op in loop.ops:
        match op.kind:
            case "load":
                argument = body.arguments[op.attribute]
                moves = any(argument.classes[d] != "0" for d in inner)
                found.append(INNER if moves or argument[:2] in stored else ROW)
            case "scalar" | "const":
                found.append(HEAD)
            case "index":
                found.append(INNER if op.attribute in inner else ROW)
            case "store" | "reduce" | "scan" | "spmv":
                found.append(INNER)
            case _:
                found.append(max((found[a] for a in op.args), default=HEAD))
    return found


class _Nest:
    """One loop nest being written."""

    def __init__(self, code: Code, block: Block, body: Body, number: int, loop: Loop) -> None:
        self.code, self.block, self.body, self.number, self.loop = code, block, body, number, loop
        self.space = body.spaces[loop.space]
        self.order = order_of(body, loop)
        self.inner = self.order[-1] if self.order else -1
        self.flat = flat.applies(body, loop, self.order, code.module.target.lanes)
        """Does the innermost loop run over two dimensions?"""
        self.rows: flat.Rows | None = None
        self.places = places(body, loop, self.order[-2:] if self.flat else self.order[-1:])
        self.silent = sparse.alone(loop.ops)
        """Are sparse products all that could raise a flag?"""
        self.values: dict[int, Value] = {}
        self.index: dict[int, str] = {}
        self.accesses: dict[int, Place] = {}
        """For each argument that is loaded or stored, where it is in this row."""
        self.running: dict[int, list[str]] = {}
        """For each scan, where its running value is kept."""
        self.reductions = {op: r for op, r in reduce.of_loop(body, number)}

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
        if "scan" in kinds or not self.order:
            return 1
        if self.flat or not target.masks_bytes or not kinds <= OF_BYTES:
            return target.lanes
        beside = all(self.body.arguments[a].classes[self.inner] in "01"
                     for op in self.loop.ops for a in op.arguments)
        wide = beside and all(ITEMSIZE[op.dtype] == 1 for op in self.loop.ops)
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
            less = code.let(f"icmp slt i64 {high}, {extent}")
            self.bounds[axis] = low, code.let(f"select i1 {less}, i64 {high}, i64 {extent}")
        for reduction in self.reductions.values():
            reduction.prepare(self.block, self.bounds)
        used = {op.attribute for op in self.loop.ops if op.kind in ("load", "store")}
        used.update(a for op in self.loop.ops if op.kind == "spmv" for a in op.attribute)
        bases = {a: self.block.address(a) for a in sorted(used)}
        if not self.order:
            self._head(bases)
            return
        # a point behind the last row has none: low > high
        low, high = self.bounds[self.order[-2] if self.flat else self.inner]
        with guarded(code, code.let(f"icmp slt i64 {low}, {high}")):
            self._head(bases)

    def _head(self, bases: dict[int, str]) -> None:
        if self.flat:
            self.rows = flat.Rows(self.code, self.block, self.body, self.loop.space)
            self.rows.prepare(list(bases))
        self._write_ops(HEAD, Step("0"))
        with unflagged(self.code, self.block) if self.silent else nullcontext():
            self._dimension(0, bases)

    def _dimension(self, depth: int, bases: dict[int, str]) -> None:
        """Open the loop over dimension order[depth], with the addresses where it starts."""
        if depth >= len(self.order) - (2 if self.flat else 1):
            self.accesses = {a: self._place(a, base) for a, base in bases.items()}
            self._row()
            return
        code, d = self.code, self.order[depth]
        with counted(code, *self.bounds[d]) as index:
            self.index[d] = index
            moved = dict(bases)
            for argument, base in bases.items():
                if self.body.arguments[argument].classes[d] != "0":
                    offset = code.let(f"mul nsw i64 {index}, {self.block.stride(argument, d)}")
                    moved[argument] = code.let(f"getelementptr inbounds i8, ptr {base}, i64 {offset}")
            self._dimension(depth + 1, moved)

    def _row(self) -> None:
        code = self.code
        self._write_ops(ROW, Step("0"))
        for reduction in self.reductions.values():
            reduction.row(self.index)
        self._start_scans()
        segmented = [r for r in self.reductions.values() if r.by_rows]
        if not self.order:
            self._write_ops(INNER, Step("0"))
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
                self._inner(start, end)
                for reduction in segmented:
                    reduction.end_leaf(start)

    def _inner(self, low: str, high: str) -> None:
        """The innermost loop: full steps, then what is left under a mask."""
        code = self.code
        if code.lanes == 1:
            with counted(code, low, high) as index:
                self._write_ops(INNER, Step(index))
            return
        length = code.let(f"sub i64 {high}, {low}")
        whole = code.let(f"and i64 {length}, {-code.lanes}")
        middle = code.let(f"add i64 {low}, {whole}")
        with counted(code, low, middle, code.lanes) as index:
            step = Step(index) if self.rows is None else self.rows.at(Step(index))
            self._write_ops(INNER, step)
            if self.rows is not None:
                self.rows.advance(step)
        with guarded(code, code.let(f"icmp slt i64 {middle}, {high}")):
            step = memory.last(code, middle, high)
            self._write_ops(INNER, step if self.rows is None else self.rows.at(step))

    def _write_ops(self, place: int, step: Step) -> None:
        for i, op in enumerate(self.loop.ops):
            if self.places[i] == place:
                self._write_op(i, op, step)

    def _write_op(self, i: int, op: Op, step: Step) -> None:
        write = _STRUCTURAL.get(op.kind)
        if write is not None:
            write(self, i, op, step)
            return
        arguments = tuple(self.values[a] for a in op.args)
        if op.kind in FUNCTIONS:
            self.values[i] = predication.call(self.code, FUNCTIONS[op.kind], arguments)
            return
        if op.kind not in RULES:
            raise NotImplementedError(f"no lowering rule for {op.kind!r}")
        dtypes = tuple(self.loop.ops[a].dtype for a in op.args)
        self.values[i] = RULES[op.kind](self.code, dtypes, op.dtype, arguments)

    def _place(self, argument: int, base: str) -> Place:
        if self.rows is not None:
            return self.rows.place(argument, base)
        kind = self.body.arguments[argument]
        letter = kind.classes[self.inner] if self.order else "0"
        stride = self.block.stride(argument, self.inner) if letter in "sc" else "0"
        return Place(kind.dtype, "s" if letter == "c" else letter, base, stride)

    def _load(self, i: int, op: Op, step: Step) -> None:
        self.values[i] = memory.load(self.code, self.accesses[op.attribute], step)

    def _store(self, i: int, op: Op, step: Step) -> None:
        (value,), place = op.args, self.accesses[op.attribute]
        cast_value = cast(self.code, self.loop.ops[value].dtype, place.dtype, self.values[value])
        memory.store(self.code, place, step, cast_value)

    def _scalar(self, i: int, op: Op, step: Step) -> None:
        value = self.block.scalar(op.attribute)
        self.values[i] = memory.splat(self.code, op.dtype, value)

    def _const(self, i: int, op: Op, step: Step) -> None:
        self.values[i] = reduce.const(self.code, op.dtype, op.attribute)

    def _index(self, i: int, op: Op, step: Step) -> None:
        code = self.code
        if op.attribute == self.inner:
            lanes = reduce.consecutive(code, step.at)
            if step.mask is not None:  # an index that is none could raise flags: 1 / (i - n)
                first = code.splat("int64", step.at)
                lanes = code.let(f"select {code.type('bool')} {step.mask}, {code.type('int64')} {lanes}, "
                                 f"{code.type('int64')} {first}")
            self.values[i] = lanes
        else:
            self.values[i] = code.splat("int64", self.index[op.attribute])

    def _cast(self, i: int, op: Op, step: Step) -> None:
        source = self.loop.ops[op.args[0]].dtype
        self.values[i] = cast(self.code, source, op.dtype, self.values[op.args[0]])

    def _spmv(self, i: int, op: Op, step: Step) -> None:
        """Flags of products are taken back, once for the whole nest where nothing else raises any."""
        within = not self.silent and sparse.silent(op)
        with unflagged(self.code, self.block) if within else nullcontext():
            self._write_spmv(i, op, step)

    def _write_spmv(self, i: int, op: Op, step: Step) -> None:
        low, high = (self.values[a] for a in op.args)
        if len(op.attribute) == 1:
            self.values[i] = sparse.totals(self.code, self.block, op.dtype, (str(low), str(high)),
                                                self.accesses[op.attribute[0]])
            return
        operands = sparse.Operands(*(self.accesses[a] for a in op.attribute))
        if self.space.rank == 1:
            bounds = str(low), str(high)
            self.values[i] = sparse.rows(self.code, self.block, op.dtype, bounds, operands)
            return
        width = self.block.extent(self.loop.space, self.inner)
        pitch = self.code.let(f"mul nuw i64 {width}, {ITEMSIZE[operands.dense.dtype]}")
        self.values[i] = sparse.columns(self.code, op.dtype, (low, high), operands, pitch, step)

    def _reduce(self, i: int, op: Op, step: Step) -> None:
        self.reductions[i].element(self.values[op.args[0]], step)

    def _start_scans(self) -> None:
        for i, op in enumerate(self.loop.ops):
            if op.kind == "scan":
                if op.attribute[1] != self.inner:
                    raise NotImplementedError(f"a scan along {op.attribute[1]} in a loop over {self.order}")
                if i not in self.running:
                    self.running[i] = [self.block.room(op.dtype, 1)]
                start = reduce.const(self.code, op.dtype, identity(op.attribute[0], op.dtype))
                memory.store_one(self.code, op.dtype, self.running[i][0], start)

    def _scan(self, i: int, op: Op, step: Step) -> None:
        """The running value so far, then this element; the first element is taken as it is."""
        code, value, at = self.code, self.values[op.args[0]], self.running[i][0]
        so_far = memory.load_one(code, op.dtype, at)
        folded = fold(code, op.attribute[0], op.dtype, so_far, value)
        first = code.let(f"icmp eq i64 {step.at}, 0")
        self.values[i] = reduce.select(code, op.dtype, first, value, folded, uniform=True)
        memory.store_one(code, op.dtype, at, self.values[i])


_STRUCTURAL: dict[str, Callable[[_Nest, int, Op, Step], None]] = {
    "load": _Nest._load, "store": _Nest._store, "scalar": _Nest._scalar, "const": _Nest._const,
    "index": _Nest._index, "cast": _Nest._cast, "reduce": _Nest._reduce, "scan": _Nest._scan,
    "spmv": _Nest._spmv,
}

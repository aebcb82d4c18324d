"""Distributes the iterations of a loop over the threads of a grid, as one *phase* of a kernel.

A phase is a function of the parameter block, the memory that the group shares, the numbers of the group and
of the thread in it, the kernel's argument, and, of a phase that is run several times, which time it is::

    void phase(ptr block, ptr shared, i64 group, i64 thread, i64 argument, i64 step)

Between two phases of a kernel all threads of a group wait for each other, and only memory persists.  So the
same text runs on a GPU, with barriers between the phases, and on the host, thread by thread.

A target with *tiles* runs one point of a launch at a time: the block has the coordinates of the point in the
place of the launch domain's extents (see `abi`), and the threads take the iterations of the point's tile.
Reductions fill the leaves of the tile; combining leaves, and the epilogue, run once for all points.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property

from diffuse.ir import ITEMSIZE, Privilege
from diffuse.ir.loops import ROWS, SEGMENT
from diffuse.kernels.body import abi
from diffuse.kernels.body.expr import Body
from diffuse.kernels.grid import schedule
from diffuse.kernels.grid.schedule import THREADS, WARP, GridKernel, needed
from diffuse.kernels.grid.spread import spread
from diffuse.kernels.llvm import reduce
from diffuse.kernels.llvm.block import Block
from diffuse.kernels.llvm.code import Code, Value, counted, guarded
from diffuse.kernels.llvm.iteration import HEAD, INNER, ROW, Iteration
from diffuse.kernels.llvm.memory import Place, Step, element
from diffuse.kernels.llvm.reduce import Partials, load_state, store_state

HERE = Step("0")
FEW, SOME = 4, 12
"""The most ops of a loop of which a lane loads all elements of a segment together, or `SHORT` at a time."""
SHORT = 4
"""The least elements that a lane loads together."""


class ThreadFold:
    """One reduction, folded by one thread into a state of its own."""

    def __init__(self, threads: Threads, number: int) -> None:
        self.threads, self.code, self.number = threads, threads.code, number
        self.reduction = abi.reductions(threads.body)[number]
        self.operator = reduce.Operator(self.reduction)
        self.reduces = "0" in threads.body.arguments[self.reduction.argument].classes
        """Does it fold several elements?  Else each element is an output."""
        self.running: list[Place] = []
        self.inside: str | None = None
        """The condition, an i1, under which the next elements are folded; None: they are."""

    @cached_property
    def partials(self) -> Partials:
        return Partials(self.threads.block, self.number)

    def begin(self) -> None:
        if not self.running:
            room = self.threads.block.room
            self.running = [Place(d, "0", room(d, 1)) for d in self.operator.dtypes]
        store_state(self.code, self.running, HERE, self.operator.identity(self.code))

    def element(self, value: Value, step: Step) -> None:
        state: reduce.State = (value,)
        if self.operator.indexed:
            p, index = self.partials, self.threads.index
            state = value, p.flat([index[d] for d in p.reduced], [p.extents[d] for d in p.reduced])
        before = self.state()
        after = self.operator.fold(self.code, before, state)
        if self.inside is not None:
            after = self.operator.select(self.code, self.inside, after, before)
        store_state(self.code, self.running, HERE, after)

    def state(self) -> reduce.State:
        return load_state(self.code, self.running, HERE)

    def output(self) -> str:
        """The number of the output that this thread contributes to."""
        p, index = self.partials, self.threads.index
        return p.flat([index[d] for d in p.kept], [p.extents[d] for d in p.kept])

    def write(self, leaf: str) -> None:
        store_state(self.code, self.partials.at(leaf, self.output()), HERE, self.state())


class Threads(Iteration):
    """A loop in one form."""

    def __init__(self, code: Code, block: Block, body: Body, kernel: GridKernel) -> None:
        super().__init__(code, block, body, kernel.loop)
        self.picked = needed(self.loop, kernel)
        self.kernel = kernel
        first = abi.first_reduction(body, self.number)
        numbers = {i: first + k for k, i in enumerate(
            i for i, op in enumerate(self.loop.ops) if op.kind == "reduce")}
        self.reductions = self.folds = {i: ThreadFold(self, numbers[i]) for i in kernel.folds}
        self.tiled = code.module.target.tiles and self.number < len(body.loops) - body.epilogue
        self.written = {a.slot for a in body.arguments if a.privilege is not Privilege.READ}
        """The stores that the body writes to."""
        self.bounds: dict[int, tuple[str, str]] = {}
        """For each dimension that the launch domain cuts, the first iteration of the tile, and their
        number."""

    def extent(self, dimension: int) -> str:
        """The number of iterations along a dimension, within the point's tile if there are tiles."""
        cut = self.bounds.get(dimension)
        return self.block.extent(self.loop.space, dimension) if cut is None else cut[1]

    def at(self, dimension: int, number: str) -> str:
        """The index of an iteration, given its number within `extent`."""
        cut = self.bounds.get(dimension)
        return number if cut is None else self.code.let(f"add i64 {cut[0]}, {number}")

    def within(self) -> AbstractContextManager[None]:
        """Compute the point's tile, and guard the code inside against an empty one."""
        return self._in_tile() if self.tiled else nullcontext()

    @contextmanager
    def _in_tile(self) -> Iterator[None]:
        code, space, some = self.code, self.loop.space, "true"
        for launch, axis in enumerate(self.space.axes):
            point = self.block.word(launch)
            if axis < 0:
                inside = code.let(f"icmp eq i64 {point}, 0")
            else:
                tile, extent = self.block.tile(space, launch), self.block.extent(space, axis)
                low = code.let(f"mul i64 {point}, {tile}")
                left = code.let(f"sub i64 {extent}, {low}")
                self.bounds[axis] = low, code.intrinsic("llvm.smin", "int64", left, tile)
                inside = code.let(f"icmp sgt i64 {left}, 0")
            some = code.let(f"and i1 {some}, {inside}")
        with guarded(code, some):
            yield

    def begin(self) -> None:
        """Write the code that does not depend on the iteration."""
        for fold in self.folds.values():
            fold.partials  # noqa: B018 (computes what several places need)
            fold.begin()
        self.starts = self.bases()
        self.write_ops(HEAD, HERE)

    def compute(self, at: str) -> None:
        """Write the ops of one iteration."""
        self.write_ops(INNER, Step(at))
        for fold in self.folds.values():
            if not fold.reduces:
                fold.write("0")
                fold.begin()

    def split(self, number: str, dimensions: Sequence[int]) -> None:
        """Compute the indices of these dimensions from their row-major number."""
        code, rest = self.code, number
        for d in reversed(dimensions[1:]):
            extent = self.extent(d)
            self.index[d] = self.at(d, code.let(f"urem i64 {rest}, {extent}"))
            rest = code.let(f"udiv i64 {rest}, {extent}")
        for d in dimensions[:1]:
            self.index[d] = self.at(d, rest)

    def start(self) -> None:
        """Write the code that does not depend on the innermost dimension."""
        self.begin()
        self.locate()
        self.write_ops(ROW, HERE)

    def place(self, argument: int, base: str) -> Place:
        kind, place = self.body.arguments[argument], super().place(argument, base)
        align = ITEMSIZE[kind.dtype] * self.code.lanes if place.letter == "1" and self.code.lanes > 1 else 0
        return place._replace(constant=kind.slot not in self.written, align=align)

    def aligned(self, lanes: int) -> str:
        """Whether each row of the contiguous arguments begins at a multiple of so many elements, as an i1."""
        code, rest = self.code, "0"
        for argument in schedule.side_by_side(self.body, self.kernel):
            kind = self.body.arguments[argument]
            # loaded as a pointer: only then does LLVM infer an address in global memory
            address = code.let(f"ptrtoint ptr {self.block.address(argument)} to i64")
            strides = [self.block.stride(argument, d) for d in self.order[:-1] if kind.classes[d] != "0"]
            for number in (address, *strides):
                more = code.let(f"and i64 {number}, {ITEMSIZE[kind.dtype] * lanes - 1}")
                rest = code.let(f"or i64 {rest}, {more}")
        return code.let(f"icmp eq i64 {rest}, 0")

    def locate(self) -> None:
        """Compute the places of the arguments in the row of this iteration."""
        moved = self.starts
        for d in self.order[:-1]:
            moved = self.along(d, moved)
        self.accesses = {a: self.place(a, base) for a, base in moved.items()}


def columns(code: Code, block: Block, body: Body, kernel: GridKernel) -> None:
    """Write the phase of columns: a thread for each leaf of each column, over up to 32 rows."""
    threads = Threads(code, block, body, kernel)
    last, inner = int(kernel.form.removeprefix("columns")), threads.order[-1]
    others = [d for d in threads.order if d not in (last, inner)]
    with threads.within():
        extent = threads.extent(last)
        leaves = code.let(f"lshr i64 {code.let(f'add i64 {extent}, {ROWS - 1}')}, {ROWS.bit_length() - 1}")
        sizes = [*[threads.extent(d) for d in others], leaves, threads.extent(inner)]
        with spread(code, sizes) as (*found, leaf, column):
            for d, number in zip([*others, inner], [*found, column], strict=True):
                threads.index[d] = threads.at(d, number)
            _column(threads, last, leaf, threads.index[inner])


def _column(threads: Threads, last: int, leaf: str, column: str) -> None:
    """Write one leaf of a column, given its number among those of the tile."""
    code = threads.code
    threads.begin()
    start = threads.at(last, code.let(f"mul i64 {leaf}, {ROWS}"))
    end = code.intrinsic("llvm.smin", "int64", code.let(f"add i64 {start}, {ROWS}"),
                         threads.block.extent(threads.loop.space, last))
    if last in threads.bounds:
        leaf = code.let(f"lshr i64 {start}, {ROWS.bit_length() - 1}")
    with counted(code, start, end) as row:
        threads.index[last] = row
        threads.locate()
        threads.write_ops(ROW, HERE)
        threads.compute(column)
    for fold in threads.folds.values():
        p = fold.partials
        if fold.reduces:
            outer = [threads.index[d] for d in p.reduced[:-1]]
            fold.write(p.flat([*outer, leaf], p.leaf_counts))


def scan(code: Code, block: Block, body: Body, kernel: GridKernel) -> None:
    """Write the phase of scans: a thread for each row."""
    threads = Threads(code, block, body, kernel)
    *outer, _ = threads.order
    number = code.let(f"add i64 {code.let(f'mul i64 %group, {THREADS}')}, %thread")
    with threads.within():
        rows = "1"
        for d in outer:
            rows = code.let(f"mul i64 {rows}, {threads.extent(d)}")
        with guarded(code, code.let(f"icmp ult i64 {number}, {rows}")):
            _scan(threads, number)


def _scan(threads: Threads, number: str) -> None:
    """Write one row, given its number."""
    code, (*outer, inner) = threads.code, threads.order
    threads.split(number, outer)
    threads.begin()
    threads.locate()
    threads.start_scans()
    threads.write_ops(ROW, HERE)
    with counted(code, "0", threads.block.extent(threads.loop.space, inner)) as at:
        threads.index[inner] = at
        threads.compute(at)


class RowReductions(Threads):
    """A warp for each leaf of row reductions: lane l folds the elements l, l + 32, ... of the segment, then
    the lanes are folded by halves, in shared memory."""

    def find(self) -> str:
        """Compute the warp's leaf; returns the condition that it exists."""
        code = self.code
        extent = self.extent(self.inner)
        self.lane = code.let(f"and i64 %thread, {WARP - 1}")
        warp = code.let(f"lshr i64 %thread, {WARP.bit_length() - 1}")
        number = code.let(f"add i64 {code.let(f'mul i64 %group, {THREADS // WARP}')}, {warp}")
        up = code.let(f"add i64 {extent}, {SEGMENT - 1}")
        self.segments = count = code.let(f"lshr i64 {up}, {SEGMENT.bit_length() - 1}")
        for d in self.order[:-1]:
            count = code.let(f"mul i64 {count}, {self.extent(d)}")
        self.position = number
        return code.let(f"icmp ult i64 {number}, {count}")

    def enter(self) -> None:
        """Compute the row and the segment of the leaf."""
        row = "0"
        self.segment = self.position
        if len(self.order) > 1:
            row = self.code.let(f"udiv i64 {self.position}, {self.segments}")
            self.segment = self.code.let(f"urem i64 {self.position}, {self.segments}")
        if self.inner in self.bounds:
            first = self.code.let(f"lshr i64 {self.bounds[self.inner][0]}, {SEGMENT.bit_length() - 1}")
            self.segment = self.code.let(f"add i64 {first}, {self.segment}")
        self.split(row, self.order[:-1])

    def room(self, thread: str) -> list[tuple[ThreadFold, list[Place]]]:
        """The places in shared memory where each reduction keeps the state of a thread of the group."""
        found, at = [], 0
        for fold in self.folds.values():
            if fold.reduces:
                places = []
                for dtype in fold.operator.dtypes:
                    base = self.code.let(f"getelementptr inbounds i8, ptr %shared, i64 {at}")
                    places.append(Place(dtype, "1", element(self.code, dtype, base, thread)))
                    at += THREADS * ITEMSIZE[dtype]
                found.append((fold, places))
        return found

    def fold_segment(self) -> None:
        """The first phase: each lane folds its elements of the segment."""
        code = self.code
        with self.within(), guarded(code, self.find()):
            self.enter()
            self.begin()
            self.locate()
            self.write_ops(ROW, HERE)
            start = code.let(f"mul i64 {self.segment}, {SEGMENT}")
            end = code.intrinsic("llvm.smin", "int64", code.let(f"add i64 {start}, {SEGMENT}"),
                                 self.block.extent(self.loop.space, self.inner))
            first = code.let(f"add i64 {start}, {self.lane}")
            if len(self.picked) > SOME:
                with counted(code, first, end, WARP) as at:
                    self._element(at)
            else:
                self._elements(first, end)
            for fold, places in self.room("%thread"):
                store_state(code, places, HERE, fold.state())

    def _element(self, at: str) -> None:
        self.index[self.inner] = at
        self.compute(at)

    def _elements(self, first: str, end: str) -> None:
        """Write the lane's elements of the segment: all, or `SHORT` at a time, are loaded before the first is
        folded."""
        code = self.code
        together = SEGMENT // WARP if len(self.picked) <= FEW else SHORT
        last = code.let(f"add i64 {first}, {SEGMENT - WARP}")
        whole = code.let(f"icmp slt i64 {last}, {end}")
        rest = code.let(f"select i1 {whole}, i64 {end}, i64 {first}")
        with counted(code, first, rest, WARP * together) as at:
            for k in range(0, WARP * together, WARP):
                self._element(code.let(f"add nsw i64 {at}, {k}"))
        stores = any(self.loop.ops[i].kind == "store" for i in self.picked)
        if stores or not all(fold.reduces for fold in self.folds.values()):
            with counted(code, rest, end, WARP) as at:
                self._element(at)
            return
        if together > SHORT:
            more = code.let(f"icmp sgt i64 {code.let(f'sub i64 {end}, {first}')}, {WARP * SHORT}")
            after = code.let(f"select i1 {more}, i64 {end}, i64 {rest}")
            self._partial(rest, after, end, together)
            rest = after
        self._partial(rest, end, end, SHORT)

    def _partial(self, low: str, high: str, end: str, together: int) -> None:
        """Write the lane's elements from `low` up to `high`, of which some may be behind the `end`."""
        code = self.code
        with counted(code, low, high, WARP * together) as at:
            for k in range(0, WARP * together, WARP):
                self._element_if(code.let(f"add nsw i64 {at}, {k}"), end, at)

    def _element_if(self, at: str, end: str, other: str) -> None:
        """Fold an element if its index is below `end`; if not, the `other` one is loaded, and not folded."""
        inside = self.code.let(f"icmp slt i64 {at}, {end}")
        for fold in self.folds.values():
            fold.inside = inside
        self._element(self.code.let(f"select i1 {inside}, i64 {at}, i64 {other}"))
        for fold in self.folds.values():
            fold.inside = None

    def fold_half(self) -> None:
        """The next phases, with halves of 16, 8, 4 and 2 lanes: the first `half` lanes fold the states of the
        lanes `half` behind them."""
        code = self.code
        with self.within(), guarded(code, self.find()):
            half = code.let(f"lshr i64 {WARP // 2}, %step")
            with guarded(code, code.let(f"icmp ult i64 {self.lane}, {half}")):
                there = code.let(f"add i64 %thread, {half}")
                for places, state in self._folded(there):
                    store_state(code, places, HERE, state)

    def _folded(self, there: str) -> Iterator[tuple[list[Place], reduce.State]]:
        """Fold the states of this and of another thread; yields where this one's is kept, and the result."""
        pairs = zip(self.room("%thread"), self.room(there), strict=True)
        for (fold, low), (_, high) in pairs:
            states = load_state(self.code, low, HERE), load_state(self.code, high, HERE)
            yield low, fold.operator.fold(self.code, *states)

    def write_leaf(self) -> None:
        """The last phase: lane 0 folds the last two states, and writes the leaf."""
        code = self.code
        with self.within(), guarded(code, self.find()):
            with guarded(code, code.let(f"icmp eq i64 {self.lane}, 0")):
                self.enter()
                states = [state for _, state in self._folded(code.let("add i64 %thread, 1"))]
                folds = [fold for fold in self.folds.values() if fold.reduces]
                for fold, state in zip(folds, states, strict=True):
                    p = fold.partials
                    outer = p.flat([self.index[d] for d in p.reduced[:-1]], p.leaf_counts[:-1])
                    leaf = self.segment
                    if outer != "0":
                        before = code.let(f"mul i64 {outer}, {p.leaf_counts[-1]}")
                        leaf = code.let(f"add i64 {before}, {leaf}")
                    store_state(code, p.at(leaf, fold.output()), HERE, state)

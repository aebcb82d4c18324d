"""Reductions: accumulators, leaves and the tree over them, as defined in `abi`.

While a loop runs, a row reduction folds its elements into 32 accumulators (eight at a time, so that four
steps are under way at once), which are in registers where the loop's body is short, else in scratch memory,
and writes a leaf for every segment; a column reduction folds whole
rows into the partials themselves.  combine.py then folds the leaves and stores the result.  What is folded is
a *state*: a value, or for argmin and argmax a value and an index.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from diffuse.ir import ITEMSIZE
from diffuse.ir.loops import ROWS, SEGMENT
from diffuse.kernels.body import abi
from diffuse.kernels.body.expr import Body
from diffuse.kernels.body.operations import INDEXED, identity
from diffuse.kernels.llvm.block import Block
from diffuse.kernels.llvm.code import COMPONENT, Code, Value, carrying, with_lanes
from diffuse.kernels.llvm.memory import Place, Step, load, store
from diffuse.kernels.llvm.ops.instructions import compare, either
from diffuse.kernels.llvm.ops.rules import fold
from diffuse.kernels.llvm.vectors import listed

WIDTH = 8
ROUND = abi.ACCUMULATORS // WIDTH
"""The number of vectors that hold all accumulators, which is also the number of steps that use each once."""

State = tuple[Value, ...]


def const(code: Code, dtype: str, value: Any) -> Value:
    """A literal of any element type."""
    if dtype in COMPONENT:
        number = complex(value)
        return code.const(COMPONENT[dtype], number.real), code.const(COMPONENT[dtype], number.imag)
    return code.const(dtype, value)


def select(code: Code, dtype: str, condition: str, a: Value, b: Value, uniform: bool = False) -> Value:
    """Select `a` where the condition holds, else `b`; uniform: one condition for all lanes."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        part = COMPONENT[dtype]
        return (str(select(code, part, condition, a[0], b[0], uniform)),
                str(select(code, part, condition, a[1], b[1], uniform)))
    kind = code.type(dtype)
    test = "i1" if uniform else code.type("bool")
    return code.let(f"select {test} {condition}, {kind} {a}, {kind} {b}")


def consecutive(code: Code, index: str) -> str:
    """index, index + 1, ... in the lanes."""
    if code.lanes == 1:
        return index
    return code.let(f"add {code.type('int64')} {code.splat('int64', index)}, {listed(range(code.lanes))}")


class Operator:
    """The operator of one reduction: the parts of a state, and how two states are folded."""

    def __init__(self, reduction: abi.Reduction) -> None:
        self.name, self.dtype = reduction.operator, reduction.dtype
        self.indexed = self.name in INDEXED
        self.dtypes = (self.dtype, "int64") if self.indexed else (self.dtype,)

    def identity(self, code: Code) -> State:
        value = const(code, self.dtype, identity(self.name, self.dtype))
        return (value, code.const("int64", 2 ** 63 - 1)) if self.indexed else (value,)

    def fold(self, code: Code, a: State, b: State) -> State:
        if not self.indexed:
            return (fold(code, self.name, self.dtype, a[0], b[0]),)
        take = self._precedes(code, b, a)
        return self.select(code, take, b, a)

    def select(self, code: Code, condition: str, a: State, b: State, uniform: bool = False) -> State:
        """Select the state `a` where the condition holds, else `b`, as `select` does."""
        return tuple(select(code, dtype, condition, x, y, uniform)
                     for dtype, x, y in zip(self.dtypes, a, b, strict=True))

    def _precedes(self, code: Code, a: State, b: State) -> str:
        """Does `a` precede `b`?  NaN comes first, then the order, then the lower index."""
        (x, i), (y, j) = a, b
        kind, truth = code.type(self.dtype), code.type("bool")
        if isinstance(x, tuple) or isinstance(y, tuple):
            raise NotImplementedError(f"{self.name} of {self.dtype}")
        word = "lt" if self.name == "argmin" else "gt"
        if self.dtype.startswith("float"):
            nan_x, nan_y = (code.let(f"fcmp uno {kind} {v}, {v}") for v in (x, y))
            # before, or NaN; but not where y is NaN
            before = either(code, nan_x, compare(code, f"o{word}", self.dtype, x, y))
            number = code.let(f"xor {truth} {nan_y}, {code.const('bool', True)}")
            before = code.let(f"and {truth} {before}, {number}")
            equal = code.let(f"fcmp oeq {kind} {x}, {y}")
            both = code.let(f"and {truth} {nan_x}, {nan_y}")
            equal = code.let(f"or {truth} {equal}, {both}")
        else:
            sign = "s" if self.dtype.startswith("int") else "u"
            before = code.let(f"icmp {sign}{word} {kind} {x}, {y}")
            equal = code.let(f"icmp eq {kind} {x}, {y}")
        lower = code.let(f"icmp slt {code.type('int64')} {i}, {j}")
        tie = code.let(f"and {truth} {equal}, {lower}")
        return code.let(f"or {truth} {before}, {tie}")


class Partials:
    """The partials of one reduction: counts of leaves and outputs, and the planes in memory."""

    def __init__(self, block: Block, number: int) -> None:
        body, reduction = block.body, abi.reductions(block.body)[number]
        self.code, self.operator = block.code, Operator(reduction)
        space = body.loops[reduction.loop].space
        self.rank = body.spaces[space].rank
        self.kept = abi.kept(body, reduction)
        self.reduced = tuple(d for d in range(self.rank) if d not in self.kept)
        self.by_rows = abi.by_rows(self.rank, self.kept)
        self.extents = [block.extent(space, d) for d in range(self.rank)]
        self.shift = shift = (SEGMENT if self.by_rows else ROWS).bit_length() - 1
        counts = [self.extents[d] for d in self.reduced]
        if counts:
            up = self.code.let(f"add i64 {counts[-1]}, {(1 << shift) - 1}")
            counts[-1] = self.code.let(f"lshr i64 {up}, {shift}")
        self.leaf_counts = counts
        self.leaves = self.product(counts)
        self.outputs = self.product([self.extents[d] for d in self.kept])
        base = block.partials(number)
        self.planes = [base]
        if self.operator.indexed:
            bytes_ = self.product([self.leaves, self.outputs, str(ITEMSIZE[self.operator.dtype])])
            up = self.code.let(f"add i64 {bytes_}, 7")
            rounded = self.code.let(f"and i64 {up}, -8")
            self.planes.append(self.code.let(f"getelementptr inbounds i8, ptr {base}, i64 {rounded}"))

    def product(self, factors: list[str]) -> str:
        result = "1"
        for factor in factors:
            result = factor if result == "1" else self.code.let(f"mul i64 {result}, {factor}")
        return result

    def flat(self, indices: list[str], counts: list[str]) -> str:
        """The row-major number of an index tuple."""
        result = "0"
        for index, count in zip(indices, counts, strict=True):
            if result != "0":
                scaled = self.code.let(f"mul i64 {result}, {count}")
                result = self.code.let(f"add i64 {scaled}, {index}")
            else:
                result = index
        return result

    def at(self, leaf: str, output: str) -> list[Place]:
        """The places, one per plane, of the state of this leaf of this output; the next output (of columns)
        or leaf (of rows) is adjacent."""
        code = self.code
        major, minor, count = ((output, leaf, self.leaves) if self.by_rows else (leaf, output, self.outputs))
        row = code.let(f"mul i64 {major}, {count}")
        number = code.let(f"add i64 {row}, {minor}")
        found = []
        for plane, dtype in zip(self.planes, self.operator.dtypes, strict=True):
            offset = code.let(f"mul i64 {number}, {ITEMSIZE[dtype]}")
            found.append(Place(dtype, "1", code.let(f"getelementptr inbounds i8, ptr {plane}, i64 {offset}")))
        return found


def load_state(code: Code, places: list[Place], step: Step) -> State:
    return tuple(load(code, place, step) for place in places)


def store_state(code: Code, places: list[Place], step: Step, state: State) -> None:
    for place, value in zip(places, state, strict=True):
        store(code, place, step, value)


def parts_of(state: State) -> list[str]:
    """The values of a state, with the two parts of a complex one."""
    return [part for value in state for part in (value if isinstance(value, tuple) else (value,))]


class Fold:
    """One reduction inside the loop that feeds it."""

    def __init__(self, body: Body, number: int) -> None:
        self.number = number
        reduction = abi.reductions(body)[number]
        space = body.spaces[body.loops[reduction.loop].space]
        self.by_rows = abi.by_rows(space.rank, abi.kept(body, reduction))
        self.held: list[State] = []
        """The accumulators that a loop holds in registers, in the order in which steps use them."""

    def prepare(self, block: Block) -> None:
        """Prepare at the head of the loop nest."""
        self.partials = Partials(block, self.number)
        self.code, self.operator = block.code, self.partials.operator
        if self.by_rows:
            self.accumulators = [Place(d, "1", block.room(d, abi.ACCUMULATORS)) for d in self.operator.dtypes]

    def row(self, index: dict[int, str]) -> None:
        """Determine at the head of a row, as far as possible, which output and leaf the row belongs to."""
        p, code = self.partials, self.code
        inner = p.rank - 1
        kept = [index[d] if d != inner else "0" for d in p.kept]
        self.output = p.flat(kept, [p.extents[d] for d in p.kept])
        if self.by_rows:
            outer = [index[d] for d in p.reduced[:-1]]
            self.leaf = p.flat(outer, p.leaf_counts[:-1])
            self.reduced_before = p.flat(outer, [p.extents[d] for d in p.reduced[:-1]])
            return
        reduced = [index[d] for d in p.reduced]
        self.flat = p.flat(reduced, [p.extents[d] for d in p.reduced])
        self.first, leaf = "true", "0"
        if reduced:
            within = code.let(f"and i64 {reduced[-1]}, {ROWS - 1}")
            self.first = code.let(f"icmp eq i64 {within}, 0")
            reduced[-1] = code.let(f"lshr i64 {reduced[-1]}, {p.shift}")
            leaf = p.flat(reduced, p.leaf_counts)
        self.places = p.at(leaf, self.output)

    def begin_leaf(self) -> None:
        with with_lanes(self.code, WIDTH):
            start = self.operator.identity(self.code)
            for k in range(0, abi.ACCUMULATORS, WIDTH):
                store_state(self.code, self.accumulators, Step(str(k)), start)

    def start(self) -> list[tuple[str, str]]:
        """The LLVM type and the initial value of each part of each accumulator."""
        state = zip(self.operator.dtypes, self.operator.identity(self.code), strict=True)
        return [(self.code.type(COMPONENT.get(dtype, dtype)), part)
                for dtype, value in state for part in parts_of((value,))] * ROUND

    def take(self, parts: Iterator[str]) -> None:
        """Fold into these accumulators in registers from now on, instead of those in memory."""
        self.held = [tuple([(next(parts), next(parts)) if dtype in COMPONENT else next(parts)
                            for dtype in self.operator.dtypes]) for _ in range(ROUND)]

    def given(self) -> list[str]:
        """The parts of the accumulators in registers, which are no longer folded into."""
        held, self.held = self.held, []
        return [part for state in held for part in parts_of(state)]

    def put(self) -> None:
        """Write the accumulators in registers to memory, and fold into memory again."""
        for k, state in enumerate(self.held):
            store_state(self.code, self.accumulators, Step(str(k * WIDTH)), state)
        self.held = []

    def element(self, value: Value, step: Step) -> None:
        """Fold the lanes of one step."""
        code, state = self.code, self._state(value, step)
        if self.held:  # the steps take them in turn
            self.held = [*self.held[1:], self.operator.fold(code, self.held[0], state)]
            return
        if self.by_rows:
            slot = Step(code.let(f"and i64 {step.at}, {abi.ACCUMULATORS - 1}"))
            before = load_state(code, self.accumulators, slot)
            if step.mask is not None:  # so that inactive lanes raise no flag either
                state = self.operator.select(code, step.mask, state, self.operator.identity(code))
            after = self.operator.fold(code, before, state)
            if step.mask is not None:
                after = self.operator.select(code, step.mask, after, before)
            store_state(code, self.accumulators, slot, after)
            return
        store_state(code, self.places, step, self.operator.fold(code, self.before(step), state))

    def before(self, step: Step) -> State:
        """The states of the columns of one step: those in memory, but in the first row of a leaf."""
        code, start = self.code, self.operator.identity(self.code)
        before = load_state(code, self.places, step)
        return self.operator.select(code, self.first, start, before, uniform=True)

    def _state(self, value: Value, step: Step) -> State:
        if not self.operator.indexed:
            return (value,)
        code, p = self.code, self.partials
        if not self.by_rows:
            return value, code.splat("int64", self.flat)
        row = code.let(f"mul i64 {self.reduced_before}, {p.extents[p.rank - 1]}")
        return value, consecutive(code, code.let(f"add i64 {row}, {step.at}"))

    def end_leaf(self, start: str) -> None:
        """Fold the accumulators by halves and write the leaf."""
        code, p = self.code, self.partials
        with with_lanes(code, WIDTH):
            states = [load_state(code, self.accumulators, Step(str(k)))
                      for k in range(0, abi.ACCUMULATORS, WIDTH)]
            while len(states) > 1:
                pairs = zip(states[:len(states) // 2], states[len(states) // 2:], strict=True)
                states = [self.operator.fold(code, a, b) for a, b in pairs]
        state = states[0]
        for lanes in (WIDTH // 2, WIDTH // 4, 1):
            low, high = (self._half(state, 2 * lanes, first) for first in (0, lanes))
            with with_lanes(code, lanes):
                state = self.operator.fold(code, low, high)
        segment = code.let(f"lshr i64 {start}, {p.shift}")
        row = code.let(f"mul i64 {self.leaf}, {p.leaf_counts[-1]}")
        leaf = code.let(f"add i64 {row}, {segment}")
        with with_lanes(code, 1):
            store_state(code, p.at(leaf, self.output), Step("0"), state)

    def _half(self, state: State, lanes: int, first: int) -> State:
        """Half of the lanes of a state, starting at lane `first`."""
        code = self.code

        def pick(dtype: str, value: str) -> str:
            with with_lanes(code, lanes):
                kind = code.type(dtype)
            if lanes == 2:
                return code.let(f"extractelement {kind} {value}, i64 {first}")
            order = ", ".join(f"i32 {first + i}" for i in range(lanes // 2))
            return code.let(f"shufflevector {kind} {value}, {kind} poison, <{lanes // 2} x i32> <{order}>")

        return tuple(
            (pick(COMPONENT[d], v[0]), pick(COMPONENT[d], v[1])) if isinstance(v, tuple) else pick(d, v)
            for d, v in zip(self.operator.dtypes, state, strict=True)
        )


@contextmanager
def in_registers(code: Code, low: str, high: str, folds: list[Fold]) -> Iterator[str]:
    """A loop whose iterations go once through all accumulators of these reductions, held in registers until
    it ends; yields the index."""
    begin = [first for fold in folds for first in fold.start()]
    with carrying(code, low, high, abi.ACCUMULATORS, begin) as (index, values):
        taken = iter(values.copy())
        for fold in folds:
            fold.take(taken)
        yield index
        values[:] = [part for fold in folds for part in fold.given()]
    taken = iter(values)
    for fold in folds:
        fold.take(taken)
        fold.put()


def of_loop(body: Body, number: int) -> list[tuple[int, Fold]]:
    """(op index, fold) for each reduction of one loop."""
    ops = [i for i, op in enumerate(body.loops[number].ops) if op.kind == "reduce"]
    first = abi.first_reduction(body, number)
    return [(i, Fold(body, first + k)) for k, i in enumerate(ops)]

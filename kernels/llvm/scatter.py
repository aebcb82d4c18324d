"""Writes at data-dependent indices: the op `scatter`.

Each point owns a part of the target.  It goes through all indices in their order, and writes those that lie
in its part; of ascending indices it finds these by bisection.  So the last of several equal indices wins, and
sums are those of a single thread, whatever the number of points.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack

from diffuse.ir import ITEMSIZE
from diffuse.kernels.body.expr import Op
from diffuse.kernels.llvm import memory
from diffuse.kernels.llvm.code import Value, carrying, counted, guarded, with_lanes
from diffuse.kernels.llvm.iteration import Iteration
from diffuse.kernels.llvm.memory import GATHERED, Place, Step, element, load_one, store_one
from diffuse.kernels.llvm.ops.rules import RULES, cast
from diffuse.kernels.llvm.reduce import consecutive
from diffuse.kernels.llvm.vectors import packed

SOME = 256
"""The number of indices that are tested together before any is written: their queues, and the lines of the
target that are prefetched for them, fit into the first-level cache."""

AHEAD = 4096
"""How many bytes ahead of their use the indices and values are fetched; twice as many where the target stays
in the first-level cache."""
NEAR = 32 << 10
"""The size in bytes up to which it does."""
LEAD = 96
"""How many indices ahead a point that owns the whole target prefetches its places in it."""
TURN = 4
"""The number of indices that one iteration handles in loops that write element by element."""

LANES = 8
"""The number of indices that are packed by one instruction."""
QUEUED = SOME + LANES
"""The room for the indices of a group that lie in the part: the last ones are stored as a whole vector."""

COPIED = 2048
"""The row length in bytes from which on the C library copies a row."""

COMPARING = "maximum", "minimum"
"""The operators whose loops in NumPy note an invalid value where they compare a NaN, if `ufunc.at` calls
them directly."""
COMPARISON = {f"float{bits}": f"llvm.experimental.constrained.fcmps.f{bits}" for bits in (32, 64)}
"""The comparison that sets this flag, for each element type."""

Bounds = Mapping[int, tuple[str, str]]


class Scatter:
    """One op being written."""

    def __init__(self, iteration: Iteration, op: Op, bounds: Bounds) -> None:
        self.it, self.code, self.bounds = iteration, iteration.code, bounds
        self.operator, self.target, self.index, self.values, self.axis, letter = op.attribute
        self.count, self.pitch, self.ascending = (str(iteration.values[a]) for a in op.args)
        arguments = iteration.body.arguments
        self.dtype, self.source = arguments[self.target].dtype, arguments[self.values].dtype
        self.packs = self.code.module.target.packs
        block = iteration.block
        self.comparing = letter == "d" and self.operator in COMPARING and self.dtype in ("float32", "float64")
        self.places = block.room("int64", 4 * QUEUED)
        self.queue = element(self.code, "int64", self.places, str(2 * QUEUED))
        self.kept = self.queue if self.source in GATHERED else ""
        self.stride = ("" if arguments[self.target].classes[self.axis] == "1"
                       else block.stride(self.target, self.axis))

    def write(self) -> None:
        """Write the loops; a point beyond the last tile, whose bounds come in the wrong order, has none."""
        with ExitStack() as here:
            for low, high in self.bounds.values():
                here.enter_context(guarded(self.code, self.code.let(f"icmp slt i64 {low}, {high}")))
            self._outside(0, self.it.bases())

    def _outside(self, dimension: int, bases: Mapping[int, str]) -> None:
        """Write the loops over the dimensions before the indexed one."""
        if dimension == self.axis:
            if dimension == self.it.space.rank - 1:
                self._elements(bases)
                return
            with counted(self.code, "0", self.count) as k:
                self._row(k, bases)
            return
        with counted(self.code, *self.bounds[dimension]) as index:
            self.it.index[dimension] = index
            self._outside(dimension + 1, self.it.along(dimension, bases))

    def _elements(self, bases: Mapping[int, str]) -> None:
        """Process all indices of single elements."""
        code = self.code
        ordered = code.let(f"icmp ne i64 {self.ascending}, 0")
        with guarded(code, ordered):
            ends = [self._below(end, bases) for end in self.bounds[self.axis]]
            with counted(code, *ends) as k:
                self._element(k, bases)
        with guarded(code, code.let(f"xor i1 {ordered}, true")):
            self._groups(bases)

    def _below(self, bound: str, bases: Mapping[int, str]) -> str:
        """The number of ascending indices below a bound."""
        code = self.code
        code.declare("declare i64 @llvm.ctlz.i64(i64, i1)")
        zeros = code.let(f"call i64 @llvm.ctlz.i64(i64 {self.count}, i1 false)")
        turns = code.let(f"sub i64 64, {zeros}")
        with carrying(code, "0", turns, 1, [("i64", "0"), ("i64", self.count)]) as (_, state):
            low, left = state
            some = code.let(f"icmp ne i64 {left}, 0")
            half = code.let(f"lshr i64 {left}, 1")
            middle = code.let(f"select i1 {some}, i64 {code.let(f'add i64 {low}, {half}')}, i64 0")
            at = load_one(code, "int64", element(code, "int64", bases[self.index], middle))
            less = code.let(f"and i1 {some}, {code.let(f'icmp slt i64 {at}, {bound}')}")
            rest = code.let(f"sub i64 {code.let(f'sub i64 {left}, {half}')}, 1")
            state[0] = code.let(f"select i1 {less}, i64 {code.let(f'add i64 {middle}, 1')}, i64 {low}")
            state[1] = code.let(f"select i1 {less}, i64 {rest}, i64 {half}")
        return state[0]

    def _groups(self, bases: Mapping[int, str]) -> None:
        """Process all indices in groups, or one by one where the part is the whole target."""
        code, (low, high) = self.code, self.bounds[self.axis]
        length = code.let(f"sub i64 {high}, {low}")
        alone = code.let(f"icmp eq i64 {length}, {self.it.block.extent(self.it.loop.space, self.axis)}")
        with guarded(code, alone):
            self._alone(length, bases)
        with guarded(code, code.let(f"xor i1 {alone}, true")):
            self._parted(bases)

    def _alone(self, length: str, bases: Mapping[int, str]) -> None:
        """Process all indices, in the only part, in their order; prefetch places in a target of this length
        that exceeds the first-level cache."""
        code = self.code
        far = code.let(f"icmp sgt i64 {length}, {NEAR // ITEMSIZE[self.dtype]}")
        early = code.let(f"select i1 {far}, i64 {code.let(f'sub i64 {self.count}, {LEAD}')}, i64 0")
        early = code.let(f"and i64 {code.intrinsic('llvm.smax', 'int64', early, '0')}, {-TURN}")
        whole = code.let(f"and i64 {self.count}, {-TURN}")
        with counted(code, "0", early, TURN) as first:
            self._fetch(first, bases, True)
            for n in range(TURN):
                later = element(code, "int64", bases[self.index], code.let(f"add i64 {first}, {LEAD + n}"))
                memory.prefetch(code, self._there(str(load_one(code, "int64", later)), bases), write=True)
            self._turn(first, bases)
        with counted(code, early, whole, TURN) as first:
            self._fetch(first, bases, True, 2 * AHEAD)
            self._turn(first, bases)
        with counted(code, whole, self.count) as k:
            self._element(k, bases)

    def _turn(self, first: str, bases: Mapping[int, str]) -> None:
        for n in range(TURN):
            self._element(self.code.let(f"add i64 {first}, {n}"), bases)

    def _parted(self, bases: Mapping[int, str]) -> None:
        """Process the indices that lie in the point's part, where that is not the whole target."""
        code = self.code
        beside = code.let(f"icmp eq i64 {self.pitch}, 1") if self.kept else "false"
        if self.kept:
            with guarded(code, beside):
                self._queues(bases, self.kept)
        with guarded(code, code.let(f"xor i1 {beside}, true")):
            self._queues(bases, "")

    def _queues(self, bases: Mapping[int, str], kept: str) -> None:
        """Process the indices in groups: collect those of each group that lie in the part, and prefetch their
        places while those of the group before are written.  Values that lie side by side are collected too,
        in the queue `kept`; of others their numbers are."""
        code, collect = self.code, self._packed if self.packs else self._picked
        whole = code.let(f"and i64 {self.count}, {-SOME}")
        begin = [("i64", "0"), ("i64", "0"), ("i64", str(QUEUED))]
        with carrying(code, "0", whole, SOME, begin) as (start, state):
            before, written, collected = state
            number = collect(start, code.let(f"add i64 {start}, {SOME}"), collected, bases, kept)
            with counted(code, "0", before) as n:
                self._prefetched(code.let(f"add i64 {collected}, {n}"), bases)
                self._queued(code.let(f"add i64 {written}, {n}"), bases, kept)
            with counted(code, before, number) as n:
                self._prefetched(code.let(f"add i64 {collected}, {n}"), bases)
            state[:] = [number, collected, written]
        with counted(code, "0", state[0]) as n:
            self._queued(code.let(f"add i64 {state[1]}, {n}"), bases, kept)
        with counted(code, "0", self._picked(whole, self.count, "0", bases, kept)) as n:
            self._queued(n, bases, kept)

    def _packed(self, start: str, end: str, room: str, bases: Mapping[int, str], kept: str) -> str:
        """Collect the indices that lie in the part, with their values or numbers, from a position of the
        queues on, by instructions that pack LANES of them; returns how many they are."""
        code, (low, high) = self.code, self.bounds[self.axis]
        length = code.let(f"sub i64 {high}, {low}")
        code.declare(f"declare i{LANES} @llvm.ctpop.i{LANES}(i{LANES})")
        with with_lanes(code, LANES):
            kind, truth = code.type("int64"), code.type("bool")
            lows, lengths = code.splat("int64", low), code.splat("int64", length)
            with carrying(code, start, end, LANES, [("i64", room)]) as (k, found):
                self._fetch(k, bases, bool(kept))
                at = str(memory.load(code, Place("int64", "1", bases[self.index]), Step(k)))
                first = code.let(f"sub {kind} {at}, {lows}")
                inside = code.let(f"icmp ult {kind} {first}, {lengths}")
                self._kept(self.places, "int64", at, inside, found[0])
                if kept:
                    value = str(memory.load(code, Place(self.source, "1", bases[self.values]), Step(k)))
                    self._kept(kept, self.source, value, inside, found[0])
                else:
                    self._kept(self.queue, "int64", consecutive(code, k), inside, found[0])
                bits = code.let(f"bitcast {truth} {inside} to i{LANES}")
                ones = code.let(f"call i{LANES} @llvm.ctpop.i{LANES}(i{LANES} {bits})")
                found[0] = code.let(f"add i64 {found[0]}, {code.let(f'zext i{LANES} {ones} to i64')}")
        return code.let(f"sub i64 {found[0]}, {room}")

    def _picked(self, start: str, end: str, room: str, bases: Mapping[int, str], kept: str) -> str:
        """Collect them one by one, without a branch for each."""
        code = self.code
        whole = code.let(f"and i64 {end}, {-TURN}")
        state = [room]
        for low, high, turn in ((start, whole, TURN), (whole, end, 1)):
            with carrying(code, low, high, turn, [("i64", state[0])]) as (first, state):
                self._fetch(first, bases, bool(kept))
                for n in range(turn):
                    k = code.let(f"add i64 {first}, {n}")
                    state[0] = self._picked_one(k, state[0], bases, kept)
        return code.let(f"sub i64 {state[0]}, {room}")

    def _picked_one(self, k: str, position: str, bases: Mapping[int, str], kept: str) -> str:
        """Store an index at a position of the queues; returns the next position if it lies in the part, and
        else the same."""
        code = self.code
        at = str(load_one(code, "int64", element(code, "int64", bases[self.index], k)))
        store_one(code, "int64", element(code, "int64", self.places, position), at)
        if kept:
            value = load_one(code, self.source, self._value(k, bases))
            store_one(code, self.source, element(code, self.source, kept, position), value)
        else:
            store_one(code, "int64", element(code, "int64", self.queue, position), k)
        return code.let(f"add i64 {position}, {code.let(f'zext i1 {self._inside(at)} to i64')}")

    def _kept(self, queue: str, dtype: str, value: str, inside: str, position: str) -> None:
        """Store the lanes that lie in the part in a queue."""
        to = element(self.code, dtype, queue, position)
        raw = packed(self.code, dtype, value, inside)
        self.code.do(f"store {self.code.memory(dtype)} {raw}, ptr {to}, align {ITEMSIZE[dtype]}")

    def _prefetched(self, position: str, bases: Mapping[int, str]) -> None:
        """Prefetch the place in the target for an index in the queue."""
        at = str(load_one(self.code, "int64", element(self.code, "int64", self.places, position)))
        memory.prefetch(self.code, self._there(at, bases), write=True)

    def _fetch(self, k: str, bases: Mapping[int, str], values: bool, distance: int = AHEAD) -> None:
        """Fetch indices, and values if asked, so many bytes ahead of their use.  They are read once and shall
        take no room in the caches below the first one, which the target needs."""
        memory.prefetch(self.code, element(self.code, "int64", bases[self.index], k), distance)
        if values:
            memory.prefetch(self.code, self._value(k, bases), distance)

    def _queued(self, position: str, bases: Mapping[int, str], kept: str) -> None:
        """Process an index in the queue."""
        code = self.code
        at = str(load_one(code, "int64", element(code, "int64", self.places, position)))
        if kept:
            value = element(code, self.source, kept, position)
        else:
            k = str(load_one(code, "int64", element(code, "int64", self.queue, position)))
            value = self._value(k, bases)
        self._written(self._there(at, bases), value)

    def _places(self, k: str, bases: Mapping[int, str]) -> tuple[str, str, str]:
        """An index, its place in the target, and the place of its value."""
        code = self.code
        at = str(load_one(code, "int64", element(code, "int64", bases[self.index], k)))
        return at, self._there(at, bases), self._value(k, bases)

    def _value(self, k: str, bases: Mapping[int, str]) -> str:
        """The place of the value for an index."""
        distance = self.code.let(f"mul i64 {k}, {self.pitch}")
        return element(self.code, self.source, bases[self.values], distance)

    def _there(self, at: str, bases: Mapping[int, str]) -> str:
        """The address in the target for an index."""
        code = self.code
        if not self.stride:
            return element(code, self.dtype, bases[self.target], at)
        far = code.let(f"mul i64 {at}, {self.stride}")
        return code.let(f"getelementptr i8, ptr {bases[self.target]}, i64 {far}")

    def _inside(self, at: str) -> str:
        """Does an index lie in the point's part?"""
        code, (low, high) = self.code, self.bounds[self.axis]
        first, length = code.let(f"sub i64 {at}, {low}"), code.let(f"sub i64 {high}, {low}")
        return code.let(f"icmp ult i64 {first}, {length}")

    def _element(self, k: str, bases: Mapping[int, str]) -> None:
        _, to, source = self._places(k, bases)
        self._written(to, source)

    def _written(self, to: str, source: str) -> None:
        """Write an element, or fold it into what is there."""
        code = self.code
        found = cast(code, self.source, self.dtype, load_one(code, self.source, source))
        if self.operator:
            found = self._folded(load_one(code, self.dtype, to), found)
        store_one(code, self.dtype, to, found)

    def _row(self, k: str, bases: Mapping[int, str]) -> None:
        at, there, value = self._places(k, bases)
        with guarded(self.code, self._inside(at)):
            self._rest(self.axis + 1, {self.target: there, self.values: value})

    def _folded(self, before: Value, value: Value) -> Value:
        if self.comparing:
            self._compared(str(before), str(value))
        kinds = (self.dtype, self.dtype)
        return RULES[self.operator](self.code, kinds, self.dtype, (before, value)) if self.operator else value

    def _compared(self, before: str, value: str) -> None:
        """Compare two elements as C does, so that the processor notes an invalid value if one is NaN."""
        code, kind, name = self.code, self.code.type(self.dtype), COMPARISON[self.dtype]
        code.declare(f"declare i1 @{name}({kind}, {kind}, metadata, metadata)")
        modes = 'metadata !"oge", metadata !"fpexcept.strict"'
        code.do(f"call i1 @{name}({kind} {before}, {kind} {value}, {modes})")

    def _rest(self, dimension: int, bases: Mapping[int, str]) -> None:
        """Write the loops over the dimensions after the indexed one, the last one with vectors."""
        code, last = self.code, self.it.space.rank - 1
        low, high = self.bounds[dimension]
        if dimension < last:
            with counted(code, low, high) as index:
                self.it.index[dimension] = index
                self._rest(dimension + 1, self.it.along(dimension, bases))
            return
        target, values = (self.it.place(a, bases[a]) for a in (self.target, self.values))
        if not self.operator and self.dtype == self.source and target.letter == values.letter == "1":
            self._copied(target, values)
            return
        self._by_vectors(target, values)

    def _copied(self, target: Place, values: Place) -> None:
        """Copy a row, with the C library if it has COPIED bytes or more: that overwrites cache lines without
        reading them."""
        code, (low, high) = self.code, self.bounds[self.it.space.rank - 1]
        nbytes = code.let(f"mul i64 {code.let(f'sub i64 {high}, {low}')}, {ITEMSIZE[self.dtype]}")
        long = code.let(f"icmp sge i64 {nbytes}, {COPIED}")
        with guarded(code, long):
            to, source = (element(code, self.dtype, place.base, low) for place in (target, values))
            code.declare("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
            code.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {source}, i64 {nbytes}, i1 false)")
        with guarded(code, code.let(f"xor i1 {long}, true")):
            self._by_vectors(target, values)

    def _by_vectors(self, target: Place, values: Place) -> None:
        code, (low, high) = self.code, self.bounds[self.it.space.rank - 1]
        with with_lanes(code, code.module.target.lanes):
            length = code.let(f"sub i64 {high}, {low}")
            middle = code.let(f"add i64 {low}, {code.let(f'and i64 {length}, {-code.lanes}')}")
            with counted(code, low, middle, code.lanes) as index:
                self._several(target, values, Step(index))
            if code.lanes > 1:
                with guarded(code, code.let(f"icmp slt i64 {middle}, {high}")):
                    self._several(target, values, memory.last(code, middle, high))

    def _several(self, target: Place, values: Place, step: Step) -> None:
        code = self.code
        found = cast(code, self.source, self.dtype, memory.load(code, values, step))
        if self.operator:
            found = self._folded(memory.load(code, target, step), found)
        memory.store(code, target, step, found)

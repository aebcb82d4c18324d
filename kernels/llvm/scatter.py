"""Writes at data-dependent indices: the op `scatter`.

Each point owns a part of the target.  It goes through all indices in their order, and writes those that lie
in its part; of ascending indices it finds these by bisection.  So the last of several equal indices wins, and
sums are those of a single thread, whatever the number of points.
"""

from __future__ import annotations

from collections.abc import Mapping

from diffuse.ir import ITEMSIZE
from diffuse.kernels.body.expr import Op
from diffuse.kernels.llvm import memory
from diffuse.kernels.llvm.code import Value, carrying, counted, guarded, with_lanes
from diffuse.kernels.llvm.iteration import Iteration
from diffuse.kernels.llvm.memory import GATHERED, Place, Step, element, load_one, store_one
from diffuse.kernels.llvm.ops.instructions import anywhere
from diffuse.kernels.llvm.ops.rules import RULES, cast
from diffuse.kernels.llvm.reduce import consecutive
from diffuse.kernels.llvm.vectors import packed

SOME = 512
"""The number of indices that are tested together before any is written."""

LANES = 8
"""The number of indices that are packed by one instruction."""
QUEUED = SOME + LANES
"""The room for the indices of a group that lie in the part: the last ones are stored as a whole vector."""

COPIED = 2048
"""The row length in bytes from which on the C library copies a row."""

SPARE = 16
"""Dummy places for indices that belong to other points, used in turn so that writes do not wait for each
other."""

Bounds = Mapping[int, tuple[str, str]]


class Scatter:
    """One op being written."""

    def __init__(self, iteration: Iteration, op: Op, bounds: Bounds) -> None:
        self.it, self.code, self.bounds = iteration, iteration.code, bounds
        self.operator, self.target, self.index, self.values, self.axis = op.attribute
        self.count, self.pitch, self.ascending = (str(iteration.values[a]) for a in op.args)
        arguments = iteration.body.arguments
        self.dtype, self.source = arguments[self.target].dtype, arguments[self.values].dtype
        self.packs = self.code.module.target.packs
        block, length = iteration.block, 2 * QUEUED if self.packs else SOME + 1
        self.places = block.room("int64", 2 * length)
        self.queue = element(self.code, "int64", self.places, str(length))
        self.kept = self.queue if self.packs and self.source in GATHERED else ""
        self.spare = block.room(self.dtype, SPARE)
        self.stride = ("" if arguments[self.target].classes[self.axis] == "1"
                       else block.stride(self.target, self.axis))

    def write(self) -> None:
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
        with guarded(code, alone), counted(code, "0", self.count) as k:
            self._element(k, bases)
        with guarded(code, code.let(f"xor i1 {alone}, true")):
            self._parted(bases)

    def _parted(self, bases: Mapping[int, str]) -> None:
        """Process all indices in groups, where the point owns only a part of the target."""
        code = self.code
        whole = code.let(f"and i64 {self.count}, {-SOME}")
        if self.packs:
            beside = code.let(f"icmp eq i64 {self.pitch}, 1") if self.kept else "false"
            with guarded(code, beside):
                self._queues(whole, bases, self.kept)
            with guarded(code, code.let(f"xor i1 {beside}, true")):
                self._queues(whole, bases, "")
        else:
            with counted(code, "0", whole, SOME) as start:
                self._group(start, bases)
        with guarded(code, code.let(f"icmp slt i64 {whole}, {self.count}")):
            self._some(whole, self.count, bases)

    def _group(self, start: str, bases: Mapping[int, str]) -> None:
        """Process a group of indices, which are tested first: do none, some or all lie in the part?"""
        code, end = self.code, self.code.let(f"add i64 {start}, {SOME}")
        some, every = self._together(start, bases)
        with guarded(code, some):
            with guarded(code, every), counted(code, start, end) as k:
                self._element(k, bases)
            with guarded(code, code.let(f"xor i1 {every}, true")):
                self._some(start, end, bases)

    def _queues(self, whole: str, bases: Mapping[int, str], kept: str) -> None:
        """Process whole groups of indices: collect those of each group that lie in the part, and prefetch
        their places while those of the group before are written.  Values that lie side by side are collected
        too, in the queue `kept`; of others their numbers are."""
        code = self.code
        begin = [("i64", "0"), ("i64", "0"), ("i64", str(QUEUED))]
        with carrying(code, "0", whole, SOME, begin) as (start, state):
            before, written, collected = state
            number = self._packed(start, collected, bases, kept)
            with counted(code, "0", before) as n:
                self._prefetched(code.let(f"add i64 {collected}, {n}"), bases)
                self._queued(code.let(f"add i64 {written}, {n}"), bases, kept)
            with counted(code, before, number) as n:
                self._prefetched(code.let(f"add i64 {collected}, {n}"), bases)
            state[:] = [number, collected, written]
        with counted(code, "0", state[0]) as n:
            self._queued(code.let(f"add i64 {state[1]}, {n}"), bases, kept)

    def _packed(self, start: str, room: str, bases: Mapping[int, str], kept: str) -> str:
        """Collect the indices of a group that lie in the part, with their values or numbers, from a position
        of the queues on; returns how many they are."""
        code, (low, high) = self.code, self.bounds[self.axis]
        length, end = code.let(f"sub i64 {high}, {low}"), code.let(f"add i64 {start}, {SOME}")
        code.declare(f"declare i{LANES} @llvm.ctpop.i{LANES}(i{LANES})")
        with with_lanes(code, LANES):
            kind, truth = code.type("int64"), code.type("bool")
            lows, lengths = code.splat("int64", low), code.splat("int64", length)
            with carrying(code, start, end, LANES, [("i64", room)]) as (k, found):
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

    def _kept(self, queue: str, dtype: str, value: str, inside: str, position: str) -> None:
        """Store the lanes that lie in the part in a queue."""
        to = element(self.code, dtype, queue, position)
        raw = packed(self.code, dtype, value, inside)
        self.code.do(f"store {self.code.memory(dtype)} {raw}, ptr {to}, align {ITEMSIZE[dtype]}")

    def _prefetched(self, position: str, bases: Mapping[int, str]) -> None:
        """Prefetch the place in the target for an index in the queue."""
        at = str(load_one(self.code, "int64", element(self.code, "int64", self.places, position)))
        self._prefetch(self._there(at, bases))

    def _prefetch(self, there: str) -> None:
        self.code.declare("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        self.code.do(f"call void @llvm.prefetch.p0(ptr {there}, i32 1, i32 3, i32 1)")

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

    def _some(self, start: str, end: str, bases: Mapping[int, str]) -> None:
        """Process a group of indices of which some lie in the point's part, without a branch for each."""
        if self.operator:
            self._picked(start, end, bases)
            return
        code = self.code
        with counted(code, start, end) as k:
            at, there, source = self._places(k, bases)
            spare = element(code, self.dtype, self.spare, code.let(f"and i64 {k}, {SPARE - 1}"))
            to = code.let(f"select i1 {self._inside(at)}, ptr {there}, ptr {spare}")
            value = load_one(code, self.source, source)
            store_one(code, self.dtype, to, cast(code, self.source, self.dtype, value))

    def _picked(self, start: str, end: str, bases: Mapping[int, str]) -> None:
        """Process such a group where the target is read, too: collect the indices in the part first,
        prefetching their places."""
        code = self.code
        with carrying(code, start, end, 1, [("i64", "0")]) as (k, found):
            store_one(code, "int64", element(code, "int64", self.queue, found[0]), k)
            at = str(load_one(code, "int64", element(code, "int64", bases[self.index], k)))
            inside = self._inside(at)
            there = code.let(f"select i1 {inside}, ptr {self._there(at, bases)}, ptr {self.queue}")
            self._prefetch(there)
            found[0] = code.let(f"add i64 {found[0]}, {code.let(f'zext i1 {inside} to i64')}")
        with counted(code, "0", found[0]) as number:
            self._element(str(load_one(code, "int64", element(code, "int64", self.queue, number))), bases)

    def _together(self, start: str, bases: Mapping[int, str]) -> tuple[str, str]:
        """Whether any, and whether all, indices of a group lie in the point's part."""
        code, (low, high) = self.code, self.bounds[self.axis]
        length = code.let(f"sub i64 {high}, {low}")
        with with_lanes(code, code.module.target.lanes):
            kind, truth = code.type("int64"), code.type("bool")
            lows, lengths = code.splat("int64", low), code.splat("int64", length)
            some, every = code.const("bool", False), code.const("bool", True)
            for k in range(0, SOME, code.lanes):
                step = Step(code.let(f"add i64 {start}, {k}"))
                at = memory.load(code, Place("int64", "1", bases[self.index]), step)
                first = code.let(f"sub {kind} {at}, {lows}")
                inside = code.let(f"icmp ult {kind} {first}, {lengths}")
                some = code.let(f"or {truth} {some}, {inside}")
                every = code.let(f"and {truth} {every}, {inside}")
            if code.lanes == 1:
                return some, every
            none = code.let(f"xor {truth} {every}, {code.const('bool', True)}")
            missing = anywhere(code, none)
            return anywhere(code, some), code.let(f"xor i1 {missing}, true")

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
        kinds = (self.dtype, self.dtype)
        return RULES[self.operator](self.code, kinds, self.dtype, (before, value)) if self.operator else value

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

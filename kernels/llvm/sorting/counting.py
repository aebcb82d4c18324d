"""Counts: elements between two keys, the bins of a histogram, and how often each integer occurs."""

from __future__ import annotations

from collections.abc import Callable

from diffuse.kernels.llvm.code import ELEMENT, Code, carrying, counted, guarded, with_lanes
from diffuse.kernels.llvm.memory import prefetch
from diffuse.kernels.llvm.scatter import AHEAD, TURN
from diffuse.kernels.llvm.sorting.keys import BITS, encoded, key_type, raw_type
from diffuse.kernels.llvm.sorting.words import load, place, pointer, put, store, word
from diffuse.kernels.llvm.vectors import gathered

LANES = 8


def between(code: Code, dtype: str) -> None:
    """Count the elements with keys below the first of two, and those between the two, inclusive; copy the
    latter to the target, in their order.

    Words: elements, count, two keys, target, capacity, and the two numbers, which are initially zero.
    Elements beyond the capacity are only counted; the target has room for one element more.  Few elements are
    expected between the keys: LANES are compared at a time, and examined one by one if some match.
    """
    elements, count, wide, raw = pointer(code, 0), word(code, 1), key_type(dtype), raw_type(dtype)
    keys = [word(code, k) for k in (2, 3)]
    if wide == "uint32":
        keys = [code.let(f"trunc i64 {key} to i32") for key in keys]
    whole = code.let(f"and i64 {count}, -{LANES}")
    with with_lanes(code, LANES):
        low, high = (code.splat(wide, key) for key in keys)
        kind, truth = code.type(wide), code.type("bool")
        with carrying(code, "0", whole, LANES, [(kind, code.const(wide, 0))]) as (i, seen):
            key = encoded(code, dtype, load(code, raw, place(code, raw, elements, i)))[0]
            less = code.let(f"icmp ult {kind} {key}, {low}")
            seen[0] = code.let(f"sub {kind} {seen[0]}, {code.let(f'sext {truth} {less} to {kind}')}")
            more = code.let(f"icmp ugt {kind} {key}, {high}")
            outside = code.let(f"bitcast {truth} {code.let(f'or {truth} {less}, {more}')} to i{LANES}")
            with guarded(code, code.let(f"icmp ne i{LANES} {outside}, -1")), with_lanes(code, 1):
                _keep(code, dtype, elements, i, code.let(f"add i64 {i}, {LANES}"), keys)
        below = _added(code, wide, seen[0])
    with carrying(code, whole, count, 1, [("i64", below)]) as (i, sums):
        key = encoded(code, dtype, load(code, raw, place(code, raw, elements, i)))[0]
        less = code.let(f"icmp ult {code.type(wide)} {key}, {keys[0]}")
        sums[0] = code.let(f"add i64 {sums[0]}, {code.let(f'zext i1 {less} to i64')}")
    _keep(code, dtype, elements, whole, count, keys)
    put(code, 6, sums[0])


def _keep(code: Code, dtype: str, elements: str, first: str, end: str, keys: list[str]) -> None:
    """Copy the elements of a range that are between the keys."""
    target, capacity = pointer(code, 4), word(code, 5)
    wide, raw = key_type(dtype), raw_type(dtype)
    with carrying(code, first, end, 1, [("i64", word(code, 7))]) as (i, kept):
        value = load(code, raw, place(code, raw, elements, i))
        key = encoded(code, dtype, value)[0]
        room = code.let(f"icmp ult i64 {kept[0]}, {capacity}")
        to = code.let(f"select i1 {room}, i64 {kept[0]}, i64 {capacity}")
        store(code, raw, value, place(code, raw, target, to))
        above = code.let(f"icmp uge {code.type(wide)} {key}, {keys[0]}")
        under = code.let(f"icmp ule {code.type(wide)} {key}, {keys[1]}")
        inside = code.let(f"zext i1 {code.let(f'and i1 {above}, {under}')} to i64")
        kept[0] = code.let(f"add i64 {kept[0]}, {inside}")
    put(code, 7, kept[0])


def _added(code: Code, wide: str, lanes: str) -> str:
    """The sum of the lanes of a vector of counts, an i64."""
    kind, one = code.type(wide), ELEMENT[wide]
    name = f"llvm.vector.reduce.add.v{LANES}{one}"
    code.declare(f"declare {one} @{name}({kind})")
    total = code.let(f"call {one} @{name}({kind} {lanes})")
    return total if one == "i64" else code.let(f"zext {one} {total} to i64")


CONVERSION = {"i": "sitofp", "u": "uitofp", "b": "uitofp", "f": "fpext"}


def real(code: Code, dtype: str, value: str) -> str:
    """An element as float64."""
    return value if dtype == "float64" else code.let(
        f"{CONVERSION[dtype[0]]} {code.type(dtype)} {value} to {code.type('float64')}")


def histogram(code: Code, dtype: str) -> None:
    """Count the elements in each bin of a histogram.

    Words: elements, count, edges, bins, counts, the first and the last edge, their difference, the number of
    bins as float64, and two float64 numbers.  Edges of bins of one width, float64; the counts are 64-bit
    integers, one more than there are bins.  As NumPy's `histogram`: the bin is computed by a division, and
    then compared with its edges.  An element whose computed place within a bin is between the two numbers,
    which are greater than 0 and less than 1, is on the same side of these edges.  Elements outside all bins
    are counted in the additional one.
    """
    counts = pointer(code, 4)

    def one(_: str, bin_: str) -> None:
        slot = place(code, "uint64", counts, bin_)
        store(code, "uint64", code.let(f"add i64 {load(code, 'uint64', slot)}, 1"), slot)

    _binned(code, dtype, one)


def histogram_weighted(code: Code, dtype: str) -> None:
    """Add up the weights of the elements in each bin of a histogram.

    Words: those of `histogram`, with sums in place of the counts, and the weights; both are float64.
    """
    sums, weights = pointer(code, 4), pointer(code, 11)
    _binned(code, dtype, lambda i, bin_: _add_weight(code, place(code, "float64", sums, bin_), weights, i))


class _Bins:
    """The bins of a histogram, and elements that lie side by side."""

    def __init__(self, code: Code) -> None:
        self.code, self.edges, self.count = code, pointer(code, 2), word(code, 3)
        self.first, self.last, self.width, self.number, self.above, self.below = (
            code.let(f"bitcast i64 {word(code, k)} to double") for k in (5, 6, 7, 8, 9, 10))
        self.top = code.let(f"sub i64 {self.count}, 1")

    def guess(self, dtype: str, at: str) -> None:
        """Compute the bins of the elements at an address by a division."""
        code, real_, whole, truth = self.code, *self._types()
        first, last, width, number = (
            code.splat("float64", end) for end in (self.first, self.last, self.width, self.number))
        value = real(code, dtype, load(code, dtype, at))
        low = code.let(f"fcmp oge {real_} {value}, {first}")
        high = code.let(f"fcmp ole {real_} {value}, {last}")
        self.inside = code.let(f"and {truth} {low}, {high}")
        self.safe = code.let(f"select {truth} {self.inside}, {real_} {value}, {real_} {first}")
        share = code.let(f"fdiv {real_} {code.let(f'fsub {real_} {self.safe}, {first}')}, {width}")
        self.place = code.let(f"fmul {real_} {share}, {number}")
        self.guessed = code.let(f"fptosi {real_} {self.place} to {whole}")

    def certain(self) -> str:
        """Are all of these bins right whatever the edges say?  An i1."""
        code, real_, whole, truth = self.code, *self._types()
        begin = code.let(f"sitofp {whole} {self.guessed} to {real_}")
        within = code.let(f"fsub {real_} {self.place}, {begin}")
        above = code.let(f"fcmp ogt {real_} {within}, {code.splat('float64', self.above)}")
        below = code.let(f"fcmp olt {real_} {within}, {code.splat('float64', self.below)}")
        both = code.let(f"and {truth} {code.let(f'and {truth} {above}, {below}')}, {self.inside}")
        return code.let(f"icmp eq i{LANES} {code.let(f'bitcast {truth} {both} to i{LANES}')}, -1")

    def corrected(self) -> str:
        """The bins after a comparison with their edges."""
        code, real_, whole, truth = self.code, *self._types()
        many, top = code.splat("int64", self.count), code.splat("int64", self.top)
        over = code.let(f"icmp eq {whole} {self.guessed}, {many}")
        found = code.let(f"select {truth} {over}, {whole} {top}, {whole} {self.guessed}")
        under = code.let(f"fcmp olt {real_} {self.safe}, {_looked_up(code, self.edges, found)}")
        found = code.let(f"sub {whole} {found}, {code.let(f'zext {truth} {under} to {whole}')}")
        after = code.let(f"add {whole} {found}, {code.const('int64', 1)}")
        reaches = code.let(f"fcmp oge {real_} {self.safe}, {_looked_up(code, self.edges, after)}")
        lower = code.let(f"icmp ne {whole} {found}, {top}")
        step = code.let(f"zext {truth} {code.let(f'and {truth} {reaches}, {lower}')} to {whole}")
        found = code.let(f"add {whole} {found}, {step}")
        return code.let(f"select {truth} {self.inside}, {whole} {found}, {whole} {many}")

    def _types(self) -> tuple[str, str, str]:
        return self.code.type("float64"), self.code.type("int64"), self.code.type("bool")


def _binned(code: Code, dtype: str, one: Callable[[str, str], None]) -> None:
    """Call `one` for the number of each element and that of its bin; LANES bins are computed at a time."""
    elements, count, bins = pointer(code, 0), word(code, 1), _Bins(code)
    whole = code.let(f"and i64 {count}, -{LANES}")
    with counted(code, "0", whole, LANES) as start:
        with with_lanes(code, LANES):
            bins.guess(dtype, place(code, dtype, elements, start))
            certain = bins.certain()
        with guarded(code, certain):
            _each_lane(code, start, bins.guessed, one)
        with guarded(code, code.let(f"xor i1 {certain}, true")):
            with with_lanes(code, LANES):
                found = bins.corrected()
            _each_lane(code, start, found, one)
    with counted(code, whole, count) as i:
        bins.guess(dtype, place(code, dtype, elements, i))
        one(i, bins.corrected())


def _each_lane(code: Code, start: str, bins: str, one: Callable[[str, str], None]) -> None:
    for k in range(LANES):
        lane = code.let(f"extractelement <{LANES} x i64> {bins}, i64 {k}")
        one(code.let(f"add i64 {start}, {k}"), lane)


def _looked_up(code: Code, table: str, index: str) -> str:
    """The float64 elements of a table at these positions."""
    if code.lanes == 1:
        return load(code, "float64", place(code, "float64", table, index))
    addresses = code.let(f"getelementptr double, ptr {table}, {code.type('int64')} {index}")
    return gathered(code, "float64", addresses, None, "poison")


def _index(code: Code, dtype: str, elements: str, i: str) -> str:
    """An integer element as an i64."""
    value = load(code, dtype, place(code, dtype, elements, i))
    if BITS[dtype] == 64:
        return value
    return code.let(f"{'sext' if dtype[0] == 'i' else 'zext'} {code.type(dtype)} {value} to i64")


def tally(code: Code, dtype: str) -> None:
    """Count how often each integer occurs among the elements.

    Words: elements, count, counts, which are 64-bit integers and are added to.
    """
    elements, count, counts = pointer(code, 0), word(code, 1), pointer(code, 2)

    def one(i: str) -> None:
        slot = place(code, "uint64", counts, _index(code, dtype, elements, i))
        store(code, "uint64", code.let(f"add i64 {load(code, 'uint64', slot)}, 1"), slot)

    _each(code, count, ((dtype, elements),), one)


def weigh(code: Code, dtype: str) -> None:
    """Add the weight of each element to the sum at the position that the element is.

    Words: elements, count, sums, weights; the latter two are float64.
    """
    elements, count, sums, weights = pointer(code, 0), word(code, 1), pointer(code, 2), pointer(code, 3)
    _each(code, count, ((dtype, elements), ("float64", weights)), lambda i: _add_weight(
        code, place(code, "float64", sums, _index(code, dtype, elements, i)), weights, i))


def _each(code: Code, count: str, streams: tuple[tuple[str, str], ...], one: Callable[[str], None]) -> None:
    """Call `one` for each number below a count, TURN at a time.  The arrays that are read in this order are
    fetched ahead, as the processor does not follow them between accesses in any order."""
    whole = code.let(f"and i64 {count}, {-TURN}")
    with counted(code, "0", whole, TURN) as first:
        for dtype, base in streams:
            prefetch(code, place(code, dtype, base, first), 2 * AHEAD)
        for n in range(TURN):
            one(code.let(f"add i64 {first}, {n}"))
    with counted(code, whole, count) as i:
        one(i)


def _add_weight(code: Code, slot: str, weights: str, i: str) -> None:
    weight = load(code, "float64", place(code, "float64", weights, i))
    store(code, "float64", code.let(f"fadd double {load(code, 'float64', slot)}, {weight}"), slot)

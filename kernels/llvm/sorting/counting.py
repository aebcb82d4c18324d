"""Counts: elements between two keys, the bins of a histogram, and how often each integer occurs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from diffuse.kernels.llvm.code import ELEMENT, Code, carrying, counted, guarded, with_lanes
from diffuse.kernels.llvm.memory import prefetch
from diffuse.kernels.llvm.scatter import AHEAD, TURN
from diffuse.kernels.llvm.sorting.keys import BITS, encoded, key_type, raw_type
from diffuse.kernels.llvm.sorting.words import load, place, pointer, put, store, word

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
        f"{CONVERSION[dtype[0]]} {code.type(dtype)} {value} to double")


def histogram(code: Code, dtype: str) -> None:
    """Count the elements in each bin of a histogram.

    Words: elements, count, edges, bins, counts, the first and the last edge, their difference, the number of
    bins as float64.  Edges of bins of one width, float64; the counts are 64-bit integers, one more than there
    are bins.  As NumPy's `histogram`: the bin is computed by a division, and then compared with its edges.
    Elements outside all bins are counted in the additional one.
    """
    counts = pointer(code, 4)
    with _binned(code, dtype) as (_, bin_):
        slot = place(code, "uint64", counts, bin_)
        store(code, "uint64", code.let(f"add i64 {load(code, 'uint64', slot)}, 1"), slot)


def histogram_weighted(code: Code, dtype: str) -> None:
    """Add up the weights of the elements in each bin of a histogram.

    Words: those of `histogram`, with sums in place of the counts, and the weights; both are float64.
    """
    sums, weights = pointer(code, 4), pointer(code, 9)
    with _binned(code, dtype) as (i, bin_):
        _add_weight(code, place(code, "float64", sums, bin_), weights, i)


@contextmanager
def _binned(code: Code, dtype: str) -> Iterator[tuple[str, str]]:
    """A loop over elements; yields the number of each and that of its bin."""
    elements, edges = pointer(code, 0), pointer(code, 2)
    count, bins = word(code, 1), word(code, 3)
    first, last, width, number = (code.let(f"bitcast i64 {word(code, k)} to double") for k in (5, 6, 7, 8))
    top = code.let(f"sub i64 {bins}, 1")
    with carrying(code, "0", count, 1, []) as (i, _):
        value = real(code, dtype, load(code, dtype, place(code, dtype, elements, i)))
        low = code.let(f"fcmp oge double {value}, {first}")
        high = code.let(f"fcmp ole double {value}, {last}")
        inside = code.let(f"and i1 {low}, {high}")
        safe = code.let(f"select i1 {inside}, double {value}, double {first}")
        share = code.let(f"fdiv double {code.let(f'fsub double {safe}, {first}')}, {width}")
        guess = code.let(f"fptosi double {code.let(f'fmul double {share}, {number}')} to i64")
        over = code.let(f"icmp eq i64 {guess}, {bins}")
        bin_ = code.let(f"select i1 {over}, i64 {top}, i64 {guess}")
        edge = load(code, "float64", place(code, "float64", edges, bin_))
        under = code.let(f"fcmp olt double {safe}, {edge}")
        bin_ = code.let(f"sub i64 {bin_}, {code.let(f'zext i1 {under} to i64')}")
        following = place(code, "float64", edges, code.let(f"add i64 {bin_}, 1"))
        reaches = code.let(f"fcmp oge double {safe}, {load(code, 'float64', following)}")
        lower = code.let(f"icmp ne i64 {bin_}, {top}")
        step = code.let(f"zext i1 {code.let(f'and i1 {reaches}, {lower}')} to i64")
        bin_ = code.let(f"add i64 {bin_}, {step}")
        bin_ = code.let(f"select i1 {inside}, i64 {bin_}, i64 {bins}")
        yield i, bin_


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

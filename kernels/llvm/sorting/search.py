"""Searches in sorted tables: positions of elements, and linear interpolation between them.

A search takes the same number of halvings for each element, without data-dependent branches, for several
elements at a time: the processor then waits for their parts of the table together.
"""

from __future__ import annotations

from collections.abc import Iterator

from diffuse.kernels.llvm.code import Code, carrying, counted
from diffuse.kernels.llvm.sorting.keys import encoded, key_type, raw_type
from diffuse.kernels.llvm.sorting.words import load, place, pointer, store, word

TOGETHER = 8
"""The number of elements that are searched for at a time."""


def positions(code: Code, wide: str, table: str, length: str, keys: list[str], right: bool) -> list[str]:
    """For each element, the number of keys less than it, or not greater, in a sorted table of at least one
    key."""
    kind, before = code.type(wide), "ule" if right else "ult"

    def less(at: str, key: str) -> str:
        return code.let(f"icmp {before} {kind} {load(code, wide, place(code, wide, table, at))}, {key}")

    # the number of steps: log2(length), rounded up
    many = code.let(f"sub i64 {length}, 1")
    code.declare("declare i64 @llvm.ctlz.i64(i64, i1)")
    zeros = code.let(f"call i64 @llvm.ctlz.i64(i64 {many}, i1 false)")
    turns = code.let(f"sub i64 64, {zeros}")
    begin = [("i64", length)] + [("i64", "0")] * len(keys)
    with carrying(code, "0", turns, 1, begin) as (_, state):
        left, *bases = state
        half = code.let(f"lshr i64 {left}, 1")
        before_half = code.let(f"sub i64 {half}, 1")
        for k, (base, key) in enumerate(zip(bases, keys, strict=True)):
            last = code.let(f"add i64 {base}, {before_half}")
            # arithmetic, as LLVM makes a branch of a selection here, which is mispredicted every other time
            mask = code.let(f"sext i1 {less(last, key)} to i64")
            state[1 + k] = code.let(f"add i64 {base}, {code.let(f'and i64 {mask}, {half}')}")
        state[0] = code.let(f"sub i64 {left}, {half}")
    found = []
    for base, key in zip(state[1:], keys, strict=True):
        one = code.let(f"zext i1 {less(base, key)} to i64")
        found.append(code.let(f"add i64 {base}, {one}"))
    return found


def groups(code: Code, count: str) -> Iterator[list[str]]:
    """Loop over so many elements, several at a time and the rest one by one: the numbers of those in each of
    the two loop bodies."""
    whole = code.let(f"and i64 {count}, -{TOGETHER}")
    for step, low, high in ((TOGETHER, "0", whole), (1, whole, count)):
        with counted(code, low, high, step) as i:
            yield [code.let(f"add i64 {i}, {k}") for k in range(step)]


def _search(code: Code, dtype: str, right: bool) -> None:
    table, elements, found = (pointer(code, k) for k in (0, 2, 4))
    length, count = word(code, 1), word(code, 3)
    wide, raw = key_type(dtype), raw_type(dtype)
    for each in groups(code, count):
        keys = [encoded(code, dtype, load(code, raw, place(code, raw, elements, k)))[0] for k in each]
        places = positions(code, wide, table, length, keys, right)
        for k, value in zip(each, places, strict=True):
            store(code, "uint64", value, place(code, "uint64", found, k))


def search_left(code: Code, dtype: str) -> None:
    """Find the position of each element in a sorted table: the number of lesser ones in it.

    Words: the keys of the table, their count, elements, their count, positions.
    """
    _search(code, dtype, False)


def search_right(code: Code, dtype: str) -> None:
    """Find positions as `search_left` does, behind equal elements of the table."""
    _search(code, dtype, True)


def interpolate(code: Code, dtype: str) -> None:
    """Interpolate linearly between the values of a sorted table, at each element.

    Words: the keys of the table, their count, elements, their count, results, the table, its values, slopes,
    the values left and right of the table.  All are float64.  As NumPy's `interp`: a NaN gives NaN, an
    element of the table its own value, and where a slope gives NaN the other end is tried.
    """
    keys_, elements, results, table, values, slopes = (pointer(code, k) for k in (0, 2, 4, 5, 6, 7))
    length, count = word(code, 1), word(code, 3)
    ends = [code.let(f"bitcast i64 {word(code, k)} to double") for k in (8, 9)]
    final = code.let(f"sub i64 {length}, 1")
    for each in groups(code, count):
        bits = [load(code, "uint64", place(code, "uint64", elements, k)) for k in each]
        keys = [encoded(code, dtype, x)[0] for x in bits]
        found = positions(code, "uint64", keys_, length, keys, True)
        for k, raw, after in zip(each, bits, found, strict=True):
            x = code.let(f"bitcast i64 {raw} to double")
            result = _between(code, x, after, final, table, values, slopes, ends)
            store(code, "float64", result, place(code, "float64", results, k))


def _between(code: Code, x: str, after: str, final: str, table: str, values: str, slopes: str,
             ends: list[str]) -> str:
    """Interpolate at `x`, where `after` elements of the table precede it."""
    at = code.let(f"sub i64 {after}, 1")
    outside = code.let(f"icmp uge i64 {at}, {final}")  # before the first, at the last or beyond
    safe = code.let(f"select i1 {outside}, i64 0, i64 {at}")
    left, right = (load(code, "float64", place(code, "float64", table, k)) for k in
                   (safe, code.let(f"add i64 {safe}, 1")))
    low, high = (load(code, "float64", place(code, "float64", values, k)) for k in
                 (safe, code.let(f"add i64 {safe}, 1")))
    slope = load(code, "float64", place(code, "float64", slopes, safe))

    def line(start: str, value: str) -> str:
        distance = code.let(f"fsub double {x}, {start}")
        return code.let(f"fadd double {code.let(f'fmul double {slope}, {distance}')}, {value}")

    def nan(value: str) -> str:
        return code.let(f"fcmp uno double {value}, {value}")

    def choose(condition: str, one: str, other: str) -> str:
        return code.let(f"select i1 {condition}, double {one}, double {other}")

    first, second = line(left, low), line(right, high)
    level = code.let(f"fcmp oeq double {low}, {high}")
    flat = code.let(f"and i1 {nan(second)}, {level}")
    inside = choose(nan(first), choose(flat, low, second), first)
    inside = choose(code.let(f"fcmp oeq double {left}, {x}"), low, inside)
    ending = load(code, "float64", place(code, "float64", values, final))
    edge = load(code, "float64", place(code, "float64", table, final))
    beyond = choose(code.let(f"fcmp ogt double {x}, {edge}"), ends[1], ending)
    start = load(code, "float64", place(code, "float64", table, "0"))
    border = choose(code.let(f"fcmp olt double {x}, {start}"), ends[0], beyond)
    result = choose(outside, border, inside)
    return choose(nan(x), x, result)

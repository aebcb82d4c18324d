"""Searches in sorted tables that are divided into cells of equal width.

The cell of an element is found by a multiplication, and a second table tells how many elements of the first
one lie in the cells before it.  Only those in the same cell are then compared: a few, where halving the
whole table would take a comparison for each of its bits.
"""

from __future__ import annotations

from diffuse.kernels.llvm.code import Code, carrying
from diffuse.kernels.llvm.sorting.counting import real
from diffuse.kernels.llvm.sorting.search import groups
from diffuse.kernels.llvm.sorting.words import load, place, pointer, store, word


def _cell(code: Code, dtype: str, value: str, low: str, scale: str, last: str) -> str:
    """The index of the cell in which a value lies.  A larger value never has a lower index, and a NaN has
    the last one.  The array library computes the cells of the table's elements in the same way."""
    distance = code.let(f"fsub double {real(code, dtype, value)}, {low}")
    share = code.let(f"fmul double {distance}, {scale}")
    under = code.let(f"fcmp olt double {share}, {last}")
    share = code.let(f"select i1 {under}, double {share}, double {last}")
    over = code.let(f"fcmp ogt double {share}, {code.const('float64', 0)}")
    share = code.let(f"select i1 {over}, double {share}, double {code.const('float64', 0)}")
    return code.let(f"fptosi double {share} to i64")


def _less(code: Code, dtype: str, one: str, value: str, right: bool) -> str:
    """Does an element of the table precede a value?  All precede a NaN."""
    if dtype.startswith("float"):
        return code.let(f"fcmp {'ule' if right else 'ult'} {code.type(dtype)} {one}, {value}")
    sign = "s" if dtype[0] == "i" else "u"
    return code.let(f"icmp {sign}{'le' if right else 'lt'} {code.type(dtype)} {one}, {value}")


def _search(code: Code, dtype: str, right: bool, counts: bool = False) -> None:
    table, elements, found, before = (pointer(code, k) for k in (0, 2, 4, 5))
    length, count, steps = (word(code, k) for k in (1, 3, 6))
    low, scale, last = (code.let(f"bitcast i64 {word(code, k)} to double") for k in (7, 8, 9))
    for each in groups(code, count):
        values = [load(code, dtype, place(code, dtype, elements, k)) for k in each]
        begin = []
        for value in values:
            cell = _cell(code, dtype, value, low, scale, last)
            less = load(code, "uint32", place(code, "uint32", before, cell))
            begin.append(("i64", code.let(f"zext i32 {less} to i64")))
        with carrying(code, "0", steps, 1, begin) as (_, places):
            for k, value in enumerate(values):
                one = load(code, dtype, place(code, dtype, table, places[k]))
                more = code.let(f"zext i1 {_less(code, dtype, one, value, right)} to i64")
                places[k] = code.let(f"add i64 {places[k]}, {more}")
        for number, at in zip(each, places, strict=True):
            inside = code.let(f"icmp ult i64 {at}, {length}")
            at = code.let(f"select i1 {inside}, i64 {at}, i64 {length}")
            if counts:
                counter = place(code, "uint64", found, at)
                more = code.let(f"add i64 {load(code, 'uint64', counter)}, 1")
                store(code, "uint64", more, counter)
            else:
                store(code, "uint64", at, place(code, "uint64", found, number))


def cells_left(code: Code, dtype: str) -> None:
    """Find the position of each element in a sorted table: the number of lesser ones in it.

    Words: the table, its length, elements, their count, positions, the number of the table's elements before
    each cell, the largest number in one cell, and as float64 the least element of the table, cells per unit,
    and the number of the last cell.  The table is followed by its last element, as often as there are
    elements in one cell, and has no NaN.
    """
    _search(code, dtype, False)


def cells_right(code: Code, dtype: str) -> None:
    """Find positions as `cells_left` does, behind equal elements of the table."""
    _search(code, dtype, True)


def cells_counts(code: Code, dtype: str) -> None:
    """Count how many elements have each of the positions that `cells_right` finds.

    Words: those of `cells_right`, with the counts, 64-bit integers that are added to, in place of positions.
    """
    _search(code, dtype, True, True)

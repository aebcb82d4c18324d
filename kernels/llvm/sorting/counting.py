"""Counts: elements between two keys, and the bins of a histogram."""

from __future__ import annotations

from diffuse.kernels.llvm.code import Code, carrying
from diffuse.kernels.llvm.sorting.keys import encoded, key_type, raw_type
from diffuse.kernels.llvm.sorting.words import load, place, pointer, put, store, word


def between(code: Code, dtype: str) -> None:
    """Words: elements, count, two keys, target, capacity, and two results: how many elements have keys below
    the first, and how many are between the two, both included.  Copies the latter to the target, in their
    order; those that it has no room for are counted only.  The target has room for one element more."""
    elements, target = pointer(code, 0), pointer(code, 4)
    count, low, high, capacity = (word(code, k) for k in (1, 2, 3, 5))
    wide, raw = key_type(dtype), raw_type(dtype)
    with carrying(code, "0", count, 1, [("i64", "0"), ("i64", "0")]) as (i, seen):
        value = load(code, raw, place(code, raw, elements, i))
        key = encoded(code, dtype, value)[0]
        if wide == "uint32":
            key = code.let(f"zext i32 {key} to i64")
        less = code.let(f"zext i1 {code.let(f'icmp ult i64 {key}, {low}')} to i64")
        more = code.let(f"zext i1 {code.let(f'icmp ugt i64 {key}, {high}')} to i64")
        room = code.let(f"icmp ult i64 {seen[1]}, {capacity}")
        to = code.let(f"select i1 {room}, i64 {seen[1]}, i64 {capacity}")
        store(code, raw, value, place(code, raw, target, to))
        inside = code.let(f"xor i64 {code.let(f'or i64 {less}, {more}')}, 1")
        seen[0] = code.let(f"add i64 {seen[0]}, {less}")
        seen[1] = code.let(f"add i64 {seen[1]}, {inside}")
    put(code, 6, seen[0])
    put(code, 7, seen[1])


CONVERSION = {"i": "sitofp", "u": "uitofp", "b": "uitofp"}


def histogram(code: Code, dtype: str) -> None:
    """Words: elements, count, edges, bins, counts, the first and the last edge, their difference, the number
    of bins as float64.

    Edges of bins of one width, float64; the counts are 64-bit integers, one more than there are bins.  As
    NumPy's `histogram`: the bin is computed by a division, and then compared with its edges.  What is in no
    bin is counted in the additional one.
    """
    elements, edges, counts = (pointer(code, k) for k in (0, 2, 4))
    count, bins = word(code, 1), word(code, 3)
    first, last, width, number = (code.let(f"bitcast i64 {word(code, k)} to double") for k in (5, 6, 7, 8))
    top = code.let(f"sub i64 {bins}, 1")
    with carrying(code, "0", count, 1, []) as (i, _):
        value = load(code, dtype, place(code, dtype, elements, i))
        if dtype != "float64":
            kind = CONVERSION[dtype[0]]
            value = code.let(f"{kind} {code.type(dtype)} {value} to double")
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
        slot = place(code, "uint64", counts, bin_)
        store(code, "uint64", code.let(f"add i64 {load(code, 'uint64', slot)}, 1"), slot)

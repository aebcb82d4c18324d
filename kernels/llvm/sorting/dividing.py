"""Divides elements into those below a key and the others, without data-dependent branches."""

from __future__ import annotations

from diffuse.kernels.llvm.code import Code, carrying, with_lanes
from diffuse.kernels.llvm.sorting.keys import BITS, encoded, key_type, raw_type
from diffuse.kernels.llvm.sorting.words import load, place, pointer, store, word
from diffuse.kernels.llvm.vectors import packed, store_first

VECTOR = 512
"""The bits of the vectors whose lanes some processors pack by one instruction."""
PACKED = 32
"""The least bits of an element in them."""


def divide(code: Code, dtype: str) -> None:
    """Move the elements with lower keys than one to the first target and the others to the second, each in
    their order.

    Words: elements, count, the key, two targets.  The first target may end where the second begins.
    """
    elements, count, first, second = (pointer(code, 0), word(code, 1), pointer(code, 3), pointer(code, 4))
    key = word(code, 2)
    if key_type(dtype) == "uint32":
        key = code.let(f"trunc i64 {key} to i32")
    lanes = VECTOR // BITS[dtype] if code.module.target.packs and BITS[dtype] >= PACKED else 1
    whole = code.let(f"and i64 {count}, -{lanes}") if lanes > 1 else "0"
    found = "0"
    if lanes > 1:
        with with_lanes(code, lanes):
            found = _by_vectors(code, dtype, elements, whole, code.splat(key_type(dtype), key), first, second)
    _one_by_one(code, dtype, elements, (whole, count, found), key, first, second)


def _below(code: Code, dtype: str, value: str, key: str) -> str:
    """Are the keys of elements, given by their bits, below a key?"""
    return code.let(f"icmp ult {code.type(key_type(dtype))} {encoded(code, dtype, value)[0]}, {key}")


def _by_vectors(code: Code, dtype: str, elements: str, count: str, key: str, first: str, second: str) -> str:
    """Move as many elements, whole vectors; returns how many of them are below the key."""
    raw, lanes = raw_type(dtype), code.lanes
    with carrying(code, "0", count, lanes, [("i64", "0")]) as (i, found):
        value = load(code, raw, place(code, raw, elements, i))
        less = _below(code, dtype, value, key)
        more = code.let(f"xor {code.type('bool')} {less}, {code.const('bool', True)}")
        bits = code.let(f"bitcast {code.type('bool')} {less} to i{lanes}")
        with with_lanes(code, 1):
            code.declare(f"declare i{lanes} @llvm.ctpop.i{lanes}(i{lanes})")
            below = code.let(f"call i{lanes} @llvm.ctpop.i{lanes}(i{lanes} {bits})")
            below = code.let(f"zext i{lanes} {below} to i64")
            above = code.let(f"sub i64 {lanes}, {below}")
        for base, to, mask, number in ((first, found[0], less, below),
                                       (second, code.let(f"sub i64 {i}, {found[0]}"), more, above)):
            store_first(code, raw, place(code, raw, base, to), packed(code, raw, value, mask), number)
        found[0] = code.let(f"add i64 {found[0]}, {below}")
    return found[0]


def _one_by_one(code: Code, dtype: str, elements: str, numbers: tuple[str, str, str], key: str, first: str,
                second: str) -> None:
    """Move the elements of a range; given are its ends, and how many elements before it are below the key.
    The place is selected by arithmetic, of which LLVM makes no branch."""
    raw = raw_type(dtype)
    low, high, before = numbers
    with carrying(code, low, high, 1, [("i64", before)]) as (i, found):
        value = load(code, raw, place(code, raw, elements, i))
        less = code.let(f"zext i1 {_below(code, dtype, value, key)} to i64")
        rest = code.let(f"sub i64 {i}, {found[0]}")
        places = [code.let(f"ptrtoint ptr {place(code, raw, base, to)} to i64")
                  for base, to in ((first, found[0]), (second, rest))]
        mask = code.let(f"sub i64 0, {less}")
        apart = code.let(f"and i64 {code.let(f'xor i64 {places[0]}, {places[1]}')}, {mask}")
        there = code.let(f"inttoptr i64 {code.let(f'xor i64 {places[1]}, {apart}')} to ptr")
        store(code, raw, value, there)
        found[0] = code.let(f"add i64 {found[0]}, {less}")

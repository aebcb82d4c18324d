"""A radix sort, one step after another: keys from elements, counts of digits, a pass by one digit, elements.

Keys are sorted by their digits, from the lowest to the highest.  Each pass moves equal digits in their order,
so the sort is stable.  Each thread counts and moves a part of its own; `offsets` holds the target position of
each digit.
"""

from __future__ import annotations

from collections.abc import Callable

from diffuse.kernels.llvm.code import Code, carrying, counted, with_lanes
from diffuse.kernels.llvm.reduce import consecutive
from diffuse.kernels.llvm.sorting.keys import BITS, decoded, encoded, key_type, raw_type
from diffuse.kernels.llvm.sorting.words import at, load, place, pointer, store, word

LANES = 8


def encode(code: Code, dtype: str) -> None:
    """Make the keys of elements, and collect facts about them.

    Words: elements, count, keys, facts.  Facts are eight rows of LANES keys or elements: all keys combined by
    "and" and by "or", -0.0, +0.0 and NaN seen, the bits of all NaNs combined by "and" and by "or", and a row
    for padding.  A second group of eight rows is for the remaining elements, and uses only the first lane.
    """
    elements, keys, facts = (pointer(code, k) for k in (0, 2, 3))
    count = word(code, 1)
    whole = code.let(f"and i64 {count}, -{LANES}")
    for lanes, low, high, group in ((LANES, "0", whole, 0), (1, whole, count, 8)):
        with with_lanes(code, lanes):
            _encode(code, dtype, elements, keys, low, high, at(code, facts, group * LANES * 8))


def _encode(code: Code, dtype: str, elements: str, keys: str, low: str, high: str, facts: str) -> None:
    wide, raw = key_type(dtype), raw_type(dtype)
    kind, narrow = code.type(wide), code.type(raw)
    begin = [(kind, code.const(wide, -1)), (kind, code.const(wide, 0))]
    if dtype.startswith("float"):
        begin += [(narrow, code.const(raw, first)) for first in (0, 0, 0, -1, 0)]
    with carrying(code, low, high, code.lanes, begin) as (i, seen):
        value = load(code, raw, place(code, raw, elements, i))
        key, noted = encoded(code, dtype, value)
        store(code, wide, key, place(code, wide, keys, i))
        seen[0] = code.let(f"and {kind} {seen[0]}, {key}")
        seen[1] = code.let(f"or {kind} {seen[1]}, {key}")
        if noted is not None:
            for k, flag in enumerate(noted):
                seen[2 + k] = code.let(f"or {narrow} {seen[2 + k]}, {flag}")
            other = code.let(f"xor {narrow} {noted.nan}, {code.const(raw, -1)}")
            ones = code.let(f"or {narrow} {value}, {other}")
            seen[5] = code.let(f"and {narrow} {seen[5]}, {ones}")
            bits = code.let(f"and {narrow} {value}, {noted.nan}")
            seen[6] = code.let(f"or {narrow} {seen[6]}, {bits}")
    for row, (value, (kind, _)) in enumerate(zip(seen, begin, strict=True)):
        code.do(f"store {kind} {value}, ptr {at(code, facts, row * LANES * 8)}, align 8")


def decode(code: Code, dtype: str) -> None:
    """Make elements from their keys.

    Words: keys, count, elements, the bits of a float zero, the bits of NaN.
    """
    keys, count, elements = pointer(code, 0), word(code, 1), pointer(code, 2)
    bits = [word(code, 3 + k) for k in range(2)]
    if BITS[dtype] < 64:
        bits = [code.let(f"trunc i64 {value} to i{BITS[dtype]}") for value in bits]
    whole = code.let(f"and i64 {count}, -{LANES}")
    for lanes, low, high in ((LANES, "0", whole), (1, whole, count)):
        with with_lanes(code, lanes):
            zero, nan = (code.splat(raw_type(dtype), value) for value in bits)
            with counted(code, low, high, lanes) as i:
                key = load(code, key_type(dtype), place(code, key_type(dtype), keys, i))
                value = decoded(code, dtype, key, zero, nan)
                store(code, raw_type(dtype), value, place(code, raw_type(dtype), elements, i))


def number(code: Code, wide: str) -> None:
    """Write a word of 64 bits for each key: how much it exceeds the least one, shifted to the left, in the
    bits of the mask, and its position below them.

    Words: keys, count, the least key, shift, mask, the position of the first key, target.
    """
    keys, target = pointer(code, 0), pointer(code, 6)
    n, first = word(code, 1), word(code, 5)
    whole = code.let(f"and i64 {n}, -{LANES}")
    for lanes, low, high in ((LANES, "0", whole), (1, whole, n)):
        with with_lanes(code, lanes):
            kind = code.type("uint64")
            least, shift, mask = (code.splat("uint64", word(code, k)) for k in (2, 3, 4))
            with counted(code, low, high, lanes) as i:
                key = load(code, wide, place(code, wide, keys, i))
                if wide == "uint32":
                    key = code.let(f"zext {code.type(wide)} {key} to {kind}")
                more = code.let(f"sub {kind} {key}, {least}")
                leading = code.let(f"and {kind} {code.let(f'shl {kind} {more}, {shift}')}, {mask}")
                position = consecutive(code, code.let(f"add i64 {i}, {first}"))
                found = code.let(f"or {kind} {leading}, {position}")
                store(code, "uint64", found, place(code, "uint64", target, i))


def _digit(code: Code, wide: str, key: str, shift: str, mask: str) -> str:
    """The digit of a key, as an i64."""
    kind = code.type(wide)
    if wide == "uint32":
        key = code.let(f"zext {kind} {key} to i64")
    return code.let(f"and i64 {code.let(f'lshr i64 {key}, {shift}')}, {mask}")


def count(code: Code, wide: str) -> None:
    """Count how often each digit occurs in the keys.

    Words: keys, count, shift, mask, counts, which are 64-bit integers and are added to.
    """
    keys, counts = pointer(code, 0), pointer(code, 4)
    n, shift, mask = (word(code, k) for k in (1, 2, 3))
    with counted(code, "0", n) as i:
        digit = _digit(code, wide, load(code, wide, place(code, wide, keys, i)), shift, mask)
        bin_ = place(code, "uint64", counts, digit)
        more = code.let(f"add i64 {load(code, 'uint64', bin_)}, 1")
        store(code, "uint64", more, bin_)


def scatter(code: Code, wide: str) -> None:
    """Move each key to the offset of its digit, and increment that.

    Words: keys, count, shift, mask, offsets, target.
    """
    _scatter(code, wide, None)


def scatter_numbered(code: Code, wide: str) -> None:
    """Move each key as `scatter` does, and with it its position, a 32-bit integer.

    Words beyond those of `scatter`: the position of the first key, the target of the positions.
    """
    first = word(code, 6)
    _scatter(code, wide, lambda i: code.let(f"trunc i64 {code.let(f'add i64 {i}, {first}')} to i32"))


def scatter_pairs(code: Code, wide: str) -> None:
    """Move each key as `scatter` does, and with it the 32-bit integer that belongs to it.

    Words beyond those of `scatter`: these integers, their target.
    """
    values = pointer(code, 6)
    _scatter(code, wide, lambda i: load(code, "uint32", place(code, "uint32", values, i)))


def _scatter(code: Code, wide: str, value: Callable[[str], str] | None) -> None:
    keys, offsets, target = (pointer(code, k) for k in (0, 4, 5))
    n, shift, mask = (word(code, k) for k in (1, 2, 3))
    values = pointer(code, 7) if value is not None else ""
    with counted(code, "0", n) as i:
        key = load(code, wide, place(code, wide, keys, i))
        offset = place(code, "uint64", offsets, _digit(code, wide, key, shift, mask))
        to = load(code, "uint64", offset)
        store(code, "uint64", code.let(f"add i64 {to}, 1"), offset)
        store(code, wide, key, place(code, wide, target, to))
        if value is not None:
            store(code, "uint32", value(i), place(code, "uint32", values, to))

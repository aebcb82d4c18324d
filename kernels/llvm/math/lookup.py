"""Tables of 16 float64, read at a place of its own in each lane.

With AVX-512 a table is two registers, which one instruction permutes; elsewhere it is read from memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from diffuse.kernels.llvm.code import Code, literal
from diffuse.kernels.llvm.math.values import FLOAT, Real, Whole

SIZE = 16
LANES = 8
"""Lanes of the instruction."""
PERMUTE = "llvm.x86.avx512.vpermi2var.pd.512"


def looked_up(name: str, table: Sequence[float], place: Whole) -> Real:
    """Return the elements of a table of 16 at the places that the lowest four bits say."""
    code = place.code
    if code.module.target.permutes and code.lanes % LANES == 0:
        return Real(code, _permuted(code, table, place.name))
    words = ", ".join(f"double {literal(FLOAT, value)}" for value in table)
    code.declare(f"@diffuse.table.{name} = internal unnamed_addr constant [{SIZE} x double] [{words}]")
    at = f"getelementptr double, ptr @diffuse.table.{name}, {code.type('int64')} {(place & SIZE - 1).name}"
    if code.lanes == 1:
        return Real(code, code.let(f"load double, ptr {code.let(at)}, align 8"))
    kind, pointers, all_lanes = code.type(FLOAT), f"<{code.lanes} x ptr>", f"<{code.lanes} x i1>"
    function = f"llvm.masked.gather.v{code.lanes}f64.v{code.lanes}p0"
    code.declare(f"declare {kind} @{function}({pointers}, i32, {all_lanes}, {kind})")
    given = f"{pointers} {code.let(at)}, i32 8, {all_lanes} {code.const('bool', True)}, {kind} poison"
    return Real(code, code.let(f"call {kind} @{function}({given})"))


def _permuted(code: Code, table: Sequence[float], places: str) -> str:
    vector, whole = f"<{LANES} x double>", f"<{LANES} x i64>"
    code.declare(f"declare {vector} @{PERMUTE}({vector}, {whole}, {vector})")
    halves = [f"{vector} <{', '.join(f'double {literal(FLOAT, v)}' for v in table[first:first + LANES])}>"
              for first in (0, LANES)]
    found, kind = [], code.type("int64")
    for first in range(0, code.lanes, LANES):
        part = places if code.lanes == LANES else _taken(code, kind, places, places, first, LANES)
        found.append(code.let(f"call {vector} @{PERMUTE}({halves[0]}, {whole} {part}, {halves[1]})"))
    size = LANES
    while len(found) > 1:  # joined in pairs
        found = [_taken(code, f"<{size} x double>", a, b, 0, 2 * size)
                 for a, b in zip(found[::2], found[1::2], strict=True)]
        size *= 2
    return found[0]


def _taken(code: Code, kind: str, a: str, b: str, first: int, count: int) -> str:
    """Return `count` lanes of two vectors, one behind the other, from `first` on."""
    lanes = ", ".join(f"i32 {lane}" for lane in range(first, first + count))
    return code.let(f"shufflevector {kind} {a}, {kind} {b}, <{count} x i32> <{lanes}>")

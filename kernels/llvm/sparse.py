"""Rows of a sparse matrix times a dense vector or matrix, inside a loop nest: the op `spmv`.

A row is summed element by element in the order in which it is stored, from zero, as SciPy does it.  Over a
vector the lanes are rows, each summed by itself: rows differ in length, and gathering several at a time was
measured slower.  Over a matrix the lanes are its columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from diffuse.kernels.body.expr import Op
from diffuse.kernels.llvm import reduce
from diffuse.kernels.llvm.block import Block, SplitWords
from diffuse.kernels.llvm.code import COMPONENT, Code, Value, carrying, counted, guarded, with_lanes
from diffuse.kernels.llvm.memory import Place, Step, lane, load, load_one, splat, store_one
from diffuse.kernels.llvm.ops.complexes import multiply_plain
from diffuse.kernels.llvm.ops.rules import RULES, cast
from diffuse.kernels.llvm.pairwise import pairwise


class Operands(NamedTuple):
    """The places of the matrix's elements, their columns and the dense operand."""

    values: Place
    columns: Place
    dense: Place
    split: SplitWords | None = None
    """If only some of the dense operand's rows lie at its place: where all others do."""


def rows(code: Code, block: Block, dtype: str, bounds: tuple[str, str], operands: Operands, at: str) -> Value:
    """The sums of one row per lane; `bounds` are the first and last positions of the lanes' rows, int64, and
    `at` is the first lane's row.  Rows that read a split operand only at its own place have a loop of their
    own, as looking for each element takes a fifth of the time."""
    def total(ends: list[str], some: Operands) -> Value:
        return _row(code, dtype, ends, lambda at: _term(code, dtype, some, at))

    def summed(ends: list[str], row: str, store: Callable[[Value], None]) -> None:
        if operands.split is None:
            store(total(ends, operands))
            return
        *_, low, high = operands.split
        ahead = code.let(f"sub i64 {code.let(f'add i64 {at}, {row}')}, {low}")
        plain = code.let(f"icmp ult i64 {ahead}, {code.let(f'sub i64 {high}, {low}')}")
        with guarded(code, plain):
            store(total(ends, operands._replace(split=None)))
        with guarded(code, code.let(f"xor i1 {plain}, true")):
            store(total(ends, operands))

    return load(code, Place(dtype, "1", _by_row(code, block, dtype, bounds, summed)), Step("0"))


def totals(code: Code, block: Block, dtype: str, bounds: tuple[str, str], values: Place) -> Value:
    """The sums of the elements of one row per lane, as `numpy.add.reduceat` adds them; an empty sum is
    zero."""
    def total(ends: list[str], row: str, store: Callable[[Value], None]) -> None:
        if dtype.startswith(("float", "complex")):
            store(pairwise(code, dtype, _element(code, _kind(code, dtype), values.base, ends[0]),
                           code.let(f"sub i64 {ends[1]}, {ends[0]}")))
            return
        store(_row(code, dtype, ends, lambda at: _cast_one(code, values, at, dtype)))

    return load(code, Place(dtype, "1", _by_row(code, block, dtype, bounds, total)), Step("0"))


def _by_row(code: Code, block: Block, dtype: str, bounds: tuple[str, str],
            total: Callable[[list[str], str, Callable[[Value], None]], None]) -> str:
    """Compute the result of each lane's row separately, from the bounds of the row and the lane's number;
    returns the address of the results."""
    width = code.lanes
    low, high, sums = block.room("int64", width), block.room("int64", width), block.room(dtype, width)
    kind = code.type("int64")
    for room, bound in ((low, bounds[0]), (high, bounds[1])):
        code.do(f"store {kind} {bound}, ptr {room}, align 8")
    with with_lanes(code, 1):
        with counted(code, "0", str(width)) as row:
            ends = [code.let(f"load i64, ptr {_element(code, 'i64', room, row)}, align 8")
                    for room in (low, high)]
            place = _element(code, _kind(code, dtype), sums, row)
            total(ends, row, lambda value: store_one(code, dtype, place, value))
    return sums


def columns(code: Code, dtype: str, bounds: tuple[Value, Value], operands: Operands, pitch: str,
            step: Step) -> Value:
    """The sums of one row over the columns of `step`; rows of the dense matrix are `pitch` bytes long."""
    ends = [str(lane(code, "int64", bound, "0")) for bound in bounds]

    def term(at: str) -> Value:
        with with_lanes(code, 1):
            value = _cast_one(code, operands.values, at, dtype)
            column = _column(code, operands, at)
            down = code.let(f"mul nuw i64 {column}, {pitch}")
            base = code.let(f"getelementptr inbounds i8, ptr {_base(code, operands, column)}, i64 {down}")
        there = operands.dense._replace(base=base)
        x = cast(code, there.dtype, dtype, load(code, there, step))
        return _product(code, dtype, splat(code, dtype, value), x)

    return _row(code, dtype, ends, term)


def silent(op: Op) -> bool:
    """Is this a product of floats?  SciPy's loops ignore floating-point errors."""
    return op.kind == "spmv" and len(op.attribute) == 3 and floats(op.dtype)


def alone(ops: Sequence[Op]) -> bool:
    """Are these products of floats, with no other op that could raise a flag?"""
    return any(silent(op) for op in ops) and not any(
        floats(op.dtype) and not silent(op) and op.kind not in ("load", "store", "scalar", "const")
        or any(floats(ops[a].dtype) for a in op.args) and op.kind != "store" for op in ops)


def floats(dtype: str) -> bool:
    return dtype.startswith(("float", "complex"))


def _row(code: Code, dtype: str, ends: list[str], term: Callable[[str], Value]) -> Value:
    """Zero, plus the terms of one row one after another."""
    zero = reduce.const(code, dtype, False if dtype == "bool" else 0)
    kind = code.type(COMPONENT.get(dtype, dtype))
    begin = [(kind, part) for part in (zero if isinstance(zero, tuple) else (zero,))]
    low, high = ends
    with carrying(code, low, high, 1, begin) as (at, found):
        total = RULES["add"](code, (dtype, dtype), dtype, (_value(found), term(at)))
        found[:] = total if isinstance(total, tuple) else (total,)
    return _value(found)


def _value(parts: Sequence[str]) -> Value:
    return parts[0] if len(parts) == 1 else (parts[0], parts[1])


def _term(code: Code, dtype: str, operands: Operands, at: str) -> Value:
    value = _cast_one(code, operands.values, at, dtype)
    column = _column(code, operands, at)
    there = operands.dense._replace(base=_base(code, operands, column))
    x = _cast_one(code, there, column, dtype)
    return _product(code, dtype, value, x)


def _product(code: Code, dtype: str, a: Value, b: Value) -> Value:
    """A product; each operation of a complex one is rounded, as in SciPy's loops but not in NumPy's."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return multiply_plain(code, COMPONENT[dtype], a, b)
    return RULES["multiply"](code, (dtype, dtype), dtype, (a, b))


def _base(code: Code, operands: Operands, column: str) -> str:
    """The address that row 0 of the dense operand has where the row for this column lies."""
    if operands.split is None:
        return operands.dense.base
    first, number, others, *_ = operands.split
    here = code.let(f"icmp ult i64 {code.let(f'sub i64 {column}, {first}')}, {number}")
    return code.let(f"select i1 {here}, ptr {operands.dense.base}, ptr {others}")


def _column(code: Code, operands: Operands, at: str) -> str:
    """The column of an element.  Columns are never negative: a signed index would cost a correction."""
    column = str(_one(code, operands.columns, at))
    return column if operands.columns.dtype in ("int64", "uint64") else code.let(f"zext i32 {column} to i64")


def _cast_one(code: Code, place: Place, at: str, dtype: str) -> Value:
    return cast(code, place.dtype, dtype, _one(code, place, at))


def _one(code: Code, place: Place, at: str) -> Value:
    there = _element(code, _kind(code, place.dtype), place.base, at)
    return load_one(code, place.dtype, there, place.constant)


def _kind(code: Code, dtype: str) -> str:
    """The LLVM type of one element in memory."""
    if dtype in COMPONENT:
        return f"[2 x {code.memory(COMPONENT[dtype], 1)}]"
    return code.memory(dtype, 1)


def _element(code: Code, kind: str, base: str, at: str) -> str:
    return code.let(f"getelementptr inbounds {kind}, ptr {base}, i64 {at}")

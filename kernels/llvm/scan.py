"""Scans: running values of an operator along the innermost dimension.

A loop of one lane folds each element into the running value.  Where the operator is associative to the bit, a
loop of several lanes folds the elements of a vector with each other in as many steps as the number of lanes
has bits (Hillis and Steele, "Data parallel algorithms", 1986), and the running value into the result: so that
only one fold of each vector waits for the one before it.
"""

from __future__ import annotations

from typing import Any

from diffuse.kernels.body.expr import Op
from diffuse.kernels.body.operations import EXTREMES, neutral
from diffuse.kernels.llvm import memory, reduce
from diffuse.kernels.llvm.code import Code, Value
from diffuse.kernels.llvm.ops.rules import fold
from diffuse.kernels.llvm.vectors import shuffled

BITWISE = frozenset({"any", "all", "parity", "bitand", "bitor", "bitxor"})


def associative(op: Op) -> bool:
    """Does the order in which a scan folds its elements not show in a bit, and are vectors faster?  (Sums of
    integers are as fast one by one.)"""
    real = op.dtype not in ("float16", "complex64", "complex128")
    return real and op.attribute[0] in EXTREMES | BITWISE


def running(code: Code, operator: str, dtype: str, value: Value, at: str, index: str) -> Value:
    """The running values of the elements of one step, which begins at `index`.  The value so far is at the
    address `at`, and is replaced there; the first element is taken as it is."""
    so_far = memory.load_one(code, dtype, at)
    if code.lanes > 1:
        value, so_far = _prefix(code, operator, dtype, str(value)), memory.splat(code, dtype, so_far)
    folded = fold(code, operator, dtype, so_far, value)
    first = code.let(f"icmp eq i64 {index}, 0")
    found = reduce.select(code, dtype, first, value, folded, uniform=True)
    memory.store_one(code, dtype, at, memory.lane(code, dtype, found, str(code.lanes - 1)))
    return found


def _prefix(code: Code, operator: str, dtype: str, value: str) -> Value:
    """Fold each lane with all those before it."""
    kind, lanes, distance = code.type(dtype), code.lanes, 1
    nothing: Any = code.const(dtype, neutral(operator, dtype))
    while distance < lanes:
        # lanes with nothing before them are folded with the identity, or with themselves
        order = [max(k - distance, 0) if k >= distance else lanes + k for k in range(lanes)]
        before = shuffled(code, kind, value, value if operator in EXTREMES else nothing, order)
        value = str(fold(code, operator, dtype, before, value))
        distance *= 2
    return value

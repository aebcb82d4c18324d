"""Reductions along the second innermost dimension: four rows are folded into the results at a time.

Such a loop folds each row into a row of results in memory.  With one row at a time it loads and stores a
result for each element that it folds; with four it does so for every fourth.  The elements of a result are
folded in the same order, so that all bits are the same.  Lines are not fetched ahead: processors do so for
the four rows by themselves.
"""

from __future__ import annotations

from typing import Any

from diffuse.kernels.llvm import memory, width
from diffuse.kernels.llvm.code import Value, counted, guarded
from diffuse.kernels.llvm.crossing import plain
from diffuse.kernels.llvm.iteration import INNER, ROW
from diffuse.kernels.llvm.memory import Step
from diffuse.kernels.llvm.reduce import Fold, store_state

TOGETHER = 4
"""How many rows are folded at a time.  The rows of a leaf of the reduction tree are a multiple of it."""
CHEAP = 8
"""The largest cost of the ops of a loop, in additions, for which this is worth the larger code: what such a
loop computes hides the accesses to its results otherwise."""


def applies(nest: Any) -> bool:
    """Does this loop only reduce, along its second innermost dimension and cheaply?"""
    ops, folds = nest.loop.ops, nest.folds.values()
    if not folds or nest.flat or nest.code.lanes == 1 or len(nest.order) < 2 or nest.staged is not None:
        return False
    if not plain(ops, "reduce") or any([op.kind == "store" for op in ops]):
        return False
    if width.cost(ops) > CHEAP:
        return False
    return all([not fold.by_rows and not fold.operator.indexed
                and fold.partials.reduced[-1:] == nest.order[-2:-1] for fold in folds])


def write(nest: Any, bases: dict[int, str]) -> None:
    """Write the loops over the two innermost dimensions, with the arguments' addresses at their start.

    Rows are counted from a multiple of `TOGETHER` on, so that those of a group belong to one leaf.
    """
    code, depth = nest.code, len(nest.order) - 2
    low, high = nest.bounds[nest.order[depth]]
    with counted(code, code.let(f"and i64 {low}, {-TOGETHER}"), high, TOGETHER) as start:
        end = nest.end(start, TOGETHER, high)
        later = code.let(f"icmp slt i64 {start}, {low}")
        first = code.let(f"select i1 {later}, i64 {low}, i64 {start}")
        count = code.let(f"sub nsw i64 {end}, {first}")
        complete = code.let(f"icmp eq i64 {count}, {TOGETHER}")
        with guarded(code, complete):
            _group(nest, start, bases)
        rest = code.let(f"select i1 {complete}, i64 {end}, i64 {first}")
        with counted(code, rest, end) as index:
            nest.row_at(index, bases)


def _group(nest: Any, start: str, bases: dict[int, str]) -> None:
    """Write the loop over the innermost dimension that folds the rows from `start` on."""
    code, rows = nest.code, []
    for k in range(TOGETHER):
        index = code.let(f"add nsw i64 {start}, {k}") if k else start
        nest.open_row(index, bases)
        nest.write_ops(ROW, Step("0"))
        rows.append((index, nest.accesses, dict(nest.values)))
    for fold in nest.folds.values():
        fold.row({**nest.index, nest.order[-2]: start})
    low, high = nest.bounds[nest.inner]
    middle = nest.before_last(low, high, code.lanes)
    with counted(code, low, middle, code.lanes) as index:
        _step(nest, rows, Step(index))
    with guarded(code, code.let(f"icmp slt i64 {middle}, {high}")):
        _step(nest, rows, memory.last(code, middle, high))


def _step(nest: Any, rows: list[Any], step: Step) -> None:
    """Fold the elements of one step of each row into the same results."""
    columns = {i: _Columns(fold, step) for i, fold in nest.folds.items()}
    nest.reductions = columns
    for index, accesses, values in rows:
        nest.index[nest.order[-2]], nest.accesses, nest.values = index, accesses, dict(values)
        nest.write_ops(INNER, step)
    nest.reductions = nest.folds
    for results in columns.values():
        results.store(step)


class _Columns:
    """The results of one reduction for the columns of one step, in registers while rows are folded into
    them."""

    def __init__(self, fold: Fold, step: Step) -> None:
        self.fold, self.state = fold, fold.before(step)

    def element(self, value: Value, step: Step) -> None:
        """Fold the elements of one more row."""
        self.state = self.fold.operator.fold(self.fold.code, self.state, (value,))

    def store(self, step: Step) -> None:
        """Write the results to memory."""
        store_state(self.fold.code, self.fold.places, step, self.state)

"""Converts csr, csc and coo to the rows of the task `spmv`: positions, columns and values.

A csr array has rows already.  The others are sorted by row once, and the order is kept until their structure
changes.  Within a row the elements keep the order in which SciPy's `csc_matvec` and `coo_matvec` add them, by
column and as stored, so that sums have SciPy's bits even with duplicates and unsorted indices. Values are
brought into that order when a product needs them, by a task in the stream.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy
import scipy.sparse

from diffuse import library
from diffuse.numpy.arrays import base, core, far
from diffuse.numpy.arrays.forms import row_major
from diffuse.numpy.ops.operands import wrap
from diffuse.scipy.sparse import asked, parts
from diffuse.scipy.sparse.state import Kept, Name, Sparse


class Order(NamedTuple):
    """The rows of a matrix: where each begins, and the column and the index of each element."""

    positions: Any
    columns: Any
    order: Any
    """The indices of the elements by row; None if they are stored in this order."""


def rows_of(a: Sparse) -> tuple[Any, Any, Any]:
    """Positions, columns and values by row of a checked matrix of two dimensions; values may be lazy."""
    if a._held.format == "csr":
        return contiguous(a._part("indptr")), contiguous(a._part("indices")), contiguous(a._part("data"))
    structure: tuple[Name, ...] = ("indptr", "indices") if a._held.format == "csc" else (0, 1)
    found = _kept(a, "order", a._stamp(*structure), lambda: _order(a))
    values = a._part("data")
    if found.order is not None:
        values = _kept(a, "values", a._stamp(*structure, "data"), lambda: _ordered(values, found.order))
    return found.positions, found.columns, contiguous(values)


def contiguous(x: Any) -> Any:
    """The array itself if it is contiguous, else a copy of it."""
    return x if x.form.ordered else x.copy()


def _kept(a: Sparse, name: str, stamp: Any, make: Any) -> Any:
    """Cached data derived from the structure; made anew if the structure changed."""
    if a._held.format == "coo":
        name = f"{name} by {id(a._part(0))}"  # a transpose has the same arrays in other places
    before = a._kept.get(name)
    if before is None or before.stamp != stamp:
        before = a._kept[name] = Kept(stamp, make())
    return before.value


def _order(a: Sparse) -> Order:
    """Sort the elements of a csc or coo array by row, in stored order within each."""
    if parts.apart(a):
        positions, indices = contiguous(a._part("indptr")), contiguous(a._part("indices"))
        return Order(*asked.by_other(positions, indices, a._held.shape[0]))
    held = a._structured()
    count, rows = held.data.shape[0], held.shape[0]
    numbers = numpy.arange(count, dtype=numpy.int32 if count < 2**31 else numpy.int64)
    if held.format == "csc":
        by_column = scipy.sparse.csc_array((numbers, held.indices, held.indptr), shape=held.shape)
        by_row = by_column.tocsr()
        return Order(wrap(by_row.indptr), wrap(by_row.indices), wrap(by_row.data))
    row, col = held.coords
    if bool((row[1:] >= row[:-1]).all()):
        ends = numpy.searchsorted(row, numpy.arange(rows + 1, dtype=row.dtype)).astype(row.dtype)
        return Order(wrap(ends), contiguous(a._part(1)), None)
    # one element per column: SciPy's conversion then sorts stably, and sums no duplicates
    each = scipy.sparse.csc_array((numbers, row, numpy.arange(count + 1, dtype=numbers.dtype)),
                                  shape=(rows, count)).tocsr()
    return Order(wrap(each.indptr), wrap(col[each.indices]), wrap(each.data))


def _ordered(values: Any, order: Any) -> Any:
    """Record `values[order]`, in stream order."""
    out = core.recorded(row_major(order.shape, values.dtype))
    if far.here() and far.gathered(values, 0, order, out):
        return out
    operands = base.argument(values), base.argument(order)
    library.call("take", _take, operands, (base.argument(out),))
    return out


def _take(values: Any, order: Any, out: Any) -> None:
    numpy.take(values, order, out=out)

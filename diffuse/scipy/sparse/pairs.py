"""Products of two distributed sparse arrays: each rank computes the rows of its part.

If the result is a csc array, these are rows of its transpose, which is the product of both transposes in the
other order.  An operand in the other format is converted, as by SciPy.  A rank gets the elements of its rows
of the first array, finds which rows of the second one these refer to, and asks the ranks that have them.
SciPy multiplies what it got, so that rows have SciPy's elements in SciPy's order.  How many elements rows
have is known only then; afterwards the arrays of the result are made, and the elements sent to where these
have their parts.  No rank gets more than the rows that it needs.
"""

from __future__ import annotations

from typing import Any

import numpy
import scipy.sparse

import diffuse.numpy as np
from diffuse.numpy.arrays import base, core, far
from diffuse.numpy.arrays.core import Array
from diffuse.numpy.arrays.forms import row_major
from diffuse.scipy.sparse import checks, products, rows
from diffuse.scipy.sparse.asked import COUNT, fetched, ranges
from diffuse.scipy.sparse.parts import distributed
from diffuse.scipy.sparse.state import NUMBERS, Name, Sparse, made

Local = numpy.ndarray[Any, Any]


def product(a: Sparse, b: Any) -> Any:
    """The product of two csr or csc arrays, which stays distributed; None if SciPy has to compute it."""
    if not _wanted(a, b):
        return None
    try:
        return _product(a, b)
    except base.Unaddressable:
        return None


def _wanted(a: Sparse, b: Any) -> bool:
    if not isinstance(b, Sparse) or not far.here() or {a._held.format, b._held.format} - {"csr", "csc"}:
        return False
    if a._held.ndim != 2 or b._held.ndim != 2:
        return False
    if isinstance(a, scipy.sparse.spmatrix) != isinstance(b, scipy.sparse.spmatrix):
        return False
    if a._held.shape[1] != b._held.shape[0] or not all(a._held.shape) or not b._held.shape[1]:
        return False
    for each in (a, b):
        if not checks.integers(each) or not all(isinstance(each._part(name), Array) for name in each._names):
            return False
        values = each._part("data")
        if values.form.dtype.char not in NUMBERS or not values.size:
            return False
    return bool(max(a._part("data").size, b._part("data").size) >= (core.SMALL or 1))


def _product(a: Sparse, b: Sparse) -> Any:
    for each in (a, b):
        checks.check(each)
    shape = a._held.shape[0], b._held.shape[1]
    operands = (a, b) if a._held.format == "csr" else (b.transpose(), a.transpose())
    m, n = operands[0]._held.shape[0], operands[1]._held.shape[1]
    index = a._held._get_index_dtype(tuple([numpy.empty(0, each._part(name).dtype)
                                            for each in (a, b) for name in ("indptr", "indices")]))
    dtype = numpy.result_type(a._part("data").dtype, b._part("data").dtype)
    found: dict[int, Any] = {}
    counts = core.recorded(row_major((m,), COUNT))

    def multiply(peers: Any, *arrays: Local) -> None:
        found[peers.rank] = block = _block(peers, n, *arrays[:-1])
        arrays[-1][...] = numpy.diff(block.indptr)

    sources: list[Any] = []
    for each in operands:
        positions, columns, values = rows.rows_of(each)
        sources += [*products.ends(positions), columns, values]
    far.together("sparse_product", multiply, sources, (counts,))
    total = int(counts.sum())
    kind = type(a._held)
    if not total:
        return made(kind(shape, dtype=dtype), None, type(a))
    index = numpy.dtype(a._held._get_index_dtype((numpy.empty(0, index),), maxval=total))
    parts: dict[Name, Any] = {}
    for name, element in (("data", dtype), ("indices", index)):
        parts[name] = out = core.recorded(row_major((total,), element))
        far.together("sparse_product", _placing(found, name), (), (out,))
    ends = np.cumsum(counts)
    parts["indptr"] = np.concatenate((np.zeros(1, COUNT), ends)).astype(index, copy=False)
    result = type(a).__new__(type(a))
    distributed(kind, shape, parts, result)
    return result


def _placing(found: dict[int, Any], name: str) -> Any:
    def place(peers: Any, out: Local) -> None:
        far.place(peers, peers.ends[0], getattr(found[peers.rank], name).astype(out.dtype, copy=False), out)
        if name == "indices":
            del found[peers.rank]

    return place


def _block(peers: Any, width: int, begins: Local, ends: Local, columns: Local, values: Local,
           b_begins: Local, b_ends: Local, b_columns: Local, b_values: Local) -> Any:
    """The rows of this rank, as a csr array of SciPy's."""
    own = numpy.array([[begins[0], ends[-1]]] if len(begins) else [], COUNT).reshape(-1, 2)
    columns, values = fetched(peers, peers.ends[2], own, columns, values)
    needed = numpy.unique(columns).astype(COUNT)
    firsts, lasts = fetched(peers, peers.ends[4], ranges(needed, needed + 1), b_begins, b_ends)
    b_columns, b_values = fetched(peers, peers.ends[6], ranges(firsts, lasts), b_columns, b_values)
    kind = scipy.sparse.csr_array
    if not len(needed):
        dtype = numpy.result_type(values, b_values)
        return kind((len(begins), width), dtype=dtype)
    starts = numpy.concatenate((begins[:1], ends)).astype(COUNT)
    one = kind((values, numpy.searchsorted(needed, columns), starts - starts[0]),
               shape=(len(begins), len(needed)))
    lengths = numpy.concatenate(([0], numpy.cumsum(lasts.astype(COUNT) - firsts)))
    return one @ kind((b_values, b_columns, lengths), shape=(len(needed), width))

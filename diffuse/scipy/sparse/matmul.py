"""Products of sparse and dense arrays: `A @ x` becomes the task `spmv`, sums of diagonals, or a call to
SciPy.

A product of csr, csc, coo, dia or bsr with a dense vector (n,) or (n, 1) or matrix (n, k) is recorded. SciPy
handles everything else (other formats and operands, products of two sparse arrays, errors).
"""

from __future__ import annotations

from typing import Any
from weakref import ref

import numpy

import diffuse.numpy as np
from diffuse import library
from diffuse.numpy.arrays import access, base, core
from diffuse.numpy.arrays.core import Array
from diffuse.numpy.arrays.forms import row_major
from diffuse.numpy.ops import elementwise, operands, single
from diffuse.numpy.ops.operands import wrap
from diffuse.scipy.sparse import checks, conversion, narrow, products, rows
from diffuse.scipy.sparse.state import NUMBERS, Name, Sparse, fetched, put

DIAGONALS = 64
"""The most diagonals of an array for which a product is one task per diagonal instead of one call to
SciPy."""

FORMATS = ("csr", "csc", "coo", "dia", "bsr")


def matmul(a: Sparse, x: Any) -> Any:
    """`a @ x` for any operand except a scalar."""
    light = a._light
    if light is not None:
        found = light.product(a, x)
        if found is not None:
            return found
    dense = _dense(x)
    if dense is None and library.current().runtime.ranks > 1:
        from diffuse.scipy.sparse import pairs  # not where there is one rank

        found = pairs.product(a, x)
    else:
        found = None if dense is None else product(a, dense)
    if found is None:
        found = conversion.method(a, "_matmul_dispatch", x)
        if a._held.format in FORMATS and dense is not None and dense.form.ndim == 1 and soon(a, dense):
            put(a, "_light", Light(a))
    return found


def rmatmul(a: Sparse, x: Any) -> Any:
    """`x @ a` for any operand except a scalar."""
    dense = _dense(x)
    if dense is not None and a._held.format in FORMATS and a._held.ndim == 2 and not soon(a, dense):
        if checks.integers(a):
            checks.check(a)
        turned = a._held.format == "dia"
        found = product(a if turned else a.transpose(), dense.T, turned)
        if found is not None:
            return found.T
    return conversion.method(a, "_rmatmul_dispatch", x)


def product(a: Sparse, x: Any, turned: bool = False) -> Any:
    """The lazy product with a dense array of one or two dimensions, or None if SciPy has to compute it.

    `turned`: multiply by the transpose; for diagonals only.
    """
    ready = a._rows
    if ready is not None and ready.take(a, x):
        template = ready.rows.template
        if (template is not None and template.alone >= single.OFTEN and ready.light
                and ready.at_hand(a, x) and single.trusted(template)):
            return at_once(a, x, template)
        return products.spmv(ready.rows, x)
    held = a._held
    if held.format not in FORMATS or held.ndim != 2:
        return None
    m, n = held.shape[::-1] if turned else held.shape
    if (x.shape[0] != n or x.ndim > 2 or not x.size
            or m < (2 if held.format == "coo" else 1) or soon(a, x)):
        return None
    values: Any = a._part("data")
    if not isinstance(values, Array) or not {values.form.dtype.char, x.dtype.char} <= NUMBERS:
        return None
    column = x.shape == (n, 1)
    dense = x.reshape(-1) if column else x
    try:
        found = _diagonals(a, dense, turned) if held.format == "dia" else _product(a, dense)
    except base.Unaddressable:
        return None
    return found.reshape(m, 1) if column and found is not None else found


def at_once(a: Sparse, x: Any, template: Any) -> Any:
    """Let SciPy compute the product with a vector, if everything is at hand, instead of a task of this
    template."""
    light = a._light
    if light is not None and light.current(a):
        found = core.hosted(a._held._matmul_dispatch(access.at_hand(x)))
    else:
        found = conversion.method(a, "_matmul_dispatch", x)
        put(a, "_light", Light(a))
    access.latest = ref(found.meta), template
    return found


def _dense(x: Any) -> Any:
    """The dense operand as a Diffuse array, if its product can be recorded; else None."""
    kind = type(x)
    if kind is core.array_class or (kind is numpy.ndarray and x.dtype.char in NUMBERS):
        found = operands.adopt(x)
        return found if isinstance(found, Array) and found.form.ndim else None
    return None


STORED = 8
"""The most stored elements per row for which SciPy computes a product of a small matrix, with the task's
bits, before a task would be recorded, launched and waited for."""


def soon(a: Sparse, x: Any) -> bool:
    """Are all operands computed, and so small that SciPy is faster than recording a task?"""
    if elementwise.eager_errors:
        return True
    small = core.SMALL
    if x.size >= small or a._held.shape[0] >= small or a._part("data").size >= STORED * small:
        return False
    return access.ready(x) and all(access.ready(part) for part in a._parts.values())


class Light:
    """The arrays of a small matrix; SciPy computes its products at once as long as the arrays are
    unchanged."""

    __slots__ = ("rows", "stored", "watched")

    def __init__(self, a: Sparse) -> None:
        self.rows, self.stored = a._held.shape[0], a._part("data").size
        self.watched = [(name, part, part.memory) for name, part in a._parts.items()]

    def current(self, a: Sparse) -> bool:
        """Are the arrays unchanged, with no pending task that writes to them?"""
        held, parts = a._held, a._parts
        for name, part, elements in self.watched:
            here: Any = parts.get(name)
            if here is not part or not access.ready(here) or fetched(held, name) is not elements:
                return False
        return True

    def product(self, a: Sparse, x: Any) -> Any:
        """Compute `a @ x` for a small vector at hand if no pending task writes to the matrix; else return
        None."""
        if self.rows >= core.SMALL or self.stored >= STORED * core.SMALL:
            return None
        memory = x if type(x) is core.NDARRAY else access.near(x) if type(x) is core.array_class else None
        if memory is None or memory.ndim != 1 or memory.dtype.char not in NUMBERS:
            return None
        if not self.current(a):
            return None
        found = a._held._matmul_dispatch(memory)
        return core.given(found) if type(found) is core.NDARRAY and found.base is None else wrap(found.copy())


def _product(a: Sparse, x: Any) -> Any:
    values = a._part("data")
    if not values.size or not checks.integers(a):
        return None
    found = narrow.rows_of(a)
    if found is None:
        checks.check(a)
        if a._held.format == "bsr":
            return _called(a, x, ("data", "indices", "indptr"))
        found = rows.rows_of(a)
    ready = Ready(a, *found)
    put(a, "_rows", ready)
    return products.spmv(ready.rows, x)


class Ready:
    """The rows of a matrix, valid for products as long as the arrays that they were made of are unchanged."""

    __slots__ = ("rows", "length", "size", "light", "watched")

    def __init__(self, a: Sparse, positions: Any, columns: Any, values: Any) -> None:
        self.rows = products.PackedMatrix(positions, columns, values)
        self.length = a._held.shape[1]
        self.size = max(values.shape[0] // STORED, self.rows.count)
        self.light = values.shape[0] <= STORED * self.rows.count
        """Are rows so short that SciPy takes little more time for them than NumPy for as many elements?"""
        names = a._part_names() if a._narrow is None else ("data",)
        self.watched = tuple([self._watched(name, a._part(name), values) for name in names])

    @staticmethod
    def _watched(name: Name, part: Any, values: Any) -> tuple[Any, ...]:
        """An array's current state; without a version if tasks read its contents when they run."""
        storage = access.storage_of(part)
        return name, part, part.form, storage, None if part is values else storage.version

    def at_hand(self, a: Sparse, x: Any) -> bool:
        """Are the operands of a product computed, so that SciPy could compute it now?"""
        return access.at_hand(x) is not None and all([access.ready(part) for part in a._parts.values()])

    def take(self, a: Sparse, x: Any) -> bool:
        """Can `a @ x` be recorded for a vector x without examining `a` again?"""
        form, small = x.form, core.SMALL
        if (form.ndim != 1 or form.shape[0] != self.length or form.dtype.char not in NUMBERS
                or (self.size < small and self.length < small) or elementwise.eager_errors):
            return False
        parts: Any = a._parts
        for name, part, kept, storage, version in self.watched:
            if parts.get(name) is not part or part.form is not kept or part.storage is not storage:
                return False
            if version is not None and (storage.version != version or storage.exported):
                return False
        return True


def _diagonals(a: Sparse, x: Any, turned: bool) -> Any:
    """Add the product with each diagonal to zeros, as SciPy's `dia_matvec` does, by tasks that fuse."""
    (m, n), values = a._held.shape, a._part("data")
    offsets = a._structured().offsets
    if values.ndim != 2 or not values.size or offsets.shape != values.shape[:1]:
        return None
    dtype = numpy.result_type(values.dtype, x.dtype)
    complexes = values.dtype.kind == x.dtype.kind == "c"  # NumPy's products are rounded differently
    if turned and (len(offsets) > DIAGONALS or complexes or values.shape[1] > max(m, n)):
        return None  # SciPy transposes first, and takes other elements where diagonals are longer than rows
    if len(offsets) > DIAGONALS or complexes:
        return _called(a, x, ("data", "offsets"))
    y = np.zeros((n if turned else m, *x.shape[1:]), dtype)
    x = x.astype(dtype, copy=False)
    for k, offset in enumerate(offsets.tolist()):
        first, last = max(0, offset), min(m + offset, n, values.shape[1])
        if first < last:
            diagonal = values[k, first:last].astype(dtype, copy=False)
            diagonal = diagonal[:, None] if x.ndim == 2 else diagonal
            here, there = slice(first, last), slice(first - offset, last - offset)
            here, there = (there, here) if turned else (here, there)
            y[there] += diagonal * x[here]
    return y


def _called(a: Sparse, x: Any, names: tuple[str, ...]) -> Any:
    """Call SciPy's product, in stream order."""
    kind, shape = type(a._held), a._held.shape
    dtype = numpy.result_type(a._part("data").dtype, x.dtype)
    out = core.recorded(row_major((shape[0], *x.shape[1:]), dtype))

    def run(*arrays: Any) -> None:
        *stored, dense, result = arrays
        result[...] = kind((stored[0], *stored[1:]), shape=shape) @ dense

    operands = tuple(map(base.argument, (*[a._part(name) for name in names], x)))
    library.call("sparse_product", run, operands, (base.argument(out),))
    return out

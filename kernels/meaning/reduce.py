"""The reduction tree, which defines `reduce`: slowly (`definition`) and on blocks (`PointFold`), with the
same bits.

The tree depends on the extents of the iteration space and on which dimensions are reduced, and on nothing
else.  Its *leaves* are runs of the innermost reduced dimension:

    rows      that dimension is the innermost of the space: up to SEGMENT indices, element j of the leaf
              into accumulator j % ACCUMULATORS; the accumulators are then folded by halves:
              a[i] += a[i + 16], 8, 4, 2, 1
    columns   the innermost dimension of the space is kept: up to ROWS indices, one after another

The leaves of one output element, row-major over the reduced dimensions, are combined by pairs:
p[i] = op(p[i], p[i + s]) for s = 1, 2, 4 ...  Accumulators start at the operator's identity.
`argmin` and `argmax` fold pairs (value, flat index over the reduced dimensions); the first of equals wins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from diffuse.ir.loops import ROWS, SEGMENT
from diffuse.kernels.body.abi import ACCUMULATORS
from diffuse.kernels.body.operations import FOLDS, INDEXED, identity

Array = np.ndarray[Any, np.dtype[Any]]
Ranges = Sequence[tuple[int, int]]

SHORT = SEGMENT // 4
"""The length of rows, in elements, below which a transposed matrix is folded: longer rows gain nothing."""
PART = 1 << 14
"""The number of elements that are transposed together: they stay in a second-level cache."""


def multiply(a: Any, b: Any, out: Array | None = None) -> Any:
    """NumPy's product; for complex numbers that of its loop for contiguous arrays, which compiled code
    follows.

    That loop fuses a multiplication into an addition where the machine can; NumPy's other loops do not.
    """
    if np.result_type(a, b).kind != "c":
        return np.multiply(a, b, out=out)
    a, b = np.broadcast_arrays(a, b)
    product = np.multiply(np.ascontiguousarray(a), np.ascontiguousarray(b)).reshape(a.shape)
    if out is None:
        return product
    np.copyto(out, product)
    return out


def _passing(function: np.ufunc) -> Callable[..., Any]:
    """fmin or fmax, returning the second of two zeros: NumPy's own choice depends on their positions."""
    def step(a: Any, b: Any, out: Array | None = None) -> Any:
        found = function(a, b)
        if found.dtype.kind == "f" and found.dtype != "float16":
            found = np.where(np.equal(a, b), b, found)
        if out is None:
            return found
        np.copyto(out, found)
        return out
    return step


STEP: dict[str, Callable[..., Any]] = {name: getattr(np, op) for name, op in FOLDS.items()} | {
    "prod": multiply, "nanmin": _passing(np.fmin), "nanmax": _passing(np.fmax)}
"""The step of each operator: (accumulator, element) -> accumulator."""


def stepping(operator: str, dtype: np.dtype[Any]) -> Any:
    """The step of an operator, as a ufunc where its `reduce` gives the same bits."""
    plain = dtype.kind != "c" if operator == "prod" else dtype.kind != "f"
    return getattr(np, FOLDS[operator]) if plain else STEP[operator]


def better(operator: str, new: Any, old: Any) -> Any:
    """Does `new`, at a higher index, replace `old` in an `argmin` or `argmax`?"""
    wins = np.less(new, old) if operator == "argmin" else np.greater(new, old)
    return np.logical_or(wins, np.logical_and(np.not_equal(new, new), np.equal(old, old)))


def definition(operator: str, values: Array, reduced: Sequence[int]) -> Array:
    """Evaluate the tree element by element: slow, but evidently right."""
    kept = [d for d in range(values.ndim) if d not in reduced]
    result = np.empty([values.shape[d] for d in kept], "int64" if operator in INDEXED else values.dtype)
    with np.errstate(all="ignore"):
        for where in np.ndindex(result.shape):
            leaves = [_leaf(operator, leaf, bool(reduced) and max(reduced) == values.ndim - 1)
                      for leaf in _leaves(values, reduced, dict(zip(kept, where, strict=True)))]
            s = 1
            while s < len(leaves):
                for i in range(0, len(leaves) - s, 2 * s):
                    leaves[i] = _pair(operator, leaves[i], leaves[i + s])
                s *= 2
            result[where] = leaves[0][1 if operator in INDEXED else 0]
    return result


def _leaves(values: Array, reduced: Sequence[int], at: dict[int, int]) -> list[list[tuple[Any, int]]]:
    """The elements that reduce to one output element as (value, flat index), divided into leaves."""
    order = sorted(reduced)
    if not order:
        return [[(values[tuple(at[d] for d in range(values.ndim))], 0)]]
    length = SEGMENT if order[-1] == values.ndim - 1 else ROWS
    leaves: list[list[tuple[Any, int]]] = []
    for flat, point in enumerate(product(*(range(values.shape[d]) for d in order))):
        if point[-1] % length == 0:
            leaves.append([])
        index = at | dict(zip(order, point, strict=True))
        leaves[-1].append((values[tuple(index[d] for d in range(values.ndim))], flat))
    return leaves


def _leaf(operator: str, leaf: list[tuple[Any, int]], rows: bool) -> tuple[Any, int]:
    start = (np.dtype(leaf[0][0].dtype).type(identity(operator, leaf[0][0].dtype.name)), leaf[0][1])
    lanes = [start] * (ACCUMULATORS if rows else 1)
    for j, pair in enumerate(leaf):
        lanes[j % len(lanes)] = _pair(operator, lanes[j % len(lanes)], pair)
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = [_pair(operator, lanes[i], lanes[i + half]) for i in range(half)]
    return lanes[0]


def _pair(operator: str, a: tuple[Any, int], b: tuple[Any, int]) -> tuple[Any, int]:
    if operator not in INDEXED:
        return STEP[operator](a[0], b[0]), 0
    if not better(operator, b[0], a[0]) and (better(operator, a[0], b[0]) or a[1] <= b[1]):
        return a
    return b


def rows(operator: str, block: Array) -> Array:
    """Leaves along the last dimension of a block that starts at a multiple of SEGMENT."""
    block = np.ascontiguousarray(block)
    lead, n = block.shape[:-1], block.shape[-1]
    if 0 < n <= ACCUMULATORS and not (operator == "prod" and block.dtype.kind == "c"):
        return _one_each(operator, block)
    if block.dtype.kind in "iu" or block.dtype == "bool":
        return _of_any_order(operator, block)
    if 0 < n < SHORT and block.dtype.kind == "f":
        table, many = block.reshape(prod(lead), n), PART // n
        found = np.empty(len(table), block.dtype)
        for k in range(0, len(table), many):
            found[k:k + many] = _of_short_rows(operator, table[k:k + many])
        return found.reshape(*lead, 1)
    whole, rest = divmod(n, SEGMENT)
    leaves = np.empty((*lead, whole + bool(rest)), block.dtype)
    if whole:
        segments = block[..., :whole * SEGMENT].reshape(*lead, whole, SEGMENT // ACCUMULATORS, ACCUMULATORS)
        leaves[..., :whole] = _halves(operator, _sequence(operator, segments))
    if rest:
        steps, tail = divmod(rest, ACCUMULATORS)
        lanes = np.full((*lead, ACCUMULATORS), identity(operator, block.dtype.name), block.dtype)
        body = block[..., whole * SEGMENT:n - tail]
        if steps:
            lanes = _sequence(operator, body.reshape(*lead, steps, ACCUMULATORS))
        if tail:
            STEP[operator](lanes[..., :tail], block[..., n - tail:], out=lanes[..., :tail])
        leaves[..., whole] = _halves(operator, lanes)
    return leaves


def _one_each(operator: str, lanes: Array) -> Array:
    """Fold a leaf that gives each accumulator at most one element: empty ones change nothing."""
    step, half, n = STEP[operator], ACCUMULATORS // 2, lanes.shape[-1]
    while half:
        if half < n:
            folded = step(lanes[..., :n - half], lanes[..., half:n])
            lanes = folded if n == 2 * half else np.concatenate([folded, lanes[..., n - half:half]], axis=-1)
            n = half
        half //= 2
    return lanes + lanes.dtype.type(0) if operator == "sum" and lanes.dtype.kind in "fc" else lanes


def _of_any_order(operator: str, block: Array) -> Array:
    """Leaves along the last dimension, of integers or booleans: the order of their elements is free."""
    fold, (*lead, n) = getattr(np, FOLDS[operator]), block.shape
    whole = n // SEGMENT * SEGMENT
    leaves = np.empty((*lead, -(-n // SEGMENT)), block.dtype)
    segments = block[..., :whole].reshape(*lead, whole // SEGMENT, SEGMENT)
    fold.reduce(segments, axis=-1, dtype=block.dtype, out=leaves[..., :whole // SEGMENT])
    if whole < n:
        fold.reduce(block[..., whole:], axis=-1, dtype=block.dtype, out=leaves[..., whole // SEGMENT])
    return leaves


def _of_short_rows(operator: str, block: Array) -> Array:
    """The only leaf of each row of a matrix.  The transposed matrix is folded, as the rows of it are long:
    NumPy takes as long to begin a row as to process some twenty elements."""
    step, columns = STEP[operator], np.ascontiguousarray(block.T)
    lanes = step(block.dtype.type(identity(operator, block.dtype.name)), columns[:ACCUMULATORS])
    for first in range(ACCUMULATORS, len(columns), ACCUMULATORS):
        part = columns[first:first + ACCUMULATORS]
        step(lanes[:len(part)], part, out=lanes[:len(part)])
    half = ACCUMULATORS // 2
    while half:
        lanes = step(lanes[:half], lanes[half:2 * half])
        half //= 2
    first_lane: Array = lanes[0]
    return first_lane


def _sequence(operator: str, block: Array) -> Array:
    """Fold the second to last dimension, index after index.

    NumPy's own `reduce` does exactly that while the last dimension is the innermost of its loops, which
    asks for at least two neighbours there, closer to each other than anything else; it would sum by pairs
    otherwise.
    """
    step, start = stepping(operator, block.dtype), identity(operator, block.dtype.name)
    inner = block.shape[-1] > 1 and block.strides[-2] > block.strides[-1] == block.itemsize
    if isinstance(step, np.ufunc) and inner:
        return np.asarray(step.reduce(block, axis=-2, initial=start))
    result: Array = np.full((*block.shape[:-2], block.shape[-1]), start, block.dtype)
    for k in range(block.shape[-2]):
        step(result, block[..., k, :], out=result)
    return result


def _halves(operator: str, lanes: Array) -> Array:
    step, half = STEP[operator], ACCUMULATORS // 2
    while half:
        lanes = step(lanes[..., :half], lanes[..., half:2 * half])
        half //= 2
    return lanes[..., 0]


def subtrees(operator: str, values: Array, indices: Array | None, low: int, high: int) -> None:
    """Fold, in place, every subtree of the tree over the first dimension with all leaves in [low, high)."""
    count, apart = len(values), 1
    while apart < count:
        first = -(-low // (2 * apart)) * 2 * apart
        behind = count - apart if high == count else high - 2 * apart + 1
        _fold(operator, values, indices, np.arange(first, behind, 2 * apart), apart)
        apart *= 2


def join(operator: str, values: Array, indices: Array | None, run: int) -> None:
    """Fold, in place, the rest of the tree, after the subtrees within ranges of so many leaves have been
    folded."""
    count, apart = len(values), 1
    while apart < count:
        pairs = {begin // (2 * apart) * 2 * apart for begin in range(run, count, run) if begin % (2 * apart)}
        _fold(operator, values, indices, np.array(sorted(i for i in pairs if i + apart < count), int), apart)
        apart *= 2


def _fold(operator: str, values: Array, indices: Array | None, here: Array, apart: int) -> None:
    """p[i] = op(p[i], p[i + apart]) for these i."""
    if not here.size:
        return
    there = here + apart
    if indices is None:
        values[here] = STEP[operator](values[here], values[there])
        return
    wins = better(operator, values[there], values[here])
    values[here] = np.where(wins, values[there], values[here])
    indices[here] = np.where(wins, indices[there], indices[here])


def combine(operator: str, leaves: Array) -> Array:
    """The pairwise tree over the first dimension."""
    step = STEP[operator]
    while (n := len(leaves)) > 1:
        pairs = step(leaves[0:n - 1:2], leaves[1::2])
        leaves = np.concatenate([pairs, leaves[n - 1:]]) if n % 2 else pairs
    first: Array = leaves[0]
    return first


def combine_indexed(operator: str, values: Array, indices: Array) -> Array:
    """The pairwise tree over the first dimension of (value, index) pairs; returns the winning indices."""
    while (n := len(values)) > 1:
        wins = better(operator, values[1::2], values[0:n - 1:2])
        pairs = np.where(wins, values[1::2], values[0:n - 1:2])
        places = np.where(wins, indices[1::2], indices[0:n - 1:2])
        values = np.concatenate([pairs, values[n - 1:]]) if n % 2 else pairs
        indices = np.concatenate([places, indices[n - 1:]]) if n % 2 else places
    first: Array = indices[0]
    return first


class PointFold:
    """One reduction over one point's box, accumulated block by block.

    `leaves` has one dimension per iteration dimension; along the innermost reduced one, an entry per leaf.
    """

    def __init__(self, operator: str, dtype: str, reduced: Sequence[int], extents: Sequence[int],
                 box: Ranges) -> None:
        self.operator = operator
        self.reduced = tuple(sorted(reduced))
        self.kept = tuple(d for d in range(len(extents)) if d not in self.reduced)
        self.dim = self.reduced[-1] if self.reduced else -1
        self.length = SEGMENT if self.dim == len(extents) - 1 else ROWS
        self.extents, self.box = tuple(extents), box
        self.first = tuple(low // self.length if d == self.dim else low for d, (low, _) in enumerate(box))
        self.last = tuple(-(-high // self.length) if d == self.dim else high
                          for d, (_, high) in enumerate(box))
        shape = [b - a for a, b in zip(self.first, self.last, strict=True)]
        self.leaves: Array = np.full(shape, identity(operator, dtype), dtype)
        self.indices: Array | None = np.zeros(shape, "int64") if operator in INDEXED else None
        self.run = 0
        """The length of the ranges of leaves within which the subtrees have been folded; 0: none."""

    @property
    def counts(self) -> tuple[int, ...]:
        """The number of entries of `leaves` along each dimension if the box is the whole space."""
        return tuple(-(-n // self.length) if d == self.dim else n for d, n in enumerate(self.extents))

    def add(self, block: Array, ranges: Ranges) -> None:
        """Fold in the values of the iterations `ranges`; along a reduced dimension, blocks come in order."""
        block = np.broadcast_to(block, [high - low for low, high in ranges])
        if self.operator in INDEXED:
            self._add_indexed(block, ranges)
        elif self.dim < 0:
            leaves = self.leaves[self._slices(ranges)]
            STEP[self.operator](leaves, block, out=leaves)
        elif self.length == SEGMENT:
            self.leaves[self._slices(ranges)] = rows(self.operator, block)
        else:
            self._add_columns(block, ranges)

    def _slices(self, ranges: Ranges) -> tuple[Any, ...]:
        slices = (
            slice(low // self.length - first, -(-high // self.length) - first) if d == self.dim
            else slice(low - first, high - first)
            for d, ((low, high), first) in enumerate(zip(ranges, self.first, strict=True)))
        return (*slices, ...)  # the ellipsis keeps a view where there is no dimension

    def _add_columns(self, block: Array, ranges: Ranges) -> None:
        dim, (low, high) = self.dim, ranges[self.dim]
        leaves = self.leaves[self._slices(ranges)]
        done = 0
        if low % ROWS == 0 and high - low >= ROWS:
            whole = (high - low) // ROWS
            done = whole * ROWS
            head = np.ascontiguousarray(block[(slice(None),) * dim + (slice(0, done),)])
            before, after = head.shape[:dim], head.shape[dim + 1:]
            folded = _sequence(self.operator, head.reshape(*before, whole, ROWS, prod(after)))
            leaves[(slice(None),) * dim + (slice(0, whole),)] = folded.reshape(*before, whole, *after)
        for r in range(done, high - low):
            at = (slice(None),) * dim + ((low + r) // ROWS - low // ROWS,)
            leaf = leaves[at]
            STEP[self.operator](leaf, block[(slice(None),) * dim + (r,)], out=leaf)

    def _add_indexed(self, block: Array, ranges: Ranges) -> None:
        """Merge the pairs of whole leaves, or of parts of them, into their leaves."""
        assert self.indices is not None
        values, places = self.leaves[self._slices(ranges)], self.indices[self._slices(ranges)]
        if self.dim < 0:
            values[...] = block
            return
        dim, (low, high) = self.dim, ranges[self.dim]
        find = np.argmin if self.operator == "argmin" else np.argmax
        start = low
        while start < high:
            end = min(high, (start // self.length + 1) * self.length)
            part = block[(slice(None),) * dim + (slice(start - low, end - low),)]
            found = find(part, axis=dim, keepdims=True)
            best = np.take_along_axis(part, found, dim).squeeze(dim)
            flat = (found.squeeze(dim) + start) + self._base(ranges)
            at = (slice(None),) * dim + (start // self.length - low // self.length,)
            wins = better(self.operator, best, values[at])
            if start % self.length == 0:
                wins = np.ones_like(wins)
            values[at] = np.where(wins, best, values[at])
            places[at] = np.where(wins, flat, places[at])
            start = end

    def _base(self, ranges: Ranges) -> Array:
        """For each iteration of the block, its flat index over the reduced dimensions except the
        innermost."""
        total: Array = np.zeros([1] * (len(ranges) - 1), "int64")
        scale = self.extents[self.dim]
        for d in reversed(self.reduced[:-1]):
            steps = np.arange(*ranges[d], dtype="int64") * scale
            axis = d if d < self.dim else d - 1
            total = total + steps.reshape([-1 if k == axis else 1 for k in range(len(ranges) - 1)])
            scale *= self.extents[d]
        return total

    def result(self) -> Array:
        """The reduction's values over the kept dimensions, in order, if the box is the whole space."""
        leaves = self.by_leaves(self.leaves)
        indices = None if self.indices is None else self.by_leaves(self.indices)
        if self.run:
            join(self.operator, leaves, indices, self.run)
            first: Array = (leaves if indices is None else indices)[0]
            return first
        if indices is None:
            return combine(self.operator, leaves)
        return combine_indexed(self.operator, leaves, indices)

    def by_leaves(self, partials: Array) -> Array:
        """An array of the shape of `leaves`, transposed to have the leaves in the order of the tree first,
        then the kept dimensions; a view if the partials' layout allows it."""
        shape = (-1, *(partials.shape[d] for d in self.kept))
        return partials.transpose(self.reduced + self.kept).reshape(shape)


def reduce(operator: str, array: Array, reduced: Sequence[int]) -> Array:
    """Reduce a whole array at once; the accumulators have the array's element type."""
    box = tuple((0, n) for n in array.shape)
    fold = PointFold(operator, array.dtype.name, reduced, array.shape, box)
    fold.add(array, box)
    return fold.result()

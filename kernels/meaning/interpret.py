"""Interprets a body: one point of it, evaluated by NumPy on blocks that stay in cache.

This is the cold path of the product, run until the compiled kernel is ready, and the oracle for every
compiled kernel: the same values in (`LaunchValues` reads them in the order of the kernel's argument block),
the same bits out.  Each loop's ops become steps `function(*inputs, out=...)` (see `steps`); every step
runs on one block before the next block starts, so that intermediate values never leave the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any

import numpy as np

from diffuse.ir.loops import SEGMENT
from diffuse.kernels.body.expr import Body, Loop
from diffuse.kernels.body.operations import FOLDS, exact
from diffuse.kernels.build import routines
from diffuse.kernels.build.routines import Routine, flags
from diffuse.kernels.meaning import complexes
from diffuse.kernels.meaning.indexed import Counted, Picked, scattered
from diffuse.kernels.meaning.launched import LaunchValues, cut, memory
from diffuse.kernels.meaning.reduce import STEP, Array, PointFold, Ranges, subtrees
from diffuse.kernels.meaning.sparse import SparseRows
from diffuse.kernels.meaning.steps import Recipe, RecipeStep, recipe_of

Values = Sequence[int | float]
Collector = Callable[[str, str], None]

CACHE_BYTES = 1024 * 1024
"""Bytes that the arrays of one block may take together: about a second-level cache."""
FEWEST, MOST = 8, 64
"""The least and the most segments of a block: to call a function takes as long as to compute one."""


class Watch:
    """Reports to a collector which floating-point errors happen in which op."""

    def __init__(self, errors: Collector) -> None:
        self.errors = errors
        self.name = ""

    def __call__(self, kind: str, _: int) -> None:
        self.errors(kind, self.name)

    def run(self, routine: Routine, inputs: list[Array], out: Any) -> None:
        """Run a compiled routine, which raises flags where NumPy's functions call."""
        flags().clear()
        routine(*inputs, out=out)
        for kind in flags().raised():
            self.errors(kind, self.name)


def point(body: Body, values: Values, p: int, errors: Collector | None = None) -> None:
    """Run point `p`; `errors(kind, op)` receives floating-point errors, named as by NumPy."""
    launch = LaunchValues(body, values)
    watch = Watch(errors) if errors else None
    with np.errstate(all="call", call=watch) if watch else np.errstate(all="ignore"):
        for number, recipe in enumerate(_recipes(body)[:len(body.loops) - body.epilogue]):
            _run(launch, number, recipe, p, watch)


def ready(body: Body) -> bool:
    """Can the body be interpreted at once, with no routine to compile first?"""
    return all(
        exact(op.kind, dtypes) or complexes.function(op.kind, dtypes[0]) is not None
        or routines.ready(op.kind, dtypes, op.dtype)
        for loop in body.loops for op in loop.ops
        for dtypes in [tuple(loop.ops[a].dtype for a in op.args)])


def prepare(body: Body) -> None:
    """Make the recipes of the loops, and wait for the routines in them."""
    _recipes(body)


@lru_cache(maxsize=256)
def _recipes(body: Body) -> tuple[Recipe, ...]:
    """How each loop of a body is interpreted; looked up once a point, as hashing a body is slow."""
    return tuple([recipe_of(body, number) for number in range(len(body.loops))])


def finish(body: Body, values: Values, errors: Collector | None = None) -> None:
    """Combine the partial results of several points and store the results; then run the epilogue. `errors`
    receives floating-point errors."""
    launch = LaunchValues(body, values)
    if launch.points == 1:
        return
    watch = Watch(errors) if errors else None
    with np.errstate(all="call", call=watch) if watch else np.errstate(all="ignore"):
        for place, (number, op) in enumerate(_reductions(body)):
            if place in body.whole:
                continue
            fold = launch.fold(number, op, 0)
            fold.box = [(0, n) for n in fold.extents]
            fold.leaves, fold.indices = _partials(launch, place, fold, body.loops[number].ops[op].dtype)
            fold.run = launch.leaf_run(place)
            _deliver(launch, body.loops[number].ops[op].attribute[1], fold)
        recipes = _recipes(body)
        for number in range(len(body.loops) - body.epilogue, len(body.loops)):
            _run(launch, number, recipes[number], 0, watch)


@lru_cache(maxsize=256)
def _reductions(body: Body) -> tuple[tuple[int, int], ...]:
    """(loop, op) of each reduction, in the order of their partial buffers."""
    return tuple((number, i) for number, loop in enumerate(body.loops)
                 for i, op in enumerate(loop.ops) if op.kind == "reduce")


def _partials(launch: LaunchValues, place: int, fold: PointFold, dtype: str) -> tuple[Array, Array | None]:
    """The partial buffer (see `abi`) with its dimensions in the order of `PointFold.leaves`."""
    counts = fold.counts
    order = fold.kept + fold.reduced if fold.dim == len(counts) - 1 else fold.reduced + fold.kept
    shape = [counts[d] for d in order]
    back = [order.index(d) for d in range(len(order))]
    address = launch.partials[place]
    values = memory(address, dtype, shape).transpose(back)
    if fold.indices is None:
        return values, None
    plane = -(-values.nbytes // 8) * 8
    return values, memory(address + plane, "int64", shape).transpose(back)


def _deliver(launch: LaunchValues, argument: int, fold: PointFold) -> None:
    out = launch.view(argument, fold.kept)[cut([fold.box[d] for d in fold.kept], [0] * len(fold.kept))]
    if out.size:
        np.copyto(out, fold.result(), casting="unsafe")


class Scan:
    """The running values of an operator along one dimension of the loop, carried from block to block."""

    def __init__(self, operator: str, dim: int, dtype: str, box: Ranges) -> None:
        self.dim, self.box, self.ranges = dim, box, box
        self.first: Any = STEP[operator]
        """The step from one block to the next."""
        self.step: Any = getattr(np, FOLDS[operator])
        self.signed = operator in ("nanmin", "nanmax") and np.dtype(dtype).kind == "f"
        """Does the sign of a zero have to be determined?"""
        self.carry: Array = np.empty([b - a for d, (a, b) in enumerate(box) if d != dim], dtype)

    def __call__(self, value: Array, out: Array) -> None:
        others = [d for d in range(len(self.box)) if d != self.dim]
        carry = self.carry[cut([self.ranges[d] for d in others], [self.box[d][0] for d in others])]
        rows = np.moveaxis(out, self.dim, 0)
        np.copyto(out, value, casting="unsafe")
        if self.ranges[self.dim][0] > self.box[self.dim][0]:
            self.first(carry, rows[0, ...], out=rows[0, ...])
        if self.signed:
            rows[...] = _of_last_zeros(rows, self.step.accumulate(rows, axis=0))
        elif out.dtype.kind != "c":
            self.step.accumulate(out, axis=self.dim, out=out)
        else:
            for k in range(1, len(rows)):
                self.first(rows[k - 1, ...], rows[k, ...], out=rows[k, ...])
        carry[...] = rows[-1]


def _of_last_zeros(values: Array, running: Array) -> Array:
    """Give running values that are zero the sign of the last zero so far, as `STEP` does."""
    places = np.arange(len(values)).reshape(-1, *[1] * (values.ndim - 1))
    last = np.maximum.accumulate(np.where(values == 0, places, -1), axis=0)
    zeros = np.take_along_axis(values, np.maximum(last, 0), 0)
    return np.where((running == 0) & (last >= 0), zeros, running)


class Turned:
    """Cyclically shifted reads of an argument; `ranges` are the iterations of the current block."""

    def __init__(self, whole: Array, along: Sequence[int], box: Ranges) -> None:
        self.whole = whole
        self.along = along
        self.ranges = box

    def __call__(self, *shifts: Array, out: Array) -> None:
        by = dict(zip(self.along, [int(s) for s in shifts], strict=True))
        parts = [_turn(low, high, by.get(d, 0), n)
                 for d, ((low, high), n) in enumerate(zip(self.ranges, self.whole.shape, strict=True))]
        for part in product(*parts):
            targets: tuple[Any, ...] = (*(target for target, _ in part), ...)
            sources: tuple[Any, ...] = (*(source for _, source in part), ...)
            into, found = out[targets], self.whole[sources]
            if out.dtype == "bool":
                np.not_equal(found, 0, out=into)
            else:
                np.copyto(into, found)


def _turn(low: int, high: int, shift: int, n: int) -> list[tuple[slice, slice]]:
    """Split the indices from `low` to `high`, shifted cyclically in n, into contiguous parts: for each its
    slice of them, and its slice of n."""
    start, length = (low + shift) % n, high - low
    if start + length <= n:
        return [(slice(0, length), slice(start, start + length))]
    first = n - start
    return [(slice(0, first), slice(start, n)), (slice(first, length), slice(0, length - first))]


class LoopValues:
    """The values of one loop at one point: `env` holds an array per value, per argument, per reduction."""

    def __init__(self, launch: LaunchValues, loop: Loop, recipe: Recipe, p: int) -> None:
        self.launch, self.loop, self.recipe = launch, loop, recipe
        self.box = launch.box(loop.space, p)
        self.order = tuple(range(len(self.box))) if recipe.natural else loop.order
        self.env: list[Any] = [None] * recipe.length
        self.views = [(slot, self._boxed(argument, raw)) for slot, argument, raw in recipe.views]
        self.scans: list[tuple[int, Scan]] = []
        self.sparse: list[tuple[int, SparseRows]] = []
        self.turned: list[tuple[int, Turned | Picked | Counted]] = []
        self.buffers: list[Array] = []
        for i in recipe.placed:
            op = loop.ops[i]
            if op.kind == "scalar":
                self.env[i] = launch.scalars[op.attribute]
            elif op.kind == "const":
                self.env[i] = np.array(op.attribute, op.dtype)
            elif op.kind == "scan":
                self.scans.append((i, Scan(op.attribute[0], self.order.index(op.attribute[1]), op.dtype,
                                           [self.box[d] for d in self.order])))
            elif op.kind == "spmv":
                self.sparse.append((i, SparseRows(memory, [
                    (launch.arguments[a][0], launch.body.arguments[a].dtype) for a in op.attribute], self.box,
                    launch.spaces[loop.space][1][1] if len(self.box) > 1 else None)))
            elif op.kind == "turn":
                argument, along = op.attribute
                whole = launch.view(argument, self.order)
                raw = whole.view("uint8") if whole.dtype == "bool" else whole
                places = [self.order.index(d) for d in along]
                self.turned.append((i, Turned(raw, places, [self.box[d] for d in self.order])))
            elif op.kind == "nth":
                self.turned.append((i, Counted(launch.arguments[op.attribute[0]][0], self.box)))
            elif op.kind == "pick":
                address, strides = launch.arguments[op.attribute]
                self.turned.append((i, Picked(address, op.dtype, [strides[d] for d in self.order],
                                              [self.box[d] for d in self.order])))
        for i in recipe.constant:
            self.env[i] = np.empty((), loop.ops[i].dtype)

    def _boxed(self, argument: int, raw: bool) -> Array:
        """An argument over the point's box, dimensions in loop order; if raw, bools as bytes."""
        whole = self.launch.view(argument, range(len(self.box)))
        if raw:
            whole = whole.view("uint8")
        boxed: Array = whole[cut(self.box, [0] * len(self.box))]
        return boxed.transpose(self.order)

    def size(self) -> int:
        """The number of elements of a block."""
        arrays = len(self.recipe.registers) + len(self.views)
        if len(self.recipe.steps) < 2 and not self.recipe.natural:  # nothing is read twice
            return prod(b - a for a, b in self.box)
        room = CACHE_BYTES // (max(1, arrays) * self.recipe.widest) // SEGMENT
        size = max(FEWEST, min(MOST, room)) * SEGMENT
        return 4 * size if self.recipe.natural else size  # a fold takes many small steps per block

    def blocks(self) -> Iterator[tuple[Ranges, list[int]]]:
        """Cut the box: whole inner dimensions, one dimension in pieces, outer ones index by index.

        Ranges are in loop order.  A partial piece of the last dimension is a multiple of SEGMENT, and one of
        another dimension a multiple of 32 if it is longer: no leaf of a reduction is then cut in two.
        """
        left, ranges = self.size(), [self.box[d] for d in self.order]
        pieces: list[list[tuple[int, int]]] = [[] for _ in ranges]
        for k in reversed(range(len(ranges))):
            low, high = ranges[k]
            length = max(1, min(left, high - low))
            if length < high - low and length > 32:
                length -= length % (SEGMENT if k == len(ranges) - 1 else 32)
            pieces[k] = [(a, min(a + length, high)) for a in range(low, high, length)]
            left = left // length if length == high - low else 1
        for block in product(*pieces):
            yield block, [b - a for a, b in block]

    def enter(self, block: Ranges, folds: list[tuple[int, Feed]]) -> None:
        """Set every entry of `env` that depends on the block."""
        at = cut(block, [self.box[d][0] for d in self.order])
        env = self.env
        for slot, view in self.views:
            env[slot] = view[at]
        for i, dim in self.recipe.index:
            k = self.order.index(dim)
            shape = [-1 if j == k else 1 for j in range(len(block))]
            env[i] = np.arange(*block[k], dtype="int64").reshape(shape)
        for _, scan in self.scans:
            scan.ranges = block
        for _, rows in self.sparse:
            rows.ranges = block
        for _, turned in self.turned:
            turned.ranges = block
        for _, feed in folds:
            feed.ranges = block

    def reshape(self, shape: list[int]) -> None:
        """Reshape the scratch registers to the shape of a block."""
        if not self.buffers:
            self.buffers = [np.empty(prod(shape), dtype) for dtype in self.recipe.registers]
        for i, register in self.recipe.scratch:
            buffer = self.buffers[register]
            if buffer.size < prod(shape):
                buffer = self.buffers[register] = np.empty(prod(shape), buffer.dtype)
            self.env[i] = buffer[:prod(shape)].reshape(shape)


class Feed:
    """Passes the blocks of a value to its reduction."""

    def __init__(self, fold: PointFold) -> None:
        self.fold = fold
        self.ranges: Ranges = fold.box

    def __call__(self, value: Array, out: Any) -> None:
        self.fold.add(value, self.ranges)


def _run(launch: LaunchValues, number: int, recipe: Recipe, p: int, watch: Watch | None) -> None:
    """Run one loop of one point."""
    loop = launch.body.loops[number]
    if not launch.runs(loop.space, p):
        return
    if loop.ops[-1].kind == "scatter":
        if watch is not None:
            watch.name = loop.ops[-1].attribute[0] or "cast"
        scattered(launch, loop, p)
        return
    frame = LoopValues(launch, loop, recipe, p)
    folds = [(i, Feed(launch.fold(number, i, p))) for i, op in enumerate(loop.ops) if op.kind == "reduce"]
    busy = all(a < b for a, b in frame.box)
    if busy:
        _execute(recipe.prologue, frame.env, watch)
        steps = recipe.bind(dict([*frame.scans, *frame.sparse, *frame.turned, *folds]))
        shape: list[int] | None = None
        for block, extents in frame.blocks():
            if extents != shape:
                shape = extents
                frame.reshape(shape)
            frame.enter(block, folds)
            _execute(steps, frame.env, watch)
    order = {site: place for place, site in enumerate(_reductions(launch.body))} if folds else {}
    for i, feed in folds:
        if launch.points == 1 or order[number, i] in launch.body.whole:
            _deliver(launch, loop.ops[i].attribute[1], feed.fold)
        elif busy:
            _keep(launch, order[number, i], feed.fold, loop.ops[i].dtype)


def _keep(launch: LaunchValues, place: int, fold: PointFold, dtype: str) -> None:
    """Write a point's leaves to the partial buffer."""
    values, indices = _partials(launch, place, fold, dtype)
    at = cut(list(zip(fold.first, fold.last, strict=True)), [0] * len(fold.first))
    values[at] = fold.leaves
    if indices is not None:
        indices[at] = fold.indices
    if launch.leaf_run(place):
        low = fold.first[fold.reduced[0]] * prod(fold.counts[d] for d in fold.reduced[1:])
        length = prod(fold.leaves.shape[d] for d in fold.reduced)
        subtrees(fold.operator, fold.by_leaves(values), None if indices is None else fold.by_leaves(indices),
                 low, low + length)


def _execute(steps: Sequence[RecipeStep], env: list[Any], watch: Watch | None) -> None:
    for function, args, out, name in steps:
        if watch is not None:
            watch.name = name
            if isinstance(function, Routine):
                watch.run(function, [env[a] for a in args], env[out])
                continue
        if len(args) == 2:
            function(env[args[0]], env[args[1]], out=env[out])
        elif len(args) == 1:
            function(env[args[0]], out=env[out])
        else:
            function(*[env[a] for a in args], out=env[out])

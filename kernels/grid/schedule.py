"""The schedule of grid kernels: which kernels a body becomes, their order, and the numbers of thread groups.

A GPU runs a kernel on a grid of *groups* of `THREADS` threads each (CUDA calls a group a block).  The threads
of a group share some memory and can wait for each other; groups cannot.  So a kernel ends where all threads
have to wait: each loop of a body is a kernel of its own, and so is each level of the tree over the leaves of
a reduction.  A stream runs kernels one after another.

How a loop is handed out to threads is its kernel's *form*:

    elements    a thread for each iteration, or for several (see `each`)
    rows        a warp for each leaf of a row reduction: lane l is the accumulator l
    columns     a thread for each leaf of each column
    scan        a thread for each row

A loop whose reductions have different forms becomes several kernels: each computes again what it folds, and
the last one stores.  Leaves are combined by these:

    chunks      a group for 512 leaves of one output, `stride` leaves apart
    trees       a thread for 32 leaves of one output, 2 ** argument leaves apart
    results     a thread for each output that has one leaf, which goes to the argument

The last pass of chunks or of trees stores to the argument itself.

What takes a single group of threads, such as the upper levels of a tree and the arithmetic with its result,
is also in one kernel, `together`, which runs those of its members that the bits of its argument name: a
launch costs more than they do.

The values and the order of all operations are those of the host's kernels, and so are the bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from diffuse.ir import ITEMSIZE, Point
from diffuse.ir.loops import ROWS, SEGMENT
from diffuse.kernels.body import abi
from diffuse.kernels.body.expr import Body, Loop, Op
from diffuse.kernels.body.operations import TABLE
from diffuse.kernels.llvm.iteration import INNER, places

THREADS = 256
WARP = abi.ACCUMULATORS
"""The number of threads that run in lockstep."""
CHUNK = 2 * THREADS
"""The number of leaves that a group combines."""
STRIDES = (1, CHUNK, CHUNK * CHUNK)
"""The distances between the leaves that remain before each pass over them."""
BYTES = 16
"""The widest memory access, in bytes."""
PLAIN = ("load", "store", "const", "scalar", "index", "cast")
"""Non-arithmetic ops that are allowed in loops of which a thread computes several iterations."""
DIVIDING = ("divide", "reciprocal", "sqrt")
"""Cheap operations of float64 that branch on rare operands."""
WIDEST, OPS = 4, 64
"""The most iterations that a thread computes at once, and the most ops of a loop for which it does so."""
PIECES, LOADS = 2, 8
"""How many times a thread does that, and the most loads that it makes together then."""
BRANCHES = 32
"""The number of leaves that a thread combines."""
SHIFTS = (0, 5, 10, 15, 20, 25)
"""The distances between the leaves that remain before each pass of such threads, as powers of two."""
MANY = 8192
"""The number of outputs of a row reduction from which on threads combine leaves each by itself, however many
there are of each output."""

ALONG = 8
"""The most threads of a group along the innermost of several dimensions, as a power of two."""
LAYOUT = 4
"""The bits of a kernel's argument that have this power (see `layout`)."""
SHIFTED_OPS = 128
"""The most ops of a loop of which a thread computes several rows: more would need too many registers."""
MOST_ROWS, BUSY = 8, 2048
"""The most rows that a thread computes, and the groups that a device is to have in spite of that."""

TOGETHER = "together"
MEMBERS = 62
"""The most kernels that can be run together, one per bit of an argument."""


class Refused(Exception):
    """There are no grid kernels for a body; the text says why."""


class GridKernel(NamedTuple):
    """One kernel of a body."""

    name: str
    form: str
    loop: int
    folds: tuple[int, ...] = ()
    """The `reduce` ops of the loop that this kernel computes."""
    stores: bool = False
    """Does it run the loop's stores?"""
    reduction: int = -1
    """The number of the reduction whose leaves it combines; -1: none."""
    stride: int = 1
    """The distance between these leaves."""


class GridLaunch(NamedTuple):
    """One launch of a kernel."""

    kernel: GridKernel
    groups: int
    argument: int
    """The layout of elements and columns (see `layout`), the stride of chunks, that of trees as a power of
    two, or the set of members that run together."""


def kernels(body: Body) -> tuple[GridKernel, ...]:
    """The kernels of a body, in the order in which they run."""
    found: list[GridKernel] = []
    reductions = abi.reductions(body)
    for number in range(len(body.loops)):
        found += _of_loop(body, number)
        for k, reduction in enumerate(reductions):
            if reduction.loop == number:
                if abi.kept(body, reduction):  # else there is one output
                    found += [GridKernel(f"trees{k}", "trees", number, reduction=k, stride=1 << s)
                              for s in SHIFTS]
                found += [GridKernel(f"chunks{k}", "chunks", number, reduction=k, stride=s) for s in STRIDES]
                found.append(GridKernel(f"results{k}", "results", number, reduction=k))
    return tuple(found)


def _of_loop(body: Body, number: int) -> list[GridKernel]:
    """The kernels of one loop; the last one stores, so that the others read the previous contents."""
    loop = body.loops[number]
    if any(op.kind in ("nth", "scatter") for op in loop.ops):
        raise Refused(f"loop {number} processes a mask or indices one after another")
    forms: dict[str, list[int]] = {}
    whole: list[int] = []
    for i, op in enumerate(loop.ops):
        if op.kind == "reduce":
            form = form_of(body, loop, op.attribute[1])
            (whole if form == "elements" else forms.setdefault(form, [])).append(i)
    last = "elements"
    if any(op.kind == "scan" for op in loop.ops):
        last = "scan"
        if forms:
            raise Refused(f"loop {number} both scans and reduces")
    elif forms:
        last = list(forms)[-1]
        if len(forms) > 1 and _reads_what_it_stored(body, loop):
            raise Refused(f"loop {number} reduces in several ways what it has just stored")
    found = [GridKernel(f"loop{number}_{form}", form, number, tuple(folds))
             for form, folds in forms.items() if form != last]
    return [*found, GridKernel(f"loop{number}", last, number, (*forms.get(last, ()), *whole), stores=True)]


def form_of(body: Body, loop: Loop, argument: int) -> str:
    """The form of a reduction into this argument; "columns2" if dimension 2 is the last one reduced."""
    reduced = [d for d, letter in enumerate(body.arguments[argument].classes) if letter == "0"]
    if not reduced:
        return "elements"
    return "rows" if reduced[-1] == body.spaces[loop.space].rank - 1 else f"columns{reduced[-1]}"


def _reads_what_it_stored(body: Body, loop: Loop) -> bool:
    stored: set[int] = set()
    for op in loop.ops:
        if op.kind in ("load", "turn", "pick") and body.arguments[op.arguments[0]].slot in stored:
            return True
        if op.kind == "store":
            stored.add(body.arguments[op.attribute].slot)
    return False


def needed(loop: Loop, kernel: GridKernel) -> list[int]:
    """The ops of the loop that a kernel computes."""
    wanted = [i in kernel.folds or kernel.stores and op.kind == "store" for i, op in enumerate(loop.ops)]
    for i in range(len(wanted) - 1, -1, -1):
        if wanted[i]:
            for a in loop.ops[i].args:
                wanted[a] = True
    return [i for i, want in enumerate(wanted) if want]


def shift(extent: int) -> int:
    """The number of threads of a group along the innermost of several dimensions, which has this extent, as a
    power of two.  The others lie along the rows, which are numbered through all other dimensions."""
    return min(ALONG, max(extent - 1, 0).bit_length())


def repeats(groups: int) -> int:
    """The base-2 logarithm of the number of rows that each thread computes one after another.

    `groups` is the number of groups needed with one row a thread.  More rows a thread need fewer groups, of
    which at least `BUSY` have to remain to occupy the device.
    """
    return min(MOST_ROWS, max(groups // BUSY, 1)).bit_length() - 1


def lanes(body: Body, kernel: GridKernel) -> int:
    """The number of neighbouring iterations that a thread computes at once.

    Contiguous arguments are then accessed 16 bytes at a time, if they are aligned, which those of shifted
    views never are.
    """
    if kernel.form != "elements" or kernel.folds or shifted(body, kernel) or _costly(body, kernel):
        return 1
    sizes = [ITEMSIZE[body.arguments[a].dtype] for a in side_by_side(body, kernel)]
    return min(WIDEST, BYTES // max(sizes)) if sizes else 1


def each(body: Body, kernel: GridKernel) -> int:
    """The number of iterations that a thread computes: `PIECES` times as many as at once, unless their loads
    take too many registers."""
    wide = lanes(body, kernel)
    if wide == 1:
        return 1
    loads, pieces = len(early(body, kernel)), 1
    while 2 * pieces <= PIECES and 2 * pieces * loads <= LOADS:
        pieces *= 2
    return wide * pieces


def _costly(body: Body, kernel: GridKernel) -> bool:
    """Is a loop bound by arithmetic rather than memory?  More iterations of a thread would only need more
    registers."""
    ops = _ops(body, kernel)
    return len(ops) > OPS or any(TABLE[op.kind].cost > 1 if op.kind in TABLE else op.kind not in PLAIN
                                 for op in ops)


def _ops(body: Body, kernel: GridKernel) -> list[Op]:
    """The ops that a kernel computes."""
    loop = body.loops[kernel.loop]
    return [loop.ops[i] for i in needed(loop, kernel)]


def early(body: Body, kernel: GridKernel) -> set[int]:
    """The loads of a loop's innermost dimension that come before its first store."""
    loop, found = body.loops[kernel.loop], set[int]()
    placed = places(body, loop, abi.order_of(body, loop)[-1:])
    for i in needed(loop, kernel):
        if loop.ops[i].kind == "store":
            break
        if loop.ops[i].kind == "load" and placed[i] == INNER:
            found.add(i)
    return found


def hasty(body: Body, kernel: GridKernel) -> bool:
    """Is an iteration computed for ordinary operands first, and again if it has others?

    That pays if a thread divides several times: on an H200 such loops took 12 % less time, but
    exp(-x) * sin(y), which then needs more registers, 20 % more.  An iteration must not have changed anything
    before it is computed again, nor go astray where its operands are nonsense.
    """
    ops = _ops(body, kernel)
    if kernel.form != "elements" or not all(op.kind in TABLE or op.kind in PLAIN for op in ops):
        return False
    stores = [i for i, op in enumerate(ops) if op.kind == "store"]
    if any(op.kind == "load" for op in ops[min(stores, default=0):]):
        return False
    divisions = [op for op in ops if op.kind in DIVIDING and op.dtype == "float64"]
    return len(divisions) * each(body, kernel) > 1


def shifted(body: Body, kernel: GridKernel) -> bool:
    """Does a kernel over several dimensions access elements of one store through several views, as a stencil
    does?"""
    used = side_by_side(body, kernel)
    several = body.spaces[body.loops[kernel.loop].space].rank > 1
    return several and len({body.arguments[a].slot for a in used}) < len(used)


def repeated(body: Body, kernel: GridKernel) -> bool:
    """May a thread of a kernel compute several rows?

    Where it reads neighbours, it finds those of the row before in the processor's cache, and computes
    addresses once.
    """
    few = len(needed(body.loops[kernel.loop], kernel)) <= SHIFTED_OPS
    return kernel.form == "elements" and not kernel.folds and few and shifted(body, kernel)


def side_by_side(body: Body, kernel: GridKernel) -> list[int]:
    """The arguments that a kernel loads or stores and that are contiguous along the innermost dimension."""
    loop = body.loops[kernel.loop]
    order = abi.order_of(body, loop)
    ops = [loop.ops[i] for i in needed(loop, kernel)]
    return sorted({op.attribute for op in ops if op.kind in ("load", "store")
                   and order and body.arguments[op.attribute].classes[order[-1]] == "1"})


def members(body: Body, planned: Sequence[GridKernel]) -> list[GridKernel]:
    """The kernels that can run together: those that may need one group only."""
    found = [kernel for kernel in planned if kernel.form in ("chunks", "results")
             or kernel.form == "elements" and not body.spaces[body.loops[kernel.loop].space].rank]
    return found[:MEMBERS] if len(found) > 1 else []


def names(body: Body) -> tuple[str, ...]:
    """The names of a body's kernels."""
    planned = kernels(body)
    return (*dict.fromkeys([kernel.name for kernel in planned]), *([TOGETHER] * bool(members(body, planned))))


def by_points(body: Body, planned: Sequence[GridKernel]) -> tuple[list[GridKernel], list[GridKernel]]:
    """Split the kernels of a launch of several points into those that each point runs, and those that run
    once after all."""
    last = len(body.loops) - body.epilogue
    points = [kernel for kernel in planned if kernel.reduction < 0 and kernel.loop < last]
    return points, [kernel for kernel in planned if kernel not in points]


def launches(body: Body, planned: Sequence[GridKernel], extents: Sequence[Point],
             chosen: Sequence[GridKernel] | None = None) -> list[GridLaunch]:
    """The launches of all kernels, or of the `chosen` ones, for these extents of the body's spaces.  Kernels
    without work are omitted, and successive ones of a single group run together."""
    bits = {kernel: 1 << k for k, kernel in enumerate(members(body, planned))}
    found: list[GridLaunch] = []
    joined = False
    for kernel in planned if chosen is None else chosen:
        groups, argument = _grid(body, kernel, extents[body.loops[kernel.loop].space])
        if not groups:
            continue
        joins = groups == 1 and kernel in bits
        if joins and joined:
            last = found.pop()
            before = last.argument if last.kernel.name == TOGETHER else bits[last.kernel]
            found.append(GridLaunch(GridKernel(TOGETHER, TOGETHER, kernel.loop), 1, before | bits[kernel]))
        else:
            found.append(GridLaunch(kernel, groups, argument))
        joined = joins
    return found


def _grid(body: Body, kernel: GridKernel, extents: Point) -> tuple[int, int]:
    """The number of groups of a kernel, and its argument."""
    if 0 in extents:
        return 0, 0
    order = abi.order_of(body, body.loops[kernel.loop])
    if kernel.form == "rows":
        return _groups(prod(extents[:-1]) * -(-extents[-1] // SEGMENT), THREADS // WARP), 0
    if kernel.form == "scan":
        return _groups(prod(extents) // extents[order[-1]], THREADS), 0
    if kernel.reduction >= 0:
        return _combining(body, kernel, extents)
    sizes = [extents[d] for d in order]
    if kernel.form.startswith("columns"):
        last = int(kernel.form.removeprefix("columns"))
        sizes = [extents[d] for d in order if d not in (last, order[-1])]
        sizes += [-(-extents[last] // ROWS), extents[order[-1]]]
    if sizes:
        sizes[-1] = _groups(sizes[-1], each(body, kernel))
    if len(sizes) < 2:
        return _groups(prod(sizes), THREADS), 0
    along, rows = shift(sizes[-1]), prod(sizes[:-1])
    across = _groups(sizes[-1], 1 << along)
    more = repeats(across * _groups(rows, THREADS >> along)) if repeated(body, kernel) else 0
    return across * _groups(rows, THREADS >> along << more), layout(along, more)


def layout(along: int, more: int) -> int:
    """The argument of a kernel over several dimensions: a group has 2 ** along threads along the innermost
    one, and each of them takes 2 ** more rows."""
    return along | more << LAYOUT


def _combining(body: Body, kernel: GridKernel, extents: Point) -> tuple[int, int]:
    dims = abi.kept(body, abi.reductions(body)[kernel.reduction])
    leaves, outputs = abi.leaves(extents, dims), prod(extents[d] for d in dims)
    if kernel.form == "results":
        return _groups(outputs, THREADS) if leaves == 1 else 0, 0
    alone = _alone(len(extents), dims, outputs, leaves)
    if leaves <= kernel.stride or alone != (kernel.form == "trees"):
        return 0, 0
    if alone:
        threads = outputs * _groups(leaves, BRANCHES * kernel.stride)
        return _groups(threads, THREADS), kernel.stride.bit_length() - 1
    return outputs * _groups(leaves, CHUNK * kernel.stride), kernel.stride


def _alone(rank: int, kept: Sequence[int], outputs: int, leaves: int) -> bool:
    """Do threads combine leaves each by itself?  So they read those of neighbouring columns side by side; of
    rows a group shares the work, unless these are short or many."""
    return bool(kept) and (not abi.by_rows(rank, kept) or leaves <= BRANCHES or outputs >= MANY)


def _groups(threads: int, each: int) -> int:
    return -(-threads // each)

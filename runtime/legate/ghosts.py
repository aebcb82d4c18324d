"""Ghosts on Legate: the rows of a sparse product's dense operand that a Legate point reads and others have.

Replicating the operand would copy all of it to every point for each product.  The rows of the matrix that a
point has determine which rows of the operand it reads, so the points exchange just those, in two steps.  A
task copies, on each point, the rows of its own tile that others read into cells of an exchange store, one
cell for each reader.  The product then requires, on each point, its tile of the operand and the cells that
are meant for it; the kernel finds the rows of its tile in one place and those from the cells in another
(`Gather.split`).

Legate knows nothing of single rows, so every rank finds out by itself what all points read, from the matrix'
positions and columns, which it has on the host.  It does so once for each version of the matrix, when the
second product with it comes.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from diffuse.ir import ITEMSIZE, Coordinate, Point, Projection, Replicated, Store, Tiling
from diffuse.ir.view import View, shown
from diffuse.memory import address
from diffuse.observe import trace
from diffuse.runtime.base import Gather, LaunchArgument, Layout
from diffuse.runtime.legate import message, orders
from diffuse.runtime.legate.instances import LegateInstance
from diffuse.runtime.legate.orders import Prepared
from diffuse.runtime.legate.placement import Placement
from diffuse.runtime.legate.requirements import Need, shared
from diffuse.runtime.ranks.numbers import RowNumbers, distinct, reach

LEAST = 2 << 20
"""The fewest bytes of an operand that is not replicated: another task takes as long as copying some of
that."""
MOST = 16
"""The most exchanges kept for one matrix."""


class Ranks(Protocol):
    """The part of the runtime that ghosts need."""

    placement: Placement

    def host(self, instance: LegateInstance, write: bool) -> NDArray[np.uint8]: ...


class DenseOperand(NamedTuple):
    """A dense operand, divided among Legate points like the rows of the matrix."""

    gather: Gather
    rows: int
    """Rows of the matrix that a Legate point has."""
    tile: int
    """Rows of the operand that it has."""
    extent: int
    """All rows of the operand."""
    pitch: int
    """Bytes of a row of the operand."""
    need: int
    """The index of its need."""
    name: tuple[object, ...]
    """What tells it from other operands of the same matrix."""


class SplitLaunch(NamedTuple):
    """A launch whose dense operands are divided among its points."""

    prepared: Prepared
    operands: tuple[DenseOperand, ...]


class Ghosts:
    """An exchange of rows, for one version of a matrix."""

    def __init__(self, place: Placement, operand: DenseOperand, table: NDArray[np.int64], most: int,
                 points: int) -> None:
        self.table = table
        """See `tabled`."""
        self.store = LegateInstance(Store(-1, (points, points, most * operand.pitch), "uint8"))
        """The exchange store: the bytes that the first point sends to the second one."""
        self.sent = shared(self.store.shape, ((0, 0, 1),))
        self.received = Need(-1, (0, 0, 0), self.store.shape, ((1, 0, 1),), True, False)
        self.version = -1
        """The version of the operand whose rows are in the store."""
        weakref.finalize(self, _retire, place, table, self.store).atexit = False


def _retire(place: Placement, table: NDArray[np.int64], store: LegateInstance) -> None:
    """Drop an exchange, whose table queued tasks may still read."""
    place.lent.append(table)
    place.drop(store)


def split(layout: Layout, span: int) -> SplitLaunch | None:
    """Divide the dense operands of a launch's gathers among its Legate points, of `span` points each; None if
    one cannot be divided."""
    gathers = [gather for gather in layout.gathers if gather.split]
    if not gathers or len(layout.domain) != 1:
        return None
    arguments = list(layout.arguments)
    tiles: list[tuple[int, int]] = []
    for gather in gathers:
        rows, argument = _rows(arguments[gather.low]), arguments[gather.dense]
        if rows is None or rows != _rows(arguments[gather.high]) or not _whole(argument):
            return None
        count = argument.storage[0][0]
        same = count == shown(arguments[gather.low].access).shape[0]
        tiles.append((rows, rows if same else -(-count // layout.domain[0])))
        arguments[gather.dense] = _tiled(argument, tiles[-1][1])
    tiled = Layout(tuple(arguments), layout.scratch, layout.title, layout.domain)
    found = orders.prepared(tiled, span, whole=False)
    needs, of = found.cut.needs, found.cut.of
    operands = tuple([_operand(layout.arguments, gather, rows * span, tile * span, of[gather.dense])
                      for gather, (rows, tile) in zip(gathers, tiles, strict=True)])
    divided = found.cut.several and all(
        needs[o.need]._replace(slot=0) == Need(0, (0,) * len(shape), shape, ((0, 0, o.tile),), True, False)
        for o in operands for shape in (layout.arguments[o.gather.dense].storage[0],))
    return SplitLaunch(found, operands) if divided else None


def _rows(argument: LaunchArgument) -> int | None:
    """The rows that a point has, if the argument is a vector with one element for each row, in order."""
    access, view = argument.access, shown(argument.access)
    partition, (shape, dtype) = access.partition, argument.storage
    if (access.store.shape, access.store.dtype) != (shape, dtype) or len(shape) != 1:
        return None
    if not isinstance(partition, Tiling) or partition.projection.coordinates != (Coordinate(0, 1, 0),):
        return None
    plain = view.strides[0] == ITEMSIZE[dtype] and partition.extent[0] <= partition.tile[0]
    return partition.tile[0] if plain and partition.offset[0] == partition.bounds[0][0] else None


def _whole(argument: LaunchArgument) -> bool:
    """Is it a whole store of one dimension or two, which every point reads as it lies in memory?"""
    access, view = argument.access, shown(argument.access)
    shape, dtype = argument.storage
    if (access.store.shape, access.store.dtype) != (shape, dtype) or len(shape) > 2 or view.offset:
        return False
    across = len(shape) == 1 or view.shape[-1:] == shape[1:] and view.strides[-1] == ITEMSIZE[dtype]
    return across and isinstance(access.partition, Replicated) and view.free == (0,)


def _tiled(argument: LaunchArgument, tile: int) -> LaunchArgument:
    """The argument, divided among points by its rows."""
    shape = argument.storage[0]
    extent, fixed = (tile, *shape[1:]), tuple([Coordinate(0, 0, 0) for _ in shape[1:]])
    projection, bounds = Projection((Coordinate(0, 1, 0), *fixed)), tuple([(0, n) for n in shape])
    partition = Tiling(extent, (0,) * len(shape), (1,) * len(shape), projection, extent, bounds)
    return argument._replace(access=argument.access._replace(partition=partition))


def _operand(arguments: Sequence[LaunchArgument], gather: Gather, rows: int, tile: int, need: int
             ) -> DenseOperand:
    count, *across = arguments[gather.dense].storage[0]
    pitch = ITEMSIZE[arguments[gather.dense].storage[1]] * (across[0] if across else 1)
    views = [shown(arguments[k].access) for k in (gather.low, gather.high, gather.columns)]
    name = (rows, tile, count, pitch, *[(view.offset, view.shape[0], view.dtype) for view in views])
    return DenseOperand(gather, rows, tile, count, pitch, need, name)


class Reads(NamedTuple):
    """The rows of the dense operand that the points of a product read."""

    cells: list[list[RowNumbers]]
    """For each point and each other one, the rows that the first one has and the second one reads."""
    plain: list[tuple[int, int]]
    """For each point, consecutive rows of the matrix that read only rows which the point has."""


def tabled(reads: Reads) -> NDArray[np.int64]:
    """The table of an exchange, as message.h reads it."""
    flat = [rows for line in reads.cells for rows in line]
    ends = np.cumsum([0, *map(len, flat)])
    return np.concatenate([np.array(reads.plain).reshape(-1), ends, *flat]).astype(np.int64)


def reads(operand: DenseOperand, points: int, low: NDArray[Any], high: NDArray[Any], columns: NDArray[Any]
          ) -> Reads | None:
    """Find what each point reads; None if there is a row that the operand does not have."""
    edges, found, plain = np.arange(points + 1) * operand.tile, [], []
    for point in range(points):
        rows = slice(point * operand.rows, (point + 1) * operand.rows)
        first, last = reach(low[rows], high[rows], len(columns))
        wanted = distinct(columns[first:last])
        if wanted.size and (wanted[0] < 0 or wanted[-1] >= operand.extent):
            return None
        ends = np.searchsorted(wanted, edges)
        found.append([wanted[ends[k]:ends[k + 1] if k != point else ends[k]] for k in range(points)])
        mine = columns[first:last] // operand.tile == point
        begin, end = _longest(low[rows], high[rows], first + np.flatnonzero(~mine))
        plain.append((rows.start + begin, rows.start + end))
    return Reads([[found[reader][owner] for reader in range(points)] for owner in range(points)], plain)


def _longest(low: NDArray[Any], high: NDArray[Any], elements: NDArray[np.int64]) -> tuple[int, int]:
    """The longest run of rows of a matrix without any of these elements; (0, 0) if rows do not lie one behind
    the other."""
    if not np.array_equal(low[1:], high[:-1]) or (low > high).any():
        return 0, 0
    ends = np.concatenate(([-1], np.unique(np.searchsorted(high, elements, "right")), [len(low)]))
    longest = int(np.argmax(np.diff(ends)))
    return int(ends[longest]) + 1, int(ends[longest + 1])


def pays(operand: DenseOperand, points: int, most: int) -> bool:
    """Does an exchange of at most so many rows between two points move less than replicating does?  All cells
    of the exchange store are equally large."""
    return 2 * points * most <= operand.extent - operand.tile


class Divided(NamedTuple):
    """A launch with its operands divided among its points, and the exchange of each."""

    prepared: Prepared
    operands: tuple[DenseOperand, ...]
    exchanges: tuple[Ghosts, ...]

    @property
    def received(self) -> tuple[message.Received, ...]:
        """The operands as the launch's message describes them."""
        return tuple([message.Received(o.gather.split, o.need, ghosts.store.shape, o.extent, o.pitch)
                      for o, ghosts in zip(self.operands, self.exchanges, strict=True)])


class Exchanges:
    """Finds and brings the ghosts of a runtime's launches."""

    def __init__(self, runtime: Ranks) -> None:
        self._runtime = runtime
        self._place = runtime.placement

    def find(self, layout: Layout, points: int, span: int, instances: Sequence[LegateInstance],
             watched: Sequence[Any]) -> Divided | None:
        """Divide the operands of a launch among its points; None if one has to be replicated.  Arrays that
        outside code may write to at any time (`watched`) are not inspected."""
        key = points, "split"
        if key not in layout.derived:
            layout.derived[key] = split(layout, span)
        found: SplitLaunch | None = layout.derived[key]
        if found is None:
            return None
        exchanges = []
        for operand in found.operands:
            dense = instances[operand.gather.dense]
            away = dense.filled and not (dense.home or dense.handy or dense.shared or dense.foreign)
            if not away or dense.nbytes < LEAST:
                return None
            ghosts = self._ghosts(operand, found.prepared, layout, instances, watched)
            if ghosts is None:
                return None
            exchanges.append(ghosts)
        return Divided(found.prepared, found.operands, tuple(exchanges))

    def _ghosts(self, operand: DenseOperand, prepared: Prepared, layout: Layout,
                instances: Sequence[LegateInstance], watched: Sequence[Any]) -> Ghosts | None:
        """The exchange for a matrix: None if it would not pay, or the matrix is used for the first time."""
        gather = operand.gather
        looked = [instances[k] for k in (gather.low, gather.high, gather.columns)]
        if any(each.shared or each.foreign for each in looked) or not set(looked).isdisjoint(watched):
            return None
        versions, kept = tuple([each.version for each in looked]), looked[-1].exchanges
        if any(before[0] != versions for before in kept) or len(kept) >= MOST:
            kept.clear()
        name = versions, prepared.cut.spread, operand.name
        if name not in kept:
            kept[name] = None
        elif kept[name] is None:
            kept[name] = self._inspect(operand, prepared.cut.spread, layout, looked)
        return kept[name] or None

    def _inspect(self, operand: DenseOperand, spread: Point, layout: Layout, looked: Sequence[LegateInstance]
                 ) -> Ghosts | bool:
        """Find what points read of each other; False if it is so much that replicating moves less."""
        gather, (points,) = operand.gather, spread
        views = [shown(layout.arguments[k].access) for k in (gather.low, gather.high, gather.columns)]
        low, high, columns = [_elements(self._runtime.host(instance, write=False), view, k == 2)
                              for k, (instance, view) in enumerate(zip(looked, views, strict=True))]
        found = reads(operand, points, low, high, columns)
        if found is None:
            return False
        most = max([len(rows) for line in found.cells for rows in line])
        table = tabled(found)
        if self._place.agreement is not None:
            self._place.agreement.event(f"inspecting {layout.title}", table)
        return pays(operand, points, most) and Ghosts(self._place, operand, table, max(most, 1), points)

    def bring(self, divided: Divided, instances: Sequence[LegateInstance]) -> None:
        """Have points send the rows that others read, unless they have since an operand was written."""
        for operand, ghosts in zip(divided.operands, divided.exchanges, strict=True):
            dense = instances[operand.gather.dense]
            if ghosts.version != dense.version:
                self._pack(operand, ghosts, dense, divided.prepared)
                ghosts.version = dense.version

    def _pack(self, operand: DenseOperand, ghosts: Ghosts, dense: LegateInstance, prepared: Prepared) -> None:
        """Submit the task that copies rows of each point's tile to its cells of the exchange store."""
        trace.count("exchanged")
        place, cut = self._place, prepared.cut
        need = cut.needs[operand.need]
        if place.agreement is not None:
            place.agreement.event(f"exchanging rows of an array of shape {dense.shape}, {dense.dtype}")
        place.ready(dense, need)
        place.store(ghosts.store)
        task = place.task(cut.spread)
        task.add_input(*place.part(dense, need, cut.spread))
        task.add_output(*place.part(ghosts.store, ghosts.sent, cut.spread))
        place.send(task, message.packing(dense.shape, ITEMSIZE[dense.dtype], ghosts.store.shape,
                                         operand.pitch, address(ghosts.table)))


def _elements(memory: NDArray[np.uint8], view: View, rest: bool) -> NDArray[Any]:
    """The elements of a vector on the host: those of a view along its first dimension, or all from its
    beginning on (`rest`)."""
    item = ITEMSIZE[view.dtype]
    if rest:
        return memory[view.offset:view.offset + (len(memory) - view.offset) // item * item].view(view.dtype)
    return np.ndarray(view.shape[:1], view.dtype, memory.data, view.offset, view.strides[:1])

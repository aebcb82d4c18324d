"""Serialises launches for the trampoline as 8-byte words, which native/message.h parses.

Most of a message is equal for all launches of a layout and is packed once; the kernel's address, its
parameter block and pointers to host memory are put in front of it for each launch.  A launch of grid kernels
names these at the end (grid.h).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from struct import Struct
from typing import NamedTuple

from diffuse.ir import ITEMSIZE, Point
from diffuse.ir.view import shown
from diffuse.runtime.base import LaunchArgument, Layout, Plane
from diffuse.runtime.legate.passes import Border, Edge
from diffuse.runtime.legate.requirements import Cut, Need, in_own_coordinates

RUN, FOLD, GET, PUT, PACK, PASS, EDGES = range(7)
INPUT, OUTPUT, HOST = range(3)
HEADER = Struct("<14q")


class Received(NamedTuple):
    """A dense operand some rows of which a point has received from others (ghosts.py)."""

    word: int
    """The words of the block that say where its rows lie (kernels/body/abi.py)."""
    need: int
    """The index of its need."""
    store: tuple[int, ...]
    """The shape of the exchange store."""
    extent: int
    """Rows of the operand."""
    pitch: int
    """Bytes of a row."""


GridLaunch = tuple[int, int, int]
"""A launch of a grid kernel: the kernel's handle, its groups, and its argument."""


class Message(NamedTuple):
    """The part of a message that all launches of a layout share."""

    order: int
    points: int
    span: int
    pointers: int
    """The number of host addresses that a launch passes."""
    stores: int
    fields: int
    scratch: int
    tail: bytes
    listed: int = 0
    """Words at the end that list grid kernels; they take the place of `finish`."""
    ghosts: int = 0
    """The number of operands of which points have received rows; of a pass, that of its edges."""
    assembled: int = 0
    """The number of stores that are assembled of pieces."""

    def launching(self, copying: Sequence[int], rank: int, steps: Sequence[GridLaunch],
                  finishing: Sequence[GridLaunch]) -> Message:
        """The message of the same launch as grid kernels: `steps` for each point of the launch domain, whose
        rank is `rank`, and `rest` after all points.  `copying` are the kernels of copying.py."""
        groups = [(len(group), *chain(*group)) for group in (steps, finishing)]
        listed = [*copying, rank, *chain(*groups)]
        return self._replace(tail=self.tail + words(listed), listed=len(listed))

    def pack(self, kernel: int, finish: int, detached: bool, pointers: Sequence[int], block: bytes,
             turn: int = 0) -> bytes:
        """The message of one launch; `turn` is its number if all ranks run some of it."""
        head = HEADER.pack(self.order, kernel, finish, self.points, self.span, detached, len(pointers),
                           len(block) // 8, self.stores, self.fields, self.scratch, self.ghosts,
                           self.assembled, turn)
        return b"".join((head, words(pointers) if pointers else b"", block, self.tail))


def words(values: Sequence[int]) -> bytes:
    return _row(len(values)).pack(*values)


@lru_cache(256)
def _row(length: int) -> Struct:
    return Struct(f"<{length}q")


def running(layout: Layout, cut: Cut, hosted: Sequence[bool], inside: bool, received: Sequence[Received] = (),
            border: Border | None = None) -> Message:
    """The message of a launch.  Needs whose `hosted` is true are read from host memory instead of Legate's
    stores.  The exchange stores of operands that are `received` follow the inputs, and their tables follow
    the other addresses of host memory.  With a `border` it is a pass; the stores with the cells of its edges
    follow the inputs and the outputs.

    `inside`: the task allocates scratch memory itself, and copies partial results of its points to stores
    that follow the needs.
    """
    of = {a.slot: a.storage for a in layout.arguments}
    stores = _places(cut.needs, of, hosted)
    fields = [_field(a, k) for a, k in zip(layout.arguments, cut.of, strict=True) if k >= 0]
    scratch: list[list[int]] = []
    places = len(cut.needs)
    outputs = sum(need.writes and not h for need, h in zip(cut.needs, hosted, strict=True))
    for piece in layout.scratch if inside else ():
        shared = piece.planes if cut.several else ()
        scratch.append([piece.word, piece.nbytes, len(shared)])
        for plane in shared:
            scratch[-1] += plane.offset, places
            stores.append(_plane(OUTPUT, outputs, plane))
            outputs, places = outputs + 1, places + 1
    ghosts: list[list[int]] = []
    inputs = sum(need.reads and not h for need, h in zip(cut.needs, hosted, strict=True))
    for k, one in enumerate(received):
        ghosts.append([one.word, one.need, places + k, one.extent, one.pitch, sum(hosted) + k])
        stores.append([INPUT, inputs + k, len(one.store), 1, *[0] * len(one.store), *one.store])
    if border is None:
        return _message(RUN, cut, sum(hosted) + len(received), stores, fields, scratch, ghosts)
    sides = [[border.before, border.after]]
    for k, edge in enumerate(border.edges):
        shape, number = (cut.spread[0], border.cell(edge)), len(stores)
        following = number + 1 if edge.writes else -1
        sides.append([edge.need, number, following, edge.pitch, len(edge.words), *edge.words])
        stores.append(_cells(INPUT, inputs + k, shape))
        if edge.writes:
            stores.append(_cells(OUTPUT, outputs, shape))
            outputs += 1
    return _message(PASS, cut, sum(hosted), stores, fields, scratch, sides)._replace(ghosts=len(border.edges))


def folding(layout: Layout, cut: Cut) -> Message:
    """The message of a launch's `finish`, a task that combines the partial results of all points."""
    of = {a.slot: a.storage for a in layout.arguments}
    stores = _places(cut.results, of, [False] * len(cut.results))
    place = {need.slot: k for k, need in enumerate(cut.results)}
    fields = [_field(a, place[a.slot]) for a, k in zip(layout.arguments, cut.of, strict=True) if k < 0]
    scratch: list[list[int]] = []
    inputs = sum(need.reads for need in cut.results)
    for piece in layout.scratch:
        scratch.append([piece.word, piece.nbytes, len(piece.planes)])
        for plane in piece.planes:
            scratch[-1] += plane.offset, len(stores)
            stores.append(_plane(INPUT, inputs, plane))
            inputs += 1
    return _message(FOLD, cut, 0, stores, fields, scratch)


def moving(order: int, span: int, shape: Point, itemsize: int, box: Point, address: int) -> bytes:
    """The message of a copy between a whole store and host memory (GET, PUT)."""
    kind = INPUT if order == GET else OUTPUT
    place = [kind, 0, len(shape), itemsize, *box, *shape]
    return HEADER.pack(order, 0, 0, 0, span, 0, 1, 0, 1, 0, 0, 0, 0, 0) + words([address, *place])


def packing(shape: Point, itemsize: int, store: Point, pitch: int, table: int) -> bytes:
    """The message of a task that copies rows of `pitch` bytes to the cells of an exchange store."""
    places = [INPUT, 0, len(shape), itemsize, *[0] * len(shape), *shape,
              OUTPUT, 0, len(store), 1, *[0] * len(store), *store]
    return HEADER.pack(PACK, 0, 0, store[0], pitch, 0, 1, 0, 2, 0, 0, 0, 0, 0) + words([table, *places])


def edges(edge: Edge, border: Border, shape: Point, itemsize: int, points: int) -> bytes:
    """The message of a task that copies the rows at the border of each point's tile to its cell."""
    needs = [need for need in (edge.low, edge.high) if need is not None]
    places = [[INPUT, k, len(shape), itemsize, *low, *shape] for k, low in enumerate(
        ((0,) * len(shape), *[need.low for need in needs]))]
    return HEADER.pack(EDGES, 0, 0, points, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0) + words(
        [border.before, border.after, edge.pitch, edge.low is not None, edge.high is not None,
         *chain(*places), *_cells(OUTPUT, 0, (points, border.cell(edge)))])


def _cells(kind: int, number: int, shape: Point) -> list[int]:
    """A store of bytes with a cell for each point."""
    return [kind, number, 2, 1, 0, 0, *shape]


def _message(order: int, cut: Cut, pointers: int, stores: list[list[int]], fields: list[list[int]],
             scratch: list[list[int]], ghosts: Sequence[list[int]] = ()) -> Message:
    assembled = cut.assembled if order == RUN else ()
    tail = words([*chain(*stores), *chain(*assembled), *chain(*fields), *chain(*scratch), *chain(*ghosts)])
    return Message(order, cut.points, cut.span, pointers, len(stores), len(fields),
                   len(scratch), tail, ghosts=len(ghosts), assembled=len(assembled))


def _places(needs: Sequence[Need], of: dict[int, tuple[Point, str]], hosted: Sequence[bool]
            ) -> list[list[int]]:
    found = []
    counts = {INPUT: 0, OUTPUT: 0, HOST: 0}
    for need, host in zip(needs, hosted, strict=True):
        kind = HOST if host else OUTPUT if need.writes else INPUT
        shape, dtype = of[need.slot]
        found.append([kind, counts[kind], len(shape), ITEMSIZE[dtype], *need.low, *shape])
        counts[kind] += 1
        if kind == OUTPUT and need.reads:
            counts[INPUT] += 1
    return found


def _plane(kind: int, number: int, plane: Plane) -> list[int]:
    """A store of bytes with the partial results, which the points divide among themselves."""
    rank = len(plane.shape)
    return [kind, number, rank, 1, *[0] * rank, *plane.shape]


def _field(argument: LaunchArgument, place: int) -> list[int]:
    """The words that derive an argument's address and strides from those of its store."""
    view = shown(argument.access)
    rank = len(view.strides)
    if not in_own_coordinates(argument):
        return [argument.word, rank, place, 0]
    steps = [[0] * len(view.rows) for _ in range(rank)]
    for d, (_, terms) in enumerate(view.rows):
        for k, step in terms:
            steps[k][d] += step
    return [argument.word, rank, place, 1, *(offset for offset, _ in view.rows), *chain(*steps)]

"""Shares and steps of the runtime mpi, without MPI: what moves, and that it is enough."""

from __future__ import annotations

import random
from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from diffuse.ir import Access, Point, Privilege, Split, Store, tiling
from diffuse.ir.view import of
from diffuse.movement.boxes import Layout, size, volume
from diffuse.movement.folded import distances
from diffuse.runtime.base import LaunchArgument, Plane, Scratch
from diffuse.runtime.base import Layout as Launched
from diffuse.runtime.mpi import steps
from diffuse.runtime.mpi.collected import Collected, replicated, schematic
from diffuse.runtime.mpi.moves import collecting
from diffuse.runtime.mpi.shares import boxes, owned, scaled, share
from diffuse.runtime.mpi.steps import LaunchStep, fetched, moved, step
from diffuse.runtime.mpi.validity import Validity, all_of, everywhere, fresh, made
from tests.each import for_each
from tests.test_mpi_validity import elements, some_box

READ, WRITE, BOTH, REDUCE = Privilege.READ, Privilege.WRITE, Privilege.READ_WRITE, Privilege.REDUCE


# -- shares ------------------------------------------------------------------------------------------------

# A view of a store, as NumPy's array of the numbers of its elements.
Picture = NDArray[Any]


def argument(slot: int, whole: Picture, part: Picture, privilege: Privilege, splits: tuple[Split, ...],
             dtype: str = "float64", frame: tuple[Point, str] | None = None) -> LaunchArgument:
    """An argument that sees `part` of the numbered elements of `whole`; `frame`: in other coordinates."""
    shape, kind = frame or (whole.shape, dtype)
    offset = (part.__array_interface__["data"][0] - whole.__array_interface__["data"][0])
    view = of(shape, kind, kind, np.dtype(kind).itemsize, offset, part.strides, part.shape)
    store = Store(slot, view.frame, view.dtype)
    access = Access(store, view, privilege, None, tiling(store, view, part.shape, splits))
    return LaunchArgument(0, slot, (whole.shape, dtype), access, privilege)


def numbered(*shape: int) -> Picture:
    return np.arange(prod(shape)).astype(np.float64).reshape(shape)


VIEWS: dict[str, Any] = {
    "all": lambda a: a, "interior": lambda a: a[1:-1, 1:-1], "backwards": lambda a: a[::-1],
    "steps": lambda a: a[1::3, ::2], "transposed": lambda a: a.T, "steps back": lambda a: a[::-2, ::-1],
    "row": lambda a: a[3:4, :], "repeated": lambda a: np.broadcast_to(a[2], (12, 8)),
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_point_touches_the_boxes_of_its_tile(name: str) -> None:
    whole = numbered(12, 8)
    part = VIEWS[name](whole)
    for axis in (0, 1):
        tile = -(-part.shape[axis] // 3)
        seen = argument(0, whole, part, READ, (Split(axis, tile),))
        for p in range(-(-part.shape[axis] // tile)):
            mine = part[(slice(None),) * axis + (slice(p * tile, (p + 1) * tile),)]
            assert {float(whole[at]) for at in elements(boxes(seen, (p,)))} == set(mine.ravel().tolist())


def test_other_coordinates_of_one_run_are_exact() -> None:
    whole = numbered(12, 8)
    flat = argument(0, whole, whole.reshape(-1), READ, (Split(0, 40),), frame=((96,), "float64"))
    assert [len(elements(boxes(flat, (p,)))) for p in range(3)] == [40, 40, 16]
    assert elements(boxes(flat, (0,))) == {divmod(k, 8) for k in range(40)}
    cube = argument(0, whole, whole.reshape(12, 2, 4), READ, (Split(1, 1),), frame=((12, 2, 4), "float64"))
    assert elements(boxes(cube, (0,))) == {divmod(k, 8) for k in range(92)}, "runs: all between their ends"


def layout(arguments: list[LaunchArgument], points: int, planes: tuple[Plane, ...] = ()) -> Launched:
    scratch = (Scratch(0, 1 << 10, planes),) if planes else ()
    return Launched(tuple(arguments), scratch, "test", (points,))


@pytest.mark.parametrize("points, ranks", [(4, 2), (3, 2), (1, 4), (5, 3), (7, 7)])
def test_ranks_own_runs_of_points(points: int, ranks: int) -> None:
    found = owned(points, ranks)
    assert [p for first, number in found for p in range(first, first + number)] == list(range(points))
    assert max(n for _, n in found) - min(n for _, n in found) <= 1


def test_points_that_write_the_same_are_not_divided() -> None:
    whole, splits = numbered(12, 8), (Split(0, 6),)
    into = argument(0, whole, whole, WRITE, splits)
    assert share(layout([into], 2), 2).divided
    row = np.broadcast_to(whole[0], (12, 8))
    assert not share(layout([argument(0, whole, row, BOTH, splits)], 2), 2).divided


# -- steps -------------------------------------------------------------------------------------------------


def received(found: LaunchStep) -> int:
    return sum(volume(box) for _, arrivals in found.before for boxes in arrivals for _, box in boxes)


def test_a_stencil_moves_two_rows_and_comes_back_to_its_states() -> None:
    a, splits = numbered(64, 8), (Split(0, 31),)
    kinds = [argument(0, a, part, READ, splits) for part in (a[:-2, 1:-1], a[2:, 1:-1], a[1:-1, :-2])]
    kinds.append(argument(1, a, a[1:-1, 1:-1], WRITE, splits))
    shared = share(layout(kinds, 2), 2)
    states = [everywhere((64, 8), 8, 2), everywhere((64, 8), 8, 2)]
    seen = []
    for _ in range(6):
        found = step(shared, states, 2)
        states = [found.after[1], found.after[0]]
        seen.append((received(found), tuple(states)))
    assert [moved for moved, _ in seen] == [0, 12, 12, 12, 12, 12]
    assert seen[3][1] == seen[5][1] and seen[2][1] == seen[4][1]


def test_what_all_can_compute_nobody_sends() -> None:
    number = numbered(1)
    splits = (Split(-1, 0),)
    one = [argument(0, number, number, READ, splits), argument(1, number, number, WRITE, splits)]
    shared = share(layout(one, 1), 4)
    known = everywhere((1,), 8, 4)
    found = step(shared, [known, fresh((1,), 8, 4)], 4)
    assert not found.before and found.runs == ((0, 1),) * 4 and found.after[1].whole
    far = fresh((1,), 8, 4).written(((), (), all_of((1,)), ()))
    found = step(shared, [far, known], 4)
    assert received(found) == 3 and found.after[1].whole


def test_one_rank_runs_what_cannot_be_divided_where_most_of_it_is() -> None:
    a = numbered(4096, 8)
    whole = [argument(0, a, a, READ, (Split(-1, 0),)), argument(1, a, a, WRITE, (Split(-1, 0),))]
    parts: Layout = (((range(1000), range(8)),), ((range(1000, 4096), range(8)),))
    state = fresh(a.shape, 8, 2).written(parts)
    found = step(share(layout(whole, 1), 2), [state, fresh(a.shape, 8, 2)], 2)
    assert found.runs == ((0, 0), (0, 1)) and received(found) == 8000
    assert found.after[1].have == ((), all_of(a.shape)) and found.growth == (0, 8 * 4096 * 8 + 64000)


@pytest.mark.parametrize("rows, finishing", [(8, (0, 1)), (1 << 16, (0,))])
def test_partial_results_go_to_all_or_if_large_to_one(rows: int, finishing: tuple[int, ...]) -> None:
    a, total = numbered(64, 8), numbered(1)
    kinds = [argument(0, a, a, READ, (Split(0, 32),)),
             argument(1, total, total.reshape(()), REDUCE, (Split(-1, 0),))]
    plane = Plane(0, (2, rows), ((0, 0, 1),))
    found = step(share(layout(kinds, 2, (plane,)), 2), [everywhere(a.shape, 8, 2), fresh((1,), 8, 2)], 2)
    assert found.finishing == finishing
    assert [len(boxes) for boxes in found.partials[0][1]] == [1, 1 if len(finishing) == 2 else 0]
    assert found.after[1].whole is (len(finishing) == 2)


@pytest.mark.parametrize("ranks", [1, 2, 3, 9, 12, 16, 21])
def test_partial_results_of_many_ranks_arrive_in_few_rounds(ranks: int) -> None:
    pick = random.Random(ranks)
    writes: Layout = tuple([((range(rank, rank + 1), range(first := pick.randint(0, 3), first + rank % 3)),)
                            if rank % 4 != 2 and rank % 3 else () for rank in range(ranks)])
    partial = Collected(0, (ranks, 6), 1, writes)
    memory = [np.zeros((ranks, 6), np.uint8) for _ in range(ranks)]
    whole = np.zeros((ranks, 6), np.uint8)
    for rank, held in enumerate(writes):
        for box in held:
            memory[rank][np.ix_(*box)] = whole[np.ix_(*box)] = 7 + rank
    for distance in distances(ranks):
        sent = {(rank, move.peer): memory[rank].reshape(-1)[move.region] for rank in range(ranks)
                for move in collecting(partial, rank, distance, ranks) if move.sends}
        said = {(sender, rank): size((box,)) for rank, some in enumerate(steps.arrivals(
            *schematic(writes, distance, ranks))) for sender, box in some}
        assert said == {pair: len(part) for pair, part in sent.items()}
        for rank in range(ranks):
            for move in collecting(partial, rank, distance, ranks):
                if not move.sends:
                    memory[rank].reshape(-1)[move.region] = sent.pop((move.peer, rank))
        assert not sent
    assert len(distances(ranks)) == (ranks - 1).bit_length()
    assert all(np.array_equal(found, whole) for found in memory)


@pytest.mark.parametrize("ranks", [9, 12, 16, 21])
def test_small_arrays_are_replicated_in_rounds(ranks: int) -> None:
    """Elements that several ranks hold are sent by one of them, and those outside what is wanted by none."""
    shape = (3 * ranks + 4, 2)
    have = tuple([((range(3 * rank, 3 * rank + 3 + (rank == 4)), range(2)),) if rank != 2 else ()
                  for rank in range(ranks)])
    longer, last = ((range(3, 9), range(2)),), ((range(3 * ranks - 3, 3 * ranks + 4), range(2)),)
    have = (have[0], longer, *have[2:-1], last)
    want: Layout = (((range(3 * ranks), range(2)),),) * ranks
    state = made(shape, 8, have, have)
    found = replicated(0, state, want)
    assert found is not None and sum(map(size, found.parts)) == 6 * ranks
    truth = np.arange(prod(shape), dtype=np.float64)
    memory = [np.full(prod(shape), -1.0) for _ in range(ranks)]
    for rank, held in enumerate(have):
        for box in held:
            memory[rank].reshape(shape)[np.ix_(*box)] = truth.reshape(shape)[np.ix_(*box)]
    for distance in distances(ranks):
        sent = {(rank, move.peer): memory[rank][move.region] for rank in range(ranks)
                for move in collecting(found, rank, distance, ranks) if move.sends}
        for rank in range(ranks):
            for move in collecting(found, rank, distance, ranks):
                if not move.sends:
                    memory[rank][move.region] = sent.pop((move.peer, rank))
        assert not sent
    assert all(np.array_equal(each[:6 * ranks], truth[:6 * ranks]) for each in memory)


def test_what_is_exchanged_directly_is_not_replicated_in_rounds() -> None:
    rows = tuple([((range(rank, rank + 1), range(4)),) for rank in range(16)])
    whole = all_of((16, 4))
    state = made((16, 4), 8, rows, rows)
    assert replicated(0, state, (whole,) * 16) is not None
    assert replicated(0, made((8, 4), 8, rows[:8], rows[:8]), (all_of((8, 4)),) * 8) is None  # few ranks
    assert replicated(0, state, (*(whole,) * 15, rows[0])) is None  # they want different elements
    assert replicated(0, state.received((*(whole,) * 9, *rows[9:])), (whole,) * 16) is None  # most have them
    large = tuple([((range(rank, rank + 1), range(1 << 10)),) for rank in range(16)])
    assert replicated(0, made((16, 1 << 10), 8, large, large), (all_of((16, 1 << 10)),) * 16) is None
    assert replicated(0, made((16, 4), 8, rows[:15] + ((),), rows), (whole,) * 16) is None  # nobody has a row


def test_sums_of_rows_stay_where_the_rows_are() -> None:
    a, sums = numbered(64, 8), numbered(64)
    kinds = [argument(0, a, a, READ, (Split(0, 32),)),
             argument(1, sums, np.broadcast_to(sums[:, None], (64, 8)), REDUCE, (Split(0, 32),))]
    plane = Plane(0, (64, 8), ((0, 0, 32),))
    found = step(share(layout(kinds, 2, (plane,)), 2), [everywhere(a.shape, 8, 2), fresh((64,), 8, 2)], 2)
    assert not found.partials and found.finishing == (0, 1)
    assert found.after[1].have == (((range(32),),), ((range(32, 64),),))


# -- everything together: ranks with memory of their own -----------------------------------------------------


class Ranks:
    """Arrays of several ranks, who see what the steps bring them and nothing else."""

    def __init__(self, number: int, shapes: list[Point]) -> None:
        self.number = number
        self.states: list[Validity] = [everywhere(shape, 8, number) for shape in shapes]
        self.truth = [np.arange(prod(shape), dtype=np.float64).reshape(shape) for shape in shapes]
        self.memory = [[array.copy() for array in self.truth] for _ in range(number)]

    def arrive(self, place: int, arrivals: Any) -> None:
        for receiver, pieces in enumerate(arrivals):
            for sender, box in pieces:
                at = np.ix_(*box)
                self.memory[receiver][place][at] = self.memory[sender][place][at]

    def check(self) -> None:
        for k, state in enumerate(self.states):
            assert set().union(*map(elements, state.have)) == elements(all_of(state.shape))
            for rank, held in enumerate(state.have):
                for box in held:
                    at = np.ix_(*box)
                    assert np.array_equal(self.memory[rank][k][at], self.truth[k][at])

    def swap(self) -> None:
        """The two arrays change places."""
        self.truth.reverse()
        self.states.reverse()
        for row in self.memory:
            row.reverse()

    def launch(self, target: Any, source: Any, points: int, axis: int) -> None:
        """`target(array 0) = source(array 1) + 1`, and who runs a point sees its own memory."""
        into, given = target(self.truth[0]), source(self.truth[1])
        splits = (Split(axis, -(-into.shape[axis] // points)),) if points > 1 else (Split(-1, 0),)
        kinds = [argument(1, self.truth[1], given, READ, splits),
                 argument(0, self.truth[0], into, WRITE, splits)]
        shared = share(layout(kinds, points), self.number)
        found = step(shared, [self.states[1], self.states[0]], self.number)
        for place, arrivals in found.before:
            self.arrive(1 - place, arrivals)
        for rank, (first, count) in enumerate(found.runs):
            for p in range(first, first + count):
                tile = splits[0].tile
                mine = (slice(None),) * axis + (slice(p * tile, (p + 1) * tile),) if points > 1 else ...
                target(self.memory[rank][0])[mine] = source(self.memory[rank][1])[mine] + 1
        into[...] = given + 1
        self.states = [found.after[1], found.after[0]]


def pairs(pick: random.Random) -> Iterator[tuple[Any, Any]]:
    """Views of equal shapes of two arrays of 12 x 12 elements."""
    while True:
        (a, b), (c, d) = sorted(pick.sample(range(13), 2)), sorted(pick.sample(range(13), 2))
        e, f = pick.randint(0, 12 - (b - a)), pick.randint(0, 12 - (d - c))
        turn = pick.choice((1, -1))
        if pick.random() < 0.3:
            yield (lambda x: x[::2, c:d]), (lambda x: x[1::2, f:f + d - c][::turn])
        else:
            yield (lambda x: x[a:b, c:d]), (lambda x: x[e:e + b - a, f:f + d - c][::turn])


@pytest.mark.parametrize("seed", range(8))
def test_ranks_see_what_one_would(seed: int) -> None:
    pick = random.Random(seed)
    ranks = Ranks(pick.choice((2, 3, 4)), [(12, 12), (12, 12)])
    views = pairs(pick)
    for _ in range(25):
        target, source = next(views)
        shape = target(ranks.truth[0]).shape
        axis = pick.randrange(2)
        points = min(pick.choice((1, ranks.number, 2 * ranks.number)), shape[axis])
        ranks.launch(target, source, points, axis)
        ranks.check()
        if pick.random() < 0.1:  # the host looks at an array, and so all ranks hold it
            arrivals, ranks.states[0] = fetched(ranks.states[0], (all_of((12, 12)),) * ranks.number)
            ranks.arrive(0, arrivals)
            assert ranks.states[0].whole
        if pick.random() < 0.5:
            ranks.swap()
        ranks.check()


@for_each("seed", range(20))
def test_parts_of_elements_lie_in_boxes_of_these(seed: int) -> None:
    """Boxes of real numbers in a complex store: the store's elements under them, without gaps filled."""
    pick = random.Random(seed)
    shape = tuple(pick.randint(1, 6) for _ in range(pick.randint(1, 3)))
    seen = (*shape[:-1], shape[-1] * 2)
    box = some_box(pick, seen)
    found = scaled(box, seen, 8, shape, 16)
    assert found is not None
    under = {(*point[:-1], point[-1] // 2) for point in elements((box,))}
    assert elements((found,)) >= under
    if box[-1].step in (1, 2):
        assert elements((found,)) == under
    assert scaled(box, seen, 8, (*shape, 1), 16) is None
    parts = some_box(pick, (*shape, 2))
    assert scaled(parts, (*shape, 2), 8, shape, 16) == parts[:-1]
    assert scaled(parts, (*shape, 2), 8, shape, 24) is None


def test_what_ranks_received_is_theirs_alone_if_they_give_up_the_rest() -> None:
    rows = tuple([((range(k, k + 512), range(4096)),) for k in range(0, 2048, 512)])
    columns = tuple([((range(2048), range(k, k + 1024)),) for k in range(0, 4096, 1024)])
    state = made((2048, 4096), 8, rows, rows).received(columns)
    assert state.bytes == (8 * (2 * 512 * 4096 - 512 * 1024),) * 4
    less = moved(state, columns)
    assert less is not None and less.have == columns and less.bytes == (8 * 2048 * 1024,) * 4
    assert moved(state, (*columns[:3], ())) is None

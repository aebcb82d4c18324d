"""Boxes of elements, and which rank holds valid copies of which, without MPI."""

from __future__ import annotations

import random
from itertools import product
from math import prod

import numpy as np
import pytest

from diffuse.ir import Point
from diffuse.movement.boxes import Box, Holding, Layout, volume
from diffuse.runtime.mpi.moves import region
from diffuse.runtime.mpi.shares import parted, run, runs, spread
from diffuse.runtime.mpi.steps import trimmed
from diffuse.runtime.mpi.validity import MOST_BOXES, all_of, everywhere, fresh, made, tidy
from tests.each import for_each


def elements(holding: Holding) -> set[Point]:
    return {point for box in holding for point in product(*box)}


def some_box(pick: random.Random, shape: Point) -> Box:
    found = []
    for n in shape:
        low = pick.randrange(n)
        found.append(range(low, pick.randint(low + 1, n), pick.choice((1, 1, 1, 2, 3))))
    return tuple(found)


@for_each("seed", range(20))
def test_tidy_boxes_have_the_same_elements_once(seed: int) -> None:
    pick = random.Random(seed)
    shape = tuple(pick.randint(1, 9) for _ in range(pick.randint(0, 3)))
    given = [some_box(pick, shape) for _ in range(pick.randint(0, 6))]
    found = tidy(given)
    assert elements(found) == elements(tuple(given))
    assert sum(map(volume, found)) == len(elements(found))


def test_neighbours_and_gaps_join() -> None:
    rows = [(range(k, k + 1), range(4)) for k in (3, 1, 2, 0)]
    assert tidy(rows) == ((range(4), range(4)),)
    assert tidy([(range(0, 10, 3),), (range(1, 10, 3),), (range(2, 10, 3),)]) == ((range(10),),)
    assert tidy([(range(0, 10, 2),), (range(1, 9, 2),)]) == ((range(9),),)
    assert tidy([(range(0, 10, 2),), (range(1, 7, 2),)]) == ((range(0, 9, 2),), (range(1, 6, 2),))


@pytest.mark.parametrize("shape", [(), (7,), (4, 5), (3, 4, 5), (2, 1, 3, 2)])
def test_runs_of_memory_are_boxes_and_back(shape: Point) -> None:
    numbers = np.arange(prod(shape)).reshape(shape)
    for low in range(numbers.size):
        for high in range(low + 1, numbers.size + 1):
            found = spread(low * 8, high * 8, shape, 8)
            inside = [int(numbers[point]) for point in elements(found)]
            assert sorted(inside) == list(range(low, high))
            assert runs(found, shape)[0][0] == low and runs(found, shape)[-1][1] == high
    assert spread(3, 5, (4,), 8) == ((range(1),),), "part of an element is all of it"


def test_a_box_is_one_run_or_not() -> None:
    assert run((range(2, 4), range(6)), (5, 6)) == (12, 24)
    assert run((range(2, 3), range(1, 4)), (5, 6)) == (13, 16)
    assert run((range(2, 4), range(1, 4)), (5, 6)) is None
    assert run((range(0, 6, 2),), (6,)) is None
    assert run((), ()) == (0, 1)
    assert region((range(2, 4), range(1, 4)), (5, 6), 8) == (slice(2, 4, 1), slice(1, 4, 1))


def test_who_wrote_it_holds_it_and_nobody_else() -> None:
    state = fresh((8, 3), 8, 2)
    assert state.whole and state.bytes == (0, 0)
    halves: Layout = (((range(4), range(3)),), ((range(4, 8), range(3)),))
    state = state.written(halves)
    assert state.have == halves and state.bytes == (96, 96) and not state.whole
    more = state.received((((range(4, 5), range(3)),), ()))
    assert more.have[0] == ((range(5), range(3)),) and more.bytes == (120, 96)
    assert more.written(((), ((range(4, 5), range(3)),))).have == halves
    again = more.written(halves)
    assert again.have == halves and again.bytes == (120, 96), "memory that is touched stays"
    assert again.received((((range(4, 5), range(3)),), ())) is more, "a loop comes back to the same state"


def test_all_that_write_the_same_hold_it() -> None:
    row: Holding = ((range(1), range(3)),)
    state = everywhere((4, 3), 4, 3).written((row, row, ()))
    assert state.have[0] == state.have[1] == all_of((4, 3))
    assert elements(state.have[2]) == elements(all_of((4, 3))) - elements(row)


def test_copies_are_forgotten_before_there_are_too_many_boxes() -> None:
    scattered = tuple([(range(k, k + 1),) for k in range(0, 4 * MOST_BOXES, 2)])
    state = made((4 * MOST_BOXES,), 8, (all_of((4 * MOST_BOXES,)), scattered), ((), ()))
    assert state.have == (all_of((4 * MOST_BOXES,)), ())


def test_rows_and_columns_that_a_loop_writes_leave_few_boxes() -> None:
    n, ranks = 90, 3
    state = fresh((n, n), 8, ranks).written(tuple([
        ((range(k * n // ranks, (k + 1) * n // ranks), range(n)),) for k in range(ranks)]))
    for i in range(n):
        for line in ((range(i, i + 1), range(i, n)), (range(i, n), range(i, i + 1))):
            before, state = state, state.written(((line,),) * ranks)  # by all ranks, as small tasks are
            assert max(map(len, state.have)) <= MOST_BOXES
            now = [elements(held) for held in state.have]
            assert set.union(*now) == elements(all_of((n, n)))
            assert all(after <= elements(held) | elements((line,))
                       for held, after in zip(before.have, now, strict=True))


def test_memory_of_old_copies_is_given_back() -> None:
    halves: Layout = (((range(4), range(3)),), ((range(4, 8), range(3)),))
    state = everywhere((8, 3), 8, 2).written(halves)
    assert state.stale == 96 and trimmed(state).bytes == (96, 96) and trimmed(state).have == halves
    column: Layout = (((range(8), range(1)),), ((range(8), range(1, 3)),))
    assert trimmed(everywhere((8, 3), 8, 2).written(column)).bytes == (176, 184), "between its rows, too"
    wide: Layout = (((range(4), range(1024)),), ((range(4), range(1024, 4096)),))
    assert trimmed(everywhere((4, 4096), 8, 2).written(wide)).touched == wide, "but not where that is much"
    assert parted(wide[0][0], (4, 4096), 8) == [(4096 * k, 4096 * k + 1024) for k in range(4)]

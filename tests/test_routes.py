"""Routes between layouts: boxes, who sends what to whom, the choice of a route, and routes on real data."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise, product
from math import prod

import numpy
import pytest

from diffuse.ir import Coordinate, Projection, Replicated, Tiling
from diffuse.movement import (
    Layout,
    Machine,
    Route,
    direct,
    gathered,
    layout,
    redistribute,
    synthesised,
    weak,
)
from diffuse.movement.boxes import common, difference, even, intersection, placed
from diffuse.movement.boxes import size as elements
from diffuse.movement.definition.mesh import Mesh, offsets
from diffuse.movement.lowering import lower, matchings
from diffuse.movement.route import Exchange, Group, Pieces
from diffuse.movement.search import cheapest
from diffuse.movement.weak import WeakSpace
from tests import exhaustive, redistributions
from tests.redistributions import layouts

XY = Mesh((("x", 4), ("y", 4)))
SMALL = ((2, 2), (2, 2, 2), (2, 3), (4, 2), (6,), (2, 2, 3))


def test_ranges_and_boxes_are_sets() -> None:
    rng = random.Random(6)

    def box(rank: int) -> tuple[range, ...]:
        return tuple(range(a := rng.randrange(12), a + rng.randrange(14), rng.randint(1, 4))
                     for _ in range(rank))

    for _ in range(600):
        (a,), (b,) = box(1), box(1)
        assert set(common(a, b)) == set(a) & set(b)
        one, other = box(2), box(2)
        both, rest = intersection(one, other), difference(one, other)
        assert set(product(*both or (range(0),))) == set(product(*one)) & set(product(*other))
        apart = [index for each in rest for index in product(*each)]
        assert len(apart) == len(set(apart)) and set(apart) == set(product(*one)) - set(product(*other))


def test_tiles_are_those_of_the_ir() -> None:
    """The sentence in `Tiling`'s docstring, read as a program."""
    rng = random.Random(7)
    for _ in range(200):
        shape = tuple(rng.randint(1, 12) for _ in range(rng.randint(1, 2)))
        domain = redistributions.grid(rng, 4)
        partition = redistributions.tiling(rng, shape, domain, onto=False)
        owned = layout(partition, domain, shape, prod(domain), owner=lambda number: number)
        for point, holding in zip(product(*map(range, domain)), owned):
            at = partition.projection(point)
            start = [c * t + o for c, t, o in zip(at, partition.tile, partition.offset)]
            expected = {index for index in product(*map(range, shape)) if all(
                low <= i < high and 0 <= i - s < extent and (i - s) % stride == 0
                for i, s, extent, stride, (low, high) in zip(index, start, partition.extent, partition.stride,
                                                            partition.bounds))}
            assert {index for each in holding for index in product(*each)} == expected


def rows(shape: tuple[int, ...], ranks: int, axis: int = 0, halo: int = 0) -> Layout:
    """Tiles along one axis, the last one shorter, which overlap by a halo."""
    width = -(-shape[axis] // ranks)
    tile = tuple(width if d == axis else n for d, n in enumerate(shape))
    offset = tuple(-halo if d == axis else 0 for d in range(len(shape)))
    projection = Projection(tuple(Coordinate(0, int(d == axis), 0) for d in range(len(shape))))
    extent = tuple(n + 2 * halo if d == axis else n for d, n in enumerate(tile))
    partition = Tiling(tile, offset, (1,) * len(shape), projection, extent, tuple((0, n) for n in shape))
    return layout(partition, (ranks,), shape, ranks)


def paper_cost(route: Route) -> int:
    """The cost of figure 11, in elements, with a permutation at the size of the tiles that move."""
    total = 0
    for step in route.steps:
        assert isinstance(step, Group)
        if step.kind == "allpermute":
            total += step.load.received
        elif step.kind != "dynslice":
            total += elements(step.held[0])
    return total


def test_permutations_that_are_not_needed_are_not_made() -> None:
    for sizes, have, want in [({"x": 4, "y": 4}, "[16]", "[4{x}16]"),
                              ({"d": 32}, "[32,64{d}2048]", "[1{d}32,2048]"),
                              ({"a": 2, "b": 2, "c": 2}, "[80,40{c}80,72,64]", "[40{b}80,80,36{c}72,64]")]:
        shape, (before, after) = layouts(Mesh(tuple(sizes.items())), have, want)
        route = synthesised(shape, 1, before, after)
        assert route and not any(step.name.startswith("allpermute") for step in route.steps)


def test_permutations_come_once_and_before_gathers() -> None:
    """Figure 3: 12 of 16 devices change their tile.  Section 7.3: the permutation goes before the gathers."""
    shape, (before, after) = layouts(XY, "[32{x}128]", "[32{y}128]")
    route = synthesised(shape, 1, before, after)
    assert route and [step.name for step in route.steps] == ["allpermute of 12 ranks"]
    rng, seen = random.Random(4), 0
    for _ in range(100):
        problem = redistributions.typed(rng)
        found = synthesised(problem.shape, 1, problem.have, problem.want)
        assert found
        kinds = [step.kind for step in found.steps if isinstance(step, Group)]
        assert kinds.count("allpermute") <= 1
        if "allpermute" in kinds and "allgather" in kinds:
            assert kinds.index("allpermute") < kinds.index("allgather")
            seen += 1
    assert seen


def test_near_optimality() -> None:
    """Theorem 6.7, against the least cost of all typed sequences with permutations: never above it."""
    rng = random.Random(5)
    for _ in range(120):
        mesh = Mesh(tuple(zip("abc", rng.choice(SMALL))))
        have, want = redistributions.random_types(rng, mesh, rng.randint(1, 2), lambda n: n)
        fine, names = mesh.refined()
        bound = max(have.localsize, want.localsize)
        least = exhaustive.typed(have.refined(names), want.refined(names), fine, bound)
        route = synthesised(have.shape, 1, *(placed(offsets(each, mesh), each.tile) for each in (have, want)))
        assert least is not None and route and paper_cost(route) <= least


def test_uneven_rows_to_columns() -> None:
    shape = (10, 7)
    route = redistribute(shape, 8, rows(shape, 4), rows(shape, 4, axis=1))
    assert route.method == "direct" and synthesised(shape, 8, rows(shape, 4), rows(shape, 4, axis=1)) is None
    assert [elements(holding) for holding in route.want] == [20, 20, 20, 10]
    assert route.moved == 8 * (70 - 6 * 3 - 1) and route.messages == 12


def test_a_halo_is_all_that_moves() -> None:
    shape = (12, 5)
    route = direct(shape, 1, rows(shape, 4), rows(shape, 4, halo=1))
    assert route.moved == 5 * 6 and route.messages == 6
    assert [peer for peer, _ in route.rank(1)[0].sends] == [0, 2]


def test_nothing_moves_where_all_is_there() -> None:
    shape = (12, 5)
    route = redistribute(shape, 8, layout(Replicated(), (4,), shape, 4), rows(shape, 4))
    assert not route.steps and route.moved == 0
    assert str(route) == "[12, 5] -> [3{4}12, 5] on 4 ranks, direct: nothing moves"


def test_empty_and_scalar_arrays() -> None:
    assert redistribute((), 8, ((((),)), ()), ((((),)), (((),)))).moved == 8
    assert redistribute((0, 4), 8, rows((0, 4), 2), rows((0, 4), 2, axis=1)).moved == 0


def test_what_nobody_holds_is_an_error() -> None:
    with pytest.raises(ValueError, match="lies on 2 ranks and is wanted on 3"):
        redistribute((8,), 8, rows((8,), 2), rows((8,), 3))
    have = (((range(0, 4),),), ((range(5, 8),),))
    with pytest.raises(ValueError, match="no rank holds all of .* which rank 1 wants"):
        redistribute((8,), 8, have, rows((8,), 2))


def test_replicas_share_the_sending() -> None:
    """Rows on two ranks out of eight each, wanted as columns: no rank sends more than twice the mean."""
    shape, (before, after) = layouts(Mesh((("x", 4), ("y", 2))), "[2{x}8, 16]", "[8, 2{x,y}16]")
    load = direct(shape, 1, before, after).steps[0].load
    assert load.received == 12 and load.sent <= 2 * load.moved / 8


def test_groups_of_an_exchange_are_matchings() -> None:
    rng = random.Random(8)
    for parts, times in [(1200, 2), *((rng.randint(2, 6), rng.randint(1, 4)) for _ in range(100))]:
        new = [part for part in range(parts) for _ in range(times)]
        rng.shuffle(new)
        edges = list(zip([part for part in range(parts) for _ in range(times)], new))
        found = matchings(edges, parts)
        assert sorted(number for group in found for number in group) == list(range(len(edges)))
        for group in found:
            assert sorted(edges[n][0] for n in group) == list(range(parts))
            assert sorted(edges[n][1] for n in group) == list(range(parts))


def test_the_choice_follows_the_machine() -> None:
    """On 64 ranks the direct exchange takes 63 messages one after the other, two collectives of 8 take 14."""
    mesh = Mesh((("x", 8), ("y", 8)))
    shape, (before, after) = layouts(mesh, "[2{x}16, 2{y}16, 16, 16]", "[16, 16, 2{x}16, 2{y}16]")
    late, narrow = Machine(latency=1e-4, bandwidth=1e10), Machine(latency=1e-9, bandwidth=1e6)
    assert redistribute(shape, 8, before, after, late).method == "synthesised"
    assert redistribute(shape, 8, before, after, narrow).method == "direct"
    assert [step.load.rounds for step in redistribute(shape, 8, before, after, late).steps] == [7, 7]
    assert [step.load.rounds for step in redistribute(shape, 8, before, after, narrow).steps] == [63]


def test_memory_is_a_limit() -> None:
    """Gathering the whole array takes the fewest messages, and only where there is memory for it."""
    shape, (before, after) = layouts(Mesh((("x", 16),)), "[1{x}16, 16]", "[16, 1{x}16]")
    late = Machine(latency=1e-2)
    whole = redistribute(shape, 8, before, after, late, limit=8 * 512)
    assert whole.method == "gather and slice" and whole.height == 8 * 256
    assert redistribute(shape, 8, before, after, late).peak == 2 * 8 * 16
    with pytest.raises(MemoryError, match="needs 256 bytes on a rank, which may hold 255"):
        redistribute(shape, 8, before, after, late, limit=255)


def test_ranks_agree() -> None:
    """What one rank sends is what the other one expects, and every step says what a rank holds after it."""
    rng = random.Random(9)
    for _ in range(30):
        problem = redistributions.typed(rng)
        for make in (direct, synthesised, gathered):
            route = make(problem.shape, 8, problem.have, problem.want)
            assert route
            turns = [route.rank(rank) for rank in range(len(problem.have))]
            for step in zip(*turns, strict=True):
                sent = sorted((a, b, str(box)) for a, turn in enumerate(step) for b, box in turn.sends)
                got = sorted((a, b, str(box)) for b, turn in enumerate(step) for a, box in turn.receives)
                assert sent == got
            counted = sum(elements((box,)) for each in turns for turn in each for _, box in turn.receives)
            assert 8 * counted == route.moved
            for turn, after in (pair for each in turns for pair in pairwise(each)):
                assert turn.after == after.before


def test_lowered_steps_cost_what_weak_steps_do() -> None:
    rng = random.Random(11)
    for _ in range(100):
        problem = redistributions.typed(rng)
        space, first, last = WeakSpace(problem.shape, len(problem.have)), *(
            even(each, problem.shape) for each in (problem.have, problem.want))
        assert first and last
        steps = cheapest(space, first[0], last[0]).steps
        groups = lower(problem.shape, steps, first[1], first[0], last[1])
        moved = [group for group in groups if group.kind != "allpermute"]
        assert [group.name for group in moved] == [str(step) for step in steps]
        assert sum(group.load.received for group in moved) == weak.received(steps, first[0], space)
        for group in groups:
            for rank in range(len(problem.have)):
                got = sum(elements((box,)) for _, box in group.arriving(rank))
                assert got == group.load.received or group.kind == "allpermute" and got == 0


def test_random_problems() -> None:
    """A sample; `python tests/redistributions.py --problems 100000` checks all."""
    seen = redistributions.run(200, seed=10)
    assert seen["direct"] == 200 and seen["synthesised"] > 100 and seen["that move something"] > 50
    assert seen["with a permutation"] > 10 and seen["chosen: synthesised"] > 5


@pytest.mark.parametrize("change", [lambda pieces: pieces[1:],
                                    lambda pieces: ((4 - pieces[0][0], pieces[0][1]), *pieces[1:])])
def test_the_check_finds_a_wrong_route(change: Callable[[Pieces], Pieces]) -> None:
    """A message less, and one from a rank that does not hold what it sends."""
    shape = (8, 8)
    route = direct(shape, 1, rows(shape, 4), rows(shape, 4, axis=1))
    (step,) = route.steps
    assert isinstance(step, Exchange)
    wrong = replace(step, arrivals=(change(step.arrivals[0]), *step.arrivals[1:]))
    whole = numpy.arange(64).reshape(shape)
    redistributions.execute(route, whole, bound=16)
    with pytest.raises(AssertionError, match="a rank does not hold all of"):
        redistributions.execute(replace(route, steps=(wrong,)), whole, bound=16)
    with pytest.raises(AssertionError, match="16 elements on a rank, which may hold 15"):
        redistributions.execute(route, whole, bound=15)


def test_routes_print(golden: Callable[[str], None]) -> None:
    shape, (before, after) = layouts(Mesh((("x", 4), ("y", 2), ("z", 4))), "[16{x}64, 32{y}64, 64, 64]",
                                     "[64, 64, 16{x}64, 32{y}64]")
    made = [make(shape, 8, before, after) for make in (synthesised, gathered, direct)]
    golden("\n\n".join(map(str, [*made, direct((10, 7), 8, rows((10, 7), 4), rows((10, 7), 4, axis=1))])))
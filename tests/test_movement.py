"""Redistribution: types and collectives by enumeration, the search by exhaustive search, routes on real data.

After "Memory-efficient array redistribution through portable collective communication" (Rink et al., 2021).
"""

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
    exhaustive,
    gathered,
    layout,
    meaning,
    redistribute,
    synthesised,
    weak,
)
from diffuse.movement import collectives as typing
from diffuse.movement.boxes import common, difference, even, intersection, placed
from diffuse.movement.boxes import size as elements
from diffuse.movement.collectives import AllGather, AllPermute, AllToAll, DynSlice, typed
from diffuse.movement.direct import lacking
from diffuse.movement.lowering import lower, matchings
from diffuse.movement.mesh import Mesh, check, distributed, offsets
from diffuse.movement.route import Exchange, Group, Pieces
from diffuse.movement.search import cheapest
from diffuse.movement.weak import Space, WeakStep
from tests import redistributions

XY = Mesh((("x", 4), ("y", 4)))
SMALL = ((2, 2), (2, 2, 2), (2, 3), (4, 2), (6,), (2, 2, 3))


def layouts(mesh: Mesh, *types: str) -> tuple[tuple[int, ...], list[Layout]]:
    """The shape of types and what ranks hold under each."""
    found = [distributed(text) for text in types]
    for each in found:
        check(each, mesh)
    return found[0].shape, [placed(offsets(each, mesh), each.tile) for each in found]


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


# Types and their meaning

def test_types_print_and_are_read() -> None:
    for text in ("[32{x,y}512, 128]", "[16]", "[3{x}12, 2{y}12]", "[]"):
        assert str(distributed(text)) == text


@pytest.mark.parametrize("text, why", [
    ("[32{x}512]", "4 tiles of 32, which are not 512"),
    ("[4{x}16, 4{x}16]", "an axis twice"),
    ("[4{z}16]", "which the mesh {x: 4, y: 4} has not"),
])
def test_ill_formed_types_are_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        check(distributed(text), XY)


def test_axes_are_minor_to_major() -> None:
    found = distributed("[1{x,y}4]")
    mesh = Mesh((("x", 2), ("y", 2)))
    at = {(c["x"], c["y"]): base for c, base in zip(map(mesh.coordinates, range(4)), offsets(found, mesh))}
    assert at == {(0, 0): (0,), (1, 0): (1,), (0, 1): (2,), (1, 1): (3,)}


def test_prime_axes_say_the_same() -> None:
    mesh = Mesh((("x", 4), ("y", 6)))
    fine, names = mesh.refined()
    assert fine.axes == (("x.1", 2), ("x.0", 2), ("y.1", 3), ("y.0", 2))
    for text in ("[3{x}12, 2{y}12]", "[1{y,x}24]", "[1{x,y}24]"):
        found = distributed(text)
        assert offsets(found.refined(names), fine) == offsets(found, mesh)


@pytest.mark.parametrize("sizes", SMALL)
def test_every_type_is_even(sizes: tuple[int, ...]) -> None:
    """Lemmas 4.1 and 4.2: tiles begin at all multiples of the tile, equally often."""
    mesh = Mesh(tuple(zip("abc", sizes)))
    for found in exhaustive.types((12, 4), mesh):
        parts, begins = even(placed(offsets(found, mesh), found.tile), found.shape) or ((), ())
        assert parts == tuple(d.size // d.tile for d in found.dimensions)
        assert set(begins) == set(product(*(range(0, d.size, d.tile) for d in found.dimensions)))


@pytest.mark.parametrize("sizes", SMALL)
def test_the_typing_rules_say_what_collectives_do(sizes: tuple[int, ...]) -> None:
    rng = random.Random(str(sizes))
    mesh = Mesh(tuple(zip("abc", sizes)))
    every = list(exhaustive.types((12, 4), mesh))
    for before in rng.sample(every, min(12, len(every))):
        tiles = meaning.held(before, mesh, lambda index: f"element {index}")
        steps: list[typing.Collective] = list(meaning.steps(before, mesh))
        steps += [AllPermute(other) for other in every if other.tile == before.tile]
        for step in rng.sample(steps, min(12, len(steps))):
            after = typed(step, before, mesh)
            check(after, mesh)
            assert meaning.perform(step, tiles, mesh) == \
                meaning.held(after, mesh, lambda index: f"element {index}")


@pytest.mark.parametrize("step, before, rule", [
    (AllGather(0, ("y",)), "[32{x,y}512, 128]", "T-ALLGATHER: y is not minor-most"),
    (AllGather(1, ("y",)), "[32{x,y}512, 128]", "T-ALLGATHER"),
    (DynSlice(1, ("x",)), "[32{x,y}512, 128]", "T-DYNSLICE: x already cuts"),
    (DynSlice(0, ("x",)), "[6]", "T-DYNSLICE: tiles of 6 cannot be cut into 4 parts"),
    (AllToAll(0, 1, ("x",)), "[32{x,y}512, 6]", "T-ALLTOALL: tiles of 6"),
    (AllToAll(0, 0, ("x",)), "[32{x,y}512, 6]", "T-ALLTOALL: from dimension 0 to itself"),
    (AllPermute(distributed("[8{x}32]")), "[32]", "T-PERMUTE"),
])
def test_rules_that_do_not_apply(step: typing.Collective, before: str, rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        typed(step, distributed(before), XY)


def test_the_printed_sequence_of_example_3_1() -> None:
    """The paper prints its second exchange as alltoall(1, 0); by its own rule it is alltoall(0, 1)."""
    mesh = Mesh((("x1", 2), ("x2", 2), ("y1", 3), ("y2", 2)))
    sequence: list[typing.Collective] = [
        AllToAll(1, 0, ("y1",)), AllPermute(distributed("[1{x1,y1,x2}12, 6{y2}12]")),
        AllToAll(0, 1, ("x1",)), AllPermute(distributed("[2{y1,y2}12, 3{x1,x2}12]"))]
    found = typing.types(sequence, distributed("[3{x1,x2}12, 2{y1,y2}12]"), mesh)
    assert str(found[-2]) == "[2{y1,x2}12, 3{x1,y2}12]"
    assert typing.is_normal(sequence) and typing.height(found) == 6 and typing.cost(sequence, found) == 24


@pytest.mark.parametrize("sizes", SMALL)
def test_weak_types_are_tile_shapes(sizes: tuple[int, ...]) -> None:
    mesh = Mesh(tuple(zip("abc", sizes)))
    every = list(exhaustive.types((6, 4), mesh))
    for one, other in random.Random(1).sample(list(product(every, every)), min(60, len(every) ** 2)):
        assert meaning.same_weak_type(one, other, mesh) == (one.tile == other.tile)


# Weak sequences and the search

def weak_problem(rng: random.Random) -> tuple[Space, tuple[int, ...], tuple[int, ...]]:
    mesh = Mesh(tuple(zip("abc", rng.choice(SMALL))))
    have, want = redistributions.random_types(rng, mesh, rng.randint(1, 3), lambda n: n * rng.choice((1, 2)))
    have_parts, want_parts = (tuple(d.size // d.tile for d in each.dimensions) for each in (have, want))
    return Space(have.shape, mesh.count), have_parts, want_parts


def test_normal_forms() -> None:
    """Theorem 4.8 and lemma 6.5: the same ends, no more memory than at the ends, no more cost."""
    rng, rewritten = random.Random(2), 0
    for _ in range(400):
        space, parts, _ = weak_problem(rng)
        dimensions = [None, *range(len(parts))]
        steps: list[WeakStep] = []
        for _ in range(60):
            step = WeakStep(rng.choice(dimensions), rng.choice(dimensions), rng.choice((2, 3, 4, 6)))
            if space.allows(step, weak.walk(steps, parts)[-1]):
                steps.append(step)
        found = weak.normal(steps)
        ends = parts, weak.walk(steps, parts)[-1]
        assert weak.is_normal(found) and weak.walk(found, parts)[-1] == ends[1]
        assert all(space.allows(step, at) for step, at in zip(found, weak.walk(found, parts)))
        assert weak.height(found, parts, space) <= max(map(space.localsize, ends))
        assert weak.cost(found, parts, space) <= weak.cost(steps, parts, space)
        rewritten += not weak.is_normal(steps)
    assert rewritten > 300


def test_the_search_finds_the_least_cost() -> None:
    rng = random.Random(3)
    for number in range(250):
        space, have, want = weak_problem(rng)
        found = cheapest(space, have, want, ties=4)
        bound = max(space.localsize(have), space.localsize(want))
        for steps in found.sequences:
            assert weak.walk(steps, have)[-1] == want and weak.is_normal(steps)
            assert all(space.allows(step, at) for step, at in zip(steps, weak.walk(steps, have)))
            assert weak.cost(steps, have, space) == exhaustive.weak(space, have, want, bound)
        assert found.optimal and len(set(found.sequences)) == len(found.sequences)
        if number % 5 == 0:  # memory without a bound would not make it cheaper
            assert exhaustive.weak(space, have, want, prod(space.shape)) == \
                weak.cost(found.steps, have, space)


def test_a_search_ends_at_its_limit_with_a_whole_sequence() -> None:
    space, have, want = Space((24, 12, 12), 72), (12, 6, 1), (1, 2, 6)
    first, best = cheapest(space, have, want, limit=1), cheapest(space, have, want)
    assert (first.optimal, best.optimal) == (False, True)
    assert weak.walk(first.steps, have)[-1] == want
    assert [weak.cost(found.steps, have, space) for found in (first, best)] == [432, 384]


def test_what_devices_cannot_hold_is_refused() -> None:
    with pytest.raises(ValueError, match="8 devices cannot hold an array of shape \\(6, 4\\) in \\(4, 1\\)"):
        cheapest(Space((6, 4), 8), (4, 1), (2, 1))


COSTS = [
    # mesh, have, want, the cost in elements without a permutation, the most that a rank lacks
    ({"d": 32}, "[32,64{d}2048]", "[1{d}32,2048]", 2048, 1984),
    ({"x": 4, "y": 4}, "[32{x,y}512,128]", "[128{x}512,32{y}128]", 4096, 4096),
    ({"x": 4, "y": 4}, "[32{x}128,512,32{y}128]", "[128,32{x,y}512,128]", 1048576, 491520),
    ({"x": 4, "y": 4}, "[32{x}128,512,32{y}128]", "[128,128{y}512,128]", 2621440, 1966080),
    ({"x": 4, "y": 6}, "[3{x}12,2{y}12]", "[2{y}12,3{x}12]", 12, 6),
    ({"a": 8}, "[1{a}8,8]", "[8,1{a}8]", 8, 7),
    ({"x": 4, "y": 4}, "[16]", "[4{x}16]", 0, 0),
    ({"x": 4, "y": 4}, "[32{x}128]", "[32{y}128]", 0, 32),
    ({"a": 2, "b": 2, "c": 2}, "[360,184{c}368,320]", "[90{c,a}360,368,160{b}320]", 5299200, 2649600),
    ({"a": 2, "b": 2, "c": 2}, "[80,40{c}80,72,64]", "[40{b}80,80,36{c}72,64]", 7372800, 3686400),
    ({"a": 2, "b": 2, "c": 2}, "[296,360,156{c}312]", "[74{b,c}296,180{a}360,312]", 4155840, 2077920),
    ({"a": 2, "b": 2, "c": 2}, "[8{c}16,16,16,8{a}16,16,8{b}16]", "[16,16,16,16,16,8{a}16]",
     10485760, 8388608),
    ({"x": 4, "y": 2, "z": 4}, "[16{x}64,32{y}64,64,64]", "[64,64,16{x}64,32{y}64]", 2621440, 1835008),
]


@pytest.mark.parametrize("sizes, have, want, cost, least", COSTS)
def test_the_papers_problems(sizes: dict[str, int], have: str, want: str, cost: int, least: int) -> None:
    """Sections 2.4, 2.6, 3, 4.9, 7 and figures 5, 12 and 13 of the paper, recomputed."""
    shape, (before, after) = layouts(Mesh(tuple(sizes.items())), have, want)
    space, first, last = Space(shape, len(before)), even(before, shape), even(after, shape)
    assert first and last
    assert weak.cost(cheapest(space, first[0], last[0]).steps, first[0], space) == cost
    assert max(lacking(before, after)) == least == direct(shape, 1, before, after).received


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


# Boxes

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


# Routes

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
        space, first, last = Space(problem.shape, len(problem.have)), *(
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

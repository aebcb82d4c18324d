"""Redistribution: types and collectives by enumeration, and the search by exhaustive search.

After "Memory-efficient array redistribution through portable collective communication" (Rink et al., 2021).
"""

from __future__ import annotations

import random
from itertools import product
from math import prod

import pytest

from diffuse.movement import direct, weak
from diffuse.movement.boxes import even, placed
from diffuse.movement.definition import collectives as typing
from diffuse.movement.definition import meaning
from diffuse.movement.definition.collectives import AllGather, AllPermute, AllToAll, DynSlice, typed
from diffuse.movement.definition.mesh import Mesh, check, distributed, offsets
from diffuse.movement.direct import lacking
from diffuse.movement.search import cheapest
from diffuse.movement.weak import WeakSpace, WeakStep
from tests import exhaustive, redistributions
from tests.redistributions import layouts

XY = Mesh((("x", 4), ("y", 4)))
SMALL = ((2, 2), (2, 2, 2), (2, 3), (4, 2), (6,), (2, 2, 3))


# Types and their meaning

def test_types_print_and_are_read() -> None:
    for text in ("[32{x,y}512, 128]", "[16]", "[3{x}12, 2{y}12]", "[]"):
        assert str(distributed(text)) == text


@pytest.mark.parametrize("text, why", [
    ("[32{x}512]", "4 tiles of 32, which are not 512"),
    ("[4{x}16, 4{x}16]", "an axis twice"),
    ("[4{z}16]", "which the mesh {x: 4, y: 4} does not have"),
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

def weak_problem(rng: random.Random) -> tuple[WeakSpace, tuple[int, ...], tuple[int, ...]]:
    mesh = Mesh(tuple(zip("abc", rng.choice(SMALL))))
    have, want = redistributions.random_types(rng, mesh, rng.randint(1, 3), lambda n: n * rng.choice((1, 2)))
    have_parts, want_parts = (tuple(d.size // d.tile for d in each.dimensions) for each in (have, want))
    return WeakSpace(have.shape, mesh.count), have_parts, want_parts


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
        found = exhaustive.normal(steps)
        ends = parts, weak.walk(steps, parts)[-1]
        assert exhaustive.is_normal(found) and weak.walk(found, parts)[-1] == ends[1]
        assert all(space.allows(step, at) for step, at in zip(found, weak.walk(found, parts)))
        assert weak.height(found, parts, space) <= max(map(space.localsize, ends))
        assert weak.cost(found, parts, space) <= weak.cost(steps, parts, space)
        rewritten += not exhaustive.is_normal(steps)
    assert rewritten > 300


def test_the_search_finds_the_least_cost() -> None:
    rng = random.Random(3)
    for number in range(250):
        space, have, want = weak_problem(rng)
        found = cheapest(space, have, want, ties=4)
        bound = max(space.localsize(have), space.localsize(want))
        for steps in found.sequences:
            assert weak.walk(steps, have)[-1] == want and exhaustive.is_normal(steps)
            assert all(space.allows(step, at) for step, at in zip(steps, weak.walk(steps, have)))
            assert weak.cost(steps, have, space) == exhaustive.weak(space, have, want, bound)
        assert found.optimal and len(set(found.sequences)) == len(found.sequences)
        if number % 5 == 0:  # memory without a bound would not make it cheaper
            assert exhaustive.weak(space, have, want, prod(space.shape)) == \
                weak.cost(found.steps, have, space)


def test_a_search_ends_at_its_limit_with_a_whole_sequence() -> None:
    space, have, want = WeakSpace((24, 12, 12), 72), (12, 6, 1), (1, 2, 6)
    first, best = cheapest(space, have, want, limit=1), cheapest(space, have, want)
    assert (first.optimal, best.optimal) == (False, True)
    assert weak.walk(first.steps, have)[-1] == want
    assert [weak.cost(found.steps, have, space) for found in (first, best)] == [432, 384]


def test_what_devices_cannot_hold_is_refused() -> None:
    with pytest.raises(ValueError, match="8 devices cannot hold an array of shape \\(6, 4\\) in \\(4, 1\\)"):
        cheapest(WeakSpace((6, 4), 8), (4, 1), (2, 1))


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
    space, first, last = WeakSpace(shape, len(before)), even(before, shape), even(after, shape)
    assert first and last
    assert weak.cost(cheapest(space, first[0], last[0]).steps, first[0], space) == cost
    assert max(lacking(before, after)) == least == direct(shape, 1, before, after).received

"""Random redistributions, carried out on NumPy arrays: `python tests/redistributions.py --problems 100000`.

Each problem is an array, a layout that ranks have of it and one that they want.  Every route between the two
is executed message by message.  It is right if each rank holds in the end what it wants, if no message has
elements that its sender does not hold, and if no rank ever holds more than the larger of both ends.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from math import lcm, prod

import numpy
from numpy.typing import NDArray

from diffuse.ir import Coordinate, Projection, Replicated, Tiling
from diffuse.movement import Layout, Route, direct, gathered, layout, redistribute, synthesised
from diffuse.movement.boxes import Box, Holding, intersection, placed, size, total
from diffuse.movement.definition import mesh as meshes
from diffuse.movement.definition.mesh import Dimension, DistributedType, Mesh, distributed, offsets

MESHES = ((2, 2), (4,), (2, 2, 2), (2, 3), (4, 2), (6,), (2, 2, 3), (3, 4), (4, 4), (2, 3, 4), (3, 3), (5, 2),
          (4, 6))
MOST = 4096
"""Elements of an array, at most."""

Array = NDArray[numpy.int64]
Held = list[tuple[Box, Array]]
"""The boxes that a rank holds, with their elements."""


@dataclass(frozen=True)
class Problem:
    """An array, and what ranks have and want of it."""

    shape: tuple[int, ...]
    have: Layout
    want: Layout
    text: str


def random_types(rng: random.Random, mesh: Mesh, rank: int,
                 size: Callable[[int], int]) -> tuple[DistributedType, DistributedType]:
    """Two types of one array over a mesh, every axis of which cuts one dimension of each or none.

    `size` gives the size of a dimension, a multiple of what it is called with.
    """
    cuts: list[list[list[str]]] = [[[] for _ in range(rank)] for _ in range(2)]
    for cut in cuts:
        for name, _ in rng.sample(mesh.axes, len(mesh.axes)):
            if (d := rng.randrange(-1, rank)) >= 0:
                cut[d].append(name)
    parts = [[prod(mesh.sizes[axis] for axis in names) for names in cut] for cut in cuts]
    shape = [size(lcm(a, b)) for a, b in zip(*parts, strict=True)]
    have, want = (DistributedType(tuple(Dimension(n // m, tuple(names), n)
                                        for n, m, names in zip(shape, part, cut, strict=True)))
                  for part, cut in zip(parts, cuts, strict=True))
    return have, want


def layouts(mesh: Mesh, *types: str) -> tuple[tuple[int, ...], list[Layout]]:
    """The shape of types and what ranks hold under each."""
    found = [distributed(text) for text in types]
    for each in found:
        meshes.check(each, mesh)
    return found[0].shape, [placed(offsets(each, mesh), each.tile) for each in found]


def typed(rng: random.Random) -> Problem:
    """A problem between two distributed types."""
    mesh = Mesh(tuple(zip("abc", rng.choice(MESHES), strict=False)))
    while True:
        have, want = random_types(rng, mesh, rng.randint(1, 4), lambda step: step * rng.choice((1, 1, 2)))
        if prod(have.shape) <= MOST:
            return Problem(have.shape, placed(offsets(have, mesh), have.tile),
                           placed(offsets(want, mesh), want.tile), f"{have} -> {want} on {mesh}")


def tiled(rng: random.Random) -> Problem:
    """A problem between two partitions of the IR, whose tiles may be uneven, empty, overlapping, clipped or
    strided; the first one holds every element."""
    while True:
        shape = tuple(rng.randint(1, 24) for _ in range(rng.randint(1, 3)))
        ranks = rng.choice((1, 2, 3, 4, 6, 8, 12))
        if prod(shape) <= MOST:
            break
    found, texts = [], []
    for onto in (True, False):
        domain = grid(rng, ranks)
        partition = (Replicated() if rng.random() < 0.1 else
                     tiling(rng, shape, domain, onto))
        found.append(layout(partition, domain, shape, ranks))
        texts.append(f"{partition} over {domain}")
    return Problem(shape, found[0], found[1], f"{shape}: " + " -> ".join(texts))


def grid(rng: random.Random, ranks: int) -> tuple[int, ...]:
    """A launch domain of some rank, of as many points as there are ranks or fewer."""
    points = rng.choice((ranks, ranks, max(1, ranks - 1)))
    first = rng.choice([n for n in range(1, points + 1) if points % n == 0])
    return (points,) if rng.random() < 0.5 else (first, points // first)


def tiling(rng: random.Random, shape: tuple[int, ...], domain: tuple[int, ...], onto: bool) -> Tiling:
    """Tiles of an array; if they are to be onto, every element is in one."""
    free = rng.sample(range(len(domain)), len(domain))
    tile, offset, stride, coordinates, extent, bounds = [], [], [], [], [], []
    for n in shape:
        low, high, step, dim = 0, n, 1, free.pop() if free and rng.random() < 0.8 else None
        if not onto and rng.random() < 0.3:
            low = rng.randrange(n)
            high, step = rng.randint(low, n), rng.randint(1, 3)
        parts = 1 if dim is None else domain[dim]
        width = -(-max(high - low, 1) // parts)
        width = -(-width // step) * step
        halo = rng.choice((0, 0, 1, 2))
        turned = dim is not None and rng.random() < 0.2
        begin = low + (parts - 1) * width if turned else low
        tile.append(width)
        offset.append(begin - halo * step)
        stride.append(step)
        coordinates.append(Coordinate(dim or 0, 0 if dim is None else -1 if turned else 1, 0))
        extent.append(width + 2 * halo * step)
        bounds.append((low, high))
    return Tiling(tuple(tile), tuple(offset), tuple(stride), Projection(tuple(coordinates)), tuple(extent),
                  tuple(bounds))


def within(inner: range, outer: range) -> slice:
    """The positions of the numbers of one range in another range that contains them."""
    if inner.step == outer.step == 1:
        return slice(inner.start - outer.start, inner.stop - outer.start)
    step = inner.step // outer.step if len(inner) > 1 else 1
    first = outer.index(inner[0])
    return slice(first, first + (len(inner) - 1) * step + 1, step)


def read(arrays: Held, box: Box) -> Array:
    """Read the elements of a box from the arrays of one rank, which must have all of them."""
    if arrays and arrays[0][0] == box:
        return arrays[0][1]
    found = numpy.full([len(r) for r in box], -1)
    for held, array in arrays:
        both = intersection(box, held)
        if both is not None:
            found[tuple(map(within, both, box))] = array[tuple(map(within, both, held))]
    assert (found >= 0).all(), f"a rank does not hold all of {box}"
    return found


def part(whole: Array, box: Box) -> Array:
    """The elements of a box from the whole array."""
    return whole[tuple(slice(r.start, r.stop, r.step) for r in box)]


def execute(route: Route, whole: Array, bound: int) -> list[Held]:
    """Carry out a route: what each rank holds in the end, made of messages and of what it held itself.

    Raises AssertionError if a rank holds more than `bound` elements between two steps.
    """
    ranks = range(len(route.have))
    held = [[(box, part(whole, box)) for box in holding] for holding in route.have]
    turns = [route.rank(rank) for rank in ranks]
    for number in range(len(route.steps)):
        posted = {(rank, other, box): read(held[rank], box)
                  for rank in ranks for other, box in turns[rank][number].sends}
        following = []
        for rank in ranks:
            turn = turns[rank][number]
            got = held[rank] + [(box, posted.pop((other, rank, box))) for other, box in turn.receives]
            following.append([(box, read(got, box)) for box in turn.after])
        assert not posted, "what is sent is received"
        held = following
        most = max(sum(array.size for _, array in arrays) for arrays in held)
        assert most <= bound, f"{most} elements on a rank, which may hold {bound}"
    return held


def lacks(whole: Array, held: Holding, wanted: Holding) -> int:
    """How many elements a rank wants and does not hold."""
    missing = numpy.zeros(whole.shape, bool)
    for boxes, value in (wanted, True), (held, False):
        for box in boxes:
            missing[tuple(slice(r.start, r.stop, r.step) for r in box)] = value
    return int(missing.sum())


def check(problem: Problem, everything: bool) -> Counter[str]:
    """Execute the routes of a problem, gathering and slicing only for `everything`; counts what was seen."""
    seen: Counter[str] = Counter(problems=1)
    whole = numpy.arange(prod(problem.shape)).reshape(problem.shape)
    bound = max(total(problem.have), total(problem.want))
    least = [lacks(whole, *holdings) for holdings in zip(problem.have, problem.want, strict=True)]
    makes = (direct, synthesised, gathered) if everything else (direct, synthesised)
    routes = [make(problem.shape, 1, problem.have, problem.want) for make in makes]
    chosen = redistribute(problem.shape, 1, problem.have, problem.want)
    for route in routes:
        if route is None:
            continue
        limited = route.method != "gather and slice"
        held = execute(route, whole, bound if limited else whole.size)
        for rank, wanted in enumerate(problem.want):
            for box in wanted:
                assert (read(held[rank], box) == part(whole, box)).all()
        seen[route.method] += 1
        if limited:
            assert route.height <= bound and route.peak <= 2 * bound
        if route.method == "direct":
            assert route.moved == sum(least) and route.received == max(least)
            assert not route.steps or max(map(size, route.held[-1])) == total(problem.want)
        if route.method == "synthesised":
            permuted = sum(step.name.startswith("allpermute") for step in route.steps)
            assert permuted <= 1
            seen["with a permutation"] += permuted
            seen["that move something"] += route.moved > 0
    assert chosen.peak <= 2 * bound
    seen[f"chosen: {chosen.method}"] += 1
    return seen


def run(problems: int, seed: int) -> Counter[str]:
    """Check so many problems, half of them between distributed types and half between partitions."""
    seen: Counter[str] = Counter()
    for number in range(problems):
        rng = random.Random(f"{seed}/{number}")
        problem = (typed, tiled)[number % 2](rng)
        try:
            seen += check(problem, everything=number % 20 < 2)
        except Exception as error:
            raise AssertionError(f"problem {number} of seed {seed}: {problem.text}") from error
    return seen


def main() -> None:
    parser = argparse.ArgumentParser(description="random redistributions, carried out on NumPy arrays")
    parser.add_argument("--problems", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    start = time.process_time()
    for what, count in run(asked.problems, asked.seed).items():
        print(f"{count:9,} {what}")
    print(f"{time.process_time() - start:9.1f} s of processor time")


if __name__ == "__main__":
    main()

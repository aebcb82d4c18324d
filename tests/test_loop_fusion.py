"""Which loops of a body become one, and in which order the fused loops run (kernels/body/loop_fusion.py)."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse.ir import IndexTask, Relation
from diffuse.kernels.body.compose import compose
from diffuse.kernels.body.loop_fusion import LoopFusion, Touched
from diffuse.settings import using
from tests.test_compose import Array, task
from tests.test_fuzz_stream import stream

KINDS = *["load"] * 6, *["store"] * 4, "reduce", "look"
READS = {"load", "look"}
RELATIONS = Relation.APART, Relation.APART, Relation.SAME, Relation.ALIGNED
Loops = list[tuple[int, Touched, bool]]
"""For each loop its space, what it touches, and whether it is alone."""


class Case:
    """A random sequence of loops on views that share elements or not."""

    def __init__(self, seed: int) -> None:
        rng = Random(seed)
        self.table = {(slot, a, b): rng.choice(RELATIONS)
                      for slot in range(6) for a in range(3) for b in range(a, 3)}
        self.loops: Loops = []
        for _ in range(rng.randint(1, 14)):
            touched: Touched = {}
            for _ in range(rng.randint(1, 4)):
                touched.setdefault(rng.randint(0, 5), set()).add((rng.randint(0, 2), rng.choice(KINDS)))
            self.loops.append((rng.randint(0, 2), touched, rng.random() < 0.1))

    def relation(self, slot: int, a: int, b: int) -> Relation:
        return self.table[slot, min(a, b), max(a, b)]

    def needs(self, before: int, after: int) -> bool | None:
        """Must one loop have ended before the other?  False: each iteration depends on its own at most;
        None: nothing depends on the order."""
        found = None
        for slot, accesses in self.loops[after][1].items():
            for other, earlier in self.loops[before][1].get(slot, ()):
                for view, later in accesses:
                    how = Relation.SAME if view == other else self.relation(slot, other, view)
                    if {earlier, later} <= READS or how is Relation.APART:
                        continue
                    if how is not Relation.SAME or not {earlier, later}.isdisjoint(("reduce", "look")):
                        return True
                    found = False
        return found


def cases() -> Iterator[tuple[Case, LoopFusion]]:
    for seed in range(400):
        case = Case(seed)
        yield case, LoopFusion(case.relation, lambda slot, view: range(3))


@pytest.mark.parametrize("fed", [False, True])
def test_fused_loops_keep_every_dependence(fed: bool) -> None:
    joined = 0
    for case, fusion in cases():
        homes = [fusion.add(*loop, fed) for loop in case.loops]
        homes = [fusion.home(home) for home in homes]
        order = fusion.order()
        assert sorted(order) == sorted(set(homes))
        assert fusion.count == len(order)
        joined += len(homes) - len(order)
        for after, home in enumerate(homes):
            for before in range(after):
                needs = case.needs(before, after)
                if homes[before] == home:
                    assert not needs
                    assert case.loops[before][0] == case.loops[after][0]
                    assert not case.loops[before][2]
                    assert not case.loops[after][2]
                elif needs is not None:
                    assert order.index(homes[before]) < order.index(home)
    assert joined > 150


def test_a_loop_joins_the_last_one_that_nothing_between_keeps_it_from() -> None:
    """Against the definition: no third fused loop has to run between the two."""
    for case, fusion in cases():
        fused: list[list[int]] = []
        for number, (space, touched, alone) in enumerate(case.loops):
            def behind(one: int, other: int, fused: list[list[int]] = fused, case: Case = case) -> bool:
                return any(case.needs(a, b) is not None for a in fused[one] for b in fused[other] if a < b)

            follows = [[k for k in range(len(fused)) if k != n and behind(n, k)] for n in range(len(fused))]
            needed = [[case.needs(k, number) for k in group] for group in fused]

            def between(n: int, follows: list[list[int]] = follows, needed: list[Any] = needed) -> bool:
                """Does a fused loop that the new one depends on have to follow this one?"""
                seen, ahead = {n}, [*follows[n]]
                while ahead:
                    k = ahead.pop()
                    if any(answer is not None for answer in needed[k]):
                        return True
                    ahead += [m for m in follows[k] if m not in seen]
                    seen.add(k)
                return False

            may = [n for n, group in enumerate(fused) if case.loops[group[0]][0] == space and not alone
                   and not case.loops[group[0]][2] and True not in needed[n] and not between(n)]
            home = may[-1] if may else len(fused)
            assert fusion.add(space, touched, alone) == home
            if home == len(fused):
                fused.append([])
            fused[home].append(number)


a, b, w, g, s, t, u = (Array(i, (8, 5)) for i in range(7))


def half(array: Array, number: int) -> Array:
    """Four of the eight rows: loops over these have another space."""
    return array.part(number * 20, (4, 5))


def composed(tasks: list[IndexTask], temporaries: set[int]) -> tuple[list[list[str]], frozenset[int]]:
    """The operations of each loop, without loads and stores, and the slots that vanish."""
    with using(check=True):
        found = compose(tasks, temporaries)
    return [[op.kind for op in loop.ops if op.kind not in ("load", "store")]
            for loop in found.body.loops], found.vanished


def test_a_loop_that_makes_an_operand_moves_before_the_loop_that_its_user_joins() -> None:
    tasks = [task("subtract", [a, b], t), *[task("negative", [half(w, k)], half(g, k)) for k in range(2)],
             task("multiply", [t, g], s)]
    loops, vanished = composed(tasks, {3, 5})
    assert loops == [["negative", "negative"], ["subtract", "multiply"]]
    assert len(vanished) == 1


def test_a_loop_joins_its_user_rather_than_an_earlier_loop() -> None:
    """The last loop has to follow the first one, which computes with another number of rows in between."""
    tasks = [task("add", [a, b], s), task("negative", [half(s, 0)], half(g, 0)), task("multiply", [a, w], t),
             task("subtract", [g, t], u)]
    loops, vanished = composed(tasks, {5})
    assert loops == [["add"], ["negative"], ["multiply", "subtract"]]
    assert len(vanished) == 1


def test_both_loops_that_make_operands_of_a_third_one_join_it() -> None:
    tasks = [task("add", [a, b], s), task("multiply", [a, w], t), task("subtract", [s, t], u)]
    assert composed(tasks, {4, 5})[0] == [["add", "multiply", "subtract"]]


def gradients(m: Any, x: Any, wet: Any, width: Any) -> list[Any]:
    """Differences of two components on the wet faces, and what they sum up to."""
    found = [m.zeros_like(x) for _ in range(2)]
    found[0][1:] = (x[1:] - x[:-1]) / width[1:, None, None] * (wet[1:] * wet[:-1])[..., None]
    found[1][:, 1:] = (x[:, 1:] - x[:, :-1]) / width[None, 1:, None] * (wet[:, 1:] * wet[:, :-1])[..., None]
    total = found[0] * wet[..., None]
    total[:, 1:] -= found[1][:, :-1]
    return [*found, total]


@pytest.mark.parametrize("points", [1, 2])
def test_programs_with_several_spaces_have_numpys_results(points: int) -> None:
    pick = numpy.random.default_rng(3)
    arrays = pick.random((36, 36, 2)), pick.integers(0, 2, (36, 36)).astype(float), pick.random(36) + 1.0
    expected = gradients(numpy, *arrays)
    with stream(points, small=0, min_chunk=64):
        found = gradients(np, *[np.array(x) for x in arrays])
        for ours, theirs in zip(found, expected, strict=True):
            assert numpy.asarray(ours).tobytes() == theirs.tobytes()

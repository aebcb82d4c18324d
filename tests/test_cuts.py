"""Operations on arrays and on parts of them within a border are cut alike, and fuse (stream/cuts.py)."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse import ir
from diffuse.fusion import definition
from diffuse.ir import Decomposition, Privilege, Relation, Split
from diffuse.ir.check import check
from diffuse.stream import blocking, cuts
from tests.build import Region, access, array
from tests.build import task as made
from tests.each import rounds
from tests.outcomes import launches
from tests.test_fuzz_stream import stream

ROWS = 81

LOCAL = pytest.mark.local_only("the runtime places the memory of stores itself")


def inner(m: Any, x: Any, y: Any) -> Any:
    """Zeros, of which two inner parts are computed with parts of inputs; then the whole."""
    z = m.zeros_like(x)
    z[1:-1, 2:-2] = x[1:-1, 2:-2] * 2.0 - y[:-2, 2:-2]
    z[2:-2] += m.sqrt(y[2:-2]) * z[2:-2]
    w = z / (x + 3.0)
    w[:-1] -= w[:-1] * (x[1:] - x[:-1])
    return w


def inputs(rows: int = ROWS) -> tuple[Any, Any]:
    pick = numpy.random.default_rng(rows)
    return pick.random((rows, 30)), pick.random((rows, 30))


@LOCAL
@pytest.mark.parametrize("points", [2, 3, 4])
def test_parts_within_a_border_fuse_with_the_whole(points: int) -> None:
    x, y = inputs()
    with stream(points, small=0, min_chunk=64, compile="wait"):
        ours = np.array(x), np.array(y)
        for _ in range(2):  # analysed, then replayed
            assert launches(lambda: inner(np, *ours)) == 1
            assert numpy.array(inner(np, *ours)).tobytes() == inner(numpy, x, y).tobytes()


@LOCAL
def test_large_tasks_are_cut_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuts, "MOST", 1000)
    x, y = inputs()
    with stream(2, small=0, min_chunk=64, compile="wait"):
        ours = np.array(x), np.array(y)
        assert launches(lambda: inner(np, *ours)) > 1


@LOCAL
@pytest.mark.parametrize("compile", ["wait", "off"])
def test_pieces_that_stay_in_cache(monkeypatch: pytest.MonkeyPatch, compile: str) -> None:
    """Pieces of two rows, shorter than the border is wide."""
    monkeypatch.setattr(blocking, "CACHE", 1 << 8)
    monkeypatch.setattr(blocking, "LEAST", 1)
    x, y = inputs()
    with stream(2, small=0, min_chunk=64, compile=compile):
        ours = np.array(x), np.array(y)
        for _ in range(2):
            assert numpy.array(inner(np, *ours)).tobytes() == inner(numpy, x, y).tobytes()


def program(pick: random.Random, m: Any, x: Any, y: Any) -> list[Any]:
    """Operations on rows (or columns) of three arrays that begin and end near their borders."""
    arrays = [x * 1.0, m.zeros_like(x), y + 0.0]
    axis = pick.choice((0, 0, 1))
    for _ in range(8):
        length = x.shape[axis] - pick.randint(0, 5)
        target, one, two = list[Any](), list[Any](), list[Any]()
        for found in (target, one, two):
            begin = pick.randint(0, x.shape[axis] - length) if pick.random() < 0.7 else 0
            found.append((slice(begin, begin + length), slice(None))[::1 - 2 * axis])
        a, b, c = pick.choices(arrays, k=3)
        kind = pick.randrange(4)
        if kind == 0:
            a[target[0]] = b[one[0]] * 0.5 + c[two[0]]
        elif kind == 1:
            a[target[0]] -= 0.25 * b[one[0]]
        elif kind == 2:
            arrays[pick.randrange(3)] = m.maximum(a, b) - c
        else:
            a[target[0]] = (b[one[0]] + b[two[0]]).sum(axis=axis, keepdims=True) * 0.125
    return arrays


@LOCAL
@pytest.mark.parametrize("first", range(0, rounds(6, 12), 6))
def test_random_parts_have_the_same_bits_everywhere(first: int) -> None:
    """NumPy's own on eighths, for any number of points, window, and runtime, compiled or not."""
    for seed in range(first, first + 6):
        rows = random.Random(seed).choice((40, 64, 81))
        x, y = [numpy.rint(8 * a) / 8 for a in inputs(rows)]
        expected = program(random.Random(seed), numpy, x, y)
        for points, chosen in ((2, {"window": "auto"}), (3, {"window": 7}), (4, {"compile": "off"}),
                               (5, {"check": True})):
            with stream(points, seed=seed if points == 4 else None, small=0, min_chunk=64,
                        **{"compile": "wait", **chosen}):
                found = program(random.Random(seed), np, np.array(x), np.array(y))
                assert [numpy.array(a).tobytes() for a in found] == [a.tobytes() for a in expected], seed


def test_ranges_share_out_all_indices() -> None:
    for begin, tile, points, extent in product((None, -2, 0, 3), (4, 7), (2, 3), (9, 11, 12)):
        split = Split(0, tile, begin)
        found = [i for p in range(points) for i in range(*split.range(p, points, extent))]
        if begin is not None or tile * points >= extent:
            assert found == list(range(extent)), split


def test_relations_hold_where_splits_have_begins() -> None:
    """What is said to be the same, apart or aligned is, element by element; and often enough it is said."""
    pick, said = random.Random(5), {relation: 0 for relation in Relation}
    for _ in range(800):
        points, tile = pick.choice((2, 3)), pick.choice((4, 5))
        store, tasks = array(0, points * tile), []
        for _ in range(2):
            low, high = pick.randint(0, 3), points * tile - pick.randint(0, 3)
            part: Region = store[low:high] if pick.random() < 0.9 else store[high - 1:low or None:-1]
            split = cuts.fitting(part.shape, 0, tile, points, pick.choice((0, low, low, -1, 2)))
            if split is None:
                split = Split(0, -(-part.shape[0] // points))
            one = made("negative", [1.0], part)
            found = one._replace(decomposition=Decomposition((points,), (split,)),
                                 accesses=(access(part, part.shape, (split,), Privilege.WRITE),))
            check(found)
            assert not definition.racy(found)
            tasks.append(found)
        (s, t), (a, b) = tasks, [one.accesses[0] for one in tasks]
        claim = ir.relation(a, b, (points,))
        said[claim] += 1
        if claim is not Relation.ALIAS:
            assert definition.aligned(s, a, t, b), (s, t)
        if claim is Relation.SAME and (s.shape, s.splits) == (t.shape, t.splits):
            assert definition.same(s, a, t, b), (s, t)
    assert said[Relation.ALIGNED] > 40 and said[Relation.SAME] > 10, said


def test_a_begin_that_leaves_a_point_without_indices_is_an_error() -> None:
    part = array(0, 8)[:]
    split = Split(0, 4, 4)
    one = made("negative", [1.0], part)._replace(decomposition=Decomposition((2,), (split,)))
    with pytest.raises(ValueError, match="leaves points without indices of axis 0"):
        check(one._replace(accesses=(access(part, (8,), (split,), Privilege.WRITE),)))

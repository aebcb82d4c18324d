"""Partitions and what can be asked of them: tables of small cases, and arbitrary tilings by enumeration."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from random import Random

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diffuse.fusion.definition import points, sub_store
from diffuse.ir import (
    Access,
    AccessMap,
    Coordinate,
    Partition,
    Point,
    Privilege,
    Projection,
    Relation,
    Replicated,
    Split,
    Store,
    Tiling,
    covers,
    disjoint,
    relation,
    tiling,
    view,
    volume,
)
from diffuse.ir.partition import Rows
from diffuse.ir.text import partition_text
from diffuse.movement import boxes
from tests.build import Region, access, array, split
from tests.each import for_each

a, m = array(0, 12), array(1, 8, 6)
R = Privilege.READ


def test_a_projection_maps_severalto_tile_coordinates() -> None:
    assert Projection((Coordinate(1, 2, 1), Coordinate(0, 0, 4)))((3, 5)) == (11, 4)


def test_privileges() -> None:
    assert [p.value for p in Privilege if p.reads] == ["R", "RW"]
    assert [p.value for p in Privilege if p.writes] == ["W", "RW"]


def test_volume_counts_points() -> None:
    assert volume((3, 4)) == 12 and volume(()) == 1


def text(region: Region, splits: tuple[Split, ...]) -> str:
    partition = tiling(region.store, AccessMap(region.rows), region.shape, splits)
    return partition_text(partition, region.store)


#   a[1:11:2] by 2:   . 1 . 1 . 2 . 2 . 3 . .     tiles count as long as their pitch
@for_each("region, points, axis, expected", [
    (a, 3, 0, "@4+0"),
    (a[1:], 3, 0, "@4+1"),
    (a[:-1], 3, 0, "@4+0<11"),
    (a[1:11:2], 3, 0, "@4/2+1<10"),
    (a[::-1], 3, 0, "@-4+8"),
    (a[::-2], 3, 0, "@-4/2+9"),
    (m, 4, 0, "@2+0,0:6"),
    (m, 2, 1, "@0:8,3+0"),
    (m.T, 2, 0, "@0:8,3+0"),
    (m[2], 2, 0, "@2:3,3+0"),
    (m.diagonal(), 3, 0, "@2+0<6,2+0"),
    (m, (2, 3), (0, 1), "@4+0,2p1+0"),
    (m, (2, 3), (1, 0), "@3p1+0,3+0"),
    # nothing moves: the whole store is one value, however it came to be whole
    (a, 1, 0, ""),
    (a, 4, -1, ""),
    (a.to((3, 12)), 3, 0, ""),
    (a[::-1], 1, 0, ""),
    (array(2), 1, -1, ""),
    (array(2).to((8,)), 4, 0, ""),
    (a[2:5], 1, 0, "@2:5"),
    (a[::2], 1, 0, "@0:11/2"),
    (m[:, 0], 1, 0, "@0:8,0:1"),
])
def test_tiling(region: Region, points: int | Point, axis: int | Point, expected: str) -> None:
    assert text(region, split(region.shape, points, axis)) == expected


#   b[i, j] = a[3 i + j]: rows of three are tiles of three; of a[2 i + j] they overlap by one, as halos do
def test_a_row_of_two_terms() -> None:
    view = Region(a.store, ((0, ((0, 3), (1, 1))),), (4, 3))
    halo = Region(a.store, ((0, ((0, 2), (1, 1))),), (4, 3))
    assert text(view, split((4, 3), 2)) == "@6+0"
    assert text(halo, split((4, 3), 2)) == "@4^5+0<9"
    assert text(view, split((4, 3), (2, 3), (0, 1))) == ""  # two launch dimensions move it: whole, to be safe


def partition(region: Region, points: int | Point, axis: int | Point = 0) -> Partition:
    return tiling(region.store, AccessMap(region.rows), region.shape, split(region.shape, points, axis))


@pytest.mark.parametrize("region, points, axis, expected", [
    (a, 4, 0, True), (a, 1, 0, True), (a, 1, -1, True), (a, 4, -1, False), (a[::-2], 4, 0, True),
    (m[2], 2, 0, True), (a.to((3, 12)), 3, 0, False), (a.to((3, 12)), 3, 1, True),
    (m, (2, 3), (0, 1), True), (m[0], (2, 1), (0, -1), True), (a, (2, 3), (0, -1), False),
    (Region(a.store, ((0, ((0, 2), (1, 1))),), (4, 3)), 2, 0, False),
])
def test_disjoint(region: Region, points: int | Point, axis: int | Point, expected: bool) -> None:
    domain = (points,) if isinstance(points, int) else points
    assert disjoint(partition(region, points, axis), domain) is expected


@for_each("region, expected", [
    (a, True), (a[::-1], True), (m.T, True), (a.to((3, 12)), True), (array(2), True),
    (a[1:], False), (a[::2], False), (m[0], False), (m[:, ::-2], False),
    (array(3, 4, 4).diagonal(), False), (array(3, 4, 4)[0].to((4, 4)), False),
    (Region(a.store, ((0, ((0, 3), (1, 1))),), (4, 3)), False),  # it does: cautious
])
@for_each("count", [1, 2])
def test_covers(region: Region, expected: bool, count: int) -> None:
    splits = split(region.shape, count, 0 if region.shape else -1)
    assert covers(access(region, region.shape, splits, R)) is expected


SAME, APART, ALIGNED, ALIAS = Relation
big = array(1, 8, 8)


#   a on 4 points: 0 0 0 1 1 1 2 2 2 3 3 3
@for_each("first, second, one, four", [
    (a, a, SAME, SAME),
    (a[:6], a[6:], APART, APART),
    (a[::2], a[1::2], APART, APART),
    (a[::4], a[1::2], APART, APART),
    (a[::4], a[2::6], ALIGNED, ALIAS),
    (a[1:], a[:-1], ALIGNED, ALIAS),
    (a, a[::-1], ALIGNED, ALIAS),
    (a, a.frame(3, 4), ALIGNED, ALIAS),
    (a, a.frame(12, dtype="int64"), ALIGNED, ALIAS),
    (a.to((4, 12)), a.to((4, 12)), SAME, ALIAS),  # each point sees all of it
    (big[0], big[1], APART, APART),
    (big[:, 0], big[:, 3], APART, APART),
    (big[:, :4], big[:, 2:], ALIGNED, ALIGNED),
    (big, big.diagonal(), ALIGNED, ALIGNED),
    (big, big.T, ALIGNED, ALIAS),
    (big[::2], big[::2, 1:], ALIGNED, ALIGNED),
    (big[1:], big, ALIGNED, ALIAS),
])
def test_relation(first: Region, second: Region, one: Relation, four: Relation) -> None:
    for count, expected in ((1, one), (4, four)):
        x, y = (access(r, r.shape, split(r.shape, count), R) for r in (first, second))
        assert relation(x, y, (count,)) is relation(y, x, (count,)) is expected


def on_comb(found: Tiling) -> bool:
    """Do starts and tiles agree with the stride, as `relation` relies on to compare combs?"""
    coordinates = found.projection.coordinates
    parts = zip(found.offset, found.stride, coordinates, found.tile, found.bounds, strict=True)
    return all((start - low) % step == 0 and (not c.weight or tile % step == 0)
               for start, step, c, tile, (low, _) in parts)


def random_tiling(rng: Random, shape: Point, domain: Point) -> Tiling:
    """Any tiling that keeps to the grammar: all points' elements lie on the view's comb."""
    tile, offset, stride, coordinates, extent, bounds = [], [], [], [], [], []
    for n in shape:
        step = rng.choice((1, 1, 2, 3))
        low = rng.randrange(n)
        stride.append(step)
        tile.append(step * rng.randint(1, 3))
        offset.append(low + step * rng.randint(-2, 2))
        weight = rng.choice((0, 1, 1, 1, -1, 2))
        coordinates.append(Coordinate(rng.randrange(len(domain)), weight, rng.randint(-1, 1)))
        extent.append(tile[-1] + rng.choice((0, 0, 0, 1, step, -1)))
        bounds.append((low, rng.randint(low + 1, n)))
    return Tiling(tuple(tile), tuple(offset), tuple(stride), Projection(tuple(coordinates)),
                  tuple(extent), tuple(bounds))


@settings(max_examples=600, deadline=None, derandomize=True)
@given(st.randoms(use_true_random=False))
def test_arbitrary_tilings_against_enumeration(rng: Random) -> None:
    """`disjoint` and `relation` answer from the structure what the points say: cautious, never wrong."""
    shape = rng.choice(((9,), (5, 4)))
    domain = rng.choice(((1,), (3,), (2, 3), (4, 1)))
    store, whole = Store(0, shape, "bool"), AccessMap(tuple((0, ((d, 1),)) for d in range(len(shape))))
    first, second = (random_tiling(rng, shape, domain) for _ in range(2))
    if rng.random() < 0.5:  # the same cuts of another part
        second = replace(second, tile=first.tile, offset=first.offset, projection=first.projection,
                         extent=first.extent)
        if not on_comb(second):
            return
    owned = [{p: sub_store(t, store, p) for p in points(domain)} for t in (first, second)]
    if disjoint(first, domain):
        assert not any(owned[0][p] & owned[0][q] for p in owned[0] for q in owned[0] if p != q)
    claim = relation(Access(store, whole, R, None, first), Access(store, whole, R, None, second), domain)
    meets = {(p, q) for p in owned[0] for q in owned[1] if owned[0][p] & owned[1][q]}
    if claim is not Relation.ALIAS:
        assert all(p == q for p, q in meets)
    if claim is Relation.APART:
        assert not meets


def test_the_grammar_of_views_keeps_elements_on_their_comb() -> None:
    for region in (a[1::3], a[::-3], m[::2, ::-1], m[::-3].T):
        for count in (1, 2, 3):
            found = partition(region, count)
            assert isinstance(found, Tiling)
            assert on_comb(found)


def test_replicated_is_every_point_s_whole_store() -> None:
    assert sub_store(Replicated(), Store(0, (2, 2), "bool"), (7,)) == set(points((2, 2)))


@for_each("seed", range(60))
def test_the_strides_of_a_view_are_those_of_its_map(seed: int) -> None:
    """Kernels compare strides, and fusion compares maps: also along dimensions of one index."""
    pick = Random(seed)
    shape = tuple(pick.choice((1, 1, 2, 3, 5)) for _ in range(pick.randint(1, 4)))
    whole = numpy.zeros(shape)
    part = whole[tuple([slice(None, None, pick.choice((1, 1, -1, 2, -2))) for _ in shape])]
    part = part.transpose(pick.sample(range(part.ndim), part.ndim))
    part = part.reshape([n for k in part.shape for n in [k, *[1] * pick.choice((0, 0, 1, 2))]])
    if not numpy.shares_memory(part, whole):
        return
    at = part.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    found = view.of(shape, "float64", "float64", 8, at, part.strides, part.shape)
    plain = AccessMap(found.rows, found.free, found.turned)
    assert view.located(plain, Store(0, found.frame, "float64"), part.shape).strides == found.strides


@for_each("seed", range(40))
def test_points_of_a_pass_have_the_elements_of_the_rows_that_they_run(seed: int) -> None:
    """Steps forward and backward, and maps in which rows move two dimensions of the store or none."""
    pick = Random(seed)
    several, tile, count = pick.randint(2, 4), pick.randint(4, 9), pick.randint(2, 5)
    run = Rows(0, tile, pick.randint(-3, 0), pick.randint(0, 3))
    rows = several * tile - pick.randint(0, tile - 1) + pick.randint(0, 3)
    run = run._replace(before=-(-rows // several))
    steps = [pick.choice((1, 1, 2, -1, -2, 0)), pick.choice((1, 0, 0, 1, -1))]
    terms = [((0, steps[0]),) if steps[0] else (), tuple([(k, s) for k, s in ((0, steps[1]), (1, 1)) if s])]
    shape = rows, count
    far = [[sum(s * i[k] for k, s in some) for i in product(*map(range, shape))] for some in terms]
    found = AccessMap(tuple((pick.randint(0, 2) - min(each), some)
                          for each, some in zip(far, terms, strict=True)))
    store = Store(0, tuple(max(each) - min(each) + pick.randint(3, 5) for each in far), "float64")
    part = run.of(tiling(store, found, shape, (Split(0, run.before),)))
    for p in range(several):
        mine = range(max(p * tile + run.low, 0), min((p + 1) * tile + run.high, rows))
        wanted = [found(index) for index in product(mine, range(count))]
        box = boxes.tile(part, (p,), store.shape)
        assert all(i in r for point in wanted for i, r in zip(point, box, strict=True))
        ends = zip(*[found(index) for index in product(range(p * tile + run.low, (p + 1) * tile + run.high),
                                                     range(count))], strict=True)
        for d, each in enumerate(ends):
            if not isinstance(part, Replicated) and part.projection.coordinates[d].weight and mine:
                assert min(each) - 1 <= box[d][0] and box[d][-1] <= max(each) + 1


def test_severalthat_run_their_own_rows_have_their_own_tiles() -> None:
    part = tiling(Store(0, (12, 5), "float64"), AccessMap(((0, ((0, 1),)), (0, ((1, 1),)))), (12, 5),
                  (Split(0, 4),))
    assert Rows(4, 4, 0, 0).of(part) is part
    assert Rows(4, 4, -1, 1).of(Replicated()) == Replicated()

"""The definition itself, on examples small enough to see: figures 4 and 6 of the paper."""

from __future__ import annotations

import pytest

from diffuse.fusion.definition import dependence_map, depends, elements, fusible, points, racy, sub_store
from diffuse.ir import Coordinate, Point, Privilege, Projection, Replicated, Store, Tiling
from tests.build import array, over, reduction, task


def projection(*coordinates: tuple[int, int]) -> Projection:
    """A projection whose coordinates are pairs (launch dimension, weight)."""
    return Projection(tuple(Coordinate(dim, weight, 0) for dim, weight in coordinates))


def tiling(tile: Point, offset: Point, projection: Projection, shape: Point) -> Tiling:
    bounds = tuple(zip(offset, shape, strict=True))
    return Tiling(tile, offset, (1,) * len(tile), projection, tile, bounds)


#   (a) 2x2 tiles   (b) rows        (c) from (1,1)    (d) a vector, by rows of a 2-D domain
#   a a b b         a a a a         . . . .
#   a a b b         b b b b         . a b .           p = (i, j) -> (i,)
#   c c d d         c c c c         . c d .           a a b b
#   c c d d         d d d d         . . . .
@pytest.mark.parametrize("partition, shape, point, expected", [
    (tiling((2, 2), (0, 0), projection((0, 1), (1, 1)), (4, 4)), (4, 4), (1, 0),
     {(2, 0), (2, 1), (3, 0), (3, 1)}),
    (tiling((1, 4), (0, 0), projection((0, 1), (0, 0)), (4, 4)), (4, 4), (2,),
     {(2, 0), (2, 1), (2, 2), (2, 3)}),
    (tiling((1, 1), (1, 1), projection((0, 1), (1, 1)), (3, 3)), (4, 4), (0, 1), {(1, 2)}),
    (tiling((2,), (0,), projection((0, 1)), (4,)), (4,), (1, 0), {(2,), (3,)}),
    (Replicated(), (2,), (3,), {(0,), (1,)}),
    # an extent larger than the tile is a halo, clipped to the view
    (Tiling((2,), (-1,), (1,), projection((0, 1)), (4,), ((0, 6),)), (6,), (2,),
     {(3,), (4,), (5,)}),
    # every other element, backwards
    (Tiling((4,), (4,), (2,), projection((0, -1)), (4,), ((0, 7),)), (8,), (1,),
     {(0,), (2,)}),
])
def test_figure_4(partition: Tiling, shape: Point, point: Point, expected: set[Point]) -> None:
    assert sub_store(partition, Store(0, shape, "bool"), point) == expected


a, b = array(0, 6, dtype="bool"), array(1, 6, dtype="bool")
write = task("copy", [1.0], a, points=3)


def test_figure_6_point_wise() -> None:
    assert dependence_map(write, task("exp", [a], b, points=3)) == {(p,): {(p,)} for p in range(3)}


#   wrote:  p0 p0 p1 p1 p2 p2
#   reads:  a[:-1] and a[1:] by tiles of 2: each point sees its right neighbour's first element
def test_figure_6_stencil() -> None:
    read = task("add", [a[:-1], a[1:]], b[1:], points=3)
    assert dependence_map(write, read) == {(0,): {(0,)}, (1,): {(0,), (1,)}, (2,): {(1,), (2,)}}


def test_figure_6_other_partitions() -> None:
    assert dependence_map(write, task("exp", [a[::-1]], b, points=3)) == {
        (0,): {(2,)}, (1,): {(1,)}, (2,): {(0,)}}


def test_elements_are_places_in_memory() -> None:
    complex_frame, real_frame = array(0, 2, dtype="complex64"), array(0, 2, 2, dtype="float32")
    whole = task("copy", [0.0], complex_frame)
    imaginary = task("copy", [0.0], real_frame[:, 1])
    assert elements(imaginary, imaginary.accesses[0], (0,)) < elements(whole, whole.accesses[0], (0,))
    assert len(elements(whole, whole.accesses[0], (0,))) == 16


def test_reductions_by_one_operator_do_not_depend_on_each_other() -> None:
    s = array(2, dtype="bool")
    add, most = reduction("sum", a, s, points=3), reduction("max", a, s, points=3)
    assert not depends(add, (0,), add, (1,)) and depends(add, (0,), most, (1,))
    assert fusible([add, add]) and not fusible([add, most])


def test_reads_do_not_depend_on_reads() -> None:
    read = task("exp", [a], b, points=3)
    assert not depends(task("exp", [a], array(3, 6, dtype="bool"), points=3), (0,), read, (0,))


def test_no_point_sees_an_unfinished_reduction() -> None:
    tile = array(2, 6, dtype="bool")
    made = over((6,), "fold", [a], [(tile, Privilege.REDUCE, "sum")], 3)
    assert not fusible([made, task("exp", [tile], b, points=3)])


def test_domains_must_agree() -> None:
    assert not fusible([write, task("exp", [b], b, points=2)])


def test_a_race_is_a_dependence_within_a_task() -> None:
    assert racy(task("exp", [a[1:]], a[:-1], points=3)) and not racy(task("exp", [a], a, points=3))
    assert racy(task("copy", [1.0], a, points=3, axis=-1))


def test_points_are_counted_in_row_major_order() -> None:
    assert list(points((2, 2))) == [(0, 0), (0, 1), (1, 0), (1, 1)] and list(points(())) == [()]

"""The block of a launch and the sizes of partials."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from diffuse.ir import Privilege
from diffuse.kernels.body import abi
from diffuse.kernels.body.expr import Argument, Body, Loop, Op, Space
from diffuse.kernels.build import jit
from diffuse.kernels.meaning import interpret, launched
from tests import machine_code

R, W = Privilege.READ, Privilege.WRITE


def reducing(classes: str, operator: str = "sum", dtype: str = "float64") -> Body:
    rank = len(classes)
    ops = (Op("load", dtype, (), 0), Op("reduce", dtype, (0,), (operator, 1)))
    arguments = (Argument(0, 0, dtype, 0, "s" * rank, R), Argument(1, 0, dtype, 0, classes, W))
    return Body((Space(rank, (-1,)),), arguments, (), (Loop(0, tuple(range(rank)), ops),))


def test_words_follow_each_other_in_the_order_of_the_block() -> None:
    ops = (Op("load", "bool", (), 0), Op("reduce", "bool", (0,), ("any", 1)))
    arguments = Argument(0, 0, "bool", 0, "s1", R), Argument(1, 0, "bool", 0, "00", W)
    body = Body((Space(2, (0,)), Space(0, (-1,))), arguments,
                ("complex64", "int8", "float32", "complex128"), (Loop(0, (0, 1), ops),))
    words = abi.words(body)
    assert words.spaces == (1, 4)
    assert words.arguments == (5, 8)
    assert words.scalars == (11, 13, 14, 15)
    assert words.partials == (17,)
    assert abi.layout(body).size == 8 * 18


def test_each_launch_dimension_has_its_extent_and_each_space_a_tile_for_it() -> None:
    arguments = Argument(0, 0, "float64", 0, "s1", R), Argument(1, 0, "float64", 1, "", W)
    body = Body((Space(2, (1, -1, 0)), Space(0, (-1, -1, -1))), arguments, (), ())
    words = abi.words(body)
    assert body.launch_rank == 3 and words.spaces == (3, 8) and words.arguments == (11, 14)
    assert abi.layout(body).size == 8 * 15


def test_points_are_counted_in_row_major_order_and_uncut_dimensions_have_work_for_the_first() -> None:
    values = (2, 3, 2, 5, 0, 4, 10, 7)  # domain, tiles, extents
    launch = launched.LaunchValues(Body((Space(2, (0, -1, 1)),), (), (), ()), values)
    assert launch.points == 12 and [launch.coordinates(p) for p in (0, 1, 2, 11)] == [
        [0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 2, 1]]
    assert [p for p in range(12) if launch.runs(0, p)] == [0, 1, 6, 7]
    assert [launch.box(0, p) for p in (0, 1, 7)] == [[(0, 5), (0, 4)], [(0, 5), (4, 7)], [(5, 10), (4, 7)]]


@pytest.mark.parametrize("dtype, value, packed", [
    ("bool", (True,), struct.pack("<q", 1)), ("int8", (-3,), struct.pack("<q", -3)),
    ("uint64", (2 ** 64 - 1,), b"\xff" * 8), ("float64", (0.1,), struct.pack("<d", 0.1)),
    ("float32", (0.5,), struct.pack("<f4x", 0.5)), ("float16", (0.5,), struct.pack("<f4x", 0.5)),
    ("complex64", (0.5, -1.0), struct.pack("<f4xf4x", 0.5, -1.0)),
    ("complex128", (0.5, 2.0), struct.pack("<dd", 0.5, 2.0)),
])
def test_a_scalar_fills_whole_words(dtype: str, value: tuple[float, ...], packed: bytes) -> None:
    body = Body((), (), (dtype,), ())
    assert abi.layout(body).pack(1, *value)[8:] == packed


@pytest.mark.parametrize("classes, extents, leaves, outputs", [
    ("0", (1,), 1, 1), ("0", (512,), 1, 1), ("0", (513,), 2, 1), ("0", (0,), 0, 1),
    ("10", (7, 2500), 5, 7), ("00", (7, 2500), 35, 1),
    ("01", (32, 5), 1, 5), ("01", (33, 5), 2, 5), ("001", (3, 33, 5), 6, 5), ("0s1", (65, 2, 5), 3, 10),
    ("11", (3, 4), 1, 12), ("", (), 1, 1),
])
def test_leaves_of_rows_and_columns(classes: str, extents: tuple[int, ...], leaves: int,
                                    outputs: int) -> None:
    body = reducing(classes)
    (reduction,) = abi.reductions(body)
    assert abi.leaves(extents, abi.kept(body, reduction)) == leaves
    assert abi.partial_bytes(body, reduction, extents) == 8 * leaves * outputs


def test_pairs_have_a_plane_of_indices_at_a_multiple_of_eight() -> None:
    body = reducing("10", "argmin", "int8")
    assert abi.partial_bytes(body, abi.reductions(body)[0], (3, 4)) == 8 + 3 * 8


def test_reductions_come_in_the_order_of_their_ops() -> None:
    one, two = reducing("0").loops[0], reducing("0", "max", "int32").loops[0]
    body = Body((Space(1, (-1,)),), reducing("0").arguments, (), (one, two))
    assert [r[:3] for r in abi.reductions(body)] == [(0, 1, "sum"), (1, 1, "max")]


@pytest.mark.parametrize("shape, axes", [((700, 30), (0,)), ((50000,), (0,)), ((3, 9000), (1,)),
                                         ((700, 30), (0, 1)), ((3, 9000), (1, 0)), ((40, 50, 20), (1, 2, 0))])
@pytest.mark.parametrize("taken", [0, 1, 2, 7])
def test_machine_code_finishes_what_small_points_began(shape: tuple[int, ...], axes: tuple[int, ...],
                                                       taken: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some small points interpreted, the rest compiled, two points along each launch dimension: every element
    exactly once."""
    monkeypatch.setattr(abi, "PIECE", 1000)
    body = Body((Space(len(shape), axes),),
                tuple(Argument(k, 0, "float64", 0, "s" * (len(shape) - 1) + "1", p)
                      for k, p in enumerate((Privilege.READ, Privilege.READ_WRITE))),
                (), (Loop(0, tuple(range(len(shape))), (
                    Op("load", "float64", (), 0), Op("load", "float64", (), 1), Op("add", "float64", (0, 1)),
                    Op("store", "float64", (2,), 1))),))
    x, y = np.arange(float(np.prod(shape))).reshape(shape), np.zeros(shape)
    tiles = [-(-shape[axis] // 2 // 1024) * 1024 if axis == len(shape) - 1 else -(-shape[axis] // 2)
             for axis in axes]
    values = (*[2] * len(axes), *tiles, *shape, *(v for a in (x, y) for v in (a.ctypes.data, *a.strides)))
    division = abi.divide(body, values)
    assert division is not None and division.points > 2
    for p in range(taken):
        interpret.point(body, division.values, p)
    machine_code.run(jit.compile(body), body, division.rest(taken), 2 ** len(axes))
    np.testing.assert_array_equal(y, x)


def test_a_launch_is_divided_by_its_work() -> None:
    """A piece costs some Python: a small launch is one, for the interpreter has one thread; a large one has
    as many as pay."""
    body = Body((Space(1, (0,)),), (Argument(0, 0, "float64", 0, "1", Privilege.WRITE),
                                 Argument(1, 0, "float64", 0, "1", Privilege.READ)), (),
                (Loop(0, (0,), (Op("load", "float64", (), 1), Op("negative", "float64", (0,)),
                                Op("store", "float64", (1,), 0))),))

    def points(extent: int, points: int) -> int:
        division = abi.divide(body, (points, extent // points, extent, 0, 8, 0, 8))
        assert division is not None
        return division.points

    assert [points(100_000, n) for n in (1, 2, 4)] == [1, 1, 1]
    assert points(1 << 22, 2) == 13     # tiles are whole segments, and a rest
    assert points(1 << 28, 2) == abi.PIECES


@pytest.mark.parametrize("axes", [(0,), (1,), (1, 0), (0, -1)])
def test_a_launch_is_interpreted_as_one_point(axes: tuple[int, ...]) -> None:
    """Loops over two spaces, of which the second is transposed; one that folds keeps its points."""
    back = tuple([axis if axis < 0 else 1 - axis for axis in axes])
    read = Op("load", "float64", (), 0)
    loops = (Loop(0, (0, 1), (read, Op("negative", "float64", (0,)), Op("store", "float64", (1,), 1))),
             Loop(1, (0, 1), (read._replace(attribute=2), Op("square", "float64", (0,)),
                              Op("store", "float64", (1,), 3))))
    body = Body((Space(2, axes), Space(2, back)),
                tuple(Argument(k, 0, "float64", space, "s1", p) for k, (space, p) in enumerate((
                    (0, Privilege.READ), (0, Privilege.WRITE), (1, Privilege.READ), (1, Privilege.WRITE)))),
                (), loops)
    x = np.arange(60.0).reshape(6, 10)
    y, z = np.zeros((6, 10)), np.zeros((10, 6))
    tiles = [[0 if axis < 0 else shape[axis] // 2 for axis in cut]
             for cut, shape in ((axes, x.shape), (back, z.shape))]
    values = (*[2] * len(axes), *tiles[0], *x.shape, *tiles[1], *z.shape,
              *(v for a in (x, y, x.T, z) for v in (a.ctypes.data, *a.strides)))
    one = abi.whole(body, values)
    assert one is not None and one.points == 1 and one.rest(0) == values
    interpret.point(body, one.values, 0)
    np.testing.assert_array_equal(y, -x)
    np.testing.assert_array_equal(z, x.T ** 2)
    folds = Loop(0, (0, 1), (read, Op("reduce", "float64", (0,), ("sum", 1))))
    assert abi.whole(Body(body.spaces, body.arguments, (), (folds,)), values) is None

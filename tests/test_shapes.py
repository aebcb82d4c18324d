"""Shapes: arrays and their interiors are cut alike, and as tasks over them ask, on any number of ranks."""

from __future__ import annotations

import json
from pathlib import Path

import numpy
import pytest

from diffuse.ir import Decomposition, Frame, Point, Privilege, Split
from diffuse.ir.template import Template, Use
from diffuse.ir.view import View
from diffuse.ir.view import of as view
from diffuse.stream.decompose import by_extents
from diffuse.stream.shapes import Shapes
from tests.jobs import TINY, diffuse, script

READ, WRITE, REDUCE = Privilege.READ, Privilege.WRITE, Privilege.REDUCE


def part(frame: Point, *slices: slice) -> View:
    """The view of a slice of a store of float64."""
    strides = numpy.empty(frame).strides
    begins = [s.indices(n)[0] for s, n in zip(slices, frame, strict=True)]
    shape = tuple([len(range(n)[s]) for s, n in zip(slices, frame, strict=True)])
    return view(frame, "float64", "float64", 8, sum(map(int.__mul__, begins, strides)), strides, shape)


def elementwise(*views: View) -> Template:
    """A task that reads all of these views but the last one, which it writes."""
    uses = (*[Use.of(v, READ) for v in views[:-1]], Use.of(views[-1], WRITE))
    return Template("negative", ("float64",) * len(views), views[0].shape, uses)


def fold(frame: Point, *kept: int) -> Template:
    """The sum of an array along all dimensions but those that are kept."""
    result = part(tuple([frame[d] for d in kept]), *[slice(None)] * len(kept)).kept(frame, kept)
    uses = (Use.of(part(frame, *[slice(None)] * len(frame)), READ), Use.of(result, REDUCE, "sum"))
    return Template("sum", ("float64", "float64"), frame, uses)


def learned(shapes: Shapes, *tasks: Template) -> Shapes:
    for task in tasks:
        shapes.learn(task, [Frame(use.frame, use.dtype) for use in task.uses], ())
    return shapes


INSIDE = part((128, 128), slice(1, -1), slice(1, -1))
RESULT = part((126, 126), slice(None), slice(None))


@pytest.mark.parametrize("points", [2, 7, 48, 63, 64, 100])
def test_the_interior_is_cut_as_the_array(points: int) -> None:
    shapes = Shapes()
    alone = elementwise(RESULT, RESULT)
    before = shapes.decomposition(alone, points, 1)
    assert before == by_extents((126, 126), points, 1)
    learned(shapes, elementwise(INSIDE, RESULT))
    assert shapes.decomposition(alone, points, 1) == by_extents((128, 128), points, 1)
    assert shapes.version == (before != by_extents((128, 128), points, 1))


def test_the_sums_of_columns_are_cut_as_the_columns() -> None:
    shapes = Shapes()
    whole = part((1024, 1024), *[slice(None)] * 2)
    assert shapes.decomposition(elementwise(whole, whole), 64, 1) == Decomposition((64,), (Split(0, 16),))
    assert learned(shapes, fold((1024, 1024), 1)).turn()
    found = Decomposition((64,), (Split(0, 32),))
    assert shapes.decomposition(elementwise(whole, whole), 64, 1) == found
    assert shapes.decomposition(fold((1024, 1024), 1), 64, 1) == found
    assert not learned(shapes, fold((1024, 1024), 1), elementwise(whole, whole)).turn()
    assert shapes.version == 1


def test_where_rows_begin_does_not_decide() -> None:
    begins = view((101,), "int64", "int64", 8, 0, (8,), (100,))
    assert learned(Shapes(), elementwise(begins, part((100,), slice(None)))).root((100,)) == (100,)


def test_a_chain_of_shapes_ends_where_the_array_is_much_longer() -> None:
    shapes = Shapes()
    for n in range(200, 100, -1):
        learned(shapes, elementwise(part((n, 9), slice(1, None), slice(None)),
                                    part((n - 1, 9), *[slice(None)] * 2)))
    assert shapes.root((196, 9)) == (200, 9)
    assert 150 < shapes.root((150, 9))[0] <= 158


PROGRAM = """
    import numpy as np
    u = np.ones((300, 70))
    for _ in range(12):
        u += 1.0
        v = 0.5 * (u[2:, 1:-1] + u[:-2, 1:-1])
        w = v * 2.0
        w -= 1.0
        u[1:-1, 1:-1] = w
    print(u[3, 3])
"""


def test_an_array_and_its_interior_exchange_rows_alone(tmp_path: Path) -> None:
    ranks = 149  # of which each would have two rows of the interior, but three of the array
    path = script(tmp_path, PROGRAM)
    done = diffuse("run", "--predict", str(ranks), "--json", path, **TINY)
    assert done.returncode == 0, done.tail
    moved = sum(row["bytes"] for row in json.loads(done.stderr)["rows"])
    # a turn: two rows between neighbours, and a row that the interior gives back to the array
    assert moved / 12 < 1.3 * 4 * (ranks - 1) * 70 * 8

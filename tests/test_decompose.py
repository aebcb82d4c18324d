"""Decomposition: launch domains are chosen in the window, from the tasks of one group alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest

import diffuse
import diffuse.numpy as np
from diffuse import settings
from diffuse.ir import ONE, Decomposition, Privilege, Split
from diffuse.ir.template import Template, Use
from diffuse.ir.view import of as view
from diffuse.observe import trace
from diffuse.runtime.local.runtime import Local
from diffuse.stream import engine
from diffuse.stream.decompose import LONG, by_extents, decompose

READ, WRITE, REDUCE = Privilege.READ, Privilege.WRITE, Privilege.REDUCE
TWO = Decomposition((2,), (Split(0, 300),))
LAST_TWO = Decomposition((2, 2), (Split(1, 300), Split(2, 20)))


@pytest.fixture(autouse=True)
def two_points() -> Iterator[None]:
    stores = engine.current().stores
    with settings.using(compile="off", window="auto", min_chunk=1000, small=0, runtime="local"):
        engine.fence()
        before, stores.runtime = stores.runtime, Local(2)
        engine.current().forget_decompositions()
        yield
        engine.fence()
        stores.runtime.close()
        stores.runtime = before
        engine.current().forget_decompositions()


def whole(*shape: int) -> Any:
    strides = numpy.empty(shape).strides
    return view(shape, "float64", "float64", 8, 0, strides, shape)


def template(operation: str, shape: tuple[int, ...], privilege: Privilege = WRITE) -> Template:
    reads = Use.of(whole(*shape), READ)
    target = whole(*shape) if privilege is WRITE else whole(1).kept(shape, ())
    return Template(operation, ("float64", "float64"), shape,
                    (reads, Use.of(target, privilege, "sum" if privilege is REDUCE else None)))


@pytest.mark.parametrize("operation, shape, privilege, beside, expected", [
    ("negative", (600, 40), WRITE, None, TWO),
    ("negative", (600,), WRITE, None, ONE),                     # too small by itself
    ("negative", (600,), WRITE, TWO, TWO),                      # as many rows as the large task beside it
    ("negative", (200,), WRITE, TWO, ONE),                      # too few for both points
    ("sum", (600,), REDUCE, TWO, ONE),                          # a reduction keeps its tree
    ("sum", (600, 40), REDUCE, None, by_extents((600, 40), 2, 1000)),
    ("negative", (600, 1), WRITE, LAST_TWO, ONE),               # blocks of a large task over other dimensions
    ("no such operation", (600, 40), WRITE, TWO, ONE),          # a host function
])
def test_the_rule(operation: str, shape: tuple[int, ...], privilege: Privilege, beside: Decomposition | None,
                  expected: Decomposition) -> None:
    made = template(operation, shape, privilege)
    assert decompose(made, beside, 2, 1000).decomposition == expected
    assert decompose(made, beside, 1, 1000).domain == (1,) or beside == expected


def test_on_one_point_a_reduction_is_written() -> None:
    made = template("sum", (600, 40), REDUCE)
    assert [use.privilege for use in made.under(ONE).uses] == [READ, WRITE]
    assert [use.privilege for use in made.under(TWO).uses] == [READ, REDUCE]


def before(m: Any, x: Any, edge: Any) -> Any:
    edge = edge * 2.0 + 1.0
    return edge[:, None] * x + 1.0


def after(m: Any, x: Any, edge: Any) -> Any:
    y = x * 0.5
    y[:, 0] = edge * 2.0 + 1.0
    return y + 1.0


def is_one_launch(program: Callable[[Any, Any, Any], Any], plain: Any, border: Any) -> None:
    """Assert that a program is one launch over two points, analysed and replayed, with NumPy's results."""
    x, y = np.array(plain), np.array(border)
    engine.fence()
    for _ in range(2):
        launched = trace.counters["launched"]
        found = program(np, x, y)
        engine.fence()
        assert trace.counters["launched"] == launched + 1
        numpy.testing.assert_array_equal(numpy.array(found), program(numpy, plain, border))
    assert "[2]" in diffuse.explain().plans[-1].text and "[1]" not in diffuse.explain().plans[-1].text


@pytest.mark.parametrize("program", [before, after])
def test_borders_join_the_interior(program: Callable[[Any, Any, Any], Any]) -> None:
    """Columns, computed before or behind the rows that they belong to."""
    plain, edge = numpy.arange(24_000.0).reshape(600, 40), numpy.arange(600.0)
    is_one_launch(program, plain, edge)


def wide_before(m: Any, x: Any, row: Any) -> Any:
    row = row * 2.0 + 1.0
    return row * x + 1.0


def wide_after(m: Any, x: Any, row: Any) -> Any:
    y = x * 0.5
    y[1] = row * 2.0 + 1.0
    return y + 1.0


def stacked(m: Any, x: Any, row: Any) -> Any:
    return x + 0.01 * m.stack([x[1] * row, -x[0] * row])


@pytest.mark.parametrize("program", [wide_before, wide_after, stacked])
def test_rows_join_a_short_and_wide_array(program: Callable[[Any, Any, Any], Any]) -> None:
    """Rows that are too small for several points by themselves, beside an array of which only columns are
    many."""
    plain, row = numpy.arange(3600.0).reshape(2, 1800), numpy.arange(1800.0)
    is_one_launch(program, plain, row)


def test_what_ran_before_does_not_show() -> None:
    """The same group has the same launch domain, whatever the program did before it."""
    x, e = np.array(numpy.ones((600, 40))), np.array(numpy.ones(600))
    for large in (False, True):
        if large:
            (x * 2.0).sum()
        engine.fence()
        kept = e * 3.0
        assert [t.domain for t in engine.current().window.open.tasks] == [(1,)]
        engine.fence()
        del kept


def test_what_a_template_remembers_is_bounded() -> None:
    made = template("negative", (600,))
    for rows in range(1, 1000):
        decompose(made, Decomposition((2,), (Split(0, rows),)), 2, 1000)
    assert len(made.chosen) <= 64 and len(made.decomposed) <= 64


@pytest.mark.parametrize("rows", [1030, 2500, 5000, 99_999])
@pytest.mark.parametrize("processors", [2, 3, 16])
def test_long_tiles_are_those_of_a_sum_over_rows(rows: int, processors: int) -> None:
    """A product and the sum over its rows fuse; no point gets much more than its share."""
    found = by_extents((rows, 100), processors, 1024)
    (_, tile, _), = found.splits
    share = -(-rows // processors)
    assert share <= tile <= share * 17 // 16
    if share >= LONG:
        assert by_extents((rows, 100), processors, 1024, leaves=0) == found

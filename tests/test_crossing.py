"""Loops over the rows of one array and the columns of another take a part of the rows at a time."""

from __future__ import annotations

from dataclasses import replace

import numpy
import pytest

from diffuse.kernels.body.expr import Body
from diffuse.kernels.llvm import crossing
from tests.test_llvm import LOAD, build, do, put, run


def transposed(shape: str) -> Body:
    """The sum of a transposed array and another one of two or three dimensions."""
    views = {"two": ["R1s", "Rs1", "Ws1"], "three": ["Rs1s", "Rss1", "Wss1"], "rows": ["R0s", "Rs1", "Ws1"]}
    return build(LOAD[0], LOAD[1], do("add", 0, 1), put(2, 2), views=views[shape])


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("columns", [1, crossing.ELEMENTS - 1, crossing.ELEMENTS, 2 * crossing.ELEMENTS + 13])
def test_every_element_is_computed_once(columns: int, streams: bool) -> None:
    rng = numpy.random.default_rng(columns)
    for shape in ((3, columns), (2, 3, columns)):
        body = transposed("two" if len(shape) == 2 else "three")
        x, out = rng.random(shape), numpy.full((*shape[:-1], columns + 2), -1.0)
        columnwise = numpy.ascontiguousarray(rng.random(shape).swapaxes(-1, -2)).swapaxes(-1, -2)
        run(replace(body, streams=streams), shape, [columnwise, x, out[..., 1:-1]], points=2)
        assert (out[..., 1:-1] == columnwise + x).all()
        assert (out[..., 0] == -1.0).all() and (out[..., -1] == -1.0).all()


def test_only_where_rows_meet_columns() -> None:
    found = {name: crossing.applies(body := transposed(name), body.loops[0], body.loops[0].order)
             for name in ("two", "three", "rows")}
    assert found == {"two": True, "three": True, "rows": False}

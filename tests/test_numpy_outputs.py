"""Outputs of any layout get what NumPy writes: misaligned ones, and ones whose elements share memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

import diffuse.numpy
from diffuse.settings import using
from tests.each import for_each

ROWS, COLUMNS = 40, 10
LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "misaligned": lambda np: np.zeros(8 * ROWS * COLUMNS + 1, "u1")[1:].view("f8").reshape(ROWS, COLUMNS),
    "windows": lambda np: np.lib.stride_tricks.as_strided(np.zeros(ROWS + 9), (ROWS, COLUMNS), (8, 8)),
    "one row": lambda np: np.lib.stride_tricks.as_strided(np.zeros(COLUMNS), (ROWS, COLUMNS), (0, 8)),
}
CALLS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "clip": lambda np, out, x: np.clip(out, 1, 3, out=out),
    "clip method": lambda np, out, x: out.clip(1, 3, out=out),
    "copyto": lambda np, out, x: np.copyto(out, x, where=x > 1),
    "putmask": lambda np, out, x: np.putmask(out, x > 1, x),
    "sum": lambda np, out, x: np.add.reduce(np.stack((x, x)), axis=0, out=out),
    "max": lambda np, out, x: np.stack((x, out)).max(axis=0, out=out),
    "mean": lambda np, out, x: np.mean(np.stack((x, x)), axis=0, out=out),
    "ptp": lambda np, out, x: np.ptp(np.stack((x, 2 * x)), axis=0, out=out),
    "cumsum": lambda np, out, x: np.cumsum(x, axis=0, out=out),
}


@for_each("layout", LAYOUTS)
@for_each("call", CALLS)
def test_an_output_gets_what_numpy_writes(call: str, layout: str) -> None:
    found = []
    for np in (diffuse.numpy, numpy):
        with using(small=0):
            out = LAYOUTS[layout](np)
            out[...] = 2
            CALLS[call](np, out, (np.arange(ROWS * COLUMNS) % 11 - 3.0).reshape(ROWS, COLUMNS))
            found.append(numpy.array(out).tobytes())
    assert found[0] == found[1]


def test_elements_that_a_mask_excludes_are_those_that_numpy_converts_back() -> None:
    """NumPy computes in a copy of an output of another type that shares memory with an operand, and writes it
    back as a whole."""
    def run(np: Any) -> Any:
        x = np.zeros(200)
        whole = x.view("i8")
        whole[4:184] |= 1
        shown = numpy.asarray(x.ravel())
        np.minimum(whole, 0, out=np.asarray(shown[...])[::-1], casting="unsafe", where=whole > 1)
        return numpy.array(x)

    assert numpy.array_equal(run(diffuse.numpy), run(numpy)) and not run(numpy).any()

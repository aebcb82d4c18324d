"""The PTX of transcendental functions has the host's bits, special values and huge operands included."""

from __future__ import annotations

import numpy as np
import pytest

from diffuse.kernels.llvm.math.table import TABLE
from tests.each import for_each
from tests.test_math import BINARY, SPECIAL, body, compiled, operands
from tests.test_ptx_machine import launch

pytest.importorskip("llvmlite", reason="kernels are compiled by llvmlite")


@for_each("dtype", ["float64", "float32"])
@for_each("name", TABLE)
def test_the_bits_are_those_of_the_host(name: str, dtype: str) -> None:
    with np.errstate(all="ignore"):
        line = np.array([*SPECIAL, *(-v for v in SPECIAL)]).astype(dtype)
        pairs = [np.repeat(line, line.size), np.tile(line, line.size)] if name in BINARY else [line]
        given = [np.concatenate([x, y]) for x, y in zip(operands(name, dtype, 100), pairs, strict=True)]
        out = np.zeros_like(given[0])
        words = [word for x in (*given, out) for word in (x.ctypes.data, x.itemsize)]
        launch(body(name, dtype), [1, out.size, out.size, *words], (out.size,), [*given, out])
        want = compiled(name, dtype)(*given)
    integer = f"i{out.itemsize}"
    assert np.array_equal(np.isnan(out), np.isnan(want))
    known = ~np.isnan(want)
    assert np.array_equal(out[known].view(integer), want[known].view(integer))

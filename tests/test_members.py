"""Members of few elements are found in one recorded pass, with NumPy's results and layout."""

from __future__ import annotations

import numpy
import pytest

import diffuse.numpy as np
from tests.test_fuzz_stream import stream


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "int64", "float16", "float32", "float64"])
def test_members_of_a_few_elements(dtype: str) -> None:
    rng = numpy.random.default_rng(6)
    line = rng.integers(0, 9, 300_017).astype(dtype)
    tested = line[:5].copy()
    if dtype.startswith("float"):
        line[::7], tested[1], tested[2] = numpy.nan, numpy.nan, -0.0
    with stream(3):
        for few in (tested, tested[:1], tested.reshape(-1, 1)):
            for invert in (False, True):
                for kind in (None, "sort"):
                    found = np.isin(np.array(line), few, invert=invert, kind=kind)
                    expected = numpy.isin(line, few, invert=invert, kind=kind)
                    assert found.dtype == bool and numpy.array_equal(numpy.asarray(found), expected)
        turned = numpy.asfortranarray(line[:300_000].reshape(300, 1000))
        found, expected = np.isin(np.array(turned, order="F"), tested), numpy.isin(turned, tested)
        assert found.strides == expected.strides and numpy.array_equal(numpy.asarray(found), expected)

"""Products that their first factors decide, and members of few elements, are NumPy's, with its warnings."""

from __future__ import annotations

import warnings
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse.numpy.ops import vanishing
from tests.test_fuzz_stream import stream

COUNT = vanishing.FEWEST + 1234
LATER = vanishing.FIRST + 5


def product(line: Any) -> tuple[Any, list[str]]:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = numpy.asarray(line.prod())
    return found.tobytes(), [str(warning.message) for warning in said]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("scale", [1.0, 3.0])
@pytest.mark.parametrize("signs", [False, True])
def test_products_are_numpys(dtype: str, scale: float, signs: bool) -> None:
    rng = numpy.random.default_rng(5)
    line = ((rng.random(COUNT) + 0.1) * scale).astype(dtype)
    if signs:
        line *= rng.choice([-1, 1], COUNT)
    with stream(3):
        for place, value in ((0, line[0]), (5, -0.0), (LATER, -line[LATER]), (LATER, 0.0), (LATER, -0.0),
                             (LATER, numpy.inf), (COUNT - 1, -numpy.inf), (COUNT - 1, numpy.nan)):
            one = line.copy()
            one[place] = value
            for mode in ("warn", "ignore"):
                with numpy.errstate(all=mode):
                    assert product(np.array(one)) == product(one), (place, value, mode)
        assert product(np.array(-line)) == product(-line)
        assert product(np.array(line.reshape(2, -1))) == product(line.reshape(2, -1))


def test_the_first_factors_decide_large_products(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int | None] = []
    real = vanishing.negative

    def watched(*args: Any) -> int | None:
        seen.append(real(*args))
        return seen[-1]

    monkeypatch.setattr(vanishing, "negative", watched)
    with stream(3):
        np.full(COUNT, 0.5).prod()
        np.full(COUNT, 1.0).prod()  # to be multiplied to the end
    assert seen == [0]


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

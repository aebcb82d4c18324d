"""First calls of a program: places that bring other views in every turn, and what is not imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse.numpy.small import native
from diffuse.settings import using

ROOT = Path(__file__).resolve().parent.parent

pytestmark = pytest.mark.local_only("a program of its own, on local threads")

SLIDING = """
import diffuse.numpy as np
from diffuse import explain, library
x = np.arange(60_000.0)
for k in range(200):
    y = np.maximum(x[k:], x[:60_000 - k] * 0.5) + x[k:]
library.fence()
print(float(y[-1]), library.trace.counters["recorded"], library.trace.counters["moving"] > 50)
"""


def printed(text: str) -> list[str]:
    """What a program prints in a process of its own, as words."""
    done = subprocess.run([sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True, timeout=300,
                          env={**os.environ, "DIFFUSE_COMPILE": "wait"})
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.skipif(native is None, reason="the first operations are done at once by the extension")
def test_views_that_move_in_the_first_operations_are_known_when_recording_begins() -> None:
    value, recorded, moved = printed(SLIDING)
    assert float(value) == 2 * 59_999.0 and moved == "True"
    assert int(recorded) <= 6


def test_a_median_imports_no_masked_arrays() -> None:
    text = ("import sys, diffuse.numpy as np; x = np.arange(100_001.0)[::-1] * 1.0;"
            "print(np.median(x), 'numpy.ma' in sys.modules)")
    assert printed(text) == ["50000.0", "False"]


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int32", "uint8", "bool"])
@pytest.mark.parametrize("size", [60_000, 60_001])
def test_medians_are_numpys(dtype: str, size: int) -> None:
    plain = (numpy.random.default_rng(size).standard_normal(size) * 50).astype(dtype)
    found, want = np.median(np.array(plain)), numpy.median(plain)
    assert found == want and type(found) is type(want)
    if plain.dtype.kind == "f":
        plain[7] = numpy.nan
        assert numpy.isnan(np.median(np.array(plain)))
        plain[:] = numpy.inf
        plain[:size // 2] = -numpy.inf
        with numpy.errstate(all="ignore"):
            numpy.testing.assert_equal(np.median(np.array(plain)), numpy.median(plain))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("small", [16, 16_384])
def test_scipy_overwrites_an_argument_only_if_told_to(small: int) -> None:
    linalg = pytest.importorskip("scipy.linalg")
    from diffuse.scipy import linalg as ours

    bands, right = numpy.array([[-1.0] * 40, [3.0] * 40, [-1.0] * 40]), numpy.arange(80.0).reshape(40, 2)
    with using(small=small):
        for options in ({}, {"check_finite": False}, {"overwrite_b": True}, {"overwrite_ab": True}):
            a, b = np.array(bands), np.array(right)
            later = b + 1.0  # it may be pending
            for _ in range(3):
                given: Any = ours.solve_banded((1, 1), a, b.copy(), **options)
                want = linalg.solve_banded((1, 1), bands.copy(), right.copy(), **options)
                assert numpy.array_equal(numpy.asarray(given), want)
                a = np.array(bands)
            assert numpy.array_equal(numpy.asarray(b), right)
            assert numpy.array_equal(numpy.asarray(later), right + 1)
        inverse = ours.inv(np.array(right[:2]) + np.eye(2))
        assert numpy.array_equal(numpy.asarray(inverse), linalg.inv(right[:2] + numpy.eye(2)))


def test_a_warning_for_code_without_a_module_looks_no_names_up() -> None:
    text = ("import types, diffuse.numpy as np; from diffuse.ir import Where;"
            "from diffuse.observe import floaterrors;"
            "floaterrors.warn('a notebook', RuntimeWarning, Where('<cell>', 1));"
            "print('bartlett' in vars(types.ModuleType)['__dict__'].__get__(np))")
    assert printed(text) == ["False"]

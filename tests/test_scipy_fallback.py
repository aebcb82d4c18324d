"""SciPy's modules as Diffuse offers them: arrays in and out, one warning per call site, names found late."""

from __future__ import annotations

import importlib
import inspect
import warnings
from collections.abc import Iterator
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse.numpy.bridge import fallback
from diffuse.observe import trace
from diffuse.settings import using

pytest.importorskip("scipy")

import scipy.fft  # noqa: E402 (these may not be there)
import scipy.linalg  # noqa: E402
import scipy.ndimage  # noqa: E402

import diffuse.scipy  # noqa: E402
from diffuse.scipy import fft, linalg, ndimage, special  # noqa: E402
from tests.jobs import python
from tests.outcomes import warned


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    fallback.forget_warnings()
    with using(small=16, fallback="warn"):
        yield


def matrix() -> Any:
    """Symmetric, positive definite."""
    return numpy.arange(36.0).reshape(6, 6) @ numpy.arange(36.0).reshape(6, 6).T + 6 * numpy.eye(6)


def test_one_warning_per_call_site_naming_the_function_and_the_line() -> None:
    x = np.array(matrix())
    with warned() as caught:
        for _ in range(3):
            linalg.inv(x)
        line = inspect.currentframe().f_lineno - 1  # type: ignore[union-attr]
        linalg.inv(x)
    assert len(caught) == 2 and caught[0].category is RuntimeWarning
    assert (caught[0].filename, caught[0].lineno) == (__file__, line)
    assert "scipy.linalg.inv runs by" in str(caught[0].message)


def test_silent_error_and_small() -> None:
    x, before = np.array(matrix()), trace.snapshot()["fallbacks"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        linalg.norm(np.ones(5))
        with using(fallback="silent"):
            linalg.norm(x)
        assert trace.snapshot()["fallbacks"] == before + 1
        assert fft.next_fast_len(97) == scipy.fft.next_fast_len(97)
    with using(fallback="error"), pytest.raises(NotImplementedError, match="scipy.ndimage.sobel"):
        ndimage.sobel(x)


@pytest.mark.parametrize("call", [
    lambda linalg, fft, ndimage, x: linalg.solve(x, x[0]),
    lambda linalg, fft, ndimage, x: linalg.eigh(x)[0],
    lambda linalg, fft, ndimage, x: linalg.lu_solve(linalg.lu_factor(x), x[1]),
    lambda linalg, fft, ndimage, x: linalg.block_diag(x, x),
    lambda linalg, fft, ndimage, x: linalg.blas.dgemm(1.0, x, x),
    lambda linalg, fft, ndimage, x: fft.irfft2(fft.rfft2(x)),
    lambda linalg, fft, ndimage, x: fft.dct(x, axis=0),
    lambda linalg, fft, ndimage, x: ndimage.gaussian_filter(x, 1.0),
    lambda linalg, fft, ndimage, x: ndimage.map_coordinates(x, [[0.5, 1.5], [0.5, 1.5]], order=1),
    lambda linalg, fft, ndimage, x: ndimage.label(x > 20)[0],
])
def test_results_are_scipys_as_diffuse_arrays(call: Any) -> None:
    plain = matrix()
    with using(fallback="silent"):
        got = call(linalg, fft, ndimage, np.array(plain))
    want = call(scipy.linalg, scipy.fft, scipy.ndimage, plain)
    assert isinstance(got, np.ndarray) and got.dtype == want.dtype
    assert numpy.array_equal(numpy.asarray(got), want)


def test_outputs_and_work_in_place_reach_the_array() -> None:
    with using(fallback="silent", small=0):
        x = np.ones(50) + np.arange(50.0)
        out = np.zeros(50)
        assert ndimage.uniform_filter1d(x, 3, output=out) is None or float(out[3]) == 4.0
        assert float(out[3]) == 4.0
        y = out * 2  # what was written is seen by what is recorded next
        assert float(y[3]) == 8.0


def test_scipys_errors_and_classes() -> None:
    with using(fallback="silent"):
        with pytest.raises(linalg.LinAlgError, match="[Ss]ingular"):
            linalg.inv(np.zeros((6, 6)))
    assert linalg.LinAlgError is numpy.linalg.LinAlgError
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        linalg.nothing


def test_modules_are_attributes_and_importable_and_the_rest_is_scipys() -> None:
    for name in ("fft", "linalg", "ndimage", "special"):
        module = getattr(diffuse.scipy, name)
        assert module is importlib.import_module(f"diffuse.scipy.{name}")
        missing = [n for n in getattr(scipy, name).__all__ if getattr(module, n, None) is None]
        assert not missing and set(dir(module)) >= set(getattr(scipy, name).__all__)
    blas = importlib.import_module("diffuse.scipy.linalg.blas")
    assert blas is linalg.blas and blas.ddot(np.ones(3), np.ones(3)) == 3.0
    assert diffuse.scipy.__version__ == scipy.__version__
    assert diffuse.scipy.constants is importlib.import_module("scipy.constants")
    assert {"special", "stats", "sparse"} <= set(dir(diffuse.scipy))
    with pytest.raises(AttributeError, match="SciPy has none"):
        diffuse.scipy.nothing
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("diffuse.scipy.linalg.nothing")


def test_functions_keep_their_names_and_documentation() -> None:
    assert linalg.solve.__name__ == "solve" and linalg.solve.__doc__ == scipy.linalg.solve.__doc__
    assert linalg.solve.__module__ == "diffuse.scipy.linalg"
    assert special.jv.__doc__ == importlib.import_module("scipy.special").jv.__doc__


def test_without_scipy_numpy_works_and_the_message_says_what_to_install() -> None:
    program = ("import sys; sys.modules['scipy'] = None\n"
               "import diffuse.numpy as np\n"
               "print(float(np.ones(3).sum()))\n"
               "try: import diffuse.scipy.special\n"
               "except ModuleNotFoundError as error: print(error.name, error)\n")
    found = python(program)
    first, second = found.stdout.splitlines()
    assert first == "3.0" and second.startswith("scipy diffuse.scipy needs SciPy") and "pip install" in second


def test_importing_diffuse_numpy_does_not_import_scipy() -> None:
    program = "import sys, diffuse.numpy as np; np.exp(np.ones(9)).sum(); print('scipy' in sys.modules)"
    found = python(program)
    assert found.stdout.strip() == "False", found.stderr

"""`ufunc.reduceat` on all threads: NumPy's bits, types and warnings, for segments of any kind."""

from __future__ import annotations

import warnings
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse.numpy.order import segments
from diffuse.numpy.order.team import SHARE
from diffuse.settings import using
from tests.test_fuzz_stream import stream

SIZE = 2 * SHARE + 77
STARTS = {
    "even": numpy.arange(0, SIZE, 10),
    "some": numpy.array([3, SIZE // 2, SIZE // 2, SIZE - 1]),
    "one long": numpy.array([0, 1, 2, 3]), "late": numpy.array([SIZE - 2, SIZE - 1]),
    "descending": numpy.array([9, 3, 0]), "beyond": numpy.array([0, SIZE]), "negative": numpy.array([-1, 3]),
    "single": numpy.array([5]), "none": numpy.array([], int), "list": [0, 7, 100_000],
    "small integers": numpy.arange(0, SIZE, 100, dtype="i4"),
}


def told(m: Any, ufunc: str, kind: str, starts: Any, **options: Any) -> Any:
    values = numpy.random.default_rng(5).integers(-9, 9, SIZE) + (0.1 if kind in "f4 f8" else 0)
    x = m.array(values.astype(kind))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = getattr(m, ufunc).reduceat(x, m.array(starts) if len(starts) else starts, **options)
        except Exception as error:
            return repr(error)
    messages = {str(each.message) for each in caught if "runs by NumPy" not in str(each.message)}
    return numpy.asarray(found).tobytes(), str(found.dtype), found.shape, found.flags.owndata, messages


@pytest.mark.local_only("other runtimes let NumPy fold")
@pytest.mark.parametrize("starts", STARTS)
@pytest.mark.parametrize("ufunc", ["add", "maximum", "multiply", "subtract", "logical_and", "power"])
def test_segments_are_folded_as_by_numpy(ufunc: str, starts: str) -> None:
    with stream(2):
        for dtype in "f8", "f4", "i4", "u1", "?":
            expected, found = (told(m, ufunc, dtype, STARTS[starts]) for m in (numpy, np))
            assert found == expected, dtype


@pytest.mark.local_only("other runtimes let NumPy fold")
@pytest.mark.parametrize("options", [
    {"axis": 0}, {"axis": -1}, {"axis": 1}, {"dtype": "f4"}, {"axis": 0, "dtype": None}])
def test_options_are_numpys(options: dict[str, Any]) -> None:
    with stream(2):
        expected, found = (told(m, "add", "f8", STARTS["even"], **options) for m in (numpy, np))
        assert found == expected


@pytest.mark.local_only("other runtimes let NumPy fold")
def test_several_threads_fold_and_numpy_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    from diffuse.numpy.order.team import together

    def counting(jobs: Any) -> Any:
        calls.append(len(jobs))
        return together(jobs)

    monkeypatch.setattr(segments, "together", counting)
    with stream(2), using(fallback="error"):
        x = np.full(SIZE, 1e308)
        assert float(np.maximum.reduceat(x, STARTS["even"])[0]) == 1e308 and calls == [2]
    with stream(2), pytest.warns(RuntimeWarning, match="overflow encountered in reduceat"):
        assert float(np.add.reduceat(x, STARTS["even"])[0]) == float("inf")

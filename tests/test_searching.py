"""Searches in sorted tables on all threads: NumPy's results, bit for bit, whatever the elements are."""

from __future__ import annotations

import numpy
import pytest

from diffuse.numpy.order import cells
from tests.each import for_each
from tests.test_sorting import TYPES, alike, elements, parallel, seeds  # noqa: F401 (a fixture)

pytestmark = pytest.mark.local_only("functions run on memory that the host sees")


@for_each("kind", TYPES)
def test_searches(kind: str) -> None:
    for seed in seeds(kind):
        x = elements(seed, kind, 600)
        for other in (kind, "d", "l"):
            table = numpy.sort(elements(seed + 1, other, 90))[::(1, -1)[seed % 2]]
            for side in ("left", "right"):
                alike(lambda m, x, t, side=side: m.searchsorted(t, x.reshape(20, 30).T, side), x, table)
            alike(lambda m, x, t: (m.digitize(x, t), m.digitize(x, t.tolist(), right=True)), x, table)
            alike(lambda m, x, t: m.interp(x, t, m.array(numpy.arange(90.0) % 7)), x, table)
            alike(lambda m, x, t: m.interp(x, t, [1.0, numpy.inf, numpy.inf] * 30, -1, numpy.nan), x, table)
        shuffled = elements(seed, kind, 91)
        alike(lambda m, x, t: (m.searchsorted(t, x), m.digitize(x, t)), x, shuffled)


@pytest.mark.parametrize("kind", "bBhHiIlLfd")
def test_searches_in_cells(kind: str) -> None:
    rng, dtype = numpy.random.default_rng(7), numpy.dtype(kind)
    most = 100 if dtype.itemsize == 1 else 1000
    spread = numpy.arange(0, most, most // 50)
    for table, steps in ((spread, 1), (numpy.repeat(spread, 3), 3), (numpy.append(spread, [most] * 9), None),
                         (spread[:1], None), (spread[:2], 1)):
        table = numpy.sort(table).astype(dtype)
        x = rng.integers(0, most + 20, 400).astype(dtype)
        if dtype.kind == "f":
            x[::7] += 0.5
            x[:8] = numpy.nan, -numpy.nan, numpy.inf, -numpy.inf, -0.0, 0.0, -5, numpy.nextafter(table[-1], 0)
        elif dtype.kind == "i":
            x[:3] = numpy.iinfo(dtype).min, numpy.iinfo(dtype).max, -1
        for side in ("left", "right"):
            found = cells.divided(table, side, x.size)
            assert (found is not None) == (steps is not None)
            if found is not None:
                out = numpy.empty(x.size, numpy.intp)
                found.find(x, out)
                assert out.tobytes() == numpy.searchsorted(table, x, side).tobytes()
            alike(lambda m, x, t, side=side: m.searchsorted(t, x, side), x, table)
        alike(lambda m, x, t: (m.digitize(x, t), *m.histogram(x[6:], t)), x, table)


def test_tables_in_cells() -> None:
    table = numpy.arange(40.0)
    infinite = [numpy.append(table, numpy.inf), numpy.append(-numpy.inf, table),
                numpy.append(table, numpy.nan)]
    for other in (*infinite, (table - 20) * 8e306, table * 0, table.astype("e"), table > 20):
        assert cells.divided(other, "left", 4000) is None
    for size in (cells.LARGEST, cells.LARGEST + 1):
        assert (cells.divided(numpy.arange(size), "left", size) is None) == (size > cells.LARGEST)
        assert cells.divided(numpy.arange(size), "left", size - 1) is None
    x = numpy.random.default_rng(0).standard_normal(4000) * 30
    x[:4] = table[-1], numpy.nextafter(table[-1], 99), numpy.inf, numpy.nan
    big = numpy.finfo(float).max
    for edges in (table, infinite[0], infinite[1], numpy.array([-1.0, 0.0]), numpy.array([0.0, 1.0, big])):
        alike(lambda m, x, e: (m.histogram(x, e), m.digitize(x, e)), x, edges)
        alike(lambda m, x, e: m.histogram2d(x, x, [e, e])[0], x[4:], edges)

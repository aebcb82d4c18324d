"""Sums and means of sparse arrays: SciPy's results, recorded where a task can make them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy
import pytest
import scipy.sparse

import diffuse.numpy as np
import diffuse.scipy.sparse as sp
from diffuse import settings
from diffuse.numpy.arrays import access, core
from diffuse.observe import trace
from diffuse.stream import engine
from tests.each import for_each
from tests.outcomes import quiet_outcome as outcome
from tests.outcomes import warned

KINDS = "float64 float32 complex128 complex64 int64 int32 int8 uint64 uint16 bool".split()
FORMATS = "csr csc coo dia bsr lil dok".split()
AXES: list[Any] = [None, 0, 1, -1, -2, (0,), (1,), (0, 1), (-1, 0)]


@pytest.fixture(params=["recorded", "as usual", "interpreted"])
def ways(request: pytest.FixtureRequest) -> Iterator[None]:
    """With tasks for arrays of any size, compiled or not, and with SciPy for small ones."""
    engine.fence()
    usual = settings.config.small
    with settings.using(small=usual if request.param == "as usual" else 0, min_chunk=100,
                        compile="off" if request.param == "interpreted" else "wait"):
        yield
        engine.fence()


def matrix(form: str, kind: str, dtype: str, shape: tuple[int, int] = (150, 90), seed: int = 0) -> Any:
    """A matrix of SciPy's whose elements are wide apart, with empty rows and columns and a long row."""
    rng = numpy.random.default_rng(seed)
    count = 6 * shape[0] if all(shape) else 0
    row, column = (rng.integers(0, n, count) if n else numpy.zeros(0, int) for n in shape)
    row[:count // 4] = shape[0] // 2
    values: Any = rng.standard_normal(count) * 10.0 ** rng.integers(-3, 4, count)
    if dtype[0] in "iub":
        values = rng.integers(0, 2 if dtype == "bool" else 50, count)
    values = (values + 1j * values[::-1] if dtype[0] == "c" else values).astype(dtype)
    keep = (row % 7 != 3) & (column % 5 != 2)
    found = scipy.sparse.coo_array((values[keep], (row[keep], column[keep])), shape=shape).tocsr()
    return getattr(scipy.sparse, f"{form}_{kind}")(found)


def ours(m: Any) -> Any:
    return getattr(sp, type(m).__name__)(m)


def same(found: Any, wanted: Any, bound: float = 0.0) -> None:
    """Alike in kind, shape, type and bits; a sum of all floats may be added up in another order."""
    if isinstance(wanted, Exception):
        assert type(found) is type(wanted), (found, wanted)
        return
    if isinstance(found, Exception):
        raise found
    assert isinstance(found, numpy.matrix) == isinstance(wanted, numpy.matrix)
    assert numpy.isscalar(wanted) == (not isinstance(found, core.array_class | numpy.ndarray))
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    if wanted.ndim == 0 and wanted.dtype.kind in "fc":
        assert abs(numpy.asarray(found) - wanted) <= bound
    else:
        assert numpy.asarray(found).tobytes() == numpy.asarray(wanted).tobytes()


def slack(m: Any) -> float:
    """What the sum of all elements may differ by in another order."""
    kind = m.dtype if m.dtype.kind in "fc" else "float64"
    return float(64 * numpy.finfo(kind).eps * numpy.abs(m.toarray().astype(complex)).sum())


@pytest.mark.usefixtures("ways")
@for_each("kind", ["array", "matrix"])
@for_each("dtype", KINDS)
@for_each("form", FORMATS)
def test_sums_and_means_are_scipys(form: str, dtype: str, kind: str) -> None:
    real = matrix(form, kind, dtype)
    for axis in AXES:
        same(outcome(lambda: ours(real).sum(axis=axis)), outcome(lambda: real.sum(axis=axis)), slack(real))
        same(outcome(lambda: ours(real).mean(axis=axis)), outcome(lambda: real.mean(axis=axis)), slack(real))


@pytest.mark.usefixtures("ways")
@for_each("axis", [None, 0, 1, (1,)])
@for_each("wanted", ["float32", "float64", "complex64", "int16", "int64", "bool", "uint8"])
@for_each("form", ["csr", "csc", "coo"])
def test_element_types_that_were_asked_for(form: str, wanted: str, axis: Any) -> None:
    for dtype in ("float64", "complex64", "int8", "bool"):
        real = matrix(form, "array", dtype)
        bound = slack(real) + slack(real.astype("float32")) if wanted[0] in "fc" else 0.0
        for name in ("sum", "mean"):
            same(outcome(lambda: getattr(ours(real), name)(axis, wanted)),
                 outcome(lambda: getattr(real, name)(axis, wanted)), bound)


@pytest.mark.usefixtures("ways")
@for_each("form", ["csr", "csc", "coo"])
@for_each("axis", [0, 1])
def test_results_that_were_given(form: str, axis: int) -> None:
    real = matrix(form, "array", "float64")
    for shape in (real.sum(axis=axis).shape, (3,)):
        for dtype in ("float64", "int64"):
            theirs, mine = numpy.zeros(shape, dtype), np.zeros(shape, dtype)
            wanted = outcome(lambda: real.sum(axis=axis, out=theirs))
            found = outcome(lambda: ours(real).sum(axis=axis, out=mine))
            same(found, wanted)
            assert isinstance(found, Exception) or found is mine
            same(mine, theirs)


@pytest.mark.usefixtures("ways")
@for_each("shape", [(0, 0), (0, 5), (5, 0), (1, 1), (1, 9), (9, 1), (4, 4)])
@for_each("form", FORMATS)
def test_shapes_with_little_in_them(form: str, shape: tuple[int, int]) -> None:
    for kind in ("array", "matrix"):
        make = getattr(scipy.sparse, f"{form}_{kind}")
        filled = outcome(lambda: matrix(form, kind, "float64", shape))
        empty = outcome(lambda: make(shape, dtype="float32"))
        for real in (filled, empty):
            if isinstance(real, Exception):
                continue
            for axis in (None, 0, 1, (0,)):
                for name in ("sum", "mean"):
                    same(outcome(lambda: getattr(ours(real), name)(axis)),
                         outcome(lambda: getattr(real, name)(axis)), slack(real))


@pytest.mark.usefixtures("ways")
@for_each("axis", [2, -3, (), (0, 0), (0, 1, 1), "0", (0.5,), 0.5])
def test_axes_that_there_are_not(axis: Any) -> None:
    real = matrix("csr", "array", "float64")
    for name in ("sum", "mean"):
        wanted = outcome(lambda: getattr(real, name)(axis))
        assert isinstance(wanted, Exception)
        same(outcome(lambda: getattr(ours(real), name)(axis)), wanted)


@pytest.mark.usefixtures("ways")
@for_each("form", ["csr", "csc", "coo"])
@for_each("axis", AXES)
def test_duplicates_and_unsorted_indices(form: str, axis: Any) -> None:
    rng = numpy.random.default_rng(1)
    if form == "coo":
        real = scipy.sparse.coo_array((rng.standard_normal(60), rng.integers(0, 8, (2, 60))), shape=(8, 8))
    else:
        positions, indices = numpy.array([0, 5, 5, 20, 31, 40, 52, 53, 60]), rng.integers(0, 8, 60)
        make = getattr(scipy.sparse, f"{form}_array")
        real = make((rng.standard_normal(60), indices, positions), shape=(8, 8))
    for name in ("mean", "sum"):
        same(getattr(ours(real.copy()), name)(axis), getattr(real.copy(), name)(axis), slack(real))


@pytest.mark.usefixtures("ways")
@for_each("form", ["csr", "csc", "coo"])
@for_each("dtype", ["float64", "float32", "complex128"])
def test_no_sum_is_minus_zero(form: str, dtype: str) -> None:
    """Rows and columns of one, two and more elements that all are."""
    full = numpy.tril(numpy.ones((12, 12), dtype))
    real = getattr(scipy.sparse, f"{form}_array")(full)
    real.data[:] = -0.0 if dtype[0] == "f" else complex(-0.0, -0.0)
    for axis in (0, 1):
        for name in ("sum", "mean"):
            same(getattr(ours(real), name)(axis), getattr(real, name)(axis))


def large(form: str = "csr") -> Any:
    n = 1 << 16
    real = scipy.sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n))
    return ours(getattr(scipy.sparse, f"{form}_array")(real))


def test_a_sum_of_rows_fuses_with_what_follows() -> None:
    a, x = large(), np.array(numpy.linspace(0.0, 1.0, 1 << 16))
    engine.fence()
    before = trace.counters["launched"]
    s = a.sum(axis=1)
    y = s * 2.0 + x
    assert trace.counters["launched"] == before
    engine.fence()
    assert trace.counters["launched"] - before == 1
    same(y, a.to_scipy().sum(axis=1) * 2.0 + numpy.asarray(x))


def pending(a: Any) -> Any:
    """A matrix of the same structure with values that are not computed yet."""
    values = a.data * 3.0
    if a.format == "coo":
        found = type(a)((values, a.coords), shape=a.shape)
        found.has_canonical_format = True
        return found
    return type(a)((values, a.indices, a.indptr), shape=a.shape)


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
@pytest.mark.parametrize("axis", [None, 0, 1, (0,), (1,)])
@pytest.mark.parametrize("name", ["sum", "mean"])
def test_nobody_waits_for_values_that_are_being_computed(form: str, axis: Any, name: str) -> None:
    scaled = pending(large(form))
    before = trace.counters["launched"]
    found = getattr(scaled, name)(axis)
    assert trace.counters["launched"] == before and not access.ready(scaled._part("data"))
    real = scaled.to_scipy()
    same(found, getattr(real, name)(axis), slack(real.tocsr()[:1]) * real.shape[0])


@pytest.mark.parametrize("name", ["sum", "mean"])
def test_nor_where_the_structure_is_a_copy_that_is_being_made(name: str) -> None:
    a = large()
    a.sum(), a.sum(axis=1)  # the structure is known from now on
    engine.fence()
    scaled = a * 3.0
    before = trace.counters["launched"]
    everything, lines = getattr(scaled, name)(), getattr(scaled, name)(axis=1)
    assert trace.counters["launched"] == before
    real = scaled.to_scipy()
    same(lines, getattr(real, name)(axis=1))
    same(everything, getattr(real, name)(), slack(real[:1]) * a.shape[0])


def test_a_sum_sees_what_was_written_before_it() -> None:
    a = large()
    first = a.sum(axis=1)
    a.data[:] = 1.0
    second = a.sum(axis=1)
    assert float(first.sum()) == 2.0 and float(second.sum()) == a.nnz


@pytest.mark.not_device("no floating-point flags are kept")
@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("values", [(numpy.inf, -numpy.inf), (1e308, 1e308)])
def test_a_sum_of_rows_warns_as_scipys_does(values: tuple[float, float], alone: bool) -> None:
    def program(np: Any, sp: Any) -> list[str]:
        row, column = numpy.arange(40_000) // 2, numpy.arange(40_000)
        stored = numpy.ones(40_000)
        stored[10:12] = values
        a = sp.csr_array((np.array(stored), (np.array(row), np.array(column))), shape=(20_000, 40_000))
        with warned() as caught:
            total = a.sum(axis=1)
            found = total if alone else total * 0.5
            float(found[0])
        return [str(w.message) for w in caught]

    said = program(numpy, scipy.sparse)
    assert len(said) == 1 and said[0].endswith("in reduceat")
    assert program(np, sp) == said if alone else "reduceat" in program(np, sp)[0]

"""Folds that the calling thread computes at once: nothing is pending, and a launch would take longer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse.numpy.ops import conversion
from diffuse.observe import trace
from diffuse.settings import config
from diffuse.stream import engine
from tests.each import for_each
from tests.outcomes import warned

FOLDS: list[Callable[[Any], Any]] = [
    lambda a: a.sum(), lambda a: a.prod(), lambda a: a.max(), lambda a: a.min(), lambda a: a.mean(),
    lambda a: a.argmax(), lambda a: a.argmin(), lambda a: a.any(), lambda a: a.all(), lambda a: a[:60].sum(),
    lambda a: a[:, :120].sum(), lambda a: a.T.sum(), lambda a: a.sum(axis=0), lambda a: a.max(axis=1),
    lambda a: a[::2].mean(axis=0), lambda a: a.argmax(axis=1), lambda a: a.std(), lambda a: a.var(axis=0),
    lambda a: a.std(axis=1, ddof=1), lambda a: a.ravel() @ a.ravel(),
    lambda a: np.dot(a.ravel()[::2], a.ravel()[1::2]), lambda a: np.vdot(a[:100].ravel(), a[:100].ravel()),
    lambda a: a.astype(int).sum()]


@contextmanager
def small(elements: int) -> Iterator[None]:
    before = config.small
    config.small = elements
    try:
        yield
    finally:
        config.small = before


def counted() -> tuple[int, int]:
    """Operations that were recorded, and tasks that were launched."""
    found = trace.snapshot()
    return found["recorded"], found["launched"]


def idle(values: Any) -> Any:
    """A Diffuse array on which nothing is pending."""
    x = np.array(values) if values.dtype == bool else np.array(values) * 1
    engine.fence()
    return x


@pytest.mark.local_only("reductions are recorded where their data is")
@for_each("k", range(len(FOLDS)))
def test_a_fold_of_an_idle_array_is_not_recorded_and_has_the_same_bits(k: int) -> None:
    pick = numpy.random.default_rng(k)
    values = pick.standard_normal((150, 300)) * 10.0 ** pick.integers(-9, 9, (150, 300))
    x, before = idle(values), trace.counters["recorded"]
    at_once = FOLDS[k](x)
    if k < len(FOLDS) - 1:  # a cast is recorded
        assert trace.counters["recorded"] == before
    with small(0):
        recorded = FOLDS[k](idle(values))
        assert trace.counters["recorded"] > before
        assert numpy.asarray(at_once).tobytes() == numpy.asarray(recorded).tobytes()


@pytest.mark.local_only("reductions are recorded where their data is")
@pytest.mark.parametrize("call", [lambda a: np.nansum(a), lambda a: np.nansum(a.T, axis=0),
                                  lambda a: np.nanprod(a[:, ::2], axis=1)])
def test_folds_without_nans_of_an_idle_array_have_the_same_bits(call: Callable[[Any], Any]) -> None:
    values = numpy.random.default_rng(5).standard_normal((150, 300))
    values[::7, ::5] = numpy.nan
    x, before = idle(values), trace.counters["recorded"]
    at_once = call(x)
    assert trace.counters["recorded"] == before and not numpy.isnan(numpy.asarray(at_once)).any()
    with small(0):
        assert numpy.asarray(at_once).tobytes() == numpy.asarray(call(idle(values))).tobytes()
    assert trace.counters["recorded"] > before
    assert numpy.isnan(numpy.asarray(x)).any()


def test_a_fold_of_what_is_pending_is_recorded() -> None:
    x = np.ones((150, 300)) * 2.0
    before = trace.counters["recorded"]
    total = x.sum()
    assert trace.counters["recorded"] == before + 1 and total == 90_000.0


@pytest.mark.local_only("reductions are recorded where their data is")
@for_each("shape", [(500_000,), (5, 100_000), (100_000, 5), (3, 400, 300)])
@for_each("name", ["bool", "float64", "int32", "complex64"])
def test_any_and_all_end_where_the_first_elements_decide(shape: tuple[int, ...], name: str) -> None:
    plain = numpy.zeros(shape, name)
    plain.flat[7] = 1
    for values in (plain, plain.T, plain == 0):
        x, before = idle(values), trace.counters["recorded"]
        for found, expected in ((x.any(), values.any()), (np.all(x), numpy.all(values))):
            assert type(found) is numpy.bool and found == expected
        assert trace.counters["recorded"] == before


@pytest.mark.local_only("reductions are recorded where their data is")
def test_middle_sized_booleans_are_tested_at_once() -> None:
    values = numpy.ones((400, 500), bool)
    for x in (values, ~values, values[:, ::2], values.T):
        y, before = idle(x), trace.counters["recorded"]
        assert y.all() == x.all() and y.any() == x.any() and y[1:].all() == x[1:].all()
        assert trace.counters["recorded"] == before


def test_any_and_all_look_at_every_element_where_they_must(threshold: None) -> None:
    late = numpy.zeros((400, 1000), bool)
    late[-1, -1] = True
    for values in (late, ~late, late.T, late[:, ::3], late * 1.0, late[:0]):
        x = idle(values)
        assert x.any() == values.any() and x.all() == values.all()
        assert (x > 0).any() == values.any() and (x > 0).all() == values.all()
        assert x.any(axis=0).tolist() == values.any(axis=0).tolist()
        assert x.all(keepdims=True).tolist() == values.all(keepdims=True).tolist()


def test_any_sees_what_was_recorded() -> None:
    x = idle(numpy.zeros(200_000))
    x += 1.0
    assert x.all() and x.any()
    x[3] = 0.0
    assert not x.all()


@pytest.mark.local_only("reductions are recorded where their data is")
def test_nothing_is_recorded_for_the_value_of_an_array_at_hand() -> None:
    values = numpy.random.default_rng(1).random((400, 500))
    x, flags = idle(values), idle(values > 2.0)
    whole = idle((numpy.arange(300_000) % 1000).astype(numpy.int16))
    before = counted()
    for found, expected in (
            (x.max(), values.max()), (x[:, 1:].argmax(), values[:, 1:].argmax()), (flags.sum(), 0),
            (flags.any(), False), (np.count_nonzero(flags), 0), (x[::2].T.min(), values[::2].min()),
            (whole[:200_000] @ whole[:200_000], numpy.dot(whole[:200_000], whole[:200_000]))):
        assert type(found) is type(expected) or isinstance(found, numpy.generic)
        assert found == expected
    for found, near in ((x.sum(), values.sum()), (x.mean(), values.mean()), (x.std(), values.std()),
                        (np.linalg.norm(x), numpy.linalg.norm(values))):
        assert isinstance(found, numpy.float64) and abs(found / near - 1) < 1e-12
    assert counted() == before


@pytest.mark.local_only("reductions are recorded where their data is")
def test_what_pending_tasks_only_read_is_at_hand() -> None:
    x = idle(numpy.arange(100_000.0))
    later = x * 2.0
    before = counted()
    assert x.max() == 99_999.0 and x.argmin() == 0 and x.sum() == 4_999_950_000.0
    assert counted() == before
    x += later
    assert x.max() == 3 * 99_999.0


@pytest.mark.local_only("reductions are recorded where their data is")
@pytest.mark.parametrize("values", [(1e200, -1e200), (numpy.inf, 1.0), (numpy.nan, 1.0)])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_moments_that_are_not_finite_warn_as_numpys_do(values: tuple[float, float], axis: int | None) -> None:
    plain = numpy.ones((300, 200))
    plain[3, 5:7] = plain[4, 5:7] = values
    said: list[set[str]] = []
    for x in (plain, idle(plain)):
        with warned() as caught:
            found = numpy.asarray(x.var(axis=axis))
            engine.fence()
        said.append({str(w.message).split(" encountered")[0] for w in caught})
    assert said[0] == said[1]
    with numpy.errstate(all="ignore"):
        numpy.testing.assert_allclose(found, plain.var(axis=axis))


@pytest.mark.local_only("products are recorded where their data is")
def test_products_of_matrices_at_hand_are_not_recorded() -> None:
    plain = numpy.random.default_rng(4).random((200, 300))
    matrix, vector = idle(plain), idle(plain[0])
    before = counted()
    for found, expected in ((matrix @ vector, plain @ plain[0]), (matrix @ matrix.T, plain @ plain.T),
                            (np.dot(plain[:, 0], matrix), plain[:, 0] @ plain)):
        assert type(found) is np.ndarray and numpy.asarray(found).tobytes() == expected.tobytes()
    assert counted() == before
    assert ((matrix * 2.0) @ vector)[0] == (plain * 2.0 @ plain[0])[0]
    assert counted() == (before[0] + 2, before[1] + 2)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "c8"])
def test_products_of_views_at_hand_are_numpys(dtype: str) -> None:
    """Also of views that lie otherwise in memory, of the wrong extents, and on arrays that are busy again."""
    plain = (numpy.random.default_rng(5).random((200, 200)) * 50).astype(dtype)
    x = np.array(plain) * np.array(1, dtype)
    assert x[0, 0] == plain[0, 0]
    pairs: list[Callable[[Any], Any]] = [
        lambda a: a[3:, :150] @ a[7, :150], lambda a: a[:, 4] @ a, lambda a: a.T @ a[:, ::2],
        lambda a: a[::-1, 5:] @ a[5:].T[:195, :9], lambda a: a[:0] @ a[:, 0], lambda a: a[:, :0] @ a[:0]]
    for product in pairs:
        found, expected = product(x), product(plain)
        assert found.dtype == expected.dtype and numpy.asarray(found).tobytes() == expected.tobytes()
    with pytest.raises(ValueError, match="mismatch in its core dimension"):
        x[:, 1:] @ x[0]
    x += np.array(1, dtype)  # pending
    plain += numpy.array(1, dtype)
    assert numpy.asarray(x @ x[:, 0]).tobytes() == (plain @ plain[:, 0]).tobytes()


@pytest.mark.local_only("products are recorded where their data is")
def test_products_with_small_arrays_of_numpys_are_not_recorded_nor_get_stores(
        monkeypatch: pytest.MonkeyPatch) -> None:
    random = numpy.random.default_rng(9)
    tall, batch, few = random.random((5000, 10)), random.random((3000, 4, 4)), random.random(10)
    square, t, b = random.random((4, 4)), np.array(tall), np.array(batch)
    engine.fence()
    monkeypatch.setattr(conversion, "shared", None)        # what gives an array of NumPy's a store
    calls: list[Callable[[Any, Any], Any]] = [
        lambda t, b: t @ few, lambda t, b: square @ b, lambda t, b: b @ square.T, lambda t, b: b @ b[:1],
        lambda t, b: few @ t.T, lambda t, b: b[:, :2, :] @ b, lambda t, b: b @ few[:4, None]]
    for call in calls:
        before = trace.snapshot()["recorded"]
        found, wanted = call(t, b), call(tall, batch)
        assert trace.snapshot()["recorded"] == before
        assert type(found) is np.ndarray and numpy.asarray(found).tobytes() == wanted.tobytes()
        assert found.strides == wanted.strides
    with pytest.raises(ValueError, match="mismatch in its core dimension"):
        b @ few


@pytest.mark.parametrize("busy", [False, True])
def test_arrays_of_indices_on_large_arrays_are_numpys(busy: bool) -> None:
    plain = numpy.random.default_rng(6).random((200, 200))
    x = np.array(plain) * 1.0
    if not busy:
        assert x[0, 0] == plain[0, 0]

    def steps(a: Any) -> list[Any]:
        found: list[Any] = []
        a[[3, 5]] = a[[5, 3]]
        a[:, [1, 2]] = a[:, [2, 1]] * 2.0
        a[[0, 0, 7], [1, 1, 2]] = [5.0, 6.0, 7.0]
        a[numpy.arange(200) % 3 == 0] = 0.5
        a[numpy.array([4, 6]), 2:9] -= 1.0
        a[a[:, 0] > 0.9, 3] = a[9, 9]
        a[[[1], [2]], [3, 4]] = a[[0, 1]][:, [0, 1]]
        found += [a[[0, -1]], a[:, [7]], a[[1, 2], [3, 4]], a[a[0] > 0.5], a[numpy.array(3)], a[[True] * 200]]
        found += [a[a > 0.5], a.ravel()[a.ravel() > 0.1], a.ravel()[a.ravel().argsort()]]
        return found

    for ours, theirs in zip(steps(x), steps(plain), strict=True):
        assert numpy.asarray(ours).tobytes() == numpy.asarray(theirs).tobytes() and ours.shape == theirs.shape
    assert numpy.asarray(x).tobytes() == plain.tobytes()
    mistakes: list[tuple[Any, Any]] = [([200], IndexError), ([1.5], IndexError), ([[0], [0, 1]], ValueError)]
    for wrong, error in mistakes:
        with pytest.raises(error):
            plain[wrong]
        with pytest.raises(error):
            x[wrong]
        with pytest.raises(error):
            x[wrong] = 1.0
    with pytest.raises(ValueError, match="shape mismatch"):
        x[[0, 1]] = numpy.ones((3, 200))
    x.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        x[[0, 1]] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        x[:, 1] = 1.0


@pytest.mark.parametrize("name", ["sum", "mean", "max", "all"])
def test_a_number_of_no_dimensions_is_reduced_where_one_element_is_not_small(name: str) -> None:
    with small(1):
        assert getattr(np.ones(()) * 3, name)() == getattr(numpy.full((), 3.0), name)()

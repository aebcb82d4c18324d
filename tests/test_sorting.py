"""Sorts, searches and counts on all threads: NumPy's results, bit for bit, whatever the elements are."""

from __future__ import annotations

import inspect
import itertools
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse.numpy.bridge import fallback
from diffuse.numpy.order import (
    calls,
    cells,
    histograms,
    merging,
    radix,
    selection,
    sets,
    sorting,
    tallies,
    team,
)
from diffuse.observe import trace
from diffuse.settings import using
from tests.outcomes import in_child, warned

pytestmark = pytest.mark.local_only("functions run on memory that the host sees")

TYPES = "?bBhHiIlLefdFD"
Call = Callable[..., Any]


@pytest.fixture(params=[False, True], ids=["digits", "runs"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sorts by digits, and by runs that NumPy sorts in threads and that are merged."""
    monkeypatch.setattr(radix, "vectorized", lambda dtype: request.param)


@pytest.fixture(autouse=True)
def parallel(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Everything but a few elements goes through the routines, in several threads."""
    monkeypatch.setattr(radix, "FEWEST", 64)
    monkeypatch.setattr(cells, "SHARED", 1)
    monkeypatch.setattr(team, "SHARE", 50)
    monkeypatch.setattr(team, "threads", lambda: 3)
    monkeypatch.setattr(sorting, "threads", lambda: 3)
    monkeypatch.setattr(sorting, "NARROW", 64)
    monkeypatch.setattr(merging, "threads", lambda: 3)
    monkeypatch.setattr(merging, "SHARE", 50)
    monkeypatch.setattr(tallies, "threads", lambda: 3)
    with using(small=64, compile="wait", fallback="error"):
        yield


def elements(seed: int, kind: str, n: int) -> Any:
    """Random elements; of floats, by the seed, with NaNs, zeros of both signs, NaNs of several kinds."""
    rng = numpy.random.default_rng(seed)
    if kind in "FD":
        x = (rng.standard_normal(n) + 1j * rng.integers(0, 3, n)).astype(kind)
    else:
        x = (rng.standard_normal(n) * (50, 1e4)[seed % 2]).astype(kind)
    special = seed % 6
    if kind in "efdFD" and special >= 2:
        x[rng.integers(0, n, 5)] = numpy.nan
    if kind in "efd" and special >= 3:
        x[rng.integers(0, n, 9)], x[rng.integers(0, n, 9)] = -0.0, 0.0
    if kind in "fd" and special == 4:
        x[rng.integers(0, n, 3)] = -numpy.nan
    return numpy.sort(x) if special == 5 else x


def seeds(kind: str) -> tuple[int, ...]:
    """Seeds for which elements of a type have all that is special about it."""
    return (0, 1, 2, 3, 4, 5) if kind in "efd" else (1, 2) if kind in "FD" else (0, 5)


def flat(value: Any) -> list[Any]:
    return [part for item in value for part in flat(item)] if isinstance(value, tuple | list) else [value]


def steps(x: Any) -> list[int]:
    """The strides of an array along which it has elements."""
    return [stride for n, stride in zip(x.shape, x.strides, strict=True) if n > 1]


def alike(call: Call, *arrays: Any) -> None:
    """Check a call on our arrays against NumPy's: results, warnings, errors."""
    outcomes = []
    for module in (np, numpy):
        given = [module.array(x) if module is np else x.copy(order="K") for x in arrays]
        with warned() as caught:
            try:
                result = call(module, *given)
            except Exception as error:
                result = (str(type(error)), str(error))
        outcomes.append((flat(result), [str(warning.message) for warning in caught]))
    (ours, said), (theirs, wanted) = outcomes
    assert said == wanted and len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        if not isinstance(other, numpy.ndarray | numpy.generic):
            assert one == other
            continue
        one = numpy.asarray(one)
        assert one.dtype == other.dtype and one.shape == other.shape and steps(one) == steps(other)
        assert one.tobytes() == other.tobytes(), (one, other)


def in_place(kind: Any) -> Call:
    def run(m: Any, x: Any) -> Any:
        x.sort(kind=kind)
        return x

    return run


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("kind", TYPES)
def test_sorts(kind: str) -> None:
    for seed in seeds(kind):
        x = elements(seed, kind, 700)
        for how in (None, "stable", "heapsort"):
            alike(lambda m, x, how=how: (m.sort(x, kind=how), m.argsort(x, kind=how)), x)
            alike(in_place(how), x)
        alike(lambda m, x: m.lexsort((x, x[::-1])), x)
        alike(lambda m, x: (m.sort(x[::3]), m.sort(x[::-1]), x[1:].argsort(stable=True)), x)
        table = numpy.asfortranarray(x.reshape(35, 20)) if seed % 2 else x.reshape(35, 20)
        for axis in (0, 1, -1, None):
            alike(lambda m, x, axis=axis: (m.sort(x, axis), m.argsort(x, axis, "stable")), table)
        for axis in (0, 1):
            alike(lambda m, x, axis=axis: (m.partition(x, [3, 5], axis), m.argpartition(x, 3, axis)), table)
        for kth in (30, -1, [5, 600, 7], 700, [True], 2.0):
            alike(lambda m, x, kth=kth: (m.partition(x, kth), m.partition(x[::-2], [20], 0)), x)


@pytest.mark.parametrize("kind", TYPES)
def test_selections(kind: str) -> None:
    for seed in seeds(kind):
        x = elements(seed, kind, 3000 + seed % 2)
        alike(lambda m, x: (m.median(x), m.median(x, keepdims=True), m.median(x, axis=0)), x)
        alike(lambda m, x: m.nanmedian(x), x)
        for q in (0.5, [0.05, 0.5, 0.95], 0, 1, numpy.array([0.25, 0.75])):
            alike(lambda m, x, q=q: m.quantile(x, q), x)
            alike(lambda m, x, q=q: m.nanquantile(x, q), x)
        for method in ("lower", "nearest", "midpoint", "median_unbiased", "inverted_cdf"):
            alike(lambda m, x, method=method: m.percentile(x, [3, 70], method=method), x)
        table = numpy.asfortranarray(x[:900].reshape(30, 30)) if seed % 2 else x[:900].reshape(45, 20)
        for axis in (0, 1, None, (0, 1)):
            alike(lambda m, x, axis=axis: (m.median(x, axis), m.nanmedian(x, axis)), table)
            alike(lambda m, x, axis=axis: m.quantile(x, [0.2, 0.4], axis, keepdims=True), table)


@pytest.mark.parametrize("count", [1, 2, 4, 7, 16])
@pytest.mark.parametrize("kind", "fdlQ")
def test_runs_are_merged(kind: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(team, "threads", lambda: count)
    monkeypatch.setattr(merging, "threads", lambda: count)
    rng = numpy.random.default_rng(count)
    for n in (count, 1000, 4001):
        random = rng.integers(-n, n, n).astype(kind) + numpy.array(0.5, kind)
        for x in (random, numpy.sort(random), numpy.sort(random)[::-1], random * 0 + 1, random % 3):
            found = merging.ordered(x)
            assert found is not None and found.tobytes() == numpy.sort(x).tobytes()
            low = numpy.sort(x[:rng.integers(n + 1)])
            both = merging.merged(low, numpy.sort(x))
            assert both is not None and both.tobytes() == numpy.sort(numpy.concatenate((low, x))).tobytes()


def test_zeros_of_both_signs_and_different_nans_are_not_merged() -> None:
    x = numpy.arange(1.0, 5001.0)
    for first, last, same in ((0.0, -0.0, False), (-0.0, -0.0, True), (0.0, numpy.nan, True)):
        x[1], x[-2] = first, last
        assert (merging.ordered(x) is not None) == same
        alike(lambda m, x: (m.sort(x), m.unique(x), m.unique(x, equal_nan=False)), x)


@pytest.mark.parametrize("size", [33_000, 700_000])
def test_elements_of_some_ranks_are_found_by_a_sample(size: int) -> None:
    x = numpy.random.default_rng(size).standard_normal(size)
    ranks = [0, 1, size // 50, size // 2, size // 2 + 1, size - 1]
    assert selection.selected(x, ranks) == numpy.sort(x)[ranks].tolist()


@pytest.mark.parametrize("kind", TYPES)
def test_counts(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in seeds(kind):
        x, y = elements(seed, kind, 140_000 if seed < 2 else 900), elements(seed % 2, kind, 900)
        limits = (None, (-10, 10), (0, 3.5))[seed % 3]
        weights = elements(0, "dlfD"[seed % 4], x.size)
        alike(lambda m, x, limits=limits: m.histogram(x, 17, limits), x)
        alike(lambda m, x, limits=limits: m.histogram(x, 10, limits, density=True), x)
        alike(lambda m, x, w, limits=limits: m.histogram(x, 20, limits, weights=w), x, weights)
        alike(lambda m, x: m.histogram(x, "sqrt"), x[:900])
        for edges in ([0, 1, 1, 3, 3], [0.0, 1.5, 4.0], [0, 2, 1]):
            alike(lambda m, x, edges=edges: m.histogram(x, m.array(edges)), x)
        if x.size == 900:
            alike(lambda m, x, y: m.histogram2d(x, y, 6), x, y)
            alike(lambda m, x, y: m.histogram2d(x, y, [4, [0, 1, 2]], density=True), x, y)
            alike(lambda m, x, y: m.histogramdd(m.stack([x, y, x], 1), 3), x, y)


@pytest.mark.parametrize("kind", TYPES)
def test_sets(kind: str) -> None:
    for seed in seeds(kind):
        x, y = elements(seed, kind, 600), elements(seed + 1, kind, (9, 300)[seed % 2])
        for bits in (0, 1, 2, 4, 7):
            wanted = bool(bits & 1), bool(bits & 2), bool(bits & 4)
            alike(lambda m, x, wanted=wanted: m.unique(x, *wanted), x)
            alike(lambda m, x, wanted=wanted: m.unique(x.reshape(20, 30).T, *wanted, equal_nan=False), x)
        alike(lambda m, x: (*m.unique_all(x), *m.unique_counts(x), *m.unique_inverse(x)), x)
        for name in ("intersect1d", "union1d", "setdiff1d", "setxor1d", "isin"):
            alike(lambda m, x, y, name=name: (getattr(m, name)(x, y), getattr(m, name)(y, x)), x, y)
        alike(lambda m, x, y: m.isin(x.reshape(-1, 1), y, invert=True, kind="sort"), x, y)


@pytest.mark.parametrize("call", [
    lambda m, x: m.sort(x, axis=2), lambda m, x: m.sort(x, kind="foo"), lambda m, x: m.sort(x, foo=1),
    lambda m, x: m.argsort(x, order="a"), lambda m, x: m.sort(x, stable=True, kind="stable"),
    lambda m, x: m.sort(), lambda m, x: m.partition(x.reshape(50, -1), 300), lambda m, x: x.sort(axis=1),
    lambda m, x: m.quantile(x, 1.5), lambda m, x: m.quantile(x, 0.5, method="foo"),
    lambda m, x: m.median(x, axis=3), lambda m, x: m.searchsorted([1.0, 2], x, "up"),
    lambda m, x: m.digitize(x, [1, 3, 2]), lambda m, x: m.interp(x, [1, 2], [1, 2, 3]),
    lambda m, x: m.interp(x, [], []), lambda m, x: m.histogram(x, 0), lambda m, x: m.histogram(x, 5, (3, 1)),
    lambda m, x: m.histogram(x * m.inf), lambda m, x: m.histogram(x, 10, weights=x[1:]),
    lambda m, x: m.unique(x, axis=4), lambda m, x: m.isin(x, x, kind="foo"),
    lambda m, x: m.bincount(x.astype(int) - 5), lambda m, x: m.lexsort((x, x[1:])),
])
def test_errors_are_numpys_at_the_call(call: Call) -> None:
    alike(call, numpy.ones(100))


def test_pending_tasks_come_first_and_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    before = trace.snapshot()["fallbacks"]
    x = np.array(numpy.arange(200.0))
    y = 100.0 - x
    assert float(np.sort(y)[0]) == -99.0 and float(np.median(y + 1.0)) == 1.5
    y *= -1.0
    y[::2].sort()
    assert np.asarray(np.searchsorted(y[::2], x)).tolist()[:3] == [50, 51, 51]
    half = y[100:]
    half.sort(kind="stable")
    assert float(y[100]) == float(half.min())
    assert trace.snapshot()["fallbacks"] == before


def test_a_sort_of_a_read_only_array_or_by_a_view_is_numpys() -> None:
    x = np.array(numpy.arange(200.0)[::-1])
    x.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        x.sort()
    seen = numpy.asarray(y := np.array(numpy.arange(200.0)[::-1]))
    y.sort()
    assert seen[0] == 0.0


def test_equal_elements_have_numpys_positions() -> None:
    x = elements(0, "l", 5000) % 50
    x[::7] = 1 << 40
    alike(lambda m, x: m.argsort(x), x)
    alike(lambda m, x: m.argsort(x, kind="heapsort"), x)


@pytest.mark.parametrize("kind", "?bBhHiIlLd")
def test_integers_are_counted(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tallies, "SPAN", 16)
    monkeypatch.setattr(tallies, "ALONE", 0)
    rng = numpy.random.default_rng(ord(kind))
    x = rng.integers(0, 20, 600).astype(kind)
    x[-1] = 1 if kind == "?" else 90  # more counts than there are for the elements before it
    whole, real = rng.integers(-99, 99, 600), rng.standard_normal(600)
    kinds = whole, whole.astype("b"), whole.astype("u8"), whole * (1 << 44), real, real.astype("f")
    for weights in kinds:
        alike(lambda m, x, w: (m.bincount(x), m.bincount(x, w), m.bincount(x, w, 7)), x, weights)
        alike(lambda m, x, w: m.bincount(x[::2], w[::-2]), x, weights)
    alike(lambda m, x: (m.bincount(x, minlength=500), m.bincount(x, minlength=True)), x)
    for wrong in (x.reshape(2, -1), numpy.append(x, -1), numpy.append(x, 1000)):
        alike(lambda m, x: m.bincount(x), wrong)
    alike(lambda m, x, w: m.bincount(x, w[1:]), x, real)
    alike(lambda m, x: m.bincount(x, minlength=-1), x)
    alike(lambda m, x: m.bincount(x, minlength="a"), x)
    alike(lambda m, x: m.bincount(x, x.tolist()), x)


def test_what_is_selected_comes_from_a_few_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "SAMPLE", 1024)
    x = elements(0, "d", 4000)
    found = selection.selected(x, [0, 1000, 1001, 3999])
    assert found == [x.min(), *numpy.sort(x)[1000:1002], x.max()]
    with pytest.raises(selection.Unknown):
        selection.selected(numpy.ones(4000), [1000])
    alike(lambda m, x: m.median(x), numpy.ones(4000))


def test_threads_take_parts_and_errors_wait_for_all() -> None:
    assert team.parts(100) == [(0, 50), (50, 100)] and team.parts(0) == [(0, 0)]
    assert team.parts(100, 10, 8) == [(0, 32), (32, 64), (64, 100)]
    done = threading.Event()

    def fails() -> None:
        raise KeyError("first")

    def ends() -> int:
        done.set()
        return 2

    with pytest.raises(KeyError, match="first"):
        team.together([fails, ends])
    assert done.is_set() and team.together([ends, ends]) == [2, 2] and team.together([]) == []


@pytest.mark.parametrize("weight", "dfl")
@pytest.mark.parametrize("kind", "dlQb")
def test_sums_of_weights_follow_numpys_blocks(kind: str, weight: str) -> None:
    rng = numpy.random.default_rng(3)
    n = 3 * histograms.BLOCK + 17
    x = rng.integers(-(1 << 62) if kind in "dl" else 0, 1 << 62, n).astype(kind)
    weights = (rng.standard_normal(n) * 1e6).astype(weight)
    for limits in (None, (1.0, 100.0)):
        alike(lambda m, x, w, limits=limits: m.histogram(x, 9, limits, weights=w), x, weights)
        alike(lambda m, x, limits=limits: m.histogram(x, 9, limits), x)


@pytest.mark.parametrize("limits", [(0.1, 0.7), (-1e13, -1e13 + 8), (3.0, 3.0000000001), (1e-310, 3e-310)])
def test_elements_on_edges_and_beside_them(limits: tuple[float, float]) -> None:
    """In whole vectors of such elements, and in vectors of others, whose bins need no comparison."""
    rng = numpy.random.default_rng(4)
    for bins in 1, 7, 33, 1000:
        edges = numpy.histogram_bin_edges([], bins, limits)
        beside = [edges, numpy.nextafter(edges, -1), numpy.nextafter(edges, 1e300)]
        x = numpy.concatenate([*beside, rng.uniform(*limits, 8000), [-9.0, numpy.nan, numpy.inf]])
        weights = numpy.arange(8 * x.size) % 3
        for y in x, rng.permutation(x), numpy.repeat(x, 8):
            alike(lambda m, y, bins=bins: m.histogram(y, bins, limits), y)
            alike(lambda m, y, w, bins=bins: m.histogram(y, bins, limits, weights=w), y, weights[:y.size])


def test_error_modes_hold_in_all_threads() -> None:
    x, weights = elements(0, "d", 300_000), numpy.full(300_000, 1 << 60)
    with numpy.errstate(invalid="raise"):
        alike(lambda m, x, w: m.histogram(x, 3, weights=w), x, weights)
    with numpy.errstate(invalid="ignore"):
        alike(lambda m, x, w: m.histogram(x, 3, weights=w), x, weights)


def test_a_sort_that_there_is_no_room_for_is_numpys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(radix, "ROOM", 0)
    monkeypatch.setattr(os, "sysconf", lambda name: 1)
    assert radix.keys_of(elements(0, "d", 500)) is None
    alike(lambda m, x: m.sort(x), elements(0, "d", 500))


def test_without_a_compiler_numpy_sorts() -> None:
    with using(compile="off"):
        alike(lambda m, x: (m.sort(x), m.unique(x), m.median(x), m.searchsorted(m.sort(x), x)),
              elements(0, "d", 500))


def test_a_fork_sorts() -> None:
    x = np.array(elements(0, "d", 5000))
    np.sort(x)
    assert in_child(lambda: float(np.sort(x)[0]) == float(x.min()))


def test_what_is_computed_here_is_computed_by_the_routines(monkeypatch: pytest.MonkeyPatch) -> None:
    """The calls that matter do not end in NumPy's function without anybody noticing."""
    called: list[Any] = []
    real = fallback.call

    def noted(function: Any, args: Any, *rest: Any) -> Any:
        called.append((function, args))
        return real(function, args, *rest)

    monkeypatch.setattr(fallback, "call", noted)
    x, table = np.array(elements(0, "d", 5000)), np.array(numpy.linspace(-50, 50, 70))
    np.sort(x), np.argsort(x), np.lexsort((x, x)), np.median(x), np.percentile(x, [10, 20]), np.unique(x)
    np.searchsorted(table, x), np.digitize(x, table), np.interp(x, table, table), np.isin(x, table)
    x.sort(), np.nanmedian(x), np.intersect1d(x, table), np.unique(x, return_inverse=True)
    few = np.array(elements(0, "B", 5000))
    np.bincount(few), np.bincount(few, few, 300)
    assert not called
    assert sets.values(elements(0, "l", 5000)) is not None
    edges = numpy.linspace(-9, 9, 5)
    assert histograms._even(elements(0, "d", 500), edges, (-9.0, 9.0), None, None) is not None


@pytest.mark.skipif("descending" not in inspect.signature(numpy.sort).parameters, reason="NumPy 2.5 has it")
@pytest.mark.parametrize("kind", "bldFe")
def test_sorts_that_descend_are_numpys(kind: str) -> None:
    plain = elements(3, kind, 500)
    for stable in (None, True):
        for call in (numpy.sort, numpy.argsort):
            options: Any = {"descending": True, "stable": stable}
            ours: Any = getattr(np, call.__name__)(np.array(plain), **options)
            assert numpy.asarray(ours).tobytes() == call(plain, **options).tobytes()
    x, y = np.array(plain), plain.copy()
    x.sort(descending=True)
    y.sort(descending=True)
    assert numpy.asarray(x).tobytes() == y.tobytes()


def test_arguments_of_later_versions_are_numpys() -> None:
    """A function computes nothing where a call names more than it knows of."""
    def real(a: Any, axis: Any = 0, later: Any = None) -> Any:
        return a if later is None else later

    function = calls.own(real)(lambda a, axis: numpy.negative(a))
    x = numpy.ones(3)
    assert function(x)[0] == -1 and function(x, later=None) is x and function(x, later=2) == 2


@pytest.mark.parametrize("real", [numpy.sort, numpy.partition, numpy.unique, numpy.searchsorted,
                                  numpy.bincount])
def test_arguments_are_completed_as_inspect_binds_them(real: Callable[..., Any]) -> None:
    form = inspect.signature(real)
    names = [*form.parameters]
    for known, count, chosen in itertools.product(range(1, len(names) + 1), range(len(names) + 2),
                                                  itertools.combinations([*names, "other"], 2)):
        args = tuple(range(count))
        for given in ({}, dict.fromkeys(chosen[:1], "one"), dict.fromkeys(chosen, "two")):
            try:
                bound = form.bind(*args, **given)
                wanted: Any = TypeError if {*bound.arguments} & {*names[known:]} else bound
            except TypeError:
                wanted = TypeError
            complete = calls.completing(form, known)
            if wanted is TypeError:
                with pytest.raises(TypeError):
                    complete(args, given)
            else:
                wanted.apply_defaults()
                assert complete(args, given) == tuple(wanted.arguments.values())[:known]

"""What reaches the engine: which tasks a call records, over which space, and what is not recorded."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse import library
from diffuse.ir import Scalar
from diffuse.kernels.build import small_folds
from diffuse.numpy.arrays.core import PENDING
from diffuse.numpy.ops import at_once, creation, elementwise
from diffuse.observe import trace
from diffuse.settings import using
from diffuse.stream import engine
from diffuse.stream.walk import TURNS, Walk
from tests.outcomes import run_all

Task = tuple[str, tuple[int, ...], tuple[Any, ...], tuple[Any, ...]]
SIZE = 100_000


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> list[Task]:
    """Every (operation, shape, inputs, outputs) that is recorded from now on."""
    engine.fence()
    seen: list[Task] = []
    record = library.record

    def spy(operation: str, signature: Any, shape: Any, inputs: Any, outputs: Any, **options: Any) -> Any:
        seen.append((operation, shape, inputs, outputs))
        return record(operation, signature, shape, inputs, outputs, **options)

    monkeypatch.setattr(library, "record", spy)
    current = library.current()
    monkeypatch.setattr(current, "walk", Walk(current.window))  # the spy's line is that of all tasks
    for module in (elementwise, creation):
        monkeypatch.setattr(module, "KNOWN", Forgetful())
    return seen


class Forgetful(dict[Any, Any]):
    """A table in which nothing is ever found: every call is recorded as if it were the first."""

    def __setitem__(self, key: Any, value: Any) -> None:
        pass


@pytest.mark.local_only("one element comes to the host by a task of its own, instead of the whole store")
def test_an_element_is_read_at_once(tasks: list[Task]) -> None:
    x = np.arange(float(SIZE)) * 2.0
    grid = x.reshape(100, -1)
    tasks.clear()
    for found in (x[3], grid[0, 3], x[numpy.int64(3)], grid[0][3]):
        assert type(found) is numpy.float64 and found == 6.0
    assert not tasks


@pytest.mark.parametrize("shape", [(200, 300), (20, 30, 100)])
def test_fortran_arrays_are_walked_in_the_order_of_memory(tasks: list[Task], shape: tuple[int, ...]) -> None:
    plain = numpy.asfortranarray(numpy.arange(float(numpy.prod(shape))).reshape(shape))
    x = np.array(plain, order="F")
    y = x * 2.0 + x
    y -= x
    y[1:] = y[:-1] * 1.0
    first = plain * 2.0 + plain - plain
    first[1:] = first[:-1] * 1.0
    spaces = {space for _, space, _, _ in tasks}
    assert spaces == {shape[::-1], (*shape[:0:-1], shape[0] - 1)}
    assert y.flags.f_contiguous and numpy.array_equal(numpy.array(y), first)


def test_a_mixed_broadcast_into_fortran_order(tasks: list[Task]) -> None:
    a, b = numpy.asfortranarray(numpy.arange(60_000.0).reshape(200, 300)), numpy.arange(200.0)[:, None]
    found = np.array(a, order="F") * np.array(b) + np.array(numpy.arange(300.0))
    assert numpy.array_equal(numpy.array(found), a * b + numpy.arange(300.0))
    assert tasks[-1][1] == (300, 200)


@pytest.mark.parametrize("make, space", [
    (lambda m, x: m.array(x), (60_000,)),
    (lambda m, x: m.array(x).T, (60_000,)),
    (lambda m, x: m.array(x.reshape(300, 200)), (300, 200)),
    (lambda m, x: m.array(x.reshape(300, 200)).T, (300, 200)),
    (lambda m, x: m.array(x.reshape(300, 200), order="F"), (200, 300)),
    (lambda m, x: m.array(x.reshape(300, 200))[:, 1:].T, (300, 199)),
])
@pytest.mark.parametrize("name", ["sum", "max", "prod", "any"])
def test_full_reductions_walk_memory(tasks: list[Task], monkeypatch: pytest.MonkeyPatch, make: Any,
                                     space: tuple[int, ...], name: str) -> None:
    monkeypatch.setattr(at_once, "AT_ONCE", 0)
    plain = (1 + numpy.arange(60_000).reshape(20_000, 3) % 2) * (name != "any")  # no early end of `any`
    x = make(np, plain)
    tasks.clear()
    assert int(getattr(x, name)()) == getattr(make(numpy, plain), name)()
    assert tasks[0][1] == space


def test_small_sums_have_numpys_bits_at_hand_or_pending() -> None:
    plain = numpy.random.default_rng(3).standard_normal(60_000) * 10.0 ** (numpy.arange(60_000) % 80 / 10)

    def sums(x: Any) -> list[str]:
        part = x[:6000]
        triples = part.reshape(-1, 3)
        views = [part, triples, triples.T, part.reshape(60, 100).T, part.reshape(20, 300)[:, ::2]]
        found = [y for v in views for y in (v.sum(), v.mean(), v.std(), v.prod(), numpy.linalg.norm(v))]
        found += [y for v in views[1:] for y in v[:20].sum(axis=0).tolist()]
        return [float(y).hex() for y in (*found, part @ part, part.cumsum()[-1], np.dot(part, part))]

    at_hand, pending = np.array(plain), np.array(plain) * 1.0
    assert sums(at_hand) == sums(plain) == sums(pending)


@pytest.mark.parametrize("operator", ["sum", "prod"])
def test_few_rows_are_added_up_as_the_tree_does(operator: str) -> None:
    pick = numpy.random.default_rng(5)
    for shape in [(1, 2), (7, 3), (32, 9), (14, 2), (31, 100)]:
        x = pick.standard_normal(shape) * 10.0 ** pick.integers(-5, 5, shape)
        for values in (x, -0.0 * numpy.ones(shape), numpy.where(x > 1, numpy.inf, x)):
            found = at_once.few_rows(operator, values, (0,), "float64")
            with numpy.errstate(all="ignore"):
                tree = small_folds.interpreted(operator, values, (0,), "float64")
            assert found.tobytes() == tree.tobytes()


def test_a_value_that_is_known_is_a_parameter(tasks: list[Task]) -> None:
    x, known, unknown = np.ones(SIZE), np.array(3.0), (np.ones(SIZE) * 2.0).sum()
    assert type(unknown) in PENDING
    tasks.clear()
    y = x * known
    z = x * unknown
    y += known
    known[()] = 7.0
    kinds = [type(task[2][1]) is Scalar for task in tasks[:3]]
    assert kinds == [True, False, True]
    assert float(y[0]) == 6.0 and float(z[0]) == 2.0 * SIZE


@pytest.mark.local_only("an element is written by a task")
def test_filling_a_large_array_by_elements_waits_once(tasks: list[Task]) -> None:
    x = np.zeros(SIZE)
    for k in range(500):
        x[k] = k
    assert len(tasks) <= TURNS + 2
    tasks.clear()
    for k in range(1, 500):
        x[k] = x[k - 1] + 2
    assert not tasks and float(x[499]) == 998.0


def test_the_faces_of_a_box_are_recorded() -> None:
    u = np.ones((40, 40, 40)) * 2.0
    v = u + 1.0
    before = trace.snapshot()["recorded"]
    for x in (u, v):
        for axis in range(3):
            for side in (0, -1):
                x[(slice(None),) * axis + (side,)] = 0.0
    assert trace.snapshot()["recorded"] == before + 12
    assert float(u.sum()) == 2.0 * 38**3


def test_wrapping_one_memory_twice_keeps_numpys_order() -> None:
    base, plain = numpy.arange(50_000.0), numpy.arange(50_000.0)
    p, q = np.asarray(base[2:]), np.asarray(base[:-2])
    first, second = plain[2:], plain[:-2]
    for _ in range(3):
        p += q
        q[1:] = p[:-1]
        first += second
        second[1:] = first[:-1]
    assert numpy.array_equal(base, plain)


def test_zeros_check_their_shape_every_time() -> None:
    for _ in range(2):
        assert np.zeros((1, 3)).shape == (1, 3)
    shape: Any = (1.0, 3)
    with pytest.raises(TypeError):
        np.zeros(shape)


def test_creation_takes_no_memory_and_empty_fills_nothing(tasks: list[Task]) -> None:
    np.empty(1 << 30)
    assert not tasks
    x = np.zeros(SIZE)
    assert [task[0] for task in tasks] == ["copy"]
    assert x.storage.store.id not in engine.current().stores.instances
    launched = trace.counters["launched"]
    x[:] = np.ones(SIZE) * 3.0
    assert float(x.sum()) == 3.0 * SIZE and trace.counters["launched"] - launched == 1


def test_negative_integer_exponents_raise_whatever_the_call() -> None:
    x: Any = np.ones(SIZE, dtype=int)
    calls: list[Callable[[], Any]] = [lambda: x ** -x, lambda: np.power(x, -x, out=x), lambda: x.__ipow__(-x)]
    for call in calls:
        with pytest.raises(ValueError, match="Integers to negative integer powers"):
            call()


@pytest.mark.local_only("a task that reads a store leaves it with the runtime, small or not")
def test_a_small_array_that_pending_tasks_only_read_is_computed_with_at_once(tasks: list[Task]) -> None:
    """Else the small task, which has one point, would split the large ones that several points share."""
    rng = numpy.random.default_rng(3)
    plain, level = rng.random((40, 50, 26)), rng.random((1, 1, 26))
    x, p = np.array(plain), np.array(level)
    found = x * p + p * p
    found = found * p - 4.0 * p
    assert {space for _, space, _, _ in tasks} == {plain.shape}
    expected = (plain * level + level * level) * level - 4.0 * level
    assert numpy.array_equal(numpy.asarray(found), expected)


@pytest.mark.local_only("a task that reads a store leaves it with the runtime, small or not")
def test_what_pending_tasks_write_is_waited_for(tasks: list[Task]) -> None:
    x, p = np.ones((4, 30, 260)), np.array(numpy.arange(260.0))
    first = x * p               # a pending task reads p ...
    p += 1.0                    # ... so this cannot overwrite it yet
    second = p * 2.0            # and a pending task writes it
    assert [space for _, space, _, _ in tasks[-2:]] == [(260,), (260,)]
    view = p[3:]
    third = view * 2.0
    assert numpy.array_equal(numpy.asarray(first)[0, 0], numpy.arange(260.0))
    assert numpy.array_equal(numpy.asarray(second), 2 * numpy.arange(1.0, 261.0))
    assert numpy.array_equal(numpy.asarray(third), 2 * numpy.arange(4.0, 261.0))


def test_threads_that_write_to_rows_of_one_array_give_it_one_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second store of the same memory would not wait for what is pending on the first one."""
    def slowly(memory: Any) -> Any:
        found = attach(memory)
        if memory.shape == (2, 20000):
            attached.append(found)
            time.sleep(0.05)
        return found

    attach = library.attach
    attached: list[Any] = []
    monkeypatch.setattr(library, "attach", slowly)
    x = np.array(numpy.zeros((2, 20000)))
    value = numpy.ones(20000)
    threads = [threading.Thread(target=row.__setitem__, args=(..., value)) for row in x]
    run_all(threads)
    assert len([storage for storage in attached if storage is x.storage]) == len(attached) == 1
    assert float(x.sum()) == 40000.0


def test_two_threads_that_write_to_a_new_array_share_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def slowly(*args: Any) -> Any:
        time.sleep(0.05)
        return create(*args)

    with using(small=0):
        x = np.empty((4, 30_000))
        runtime = engine.current().runtime
        create = runtime.create
        monkeypatch.setattr(runtime, "create", slowly)
        threads = [threading.Thread(target=lambda row=row: numpy.asarray(row).fill(3.0)) for row in x]
        run_all(threads)
        assert float(x.sum()) == 360_000.0


@pytest.mark.local_only("counts the allocations of Local")
def test_small_stores_within_one_launch_share_an_allocation(monkeypatch: pytest.MonkeyPatch) -> None:
    def program(m: Any, x: Any) -> Any:
        for shift in (1, -2, 3, -4):
            x = m.roll(x, shift) * 1.5
        return x

    plain = numpy.random.default_rng(3).random(60_000)
    runtime = engine.current().runtime
    made: list[int] = []
    create = runtime.create

    def counted(nbytes: int, *store: Any) -> Any:
        made.append(nbytes)
        return create(nbytes, *store)

    monkeypatch.setattr(runtime, "create", counted)
    with using(min_chunk=1 << 20):
        for _ in range(2):
            x = np.array(plain)
            engine.fence()
            made.clear()
            y = program(np, x)
            engine.fence()
            assert numpy.array_equal(numpy.asarray(y), program(numpy, plain))
            assert len(made) == 2 and max(made) > 3 * plain.nbytes and min(made) == plain.nbytes


@pytest.mark.local_only("several ranks wait for each other to read values")
@pytest.mark.parametrize("weights", [numpy.array([0.3, 0.5, 0.2]), numpy.arange(12.0).reshape(3, 4),
                                     numpy.asfortranarray(numpy.arange(6.0).reshape(3, 2) / 7)])
def test_a_product_with_a_small_numpy_array_is_recorded_and_reads_what_that_had_then(weights: Any) -> None:
    plain = numpy.random.default_rng(21).random((100, 200, 3))
    theirs = weights.copy("K")
    with using(small=1 << 14):
        x = np.array(plain) * 2.0
        epoch = engine.current().epoch
        second = "dot" if theirs.ndim == 1 else "matmul"
        products = x @ theirs, getattr(np, second)(x, theirs)
        assert engine.current().epoch == epoch  # nothing was waited for
        theirs[...] = 7.0
        for name, found in zip(("matmul", second), products, strict=True):
            assert numpy.asarray(found).tobytes() == getattr(numpy, name)(plain * 2.0, weights).tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_the_sum_of_one_element_that_is_not_aligned(dtype: str) -> None:
    with using(small=0):
        x = np.zeros(1 + numpy.dtype(dtype).itemsize, "uint8")[1:].view(dtype).reshape(())
        x[...] = 3
        assert float(x.sum().real) == 3.0

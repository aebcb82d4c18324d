"""Programs on a device that go on on the host while their operations are small (stream/sides.py)."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse import settings
from diffuse.observe import trace
from diffuse.runtime.device import driver
from diffuse.stream import engine, sides
from tests import stateful
from tests.test_cuda import COMPILER

pytest.importorskip("llvmlite", reason="kernels are compiled by llvmlite")

N = 160


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes cost almost nothing, so that short programs change."""
    monkeypatch.setattr(sides, "TO_HOST", 1e-4)
    monkeypatch.setattr(sides, "TO_DEVICE", 1e-4)
    monkeypatch.setattr(sides, "BANDWIDTH", 1e15)


@pytest.fixture
def device(eager: None) -> Iterator[Any]:
    with settings.using(runtime="simt", sides=True, small=64):
        yield engine.current()


def by_columns(np: Any) -> Any:
    """Cholesky's factor, a column after the other."""
    a = np.array(numpy.random.default_rng(1).random((N, N))) + N * np.eye(N)
    found = np.zeros((N, N))
    for j in range(N):
        v = a[j:, j] - (found[j:, :j] * found[j, :j]).sum(axis=1)
        found[j:, j] = v / np.sqrt(v[0])
    return found


def heavy(x: Any, turns: int = 30) -> Any:
    for _ in range(turns):
        x = x * 1.0009765625 + x / 3.0 - x * x * 0.0009765625
        engine.flush()
    return x


def to(side: str) -> int:
    return trace.counters[f"to the {side}"]


def small_steps(x: Any) -> None:
    for k in range(200):
        x[k % N] += x[(k + 1) % N]
        if x[k % N, 0] > 1e300:
            break


def test_a_loop_over_columns_goes_on_on_the_host(device: Any) -> None:
    before = to("host")
    found = by_columns(np)
    assert to("host") == before + 1 and device.runtime.name == "local"
    with settings.using(runtime="local"):
        assert numpy.asarray(by_columns(np)).tobytes() == numpy.asarray(found).tobytes()


def test_the_setting_keeps_a_program_on_the_device(device: Any) -> None:
    with settings.using(sides=False):
        by_columns(np)
        assert device.runtime.name == "simt"


def test_large_operations_go_back_to_the_device(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.array(numpy.random.default_rng(2).random((N, N))) + 1.0
    small_steps(x)
    assert device.runtime.name == "local"
    monkeypatch.setattr(sides, "WORK", 1e-7)  # so that few elements are much work
    y = heavy(x)
    assert device.runtime.name == "simt"
    plain = numpy.array(numpy.random.default_rng(2).random((N, N))) + 1.0
    small_steps(plain)
    for _ in range(30):
        plain = plain * 1.0009765625 + plain / 3.0 - plain * plain * 0.0009765625
    assert numpy.asarray(y).tobytes() == plain.tobytes()


def test_each_change_doubles_what_the_next_has_to_save(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    both, needed = device.stores.sides, []
    monkeypatch.setattr(sides, "WORK", 1e-7)
    for _ in range(6):
        launches, runtime = 0, device.runtime
        while not (both.asks and both.pays(runtime, 0)):
            both.launched(runtime, 0 if runtime is both.device else 10 ** 3)
            launches += 1
        both.change(device)
        needed.append(launches)
    assert needed[2] >= 3 * needed[0] and needed[4] >= 3 * needed[2]
    assert needed[3] >= 3 * needed[1] and needed[5] >= 3 * needed[3]


def test_stores_for_which_the_host_has_no_room_stay(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diffuse.runtime.machine.memory_available", lambda: N * N)
    small_steps(np.array(numpy.ones((N, N))) + 1.0)
    assert device.runtime.name == "simt"


def test_stores_for_which_the_device_has_no_room_stay(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.array(numpy.random.default_rng(2).random((N, N))) + 1.0
    small_steps(x)
    wanted = numpy.array(x)
    monkeypatch.setattr(sides, "WORK", 1e-7)
    given, attach = [0], device.stores.sides.device.attach

    def full(*args: Any) -> Any:
        given[0] += 1
        if given[0] > 1:
            raise MemoryError
        return attach(*args)

    monkeypatch.setattr(device.stores.sides.device, "attach", full)
    changes = device.stores.sides.changes
    heavy(x)
    assert device.runtime.name == "local" and device.stores.sides.changes > changes
    assert numpy.array_equal(x, wanted)


def test_views_that_numpy_holds_stay_the_arrays_memory(device: Any) -> None:
    x = np.array(numpy.ones((N, N)))
    x = x + 1.0
    outside = numpy.asarray(x)
    small_steps(x)
    assert device.runtime.name == "local"
    outside[3, 3] = -5.0
    assert x[3, 3] == -5.0
    x[4, 4] = 8.0
    assert outside[4, 4] == 8.0
    device.stores.sides.change(device)
    outside[5, 5] = -6.0
    assert float((x * 1.0)[5, 5]) == -6.0


def test_a_program_of_two_threads_stays_where_it_is(device: Any) -> None:
    x = np.array(numpy.ones((N, N))) + 1.0
    other = threading.Thread(target=lambda: numpy.asarray(x * 3.0 + 1.0))
    float(x.sum())
    other.start()
    other.join()
    small_steps(x)
    assert device.runtime.name == "simt"


def test_a_change_that_fails_leaves_every_array(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = np.array(numpy.ones((N, N))) * 2.0, np.array(numpy.ones(N * N)) * 3.0
    device.fence()
    monkeypatch.setattr("diffuse.stream.sides.make", lambda name: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        device.stores.sides.change(device)
    monkeypatch.undo()
    assert device.runtime.name == "simt" and float(x.sum()) == 2 * N * N and float(y.sum()) == 3 * N * N
    device.stores.sides.change(device)
    assert device.runtime.name == "local" and float(x.sum()) == 2 * N * N and float(y.sum()) == 3 * N * N


@pytest.mark.parametrize("mode", ["mixed", "recorded", "outside"])
def test_random_programs_that_change_often(device: Any, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    dice, before = random.Random(mode), to("host") + to("device")
    monkeypatch.setattr(sides.Sides, "asks", property(lambda self: dice.random() < 0.4))
    monkeypatch.setattr(sides.Sides, "pays", lambda self, *_: True)
    for number in range(8):
        text, differences = stateful.checked(mode, number)
        assert not differences, f"{text}\n{differences}"
    assert to("host") + to("device") > before + 4


@pytest.mark.skipif(COMPILER is None, reason="a C compiler builds the driver for tests")
def test_another_library_gets_memory_of_the_device(eager: None, tmp_path: Path,
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.interpreted_driver import built

    monkeypatch.setattr(driver, "Driver", partial(driver.Driver, str(built(tmp_path))))
    with settings.using(runtime="cuda", sides=True, small=64):
        here: Any = engine.current()
        x = np.array(numpy.ones((N, N))) + 1.0
        here.fence()
        here.stores.sides.change(here)
        assert here.runtime.name == "local"
        described = x.__cuda_array_interface__
        assert here.runtime.name == "cuda" and described["shape"] == (N, N)
        small_steps(x)
        assert here.runtime.name == "cuda"  # as long as the other library may hold the memory

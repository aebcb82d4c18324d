"""The simulated device: the local runtime's bits, and who has the valid data of a store."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import diffuse.numpy as dnp
from diffuse import settings
from diffuse.kernels.grid import schedule
from diffuse.runtime.device.runtime import holder
from diffuse.runtime.device.simt import AWAY, Simt
from diffuse.stream import engine
from tests.applications import PROGRAMS, launched, results
from tests.bodies import Case, differences
from tests.simt import expected


@pytest.fixture
def device() -> Iterator[Any]:
    """The runtime, and everything recorded on it."""
    with settings.using(runtime="simt", small=0):
        runtime: Any = engine.current().runtime
        assert isinstance(runtime, Simt)
        yield runtime


@pytest.fixture
def copies(device: Any, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Copies to and from the device, with their bytes."""
    found: list[tuple[str, int]] = []
    up, down = device.to_device, device.to_host

    def to_device(target: int, source: Any) -> None:
        found.append(("up", source.nbytes))
        up(target, source)

    def to_host(target: Any, source: int) -> None:
        found.append(("down", target.nbytes))
        down(target, source)

    monkeypatch.setattr(device, "to_device", to_device)
    monkeypatch.setattr(device, "to_host", to_host)
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_have_the_local_runtimes_bits(name: str) -> None:
    here, there = results(name, "local"), results(name, "simt")
    for key, array in here.items():
        assert there[key].tobytes() == array.tobytes(), key


def test_what_is_computed_on_the_device_is_copied_only_where_it_is_read(
        device: Any, copies: list[tuple[str, int]]) -> None:
    x = dnp.arange(1000.0)
    for _ in range(5):
        x = x * 1.5 + 1.0
    engine.flush()
    assert copies == []
    assert float(x[3]) > 0 and [kind for kind, _ in copies] == ["down"]


def test_an_array_that_nobody_sees_goes_to_the_device_once(
        device: Any, copies: list[tuple[str, int]]) -> None:
    x = dnp.array(np.random.default_rng(1).random(1000))
    for _ in range(5):
        y = x + 1.0
        engine.flush()
    assert copies.count(("up", 8000)) == 1
    assert np.array_equal(np.asarray(y), np.asarray(x) + 1.0)


def test_the_host_may_write_to_an_array_that_it_holds(device: Any) -> None:
    x = dnp.arange(1000.0)
    y = x + 1.0
    mine = np.asarray(x)
    for k in range(3):
        mine[5] = 100.0 * k
        y = x + 1.0
        assert float(y[5]) == 100.0 * k + 1.0
    x += 1.0
    assert mine is not None and float(x[5]) == 201.0 and np.asarray(x)[5] == 201.0


def refused(seed: int) -> bool:
    try:
        return not schedule.kernels(Case(seed).body)
    except schedule.Refused:
        return True


def test_bodies_without_grid_kernels_run_on_the_host() -> None:
    seeds = [seed for seed in range(400) if refused(seed) and 0 not in Case(seed).extents]
    assert len(seeds) > 1
    for seed in [*seeds, 5, 6]:
        case = Case(seed)
        found, on_device = launched(case, Simt())
        assert not differences(found, expected(case)), f"seed {seed}\n{case.body}"
        assert on_device != refused(seed)


def test_host_functions_run_on_copies(device: Any) -> None:
    x = dnp.arange(1000.0)[::-1] * 2
    assert np.array_equal(np.asarray(dnp.sort(x) + 1), np.arange(1000.0) * 2 + 1)


def test_an_address_of_the_device_is_none_of_the_hosts(device: Any) -> None:
    address = device.create(64).address
    assert address > AWAY
    program = f"import ctypes; ctypes.string_at({address}, 8)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=300)
    assert done.returncode == -signal.SIGSEGV


def test_too_much_memory_is_refused_and_the_session_goes_on(device: Any) -> None:
    x = dnp.arange(1000.0)
    engine.flush()
    with settings.using(memory=1 << 20):
        with pytest.raises(MemoryError, match="DIFFUSE_MEMORY"):
            np.asarray(dnp.ones(1 << 20) + 1)
    assert float((x + 1).sum()) == 500500.0


def test_the_instance_of_an_address() -> None:
    class Memory:
        def __init__(self, address: int, nbytes: int) -> None:
            self.address, self.nbytes = address, nbytes

    used: list[Any] = [Memory(100, 8), Memory(200, 16)]
    assert holder(used, 207) is used[1] and holder(used, 100) is used[0]
    assert holder(used, 99) is None and holder(used, 108) is None


def test_changing_the_runtime_moves_the_arrays() -> None:
    with settings.using(small=0):
        x = dnp.arange(100.0) + 1
        with settings.using(runtime="simt"):
            y = x * 2
            assert float(y[3]) == 8.0
        assert float((y + x)[3]) == 12.0


def test_arrays_may_end_while_the_runtime_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's collector of cycles may run at any time."""
    with settings.using(small=0):
        kept = dnp.arange(100.0) + 1
        engine.fence()
        runtime: Any = engine.current().runtime
        host = runtime.host

        def slow(*arguments: Any) -> Any:
            assert len([[] for _ in range(5000)]) == 5000
            return host(*arguments)

        monkeypatch.setattr(runtime, "host", slow)
        gc.collect()
        for _ in range(5):
            cycle: list[Any] = [dnp.arange(100.0) + 2]
            cycle.append(cycle)
            engine.fence()
        del cycle
        with settings.using(runtime="simt"):
            assert float(kept[3]) == 4.0


@pytest.mark.parametrize("where", ["before", "after"])
def test_what_an_interrupt_comes_beside_runs_once(device: Any, where: str,
                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    submit, moments = device.submit, [where]

    def interrupted(*arguments: Any) -> None:
        moment = moments.pop() if moments else ""
        if moment == "before":
            raise KeyboardInterrupt
        submit(*arguments)
        if moment == "after":
            raise KeyboardInterrupt

    x = dnp.arange(1000.0) + 1.0
    engine.fence()
    x += 1.0
    monkeypatch.setattr(device, "submit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        engine.flush()
    assert np.array_equal(np.asarray(x), np.arange(1000.0) + 2.0) and not moments


@pytest.mark.parametrize("refused", [False, True])
def test_an_interrupt_waits_for_the_end_of_a_launch(device: Any, refused: bool,
                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    """Of grid kernels, and of what runs on the host."""
    turn = device._turn

    def interrupted(work: Any) -> None:
        def run() -> None:
            os.kill(os.getpid(), signal.SIGINT)
            work()

        turn(run)

    x = dnp.arange(1000.0) + 1.0
    engine.fence()
    with settings.using(compile="off" if refused else "wait"):
        x += 1.0
        monkeypatch.setattr(device, "_turn", interrupted)
        with pytest.raises(KeyboardInterrupt):
            engine.flush()
        monkeypatch.undo()
        assert np.array_equal(np.asarray(x), np.arange(1000.0) + 2.0)

"""The CUDA runtime down to the driver's functions, over streams that run as late as they may and kernels
whose PTX is interpreted (interpreted_driver.py)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import diffuse.numpy as dnp
from diffuse import settings
from diffuse.memory import address
from diffuse.numpy.bridge import capsules
from diffuse.runtime.device import driver, staging
from diffuse.runtime.device.cuda import Cuda
from diffuse.stream import engine
from tests import on_gpu
from tests.applications import results
from tests.interpreted_driver import LEGACY, built, device
from tests.test_cuda import COMPILER

pytest.importorskip("llvmlite", reason="kernels are compiled by llvmlite")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="a C compiler builds the driver for tests")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("driver"))


@pytest.fixture
def late(library: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The runtime cuda over this driver, and everything on it."""
    monkeypatch.setattr(driver, "Driver", partial(driver.Driver, str(library)))
    with settings.using(runtime="cuda", small=0):
        engine.fence()
        yield engine.current().runtime
        engine.fence()


def test_random_bodies_have_the_interpreters_bits(library: Path) -> None:
    good, hosted, bad = on_gpu.bodies(Cuda(gpu=driver.Driver(str(library))), 24)
    assert not bad and good > 20 and hosted < 4


@pytest.mark.parametrize("name, size", [("stencil", 20), ("conjugate_gradient", 12), ("black_scholes", 500)])
def test_programs_have_the_local_runtimes_bits(late: Cuda, name: str, size: int) -> None:
    here, there = results(name, "local", size), results(name, "cuda", size)
    for key, array in here.items():
        assert there[key].tobytes() == array.tobytes(), key


def test_memory_that_is_reused_while_launches_wait_is_written_in_the_streams_order(late: Cuda) -> None:
    values, total = np.linspace(0.0, 1.0, 3000), np.zeros(3000)
    x = dnp.array(values)
    y = dnp.zeros(3000)
    for k in range(40):
        y = y + (x * k - 1.0)
        engine.flush()
        total = total + (values * k - 1.0)
    assert np.asarray(y).tobytes() == total.tobytes()


def test_a_ring_that_does_not_wait_is_seen(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: what these streams are for."""
    gpu = driver.Driver(str(library))
    monkeypatch.setattr(staging, "SIZES", (1 << 12,))
    places = [gpu.allocate(1 << 10) for _ in range(9)]
    for wrong in (False, True):
        if wrong:
            monkeypatch.setattr(gpu, "reach", lambda event: None)
        for k, place in enumerate(places):
            mine = np.full(1 << 10, k, "u1")
            gpu.upload(place, address(mine), 1 << 10)
        gpu.wait()
        found = [device.heap.read(place, 1)[0] for place in places]
        assert (found == [*range(9)]) is not wrong


def test_the_command_for_machines_with_a_gpu_passes(library: Path, tmp_path: Path) -> None:
    command = [sys.executable, on_gpu.__file__, "--bodies", "12", "--parts", "bodies", "libraries",
               "launches"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env={
        **os.environ, "LD_LIBRARY_PATH": str(library.parent), "DIFFUSE_CACHE_DIR": str(tmp_path),
        "DIFFUSE_FALLBACK": "silent"})
    assert "an interpreter of PTX, sm_80" in done.stdout and "too much memory: as it should be" in done.stdout
    left = [line for line in done.stdout.splitlines() if ": " in line and line[0] != " "]
    wrong = [line for line in left if not line.startswith(("cupy", "numba", "torch"))
             and "as it should be" not in line]
    assert not wrong and "12 random bodies agree" in done.stdout, done.stdout + done.stderr


# -- other libraries -----------------------------------------------------------------------------------------


class Foreign:
    """An array of another library's, whose memory is overwritten in the default stream when it ends, as one
    that the library reuses at once."""

    def __init__(self, values: Any, stream: int | None = LEGACY) -> None:
        self.address, self.values = device.heap.allocate(values.nbytes), values
        self.__cuda_array_interface__ = {"shape": values.shape, "typestr": values.dtype.str, "version": 3,
                                         "data": (self.address, False), "stream": stream}
        self.write(values)  # which is done later

    def write(self, values: Any) -> None:
        device.submit(LEGACY, partial(device.heap.write, self.address, values.tobytes()))

    def read(self) -> Any:
        """The elements as they are when the default stream comes to it: filled in then."""
        found = np.empty_like(self.values)

        def copy() -> None:
            found[...] = np.frombuffer(device.heap.read(self.address, found.nbytes)).reshape(found.shape)

        device.submit(LEGACY, copy)
        return found

    def __del__(self) -> None:
        self.write(np.full_like(self.values, -1.0))


def test_what_another_library_queued_is_read_and_its_memory_only_while_it_lives(late: Cuda) -> None:
    values = np.linspace(1.0, 2.0, 500)
    theirs = Foreign(values)
    x = dnp.asarray(theirs)
    y = x * 2.0
    del x, theirs
    engine.fence()
    device.finish(LEGACY)
    assert np.asarray(y).tobytes() == (values * 2.0).tobytes()


def test_another_library_reads_what_was_computed_last(late: Cuda) -> None:
    values = np.linspace(1.0, 2.0, 500)
    theirs = Foreign(values)
    x = dnp.asarray(theirs)
    x += 1.0
    found = theirs.read()
    x *= 3.0
    device.finish(LEGACY)
    assert found.tobytes() == (values + 1.0).tobytes()
    theirs.write(values)
    assert np.asarray(x + 0.0).tobytes() == values.tobytes()


@pytest.mark.parametrize("which", ["the array", "other arrays"])
def test_memory_that_another_library_held_is_written_after_its_last_work(late: Cuda, which: str) -> None:
    values = np.linspace(1.0, 2.0, 5000)
    x = dnp.array(values) + 1.0
    described, owner = capsules.taken(x.__dlpack__(stream=LEGACY))
    found = np.empty(5000)

    def copy() -> None:
        found[...] = np.frombuffer(device.heap.read(described.address, found.nbytes))

    device.submit(LEGACY, copy)
    del owner
    if which == "the array":
        x *= 0.0
    else:
        del x
        others = []
        for _ in range(40):  # freed memory of this size
            others.append(dnp.array(values) * 0.0)
            engine.flush()
        stores = engine.current().stores
        assert described.address in [stores.instance(other.storage.id).address for other in others]
    engine.fence()
    device.finish(LEGACY)
    assert found.tobytes() == (values + 1.0).tobytes()

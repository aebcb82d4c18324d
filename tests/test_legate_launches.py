"""From a message to launches on a GPU (runtime/legate/native/grid.h), without Legate and without a GPU.

Two devices run the kernels: the host, thread by thread, and the interpreter of PTX, over memory whose
addresses the host does not have.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from diffuse.runtime.legate import libraries
from tests.bodies import Case
from tests.each import rounds
from tests.grid_devices import STREAM, InPtx, OnGpu, OnHost, Place, driver
from tests.grid_launches import Failed, Run, check
from tests.test_cuda import library, needs_compiler

__all__ = ["library"]

pytest.importorskip("llvmlite", reason="kernels are compiled by llvmlite")
pytestmark = pytest.mark.skipif(libraries.compiler() is None,
                                reason="a C++ compiler builds what drives grid.h")


@pytest.mark.parametrize("first", rounds([0], [0, 100]))
@pytest.mark.parametrize("several", [False, True])
def test_random_bodies_on_the_host(first: int, several: bool) -> None:
    ran = [check(seed, OnHost, several, 20) for seed in range(first, first + 100)]
    assert sum(one is not None for one in ran) > (12 if several else 60)


@pytest.mark.parametrize("several", [False, True])
def test_random_bodies_in_ptx_over_memory_that_the_host_does_not_see(several: bool) -> None:
    ran = [check(seed, InPtx, several, 8) for seed in range(rounds(40, 80) if several else rounds(10, 20))]
    done = [one for one in ran if one is not None]
    assert len(done) > rounds(4, 8) and set().union(*(one.streams for one in done)) == {STREAM}


def test_a_launch_that_the_driver_refuses_is_reported_and_nothing_follows_it() -> None:
    device = InPtx(Case(3))
    device.functions = dict.fromkeys(device.functions, 1)  # a kernel with other parameters
    run = Run(Case(3), device, several=False)
    with pytest.raises(Failed) as caught:
        run.run()
    error, raised = caught.value.args
    assert error == 5 + 256 * 700 and len(raised) == 1


@pytest.mark.parametrize("device", [OnHost, InPtx])
def test_boxes_are_copied_between_any_two_layouts(device: Any) -> None:
    where, pick = device(), Random(7)
    units = set()
    for _ in range(150):
        item, rank = pick.choice([1, 2, 4, 8, 16]), pick.randrange(1, 5)
        units.add(item)
        extent = [pick.choice([1, 2, 3, 9]) for _ in range(rank)]
        low = [pick.randrange(n) for n in extent]
        high = [pick.randint(start + 1, n) for start, n in zip(low, extent, strict=True)]
        order, pitch, stride = list(range(rank)), item, [0] * rank
        pick.shuffle(order)
        for d in order:
            stride[d] = pitch
            pitch *= high[d] - low[d] + pick.randrange(2)
        room = pitch
        store, whole = (np.frombuffer(pick.randbytes(n), "u1") for n in (room, int(np.prod(extent)) * item))
        box = tuple(map(slice, low, high))
        shape = [y - x for x, y in zip(low, high, strict=True)]
        meant = [store.copy(), whole.copy()]
        out = pick.randrange(2)
        there = np.lib.stride_tricks.as_strided(meant[0], (*shape, item), (*stride, 1))
        here = meant[1].reshape(*extent, item)[box]
        if out:
            there[...] = here
        else:
            here[...] = there
        places = [where.allocate(len(data)) for data in (store, whole)]
        for place, data in zip(places, (store, whole), strict=True):
            where.write(place, data.tobytes())
        lies = Place(places[0], rank, item, tuple(low), tuple(high), tuple(stride), tuple(extent))
        kernels = (ctypes.c_int64 * 3)(*where.copies)
        assert not driver().copy_box(where.launcher, STREAM, ctypes.addressof(kernels),
                                     ctypes.addressof(lies), places[1], out)
        for place, data in zip(places, meant, strict=True):
            assert where.read(place, len(data)) == data.tobytes(), (item, extent, low, high, stride, out)
    assert units == {1, 2, 4, 8, 16}


@needs_compiler
def test_a_real_driver_would_be_called_so(library: Path) -> None:
    """As tests/on_gpu.py does it; the driver here only notes the launches."""
    device, count = OnGpu(Case(3), str(library)), ctypes.c_long()
    room, groups = ctypes.create_string_buffer(1 << 16), ctypes.c_uint()
    counts = []
    for several in (False, True):
        Run(Case(3), device, several).run()
        device.gpus._driver.noted(room, ctypes.byref(groups), ctypes.byref(count))
        counts.append(count.value)
    assert 0 < counts[0] < counts[1]

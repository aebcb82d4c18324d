"""Elements that threads divide by value before they sort them, and the memory that results are made in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy
import pytest

import diffuse
import diffuse.numpy as np
from diffuse.kernels.build import algorithms, codegen
from diffuse.kernels.llvm.sorting import emit
from diffuse.kernels.llvm.sorting.keys import BITS
from diffuse.kernels.targets.host import Host, host
from diffuse.numpy.order import dividing, memory, radix
from diffuse.service import loader
from diffuse.settings import using
from tests.around import around

pytestmark = pytest.mark.local_only("functions run on memory that the host sees")


compiled = around(using, compile="wait")


def keyed(array: Any) -> Any:
    """The keys of an array."""
    found = algorithms.routines((("encode", array.dtype.name),), 60)
    assert found is not None
    return radix.encoded(array, found[0])


def routine(target: Host, dtype: str) -> Any:
    """The routine `divide`, compiled in this process for a target."""
    machine = codegen._machine(target.triple, target.cpu, target.features, codegen.SPEED)
    if machine is None:
        pytest.skip("LLVM's C functions are not at hand")
    return algorithms._callable(loader.load(machine.object_code(emit.emit("divide", dtype, target)), ("k",)))


@pytest.mark.parametrize("dtype", BITS)
def test_elements_below_a_key_come_first(dtype: str) -> None:
    here = host()
    fewer = replace(here, features=here.features.replace("+avx512", "-avx512"))
    assert not fewer.packs
    for target in (here, fewer):
        divide = routine(target, dtype)
        for n in (0, 1, 7, 8, 31, 32, 1003):
            x = (numpy.random.default_rng(n).standard_normal(n) * 100).astype(dtype)
            if dtype.startswith("float"):
                x[1::9], x[2::9], x[3::9] = numpy.nan, -numpy.nan, -0.0
            keys = keyed(x)
            for key in {0, *map(int, keys[:3])}:
                low = x[keys < key]
                out = numpy.full(n + 2, 1, dtype)
                divide(x, n, key, out[1:], out[1 + low.size:])
                assert out[1:-1].tobytes() == low.tobytes() + x[keys >= key].tobytes()
                assert out[0] == out[-1] == 1  # nothing is written beyond the ends


@pytest.mark.parametrize("count", [2, 4, 8])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "uint16"])
def test_threads_sort_what_they_have_divided(dtype: str, count: int) -> None:
    rng = numpy.random.default_rng(count)
    for n in (30_000, 40_001):
        x = rng.permutation(numpy.arange(n) - (0 if dtype[0] == "u" else n // 2)).astype(dtype)
        for each in (x, x[::2], numpy.sort(x), numpy.sort(x)[::-1]):
            found = dividing.ordered(each, count)
            assert found is not None and found.tobytes() == numpy.sort(each).tobytes()
        assert dividing.ordered(x * 0, count) is None  # all equal: one thread would have all of them
        assert dividing.ordered(numpy.minimum(x, numpy.sort(x)[n // 3]), count) is None


def test_results_in_memory_of_the_runtime_are_arrays_like_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "LARGE", 0)
    x = numpy.random.default_rng(0).standard_normal(100_000)
    ours = np.array(x)
    for name in ("sort", "argsort", "unique"):
        found = getattr(np, name)(ours)
        assert found.flags.owndata and found.base is None and found.flags.writeable
        assert found.tobytes() == getattr(numpy, name)(x).tobytes()
    rows = np.sort(ours.reshape(100, 1000), axis=1)
    assert numpy.asarray(rows).tobytes() == numpy.sort(x.reshape(100, 1000), axis=1).tobytes()
    found = np.sort(ours)
    found += 1.0
    assert float(found[0]) == numpy.sort(x)[0] + 1.0
    found.resize(10)
    assert found.tobytes() == (numpy.sort(x)[:10] + 1.0).tobytes()


def test_memory_is_not_used_while_a_task_writes_to_it() -> None:
    size = 6_000_000
    x = np.linspace(0.0, 1.0, size)
    y = np.tan(np.tan(x))
    diffuse.flush()
    del y  # its memory is free, but the tasks may be running
    found = memory.empty(size, numpy.float64)
    found[:] = 1.0
    diffuse.fence()
    assert bool((found == 1.0).all())

"""Programs on the CUDA runtime, from the array library to the PTX: the local runtime's bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffuse.numpy as dnp
from diffuse import settings
from diffuse.runtime.device import cuda, driver, renaming
from diffuse.scipy.sparse.products import totals
from diffuse.stream import engine, stores
from tests import assembler
from tests.applications import results
from tests.each import rounds
from tests.interpreted_gpu import Interpreted

pytest.importorskip("llvmlite", reason="kernels are compiled by llvmlite")


@pytest.mark.parametrize("name, size", [
    ("stencil", 40), ("black_scholes", 3000), ("conjugate_gradient", 20), ("jacobi", 60), ("mandelbrot", 20),
    ("cg", 24), ("bicgstab", 24), ("gmg", 16), ("shallow_water", 12), ("channel_flow", 9)])
def test_programs_have_the_local_runtimes_bits(name: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """And all of their kernels assemble as `assembler.check` says, for every architecture or each for one."""
    images: dict[str, None] = {}

    class Recorded(Interpreted):
        def functions(self, image: bytes, names: tuple[str, ...]) -> dict[str, int]:
            images[image.decode()] = None
            return super().functions(image, names)

    monkeypatch.setattr(driver, "Driver", Recorded)
    here, there = results(name, "local", size), results(name, "cuda", size)
    for key, array in here.items():
        assert there[key].tobytes() == array.tobytes(), key
    assert images
    for place, text in enumerate(images if assembler.path() else ()):
        for architecture in assembler.ARCHITECTURES[rounds(place % 4, 0)::rounds(4, 1)]:
            assembler.check(text, architecture)


@pytest.mark.parametrize("name, size", [("stencil", 40), ("channel_flow", 48)])
def test_stores_that_move_instead_of_being_copied(name: str, size: int, monkeypatch: pytest.MonkeyPatch
                                                  ) -> None:
    moved: list[Any] = []

    def renamed(*args: Any) -> Any:
        moved.append(renaming.renamed(*args))
        return moved[-1]

    monkeypatch.setattr(driver, "Driver", Interpreted)
    monkeypatch.setattr(cuda, "renamed", renamed)
    monkeypatch.setattr(renaming, "LEAST", 0)
    monkeypatch.setattr(stores, "TOGETHER", 0)
    here, there = results(name, "local", size), results(name, "cuda", size)
    for key, array in here.items():
        assert there[key].tobytes() == array.tobytes(), key
    assert any(moved)


@pytest.mark.parametrize("shared", [False, True])
def test_a_store_that_another_library_holds_does_not_move(gpu: Interpreted, shared: bool,
                                                          monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renaming, "LEAST", 0)
    monkeypatch.setattr(stores, "TOGETHER", 0)
    p, wanted = dnp.arange(1200.0).reshape(30, 40) * 1.5, np.arange(1200.0).reshape(30, 40) * 1.5
    engine.flush()
    held = p.__cuda_array_interface__ if shared else None
    (storage,) = [x for x in engine.current().stores.instances.values() if x.nbytes == wanted.nbytes]
    before = storage.address
    for array, copies in ((p, p.copy), (wanted, wanted.copy)):
        old = copies()
        array[1:-1, 1:-1] = old[2:, 1:-1] + old[1:-1, :-2]
        del old
    engine.flush()
    assert (storage.address == before) == shared
    assert held is None or held["data"][0] == before
    assert np.asarray(p).tobytes() == wanted.tobytes()


def test_sums_of_sparse_rows_of_all_lengths(gpu: Interpreted) -> None:
    positions = np.concatenate(([0], np.cumsum([3, 127, 8, 128, 129, 1000, 3000, 20]))).astype("int32")
    values = np.random.default_rng(1).standard_normal(positions[-1])
    found = totals(dnp.array(positions), dnp.array(values))
    assert np.asarray(found).tobytes() == np.add.reduceat(values, positions[:-1]).tobytes()


def test_a_reduction_and_what_is_computed_with_it_are_two_launches(gpu: Interpreted) -> None:
    x = dnp.arange(3000.0)
    engine.flush()
    gpu.launched.clear()
    y = (x * 2).sum() + 1.0
    assert float(y) == 2 * 2999 * 1500 + 1.0
    assert gpu.launched == ["loop0", "together"]


def test_what_the_host_computes_goes_there_and_back(gpu: Interpreted) -> None:
    x = dnp.arange(1000.0)[::-1] * 2
    assert np.array_equal(np.asarray(dnp.sort(x) + 1), np.arange(1000.0) * 2 + 1)
    mine = np.asarray(x)
    mine[3] = -1.0
    assert float((x + 1)[3]) == 0.0


class Foreign:
    """An array of another library's on the device."""

    def __init__(self, gpu: Interpreted, values: Any, **others: Any) -> None:
        self.gpu, self.shape, self.dtype = gpu, values.shape, values.dtype
        self.address = gpu.heap.allocate(values.nbytes)
        gpu.heap.write(self.address, values.tobytes())
        self.__cuda_array_interface__ = {"shape": values.shape, "typestr": values.dtype.str, "version": 3,
                                         "strides": None, "data": (self.address, False), **others}

    def values(self) -> Any:
        size = int(np.prod(self.shape)) * self.dtype.itemsize
        return np.frombuffer(self.gpu.heap.read(self.address, size), self.dtype).reshape(self.shape)


def test_arrays_of_other_libraries_are_taken_without_a_copy(gpu: Interpreted) -> None:
    theirs = Foreign(gpu, np.arange(12.0).reshape(3, 4), stream=5)
    x = dnp.asarray(theirs)
    assert gpu.waited == [5] and x.shape == (3, 4)
    x[1] *= 10.0
    expected = np.arange(12.0).reshape(3, 4)
    expected[1] *= 10.0
    assert np.array_equal(theirs.values(), expected)
    gpu.heap.write(theirs.address, np.full(12, 7.0).tobytes())  # nobody tells
    assert float(x.sum()) == 84.0 and float(dnp.add(theirs, 1.0)[2, 3]) == 8.0
    again = dnp.asarray(theirs)
    again[0, 0] = 1.0
    assert float(x[0, 0]) == 1.0


def test_arrays_of_other_libraries_may_have_strides(gpu: Interpreted) -> None:
    theirs = Foreign(gpu, np.arange(12.0).reshape(3, 4), strides=(8, 24))
    x = dnp.asarray(theirs)
    expected = np.arange(12.0).reshape(4, 3).T
    assert np.array_equal(np.asarray(x + 0), expected) and x.strides == (8, 24)
    x[1, 2] = -1.0
    assert theirs.values().ravel()[7] == -1.0


def test_other_libraries_take_ours_without_a_copy(gpu: Interpreted) -> None:
    x = dnp.arange(20.0).reshape(4, 5) + 1
    described = x[1:, ::2].__cuda_array_interface__
    address, readonly = described["data"]
    assert (described["shape"], described["strides"], readonly) == ((3, 3), (40, 16), False)
    assert np.frombuffer(gpu.heap.read(address, 8)) == 6.0
    gpu.heap.write(address, np.array([-1.0]).tobytes())
    assert float(x[1, 0]) == -1.0
    x += 1.0
    assert np.frombuffer(gpu.heap.read(address, 8)) == 0.0
    with pytest.raises(BufferError, match="hand out a copy"):
        y = dnp.arange(5.0) + 1
        held = np.asarray(y)
        assert held is not None and y.__cuda_array_interface__


def test_what_a_device_cannot_share_is_refused(gpu: Interpreted) -> None:
    with pytest.raises(TypeError, match="pass a contiguous copy"):
        dnp.asarray(Foreign(gpu, np.arange(12.0).reshape(3, 4), strides=(12, 4)))
    shifted = Foreign(gpu, np.arange(12.0))
    place, _ = shifted.__cuda_array_interface__["data"]
    shifted.__cuda_array_interface__ |= {"data": (place + 4, False), "shape": (11,)}
    with pytest.raises(TypeError, match="at multiples of 8 bytes; pass a copy"):
        dnp.asarray(shifted)
    with pytest.raises(TypeError, match="a type that Diffuse computes in"):
        dnp.asarray(Foreign(gpu, np.arange(3).astype("M8[s]")))
    with settings.using(runtime="local"):
        assert not hasattr(dnp.arange(5.0), "__cuda_array_interface__")


def test_memory_is_given_back(gpu: Interpreted) -> None:
    for _ in range(5):
        x = dnp.ones(1 << 20) + 1
        engine.flush()
        del x
    engine.flush()
    assert sum(gpu.used.values()) <= 3 << 23

"""DLPack's tensors over the memory of a GPU: what other libraries see of ours, and we of theirs."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import diffuse.numpy as dnp
from diffuse import settings
from diffuse.numpy.bridge import capsules
from diffuse.numpy.small import native
from diffuse.stream import engine
from tests.dlpack import Producer, Tensor, name
from tests.interpreted_gpu import Interpreted

pytest.importorskip("llvmlite", reason="kernels are compiled by llvmlite")

GPU = 2, 0
CPU = 1, 0
OURS = Interpreted.stream


def values(gpu: Interpreted, tensor: Tensor) -> Any:
    """The elements of a tensor, read one by one as its strides say."""
    size, found = tensor.dtype.itemsize, np.empty(tensor.shape, tensor.dtype)
    for index in np.ndindex(tensor.shape):
        at = tensor.address + size * sum(i * s for i, s in zip(index, tensor.strides, strict=True))
        found[index] = np.frombuffer(gpu.heap.read(at, size), tensor.dtype)[0]
    return found


def given(gpu: Interpreted, elements: Any, **options: Any) -> Producer:
    """An array of another library's with these elements."""
    address = gpu.heap.allocate(elements.nbytes)
    gpu.heap.write(address, elements.tobytes())
    return Producer(address, elements.dtype.name, elements.shape, **options)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float16", "float32", "float64",
                                   "complex64", "complex128"])
@pytest.mark.parametrize("version", [None, (1, 0), (1, 3)])
def test_others_take_ours_without_a_copy(gpu: Interpreted, dtype: str, version: Any) -> None:
    x = (dnp.arange(24.0).reshape(4, 6) % 2).astype(dtype)
    assert x.__dlpack_device__() == GPU
    capsule = x[1:, ::2].__dlpack__(stream=9, max_version=version)
    assert name(capsule) == (b"dltensor" if version is None else b"dltensor_versioned")
    tensor = Tensor(capsule)
    assert gpu.waiting == [9]
    assert tensor.device == GPU and tensor.dtype == np.dtype(dtype)
    assert (tensor.shape, tensor.strides) == ((3, 3), (6, 2))
    assert (tensor.version, tensor.flags) == ((None, None) if version is None else ((1, 0), 0))
    expected = (np.arange(24.0).reshape(4, 6) % 2).astype(dtype)
    assert np.array_equal(values(gpu, tensor), expected[1:, ::2])
    gpu.heap.write(tensor.address, np.array([3], dtype).tobytes())
    assert x[1, 0] == np.array(3).astype(dtype)
    tensor.end()


@pytest.mark.skipif(native is None, reason="a callback of ctypes cannot put an exception aside")
def test_an_error_of_who_refuses_a_capsule_is_raised(gpu: Interpreted) -> None:
    x = dnp.arange(24.0) + 1
    before = len(capsules._lent)
    with pytest.raises((RuntimeError, BufferError), match="Unsupported device"):
        np.from_dlpack(x)  # NumPy's, which wants memory of the host
    assert len(capsules._lent) == before and x[3] == 4.0


def test_what_is_written_while_others_hold_it_is_there_at_once(gpu: Interpreted) -> None:
    x = dnp.arange(20.0) + 1
    tensor = Tensor(x.__dlpack__(stream=9))
    x += 1.0
    assert np.array_equal(values(gpu, tensor), np.arange(20.0) + 2)
    gpu.heap.write(tensor.address, np.full(20, 5.0).tobytes())
    assert float((x * 2).sum()) == 200.0
    tensor.end()


def test_operations_are_recorded_again_when_the_borrower_is_done(gpu: Interpreted) -> None:
    x = dnp.arange(20.0) + 1
    one, other = Tensor(x.__dlpack__()), Tensor(x.__dlpack__())
    for tensor, shared in ((one, True), (other, False)):
        tensor.end()
        x += 1.0
        engine.flush()
        assert x.storage.shared is x.storage.exported is shared
    launched = len(gpu.launched)
    x += 1.0
    x *= 2.0
    assert len(gpu.launched) == launched
    assert np.array_equal(np.asarray(x), (np.arange(20.0) + 4) * 2)


def test_the_memory_stays_until_the_borrower_is_done(gpu: Interpreted) -> None:
    x = dnp.arange(1000.0) + 1
    tensor = Tensor(x.__dlpack__())
    del x
    others = [dnp.arange(1000.0) * k for k in range(5)]
    engine.flush()
    assert others and np.array_equal(values(gpu, tensor), np.arange(1000.0) + 1)
    used = sum(gpu.used.values())
    tensor.end()
    engine.current().runtime.trim()  # type: ignore[attr-defined]
    assert sum(gpu.used.values()) < used


def test_a_capsule_that_nobody_takes_gives_the_memory_back(gpu: Interpreted) -> None:
    x = dnp.arange(20.0) + 1
    capsule = x.__dlpack__()
    assert x.storage.shared
    del capsule
    gc.collect()
    x += 1.0
    engine.flush()
    assert not x.storage.shared


@pytest.mark.parametrize("stream, waiting", [(None, [1]), (1, [1]), (2, [2]), (99, [99]), (-1, [])])
def test_the_takers_stream_waits_for_ours(gpu: Interpreted, stream: Any, waiting: list[int]) -> None:
    tensor = Tensor((dnp.arange(20.0) + 1).__dlpack__(stream=stream))
    assert gpu.waiting == waiting
    tensor.end()


def test_read_only_arrays_say_so_or_are_refused(gpu: Interpreted) -> None:
    x = dnp.arange(20.0) + 1
    x.flags.writeable = False
    with pytest.raises(BufferError, match="Cannot export readonly array"):
        x.__dlpack__()
    tensor = Tensor(x.__dlpack__(max_version=(1, 0)))
    assert tensor.flags == 1
    tensor.end()


def test_a_copy_is_one(gpu: Interpreted) -> None:
    x = dnp.arange(20.0) + 1
    tensor = Tensor(x.__dlpack__(max_version=(1, 0), copy=True))
    gpu.heap.write(tensor.address, np.zeros(20).tobytes())
    assert tensor.flags == 2 and float(x[1]) == 2.0 and not x.storage.shared
    tensor.end()


def test_the_host_gets_a_copy_where_it_asks_for_one(gpu: Interpreted) -> None:
    x = dnp.arange(20.0) + 1
    assert np.array_equal(np.from_dlpack(x, device="cpu"), np.arange(20.0) + 1)
    with pytest.raises(BufferError, match="Unable to avoid copy"):
        x.__dlpack__(dl_device=CPU, copy=False)
    assert x.__dlpack_device__() == GPU
    mine = np.asarray(x)
    assert x.__dlpack_device__() == CPU and np.shares_memory(np.from_dlpack(x), mine)
    with pytest.raises(BufferError, match="hand out a copy"):
        x.__dlpack__(dl_device=GPU)


def test_wrong_arguments_are_refused_as_numpy_does(gpu: Interpreted) -> None:
    x = dnp.arange(20.0) + 1
    for options, error in (({"dl_device": (2, 1)}, BufferError), ({"dl_device": 2}, TypeError),
                           ({"max_version": 1}, TypeError), ({"stream": 0}, ValueError),
                           ({"other": 1}, TypeError)):
        with pytest.raises(error):
            x.__dlpack__(**options)
    with pytest.raises(BufferError, match="multiple of itemsize"):
        dnp.lib.stride_tricks.as_strided(x, (2,), (12,)).__dlpack__()


def test_numpys_arrays_and_empty_ones(gpu: Interpreted) -> None:
    x = dnp.asarray(np.arange(1000.0))
    assert x.__dlpack_device__() == CPU
    empty = (dnp.arange(20.0) + 1)[:0]
    tensor = Tensor(empty.__dlpack__(dl_device=GPU))
    assert tensor.shape == (0,) and tensor.address == 0
    tensor.end()


@pytest.mark.parametrize("dtype", ["bool", "int32", "float64", "complex64"])
@pytest.mark.parametrize("old", [False, True])
def test_we_take_theirs_without_a_copy(gpu: Interpreted, dtype: str, old: bool) -> None:
    elements = (np.arange(12.0) % 2).astype(dtype).reshape(3, 4)
    theirs = given(gpu, elements, old=old, offset=64)
    x = dnp.from_dlpack(theirs)
    assert theirs.asked[-1]["stream"] == OURS and x.dtype == dtype and x.shape == (3, 4)
    x[1] = 1
    elements[1] = 1
    assert gpu.heap.read(theirs.address, elements.nbytes) == elements.tobytes()
    gpu.heap.write(theirs.address, np.zeros_like(elements).tobytes())  # nobody tells
    assert not dnp.any(x)
    del x
    gc.collect()
    assert theirs.deleted == 1


def test_strided_and_reversed_tensors_are_views(gpu: Interpreted) -> None:
    elements = np.arange(12.0).reshape(3, 4)
    for strides, expected in (((1, 3), elements.ravel().reshape(4, 3).T), ((4, 1), elements)):
        theirs = given(gpu, elements, strides=strides)
        x = dnp.from_dlpack(theirs)
        assert np.array_equal(np.asarray(x + 0), expected)
        x[0, 1] = -1.0
        at = theirs.address + 8 * strides[1]
        assert np.frombuffer(gpu.heap.read(at, 8)) == -1.0
    theirs = given(gpu, elements, strides=(4, -1))
    theirs.address += 24
    assert np.array_equal(np.asarray(dnp.from_dlpack(theirs) + 0), elements[:, ::-1])


def test_tensors_that_nobody_may_write_are_read_only(gpu: Interpreted) -> None:
    x = dnp.from_dlpack(given(gpu, np.arange(5.0), readonly=True))
    assert not x.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        x += 1


@pytest.mark.parametrize("options, message", [
    ({"device": (2, 1)}, "on GPU 1"), ({"lanes": 2}, "Unsupported lanes"),
    ({"major": 2}, "version is too high")])
def test_tensors_that_cannot_be_taken_are_refused(gpu: Interpreted, options: Any, message: str) -> None:
    theirs = given(gpu, np.arange(4.0), **options)
    with pytest.raises(BufferError, match=message):
        dnp.from_dlpack(theirs)
    assert not theirs.deleted


def test_what_goes_there_and_back_is_the_same_memory(gpu: Interpreted) -> None:
    x = dnp.arange(20.0) + 1
    tensor = Tensor(x.__dlpack__())
    y = dnp.from_dlpack(Producer(tensor.address, "float64", (20,)))
    y[3] = -1.0
    assert float(x[3]) == -1.0 and y.storage is x.storage
    z = dnp.from_dlpack(x)
    z[4] = -2.0
    assert float(x[4]) == -2.0
    copied = dnp.from_dlpack(x, copy=True)
    copied[5] = -3.0
    assert float(x[5]) == 6.0
    tensor.end()


def test_one_memory_under_two_shapes_and_types_is_one_store(gpu: Interpreted) -> None:
    theirs = given(gpu, np.arange(12.0))
    x = dnp.from_dlpack(theirs)
    y = dnp.from_dlpack(Producer(theirs.address, "float64", (3, 4)))
    z = dnp.from_dlpack(Producer(theirs.address, "int64", (12,)))
    y[1, 1] = 7.0
    assert float(x[5]) == 7.0 and int(z[5]) == np.array(7.0).view(np.int64)


def test_launches_on_shared_memory_come_after_the_default_stream(gpu: Interpreted) -> None:
    x = dnp.arange(20.0) + 1
    tensor = Tensor(x.__dlpack__())
    gpu.waited.clear()
    y = x * 2
    engine.flush()
    assert gpu.waited == [1] and float(y[1]) == 4.0
    tensor.end()


def test_memory_that_comes_back_is_used_after_the_default_stream(gpu: Interpreted) -> None:
    x = dnp.arange(20.0) + 1
    y = dnp.arange(20.0) + 1
    engine.flush()
    tensor = Tensor(x.__dlpack__())
    del x
    tensor.end()
    gpu.waited.clear()
    y += 1.0  # another array, perhaps with the same memory for a result
    engine.flush()
    y += 1.0
    engine.flush()
    assert gpu.waited == [1]


def test_on_the_host_all_is_numpys() -> None:
    with settings.using(runtime="local", small=0):
        x = dnp.arange(20.0) + 1
        assert x.__dlpack_device__() == CPU
        assert np.shares_memory(np.from_dlpack(x), np.asarray(x))
        y = dnp.from_dlpack(x)
        y[3] = -1.0
        assert float(x[3]) == -1.0
        with pytest.raises((BufferError, RuntimeError), match="Unsupported device"):
            dnp.from_dlpack(Producer(1 << 20, "float64", (4,)))

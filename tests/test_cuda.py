"""The CUDA runtime over a driver without a device (libcuda.c): its calls, and what it refuses."""

from __future__ import annotations

import ctypes
import os
import shutil
import struct
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from diffuse.kernels.body import abi
from diffuse.kernels.build.compiler import Kernel
from diffuse.runtime.base import Launch
from diffuse.runtime.device.cuda import Cuda
from diffuse.runtime.device.driver import CudaError, Driver
from tests.jobs import python
from tests.test_grid import large, reduction

COMPILER = shutil.which("gcc") or shutil.which("cc")
HERE = Path(__file__).parent

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="a C compiler builds the driver for tests")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("driver") / "libcuda.so.1"
    subprocess.run([str(COMPILER), "-shared", "-fPIC", "-o", str(path), str(HERE / "libcuda.c")], check=True)
    return path


@pytest.fixture
def driver(library: Path) -> Driver:
    return Driver(str(library))


@pytest.fixture
def cuda(driver: Driver) -> Iterator[Cuda]:
    yield Cuda(gpu=driver)


def noted(driver: Any) -> tuple[bytes, int, int]:
    """The parameters and the groups of the last launch, and the number of launches."""
    room, groups, count = ctypes.create_string_buffer(1 << 16), ctypes.c_uint(), ctypes.c_long()
    size = driver._library.noted(room, ctypes.byref(groups), ctypes.byref(count))
    return room.raw[:size], groups.value, count.value


@needs_compiler
def test_the_device_is_described(driver: Driver) -> None:
    assert (driver.name(), driver.architecture(), driver.version) == ("a device for tests", "sm_90", 13000)
    assert driver.memory()[1] == 64 << 20


@needs_compiler
def test_memory_goes_there_and_back(cuda: Cuda) -> None:
    array = np.arange(1000.0)
    instance = cuda.attach(array)
    cuda.to_device(instance.address, array.view(np.uint8))
    instance.memory, instance.fresh, instance.home = None, False, False
    assert np.array_equal(cuda.host(instance, False).view(float), array)


@needs_compiler
def test_memory_is_reused_and_given_back(cuda: Cuda, driver: Driver) -> None:
    first = cuda.create(1 << 20)
    place = first.address
    cuda.release(first)
    assert cuda.create(1 << 20).address == place
    kept = driver.memory()[0]
    cuda.trim()
    assert driver.memory()[0] >= kept + (1 << 20)


@needs_compiler
def test_memory_of_small_stores_is_taken_again_and_counts_as_free(cuda: Cuda) -> None:
    before = cuda.usage()
    held = [cuda.create(1000) for _ in range(20)]
    places = {x.address for x in held}
    for x in held:
        cuda.release(x)
    assert cuda.usage().in_use == before.in_use
    assert {x.address for x in [cuda.create(1000) for _ in range(8)]} <= places
    for size in range(2000, 40_000, 1000):
        cuda.release(cuda.create(size))
    assert len(cuda._spare) <= 16 and cuda.usage().in_use == before.in_use
    cuda.trim()
    assert cuda.usage().cached == 0


@needs_compiler
def test_memory_of_small_stores_goes_back_before_a_request_is_refused(cuda: Cuda, driver: Driver) -> None:
    held = [cuda.create(65_000) for _ in range(8)] + [cuda.create(60_000) for _ in range(8)]
    for x in held:
        cuda.release(x)
    del held, x
    assert cuda.create(driver.memory()[1] - (1 << 20)).address
    cuda.trim()


@needs_compiler
def test_freed_memory_that_the_pool_keeps_is_there_for_larger_stores(cuda: Cuda, driver: Driver) -> None:
    """For the driver, such memory is not free."""
    held = [cuda.create(10 << 20) for _ in range(6)]
    del held
    cuda.trim()
    driver.free(driver.allocate(60 << 20))
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    driver.call("cuMemGetInfo_v2", ctypes.addressof(free), ctypes.addressof(total))
    assert free.value < 8 << 20 and driver.memory()[0] > 60 << 20
    held = [cuda.create(20 << 20) for _ in range(2)]
    del held
    held = [cuda.create(10 << 20)]
    assert cuda.create(43 << 20).address and held
    del held
    cuda.trim()


@needs_compiler
def test_too_much_memory_is_refused_with_the_sizes(cuda: Cuda) -> None:
    with pytest.raises(MemoryError, match="68719476736 bytes requested, and a device for tests has 67108864"):
        cuda.create(64 << 30)
    held = [cuda.create(20 << 20) for _ in range(2)]
    with pytest.raises(MemoryError, match="bytes requested"):
        cuda.create(40 << 20)
    del held
    assert cuda.create(40 << 20).address


@needs_compiler
def test_a_launch_has_the_block_and_the_argument_of_each_kernel(cuda: Cuda, driver: Driver) -> None:
    body = reduction("s0")
    kernel = Kernel(body, cuda.target)
    kernel.advance(None)
    x, y = cuda.create(100 * 3000 * 8), cuda.create(800)
    partials = cuda.create(abi.partial_bytes(body, abi.reductions(body)[0], (100, 3000)))
    values = (1, 100, 100, 3000, x.address, 24000, 8, y.address, 8, 0, partials.address)
    before = noted(driver)[2]
    cuda.launch(Launch(kernel, values, 1, (x, y, partials)))
    parameters, groups, count = noted(driver)
    assert count - before == 2 and groups == 1
    assert parameters == struct.pack("<11Qq", *values, 0)


@needs_compiler
def test_other_threads_launch_in_the_same_context(driver: Driver) -> None:
    plan = driver.plan([(7, 3, 5), (8, 4, 6)], 16)
    before, strayed = noted(driver)[2], driver._library.strayed()
    for _ in range(2):  # the number of a thread that ended may be the next one's
        thread = threading.Thread(target=driver.submit, args=(plan, bytes(range(16))))
        thread.start()
        thread.join()
    parameters, groups, count = noted(driver)
    assert count == before + 4 and groups == 4 and parameters == bytes(range(16)) + struct.pack("<q", 6)
    assert driver._library.strayed() == strayed


@needs_compiler
def test_linked_code_is_kept_between_processes(cuda: Cuda, monkeypatch: pytest.MonkeyPatch) -> None:
    body = reduction("s0", "prod")
    for number in range(2):
        kernel = Kernel(body, cuda.target)
        kernel.advance(None)
        assert sorted(cuda._loaded(kernel.native)) == ["chunks0", "loop0", "results0", "together", "trees0"]
        monkeypatch.setattr(cuda.gpu, "link", lambda text: pytest.fail("linked again"))


@needs_compiler
def test_what_a_gpu_cannot_run_is_compiled_for_the_host_and_runs_there(cuda: Cuda) -> None:
    x = np.linspace(0.1, 1, 100) * (1 + 1j)
    kernel = Kernel(large(), cuda.target)
    kernel.advance(None)
    way: Any = kernel.compilation
    assert "its parameters take" in way.refusal and hasattr(kernel.native, "address")
    given, made = cuda.attach(x), cuda.create(1600)
    words = (1, *[100] * 4200, given.address, 16, made.address, 16)
    cuda.launch(Launch(kernel, words, 1, (given, made)))
    assert np.allclose(cuda.host(made, False).view(complex), np.tanh(x), rtol=1e-15)


@needs_compiler
def test_errors_name_the_function_and_what_the_driver_says(driver: Driver) -> None:
    with pytest.raises(CudaError, match="cuLinkAddData_v2: CUDA_ERROR_FOR_TESTS: something was wrong\n"
                                        "ptxas fatal: this is no PTX"):
        driver.link(b"nonsense")
    with pytest.raises(CudaError, match="cuLaunchKernel: CUDA_ERROR_INVALID_CONFIGURATION"):
        driver.submit(driver.plan([(0, 0, 0)], 8), bytes(8))
    with pytest.raises(CudaError, match="cuModuleGetFunction"):
        driver.functions(b".version", ("nothing",))


@needs_compiler
def test_more_groups_than_a_grid_has_are_refused(driver: Driver) -> None:
    assert driver.plan([(7, (1 << 31) - 1, 0)], 8)
    with pytest.raises(ValueError, match="a kernel of 4294967297 groups"):  # 1, of 32 bits
        driver.plan([(7, (1 << 32) + 1, 0)], 8)


@needs_compiler
def test_streams_wait_for_each_other_by_an_event(driver: Any) -> None:
    first, second = ctypes.c_void_p(), ctypes.c_void_p()
    before = driver._library.ordered(ctypes.byref(first), ctypes.byref(second))
    driver.wait_for(9)
    assert driver._library.ordered(ctypes.byref(first), ctypes.byref(second)) == before + 1
    assert (first.value, second.value) == (9, driver.stream)
    driver.ahead_of(1)
    assert driver._library.ordered(ctypes.byref(first), ctypes.byref(second)) == before + 2
    assert (first.value, second.value) == (driver.stream, 1)
    driver.ahead_of(driver.stream)
    assert driver._library.ordered(ctypes.byref(first), ctypes.byref(second)) == before + 2


@needs_compiler
@pytest.mark.parametrize("other", [None, 5])
def test_the_context_of_another_library_is_current_again(driver: Any, other: int | None) -> None:
    """Another GPU's; and where a library leaves none, the device's is made current."""
    plan, place, room = driver.plan([(7, 3, 5)], 16), driver.allocate(64), ctypes.create_string_buffer(16)
    here = ctypes.addressof(room)
    driver.submit(plan, bytes(16))
    before, found = noted(driver)[2], ctypes.c_void_p()
    for call in (lambda: driver.submit(plan, bytes(range(16))), lambda: driver.upload(place, here, 16),
                 lambda: driver.download(here, place, 16), driver.wait, driver.memory,
                 lambda: driver.wait_for(9), lambda: driver.free(driver.allocate(8))):
        driver._library.cuCtxSetCurrent(ctypes.c_void_p(other))
        call()
        driver._library.cuCtxGetCurrent(ctypes.byref(found))
        assert found.value == (other or 1)
    assert noted(driver)[2] == before + 1 and noted(driver)[0][:16] == bytes(range(16))
    driver._library.cuCtxSetCurrent(ctypes.c_void_p(1))
    driver.free(place)


@needs_compiler
def test_other_threads_enter_the_context(driver: Driver) -> None:
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(driver.allocate(64)))
    thread.start()
    thread.join()
    assert found[0]
    driver.free(found[0])


@needs_compiler
@pytest.mark.parametrize("call", ["wait", "submit"])
def test_a_forked_child_is_told_what_to_do(driver: Driver, call: str) -> None:
    plan = driver.plan([(0, 1, 0)], 8)
    driver.submit(plan, bytes(8))
    run = driver.wait if call == "wait" else partial(driver.submit, plan, bytes(8))
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            run()
            os.write(writing, b"nothing was raised")
        except RuntimeError as error:
            os.write(writing, str(error).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert b"start workers with the method spawn" in os.read(reading, 1000)
    os.close(reading)
    os.close(writing)


@needs_compiler
def test_a_driver_that_has_no_gpu_is_said_with_what_to_do(driver: Any, library: Path) -> None:
    refusal = ctypes.c_int.in_dll(driver._library, "refusal")
    refusal.value = 100
    with pytest.raises(RuntimeError, match="finds no GPU that it can use .*was wrong.*DIFFUSE_RUNTIME=local"):
        Driver(str(library))
    refusal.value = 0


def test_without_a_driver_the_first_task_says_what_is_missing() -> None:
    with pytest.raises(RuntimeError, match="no NVIDIA driver was found .*: install NVIDIA's driver .*"
                                           "DIFFUSE_RUNTIME=local"):
        Driver("libcuda-nowhere.so.1")
    program = "import diffuse.numpy as np; print(np.arange(3) + 1); print((np.arange(1e5) + 1)[5])"
    done = python(program, DIFFUSE_RUNTIME="cuda", LD_LIBRARY_PATH="")
    if done.returncode:  # no GPU here
        assert done.stdout == "[1 2 3]\n"
        assert "NVIDIA driver" in done.stderr.splitlines()[-1]

"""A device behind NVIDIA's driver API: streams that run as late as they may, and kernels whose PTX is
interpreted.

`interpreting_libcuda.c` is a libcuda.so.1 that calls `answer` for each function.  So programs, and the
command for machines with a GPU, run through every layer down to the driver's functions.  Nothing that is
submitted to a stream is done before somebody waits for it: what the host changes, reads or frees too early is
wrong here each time, and on a GPU sometimes.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.ptx_machine import Machine, Memory

MEMORY = int(os.environ.get("INTERPRETED_GPU_MEMORY", 256 << 20))
VERSION = 13990
"""Unlike any driver's: nobody else uses the kernels that are kept on the disk for it."""
OUT_OF_MEMORY, INVALID_VALUE, INVALID_CONTEXT, NOT_FOUND, ILLEGAL_ADDRESS = 2, 1, 201, 500, 700
INVALID_PTX = 218
LEGACY, OURS = 1, 11
"""The streams: other libraries' default one, and the one that is created."""
FREE = ("cuInit", "cuDriverGetVersion", "cuDeviceGet", "cuDeviceGetName", "cuDeviceGetAttribute",
        "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent", "cuCtxGetCurrent", "cuCtxPushCurrent_v2",
        "cuDeviceGetDefaultMemPool", "cuDeviceGetCount", "cuDeviceTotalMem_v2", "cuGetErrorName",
        "cuGetErrorString", "cuLinkDestroy")
"""Functions that need no context in the thread."""


def built(folder: Path) -> Path:
    """Build the library in a folder: its path."""
    path = folder / "libcuda.so.1"
    source = Path(__file__).with_name("interpreting_libcuda.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(path), str(source)], check=True)
    return path


def put(place: int, value: int, kind: Any = ctypes.c_uint64) -> None:
    kind.from_address(place).value = value


class Stream:
    """Work that is done in order, when somebody waits."""

    def __init__(self) -> None:
        self.queue: list[Callable[[], None]] = []
        self.done = 0

    def run(self, upto: int) -> None:
        """Do the first works, so many in all."""
        while self.done < upto:
            self.done += 1  # before the work, which may wait for this stream
            work, self.queue[self.done - 1] = self.queue[self.done - 1], _nothing
            work()


def _nothing() -> None:
    pass


class Device:
    """The device, and one method for each function of the driver: it returns the function's error."""

    def __init__(self) -> None:
        self.heap = Memory()
        self.sizes: dict[int, int] = {}
        self.pinned: dict[int, Any] = {}
        self.streams: dict[int, Stream] = {}
        self.events: dict[int, tuple[int, int]] = {}
        self.modules: list[Machine] = []
        self.functions: list[tuple[Machine, str]] = []
        self.linkers: list[tuple[int, list[Any]]] = []
        """For each linker the address of its log, and what it was given; several may be in use at once."""
        self.texts: dict[str, Any] = {}
        self.broken = 0
        """The error of a kernel, which all later calls return."""
        self.context = threading.local()

    # -- for tests -----------------------------------------------------------------------------------------

    def submit(self, stream: int, work: Callable[[], None]) -> int:
        """Put work into a stream."""
        self.stream(stream).queue.append(work)
        return 0

    def stream(self, number: int) -> Stream:
        return self.streams.setdefault(number, Stream())

    def finish(self, stream: int) -> int:
        found = self.stream(stream)
        found.run(len(found.queue))
        return 0

    # -- the device ----------------------------------------------------------------------------------------

    def cuInit(self, flags: int) -> int:
        return 0

    def cuDriverGetVersion(self, version: int) -> int:
        put(version, VERSION, ctypes.c_int)
        return 0

    def cuDeviceGet(self, device: int, number: int) -> int:
        put(device, number, ctypes.c_int)
        return 101 if number else 0

    def cuDeviceGetCount(self, count: int) -> int:
        put(count, 1, ctypes.c_int)
        return 0

    def cuDeviceTotalMem_v2(self, nbytes: int, device: int) -> int:
        put(nbytes, MEMORY)
        return 0

    def cuDeviceGetName(self, name: int, nbytes: int, device: int) -> int:
        ctypes.memmove(name, b"an interpreter of PTX\0", 22)
        return 0

    def cuDeviceGetAttribute(self, value: int, which: int, device: int) -> int:
        put(value, {75: 8, 76: 0}[which], ctypes.c_int)
        return 0

    def cuDevicePrimaryCtxRetain(self, context: int, device: int) -> int:
        put(context, 5)
        return 0

    def cuCtxSetCurrent(self, context: int) -> int:
        self.context.current = context
        return 0

    def cuCtxGetCurrent(self, context: int) -> int:
        put(context, getattr(self.context, "current", 0))
        return 0

    def cuCtxPushCurrent_v2(self, context: int) -> int:
        self.context.stack = [*getattr(self.context, "stack", ()), getattr(self.context, "current", 0)]
        return self.cuCtxSetCurrent(context)

    def cuCtxPopCurrent_v2(self, context: int) -> int:
        self.cuCtxGetCurrent(context)
        return self.cuCtxSetCurrent(self.context.stack.pop())

    def cuGetErrorName(self, error: int, text: int) -> int:
        return self._text(text, f"CUDA_ERROR_{error}")

    def cuGetErrorString(self, error: int, text: int) -> int:
        return self._text(text, "said by an interpreter of PTX")

    def _text(self, place: int, text: str) -> int:
        kept = self.texts.setdefault(text, ctypes.create_string_buffer(text.encode()))
        put(place, ctypes.addressof(kept))
        return 0

    # -- streams -------------------------------------------------------------------------------------------

    def cuStreamCreate(self, stream: int, flags: int) -> int:
        put(stream, OURS)
        return 0 if flags == 1 else INVALID_VALUE

    def cuStreamSynchronize(self, stream: int) -> int:
        return self.finish(stream)

    def cuEventCreate(self, event: int, flags: int) -> int:
        number = len(self.events) + 1
        self.events[number] = 0, 0
        put(event, number)
        return 0

    def cuEventRecord(self, event: int, stream: int) -> int:
        self.events[event] = stream, len(self.stream(stream).queue)
        return 0

    def cuEventSynchronize(self, event: int) -> int:
        stream, upto = self.events[event]
        self.stream(stream).run(upto)
        return 0

    def cuStreamWaitEvent(self, stream: int, event: int, flags: int) -> int:
        first, upto = self.events[event]
        return self.submit(stream, lambda: self.stream(first).run(upto))

    # -- memory --------------------------------------------------------------------------------------------

    def cuDeviceGetDefaultMemPool(self, pool: int, device: int) -> int:
        put(pool, 6)
        return 0

    def cuMemPoolSetAttribute(self, pool: int, which: int, value: int) -> int:
        return 0

    def cuMemPoolGetAttribute(self, pool: int, which: int, value: int) -> int:
        put(value, sum(self.sizes.values()))  # it keeps nothing
        return 0

    def cuMemPoolTrimTo(self, pool: int, nbytes: int) -> int:
        return 0

    def cuMemGetInfo_v2(self, available: int, total: int) -> int:
        put(available, MEMORY - sum(self.sizes.values()))
        put(total, MEMORY)
        return 0

    def cuMemHostAlloc(self, place: int, nbytes: int, flags: int) -> int:
        made = ctypes.create_string_buffer(nbytes)
        self.pinned[ctypes.addressof(made)] = made
        put(place, ctypes.addressof(made))
        return 0

    def cuMemAllocAsync(self, address: int, nbytes: int, stream: int) -> int:
        if nbytes > MEMORY - sum(self.sizes.values()):
            return OUT_OF_MEMORY
        found = self.heap.allocate(nbytes)
        self.sizes[found] = nbytes
        put(address, found)
        return 0

    def cuMemFreeAsync(self, address: int, stream: int) -> int:
        del self.sizes[address]  # which is there for what is submitted to the stream from now on
        return self.submit(stream, lambda: self.heap.free(address))

    def cuMemcpyHtoDAsync_v2(self, target: int, source: int, nbytes: int, stream: int) -> int:
        return self._copy(source, stream, lambda: self.heap.write(target, ctypes.string_at(source, nbytes)))

    def cuMemcpyDtoHAsync_v2(self, target: int, source: int, nbytes: int, stream: int) -> int:
        return self._copy(target, stream,
                          lambda: ctypes.memmove(target, self.heap.read(source, nbytes), nbytes))

    def _copy(self, place: int, stream: int, work: Callable[[], Any]) -> int:
        """The driver waits for copies of host memory that is not pinned."""
        self.submit(stream, work)
        return 0 if any(0 <= place - start < len(made) for start, made in self.pinned.items()) \
            else self.finish(stream)

    # -- code ----------------------------------------------------------------------------------------------

    def cuLinkCreate_v2(self, count: int, options: int, values: int, state: int) -> int:
        made: list[Any] = []
        self.linkers.append((ctypes.c_uint64.from_address(values).value, made))
        put(state, next(k for k, (_, given) in enumerate(self.linkers, 1) if given is made))
        return 0

    def cuLinkAddData_v2(self, state: int, kind: int, text: int, nbytes: int) -> int:
        log, given = self.linkers[state - 1]
        given.append(ctypes.create_string_buffer(ctypes.string_at(text, nbytes), nbytes + 1))
        try:
            Machine(given[-1].value.decode())
        except Exception as error:
            ctypes.memmove(log, f"{error}\0".encode(), len(f"{error}\0".encode()))
            return INVALID_PTX
        return 0

    def cuLinkComplete(self, state: int, code: int, nbytes: int) -> int:
        (text,) = self.linkers[state - 1][1]
        put(code, ctypes.addressof(text))
        put(nbytes, len(text))
        return 0

    def cuLinkDestroy(self, state: int) -> int:
        return 0

    def cuModuleLoadData(self, module: int, image: int) -> int:
        self.modules.append(Machine(ctypes.string_at(image).decode()))
        put(module, len(self.modules))
        return 0

    def cuModuleGetFunction(self, function: int, module: int, name: int) -> int:
        found = ctypes.string_at(name).decode()
        if found not in self.modules[module - 1].kernels:
            return NOT_FOUND
        self.functions.append((self.modules[module - 1], found))
        put(function, len(self.functions))
        return 0

    def cuLibraryLoadData(self, library: int, text: int) -> int:
        return self.cuModuleLoadData(library, text)

    def cuLibraryGetKernel(self, kernel: int, library: int, name: int) -> int:
        return self.cuModuleGetFunction(kernel, library, name)

    def cuLaunchKernel(self, function: int, groups: int, y: int, z: int, threads: int, ty: int, tz: int,
                       shared: int, stream: int, parameters: int, extra: int) -> int:
        words = (ctypes.c_uint64 * 5).from_address(extra)
        if (y, z, threads, ty, tz, shared, parameters) != (1, 1, 256, 1, 1, 0, 0) or not 0 < groups < 1 << 31:
            return INVALID_VALUE
        if (words[0], words[2], words[4]) != (1, 2, 0):
            return INVALID_VALUE
        block = ctypes.string_at(words[1], ctypes.c_uint64.from_address(words[3]).value)
        machine, name = self.functions[function - 1]
        return self.submit(stream, lambda: machine.launch(name, groups, block, self.heap))


device = Device()


def answer(name: str, *arguments: int) -> int:
    """The result of a function of the driver, given its arguments and what lies behind them."""
    if name not in FREE:
        if getattr(device.context, "current", 0) != 5:
            return INVALID_CONTEXT
        if device.broken:
            return device.broken
    function = getattr(device, name)
    narrow = {"cuLaunchKernel": range(1, 8)}.get(name, ())
    given = [x & 0xFFFFFFFF if k in narrow else x for k, x in enumerate(arguments)]
    try:
        return int(function(*given[:function.__func__.__code__.co_argcount - 1]))
    except Exception:
        traceback.print_exc(file=sys.stderr)
        device.broken = ILLEGAL_ADDRESS
        return ILLEGAL_ADDRESS

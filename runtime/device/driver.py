"""NVIDIA's driver, as far as Diffuse uses it: about thirty functions of libcuda, called through ctypes.

Source: the reference of the CUDA driver API.  The suffix of a name, such as `_v2`, selects the version with
the parameters given here.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Sequence
from functools import partial, wraps
from threading import get_ident
from typing import Any, Concatenate, NoReturn, ParamSpec, TypeVar
from weakref import ref

from diffuse.runtime.device import submission
from diffuse.runtime.device.staging import Staging

Given = ParamSpec("Given")
Result = TypeVar("Result")

LIBRARY = "libcuda.so.1"
MISSING = ("no NVIDIA driver was found ({}): install NVIDIA's driver for this machine's GPU, or set "
           "DIFFUSE_RUNTIME=local")

UNUSABLE = ("NVIDIA's driver finds no GPU that it can use ({}): see that nvidia-smi shows one here, "
            "or set DIFFUSE_RUNTIME=local")

OUT_OF_MEMORY = 2
ELSEWHERE = 201, 400, 709
"""Errors of a launch where the context is not current: INVALID_CONTEXT, INVALID_HANDLE,
CONTEXT_IS_DESTROYED."""
NON_BLOCKING = 1
"""A stream that does not synchronise with the default stream, which other libraries use."""
UNTIMED = 2
"""An event without a timestamp, which costs less."""
COMPUTE_MAJOR, COMPUTE_MINOR = 75, 76
"""Attributes of a device."""
RELEASE_THRESHOLD, RESERVED, USED = 4, 5, 7
"""Attributes of a memory pool: the bytes that it keeps, has, and has given out."""
PTX = 1
"""The kind of input of the driver's linker."""
ERROR_LOG, ERROR_LOG_BYTES = 5, 6
"""Options of the driver's linker."""

NUMBER, POINTER, SIZE, WORD = ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint64
REFERENCE = ctypes.c_void_p

FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "cuInit": (ctypes.c_uint,),
    "cuDriverGetVersion": (REFERENCE,),
    "cuDeviceGet": (REFERENCE, NUMBER),
    "cuDeviceGetName": (POINTER, NUMBER, NUMBER),
    "cuDeviceGetAttribute": (REFERENCE, NUMBER, NUMBER),
    "cuDevicePrimaryCtxRetain": (REFERENCE, NUMBER),
    "cuCtxSetCurrent": (POINTER,),
    "cuCtxGetCurrent": (REFERENCE,),
    "cuCtxPushCurrent_v2": (POINTER,),
    "cuCtxPopCurrent_v2": (REFERENCE,),
    "cuStreamCreate": (REFERENCE, ctypes.c_uint),
    "cuStreamSynchronize": (POINTER,),
    "cuDeviceGetDefaultMemPool": (REFERENCE, NUMBER),
    "cuMemPoolSetAttribute": (POINTER, NUMBER, REFERENCE),
    "cuMemPoolGetAttribute": (POINTER, NUMBER, REFERENCE),
    "cuMemPoolTrimTo": (POINTER, SIZE),
    "cuEventCreate": (REFERENCE, ctypes.c_uint),
    "cuEventRecord": (POINTER, POINTER),
    "cuStreamWaitEvent": (POINTER, POINTER, ctypes.c_uint),
    "cuMemGetInfo_v2": (REFERENCE, REFERENCE),
    "cuEventSynchronize": (POINTER,),
    "cuMemHostAlloc": (REFERENCE, SIZE, ctypes.c_uint),
    "cuMemAllocAsync": (REFERENCE, SIZE, POINTER),
    "cuMemFreeAsync": (WORD, POINTER),
    "cuMemcpyHtoDAsync_v2": (WORD, POINTER, SIZE, POINTER),
    "cuMemcpyDtoHAsync_v2": (POINTER, WORD, SIZE, POINTER),
    "cuLinkCreate_v2": (ctypes.c_uint, POINTER, POINTER, REFERENCE),
    "cuLinkAddData_v2": (POINTER, NUMBER, POINTER, SIZE, ctypes.c_char_p, ctypes.c_uint, POINTER, POINTER),
    "cuLinkComplete": (POINTER, REFERENCE, REFERENCE),
    "cuLinkDestroy": (POINTER,),
    "cuModuleLoadData": (REFERENCE, ctypes.c_char_p),
    "cuModuleGetFunction": (REFERENCE, POINTER, ctypes.c_char_p),
    "cuLaunchKernel": (POINTER, *[ctypes.c_uint] * 7, POINTER, POINTER, POINTER),
    "cuGetErrorName": (NUMBER, REFERENCE),
    "cuGetErrorString": (NUMBER, REFERENCE),
}
"""The parameter types of each function; all return an error number."""


def _forked(driver: ref[Driver]) -> None:
    """Let a forked child detect that the context is its parent's."""
    found = driver()
    if found is not None:
        found._here = 0


class CudaError(RuntimeError):
    """An error that the driver reports."""


def within(method: Callable[Concatenate[Driver, Given], Result]
           ) -> Callable[Concatenate[Driver, Given], Result]:
    """Let a method run with the driver's context current in the thread."""
    @wraps(method)
    def run(self: Driver, /, *args: Given.args, **kwargs: Given.kwargs) -> Result:
        if not self.enter():
            return method(self, *args, **kwargs)
        try:
            return method(self, *args, **kwargs)
        finally:
            self.call("cuCtxPopCurrent_v2", ctypes.addressof(ctypes.c_void_p()))

    return run


class Driver:
    """One device, its primary context, and one stream.

    Other libraries make contexts current, too, that of another GPU among them, or none.  Where there is none,
    the device's stays; another one is current again when a call returns.
    """

    def __init__(self, library: str = LIBRARY, device: int = 0) -> None:
        try:
            self._library = ctypes.CDLL(library)
        except OSError as error:
            raise RuntimeError(MISSING.format(error)) from None
        self._names: dict[str, Any] = {}
        for name, parameters in FUNCTIONS.items():
            try:
                function = getattr(self._library, name)
            except AttributeError:
                raise RuntimeError(f"NVIDIA's driver has no {name}: it is older than CUDA 12; "
                                   "update it, or set DIFFUSE_RUNTIME=local") from None
            function.argtypes, function.restype = parameters, ctypes.c_int
            self._names[name] = function
        self._launch = ctypes.cast(self._names["cuLaunchKernel"], ctypes.c_void_p).value or 0
        self._submit: Any = None
        self._process = os.getpid()
        self._here = 0
        """The identifier of the main thread once it has made the context current, which it then need not do
        again; 0 before, and in a forked child.  Other threads are not noted, as their identifiers may be
        reused."""
        os.register_at_fork(after_in_child=partial(_forked, ref(self)))
        self._ordering = threading.Lock()
        try:
            self.call("cuInit", 0)
        except CudaError as error:
            raise RuntimeError(UNUSABLE.format(error)) from None
        version, self._device = ctypes.c_int(), ctypes.c_int()
        self.call("cuDriverGetVersion", ctypes.addressof(version))
        self.version = version.value
        self.call("cuDeviceGet", ctypes.addressof(self._device), device)
        self._context = self._new("cuDevicePrimaryCtxRetain", self._device)
        self.device = device
        self._begin()

    @within
    def _begin(self) -> None:
        """Make the stream and what belongs to it."""
        self._stream = self._new("cuStreamCreate", NON_BLOCKING)
        self.stream = self._stream.value or 0
        """The handle of the stream, for other libraries."""
        self._event = self.event()
        self._staging = Staging(self)
        self._pool = self._new("cuDeviceGetDefaultMemPool", self._device)
        most = ctypes.c_uint64(2 ** 64 - 1)
        self.call("cuMemPoolSetAttribute", self._pool, RELEASE_THRESHOLD, ctypes.addressof(most))

    def call(self, name: str, *arguments: Any) -> None:
        """Call a driver function; raises CudaError with the function's name and the driver's message."""
        error = self._names[name](*arguments)
        if error:
            raise CudaError(f"{name}: {self.described(error)}")

    def described(self, error: int) -> str:
        """The driver's name and message for an error."""
        found = []
        for name in ("cuGetErrorName", "cuGetErrorString"):
            text = ctypes.c_char_p()
            if not self._names[name](error, ctypes.addressof(text)) and text.value:
                found.append(text.value.decode())
        return ": ".join(found) or f"error {error}"

    def _new(self, name: str, *arguments: Any) -> ctypes.c_void_p:
        """Call a function that returns a handle through its first parameter."""
        handle = ctypes.c_void_p()
        self.call(name, ctypes.addressof(handle), *arguments)
        return handle

    def enter(self) -> bool:
        """Make the context current in this thread; returns whether another one has to be restored."""
        if os.getpid() != self._process:
            raise RuntimeError("the GPU belongs to the process that this one was forked from: start workers "
                               "with the method spawn, or set DIFFUSE_RUNTIME=local in them")
        found = ctypes.c_void_p()
        self.call("cuCtxGetCurrent", ctypes.addressof(found))
        if found.value == self._context.value:
            return False
        self.call("cuCtxPushCurrent_v2" if found.value else "cuCtxSetCurrent", self._context)
        return bool(found.value)

    # -- the device ----------------------------------------------------------------------------------------

    def name(self) -> str:
        text = ctypes.create_string_buffer(256)
        self.call("cuDeviceGetName", ctypes.addressof(text), len(text), self._device)
        return text.value.decode()

    def architecture(self) -> str:
        """The architecture that code is compiled for, such as sm_90."""
        found = []
        for attribute in (COMPUTE_MAJOR, COMPUTE_MINOR):
            value = ctypes.c_int()
            self.call("cuDeviceGetAttribute", ctypes.addressof(value), attribute, self._device)
            found.append(value.value)
        return f"sm_{found[0]}{found[1]}"

    @within
    def memory(self) -> tuple[int, int]:
        """Bytes of the device's memory: free, with those that the pool keeps for reuse, and total."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuMemGetInfo_v2", ctypes.addressof(free), ctypes.addressof(total))
        kept = []
        for attribute in (RESERVED, USED):
            value = ctypes.c_uint64()
            self.call("cuMemPoolGetAttribute", self._pool, attribute, ctypes.addressof(value))
            kept.append(value.value)
        return free.value + max(kept[0] - kept[1], 0), total.value

    # -- memory --------------------------------------------------------------------------------------------

    @within
    def allocate(self, nbytes: int) -> int:
        """Allocate device memory; returns its address, or 0 if there is not enough."""
        address = ctypes.c_uint64()
        error = self._names["cuMemAllocAsync"](ctypes.addressof(address), nbytes, self._stream)
        if error == OUT_OF_MEMORY:
            self.trim()  # what the pool keeps may be in pieces that are too small
            error = self._names["cuMemAllocAsync"](ctypes.addressof(address), nbytes, self._stream)
        if error == OUT_OF_MEMORY:
            return 0
        if error:
            raise CudaError(f"cuMemAllocAsync: {self.described(error)}")
        return address.value

    @within
    def free(self, address: int) -> None:
        """Free memory, after everything submitted so far."""
        self.call("cuMemFreeAsync", address, self._stream)

    @within
    def trim(self) -> None:
        """Return free memory that the pool keeps for reuse to the device."""
        self.wait()
        self.call("cuMemPoolTrimTo", self._pool, 0)

    @within
    def upload(self, target: int, source: int, nbytes: int) -> None:
        """Copy from an address of the host; the memory there may change as soon as this returns."""
        self._staging.upload(target, source, nbytes)

    @within
    def download(self, target: int, source: int, nbytes: int) -> None:
        """Copy to an address of the host, and wait."""
        self._staging.download(target, source, nbytes)

    def pinned(self, nbytes: int) -> int:
        """Allocate pinned host memory, which the device can access; returns its address, or 0 if there is not
        enough."""
        place = ctypes.c_void_p()
        error = self._names["cuMemHostAlloc"](ctypes.addressof(place), nbytes, 0)
        return 0 if error else place.value or 0

    def send(self, target: int, source: int, nbytes: int) -> None:
        self.call("cuMemcpyHtoDAsync_v2", target, source, nbytes, self._stream)

    def receive(self, target: int, source: int, nbytes: int) -> None:
        self.call("cuMemcpyDtoHAsync_v2", target, source, nbytes, self._stream)

    def event(self) -> Any:
        return self._new("cuEventCreate", UNTIMED)

    def record(self, event: Any) -> None:
        self.call("cuEventRecord", event, self._stream)

    def reach(self, event: Any) -> None:
        self.call("cuEventSynchronize", event)

    # -- code ----------------------------------------------------------------------------------------------

    @within
    def link(self, text: bytes) -> bytes:
        """Link PTX to machine code for this device."""
        log = ctypes.create_string_buffer(8192)
        options = (ctypes.c_int * 2)(ERROR_LOG, ERROR_LOG_BYTES)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), len(log))
        state = self._new_linker(options, values)
        try:
            self.call("cuLinkAddData_v2", state, PTX, text, len(text), b"kernels", 0, None, None)
            code, size = ctypes.c_void_p(), ctypes.c_size_t()
            self.call("cuLinkComplete", state, ctypes.addressof(code), ctypes.addressof(size))
            return ctypes.string_at(code.value or 0, size.value)
        except CudaError as error:
            raise CudaError(f"{error}\n{log.value.decode(errors='replace')}".rstrip()) from None
        finally:
            self.call("cuLinkDestroy", state)

    def _new_linker(self, options: Any, values: Any) -> ctypes.c_void_p:
        state = ctypes.c_void_p()
        self.call("cuLinkCreate_v2", len(options), options, values, ctypes.addressof(state))
        return state

    @within
    def functions(self, image: bytes, names: tuple[str, ...]) -> dict[str, int]:
        """Load machine code; returns the handles of its kernels by name."""
        module = self._new("cuModuleLoadData", image)
        return {name: self._new("cuModuleGetFunction", module, name.encode()).value or 0 for name in names}

    def plan(self, steps: Sequence[tuple[int, int, int]], nbytes: int) -> bytes:
        """Prepare launches of kernels, each (function, groups, argument), with a parameter block of `nbytes`
        bytes."""
        if self._submit is None:
            self._submit, self._code = submission.native()
        return submission.plan(self._launch, self.stream, nbytes, steps)

    def submit(self, plan: bytes, block: bytes) -> None:
        """Launch the kernels of a plan with a parameter block, which is copied."""
        if get_ident() == self._here:
            error = self._submit(plan, block)
            if not error:
                return
            if error not in ELSEWHERE:
                self._failed(error)
            self._here = 0  # no kernel was launched if another context is current
        self._submit_within(plan, block)

    @within
    def _submit_within(self, plan: bytes, block: bytes) -> None:
        error = self._submit(plan, block)
        if error:
            self._failed(error)
        if threading.current_thread() is threading.main_thread():
            self._here = get_ident()

    def _failed(self, error: int) -> NoReturn:
        raise CudaError(f"cuLaunchKernel: {self.described(error)}")

    @within
    def wait(self) -> None:
        """Wait until everything submitted has ended; raises the error of a failed kernel."""
        self.call("cuStreamSynchronize", self._stream)

    def wait_for(self, stream: int) -> None:
        """Make our stream wait for what is in another library's stream now."""
        self._order(stream, self.stream)

    def ahead_of(self, stream: int) -> None:
        """Make another library's stream wait for what is in ours now."""
        self._order(self.stream, stream)

    @within
    def _order(self, first: int, second: int) -> None:
        if first != second:
            with self._ordering:  # a wait refers to the last recording of the event
                self.call("cuEventRecord", self._event, first)
                self.call("cuStreamWaitEvent", second, self._event, 0)

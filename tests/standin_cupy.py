"""A stand-in for CuPy, over the memory of the GPU for tests: arrays, streams, allocators, and the functions
that Diffuse calls.  It computes with NumPy, and notes how it was called."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import numpy as np

from tests.interpreted_gpu import Interpreted


class MemoryPointer:
    def __init__(self, memory: Any, offset: int) -> None:
        self.memory, self.ptr = memory, memory.ptr + offset


class UnownedMemory:
    def __init__(self, ptr: int, size: int, owner: Any, device_id: int = -1) -> None:
        self.ptr, self.size, self.owner, self.device_id = ptr, size, owner, device_id


class Array:
    """Stands in for `cupy.ndarray`."""

    def __init__(self, module: StandIn, pointer: MemoryPointer, shape: tuple[int, ...], dtype: Any,
                 strides: Any = None) -> None:
        self.module, self.pointer, self.shape, self.dtype = module, pointer, tuple(shape), np.dtype(dtype)
        self.strides = strides or np.empty(shape, dtype).strides
        self.nbytes = int(np.prod(shape)) * self.dtype.itemsize

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": self.shape, "typestr": self.dtype.str, "strides": self.strides, "version": 3,
                "data": (self.pointer.ptr, False), "stream": self.module.stream or 1}

    def values(self) -> Any:
        """The elements, as NumPy's array."""
        ends = [s * (n - 1) for s, n in zip(self.strides, self.shape, strict=True)]
        first, size = sum(min(end, 0) for end in ends), sum(map(abs, ends)) + self.dtype.itemsize
        raw = self.module.gpu.heap.read(self.pointer.ptr + first, size)
        return np.ndarray(self.shape, self.dtype, raw, -first, self.strides)


class Stream:
    module: StandIn

    def __init__(self, handle: int) -> None:
        self.handle = handle

    @classmethod
    def from_external(cls, theirs: Any) -> Stream:
        version, handle = theirs.__cuda_stream__()
        assert version == 0
        return cls(handle)

    def __enter__(self) -> Stream:
        self.module.stream = self.handle
        return self

    def __exit__(self, *_: Any) -> None:
        self.module.stream = None


class ExternalStream(Stream):
    """The class that CuPy had before version 14."""

    def __init__(self, handle: int, device: int) -> None:
        super().__init__(handle)
        assert device == 0


class StandIn(ModuleType):
    """Stands in for the module `cupy`."""

    def __init__(self, gpu: Interpreted, old: bool = False) -> None:
        super().__init__("cupy")
        self.__spec__ = ModuleSpec("cupy", None)
        self.gpu = gpu
        self.stream: int | None = None
        self.allocator: Callable[[int], MemoryPointer] | None = None
        self.raising = False
        """Are errors of linear algebra raised?"""
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.fails: Exception | None = None
        """The exception that every function raises; None if they compute."""
        stream = type("Stream", (Stream,), {"module": self})
        if old:
            del Stream.from_external  # put back by `installed`
        self.cuda = ModuleType("cupy.cuda")
        vars(self.cuda).update(Device=self._device, Stream=stream, using_allocator=self._using,
                               ExternalStream=type("E", (ExternalStream,), {"module": self}),
                               MemoryPointer=MemoryPointer, UnownedMemory=UnownedMemory)
        self.linalg, self.fft = ModuleType("cupy.linalg"), ModuleType("cupy.fft")
        for name in ("matmul", "sort", "argsort"):
            setattr(self, name, self._function(name, getattr(np, name)))
        for name in ("solve", "inv"):
            setattr(self.linalg, name, self._function(f"linalg.{name}", getattr(np.linalg, name)))
        for name in np.fft.__all__:
            setattr(self.fft, name, self._function(f"fft.{name}", getattr(np.fft, name)))

    @contextmanager
    def _device(self, number: int) -> Iterator[None]:
        assert number == 0
        yield

    @contextmanager
    def _using(self, allocator: Callable[[int], MemoryPointer]) -> Iterator[None]:
        self.allocator = allocator
        yield
        self.allocator = None

    @contextmanager
    def errstate(self, linalg: str) -> Iterator[None]:
        self.raising = linalg == "raise"
        yield
        self.raising = False

    def asarray(self, x: Any) -> Array:
        """Neither copy nor wait, since the interface names no stream."""
        described = x.__cuda_array_interface__
        assert described.get("stream") is None and self.stream == self.gpu.stream
        memory = UnownedMemory(described["data"][0], 0, x)
        return Array(self, MemoryPointer(memory, 0), described["shape"], described["typestr"],
                     described["strides"])

    def ascontiguousarray(self, x: Array) -> Array:
        return x if x.values().flags.c_contiguous else self._made(np.ascontiguousarray(x.values()))

    def _made(self, values: Any) -> Array:
        assert self.allocator is not None and self.stream == self.gpu.stream
        pointer = self.allocator(values.nbytes)
        order = "F" if values.flags.f_contiguous and not values.flags.c_contiguous else "C"
        if values.nbytes:
            self.gpu.heap.write(pointer.ptr, values.tobytes(order))
        return Array(self, pointer, values.shape, values.dtype, np.empty_like(values).strides)

    def _function(self, name: str, function: Callable[..., Any]) -> Callable[..., Array]:
        def run(*arrays: Array, **options: Any) -> Array:
            assert all(type(x) is Array for x in arrays)
            self.calls.append((name, options))
            if self.fails is not None:
                raise self.fails
            if "sort" in name and not all(x.values().flags.c_contiguous for x in arrays):
                raise NotImplementedError("Sorting non-contiguous array is not supported.")
            if name.startswith("linalg"):
                assert self.raising
            if "sort" in name:
                options = {**options, "kind": "stable"}  # the only one
            found = function(*[x.values() for x in arrays], **options)
            if name == "linalg.solve":
                found = np.asfortranarray(found)  # as cuSOLVER leaves it
            return self._made(found)

        return run


@contextmanager
def installed(gpu: Interpreted, old: bool = False) -> Iterator[StandIn]:
    """Install the stand-in as CuPy; as a version before 14 if it is to be `old`."""
    from diffuse.numpy.bridge import gpu_library

    external = vars(Stream)["from_external"]
    made, cupyx = StandIn(gpu, old), ModuleType("cupyx")
    vars(cupyx)["errstate"] = made.errstate
    gpu_library.found.cache_clear()
    sys.modules["cupy"], sys.modules["cupyx"] = made, cupyx
    try:
        yield made
    finally:
        del sys.modules["cupy"], sys.modules["cupyx"]
        setattr(Stream, "from_external", external)
        gpu_library.found.cache_clear()

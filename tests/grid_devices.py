"""What runs the launches of runtime/legate/native/grid.h for tests: its driver, two devices without a
GPU, and a GPU."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from diffuse.kernels.build import codegen, ptx
from diffuse.kernels.grid import emit, schedule
from diffuse.kernels.targets.simt import simt
from diffuse.runtime.device.driver import LIBRARY, Driver
from diffuse.runtime.legate import copying, libraries
from diffuse.runtime.legate.gpus import Gpus
from tests.bodies import Array, Case
from tests.legate_grid import launcher
from tests.ptx_machine import Machine, Memory
from tests.simt import compiled

STREAM = 77
LAUNCHER = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, *[ctypes.c_uint] * 7, *[ctypes.c_void_p] * 3)
ALLOCATOR = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int64)


class Place(ctypes.Structure):
    """Of message.h."""

    _fields_ = [("pointer", ctypes.c_int64), ("dims", ctypes.c_int64), ("item", ctypes.c_int64),
                *[(name, ctypes.c_int64 * 8) for name in ("low", "high", "stride", "extent")],
                ("empty", ctypes.c_bool), ("output", ctypes.c_bool)]


class Given(ctypes.Structure):
    """Of grid_driver.cc."""

    _fields_ = [(name, ctypes.c_int64) for name in ("kind", "index", "empty", "pointer")] + [
        (name, ctypes.c_int64 * 8) for name in ("low", "high", "stride")]


@cache
def driver() -> ctypes.CDLL:
    """The library of grid_driver.cc."""
    headers = sorted(libraries.SOURCES.glob("*.h"))
    content = "".join(header.read_text() for header in headers)
    source = Path(__file__).with_name("grid_driver.cc")
    library = ctypes.CDLL(str(libraries.Library(source, libraries.CXX, release=content).build()))
    library.drive.restype = ctypes.c_int64
    library.drive.argtypes = [ctypes.c_char_p, ctypes.c_int64, ctypes.c_void_p, ALLOCATOR, ctypes.c_void_p,
                              *[ctypes.c_int64] * 3]
    library.copy_box.restype = ctypes.c_int64
    library.copy_box.argtypes = [*[ctypes.c_void_p] * 5, ctypes.c_int64]
    return library


class OnHost:
    """The kernels as code of this process."""

    stream = STREAM
    kept: Any = None
    functions: Mapping[str, int] = {}

    def __init__(self, case: Case | None = None) -> None:
        self.library = launcher()
        self.launcher = ctypes.cast(self.library.launch, ctypes.c_void_p).value or 0
        if case is not None:
            self.kept = compiled(emit.for_host(case.body, simt(tiles=True)), schedule.names(case.body))
            self.functions = self.kept.addresses
        self.copies = tuple(_copies_on_host().addresses[name] for name in copying.NAMES)
        self.held: list[Array] = []

    def allocate(self, nbytes: int) -> int:
        self.held.append(np.full(max(nbytes, 1), 0xAB, "u1"))
        return int(self.held[-1].ctypes.data)

    def write(self, address: int, data: bytes) -> None:
        ctypes.memmove(address, data, len(data))

    def read(self, address: int, nbytes: int) -> bytes:
        return ctypes.string_at(address, nbytes)


@cache
def _copies_on_host() -> Any:
    return compiled(copying.for_host(), copying.NAMES)


@cache
def _copies_in_ptx() -> Machine:
    return Machine(ptx.compile(copying.for_gpu(), "sm_80"))


class InPtx:
    """The kernels as PTX, interpreted."""

    stream = STREAM
    kept: Any = None

    def __init__(self, case: Case | None = None) -> None:
        names = []
        if case is not None:
            machine = Machine(codegen.grid_code(case.body, "sm_80 tiles").decode())
            names = [(machine, name) for name in schedule.names(case.body)]
        self.kernels = [(_copies_in_ptx(), name) for name in copying.NAMES] + names
        self.copies = tuple(range(1, 4))
        self.functions = {name: k + 4 for k, (_, name) in enumerate(names)}
        self.memory, self.raised = Memory(), list[Exception]()
        self.allocate, self.write, self.read = self.memory.allocate, self.memory.write, self.memory.read
        self.streams: set[int] = set()
        self._entry = LAUNCHER(self.launch)
        self.launcher = ctypes.cast(self._entry, ctypes.c_void_p).value or 0

    def launch(self, function: int, groups: int, *rest: int) -> int:
        *_, stream, _, extra = rest
        self.streams.add(stream)
        kind, parameters, size_kind, size, end = (ctypes.c_uint64 * 5).from_address(extra)
        assert (kind, size_kind, end) == (1, 2, 0)
        given = ctypes.string_at(parameters, ctypes.c_uint64.from_address(size).value)
        machine, name = self.kernels[function - 1]
        try:
            machine.launch(name, groups, given, self.memory)
        except Exception as error:
            self.raised.append(error)
            return 700
        return 0


class OnGpu:
    """The kernels on a GPU, by the handles that Legate's task would be given."""

    kept: Any = None

    def __init__(self, case: Case, library: str = LIBRARY) -> None:
        self._held: list[int] = []
        self.gpu, self.gpus = _driver(library), _gpus(library)
        self.launcher, self.copies, self.stream = self.gpus.launcher, self.gpus.copying, self.gpu.stream
        text = codegen.grid_code(case.body, self.gpus.target)
        self.functions = self.gpus._kernels(text, schedule.names(case.body))

    def allocate(self, nbytes: int) -> int:
        self._held.append(self.gpu.allocate(max(nbytes, 1)))
        return self._held[-1]

    def __del__(self) -> None:
        while self._held:
            self.gpu.free(self._held.pop())

    def write(self, address: int, data: bytes) -> None:
        room = np.frombuffer(data, "u1")
        self.gpu.upload(address, room.ctypes.data, len(data))
        self.gpu.wait()

    def read(self, address: int, nbytes: int) -> bytes:
        room = np.empty(max(nbytes, 1), "u1")
        if nbytes:
            self.gpu.download(room.ctypes.data, address, nbytes)
        return room[:nbytes].tobytes()


@cache
def _driver(library: str) -> Driver:
    return Driver(library)


@cache
def _gpus(library: str) -> Gpus:
    _driver(library).enter()
    return Gpus(1, library)

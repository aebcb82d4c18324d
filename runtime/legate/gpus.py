"""The GPUs that Legate uses: what kernels are compiled for, and the driver's handles of the kernels, by which
trampoline_gpu.cc launches them.

Legate makes the driver's contexts and its streams, one for each GPU, in threads of its own.  So kernels are
loaded as the driver's libraries, which belong to no context: a handle is good in each of them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from diffuse.runtime.kernel import GridCode
from diffuse.runtime.legate import copying
from diffuse.service import code, loader

LIBRARY = "libcuda.so.1"
COMPUTE_MAJOR, COMPUTE_MINOR = 75, 76
"""Attributes of a device."""
TILES = " tiles"
"""The suffix of kernels that run one point of a launch (kernels/build/codegen.py)."""


class Devices(Protocol):
    """The devices that run grid kernels for Legate."""

    number: int
    """The number of devices on all ranks."""
    target: str
    launcher: int
    """The address of the function that launches a kernel, with the parameters of cuLaunchKernel."""
    copying: tuple[int, ...]
    """The kernels that copy boxes of elements of 8, 4 and 1 bytes."""
    memory: int
    """Bytes of memory of all devices together."""

    def functions(self, grid: GridCode) -> Mapping[str, int]:
        """The kernels of a body by name."""
        ...


def find(core: Any) -> Devices | None:
    """The GPUs of Legate's machine; None if it has none."""
    number = core.get_machine().count(core.TaskTarget.GPU)
    return Gpus(number) if number else None


class Gpus:
    """NVIDIA GPUs, accessed through the driver that Legate has loaded."""

    def __init__(self, number: int, library: str = LIBRARY) -> None:
        self._driver = ctypes.CDLL(library)
        self.number = number
        self._call("cuInit", 0)
        count = ctypes.c_int()
        self._call("cuDeviceGetCount", ctypes.byref(count))
        devices = range(max(1, count.value))
        self.target = f"sm_{min(map(self._architecture, devices))}{TILES}"  # PTX runs on later ones, too
        self.memory = number * min(map(self._memory, devices))
        self.launcher = ctypes.cast(self._driver.cuLaunchKernel, ctypes.c_void_p).value or 0
        self._loaded: list[Any] = []
        text, architecture = copying.for_gpu(), self.target.removesuffix(TILES)
        found: Any = code.fetch(code.text_key(f"{text}{architecture}"), copying.NAMES, code.PTX,
                           lambda: (text, architecture), loader.Text)
        self.copying: tuple[int, ...] = tuple(self._kernels(found.image, copying.NAMES).values())

    def functions(self, grid: GridCode) -> Mapping[str, int]:
        if grid.functions is None or grid.functions[0] is not self:
            grid.functions = self, self._kernels(grid.code.image, grid.names)
        found: Mapping[str, int] = grid.functions[1]
        return found

    def _kernels(self, text: bytes, names: Sequence[str]) -> dict[str, int]:
        """Load PTX, which the driver assembles once for each kind of GPU and keeps on disk."""
        image, library = ctypes.create_string_buffer(text), ctypes.c_void_p()
        self._call("cuLibraryLoadData", ctypes.byref(library), image, None, None, 0, None, None, 0)
        self._loaded.append((library, image))
        found = {}
        for name in names:
            kernel = ctypes.c_void_p()
            self._call("cuLibraryGetKernel", ctypes.byref(kernel), library, name.encode())
            found[name] = kernel.value or 0
        return found

    def _architecture(self, device: int) -> int:
        """The number of the architecture, such as 90 for sm_90."""
        value, found = ctypes.c_int(), 0
        for attribute in (COMPUTE_MAJOR, COMPUTE_MINOR):
            self._call("cuDeviceGetAttribute", ctypes.byref(value), attribute, device)
            found = 10 * found + value.value
        return found

    def _memory(self, device: int) -> int:
        nbytes = ctypes.c_size_t()
        self._call("cuDeviceTotalMem_v2", ctypes.byref(nbytes), device)
        return nbytes.value

    def _call(self, name: str, *arguments: Any) -> None:
        error = getattr(self._driver, name)(*arguments)
        if error:
            raise RuntimeError(f"NVIDIA's driver: {name} returned the error {error}")

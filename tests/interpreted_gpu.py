"""A GPU for tests: the CUDA runtime's driver, whose kernels are the PTX that LLVM wrote, interpreted."""

from __future__ import annotations

import ctypes
import struct
from typing import Any

from tests.ptx_machine import Machine, Memory

MEMORY = 256 << 20


class Interpreted:
    """A driver with the methods that `runtime.device.cuda.Gpu` calls."""

    version, device, stream = 13000, 0, 7

    def __init__(self) -> None:
        self.heap = Memory()
        self.used: dict[int, int] = {}
        """Bytes of each allocation."""
        self.machines: list[tuple[Machine, str]] = []
        """The kernels, in the order of their handles."""
        self.launched: list[str] = []
        self.uploads: list[int] = []
        self.downloads: list[int] = []
        """Bytes of each copy."""
        self.waited: list[int] = []
        """The other libraries' streams that were waited for."""
        self.waiting: list[int] = []
        """The other libraries' streams that waited for ours."""

    def name(self) -> str:
        return "an interpreter"

    def architecture(self) -> str:
        return "sm_80"

    def memory(self) -> tuple[int, int]:
        return MEMORY - sum(self.used.values()), MEMORY

    def allocate(self, nbytes: int) -> int:
        if nbytes > self.memory()[0]:
            return 0
        address = self.heap.allocate(nbytes)
        self.used[address] = nbytes
        return address

    def free(self, address: int) -> None:
        del self.used[address]
        self.heap.free(address)

    def trim(self) -> None:
        pass

    def upload(self, target: int, source: int, nbytes: int) -> None:
        self.uploads.append(nbytes)
        self.heap.write(target, ctypes.string_at(source, nbytes))

    def download(self, target: int, source: int, nbytes: int) -> None:
        self.downloads.append(nbytes)
        ctypes.memmove(target, self.heap.read(source, nbytes), nbytes)

    def link(self, text: bytes) -> bytes:
        return text

    def functions(self, image: bytes, names: tuple[str, ...]) -> dict[str, int]:
        machine = Machine(image.decode())
        found = {}
        for name in names:
            found[name] = len(self.machines)
            self.machines.append((machine, name))
        return found

    def plan(self, steps: Any, nbytes: int) -> Any:
        return [*steps], nbytes

    def submit(self, plan: Any, block: bytes) -> None:
        steps, nbytes = plan
        assert len(block) == nbytes
        for function, groups, argument in steps:
            machine, name = self.machines[function]
            self.launched.append(name)
            machine.launch(name, groups, block + struct.pack("<q", argument), self.heap)

    def wait(self) -> None:
        pass

    def wait_for(self, stream: int) -> None:
        self.waited.append(stream)

    def ahead_of(self, stream: int) -> None:
        self.waiting.append(stream)


def runtime() -> Any:
    from diffuse.runtime.device.cuda import Cuda

    return Cuda(gpu=Interpreted())

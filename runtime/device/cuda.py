"""The CUDA runtime: grid kernels on one NVIDIA GPU, asynchronously, in one stream.

All memory, copies and launches are ordered by the stream.  So a block of memory that is freed while launches
on it are queued may be allocated again at once, and only reading a result waits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

from diffuse.interrupts import deferred
from diffuse.ir import Store
from diffuse.memory import address
from diffuse.runtime.base import Launch
from diffuse.runtime.device.instances import DeviceInstance
from diffuse.runtime.device.renaming import Renamed, renamed
from diffuse.runtime.device.runtime import Device
from diffuse.runtime.device.sharing import LEGACY, DeviceSharing
from diffuse.runtime.kernel import GridCode, Steps
from diffuse.runtime.local.allocator import Allocator, Lease, Usage, size_class
from diffuse.service import code as service

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

KEPT = 1 << 30
"""The most bytes of the device's memory that are cached, besides a quarter of what is in use."""


LITTLE = 1 << 20
"""The most bytes of a store whose memory is kept for the next store of the same size."""
SIZES, OF_A_SIZE = 16, 8
"""The number of such sizes, and the number of blocks kept of each."""


class Gpu(Protocol):
    """The driver of a device (driver.py)."""

    version: int
    device: int
    stream: int

    def name(self) -> str: ...
    def architecture(self) -> str: ...
    def memory(self) -> tuple[int, int]: ...
    def allocate(self, nbytes: int) -> int: ...
    def free(self, address: int) -> None: ...
    def trim(self) -> None: ...
    def upload(self, target: int, source: int, nbytes: int) -> None: ...
    def download(self, target: int, source: int, nbytes: int) -> None: ...
    def link(self, text: bytes) -> bytes: ...
    def functions(self, image: bytes, names: tuple[str, ...]) -> dict[str, int]: ...
    def plan(self, steps: Sequence[tuple[int, int, int]], nbytes: int) -> Any: ...
    def submit(self, plan: Any, block: bytes) -> None: ...
    def wait(self) -> None: ...
    def wait_for(self, stream: int) -> None: ...
    def ahead_of(self, stream: int) -> None: ...


class DeviceMemory:
    """The device's memory, as the allocator sees it."""

    lazy = False

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu

    def available(self) -> int:
        return self._gpu.memory()[0]

    def take(self, size: int) -> int:
        return self._gpu.allocate(size)

    def giving(self, address: int, size: int) -> tuple[Callable[..., Any], tuple[int, ...]]:
        return self._gpu.free, (address,)


class Cuda(Device):
    """Launches on one GPU."""

    name = "cuda"

    def __init__(self, points: int | None = None, gpu: Gpu | None = None) -> None:
        super().__init__()
        if gpu is None:
            from diffuse.runtime.device.driver import Driver

            gpu = Driver()
        self.gpu = gpu
        self.target = gpu.architecture()
        self._total = gpu.memory()[1]
        self._spare: dict[int, list[Lease]] = {}
        """DeviceMemory of freed small stores, by size: a replayed window reuses it faster than the allocator
        could."""
        self._allocator = Allocator(kept=KEPT, system=DeviceMemory(gpu))
        self.sharing: DeviceSharing = DeviceSharing(self._total, self.to_device, gpu, self.allocate)
        self._returned = self.sharing.ended

    def create(self, nbytes: int, store: Store | None = None) -> DeviceInstance:
        try:
            made = DeviceInstance(nbytes, self._spare[nbytes].pop())
        except (KeyError, IndexError):
            return super().create(nbytes, store)
        made.fresh = True
        return made

    def release(self, instance: Any) -> None:
        if instance.nbytes > LITTLE or instance.shared or type(instance.lease) is not Lease:
            super().release(instance)
            return
        lease, instance.lease, instance.memory = instance.lease, None, None
        spare = self._spare.get(instance.nbytes)
        if spare is None:
            if len(self._spare) >= SIZES:
                self._spare.pop(next(iter(self._spare)), None)
            self._spare[instance.nbytes] = [lease]
        elif len(spare) < OF_A_SIZE:
            spare.append(lease)

    def allocate(self, nbytes: int) -> Lease:
        if nbytes > self._total:
            raise MemoryError(f"{nbytes} bytes requested, and {self.gpu.name()} has {self._total}: use "
                              "smaller arrays, or DIFFUSE_RUNTIME=local")
        try:
            return Lease(self._allocator, nbytes)
        except MemoryError:
            if not self._spare:
                raise
        self._spare.clear()
        return Lease(self._allocator, nbytes)

    def to_device(self, target: int, source: NDArray[np.uint8]) -> None:
        if self._returned:
            self.sharing.reclaim()
        self.gpu.upload(target, address(source), source.nbytes)

    def to_host(self, target: NDArray[np.uint8], source: int) -> None:
        self.gpu.download(address(target), source, target.nbytes)

    def submit(self, code: GridCode, launch: Launch) -> None:
        if code.movable and (found := renamed(code, launch, self.allocate)) is not None:
            deferred(partial(self._submit_renamed, code, launch, found))
            return
        values = launch.values
        steps, gpu, block = code.steps(values), self.gpu, launch.kernel.pack(values)
        planned = steps.plan
        if planned is None or planned[0] is not gpu:  # a runtime that was made later has plans of its own
            planned = self._planned(code, steps, len(block))
        if self._returned:
            self.sharing.reclaim()
        self._begun += 1  # as in `_turn`, without a call
        gpu.submit(planned[1], block)
        self._ended = self._begun

    def _planned(self, code: GridCode, steps: Steps, nbytes: int) -> tuple[Gpu, Any]:
        """Prepare launches, with a block of so many bytes."""
        gpu = self.gpu
        if code.functions is None or code.functions[0] is not gpu:
            code.functions = gpu, self._loaded(code)
        functions = code.functions[1]
        found = steps.plan = gpu, gpu.plan([(functions[kernel], groups, argument)
                                            for kernel, groups, argument in steps], nbytes)
        return found

    def _submit_renamed(self, code: GridCode, launch: Launch, found: Renamed) -> None:
        """Submit a launch with fewer copies."""
        if self._returned:
            self.sharing.reclaim()

        def run() -> None:
            for steps, values in found.runs:
                block, planned = launch.kernel.pack(values), steps.plan
                if planned is None or planned[0] is not self.gpu:
                    planned = self._planned(code, steps, len(block))
                self.gpu.submit(planned[1], block)
            found.finish()

        self._turn(run)

    def _loaded(self, code: GridCode) -> dict[str, int]:
        """Load the kernels of a body: machine code that was linked before, or PTX that is linked now."""
        from hashlib import sha256

        from diffuse.runtime.device import linking

        cache = service.disk()
        texts = dict([(sha256(text + f"{self.gpu.version} {self.target}".encode()).hexdigest(), text)
                      for text in linking.parts(code.code.image)])
        images = {key: cache.get(key) for key in texts}
        missing = [key for key, image in images.items() if image is None]
        for key, image in zip(missing, linking.linked([texts[key] for key in missing], self.gpu.link),
                              strict=True):
            images[key] = image
            cache.put(key, image)
        found: dict[str, int] = {}
        for key, text in texts.items():
            found |= self.gpu.functions(cast(bytes, images[key]), linking.names(text))
        return found

    def meet(self) -> None:
        self.gpu.wait_for(LEGACY)

    def fence(self) -> None:
        self.gpu.wait()

    def usage(self) -> Usage:
        """Bytes of the device's memory: in use, the peak, cached."""
        found = self._allocator.usage()
        spare = sum([size_class(nbytes) * len(leases) for nbytes, leases in [*self._spare.items()]])
        return Usage(found.in_use - spare, found.peak, found.cached + spare)

    def trim(self) -> int:
        """Return cached memory to the device; returns the bytes freed."""
        self._spare.clear()
        freed = self._allocator.trim()
        self.gpu.trim()
        return freed

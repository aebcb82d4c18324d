"""The common part of runtimes of devices with their own memory: copies to and from the host, and host
execution.

A launch whose kernel has no grid kernels runs on the host, over the host's copies of its stores: its operands
are copied from the device, its results go back with the next launch that needs them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Sequence
from ctypes import CFUNCTYPE, c_char_p, c_int64
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from diffuse.interrupts import deferred
from diffuse.ir import Store
from diffuse.memory import address
from diffuse.observe import trace
from diffuse.runtime.base import CodeUse, Fate, Instance, Launch, Layout
from diffuse.runtime.device.instances import DeviceInstance
from diffuse.runtime.device.sharing import DeviceSharing
from diffuse.runtime.kernel import GridCode, MachineCode
from diffuse.runtime.reference import attached
from diffuse.runtime.together import OneRank

if TYPE_CHECKING:
    from numpy.typing import NDArray


ALONE = 1 << 16
"""The size of a copy that takes as long as a copy's fixed overhead, which the host waits for."""


class Device(OneRank, ABC):
    """Launches on one device, in order."""

    name: str
    target: str
    points = 1
    addressed = True
    completes = False
    host_sees = False
    pipelines = False
    code = CodeUse.NEEDED
    blocks = 0
    splits = False
    sharing: DeviceSharing | None = None

    def __init__(self) -> None:
        self._flags = 0
        self._begun = self._ended = 0
        """The numbers of launches and host functions begun and ended, which tell what an interrupt left of
        the last one (`fate`)."""
        self._owed: list[DeviceInstance] = []
        """Shared instances whose copies a host function may write to."""

    @abstractmethod
    def allocate(self, nbytes: int) -> Any:
        """Allocate memory of the device: an object with its `address`, which owns it.  MemoryError if there
        is not enough."""

    @abstractmethod
    def to_device(self, target: int, source: NDArray[np.uint8]) -> None:
        """Copy bytes to an address of the device, after everything submitted so far."""

    @abstractmethod
    def to_host(self, target: NDArray[np.uint8], source: int) -> None:
        """Copy bytes from an address of the device, after everything submitted so far, and wait."""

    @abstractmethod
    def submit(self, code: GridCode, launch: Launch) -> None:
        """Submit all grid kernels of a launch, as one step (`_turn`)."""

    def meet(self) -> None:
        """Order what is submitted next after what other libraries submitted to their default stream."""

    @abstractmethod
    def fence(self) -> None:
        """Wait until everything submitted has ended."""

    # -- memory --------------------------------------------------------------------------------------------

    def passes(self, layout: Layout) -> bool:
        return False

    def scratch(self, nbytes: int) -> DeviceInstance:
        return self.create(nbytes)

    def create(self, nbytes: int, store: Store | None = None) -> DeviceInstance:
        made = DeviceInstance(nbytes, self.allocate(nbytes))
        made.fresh = True  # there is nothing to copy
        return made

    def zeroed(self, nbytes: int, store: Store | None = None) -> DeviceInstance | None:
        return None

    def attach(self, array: NDArray[Any], store: Store | None = None) -> DeviceInstance:
        memory = attached(array)
        return DeviceInstance(memory.nbytes, self.allocate(memory.nbytes), memory)

    def release(self, instance: Instance) -> None:
        if isinstance(instance, DeviceInstance):
            instance.lease = instance.memory = None

    def host(self, instance: Instance, write: bool) -> NDArray[np.uint8]:
        if not isinstance(instance, DeviceInstance):
            raise TypeError(f"{instance!r} is no instance of this runtime")
        if instance.memory is None:
            instance.memory = np.empty(instance.nbytes, np.uint8)
        if (instance.shared or not instance.fresh) and instance.nbytes:
            trace.copied("downloads", instance.nbytes)
            if instance.shared:
                self.meet()
            self.to_host(instance.memory, instance.address)
        instance.fresh = True
        if not instance.shared:  # else what the host writes is copied back at once
            instance.home |= write
        elif write:
            self._owed.append(instance)
        return instance.memory

    def known(self, instance: Any) -> NDArray[np.uint8] | None:
        return instance.memory if instance.fresh and not instance.shared else None

    def piece(self, instance: Any, offset: int, nbytes: int) -> NDArray[np.uint8]:
        if not instance.shared:
            instance.copied += nbytes + ALONE
            if instance.fresh or instance.copied >= instance.nbytes:
                return self.host(instance, False)[offset:offset + nbytes]
        found = np.empty(nbytes, np.uint8)
        trace.copied("downloads", nbytes)
        if instance.shared:
            self.meet()
        self.to_host(found, instance.address + offset)
        return found

    # -- launches ------------------------------------------------------------------------------------------

    def launch(self, launch: Launch) -> None:
        kernel, values, _, keep, _, _, _, watched, _ = launch
        code: Any = kernel.native
        if not hasattr(code, "steps"):
            self._on_host(launch, keep)
            return
        for instance in keep:
            if instance.home and instance.nbytes:
                trace.copied("uploads", instance.nbytes)
                self.to_device(instance.address, cast(Any, instance.memory))
                instance.home = instance in watched
            if instance.shared:
                self.meet()
        for word in code.written:
            place = values[word]
            for instance in keep:
                if instance.address <= place < instance.address + instance.nbytes:
                    instance.home = instance.fresh = False
                    instance.copied = 0
                    break
        self.submit(code, launch)

    def _on_host(self, launch: Launch, keep: Sequence[DeviceInstance]) -> None:
        """Run a launch that has no grid kernels on the host, over copies of its instances."""
        kernel: Any = launch.kernel
        trace.counters["on the host"] += 1
        before = trace.counters[trace.BYTES["downloads"]]
        used = sorted(keep, key=lambda x: x.address)
        values = list(launch.values)
        for word in kernel.address_words:
            instance = holder(used, values[word])
            if instance is not None:
                values[word] += address(self.host(instance, True)) - instance.address
        trace.hosted("a fused task", before)
        self.call(lambda: self._by_points(launch, tuple(values)))

    def _by_points(self, launch: Launch, values: tuple[Any, ...]) -> None:
        kernel: Any = launch.kernel
        native: MachineCode | None = kernel.native
        if native is not None:
            block = kernel.pack(values)
            for p in range(launch.points):
                CFUNCTYPE(None, c_char_p, c_int64)(native.address)(block, p)
            if launch.points > 1 and native.finish:
                CFUNCTYPE(None, c_char_p)(native.finish)(block)
            return
        with np.errstate(all="call", call=self._note):
            for p in range(launch.points):
                kernel.point(values, p)
            kernel.finish(values)

    def _note(self, kind: str, flag: int) -> None:
        self._flags |= flag

    def _turn(self, work: Callable[[], None]) -> None:
        """Run a step that must not be repeated after an interrupt, and note whether it completed."""
        self._begun += 1
        work()
        self._ended = self._begun

    def call(self, function: Callable[[], None]) -> None:
        try:
            deferred(lambda: self._turn(function))
        finally:
            self._pay()

    def _pay(self) -> None:
        """Copy what the host wrote to copies of shared instances to the device."""
        while self._owed:
            assert self.sharing is not None  # which shared them
            self.sharing.write_back(self._owed.pop())

    def flags(self) -> int:
        """The floating-point exceptions of launches that the host interpreted; devices report none."""
        seen, self._flags = self._flags, 0
        return seen

    def mark(self) -> int:
        return self._begun

    def fate(self, mark: int) -> Fate:
        if self._begun == mark:
            return Fate.PENDING
        return Fate.DONE if self._ended == self._begun else Fate.LOST


def holder(used: Sequence[DeviceInstance], place: int) -> DeviceInstance | None:
    """The instance that contains an address, among instances sorted by address; else None."""
    at = bisect_right(used, place, key=lambda x: x.address) - 1
    return used[at] if at >= 0 and place - used[at].address < max(used[at].nbytes, 1) else None


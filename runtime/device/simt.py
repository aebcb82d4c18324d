"""The simulated device: grid kernels run on the host, thread by thread, over memory that the host program
cannot touch.

It shows without a GPU that kernels, copies and the bookkeeping of who has the valid data are right.  The
order of threads varies from launch to launch, so a result that depends on it reveals a data race.  Device
addresses are invalid on the host, so using one there faults.
"""

from __future__ import annotations

from ctypes import CFUNCTYPE, addressof, c_int64, c_void_p, create_string_buffer, memmove
from typing import TYPE_CHECKING, Any

from diffuse.interrupts import deferred
from diffuse.memory import address
from diffuse.runtime.base import Launch
from diffuse.runtime.device.renaming import renamed
from diffuse.runtime.device.runtime import Device
from diffuse.runtime.kernel import GridCode, Steps
from diffuse.runtime.local.allocator import Allocator, Lease, Usage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

AWAY = 1 << 56
"""The offset of device addresses from host addresses, which makes them invalid in every process."""
ORDERS = 3
"""The number of thread orders (kernels/grid/emit.py)."""

ENTRY = CFUNCTYPE(None, c_void_p, c_int64, c_int64, c_int64)


class Hidden:
    """Device memory, freed by its owner."""

    __slots__ = ("_lease",)

    def __init__(self, lease: Lease) -> None:
        self._lease = lease

    @property
    def address(self) -> int:
        return self._lease.address + AWAY


class Simt(Device):
    """Runs one launch after another; each has ended when `launch` returns."""

    name = target = "simt"

    def __init__(self, points: int | None = None) -> None:
        super().__init__()
        self._allocator = Allocator()
        self._launched = 0

    def allocate(self, nbytes: int) -> Hidden:
        return Hidden(Lease(self._allocator, nbytes))

    def to_device(self, target: int, source: NDArray[np.uint8]) -> None:
        memmove(target - AWAY, address(source), source.nbytes)

    def to_host(self, target: NDArray[np.uint8], source: int) -> None:
        memmove(address(target), source - AWAY, target.nbytes)

    def submit(self, code: GridCode, launch: Launch) -> None:
        found = renamed(code, launch, self.allocate) if code.movable else None
        runs = [(code.steps(launch.values), launch.values)] if found is None else found.runs

        def run() -> None:
            for steps, values in runs:
                self._run(code, steps, launch.kernel, list(values))
            if found is not None:
                found.finish()

        deferred(lambda: self._turn(run))

    def _run(self, code: GridCode, steps: Steps, kernel: Any, values: list[Any]) -> None:
        """Run kernels with these values of their block."""
        for word in kernel.address_words:
            values[word] -= AWAY if values[word] >= AWAY else 0
        block = create_string_buffer(kernel.pack(tuple(values)))
        for name, groups, argument in steps:
            self._launched += 1
            entry = ENTRY(code.code.addresses[name])
            entry(addressof(block), groups, argument, self._launched % ORDERS)

    def fence(self) -> None:
        """Return at once: nothing is ever pending."""

    def usage(self) -> Usage:
        """Bytes of the device's memory: in use, the peak, cached."""
        return self._allocator.usage()

    def trim(self) -> int:
        """Return cached memory to the system; returns the bytes freed."""
        return self._allocator.trim()

"""Shares a device's memory with other libraries of the same process: CuPy, torch, Numba.

Diffuse is not told when another library writes shared memory.  So the data of a *shared* instance is always
on the device: the host's copy is fetched anew for each read, and what the host writes is copied back at once.
The other library has streams of its own, so everything that was submitted has ended before it gets to run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from diffuse.ir import Store
from diffuse.ir.view import View
from diffuse.runtime.device.instances import DeviceInstance

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

INTERFACE = "__cuda_array_interface__"


class Theirs(NamedTuple):
    """Memory of another library's, which `owner` keeps alive."""

    address: int
    nbytes: int
    owner: Any


class DeviceExchange:
    """Shares the memory of one device (see `base.Exchange`)."""

    attribute = INTERFACE
    fenced = True
    dimensions = 64

    def __init__(self, total: int, upload: Callable[[int, NDArray[np.uint8]], None],
                 wait_for: Callable[[int], None]) -> None:
        self.room = total
        self._upload = upload
        self.wait_for = wait_for
        """Waits until everything in a stream of another library has ended."""

    def memory(self, address: int, nbytes: int, owner: Any) -> Theirs:
        """What another library shows, for `adopt`."""
        return Theirs(address, nbytes, owner)

    def shows(self, thing: Any) -> bool:
        return getattr(thing, INTERFACE, None) is not None

    def share(self, instance: DeviceInstance) -> DeviceInstance:
        if instance.home and instance.nbytes:
            self.write_back(instance)
        instance.shared = True
        instance.home = instance.fresh = False
        return instance

    def unshare(self, instance: DeviceInstance) -> None:
        instance.shared = instance.fresh = False

    def adopt(self, store: Theirs, dtype: str) -> DeviceInstance:
        instance = DeviceInstance(store.nbytes, store)
        instance.shared = True
        return instance

    def holds(self, instance: Any, store: Theirs) -> bool:
        return (isinstance(instance, DeviceInstance) and instance.address == store.address
                and instance.nbytes == store.nbytes)

    def write_back(self, instance: DeviceInstance) -> None:
        if instance.memory is not None and instance.nbytes:
            self._upload(instance.address, instance.memory)

    def overlap(self, one: DeviceInstance, other: DeviceInstance) -> bool:
        return (one.address < other.address + other.nbytes and other.address < one.address + one.nbytes)

    def nameable(self, view: View, store: Store) -> bool:
        """Can strides express a view?  They can always."""
        return True

    def part(self, store: DeviceInstance, view: View) -> Any:
        """The address of a view's first element, its shape, its strides and its element type."""
        return store.address + view.offset, view.shape, view.strides, view.dtype

    def name(self, store: Any) -> str | None:
        return f"{store.address} {store.nbytes}"

    def value(self, store: Any) -> NDArray[Any]:
        raise TypeError(f"{store!r} has memory of its own")

    def type_name(self, store: Any) -> str | None:
        return None

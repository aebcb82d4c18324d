"""Shares a device's memory with other libraries of the same process: CuPy, torch, Numba.

Diffuse is not told when another library writes shared memory.  So the data of a *shared* instance is always
on the device: the host's copy is fetched anew for each read, and what the host writes is copied back at once.
The other library has its own streams.  So everything submitted has ended before it runs, or its stream waits
for that; and launches on shared instances are ordered after the default stream of other libraries.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from diffuse.ir import Store
from diffuse.ir.view import View
from diffuse.observe import trace
from diffuse.runtime.device.instances import FOR_GOOD, DeviceInstance

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

INTERFACE = "__cuda_array_interface__"
LEGACY = 1
"""The handle of the default stream, which libraries use unless told otherwise."""


class Streams(Protocol):
    """The device's streams by their handles: ours and those of other libraries."""

    device: int
    """The number of the device."""
    stream: int
    """Our stream."""

    def wait_for(self, stream: int) -> None:
        """Make our stream wait for what is in another one now."""
        ...

    def ahead_of(self, stream: int) -> None:
        """Make another stream wait for what is in ours now."""
        ...


class Theirs(NamedTuple):
    """Memory of another library, kept alive by `owner`."""

    address: int
    nbytes: int
    owner: Any


class DeviceSharing:
    """Shares the memory of one device (see `runtime.sharing`)."""

    attribute = INTERFACE
    fenced = True
    dimensions = 64

    def __init__(self, total: int, upload: Callable[[int, NDArray[np.uint8]], None], streams: Streams,
                 allocate: Callable[[int], Any]) -> None:
        self.room = total
        self.allocate = allocate
        """Allocates memory of the device, for other libraries that work in our stream: an object with its
        `address`, which owns it."""
        self._upload = upload
        self.device, self.stream = streams.device, streams.stream
        self.wait_for, self.ahead_of = streams.wait_for, streams.ahead_of
        self.ended: deque[DeviceInstance] = deque()
        """Instances whose loans have ended.  The borrower's last work may still be in the default stream, so
        `reclaim`, which waits for it, precedes any submission: the memory may belong to another store by
        then."""

    def memory(self, address: int, nbytes: int, owner: Any) -> Theirs:
        """The memory that an object of another library exposes, for `adopt`."""
        return Theirs(address, nbytes, owner)

    def shows(self, thing: Any) -> bool:
        return getattr(thing, INTERFACE, None) is not None

    def share(self, instance: DeviceInstance) -> DeviceInstance:
        self._share(instance)
        instance.loans = FOR_GOOD
        return instance

    def _share(self, instance: DeviceInstance) -> None:
        if instance.home and instance.nbytes:
            self.write_back(instance)
        instance.shared = True
        instance.home = instance.fresh = False

    def settled(self, instance: DeviceInstance, watched: bool) -> None:
        """Bring an instance's data to the device, in the stream's order, for reading.  If outside code sees
        the host's copy (`watched`), that copy stays valid."""
        if instance.shared:
            self.wait_for(LEGACY)
        elif instance.home and instance.nbytes:
            trace.copied("uploads", instance.nbytes)
            self.write_back(instance)
            instance.home = watched

    def lend(self, instance: DeviceInstance) -> Callable[[], None]:
        """Share an instance until the returned function is called, which may be in any thread and takes
        effect once."""
        self.reclaim()
        if not instance.shared or instance.loans != FOR_GOOD:
            instance.loans += 1
        self._share(instance)
        return partial(self.ended.append, instance)

    def reclaim(self) -> None:
        if self.ended:
            self.wait_for(LEGACY)
        while self.ended:
            instance = self.ended.popleft()
            if instance.loans != FOR_GOOD:
                instance.loans -= 1
                if not instance.loans:
                    self.unshare(instance)

    def unshare(self, instance: DeviceInstance) -> None:
        instance.shared = instance.fresh = False
        instance.loans = 0

    def adopt(self, store: Theirs, dtype: str) -> DeviceInstance:
        instance = DeviceInstance(store.nbytes, store)
        instance.shared, instance.loans = True, FOR_GOOD
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
        """Can strides express the view?  Always."""
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

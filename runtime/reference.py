"""The reference runtime: interprets point tasks one after another; a launch has ended when `launch` returns.

With a `seed` the points of each launch run in a shuffled order, reproducible by the seed: a result that
depends on the order is a data race on a parallel runtime.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from diffuse.ir import Store
from diffuse.memory import address
from diffuse.runtime import machine
from diffuse.runtime.base import CodeUse, Fate, Instance, Launch, Layout
from diffuse.runtime.together import OneRank

if TYPE_CHECKING:
    from numpy.typing import NDArray


class HostInstance:
    """The memory of one store as a NumPy array of bytes, owned or borrowed."""

    __slots__ = ("address", "array", "nbytes")

    private = False
    """Memory is never reused for another store."""
    shared = scattered = False

    def __init__(self, array: NDArray[np.uint8]) -> None:
        self.array = array
        self.address: int = address(array)
        self.nbytes = array.nbytes


def attached(array: NDArray[Any]) -> NDArray[np.uint8]:
    """View a C-contiguous array as bytes."""
    if not array.flags.c_contiguous or array.dtype.hasobject or not array.dtype.isnative:
        raise ValueError(f"cannot attach an array of shape {array.shape}, strides {array.strides} and dtype "
                         f"{array.dtype}: it must be C-contiguous and hold no objects or swapped bytes; "
                         "pass np.ascontiguousarray(it, it.dtype.newbyteorder('='))")
    return array.reshape(-1).view(np.uint8)


class Reference(OneRank):
    """Launches on the calling thread, one point after another."""

    name = "reference"
    addressed = host_sees = completes = True
    pipelines = False
    code = CodeUse.UNUSED
    target = "host"
    blocks = 0
    splits = False
    sharing = None

    def __init__(self, points: int | None = None, seed: int | None = None) -> None:
        self.points = points or machine.threads()
        self._shuffle: Callable[[list[int]], None] | None = None
        if seed is not None:
            from random import Random

            self._shuffle = Random(seed).shuffle
        self._flags = 0

    def passes(self, layout: Layout) -> bool:
        return False

    def scratch(self, nbytes: int) -> HostInstance:
        return self.create(nbytes)

    def create(self, nbytes: int, store: Store | None = None) -> HostInstance:
        # All bits set (NaN, -1): a value read before it was written shows.
        return HostInstance(np.full(max(nbytes, 1), 0xFF, dtype=np.uint8)[:nbytes])

    def zeroed(self, nbytes: int, store: Store | None = None) -> HostInstance | None:
        return None

    def attach(self, array: NDArray[Any], store: Store | None = None) -> HostInstance:
        return HostInstance(attached(array))

    def host(self, instance: Instance, write: bool) -> NDArray[np.uint8]:
        if not isinstance(instance, HostInstance):
            raise TypeError(f"{instance!r} is no instance of this runtime")
        return instance.array

    def known(self, instance: Instance) -> NDArray[np.uint8]:
        return self.host(instance, False)

    def piece(self, instance: Instance, offset: int, nbytes: int) -> NDArray[np.uint8]:
        return self.host(instance, False)[offset:offset + nbytes]

    def launch(self, launch: Launch) -> None:
        order = list(range(launch.points))
        if self._shuffle:
            self._shuffle(order)
        with np.errstate(all="call", call=self._note):
            for p in order:
                launch.kernel.point(launch.values, p)
            launch.kernel.finish(launch.values)

    def _note(self, kind: str, flag: int) -> None:
        self._flags |= flag

    def call(self, function: Callable[[], None]) -> None:
        function()

    def fence(self) -> None:
        """Return at once: nothing is ever pending."""

    def release(self, instance: Instance) -> None:
        """Do nothing: the array is freed with its last reference."""

    def flags(self) -> int:
        seen, self._flags = self._flags, 0
        return seen

    def mark(self) -> int:
        return 0

    def fate(self, mark: int) -> Fate:
        return Fate.LOST

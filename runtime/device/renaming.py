"""Launches whose stores move to other memory, so that some of their copies need not be made.

What may move is decided from the kernel's body and the launch's numbers (kernels/grid/renaming.py); here are
the instances that it is done with.  A store that another library holds stays where it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from diffuse.runtime.base import Launch
from diffuse.runtime.device.instances import DeviceInstance

LEAST = 32 << 20
"""The bytes of a store from which on copying it takes longer than the launches that copy only its border."""


class Renamed(NamedTuple):
    """A launch with fewer copies."""

    runs: list[tuple[Any, tuple[Any, ...]]]
    """Kernels to launch, as `GridCode.steps` has them, each with the values of the block."""
    moves: list[tuple[DeviceInstance, int, Any]]
    """Instances, each with the address and the owner of the memory that is its own afterwards."""

    def finish(self) -> None:
        """Let the instances have their new memory."""
        for instance, address, lease in self.moves:
            instance.address, instance.lease = address, lease


def renamed(code: Any, launch: Launch, allocate: Callable[[int], Any]) -> Renamed | None:
    """The launch without those of its copies that can be avoided; None if that saves nothing."""
    if all([instance.nbytes < LEAST for instance in launch.keep]):
        return None
    values = launch.values
    held = _instances(code, launch)
    if held is None:
        return None
    memory = {slot: (instance.address, instance.nbytes) for slot, instance in held.items()}
    found = code.arrangement(values, memory, launch.temporary)
    if found is None:
        return None
    try:
        fresh = [allocate(nbytes) for nbytes in found.fresh]
    except MemoryError:
        return None
    owners = {slot: (instance.address, instance.lease) for slot, instance in held.items()}
    owners |= {-1 - k: (lease.address, lease) for k, lease in enumerate(fresh)}
    runs = []
    for steps, moved, words in found.parts:
        block = list(values)
        for word, value in words:
            block[word] = value
        for word, place, offset in moved:
            block[word] = owners[place][0] + offset
        runs.append((steps, tuple(block)))
    return Renamed(runs, [(held[slot], *owners[place]) for slot, place in found.places.items()])


def _instances(code: Any, launch: Launch) -> dict[int, DeviceInstance] | None:
    """The instances of the slots that may move; None if they are small, or if one must not move."""
    values, found = launch.values, dict[int, DeviceInstance]()
    for slot, word in code.movable:
        place = values[word]
        for instance in launch.keep:
            if instance.address <= place < instance.address + instance.nbytes:
                found[slot] = instance
                break
    if (len(found) < len(code.movable) or max([x.nbytes for x in found.values()]) < LEAST
            or len({x.address for x in found.values()}) < len(found)):  # two slots of one store
        return None
    for instance in found.values():
        begin, end = instance.address, instance.address + instance.nbytes
        if instance.shared or any([begin <= values[word] < end for word in code.others]):
            return None
    return found

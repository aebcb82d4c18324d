"""Turns a `Body` into grid kernels that can be launched, from the cache or through the compile server."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from diffuse.ir import Privilege
from diffuse.kernels.body import abi
from diffuse.kernels.body.expr import Body
from diffuse.kernels.build import jit
from diffuse.kernels.grid import renaming, schedule
from diffuse.observe import trace
from diffuse.service import code, loader

MOST = 64
"""The most extents of launches whose steps are cached."""


class Steps(list[tuple[str, int, int]]):
    """A sequence of kernel launches: for each the kernel's name, its groups, and its argument."""

    plan: Any = None
    """The runtime's prepared form of the steps."""


class GridCode:
    """The grid kernels of one body."""

    def __init__(self, body: Body, found: loader.Loaded) -> None:
        self.code: Any = found
        """The loaded code: functions of this process by name, or a `loader.Text`."""
        self.names = schedule.names(body)
        self.functions: Any = None
        """The runtime's handles of the kernels."""
        self._body, self._kernels = body, schedule.kernels(body)
        begins = abi.words(body)
        self.written = tuple(begins.arguments[k] for k, argument in enumerate(body.arguments)
                             if argument.privilege is not Privilege.READ)
        """The words with the addresses of arguments that are written."""
        self._spaces = [(begin + body.launch_rank, begin + body.launch_rank + space.rank)
                        for begin, space in zip(begins.spaces, body.spaces, strict=True)]
        self._end = max([end for _, end in self._spaces], default=0)
        self._steps: dict[tuple[Any, ...], Steps] = {}
        self._parts: dict[tuple[Any, ...], tuple[Steps, Steps]] = {}
        self._copies = renaming.copies(body)
        slots = renaming.slots(body, self._copies)
        self._strides = [(k, argument.slot, begins.arguments[k],
                          begins.arguments[k] + 1 + body.spaces[argument.space].rank)
                         for k, argument in enumerate(body.arguments) if argument.slot in slots]
        self.movable = tuple([(slot, next(begin for _, other, begin, _ in self._strides if other == slot))
                              for slot in slots])
        """The slots whose stores may move to other memory, each with a word that has an address in it."""
        self.others = tuple([begins.arguments[k] for k, argument in enumerate(body.arguments)
                             if argument.slot not in slots])
        """Where the parameter block has the addresses of all other stores' arguments."""
        self._arrangements: dict[tuple[Any, ...], renaming.Arrangement | None] = {}

    def steps(self, values: tuple[Any, ...]) -> Steps:
        """The kernel launches for these values of the block."""
        key = values[:self._end]  # with domains and tiles, which are equal where extents are
        found = self._steps.get(key)
        if found is None:
            if len(self._steps) >= MOST:
                self._steps.clear()
            extents = [values[begin:end] for begin, end in self._spaces]
            launches = schedule.launches(self._body, self._kernels, extents)
            found = self._steps[key] = Steps([(kernel.name, groups, argument)
                                              for kernel, groups, argument in launches])
        return found

    def arrangement(self, values: tuple[Any, ...], memory: Mapping[int, tuple[int, int]],
                    dead: frozenset[int]) -> renaming.Arrangement | None:
        """How these values are launched with fewer copies; `memory` has the address and the bytes of each
        movable slot.  None if all copies are needed."""
        offsets = {k: values[begin] - memory[slot][0] for k, slot, begin, _ in self._strides}
        strides = {k: values[begin + 1:end] for k, _, begin, end in self._strides}
        sizes = {slot: nbytes for slot, (_, nbytes) in memory.items()}
        key = values[:self._end], *offsets.values(), *strides.values(), *sizes.values(), dead
        if key not in self._arrangements:
            if len(self._arrangements) >= MOST:
                self._arrangements.clear()
            extents = tuple([values[begin:end] for begin, end in self._spaces])
            geometry = renaming.Geometry(extents, offsets, strides, sizes, dead)
            found = renaming.arrange(self._body, self._kernels, self._copies, geometry)
            if found is not None:
                found = found._replace(parts=tuple([part._replace(launches=Steps(
                    [(kernel.name, groups, argument) for kernel, groups, argument in part.launches]))
                    for part in found.parts]))
            self._arrangements[key] = found
        return self._arrangements[key]

    def parts(self, values: tuple[Any, ...]) -> tuple[Steps, Steps]:
        """For a target with tiles: the steps of each point of a launch, and the steps that run once after all
        points.  A single point runs all of it.

        Tiles at the end may be smaller than the others: their kernels have more groups than they need.
        """
        key = values[:self._end]
        found = self._parts.get(key)
        if found is None:
            if len(self._parts) >= MOST:
                self._parts.clear()
            found = self._parts[key] = self._made_parts(values)
        return found

    def _made_parts(self, values: tuple[Any, ...]) -> tuple[Steps, Steps]:
        body, many = self._body, self._body.launch_rank
        if prod(values[:many]) == 1:
            return self.steps(values), Steps()
        whole = [values[begin:end] for begin, end in self._spaces]
        tiles = []
        for (begin, _), space, extents in zip(self._spaces, body.spaces, whole, strict=True):
            tile = list(extents)
            for axis, size in zip(space.axes, values[begin - many:begin], strict=True):
                if axis >= 0:
                    tile[axis] = min(tile[axis], size)
            tiles.append(tuple(tile))
        chosen = zip(schedule.by_points(body, self._kernels), (tiles, whole), strict=True)
        points, rest = [Steps([(kernel.name, groups, argument) for kernel, groups, argument
                               in schedule.launches(body, self._kernels, extents, kernels)])
                        for kernels, extents in chosen]
        return points, rest


class Compilation(jit.Compilation):
    """The compilation of a body's grid kernels for a target; falls back to a kernel for the processor if the
    target cannot run the body."""

    __slots__ = ("refusal", "_host", "_target")

    kind = code.GRID

    def __init__(self, body: Body, target: str) -> None:
        super().__init__(body, loader.load if target.startswith("simt") else loader.Text)
        self._target = target
        self.refusal = ""
        """The reason why the target cannot run the body."""
        self._host: jit.Compilation | None = None

    def digest(self) -> str:
        from hashlib import sha256

        return sha256(f"{jit.key_of(self._body)} {self._target}".encode()).hexdigest()

    def names(self) -> tuple[str, ...]:
        return schedule.names(self._body)

    def content(self) -> tuple[Any, ...]:
        return (*jit.request(self._body), self._target)

    def made(self, found: loader.Loaded) -> GridCode:
        return GridCode(self._body, found)

    def compile(self) -> Any:
        if self._host is None:
            try:
                return super().compile()
            except schedule.Refused as error:
                self._refuse(str(error))
        assert self._host is not None
        found = self._host.compile()
        self.asked = self._host.asked
        return found

    def look(self, seconds: float | None = 0.0) -> Any:
        if self._host is None:
            try:
                return super().look(seconds)
            except RuntimeError as error:  # of the compile server
                name, _, reason = str(error).partition(": ")
                if name != schedule.Refused.__name__:
                    raise
                self._refuse(reason)
        assert self._host is not None
        return (None if self._host.asked else self._host.compile()) or self._host.look(seconds)

    def _refuse(self, reason: str) -> None:
        """Fall back to compiling for the processor."""
        self.refusal = reason
        self._host = jit.Compilation(self._body)
        operations = sum(len(loop.ops) for loop in self._body.loops)
        trace.event("on the host", f"a kernel of {operations} operations, since {reason}")

"""Meshes of named axes, and distributed types: how an array lies on the devices of a mesh.

"Memory-efficient array redistribution through portable collective communication" (Rink et al., 2021),
figures 6 and 7.  A type prints as in the paper: `[32{x,y}512, 128]` is a matrix of 512 x 128 whose rows are
cut into tiles of 32 over the axes x (minor) and y (major), and whose columns are whole.  Along an axis that
no dimension names the array is replicated.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from math import prod

from diffuse.ir import Point
from diffuse.movement.weak import primes


@dataclass(frozen=True)
class Mesh:
    """A box of devices, whose axes have names and sizes.  Devices are numbered in row-major order: the last
    axis varies fastest."""

    axes: tuple[tuple[str, int], ...]

    @cached_property
    def sizes(self) -> dict[str, int]:
        return dict(self.axes)

    @property
    def count(self) -> int:
        """The number of devices."""
        return prod(size for _, size in self.axes)

    def coordinates(self, device: int) -> dict[str, int]:
        """Return a device's coordinate along each axis."""
        found = {}
        for name, size in reversed(self.axes):
            device, found[name] = divmod(device, size)
        return found

    def device(self, coordinates: dict[str, int]) -> int:
        """Return the device with these coordinates."""
        number = 0
        for name, size in self.axes:
            number = number * size + coordinates[name]
        return number

    def refined(self) -> tuple[Mesh, dict[str, tuple[str, ...]]]:
        """Return the mesh with every axis cut into axes of prime sizes (the paper's principle 1), devices
        numbered as before, and for each old axis its new ones, minor to major."""
        axes: list[tuple[str, int]] = []
        names = {}
        for name, size in self.axes:
            digits = [(f"{name}.{k}", p) for k, p in enumerate(primes(size))]
            axes += reversed(digits)
            names[name] = tuple(digit for digit, _ in digits)
        return Mesh(tuple(axes)), names

    def __str__(self) -> str:
        return "{" + ", ".join(f"{name}: {size}" for name, size in self.axes) + "}"


@dataclass(frozen=True, slots=True)
class Dimension:
    """One dimension of a distributed type: the tile's extent, the axes that cut it (minor to major), and the
    whole extent."""

    tile: int
    axes: tuple[str, ...]
    size: int

    def __str__(self) -> str:
        return f"{self.tile}{{{','.join(self.axes)}}}{self.size}" if self.axes else str(self.size)


@dataclass(frozen=True, slots=True)
class DistributedType:
    """The distribution of an array over a mesh: one entry per dimension."""

    dimensions: tuple[Dimension, ...]

    @property
    def shape(self) -> Point:
        """The shape of the whole array, the paper's globaltype."""
        return tuple(d.size for d in self.dimensions)

    @property
    def tile(self) -> Point:
        """The shape of one device's tile, the paper's localtype."""
        return tuple(d.tile for d in self.dimensions)

    @property
    def localsize(self) -> int:
        """The number of elements that a device holds."""
        return prod(self.tile)

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes that cut the array, in the order of its dimensions."""
        return tuple(axis for d in self.dimensions for axis in d.axes)

    def refined(self, names: dict[str, tuple[str, ...]]) -> DistributedType:
        """Return the same type over `Mesh.refined`'s axes of prime sizes."""
        return DistributedType(tuple(
            Dimension(d.tile, tuple(digit for axis in d.axes for digit in names[axis]), d.size)
            for d in self.dimensions))

    def __str__(self) -> str:
        return f"[{', '.join(map(str, self.dimensions))}]"


_DIMENSION = re.compile(r"(\d+)(?:\{([^}]*)\}(\d+))?")


def distributed(text: str) -> DistributedType:
    """Read a type from its text: `distributed("[32{x,y}512, 128]")`."""
    dimensions = []
    for tile, axes, size in _DIMENSION.findall(text):
        names = tuple(name.strip() for name in axes.split(",") if name.strip())
        dimensions.append(Dimension(int(tile), names, int(size or tile)))
    return DistributedType(tuple(dimensions))


def check(found: DistributedType, mesh: Mesh) -> None:
    """Raise ValueError unless the type is well-formed over the mesh: rules WF-DIM and WF-TYPE of figure 7."""
    for number, dimension in enumerate(found.dimensions):
        for axis in dimension.axes:
            if axis not in mesh.sizes:
                raise ValueError(f"{found}: dimension {number} names the axis {axis!r}, "
                                 f"which the mesh {mesh} does not have")
        parts = prod(mesh.sizes[axis] for axis in dimension.axes)
        if dimension.tile * parts != dimension.size:
            raise ValueError(f"{found}: dimension {number} has {parts} tiles of {dimension.tile}, "
                             f"which are not {dimension.size} elements")
    if len(set(found.axes)) != len(found.axes):
        raise ValueError(f"{found} names an axis twice")


def offset(dimension: Dimension, mesh: Mesh, coordinates: dict[str, int]) -> int:
    """Return where a device's tile begins in one dimension: D of figure 7."""
    begin, width = 0, dimension.tile
    for axis in dimension.axes:
        begin += width * coordinates[axis]
        width *= mesh.sizes[axis]
    return begin


def offsets(found: DistributedType, mesh: Mesh) -> tuple[Point, ...]:
    """Return the base offset map T of figure 7: where each device's tile begins."""
    return tuple(tuple(offset(d, mesh, coordinates) for d in found.dimensions)
                 for coordinates in map(mesh.coordinates, range(mesh.count)))

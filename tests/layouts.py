"""Layouts of launches for tests: of random views of two stores, or of given regions, whose elements are
counted one by one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from random import Random
from typing import Any

import numpy as np

from diffuse.ir import ITEMSIZE, Access, Point, Privilege, Split, Store
from diffuse.ir import view as views
from diffuse.runtime.base import LaunchArgument, Layout
from diffuse.runtime.legate.instances import normal
from diffuse.runtime.legate.requirements import Cut, Need
from tests.build import Region, access, split

READ, WRITE, BOTH, REDUCE = Privilege.READ, Privilege.WRITE, Privilege.READ_WRITE, Privilege.REDUCE


class Case:
    """A launch of some points over some views of two stores."""

    def __init__(self, seed: int) -> None:
        pick = self.pick = Random(seed)
        self.domain = tuple(pick.randint(1, 5 if k else 3) for k in range(pick.choice((1, 1, 2)), 0, -1))
        self.span = pick.randint(1, 3)
        self.spaces: list[tuple[Split, ...]] = []
        """For each argument how its iteration space is cut."""
        inner = tuple(pick.randint(1, 6) for _ in range(pick.randint(0, 3)))
        splits = self.split(inner)
        margins = [tuple((pick.randint(0, 2), pick.randint(0, 2)) for _ in inner) for _ in range(2)]
        kinds = [pick.choice((READ, WRITE, BOTH)) for _ in range(2)]
        arguments: list[LaunchArgument] = []
        for _ in range(pick.randint(1, 4)):
            slot = pick.randrange(2)
            shape = tuple(a + n + b for n, (a, b) in zip(inner, margins[slot], strict=True))
            plain = np.zeros(shape, "complex128" if slot else "int64")
            shown = "float64" if slot and shape and pick.random() < 0.3 else plain.dtype.name
            part = self.part(plain.view(shown), inner, margins[slot])
            if part is None:
                continue
            cuts = splits if part.shape == inner else self.split(part.shape)
            at = part.__array_interface__["data"][0] - plain.__array_interface__["data"][0]
            found = views.of(shape, plain.dtype.name, shown, part.itemsize, at, part.strides, part.shape)
            store = Store(slot, found.frame, found.dtype)
            privilege = kinds[slot] if pick.random() < 0.6 else READ
            seen = Access(store, found, privilege, None, found.partition(store, cuts))
            arguments.append(LaunchArgument(1 + 9 * len(arguments), slot, normal(shape, plain.dtype.name),
                                            seen, privilege))
            self.spaces.append(cuts)
        self.layout = Layout(tuple(arguments), (), "a case", self.domain)

    def split(self, shape: Point) -> tuple[Split, ...]:
        free, splits = list(range(len(shape))), []
        for points in self.domain:
            if points == 1 or not free or self.pick.random() < 0.1:
                splits.append(Split(-1, 0))
                continue
            axis = free.pop(self.pick.randrange(len(free)))
            splits.append(Split(axis, -(-shape[axis] // points) + self.pick.choice((0, 0, 0, 1))))
        return tuple(splits)

    def part(self, plain: Any, inner: Point, margins: Any) -> Any:
        """A view that a program might use: most often one shifted within the margins, else any."""
        pick = self.pick
        kind = pick.random()
        if kind < 0.6 and plain.shape[:-1] == tuple(a + n + b for n, (a, b) in zip(
                inner, margins, strict=True))[:-1]:
            d = [pick.randint(0, a + b) if pick.random() < 0.5 else a for a, b in margins]
            return plain[(*(slice(x, x + n) for x, n in zip(d, inner, strict=True)), ...)]
        if kind < 0.7:
            return plain
        if kind < 0.75:
            return plain.reshape(-1)
        if kind < 0.8:
            return plain.T
        if kind < 0.85 and plain.ndim > 1:
            return plain.diagonal()
        cuts = []
        for n in plain.shape:
            low = pick.randint(0, n)
            cuts.append(slice(low, pick.randint(low, n)) if pick.random() < 0.5
                        else slice(None, None, pick.choice((1, 2, -1, -2))))
        found = plain[(*cuts, ...)]
        return found if found.size else None

    def owner(self, k: int, index: Point) -> Point:
        """The point of ours that runs an iteration of an argument's space."""
        return tuple(index[axis] // tile if axis >= 0 else 0 for axis, tile, _ in self.spaces[k])

    def touched(self, k: int) -> Iterator[tuple[Point, Point, Point]]:
        """Each (point of ours, iteration, element of the store), computed from byte offsets alone."""
        argument = self.layout.arguments[k]
        view: Any = argument.access.map
        shape, dtype = argument.storage
        size = ITEMSIZE[dtype]
        for index in product(*map(range, view.shape)):
            byte = view.offset + sum(i * s for i, s in zip(index, view.strides, strict=True))
            element = tuple(int(i) for i in np.unravel_index(byte // size, shape))
            yield self.owner(k, index), index, element


def valid(case: Case) -> bool:
    """Is it a launch that fusion lets through: what a point writes meets no other point's elements?"""
    seen: dict[tuple[int, Point], set[Point]] = {}
    written = set()
    for k, argument in enumerate(case.layout.arguments):
        for p, _, element in case.touched(k):
            seen.setdefault((argument.slot, element), set()).add(p)
            if argument.privilege is not READ:
                written.add((argument.slot, element))
    return all(len(seen[key]) == 1 for key in written)


def legate_point(found: Cut, p: Point) -> Point:
    """Legate's point that runs a point of ours."""
    return (*p[:-1], p[-1] // found.span) if found.several else (0,)


def legate_points(found: Cut) -> list[Point]:
    return list(product(*map(range, found.spread)))


def low_of(need: Need, q: Point) -> Point:
    """Where the tile of Legate's point q begins."""
    low = list(need.low)
    for d, launch, tile in need.tiles:
        low[d] += q[launch] * tile
    return tuple(low)


def named(shape: Point, points: int | Point, *parts: tuple[Region, Privilege]) -> Layout:
    """A launch over these regions, cut along its first dimensions."""
    domain = (points,) if isinstance(points, int) else points
    splits = split(shape, domain, tuple(range(len(domain))))
    return Layout(tuple(
        LaunchArgument(1 + 9 * k, region.store.id, (region.store.shape, region.store.dtype),
                 access(region.to(shape), shape, splits, privilege), privilege)
        for k, (region, privilege) in enumerate(parts)), (), "", domain)

"""Random bodies as Legate's tasks for GPUs would run them.

Each point is driven by a message, with memory of its own for the partial results, on stores of which some lie
otherwise than kernels assume.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from itertools import product
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from diffuse.ir import Point, Privilege, Split
from diffuse.kernels.body import abi
from diffuse.kernels.build.grids import GridCode
from diffuse.kernels.grid import schedule
from diffuse.runtime.legate import message
from diffuse.stream import layout as layouts
from tests.bodies import Array, Case, differences
from tests.grid_devices import ALLOCATOR, Given, driver
from tests.simt import expected


class Failed(Exception):
    """A task reported an error; holds its number and what the device raised."""


class Store(NamedTuple):
    """A task's argument: bytes in device memory, some with a gap behind each."""

    address: int
    nbytes: int
    step: int


class Run:
    """One launch of a case, as tasks of Legate's would run it."""

    def __init__(self, case: Case, device: Any, several: bool) -> None:
        self.case, self.device, self.several, body = case, device, several, case.body
        self.values = list(case.values(case.points, case.partials()))
        self.outputs = {self.memory_of(word) for word, a in zip(self.words, body.arguments, strict=True)
                        if a.privilege is not Privilege.READ}
        self.stores = [self.store(array, case.random.choice([1, 1, 3])) for array in case.memory]
        self.order = sorted(range(len(self.stores)), key=lambda k: k in self.outputs)
        parts = GridCode(body, device.kept).parts(tuple(self.values))
        self.steps, self.rest = [[(device.functions[name], *how) for name, *how in part] for part in parts]
        self.folded = {r.argument for r in abi.reductions(body)} if several else set()
        self.offsets = self.values.copy()
        for word in self.words:
            self.offsets[word] -= case.memory[self.memory_of(word)].ctypes.data
        for word in abi.words(body).partials:
            self.offsets[word] = 0
        task: Any = SimpleNamespace(shape=case.extents, splits=tuple(map(Split, case.axes, case.tiles)))
        self.scratch = [abi.partial_bytes(body, r, case.extents) for r in abi.reductions(body)]
        self.planes = [layouts.planes(body, k, task) if several else ()
                       for k in range(len(abi.reductions(body)))]

    @property
    def words(self) -> tuple[int, ...]:
        return abi.words(self.case.body).arguments

    def memory_of(self, word: int) -> int:
        (found,) = [k for k, memory in enumerate(self.case.memory)
                    if 0 <= self.values[word] - memory.ctypes.data < max(memory.nbytes, 1)]
        return found

    def store(self, array: Array, step: int) -> Store:
        spread = np.zeros(max(array.nbytes, 1) * step, "u1")
        spread[:array.nbytes * step:step] = array.reshape(-1).view("u1")
        address = self.device.allocate(spread.nbytes)
        self.device.write(address, spread.tobytes())
        return Store(address, array.nbytes, step)

    def message(self, order: int) -> bytes:
        """The message of the launch, or of what finishes it."""
        fold = order == message.FOLD
        counts, stores, fields, scratch = [0, 0], [], [], list[list[int]]()
        for k in self.order:
            kind = message.OUTPUT if k in self.outputs else message.INPUT
            stores.append([kind, counts[kind], 1, 1, 0, self.stores[k].nbytes])
            counts[kind] += 1
        for number, (word, argument) in enumerate(zip(self.words, self.case.body.arguments, strict=True)):
            if (number in self.folded) == fold:
                rank = self.case.body.spaces[argument.space].rank
                fields.append([word, rank, self.order.index(self.memory_of(word)), 0])
        partials = abi.words(self.case.body).partials
        for word, nbytes, planes in zip(partials, self.scratch, self.planes, strict=True):
            scratch.append([word, nbytes, len(planes)])
            for plane in planes:
                scratch[-1] += plane.offset, len(stores)
                kind = message.INPUT if fold else message.OUTPUT
                stores.append(message._plane(kind, counts[kind], plane))
                counts[kind] += 1
        tail = message.words([word for part in (stores, fields, scratch) for one in part for word in one])
        said = message.Message(order, 0, 0, 0, len(stores), len(fields), len(scratch), tail)
        said = said.launching(self.device.copies, len(self.case.domain), () if fold else self.steps,
                              self.rest if fold or not self.several else ())
        block = abi.layout(self.case.body).pack(*self.offsets)
        return said.pack(self.device.launcher, said.listed, False, (), block)

    def drive(self, order: int, extra: Sequence[Given], first: int, last: int) -> None:
        given = (Given * (len(self.order) + len(extra)))()
        counts = [0, 0]
        for at, k in enumerate(self.order):
            kind, store = message.OUTPUT if k in self.outputs else message.INPUT, self.stores[k]
            given[at] = Given(kind, counts[kind], not store.nbytes, store.address, (0,), (store.nbytes,),
                              (store.step,))
            counts[kind] += 1
        for at, one in enumerate(extra, len(self.order)):
            one.index += counts[one.kind]
            given[at] = one
        words = self.message(order)
        error = driver().drive(words, len(words), self.device.stream, ALLOCATOR(self.device.allocate),
                               ctypes.addressof(given), len(given), first, last)
        if error:
            raise Failed(error, getattr(self.device, "raised", ""))

    def run(self) -> list[Array]:
        """What is in the case's memory afterwards."""
        if not self.several:
            self.drive(message.RUN, (), 0, self.case.points)
        else:
            self.run_points()
        found = []
        for store, array in zip(self.stores, self.case.memory, strict=True):
            data = self.device.read(store.address, store.nbytes * store.step)[::store.step]
            found.append(np.frombuffer(data, array.dtype).reshape(array.shape))
        return found

    def run_points(self) -> None:
        """One Legate point each, with its tiles of the partial results, and then their combination."""
        every = [plane for group in self.planes for plane in group]
        wholes = [np.full(plane.shape, 0xCD, "u1") for plane in every]
        for number, point in enumerate(product(*map(range, self.case.domain))):
            extra, parts = [], []
            for index, plane in enumerate(every):
                low, high = tile_of(plane.tiles, plane.shape, point)
                empty = any(x >= y for x, y in zip(low, high, strict=True))
                shape = [max(y - x, 0) for x, y in zip(low, high, strict=True)]
                address = self.device.allocate(int(np.prod(shape)))
                extra.append(Given(message.OUTPUT, index, empty, address, low, high, strides_of(shape)))
                parts.append((empty, address, shape, tuple(map(slice, low, high))))
            self.drive(message.RUN, extra, number, number + 1)
            if any(p and axis < 0 for p, axis in zip(point, self.case.axes, strict=True)):
                continue  # it has no iterations, and the tiles of another point
            for whole, (empty, address, shape, part) in zip(wholes, parts, strict=True):
                if not empty:
                    data = self.device.read(address, int(np.prod(shape)))
                    whole[part] = np.frombuffer(data, "u1").reshape(shape)
        extra = []
        for index, whole in enumerate(wholes):
            address = self.device.allocate(whole.nbytes)
            self.device.write(address, whole.tobytes())
            extra.append(Given(message.INPUT, index, 0, address, (0,), whole.shape, whole.strides))
        self.drive(message.FOLD, extra, 0, 0)


def tile_of(tiles: Sequence[tuple[int, int, int]], shape: Point, point: Point) -> tuple[Point, Point]:
    low, high = [0] * len(shape), list(shape)
    for d, launch, tile in tiles:
        low[d] = min(point[launch] * tile, shape[d])
        high[d] = min(low[d] + tile, shape[d])
    return tuple(low), tuple(high)


def strides_of(shape: Sequence[int]) -> Point:
    return tuple(int(np.prod(shape[d + 1:])) for d in range(len(shape)))


def fits(case: Case) -> bool:
    """Does the case have grid kernels, and elements?"""
    try:
        schedule.kernels(case.body)
    except schedule.Refused:
        return False
    return 0 not in case.extents


def check(seed: int, device: Callable[[Case], Any], several: bool, most: int) -> Any:
    """Run a case of at most so many points; returns the device, or None if the case was left out."""
    case = Case(seed)
    if not fits(case) or several and not 1 < case.points <= most:
        return None
    meant, where = expected(case), None
    try:
        where = device(case)
    except schedule.Refused:  # it calls the C library
        return None
    found = Run(case, where, several).run()
    assert not differences(found, meant), f"seed {seed}, {case.domain}\n{case.body}"
    return where

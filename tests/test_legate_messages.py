"""What a launch tells the task of Legate's: each element is where the message says it is.

Messages of random layouts are read here as trampoline.cc reads them, against memory in any order; the
partials of reductions are shared out index by index.  Nothing here needs Legate.
"""

from __future__ import annotations

from itertools import product
from math import prod
from random import Random
from struct import unpack
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from diffuse.ir import ITEMSIZE, Point, Split
from diffuse.ir import view as views
from diffuse.kernels.body import abi
from diffuse.runtime.base import Layout, Plane, Scratch
from diffuse.runtime.legate import message, requirements
from diffuse.runtime.legate.joining import WHOLE
from diffuse.runtime.legate.requirements import Need, cut
from diffuse.stream import layout as layouts
from tests.build import array
from tests.each import for_each
from tests.layouts import READ, REDUCE, WRITE, Case, legate_point, legate_points, low_of, named, valid

# -- messages ----------------------------------------------------------------------------------------------


class Memory(NamedTuple):
    """Where a part of a store lies: the address of its first element, and strides."""

    base: int
    low: Point
    strides: Point

    def address(self, element: Point) -> int:
        steps = zip(element, self.low, self.strides, strict=True)
        at: int = self.base + sum((i - low) * pitch for i, low, pitch in steps)
        return at


def placed(pick: Random, need: Need, q: Point, shape: Point, size: int) -> Memory:
    """Memory as Legate might choose it: dense only where it holds the whole store."""
    low = low_of(need, q)
    whole = need.tiles == WHOLE and not any(low) and need.high == shape
    strides, pitch = [0] * len(shape), size
    order = list(reversed(range(len(shape))))
    if not whole:
        pick.shuffle(order)
    for d in order:
        strides[d] = pitch
        pitch *= shape[d] if whole else need.high[d] - need.low[d] + pick.randint(0, 2)
    return Memory(pick.randrange(1 << 40) * 16, low, tuple(strides))


class Reader:
    """The words of a message, read as trampoline.cc reads them."""

    def __init__(self, data: bytes) -> None:
        self.words: list[int] = list(unpack(f"<{len(data) // 8}q", data))

    def next(self) -> int:
        return self.words.pop(0)

    def take(self, n: int) -> list[int]:
        found, self.words = self.words[:n], self.words[n:]
        return found


WHOLES: dict[int, Memory] = {}
"""By their first piece, where stores that are assembled lie."""


def received(data: bytes, memories: dict[tuple[int, int], Memory]) -> tuple[Any, list[Any], list[Any]]:
    """The block with addresses and strides in it, the places of stores, the scratch."""
    words = Reader(data)
    *_, pointers, block, stores, fields, scratch, ghosts, assembled, _ = words.take(14)
    hosts, filled = words.take(pointers), words.take(block)
    places: list[Any] = []
    for _ in range(stores):
        kind, index, rank, size = words.take(4)
        begin, extent = words.take(rank), words.take(rank)
        if kind == message.HOST:
            pitches = tuple(prod(extent[d + 1:]) * size for d in range(rank))
            places.append((kind, index, extent, Memory(hosts[index], (0,) * rank, pitches)))
        else:
            known = memories.get((kind, index))
            assert known is None or all(x <= y for x, y in zip(begin, known.low, strict=True))
            places.append((kind, index, extent, known))
    for _ in range(assembled):
        first, number = words.take(2)
        pieces = places[first:first + number]
        assert len({(kind == message.OUTPUT, *extent) for kind, _, extent, _ in pieces}) == 1
        places.append((first, number, places[first][2], WHOLES[first]))
    for _ in range(fields):
        word, rank, place, affine = words.take(4)
        kind, _, extent, memory = places[place]
        assert memory is not None
        if not affine:
            assert memory.low == (0,) * len(extent)
            filled[word] += memory.base
            continue
        filled[word] = memory.address(tuple(words.take(len(extent))))
        for k in range(rank):
            steps = zip(words.take(len(extent)), memory.strides, strict=True)
            filled[word + 1 + k] = sum(step * pitch for step, pitch in steps)
    pieces = []
    for _ in range(scratch):
        word, size, planes = words.take(3)
        pieces.append((word, size, [tuple(words.take(2)) for _ in range(planes)]))
    for _ in range(ghosts):
        word, need, store, count, pitch, table = words.take(6)
        filled[word:word + 5] = need, store, count, pitch, hosts[table]
    assert not words.words
    return filled, places, pieces


@pytest.mark.parametrize("first", [0, 300])
def test_a_kernel_finds_every_element_where_the_message_says(first: int) -> None:
    checked = 0
    for seed in range(first, first + 300):
        case = Case(seed)
        given = case.layout.arguments
        if not given or not valid(case):
            continue
        found, pick = cut(case.layout, case.span), Random(seed)
        hosted = [not n.writes and pick.random() < 0.3 for n in found.needs]
        words = message.running(case.layout, found, hosted, True)
        block = [0] * (1 + 9 * len(given) + 9)
        for argument in given:
            view: Any = argument.access.map
            block[argument.word] = view.offset
            block[argument.word + 1:argument.word + 1 + len(view.strides)] = view.strides
        for q in legate_points(found):
            memories, pointers, counts, spots = {}, [], [0, 0], []
            for need, host in zip(found.needs, hosted, strict=True):
                shape, dtype = next(a.storage for a in given if a.slot == need.slot)
                if host:
                    dense = Need(need.slot, (0,) * len(shape), shape, WHOLE, True, False)
                    spots.append(placed(pick, dense, q, shape, ITEMSIZE[dtype]))
                    pointers.append(spots[-1].base)
                    continue
                spots.append(placed(pick, need, q, shape, ITEMSIZE[dtype]))
                # what is read is an input, what is written an output, in the order of the needs
                for kind in [message.INPUT] * need.reads + [message.OUTPUT] * need.writes:
                    memories[kind, counts[kind]] = spots[-1]
                    counts[kind] += 1
            data = words.pack(7, 0, False, pointers, message.words(block))
            filled, _, _ = received(data, memories)
            for k, argument in enumerate(given):
                spot, (_, dtype) = spots[found.of[k]], argument.storage
                for p, index, element in case.touched(k):
                    if legate_point(found, p) != q:
                        continue
                    at = filled[argument.word] + sum(
                        i * s for i, s in zip(index, filled[argument.word + 1:], strict=False))
                    view = argument.access.map
                    byte = view.offset + sum(i * s for i, s in zip(index, view.strides, strict=True))
                    assert at == spot.address(element) + byte % ITEMSIZE[dtype], (seed, q, k, index)
                    checked += 1
    assert checked > 5000


def test_partials_are_outputs_of_the_launch_and_inputs_of_the_fold() -> None:
    layout = named((12, 5), 4, (array(0, 12, 5), READ), (array(1, 12, 5), WRITE), (array(2, 5), WRITE))
    given = [argument._replace(access=argument.access._replace(map=views.View(
        argument.access.map.rows, argument.access.store.shape, "float64", (12, 5), 0, (0, 0))))
        for argument in layout.arguments]
    total = given[2]._replace(privilege=REDUCE)
    scratch = Scratch(50, 800, (Plane(0, (12, 40), ((0, 0, 3),)), Plane(480, (12, 8), ((0, 0, 3),))))
    layout = Layout((*given[:2], total), (scratch,), "", (4,))
    found = cut(layout, 2)
    here = Memory(0, (0, 0), (40, 8))
    block = message.words([0] * 60)
    data = message.running(layout, found, [False, False], True).pack(7, 0, False, (), block)
    _, places, pieces = received(data, {(message.INPUT, 0): here, (message.OUTPUT, 0): here})
    assert pieces == [(50, 800, [(0, 2), (480, 3)])]
    assert [place[:3] for place in places[2:]] == [
        (message.OUTPUT, 1, [12, 40]), (message.OUTPUT, 2, [12, 8])]
    data = message.folding(layout, found).pack(7, 9, False, (), block)
    filled, places, pieces = received(data, {(message.OUTPUT, 0): Memory(1600, (0,), (8,))})
    assert filled[19] == 1600
    assert pieces == [(50, 800, [(0, 1), (480, 2)])]
    assert [place[:3] for place in places[1:]] == [
        (message.INPUT, 0, [12, 40]), (message.INPUT, 1, [12, 8])]
    alone = message.running(layout, cut(layout, 4), [False] * 3, False)
    assert alone.scratch == 0  # the runtime itself makes it


def test_arguments_of_assembled_stores_lie_in_memory_as_large_as_the_store(monkeypatch: pytest.MonkeyPatch
                                                                           ) -> None:
    monkeypatch.setattr(requirements, "LEAST", 0)
    plate, line = array(0, 40, 40), array(1, 40)
    layout = named((40,), 1, (line, READ), (plate[0], WRITE), (plate[1], READ), (plate[:, 39], WRITE))
    given = [argument._replace(access=argument.access._replace(map=views.View(
        argument.access.map.rows, argument.access.store.shape, "float64", (40,), 0, steps)))
        for argument, steps in zip(layout.arguments, [(8,), (8,), (8,), (320,)], strict=True)]
    layout = Layout(tuple(given), (), "", (1,))
    found = cut(layout, 1, assembles=True)
    assert found.assembled == ((1, 2),)
    monkeypatch.setitem(WHOLES, 1, Memory(16000, (0, 0), (320, 8)))
    here = Memory(0, (2, 39), (1, 1))
    memories = {(kind, k): here for kind in (message.INPUT, message.OUTPUT) for k in range(3)}
    memories[message.INPUT, 0] = Memory(800, (0,), (8,))
    data = message.running(layout, found, [False] * 3, True).pack(7, 0, False, (), message.words([0] * 40))
    filled, places, _ = received(data, memories)
    assert [place[0] for place in places[:3]] == [message.INPUT, message.OUTPUT, message.OUTPUT]
    assert [filled[word:word + 2] for word in (1, 10, 19, 28)] == [
        [800, 8], [16000, 8], [16320, 8], [16312, 320]]


def test_exchange_stores_are_inputs_behind_all_others() -> None:
    layout = named((12, 5), 4, (array(0, 12, 5), READ), (array(1, 12, 5), READ), (array(2, 12, 5), WRITE))
    given = [argument._replace(access=argument.access._replace(map=views.View(
        argument.access.map.rows, argument.access.store.shape, "float64", (12, 5), 0, (40, 8))))
        for argument in layout.arguments]
    scratch = Scratch(50, 800, (Plane(0, (12, 40), ((0, 0, 3),)),))
    layout = Layout(tuple(given), (scratch,), "", (4,))
    received_rows = message.Received(60, 1, (4, 4, 80), 12, 40)
    found = message.running(layout, cut(layout, 2), [True, False, False], True, [received_rows])
    assert found.pointers == 2
    here = Memory(0, (0, 0), (40, 8))
    filled, places, pieces = received(found.pack(7, 0, False, (1600, 8000), message.words([0] * 65)),
                                      {(message.INPUT, 0): here, (message.OUTPUT, 0): here})
    assert pieces == [(50, 800, [(0, 3)])]
    assert places[4][:3] == (message.INPUT, 1, [4, 4, 80])
    assert filled[60:] == [1, 4, 12, 40, 8000]


# -- partials ----------------------------------------------------------------------------------------------


@for_each("operator", ["sum", "argmax"])
@for_each("seed", range(80))
def test_planes_give_each_point_the_partials_that_it_fills(
        seed: int, operator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of kernels/body/abi.py: rows [output element][leaf], columns [leaf][output element]."""
    for module in (abi, layouts):
        monkeypatch.setattr(module, "SEGMENT", 4)
        monkeypatch.setattr(module, "ROWS", 3)
    pick = Random(seed)
    extents = tuple(pick.randint(1, 13) for _ in range(pick.randint(1, 3)))
    letters = "".join(pick.choice("0s") for _ in extents)
    rank = len(extents)
    points = [pick.randint(2, 4) for _ in range(pick.randint(1, min(rank, 2)))]
    kept = [d for d in range(rank) if letters[d] != "0"]
    reduced = [d for d in range(rank) if letters[d] == "0"]
    rows = rank - 1 in reduced
    length = 4 if rows else 3
    splits = []
    for axis, n in zip(pick.sample(range(rank), len(points)), points, strict=True):
        tile = -(-extents[axis] // n)
        if axis == rank - 1 and rows or reduced and axis == reduced[-1]:
            tile = -(-tile // length) * length  # a leaf is of one point: launch.py
        if pick.random() < 0.2:
            tile = extents[axis]
        splits.append(Split(axis, tile))
    dtype = pick.choice(("float64", "int16"))
    op = SimpleNamespace(kind="reduce", attribute=(operator, 0), dtype=dtype)
    body: Any = SimpleNamespace(
        arguments=[SimpleNamespace(classes=letters)], loops=[SimpleNamespace(space=0, ops=[op])],
        spaces=[SimpleNamespace(rank=rank, axes=tuple([split.axis for split in splits]))], parts=())
    task: Any = SimpleNamespace(shape=extents, splits=tuple(splits))
    reduction = abi.Reduction(0, 0, operator, dtype)
    owners: dict[int, set[Point]] = {}
    last = reduced[-1] if reduced else -1
    blocks = [-(-n // length) if d == last else n for d, n in enumerate(extents)]
    order = kept + reduced if rows else reduced + kept
    count = prod(blocks)
    size = ITEMSIZE[dtype]
    second = (count * size + 7) // 8 * 8
    for index in product(*map(range, extents)):
        number = 0
        for d in order:
            step = index[d] // length if d == last else index[d]
            number = number * blocks[d] + step
        p = tuple(index[axis] // tile for axis, tile, _ in splits)
        for byte in range(number * size, number * size + size):
            owners.setdefault(byte, set()).add(p)
        for byte in range(second + number * 8, second + number * 8 + 8) if operator == "argmax" else ():
            owners.setdefault(byte, set()).add(p)
    assert all(len(found) == 1 for found in owners.values())
    shared: dict[int, set[Point]] = {}
    for plane in layouts.planes(body, 0, task):
        for byte, at in enumerate(product(*map(range, plane.shape)), plane.offset):
            assert byte not in shared
            tiles = sorted(plane.tiles, key=lambda cut: cut[1])
            shared[byte] = {tuple(at[d] // tile for d, _, tile in tiles)}
    assert shared == owners
    assert max(shared) < abi.partial_bytes(body, reduction, extents)

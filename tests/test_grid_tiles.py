"""Grid kernels that run one point of a launch each: the bits of a launch of one point."""

from __future__ import annotations

import ctypes
import struct
from itertools import product
from typing import Any

import pytest

from diffuse.kernels.body import abi
from diffuse.kernels.build import codegen
from diffuse.kernels.build.grids import GridCode
from diffuse.kernels.grid import emit, schedule
from diffuse.kernels.targets.simt import simt
from diffuse.service import loader
from tests.bodies import Array, Case, differences
from tests.ptx_machine import Machine, Memory
from tests.simt import ORDERS, compiled, expected

pytest.importorskip("llvmlite", reason="kernels are compiled by llvmlite")

EVERY = 40


def several(seed: int, **how: Any) -> Case | None:
    """A random case with several points, and with grid kernels."""
    case = Case(seed, **how)
    try:
        return case if case.points > 1 and schedule.kernels(case.body) else None
    except schedule.Refused:
        return None


def blocks(case: Case, partials: list[Array]) -> tuple[bytes, list[bytes]]:
    """The block of a launch, and that of each of its points, which has the point's coordinates."""
    block = abi.layout(case.body).pack(*case.values(case.points, partials))
    rest = block[8 * len(case.domain):]
    points = product(*map(range, case.domain))
    return block, [struct.pack(f"<{len(case.domain)}q", *point) + rest for point in points]


def by_points(case: Case, order: int) -> list[str]:
    """Where the results of a launch of the case's points differ from those of one point."""
    meant, before, partials = expected(case), case.save(), case.partials()
    loaded = compiled(emit.for_host(case.body, simt(tiles=True)), schedule.names(case.body))
    block, points = blocks(case, partials)
    first, last = GridCode(case.body, loaded).parts(tuple(case.values(case.points, partials)))

    def run(block: bytes, steps: Any) -> None:
        room = ctypes.create_string_buffer(block)
        for name, groups, argument in steps:
            entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 3)
            entry(loaded.addresses[name])(ctypes.addressof(room), groups, argument, order)

    for one in reversed(points) if order else points:
        run(one, first)
    run(block, last)
    found = differences(case.memory, meant)
    found += ["wrote behind its partials" for word in partials if (word[-16:] != 0xAB).any()]
    case.restore(before)
    return found


@pytest.mark.parametrize("first", range(0, 400, EVERY))
def test_points_together_make_what_one_point_makes(first: int) -> None:
    cases = [(seed, several(seed, transcendental=seed % 5 == 0)) for seed in range(first, first + EVERY)]
    checked = 0
    for seed, case in cases:
        if case is not None:
            found = by_points(case, ORDERS[list(ORDERS)[seed % len(ORDERS)]])
            assert not found, f"seed {seed}, domain {case.domain}, tiles {case.tiles}\n{case.body}\n{found}"
            checked += 1
    assert checked > EVERY // 5


@pytest.mark.parametrize("seed", [seed for seed in range(60) if several(seed) is not None][:12])
def test_the_ptx_of_points_has_the_same_bits(seed: int) -> None:
    case = several(seed)
    assert case is not None
    try:
        text = codegen.grid_code(case.body, "sm_80 tiles")
    except schedule.Refused:
        pytest.skip("calls the C library")
    machine, memory = Machine(text.decode()), Memory()
    meant, partials = expected(case), case.partials()
    owned = [*case.memory, *partials]
    places = [memory.allocate(max(array.nbytes, 1)) for array in owned]
    values = list(case.values(case.points, partials))
    begins = abi.words(case.body)
    for word in (*begins.arguments, *begins.partials):
        (k,) = [k for k, array in enumerate(owned)
                if 0 <= values[word] - array.ctypes.data < max(array.nbytes, 1)]
        values[word] += places[k] - int(owned[k].ctypes.data)
    for array, place in zip(owned, places, strict=True):
        if array.nbytes:
            memory.write(place, array.tobytes())
    block = abi.layout(case.body).pack(*values)
    first, last = GridCode(case.body, loader.Text(text, ())).parts(tuple(values))
    many = len(case.domain)
    runs = [(struct.pack(f"<{many}q", *point) + block[8 * many:], first)
            for point in product(*map(range, case.domain))]
    for given, steps in [*runs, (block, last)]:
        for name, groups, argument in steps:
            machine.launch(name, groups, given + struct.pack("<q", argument), memory)
    for array, place in zip(case.memory, places, strict=False):
        if array.nbytes:
            array.reshape(-1).view("uint8")[...] = list(memory.read(place, array.nbytes))
    assert not differences(case.memory, meant), f"{case.body}"


def test_what_combines_leaves_runs_once() -> None:
    case = next(case for seed in range(100) if (case := several(seed)) is not None
                and abi.reductions(case.body) and case.body.epilogue == 0)
    points, rest = schedule.by_points(case.body, schedule.kernels(case.body))
    assert {kernel.reduction for kernel in points} == {-1}
    assert {kernel.form for kernel in rest} <= {"trees", "chunks", "results"}

"""Grid kernels of which a thread takes several elements: 16 bytes at once where rows are aligned."""

from __future__ import annotations

import ctypes
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from diffuse.ir import Privilege
from diffuse.kernels.body import abi
from diffuse.kernels.body.expr import Argument, Body, Loop, Op, Space
from diffuse.kernels.build import ptx
from diffuse.kernels.grid import emit, schedule
from diffuse.kernels.meaning import interpret
from diffuse.kernels.targets.nvptx import Nvptx
from diffuse.kernels.targets.simt import simt
from tests.bodies import Array, differences
from tests.ptx_machine import Fault
from tests.simt import ORDERS, compiled
from tests.test_ptx_machine import Change, launch

pytest.importorskip("llvmlite", reason="kernels are compiled by llvmlite")


def body(dtypes: Sequence[str], rank: int = 1, in_place: bool = False, kind: str = "add") -> Body:
    """x = x + y, or the last array = x + y; elements are neighbours along the last dimension."""
    classes = "s" * (rank - 1) + "1"
    target = 0 if in_place else 2
    slots = [(0, dtypes[0], Privilege.READ), (1, dtypes[1], Privilege.READ),
             (target, dtypes[target], Privilege.WRITE)]
    arguments = tuple(Argument(slot, 0, dtype, 0, classes, privilege) for slot, dtype, privilege in slots)
    common = np.result_type(*dtypes[:2]).name
    ops = (Op("load", dtypes[0], (), 0), Op("load", dtypes[1], (), 1), Op("cast", common, (0,)),
           Op("cast", common, (1,)), Op(kind, common, (2, 3)), Op("store", dtypes[target], (4,), 2))
    return Body((Space(rank, (0,)),), arguments, (), (Loop(0, tuple(range(rank)), ops),))


def text(made: Body) -> str:
    return ptx.compile(emit.for_gpu(made, Nvptx()), "sm_80")


def accesses(made: Body) -> list[str]:
    return re.findall(r"(?:ld|st)\.global\S*", text(made))


def test_an_access_is_of_16_bytes_and_what_is_only_read_is_marked() -> None:
    """In two pieces, loaded before the first is stored; unaligned elements are accessed one by one."""
    found = accesses(body(["float64"] * 3))
    assert found[:6] == ["ld.global.nc.v2.b64"] * 4 + ["st.global.v2.b64"] * 2
    assert Counter(found[6:]) == {"ld.global.nc.b64": 8, "st.global.b64": 4}
    found = accesses(body(["float32"] * 3, rank=2))
    assert found[:6] == ["ld.global.nc.v4.b32"] * 4 + ["st.global.v4.b32"] * 2
    found = accesses(body(["float64"] * 3, in_place=True))
    assert found[:6] == ["ld.global.v2.b64", "ld.global.nc.v2.b64"] * 2 + ["st.global.v2.b64"] * 2
    assert Counter(found[6:]) == {"ld.global.b64": 4, "ld.global.nc.b64": 4, "st.global.b64": 4}
    assert accesses(body(["complex128"] * 3, kind="multiply"))[-1] == "st.global.b64"


def test_how_many_elements_a_thread_takes() -> None:
    def lanes(made: Body) -> list[int]:
        return [schedule.lanes(made, kernel) for kernel in schedule.kernels(made)]
    assert lanes(body(["float64"] * 3)) == [2] and lanes(body(["float64", "float32", "bool"])) == [2]
    assert lanes(body(["float32"] * 3)) == [4] and lanes(body(["int8"] * 3)) == [4]
    assert lanes(body(["complex64"] * 3)) == [2] and lanes(body(["complex128"] * 3)) == [1]
    assert lanes(body(["float32"] * 3, kind="power")) == [1]


def test_loops_of_many_operations_take_one_element_a_thread() -> None:
    plain = body(["float64"] * 3)

    def lanes(count: int, last: int) -> int:
        """Of a loop with so many more additions, of which this op is stored."""
        ops = (*plain.loops[0].ops[:5], *[Op("add", "float64", (k + 4, 0)) for k in range(count)])
        loop = Loop(0, (0,), (*ops, Op("store", "float64", (last,), 2)))
        made = replace(plain, loops=(loop,))
        return schedule.lanes(made, schedule.kernels(made)[0])
    few = schedule.OPS - 6
    assert lanes(few, few + 4) == 2 and lanes(few + 1, few + 5) == 1
    assert lanes(few + 1, 4) == 2  # what nobody needs is not computed


class Launched:
    """A body with arrays that begin so many elements behind an aligned address."""

    def __init__(self, made: Body, extents: tuple[int, ...], behind: int, pitch: int = 0) -> None:
        self.body, self.extents = made, extents
        draw = np.random.default_rng(len(extents) + behind)
        found: dict[int, Array] = {}
        self.arrays = [found.setdefault(a.slot, self._array(draw, a.dtype, behind, pitch))
                       for a in made.arguments]
        words = [word for x in self.arrays for word in (x.ctypes.data, *x.strides)]
        self.values = [1, extents[0], *extents, *words]
        self.before = [x.copy() for x in self.arrays]
        interpret.point(made, self.values, 0)
        self.meant = [x.copy() for x in self.arrays]

    def _array(self, draw: Any, dtype: str, behind: int, pitch: int) -> Array:
        width = self.extents[-1] + pitch
        count, itemsize = int(np.prod(self.extents[:-1], dtype=int)) * width, np.dtype(dtype).itemsize
        memory = np.zeros((count + behind + 1) * itemsize + 64, "u1")
        start = -memory.ctypes.data % 64 + behind * itemsize
        whole = memory[start:start + count * itemsize].view(dtype).reshape(*self.extents[:-1], width)
        whole[...] = draw.integers(-3, 4, whole.shape) / (1 if dtype in ("bool", "int8") else 3)
        return whole[..., :self.extents[-1]]

    def again(self) -> None:
        for x, before in zip(self.arrays, self.before, strict=True):
            x[...] = before

    def on_ptx(self, change: Change = str) -> list[str]:
        self.again()
        bases = [x.base if x.base is not None else x for x in self.arrays]
        launch(self.body, self.values, self.extents, list({id(b): b for b in bases}.values()), change)
        return differences(self.arrays, self.meant)

    def on_host(self) -> list[str]:
        planned, found = schedule.kernels(self.body), []
        loaded = compiled(emit.for_host(self.body, simt()), schedule.names(self.body))
        block = ctypes.create_string_buffer(abi.layout(self.body).pack(*self.values))
        for number in ORDERS.values():
            self.again()
            for kernel, groups, argument in schedule.launches(self.body, planned, [self.extents]):
                entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 3)
                entry(loaded.addresses[kernel.name])(ctypes.addressof(block), groups, argument, number)
            found += differences(self.arrays, self.meant)
        return found


MIXES = (["float64"] * 3, ["float32"] * 3, ["float64", "float32", "bool"], ["complex64"] * 3, ["float16"] * 3,
         ["int8", "int8", "float32"])
SHAPES = ((1,), (3,), (256,), (511,), (1027,), (5, 1), (3, 130), (2, 3, 257))


@pytest.mark.parametrize("dtypes", MIXES, ids="-".join)
def test_aligned_or_not_the_bits_are_the_interpreters(dtypes: list[str]) -> None:
    for number, shape in enumerate(SHAPES):
        made = body(dtypes, len(shape), in_place=dtypes[0] == dtypes[2] and number % 2 > 0)
        for behind, pitch in ((0, 0), (1, 0), (0, 1), (0, 4)):
            one = Launched(made, shape, behind, pitch)
            assert not one.on_host(), (shape, behind, pitch)
            if number % 3 == 1:
                assert not one.on_ptx(), (shape, behind, pitch)


def test_without_the_look_at_addresses_unaligned_ones_fault() -> None:
    """The control: the machine sees what a GPU would refuse."""
    def careless(text: str) -> str:
        return re.sub(r"(and\.b64 \t%rd\d+, %rd\d+), 15;", r"\1, 0;", text)
    made = body(["float64"] * 3)
    assert not Launched(made, (300,), 0).on_ptx(careless)
    with pytest.raises(Fault, match="misaligned address"):
        Launched(made, (300,), 1).on_ptx(careless)

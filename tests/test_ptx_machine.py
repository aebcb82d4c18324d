"""The PTX of grid kernels runs on the PTX machine, with the bits of the interpreter of bodies."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

from apps import black_scholes
from diffuse.ir import Privilege
from diffuse.kernels.body import abi
from diffuse.kernels.body.expr import Argument, Body, Loop, Op, Space
from diffuse.kernels.build import ptx
from diffuse.kernels.grid import emit, leaves, schedule, threads
from diffuse.kernels.llvm import reduce
from diffuse.kernels.meaning import interpret
from diffuse.kernels.targets.nvptx import Nvptx
from tests.bodies import Array, Case, agreeing, differences
from tests.each import for_each, rounds
from tests.operands import of_all_sizes
from tests.ptx_machine import Fault, Machine, Memory
from tests.simt import expected

pytest.importorskip("llvmlite", reason="kernels are compiled by llvmlite")

Change = Callable[[str], str]


@cache
def compiled(source: str) -> str:
    return ptx.compile(source, "sm_80")


def launch(body: Body, values: Sequence[int | float], extents: tuple[int, ...], arrays: Sequence[Array],
           change: Change = str, parts: int = 2) -> set[str]:
    """Run all kernels of a body on the host's arrays; the kernels' forms.  `change` alters the PTX."""
    machine = Machine(change(compiled(emit.for_gpu(body, Nvptx()))), parts=parts)
    memory, forms = Memory(), set()
    for array in arrays:
        memory.adopt(array)
    block = abi.layout(body).pack(*values)
    for kernel, groups, argument in schedule.launches(body, schedule.kernels(body), [extents]):
        forms.add(kernel.form.rstrip("0123456789"))
        machine.launch(kernel.name, groups, block + struct.pack("<q", argument), memory)
    return forms


def disagreement(case: Case, change: Change = str, parts: int = 2) -> tuple[set[str], list[str]]:
    """The forms of the kernels that ran, and where their results differ from the interpreter's."""
    meant, before, partials = expected(case), case.save(), case.partials()
    try:
        forms = launch(case.body, case.values(1, partials), case.extents, [*case.memory, *partials], change,
                       parts)
        return forms, differences(case.memory, meant)
    finally:
        case.restore(before)


EVERY = 25


@pytest.mark.parametrize("first", range(0, rounds(75, 150), EVERY))
def test_random_bodies_have_the_interpreters_bits(first: int) -> None:
    seen = agreeing(range(first, first + EVERY), disagreement)
    assert seen >= {"elements", "rows", "columns", "chunks", "results"}


class Given:
    """A body of one loop over vectors, with arrays to run it on."""

    def __init__(self, reads: Sequence[Array], make: Callable[..., Sequence[Any]]) -> None:
        self.ops: list[Op] = []
        self.arrays = list(reads)
        traced = [Traced(self, Op("load", x.dtype.name, (), k)) for k, x in enumerate(reads)]
        for value in make(*traced):
            self.arrays.append(np.zeros(len(reads[0]), value.dtype))
            self.ops.append(Op("store", value.dtype, (value.number,), len(self.arrays) - 1))
        arguments = tuple(
            Argument(k, 0, x.dtype.name, 0, "1", Privilege.READ if k < len(reads) else Privilege.WRITE)
            for k, x in enumerate(self.arrays))
        self.body = Body((Space(1, (0,)),), arguments, (), (Loop(0, (0,), tuple(self.ops)),))

    def differs(self, change: Change = str) -> list[str]:
        """Where the PTX gives other results than the interpreter of bodies."""
        many = len(self.arrays[0])
        values = [1, many, many, *[word for x in self.arrays for word in (x.ctypes.data, x.itemsize)]]
        interpret.point(self.body, values, 0)
        meant = [array.copy() for array in self.arrays]
        for array, argument in zip(self.arrays, self.body.arguments, strict=True):
            if argument.privilege is Privilege.WRITE:
                array[...] = 0
        launch(self.body, values, (many,), self.arrays, change)
        return differences(self.arrays, meant)


class Traced(np.lib.mixins.NDArrayOperatorsMixin):
    """A value of a body that NumPy's functions record."""

    def __init__(self, given: Given, op: Op) -> None:
        given.ops.append(op)
        self.given, self.number, self.dtype = given, len(given.ops) - 1, op.dtype

    def apply(self, kind: str, values: Sequence[Any], dtype: str = "") -> Traced:
        numbers = [v.number if isinstance(v, Traced) else
                   Traced(self.given, Op("const", self.dtype, (), float(v))).number for v in values]
        return Traced(self.given, Op(kind, dtype or self.dtype, tuple(numbers)))

    def __array_ufunc__(self, function: np.ufunc, method: str, *values: Any) -> Traced:
        return self.apply(function.__name__, values, "bool" if function in (np.greater, np.less) else "")

    def __array_function__(self, function: Any, types: Any, values: Any, options: Any) -> Traced:
        return self.apply(function.__name__, values, values[1].dtype)


def stencil(rank: int) -> Body:
    """The sum of an element's neighbours along the last two of these dimensions."""
    classes = "s" * (rank - 1) + "1"
    arguments = (*[Argument(0, view, "float64", 0, classes, Privilege.READ) for view in range(4)],
                 Argument(1, 0, "float64", 0, classes, Privilege.WRITE))
    add = [Op("add", "float64", (3 + k if k else 0, k + 1)) for k in range(3)]
    ops = (*[Op("load", "float64", (), k) for k in range(4)], *add, Op("store", "float64", (6,), 4))
    return Body((Space(rank, (0,)),), arguments, (), (Loop(0, tuple(range(rank)), ops),))


@pytest.mark.parametrize("shape, busy", [((9, 40), 1), ((70, 33), 4), ((3, 20, 21), 1), ((5, 7, 300), 2)])
def test_rows_that_a_thread_computes_one_after_another(shape: tuple[int, ...], busy: int,
                                                       monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "BUSY", busy)
    body = stencil(len(shape))
    (_, groups, argument), = schedule.launches(body, schedule.kernels(body), [shape])
    assert schedule.repeated(body, schedule.kernels(body)[0]) and argument >> schedule.LAYOUT
    around = np.random.default_rng(3).random((*shape[:-2], shape[-2] + 2, shape[-1] + 2))
    found = np.zeros(shape)
    up, down = around[..., :-2, 1:-1], around[..., 2:, 1:-1]
    left, right = around[..., 1:-1, :-2], around[..., 1:-1, 2:]
    words = [1, shape[0], *shape]
    for array in (up, down, left, right, found):
        words += [array.ctypes.data, *array.strides]
    launch(body, words, shape, [around, found])
    assert found.tobytes() == (up + down + left + right).tobytes()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_black_scholes_has_the_interpreters_bits(dtype: str) -> None:
    draw = np.random.default_rng(1)
    columns = [draw.uniform(low, high, 5000).astype(dtype)
               for low, high in ((50, 150), (60, 140), (0.25, 2), (0.1, 0.5))]
    given = Given(columns, black_scholes.prices)
    assert not given.differs()
    assert np.all(given.arrays[-1] > -1e-3)


def test_a_loop_written_for_ordinary_operands_computes_all_others_too() -> None:
    operands = of_all_sizes(np.random.default_rng(11), 3000)
    given = Given(operands, lambda x, y: [x / y, np.sqrt(x), 1.0 / y, np.exp(x) + np.log(y), np.sin(x / y)])
    kernel, = schedule.kernels(given.body)
    assert schedule.hasty(given.body, kernel) and not given.differs()


def test_a_dividend_of_zero_is_ordinary_and_a_divisor_of_zero_is_not() -> None:
    x, y = np.array([0.0, -0.0, 1.0, -3.0] * 2), np.array([2.0, -2.0, 7.0, -5.0, -2.0, 2.0, 1.0, 3.0])

    def trapped(text: str) -> str:
        return re.sub(r"\tdiv\.rn\.f64[^\n]*", "\ttrap;", text)

    assert not Given([x, y], lambda x, y: [x / y, y / (x + 2.0)]).differs(trapped)
    with pytest.raises(Fault, match="a trap"):
        Given([x, np.append(y[:-1], 0.0)], lambda x, y: [x / y, y / (x + 2.0)]).differs(trapped)


@for_each("dtype", ["float64", "float32", "int8", "complex128"])
@for_each("first", [0, 1])
def test_threads_with_several_iterations_compute_all(dtype: str, first: int) -> None:
    """In whole and partial groups, on aligned arrays and others."""
    for many in (256 * 32 + 4, 512 * 3 - 1, 70):
        x, y = (np.arange(many + first).astype(dtype)[first:] for _ in range(2))
        assert not Given([x, y], lambda x, y: [x + y * x, x - y]).differs()


@for_each("name", ["fmod", "remainder", "floor_divide"])
@for_each("dtype", ["float64", "float32", "float16", "int64", "uint8"])
def test_remainders_are_exact(name: str, dtype: str) -> None:
    draw = np.random.default_rng(2)
    if np.dtype(dtype).kind == "f":
        special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -3.0, np.finfo(dtype).smallest_subnormal,
                            np.finfo(dtype).max], dtype)
        wide = np.exp(draw.uniform(-8, 8, 300)) * draw.choice([-1, 1], 300)
        pairs = np.meshgrid(np.append(special, wide[:20]), np.append(special, wide[20:40]))
        x, y = (a.ravel() for a in pairs)
        x, y = np.append(x, wide[:150]).astype(dtype), np.append(y, wide[150:]).astype(dtype)
    else:
        kind = np.iinfo(dtype)
        x, y = (draw.integers(kind.min, kind.max, 600, dtype, endpoint=True) for _ in range(2))
        y[:50], x[40:60] = 0, kind.min
    function = getattr(np, name)
    assert not Given([x, y], lambda x, y: [function(x, y)]).differs()


# Faults that have to show


def without_one_barrier(text: str) -> str:
    """The PTX without the first barrier of each kernel."""
    head, *entries = text.split(".entry")
    return ".entry".join([head, *(re.sub(r"\tbar\.[^\n]*\n", "", entry, count=1) for entry in entries)])


def folding(many: int) -> list[Case]:
    """Random bodies that reduce rows."""
    found: list[Case] = []
    for seed in range(100):
        case = Case(seed, transcendental=seed % 5 == 0)  # bodies of the test above, compiled already
        try:
            forms = {kernel.form for kernel in schedule.kernels(case.body)}
        except schedule.Refused:
            continue
        if "rows" in forms and 0 not in case.extents and len(found) < many:
            found.append(case)
    return found


def test_a_dropped_barrier_is_a_race() -> None:
    for case in folding(8):
        with pytest.raises(Fault, match=r"race of threads \d+ and \d+ at byte \d+ of \d+: line \d+: st"):
            disagreement(case, without_one_barrier)


def test_a_dropped_barrier_changes_results(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other way to see it, without looking for races: threads run in parts."""
    monkeypatch.setattr("tests.ptx.memory.Region.check", lambda region, group: region.accesses.clear())
    found = [bool(disagreement(case, without_one_barrier, parts=4)[1]) for case in folding(6)]
    assert sum(found) >= 2


def without_barrier(number: int) -> Change:
    """The PTX without one of its barriers."""
    def change(text: str) -> str:
        places = list(re.finditer(r"\tbar\.(?:warp\.)?sync[^\n]*\n", text))
        return text[:places[number].start()] + text[places[number].end():]
    return change


def row_sum(size: int) -> tuple[Body, list[Array]]:
    """The sum of a vector, in leaves and a tree over these."""
    arguments = (Argument(0, 0, "float64", 0, "1", Privilege.READ),
                 Argument(1, 0, "float64", 0, "0", Privilege.WRITE))
    ops = Op("load", "float64", (), 0), Op("reduce", "float64", (0,), ("sum", 1))
    body = Body((Space(1, (0,)),), arguments, (), (Loop(0, (0,), ops),))
    return body, [np.random.default_rng(7).standard_normal(size), np.zeros(1)]


def sums(size: int, change: Change = str) -> tuple[float, float]:
    """The interpreter's sum of a vector, and that of the PTX."""
    body, (x, out) = row_sum(size)
    partials = np.zeros(2 * (size // 512 + 2))
    values = [1, size, size, x.ctypes.data, 8, out.ctypes.data, 0, partials.ctypes.data]
    interpret.point(body, values, 0)
    meant = float(out[0])
    out[0] = partials[:] = 0.0
    launch(body, values, (size,), [x, out, partials], change)
    return meant, float(out[0])


def test_a_loop_that_folds_rows_and_keeps_each_element_of_them() -> None:
    arguments = (Argument(0, 0, "float64", 0, "1", Privilege.READ),
                 Argument(1, 0, "float64", 0, "0", Privilege.WRITE),
                 Argument(2, 0, "float64", 0, "1", Privilege.WRITE))
    ops = (Op("load", "float64", (), 0), Op("reduce", "float64", (0,), ("sum", 1)),
           Op("reduce", "float64", (0,), ("sum", 2)))
    body, size = Body((Space(1, (0,)),), arguments, (), (Loop(0, (0,), ops),)), 1000
    x, total, same = np.arange(1.0, size + 1), np.zeros(1), np.zeros(size)
    partials = [np.zeros(8), np.zeros(2 * size)]
    values = [1, size, size, *[word for a in (x, total, same) for word in (a.ctypes.data, 8)],
              *[p.ctypes.data for p in partials]]
    launch(body, values, (size,), [x, total, same, *partials])
    assert total[0] == x.sum() and np.array_equal(same, x)


MUTATIONS: dict[str, tuple[Any, str, Any]] = {
    "a leaf that is too short": (threads, "SEGMENT", 480),
    "a level too few in the tree": (leaves, "HALVINGS", 7),
    "a sum that starts from 1": (reduce.Operator, "identity",
                                 lambda operator, code: (code.const("float64", 1.0),)),
    "a half of a warp that is left out": (emit, "WARP", 16),
}


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_faults_of_kernels_change_the_sum(mutation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    meant, found = sums(300_000)
    assert meant == found
    monkeypatch.setattr(*MUTATIONS[mutation])
    meant, found = sums(300_000)
    assert meant != found


def test_each_dropped_barrier_is_a_race() -> None:
    text = compiled(emit.for_gpu(row_sum(1)[0], Nvptx()))
    count = len(re.findall(r"\tbar\.", text.partition(".entry results0")[0]))
    assert count == 4
    for number in range(count):
        with pytest.raises(Fault, match="race of threads"):
            sums(300_000, without_barrier(number))


OTHER = {"add.rn": "sub.rn", "sub.rn": "add.rn", "mul.rn": "add.rn"}


def test_one_other_instruction_changes_results() -> None:
    """In a sum of products each instruction counts, in a whole group of threads and in the last one."""
    draw = np.random.default_rng(3)
    given = Given([draw.standard_normal(2349) for _ in range(3)], lambda x, y, z: [x * y + z - x * z, x - y])
    each = schedule.each(given.body, schedule.kernels(given.body)[0])
    text = compiled(emit.for_gpu(given.body, Nvptx()))
    places = list(re.finditer("|".join(map(re.escape, OTHER)), text))
    assert len(places) == 2 * each * 5 and not given.differs()
    for place in places:
        assert given.differs(lambda text: text[:place.start()] + OTHER[place[0]] + text[place.end():])

"""Grid kernels against the interpreter, bit for bit, thread by thread on the host in several orders."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from diffuse.ir import Privilege
from diffuse.kernels.body.expr import Argument, Body, Loop, Op, Space
from diffuse.kernels.grid import emit, schedule
from diffuse.kernels.llvm.code import Code
from diffuse.kernels.targets.nvptx import Nvptx
from diffuse.kernels.targets.simt import simt
from tests.applications import results
from tests.bodies import Case, agreeing
from tests.each import rounds
from tests.simt import disagreement
from tests.test_math import body

pytest.importorskip("llvmlite", reason="kernels are compiled by llvmlite")

EVERY = 50
FORMS = {"elements", "rows", "columns", "scan", "chunks", "results", "together"}


@pytest.mark.parametrize("first", range(0, rounds(200, 500), EVERY))
def test_random_bodies_have_the_interpreters_bits_in_every_order_of_threads(first: int) -> None:
    seen = agreeing(range(first, first + EVERY), disagreement)
    assert seen >= FORMS - {"scan"}


def reduction(classes: str, operator: str = "sum", dtype: str = "float64", rank: int = 2) -> Body:
    """Load, and fold into an argument of these letters."""
    whole = "s" * (rank - 1) + "1"
    arguments = (Argument(0, 0, dtype, 0, whole, Privilege.READ),
                 Argument(1, 0, dtype, 0, classes, Privilege.WRITE))
    ops = (Op("load", dtype, (), 0), Op("reduce", dtype, (0,), (operator, 1)))
    return Body((Space(rank, (0,)),), arguments, (), (Loop(0, tuple(range(rank)), ops),))


def names(body: Body, *extents: int) -> list[tuple[str, int, int]]:
    planned = schedule.kernels(body)
    return [(k.name, groups, argument) for k, groups, argument in schedule.launches(body, planned, [extents])]


def test_a_sum_of_rows_is_a_warp_for_each_leaf_and_then_its_tree() -> None:
    assert names(reduction("s0"), 100, 30000) == [("loop0", 738, 0), ("chunks0", 100, 1)]
    assert names(reduction("0", rank=1), 3000) == [("loop0", 1, 0), ("chunks0", 1, 1)]
    assert names(reduction("s0"), 100, 500) == [("loop0", 13, 0), ("results0", 1, 0)]
    assert names(reduction("0", rank=1), 10 ** 9) == [
        ("loop0", 244141, 0), ("chunks0", 3815, 1), ("chunks0", 8, 512), ("chunks0", 1, 512 * 512)]


def test_a_thread_folds_32_leaves_of_a_column_or_of_a_short_row() -> None:
    assert names(reduction("01"), 64, 10000) == [("loop0", 80, 8), ("trees0", 40, 0)]
    assert names(reduction("01"), 64, 3) == [("loop0", 1, 2), ("trees0", 1, 0)]
    assert names(reduction("01"), 32 * 33, 1000) == [("loop0", 132, 8), ("trees0", 8, 0), ("trees0", 4, 5)]
    assert names(reduction("s0"), 10000, 1000) == [("loop0", 2500, 0), ("trees0", 40, 0)]
    assert names(reduction("s0"), 100, 3000) == [("loop0", 75, 0), ("trees0", 1, 0)]


def test_nothing_is_launched_for_empty_spaces() -> None:
    assert names(reduction("s0"), 0, 5) == names(reduction("01"), 5, 0) == []


def test_a_loop_that_folds_in_two_ways_is_two_kernels_of_which_the_last_stores() -> None:
    body = reduction("s0")
    both = Body(body.spaces, (*body.arguments, Argument(2, 0, "float64", 0, "01", Privilege.WRITE),
                              Argument(0, 0, "float64", 0, "s1", Privilege.WRITE)), (),
                (Loop(0, (0, 1), (*body.loops[0].ops, Op("reduce", "float64", (0,), ("sum", 2)),
                                  Op("store", "float64", (0,), 3))),))
    first, second = [k for k in schedule.kernels(both) if k.form not in ("trees", "chunks", "results")]
    assert (first.form, first.folds, first.stores) == ("rows", (1,), False)
    assert (second.form, second.folds, second.stores) == ("columns0", (2,), True)
    assert schedule.needed(both.loops[0], first) == [0, 1]


def test_short_rows_share_a_group() -> None:
    assert schedule.shift(3) == 2 and schedule.shift(1) == 0 and schedule.shift(1000) == 8


def test_no_thread_is_idle_because_a_dimension_is_short() -> None:
    """Rows are numbered through all dimensions but the last one."""
    arguments = (Argument(0, 0, "complex128", 0, "ss1", Privilege.READ),
                 Argument(1, 0, "complex128", 0, "ss1", Privilege.WRITE))
    ops = (Op("load", "complex128", (), 0), Op("store", "complex128", (0,), 1))
    copy = Body((Space(3, (0,)),), arguments, (), (Loop(0, (0, 1, 2), ops),))
    for extents, groups in (((5000, 1, 1), 20), ((1 << 33, 1, 1), 1 << 25), ((5000, 3, 3), 235),
                            ((7, 5000, 1), 137), ((10, 10, 5000), 2000)):
        assert names(copy, *extents)[0][:2] == ("loop0", groups)


@pytest.mark.parametrize("name", ["stencil", "channel_flow"])
def test_rows_that_a_thread_computes_one_after_another(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "BUSY", 3)
    here, there = results(name, "local", 90), results(name, "simt", 90)
    for key, array in here.items():
        assert there[key].tobytes() == array.tobytes(), key


def test_many_groups_leave_enough_for_the_device() -> None:
    many = [1, schedule.BUSY, 2 * schedule.BUSY, 9 * schedule.BUSY]
    assert [schedule.repeats(groups) for groups in many] == [0, 0, 1, 3]


def large() -> Body:
    """The tangent of complex numbers, with more spaces than a GPU's kernel has parameters for."""
    arguments = (Argument(0, 0, "complex128", 0, "1", Privilege.READ),
                 Argument(1, 0, "complex128", 0, "1", Privilege.WRITE))
    ops = (Op("load", "complex128", (), 0), Op("tanh", "complex128", (0,)),
           Op("store", "complex128", (1,), 1))
    return Body((Space(1, (0,)),) * 2100, arguments, (), (Loop(0, (0,), ops),))


def test_a_kernel_of_too_many_parameters_is_refused_on_a_gpu() -> None:
    with pytest.raises(schedule.Refused, match="its parameters take 336.. bytes"):
        emit.for_gpu(large(), Nvptx())


class Library(Nvptx):
    """A target that calls the C library, which GPUs lack."""

    def math(self, code: Code, name: str, dtype: str, values: tuple[str, ...]) -> str:
        code.declare(f"declare double @{name}(double)")
        return code.let(f"call double @{name}(double {values[0]})")


def test_a_function_of_the_c_library_is_refused_on_a_gpu_with_its_name() -> None:
    with pytest.raises(schedule.Refused, match="tanh is a function of the C library"):
        emit.for_gpu(body("tanh", "float64"), Library())


def test_the_kernels_of_a_sum_of_rows(golden: Callable[[str], None]) -> None:
    golden(emit.for_gpu(reduction("s0"), Nvptx()))


def test_a_phase_is_written_once_and_a_barrier_stands_where_threads_wait_for_each_other() -> None:
    """The levels of a tree are a loop around one phase, and lane 0 writes the leaf that it folded last."""
    text = emit.for_gpu(reduction("0", rank=1), Nvptx())
    assert "trees" not in text  # there is one output
    calls = re.findall(r"call void @(\w+)\(", text)
    assert max(calls.count(name) for name in set(calls) if "nvvm" not in name) == 2
    for name, barrier in ("loop0", "llvm.nvvm.bar.warp.sync"), ("chunks0", "llvm.nvvm.barrier0"):
        entry = text.partition(f"void @{name}(")[2].partition("\n}")[0]
        called = [line.split("@")[1].split("(")[0] for line in entry.splitlines() if " call void" in line]
        assert called == [f"{name}_0", barrier, f"{name}_1", barrier, f"{name}_2"]


# Faults that have to show


def without_barriers(text: str) -> str:
    """Each thread goes through all phases of a kernel before the next thread begins."""
    entries = text.split("define void @")
    for number, entry in enumerate(entries[1:], 1):
        calls = [line for line in entry.splitlines() if line.startswith("  call void @")]
        first, *others = calls
        entry = entry.replace(first, "\n".join(re.sub(r"%thread\d+", "%thread0", call) for call in calls))
        entries[number] = "\n".join(line for line in entry.splitlines() if line not in others)
    return "define void @".join(entries)


FAULTS: dict[str, Callable[[str], str]] = {
    "no barriers": without_barriers,
    "short leaves": lambda text: re.sub(r"(add i64 %v\d+), 511", r"\1, 510", text),
    "sums that start from 1": lambda text: text.replace("store double 0x0000000000000000",
                                                        "store double 0x3FF0000000000000"),
    "the wrong half": lambda text: text.replace("lshr i64 16, %step", "lshr i64 15, %step"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_of_kernels_are_seen(fault: str) -> None:
    """What the orders of threads and the comparison are for: kernels with a fault differ."""
    found = 0
    for seed in range(60):
        case = Case(seed)
        try:
            source = emit.for_host(case.body, simt())
            changed = FAULTS[fault](source)
            if changed != source and disagreement(case, FAULTS[fault])[1]:
                found += 1
        except schedule.Refused:
            continue
    assert found

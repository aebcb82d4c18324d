"""Compiled kernels against the interpreter, bit for bit, on random bodies."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diffuse.ir import Privilege
from diffuse.kernels.body import abi
from diffuse.kernels.llvm import flat
from diffuse.kernels.llvm.code import Code, Module
from diffuse.kernels.meaning import interpret
from diffuse.kernels.targets.host import host
from tests import machine_code
from tests.bodies import Case, differences
from tests.each import rounds

jit = pytest.importorskip("diffuse.kernels.build.jit", reason="no compiler of kernels here")
pytest.importorskip("llvmlite", reason="kernels are compiled by llvmlite")


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nothing compiled here goes to the user's cache."""
    from diffuse import settings as declared

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(declared.config, "cache_dir", str(tmp_path_factory.mktemp("cache")))
        yield


def agree(case: Case) -> None:
    before = case.save()
    partials = case.partials()  # the addresses among the values are theirs
    values = case.values(1, partials)
    interpret.point(case.body, values, 0)
    expected = case.save()
    native = jit.compile(case.body)
    for points in sorted({1, case.points}):
        case.restore(before)
        partials = case.partials()
        machine_code.run(native, case.body, case.values(points, partials), points)
        assert not differences(case.memory, expected), f"compiled, {points} points\n{case.body}"
        for word in partials:
            assert (word[-16:] == 0xAB).all(), f"a kernel wrote behind its partials\n{case.body}"


@settings(max_examples=rounds(75, 150), deadline=None, derandomize=True)
@given(st.integers(0, 1 << 30))
def test_compiled_and_interpreted_agree(seed: int) -> None:
    agree(Case(seed))


@settings(max_examples=rounds(40, 80), deadline=None, derandomize=True)
@given(st.integers(0, 1 << 30))
def test_the_interpreter_calls_the_same_vector_math(seed: int) -> None:
    agree(Case(seed, transcendental=True))


@settings(max_examples=rounds(20, 40), deadline=None, derandomize=True)
@given(st.integers(0, 1 << 30))
def test_short_rows_run_as_one_loop(seed: int) -> None:
    agree(Case(seed, transcendental=seed % 4 == 0, flat=True))


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.integers(0, 1 << 30))
def test_points_complete_the_rows_that_they_have(seed: int) -> None:
    agree(Case(seed, rows=True))


def test_later_loops_read_such_rows() -> None:
    bodies = [case.body for case in (Case(seed, rows=True) for seed in range(60)) if case.points > 1]
    assert sum(any(a.slot == body.arguments[r.argument].slot and a.privilege is Privilege.READ
                   for r in abi.reductions(body) for a in body.arguments) for body in bodies) > 10


def test_many_of_these_bodies_run_run_as_one_loop() -> None:
    code = Code(Module(host()), host().lanes)
    bodies = [Case(seed, flat=True).body for seed in range(60)]
    loops = [(body, loop) for body in bodies for loop in body.loops]
    found = [loop for body, loop in loops if flat.applies(body, loop, abi.order_of(body, loop), code)]
    assert len(found) > len(loops) // 5
    letters = {body.arguments[op.attribute].classes[-2:] for body, loop in loops if loop in found
               for op in loop.ops if op.kind == "load"}
    assert letters >= {"c1", "01", "0s", "10"}


@settings(max_examples=rounds(30, 60), deadline=None, derandomize=True)
@given(st.integers(0, 1 << 30))
def test_points_of_a_launch_may_be_compiled_and_interpreted_in_any_mixture(seed: int) -> None:
    """The switch from one to the other must not show: the partial results have one layout."""
    import ctypes

    case = Case(seed, rows=seed % 3 == 0)
    before = case.save()
    partials = case.partials()
    interpret.point(case.body, case.values(1, partials), 0)
    expected = case.save()
    native = jit.compile(case.body)
    partials = case.partials()
    values = case.values(case.points, partials)
    block = abi.layout(case.body).pack(*values)
    kernel = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_int64)(native.address)
    case.restore(before)
    for p in range(case.points):
        if p % 2:
            kernel(block, p)
        else:
            interpret.point(case.body, values, p)
    if seed % 2 and native.finish and case.points > 1:
        ctypes.CFUNCTYPE(None, ctypes.c_char_p)(native.finish)(block)
    else:
        interpret.finish(case.body, values)
    assert not differences(case.memory, expected), f"{case.points} points, mixed\n{case.body}"

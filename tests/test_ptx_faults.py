"""What the PTX machine's kernels must not do faults, with the line; what they may do works."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import pytest

from diffuse.kernels.build import ptx
from tests.ptx.memory import GAP
from tests.ptx_machine import Fault, Machine, Memory, PtxError

KERNEL = """.version 8.1
.target sm_80
.address_size 64
.visible .entry k(
	.param .u64 k_param_0,
	.param .u64 k_param_1
)
.maxntid 64
{
	.reg .pred %p<9>;
	.reg .b32 %r<9>;
	.reg .b64 %d<20>;
	.shared .align 16 .b8 s[512];
	ld.param.b64 %d0, [k_param_0];
	ld.param.b64 %d1, [k_param_1];
	mov.u32 %r0, %tid.x;
	mov.u32 %r1, %ctaid.x;
	mad.lo.s32 %r2, %r1, 64, %r0;
	mul.wide.u32 %d2, %r2, 8;
	mul.wide.u32 %d3, %r0, 8;
	add.s64 %d4, %d0, %d2;
	add.s64 %d5, %d1, %d2;
	mov.b64 %d6, s;
	add.s64 %d7, %d6, %d3;
	cvt.u64.u32 %d8, %r2;
BODY
	ret;
}
"""
"""Each thread's element of eight bytes: %d4 of what the first parameter points at, %d5 of the second,
%d7 in shared memory; its number among all threads is %d8, in its group %r0; the group is %r1."""


def run(*lines: str, groups: int = 2, given: Sequence[int] = range(128)) -> list[int]:
    """Run these lines; what the first parameter points at afterwards."""
    memory = Memory()
    first, second = memory.allocate(8 * 128), memory.allocate(8 * 128)
    memory.write(first, np.array(given, "u8").tobytes())
    memory.write(second, np.zeros(128, "u8").tobytes())
    machine = Machine(KERNEL.replace("BODY", "\n".join("\t" + line for line in lines)))
    machine.launch("k", groups, struct.pack("<QQ", first, second), memory)
    return [int(x) for x in np.frombuffer(memory.read(first, 8 * 128), "u8")]


def test_threads_see_what_they_stored_themselves_and_what_others_stored_before_a_barrier() -> None:
    found = run("st.shared.b64 [%d7], %d8;", "ld.shared.b64 %d9, [%d7];", "bar.sync 0;",
                "xor.b64 %d10, %d3, 504;", "add.s64 %d10, %d10, %d6;", "ld.shared.b64 %d11, [%d10];",
                "mad.lo.s64 %d12, %d9, 1000, %d11;", "st.global.b64 [%d4], %d12;")
    assert found == [1000 * k + (k // 64 * 64 + 63 - k % 64) for k in range(128)]


def test_threads_of_a_warp_see_what_these_stored_before_their_barrier() -> None:
    lines = ("st.shared.b64 [%d7], %d8;", "bar.warp.sync -1;", "xor.b64 %d10, %d3, MASK;",
             "add.s64 %d10, %d10, %d6;", "ld.shared.b64 %d11, [%d10];", "st.global.b64 [%d4], %d11;")
    within, across = ([line.replace("MASK", mask) for line in lines] for mask in ("248", "256"))
    assert run(*within) == [k // 64 * 64 + (k % 64 ^ 31) for k in range(128)]
    with pytest.raises(Fault, match=r"race of .* line \d+: (st|ld)\."):
        run(*across)


RACES = {
    "a load of what another thread stored": ["st.shared.b64 [%d7], %d8;", "xor.b64 %d10, %d3, 8;",
                                             "add.s64 %d10, %d10, %d6;", "ld.shared.b64 %d11, [%d10];"],
    "a store over what another thread loaded": ["ld.shared.b64 %d11, [%d6];", "setp.ne.b32 %p1, %r0, 5;",
                                                "@%p1 bra $L;", "st.shared.b64 [%d6], %d8;", "$L:"],
    "stores of two values to one place": ["st.shared.b64 [s], %d8;"],
    "a narrow store over a wide one": ["st.shared.b64 [%d7], %d8;", "st.shared.b8 [s+63], %r0;"],
    "groups that store to one place": ["bar.sync 0;", "st.global.b32 [%d0], %r1;"],
    "groups that read what others store": ["st.global.b64 [%d4], %d8;", "bar.sync 0;",
                                           "ld.global.b64 %d9, [%d0+512];"],
    "a read-only load of what is stored": ["ld.global.nc.b64 %d9, [%d4];", "st.global.b64 [%d4], %d8;"],
}


@pytest.mark.parametrize("at_once", [64, 1])
@pytest.mark.parametrize("race", RACES)
def test_races_fault(race: str, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also between groups that do not run at the same time."""
    monkeypatch.setattr("tests.ptx_machine.AT_ONCE", at_once)
    with pytest.raises(Fault, match=r"race of .* line \d+: (st|ld)\."):
        run(*RACES[race])


def test_equal_stores_to_one_place_and_common_loads_are_no_races() -> None:
    run("st.global.b64 [%d0], 5;", "ld.global.nc.b64 %d9, [%d1];", "ld.global.b64 %d9, [%d1+8];")


BAD = {
    "outside of allocation of 1024 bytes: .*, 1536 bytes from its start": ["ld.global.b64 %d9, [%d4+520];"],
    "outside of memory": [f"ld.global.b64 %d9, [%d5+{1024 + GAP // 2}];"],
    "outside of shared memory of 512 bytes": ["st.shared.b64 [%d7+8], %d8;"],
    "outside of local memory": ["st.local.b64 [100000], %d8;"],
    "misaligned address": ["ld.global.b64 %d9, [%d4+4];"],
    "misaligned address .* of 16 bytes": ["ld.global.v2.b64 {%d9, %d10}, [%d4];"],
    "divided by zero": ["div.u64 %d9, %d8, %d8;"],
    "%d19 was not written": ["add.s64 %d9, %d19, 1;"],
    "a trap": ["trap;"],
    "not all threads of a group": ["setp.eq.b32 %p1, %r0, 5;", "@%p1 bra $L;", "bar.sync 0;", "$L:"],
    "not all threads of a group arrive": ["setp.eq.b32 %p1, %r0, 5;", "@%p1 bra $L;", "bar.sync 0;", "ret;",
                                          "$L:", "bar.sync 0;"],
}


@pytest.mark.parametrize("message", BAD)
def test_bad_accesses_and_barriers_fault(message: str) -> None:
    with pytest.raises(Fault, match=message + ".*line"):
        run(*BAD[message])


def test_a_kernel_that_does_not_end_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.ptx.threads.STEPS", 1000)
    with pytest.raises(Fault, match="does not end"):
        run("$L:", "bra.uni $L;")


def test_threads_go_different_ways_and_meet_again() -> None:
    """Thread t goes t times through a loop."""
    found = run("mov.b64 %d9, 0;", "mov.b64 %d10, 0;", "setp.eq.b64 %p1, %d8, 0;", "@%p1 bra $E;",
                "$L:", "add.s64 %d9, %d9, 1;", "add.s64 %d10, %d10, %d9;", "setp.lt.u64 %p2, %d9, %d8;",
                "@%p2 bra $L;", "$E:", "st.global.b64 [%d4], %d10;")
    assert found == [t * (t + 1) // 2 for t in range(128)]


def test_one_instruction_accesses_several_allocations() -> None:
    found = run("st.global.b64 [%d5], 3;", "and.b64 %d9, %d8, 1;", "setp.eq.b64 %p1, %d9, 0;",
                "selp.b64 %d10, %d4, %d5, %p1;", "ld.global.b64 %d11, [%d10];", "add.s64 %d11, %d11, 1;",
                "st.global.b64 [%d10], %d11;", "ld.global.b64 %d12, [%d5];",
                "mad.lo.s64 %d13, %d12, 100, %d8;", "st.global.b64 [%d4], %d13;")
    assert found == [k + (400 if k % 2 else 300) for k in range(128)]


def test_vectors_are_loaded_and_stored_at_once() -> None:
    found = run("add.s64 %d9, %d4, %d2;", "ld.global.v2.b64 {%d10, %d11}, [%d9];",
                "st.global.v2.b64 [%d9], {%d11, %d10};", groups=1)
    assert found == [k ^ 1 for k in range(128)]


def test_memory_is_checked() -> None:
    memory = Memory()
    first = memory.allocate(100)
    memory.write(first + 50, b"abc")
    assert memory.read(first + 51, 2) == b"bc" and memory.read(first, 0) == b""
    with pytest.raises(Fault, match="not inside of an allocation"):
        memory.read(first + 99, 2)
    memory.free(first)
    for act in (lambda: memory.read(first, 1), lambda: memory.free(first), lambda: memory.write(first, b"x")):
        with pytest.raises(Fault, match="not"):
            act()


def test_parameters_have_to_fit() -> None:
    machine = Machine(KERNEL.replace("BODY", ""))
    assert machine.kernels == ["k"]
    with pytest.raises(ValueError, match="k takes 16 bytes of parameters, not 8"):
        machine.launch("k", 1, bytes(8), Memory())
    with pytest.raises(PtxError, match="line 26.*nowhere"):
        Machine(KERNEL.replace("BODY", "call.uni nowhere, ();"))


MODULE = """
@table = internal unnamed_addr constant [4 x double] [double 1.0, double 2.5, double 3.0, double -0.0]
@pairs = internal constant [2 x {i32, i8}] [{i32, i8} {i32 5, i8 1}, {i32, i8} {i32 -6, i8 2}]
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.bitreverse.i32(i32)
define internal {double, i64} @helper(double %x, i64 %n, ptr %out) noinline {
  %room = alloca [4 x i64], align 8
  %k = and i64 %n, 3
  %p = getelementptr i64, ptr %room, i64 %k
  store i64 7, ptr %room
  store i64 %n, ptr %p
  %v = load i64, ptr %room
  %w = add i64 %v, 1
  store i64 %w, ptr %out
  %t = getelementptr double, ptr @table, i64 %k
  %d = load double, ptr %t
  %e = fadd double %d, %x
  %r = insertvalue {double, i64} undef, double %e, 0
  %s = insertvalue {double, i64} %r, i64 %v, 1
  ret {double, i64} %s
}
define ptx_kernel void @k(ptr byval([2 x i64]) align 8 %block, i64 %argument) "nvvm.maxntid"="64" {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %n = zext i32 %t to i64
  %x = uitofp i64 %n to double
  %kept = alloca i64
  %base = load ptr, ptr %block
  %odd = and i64 %n, 1
  %is = icmp ne i64 %odd, 0
  br i1 %is, label %call, label %done
call:
  %r = call {double, i64} @helper(double %x, i64 %n, ptr %kept)
  %d = extractvalue {double, i64} %r, 0
  %i = extractvalue {double, i64} %r, 1
  %o = load i64, ptr %kept
  %pp = getelementptr {i32, i8}, ptr @pairs, i64 %argument
  %pv = load i32, ptr %pp
  %pw = sext i32 %pv to i64
  %b = call i32 @llvm.bitreverse.i32(i32 %t)
  %bw = zext i32 %b to i64
  %s1 = add i64 %i, %o
  %s2 = add i64 %s1, %pw
  %s3 = add i64 %s2, %bw
  %at = getelementptr {double, i64}, ptr %base, i64 %n
  store double %d, ptr %at
  %behind = getelementptr i8, ptr %at, i64 8
  store i64 %s3, ptr %behind
  br label %done
done:
  ret void
}
"""


def test_calls_local_memory_and_tables() -> None:
    """What LLVM writes of functions that are not inlined."""
    text = ptx.compile(MODULE, "sm_80")
    assert "call.uni" in text and ".local" in text and ".global .align" in text
    memory = Memory()
    address = memory.allocate(64 * 16)
    memory.write(address, bytes(64 * 16))
    Machine(text).launch("k", 1, struct.pack("<QQQ", address, 0, 1), memory)
    found = np.frombuffer(memory.read(address, 64 * 16), [("d", "f8"), ("i", "i8")])
    table = [1.0, 2.5, 3.0, -0.0]
    for n, (d, i) in enumerate(found.tolist()):
        if n % 2:
            assert d == table[n % 4] + n and i == 7 + 8 - 6 + int(f"{n:032b}"[::-1], 2)
        else:
            assert (d, i) == (0, 0)

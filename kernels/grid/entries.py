"""The entry points of kernels: they call a kernel's phases, with a barrier between two of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from diffuse.kernels.grid.schedule import THREADS, TOGETHER

GPU = f"""declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare void @llvm.nvvm.barrier0()
declare void @llvm.nvvm.bar.warp.sync(i32)
attributes #0 = {{ "nvvm.maxntid"="{THREADS}" }}
!900 = distinct !{{!900, !901}}
!901 = !{{!"llvm.loop.unroll.disable"}}"""
"""The template of a GPU entry point, with its declarations."""

_GPU = """define ptx_kernel void @NAME(ptr byval([WORDS x i64]) align 8 %block, i64 %argument) nounwind #0 {
entry:
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %g = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %thread = zext i32 %t to i64
  %group = zext i32 %g to i64
PHASES
  ret void
}"""

BARRIER = "  call void @llvm.nvvm.barrier0()"
WARP_BARRIER = "  call void @llvm.nvvm.bar.warp.sync(i32 -1)"
"""Makes the threads of a warp wait for each other, and sees to it that they see what they wrote."""


class Phase(NamedTuple):
    """A phase of a kernel, by the name of its function."""

    name: str
    times: int
    """The number of repetitions."""
    barrier: str = BARRIER
    """What makes threads wait before the next phase, or repetition, begins."""


class _Text:
    """The text of a function being written."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.block = "entry"
        """The block that is being written."""
        self.loops = 0

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")
        self.block = name

    def run(self, phases: Sequence[Phase], shared: str, group: str, argument: str) -> None:
        """Call phases, with barriers between them."""
        for phase in phases:
            given = f"ptr %block, ptr {shared}, i64 {group}, i64 %thread, i64 {argument}"
            if phase.times == 1:
                self.lines.append(f"  call void @{phase.name}({given}, i64 0)")
                if phase is not phases[-1]:
                    self.lines.append(phase.barrier)
                continue
            k, before = self.loops, self.block
            self.loops += 1
            self.lines.append(f"  br label %loop{k}")
            self.label(f"loop{k}")
            self.lines += [f"  %step{k} = phi i64 [ 0, %{before} ], [ %next{k}, %loop{k} ]",
                           f"  call void @{phase.name}({given}, i64 %step{k})", phase.barrier,
                           f"  %next{k} = add i64 %step{k}, 1",
                           f"  %more{k} = icmp ult i64 %next{k}, {phase.times}",
                           f"  br i1 %more{k}, label %loop{k}, label %end{k}, !llvm.loop !900"]
            self.label(f"end{k}")


def gpu(name: str, phases: Sequence[Phase], size: int, words: int) -> str:
    """The entry point of a GPU kernel, whose groups share `size` bytes, with a block of `words` words."""
    shared, lines = _shared(name, size)
    text = _Text()
    text.run(phases, shared, "%group", "%argument")
    lines.append(_GPU.replace("NAME", name).replace("WORDS", str(words))
                 .replace("PHASES", "\n".join(text.lines)))
    return "\n".join(lines)


def _shared(name: str, size: int) -> tuple[str, list[str]]:
    """The memory that the groups of a kernel share, and its definition."""
    if not size:
        return "null", []
    return (f"addrspacecast (ptr addrspace(3) @{name}_shared to ptr)",
            [f"@{name}_shared = internal addrspace(3) global [{size} x i8] undef, align 16"])


def gpu_together(members: Sequence[tuple[Sequence[Phase], int]], chunk: int, size: int, words: int) -> str:
    """The entry point of a kernel that runs the members whose bits are set in its argument, in one group, one
    after another.  Members are given by their phases and arguments; they use the same shared memory.

    Adjacent members with equal phases become one loop; their arguments are successive powers of `chunk`.
    """
    text, k = _Text(), 0
    shared, lines = _shared(TOGETHER, size)
    while k < len(members):
        phases, first = members[k]
        last = k
        while last + 1 < len(members) and members[last + 1][0] == phases:
            last += 1
        before = text.block
        text.lines.append(f"  br label %member{k}")
        text.label(f"member{k}")
        text.lines += [f"  %bit{k} = phi i64 [ {1 << k}, %{before} ], [ %left{k}, %after{k} ]",
                       f"  %each{k} = phi i64 [ {first}, %{before} ], [ %far{k}, %after{k} ]",
                       f"  %both{k} = and i64 %argument, %bit{k}",
                       f"  %wanted{k} = icmp ne i64 %both{k}, 0",
                       f"  br i1 %wanted{k}, label %do{k}, label %after{k}"]
        text.label(f"do{k}")
        text.run(phases, shared, "0", f"%each{k}" if last > k else str(first))
        if phases[-1].times == 1:
            text.lines.append(BARRIER)
        text.lines.append(f"  br label %after{k}")
        text.label(f"after{k}")
        text.lines += [f"  %left{k} = shl i64 %bit{k}, 1", f"  %far{k} = mul i64 %each{k}, {chunk}",
                       f"  %others{k} = icmp ult i64 %bit{k}, {1 << last}",
                       f"  br i1 %others{k}, label %member{k}, label %behind{k}, !llvm.loop !900"]
        text.label(f"behind{k}")
        k = last + 1
    lines.append(_GPU.replace("NAME", TOGETHER).replace("WORDS", str(words))
                 .replace("PHASES", "\n".join(text.lines)))
    return "\n".join(lines)


def host_together(members: Sequence[tuple[str, int]]) -> str:
    """The entry point of several kernels for the host; members are given by their names and arguments."""
    lines = [f"define void @{TOGETHER}(ptr %block, i64 %groups, i64 %argument, i64 %order) nounwind {{"]
    for k, (name, argument) in enumerate(members):
        lines += [f"  %bit{k} = and i64 %argument, {1 << k}",
                  f"  %wanted{k} = icmp ne i64 %bit{k}, 0",
                  f"  %groups{k} = zext i1 %wanted{k} to i64",
                  f"  call void @{name}(ptr %block, i64 %groups{k}, i64 {argument}, i64 %order)"]
    return "\n".join([*lines, "  ret void", "}"])


HOST = """define void @NAME(ptr %block, i64 %groups, i64 %argument, i64 %order) nounwind {
entry:
  %shared = alloca [SIZE x i8], align 16
  %back = icmp eq i64 %order, 1
  %mixed = icmp eq i64 %order, 2
  br label %head
head:
  %count = phi i64 [ 0, %entry ], [ %next, %phaseLAST ]
  %more = icmp ult i64 %count, %groups
  %left = sub i64 %groups, %count
  %behind = sub i64 %left, 1
  %group = select i1 %back, i64 %behind, i64 %count
  br i1 %more, label %phase0, label %done
PHASES
phaseLAST:
  %next = add i64 %count, 1
  br label %head
done:
  ret void
}"""
"""The orders of threads: 0 forwards, 1 backwards, 2 mixed, by a factor that is coprime to their number."""

_PHASE = """phaseK:
  br label %headK
headK:
  %iK = phi i64 [ 0, %phaseK ], [ %jK, %insideK ]
  %moreK = icmp ult i64 %iK, THREADS
  br i1 %moreK, label %insideK, label %phaseNEXT
insideK:
  %behindK = sub i64 LAST, %iK
  %farK = mul i64 %iK, 77
  %mixedK = and i64 %farK, LAST
  %backK = select i1 %back, i64 %behindK, i64 %iK
  %threadK = select i1 %mixed, i64 %mixedK, i64 %backK
  call void @NAME(ptr %block, ptr %shared, i64 %group, i64 %threadK, i64 %argument, i64 STEP)
  %jK = add i64 %iK, 1
  br label %headK"""


def host(name: str, phases: Sequence[Phase], size: int) -> str:
    """The entry point of a kernel that the host runs, whose groups share so many bytes."""
    runs = [(phase.name, step) for phase in phases for step in range(phase.times)]
    written = [_PHASE.replace("NEXT", str(k + 1)).replace("LAST", str(THREADS - 1)).replace("STEP", str(step))
               .replace("THREADS", str(THREADS)).replace("NAME", phase).replace("K", str(k))
               for k, (phase, step) in enumerate(runs)]
    return (HOST.replace("NAME", name).replace("SIZE", str(max(size, 16))).replace("LAST", str(len(runs)))
            .replace("PHASES", "\n".join(written)))

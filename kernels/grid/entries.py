"""The functions that are launched: they call a kernel's phases, and all threads wait between two of them."""

from __future__ import annotations

from collections.abc import Sequence

from diffuse.kernels.grid.schedule import THREADS, TOGETHER

GPU = f"""declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare void @llvm.nvvm.barrier0()
attributes #0 = {{ "nvvm.maxntid"="{THREADS}" }}"""
"""What the functions for a GPU need."""

_GPU = """define ptx_kernel void @NAME(ptr byval([WORDS x i64]) align 8 %block, i64 %argument) nounwind #0 {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %g = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %thread = zext i32 %t to i64
  %group = zext i32 %g to i64
PHASES
  ret void
}"""


def gpu(name: str, phases: Sequence[str], size: int, words: int) -> str:
    """A kernel for a GPU, whose groups share so many bytes, with a block of so many words."""
    shared, lines = "null", []
    if size:
        shared = f"addrspacecast (ptr addrspace(3) @{name}_shared to ptr)"
        lines.append(f"@{name}_shared = internal addrspace(3) global [{size} x i8] undef, align 16")
    given = f"ptr %block, ptr {shared}, i64 %group, i64 %thread, i64 %argument"
    calls = "\n  call void @llvm.nvvm.barrier0()\n".join(f"  call void @{phase}({given})" for phase in phases)
    lines.append(_GPU.replace("NAME", name).replace("WORDS", str(words)).replace("PHASES", calls))
    return "\n".join(lines)


def gpu_together(members: Sequence[tuple[Sequence[str], int]], words: int) -> str:
    """The kernel of one group that runs one after another those members, given by their phases and arguments,
    whose bits are set in its own argument."""
    lines = []
    for k, (phases, argument) in enumerate(members):
        lines += [f"  %bit{k} = and i64 %argument, {1 << k}",
                  f"  %wanted{k} = icmp ne i64 %bit{k}, 0",
                  f"  br i1 %wanted{k}, label %do{k}, label %after{k}",
                  f"do{k}:"]
        for phase in phases:
            lines += [f"  call void @{phase}(ptr %block, ptr null, i64 0, i64 %thread, i64 {argument})",
                      "  call void @llvm.nvvm.barrier0()"]
        lines += [f"  br label %after{k}", f"after{k}:"]
    return (_GPU.replace("NAME", TOGETHER).replace("WORDS", str(words))
            .replace("PHASES", "\n".join(lines)))


def host_together(members: Sequence[tuple[str, int]]) -> str:
    """The same for the host, of members given by their names and arguments."""
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
"""Orders: 0 forwards, 1 backwards, 2 threads mixed, by a factor that is coprime to their number."""

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
  call void @NAME(ptr %block, ptr %shared, i64 %group, i64 %threadK, i64 %argument)
  %jK = add i64 %iK, 1
  br label %headK"""


def host(name: str, phases: Sequence[str], size: int) -> str:
    """A kernel that the host runs, whose groups share so many bytes."""
    written = [_PHASE.replace("NEXT", str(k + 1)).replace("LAST", str(THREADS - 1))
               .replace("THREADS", str(THREADS)).replace("NAME", phase).replace("K", str(k))
               for k, phase in enumerate(phases)]
    return (HOST.replace("NAME", name).replace("SIZE", str(max(size, 16))).replace("LAST", str(len(phases)))
            .replace("PHASES", "\n".join(written)))

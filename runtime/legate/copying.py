"""Kernels that copy boxes of elements between two layouts on a GPU, for native/grid.h.

A kernel takes a block of words: two that it does not read, the extents of seven dimensions, and for the
source and then the target an address and seven strides in bytes.  A thread copies one element of 8, 4 or 1
bytes; a group covers two dimensions as those of kernels/grid/ do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

UNITS = (8, 4, 1)
"""Bytes of an element."""
NAMES = tuple(f"copy{unit}" for unit in UNITS)
BOX = 7
"""Dimensions."""
WORDS = 2 + BOX + 2 * (1 + BOX)
THREADS = 256


def for_host() -> str:
    """The module with `void kernel(ptr block, i64 groups, i64 argument, i64 order)`."""
    return "\n".join([_phase(unit) + _HOST.replace("UNIT", str(unit)) for unit in UNITS])


def for_gpu() -> str:
    """The module with `kernel(block, i64 argument)`."""
    return "\n".join([_HEAD, *[_phase(unit) + _GPU.replace("UNIT", str(unit)) for unit in UNITS]])


def _phase(unit: int) -> str:
    """The function that one thread runs."""
    lines = [f"define internal void @move{unit}(ptr %block, i64 %group, i64 %thread, i64 %argument) "
             "nounwind alwaysinline {"]

    def let(name: str, text: str) -> str:
        lines.append(f"  %{name} = {text}")
        return f"%{name}"

    def word(number: int, name: str) -> str:
        let(f"{name}.at", f"getelementptr i64, ptr %block, i64 {number}")
        return let(name, f"load i64, ptr %{name}.at, align 8")

    extents = [word(2 + d, f"n{d}") for d in range(BOX)]
    let("down", "sub i64 8, %argument")
    let("width", "shl i64 1, %argument")
    let("height", "shl i64 1, %down")
    across = _pieces(let, extents[-1], "width", "argument")
    below = _pieces(let, extents[-2], "height", "down")
    let("column", f"urem i64 %group, {across}")
    let("rest", f"udiv i64 %group, {across}")
    let("row", f"urem i64 %rest, {below}")
    rest = let(f"rest{BOX - 2}", f"udiv i64 %rest, {below}")
    let("mask", "sub i64 %width, 1")
    let("within", "and i64 %thread, %mask")
    let("left", "shl i64 %column, %argument")
    index = [let(f"i{BOX - 1}", "add i64 %left, %within")]
    let("above", "shl i64 %row, %down")
    let("behind", "lshr i64 %thread, %argument")
    index.insert(0, let(f"i{BOX - 2}", "add i64 %above, %behind"))
    some = [let("in.x", f"icmp ult i64 {index[1]}, {extents[-1]}"),
            let("in.y", f"icmp ult i64 {index[0]}, {extents[-2]}")]
    for d in range(BOX - 3, -1, -1):
        index.insert(0, let(f"i{d}", f"urem i64 {rest}, {extents[d]}"))
        rest = let(f"rest{d}", f"udiv i64 {rest}, {extents[d]}")
    let("some", f"and i1 {some[0]}, {some[1]}")
    lines += ["  br i1 %some, label %copy, label %done", "copy:"]
    for k, name in enumerate(("from", "to")):
        first = 2 + BOX + k * (1 + BOX)
        _address(let, word, name, first, index)
    lines += [f"  %value = load i{8 * unit}, ptr %from, align {unit}",
              f"  store i{8 * unit} %value, ptr %to, align {unit}",
              "  br label %done", "done:", "  ret void", "}", ""]
    return "\n".join(lines)


def _pieces(let: Callable[[str, str], str], extent: str, size: str, bits: str) -> str:
    """The number of pieces of 2 ** bits that an extent has."""
    let(f"{size}.less", f"sub i64 %{size}, 1")
    let(f"{size}.up", f"add i64 {extent}, %{size}.less")
    return let(f"{size}.count", f"lshr i64 %{size}.up, %{bits}")


def _address(let: Callable[[str, str], str], word: Callable[[int, str], str], name: str, first: int,
             index: Sequence[str]) -> None:
    """The address of an element in the source or the target."""
    at = word(first, f"{name}.base")
    for d, i in enumerate(index):
        stride = word(first + 1 + d, f"{name}.stride{d}")
        let(f"{name}.far{d}", f"mul i64 {i}, {stride}")
        at = let(f"{name}.sum{d}", f"add i64 {at}, %{name}.far{d}")
    let(name, f"inttoptr i64 {at} to ptr")


_HEAD = f"""target triple = "nvptx64-nvidia-cuda"
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
attributes #0 = {{ "nvvm.maxntid"="{THREADS}" }}"""

_GPU = f"""define ptx_kernel void @copyUNIT(ptr byval([{WORDS} x i64]) align 8 %block, i64 %argument) #0 {{
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %g = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %thread = zext i32 %t to i64
  %group = zext i32 %g to i64
  call void @moveUNIT(ptr %block, i64 %group, i64 %thread, i64 %argument)
  ret void
}}"""

_HOST = f"""define void @copyUNIT(ptr %block, i64 %groups, i64 %argument, i64 %order) nounwind {{
entry:
  %all = mul i64 %groups, {THREADS}
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %inside ]
  %more = icmp ult i64 %i, %all
  br i1 %more, label %inside, label %done
inside:
  %group = udiv i64 %i, {THREADS}
  %thread = urem i64 %i, {THREADS}
  call void @moveUNIT(ptr %block, i64 %group, i64 %thread, i64 %argument)
  %next = add i64 %i, 1
  br label %head
done:
  ret void
}}
"""

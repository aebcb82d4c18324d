"""Sums of neighbouring floats in the order in which NumPy's `add.reduceat` adds them, as LLVM functions.

The first element is added to the sum of the others, and all that to zero.  Fewer than eight numbers are added
one after another; up to 128 by eight accumulators, which are added by pairs, and then the remainder; more are
split into two parts, which are summed in this way and added.  Source: NumPy's pairwise sum, whose error grows
with the logarithm of the number of elements.  Complex elements are pairs of numbers, of which real and
imaginary parts are added apart, by four accumulators each.
"""

from __future__ import annotations

from diffuse.ir import ITEMSIZE
from diffuse.kernels.llvm.code import COMPONENT, ELEMENT, Code, Value

_SUM = """
define internal KIND @NAME(ptr %a, i64 %n) nounwind {
entry:
  %few = icmp slt i64 %n, 8
  br i1 %few, label %rest, label %more
more:
  %fits = icmp sle i64 %n, 128
  br i1 %fits, label %eight, label %apart
apart:
  %half = lshr i64 %n, 1
  %left = and i64 %half, -8
  %right = sub i64 %n, %left
  %middle = getelementptr inbounds PART, ptr %a, i64 %left
  %x = call KIND @NAME(ptr %a, i64 %left)
  %y = call KIND @NAME(ptr %middle, i64 %right)
  %both = fadd KIND %x, %y
  ret KIND %both
eight:
  %whole = and i64 %n, -8
  %start = load <8 x PART>, ptr %a, align ALIGN
  br label %head
head:
  %i = phi i64 [ 8, %eight ], [ %j, %inside ]
  %sums = phi <8 x PART> [ %start, %eight ], [ %added, %inside ]
  %again = icmp slt i64 %i, %whole
  br i1 %again, label %inside, label %pairs
inside:
  %at = getelementptr inbounds PART, ptr %a, i64 %i
  %next = load <8 x PART>, ptr %at, align ALIGN
  %added = fadd <8 x PART> %sums, %next
  %j = add i64 %i, 8
  br label %head
pairs:
FOLDED
  br label %rest
rest:
  %k = phi i64 [ 0, %entry ], [ %whole, %pairs ], [ %l, %one ]
  %sum = phi KIND [ NONE, %entry ], [ %folded, %pairs ], [ %longer, %one ]
  %left.over = icmp slt i64 %k, %n
  br i1 %left.over, label %one, label %done
one:
  %there = getelementptr inbounds PART, ptr %a, i64 %k
  %element = load KIND, ptr %there, align ALIGN
  %longer = fadd KIND %sum, %element
  %l = add i64 %k, WIDTH
  br label %rest
done:
  ret KIND %sum
}

define internal KIND @NAME.first(ptr %a, i64 %n) nounwind noinline {
entry:
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %one, label %none
none:
  ret KIND zeroinitializer
one:
  %first = load KIND, ptr %a, align ALIGN
  %count = sub i64 %n, WIDTH
  %more = icmp sgt i64 %count, 0
  br i1 %more, label %others, label %end
others:
  %next = getelementptr inbounds PART, ptr %a, i64 WIDTH
  %rest = call KIND @NAME(ptr %next, i64 %count)
  %sum = fadd KIND %first, %rest
  br label %end
end:
  %all = phi KIND [ %first, %one ], [ %sum, %others ]
  %found = fadd KIND %all, zeroinitializer
  ret KIND %found
}
"""


def pairwise(code: Code, dtype: str, at: str, count: str) -> Value:
    """The sum of zero and `count` elements (an i64) from an address on; never -0.0.  One lane."""
    part, width = ELEMENT[dtype], 2 if dtype in COMPONENT else 1
    kind, name = f"<{width} x {part}>", f"diffuse.pairwise.{dtype}"
    words = {"FOLDED": _folded(part, width), "KIND": kind, "NAME": name, "PART": part, "WIDTH": str(width),
             "ALIGN": str(ITEMSIZE[COMPONENT.get(dtype, dtype)]),
             "NONE": "<" + ", ".join([f"{part} -0.0"] * width) + ">"}
    text = _SUM
    for word, value in words.items():
        text = text.replace(word, value)
    code.declare(text)
    if width == 2:
        count = code.let(f"mul nuw i64 {count}, 2")
    found = code.let(f"call {kind} @{name}.first(ptr {at}, i64 {count})")
    parts = [code.let(f"extractelement {kind} {found}, i64 {k}") for k in range(width)]
    return (parts[0], parts[1]) if width == 2 else parts[0]


def _folded(part: str, width: int) -> str:
    """Add the eight sums by pairs: ((0 + 1) + (2 + 3)) + ((4 + 5) + (6 + 7)); complex numbers have four."""
    eight, kind, lines = f"<8 x {part}>", f"<{width} x {part}>", []
    names = [f"%s{k}" for k in range(8 // width)]
    for k, name in enumerate(names):
        picked = ", ".join(f"i32 {k * width + w}" for w in range(width))
        lines.append(f"  {name} = shufflevector {eight} %sums, {eight} poison, <{width} x i32> <{picked}>")
    while len(names) > 1:
        pairs = list(zip(names[::2], names[1::2], strict=True))
        names = [f"%folded{len(lines)}.{k}" for k in range(len(pairs))] if len(pairs) > 1 else ["%folded"]
        lines += [f"  {name} = fadd {kind} {a}, {b}" for name, (a, b) in zip(names, pairs, strict=True)]
    return "\n".join(lines)

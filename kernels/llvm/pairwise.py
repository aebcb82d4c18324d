"""Sums of neighbouring floats in the order in which NumPy's `add.reduceat` adds them, as LLVM functions.

The first element is added to the sum of the others, and all that to zero.  Fewer than eight numbers are added
one after another; up to 128 by eight accumulators, which are added by pairs, and then the remainder; more are
split into two parts, which are summed in this way and added.  Source: NumPy's pairwise sum, whose error grows
with the logarithm of the number of elements.  Complex elements are pairs of numbers, of which real and
imaginary parts are added apart, by four accumulators each.

NumPy's function calls itself for the two parts.  Here a loop goes from part to part, with a list of the
parts that are to come and of the sums that wait for them: on a GPU a thread has little memory for calls, and
nothing tells when it is used up.
"""

from __future__ import annotations

from diffuse.ir import ITEMSIZE
from diffuse.kernels.llvm.code import COMPONENT, ELEMENT, Code, Value

_SUM = """
define internal KIND @NAME(ptr %all, i64 %count) nounwind {
entry:
  %parts = alloca [DEPTH x ptr], align 8
  %lengths = alloca [DEPTH x i64], align 8
  %waiting = alloca [DEPTH x KIND], align 16
  br label %down
down:
  %a = phi ptr [ %all, %entry ], [ %a, %apart ], [ %part, %other ]
  %n = phi i64 [ %count, %entry ], [ %left, %apart ], [ %length, %other ]
  %depth = phi i64 [ 0, %entry ], [ %deeper, %apart ], [ %depth.other, %other ]
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
  %to.part = getelementptr inbounds ptr, ptr %parts, i64 %depth
  store ptr %middle, ptr %to.part, align 8
  %to.length = getelementptr inbounds i64, ptr %lengths, i64 %depth
  store i64 %right, ptr %to.length, align 8
  %deeper = add i64 %depth, 1
  br label %down
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
  %k = phi i64 [ 0, %down ], [ %whole, %pairs ], [ %l, %one ]
  %sum = phi KIND [ NONE, %down ], [ %folded, %pairs ], [ %longer, %one ]
  %left.over = icmp slt i64 %k, %n
  br i1 %left.over, label %one, label %up
one:
  %there = getelementptr inbounds PART, ptr %a, i64 %k
  %element = load KIND, ptr %there, align ALIGN
  %longer = fadd KIND %sum, %element
  %l = add i64 %k, WIDTH
  br label %rest
up:
  %found = phi KIND [ %sum, %rest ], [ %both, %second ]
  %level = phi i64 [ %depth, %rest ], [ %above, %second ]
  %whole.sum = icmp eq i64 %level, 0
  br i1 %whole.sum, label %done, label %part.of
part.of:
  %above = sub i64 %level, 1
  %from.length = getelementptr inbounds i64, ptr %lengths, i64 %above
  %length = load i64, ptr %from.length, align 8
  %wait = getelementptr inbounds KIND, ptr %waiting, i64 %above
  %was.first = icmp ne i64 %length, 0
  br i1 %was.first, label %other, label %second
other:
  store KIND %found, ptr %wait
  store i64 0, ptr %from.length, align 8
  %from.part = getelementptr inbounds ptr, ptr %parts, i64 %above
  %part = load ptr, ptr %from.part, align 8
  %depth.other = add i64 %level, 0
  br label %down
second:
  %first.sum = load KIND, ptr %wait
  %both = fadd KIND %first.sum, %found
  br label %up
done:
  ret KIND %found
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


DEPTH = 58
"""How often parts are divided: each is at most four longer than a half, and 2**64 bytes are the most."""


def pairwise(code: Code, dtype: str, at: str, count: str) -> Value:
    """The sum of zero and `count` elements (an i64) from an address on; never -0.0.  One lane."""
    part, width = ELEMENT[dtype], 2 if dtype in COMPONENT else 1
    kind, name = f"<{width} x {part}>", f"diffuse.pairwise.{dtype}"
    words = {"FOLDED": _folded(part, width), "KIND": kind, "NAME": name, "PART": part, "WIDTH": str(width),
             "DEPTH": str(DEPTH), "ALIGN": str(ITEMSIZE[COMPONENT.get(dtype, dtype)]),
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

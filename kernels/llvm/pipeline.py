"""Runs two kernels as one pass: rows of the first, then the rows of the second whose inputs are complete.

A stencil reads neighbouring rows of what its write-back overwrites, so the two cannot share a loop, and as
two passes they move everything through memory twice.  Here each point works down its rows in chunks: some
rows of the first kernel into a small ring, then the rows of the second whose neighbourhood is complete.  The
store between them exists only as the ring, which stays in cache.  Neighbouring points recompute the few ring
rows that both need; rows of a result that a neighbour still has to read in its old state go to a border
buffer, and into place when all points are done.  A process that runs some of the points, on memory of its
own, says which in the header: the first and the last of them have no neighbours there.

The driver is one native function for all pairs, `drive(header, point)`; what it needs to know is in the
header, a block of words that ends with the two kernels' own blocks.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from diffuse.service import code

FIELDS = ("begin", "points", "first", "second", "words_first", "words_second", "at_first", "at_second",
          "chunk", "reach", "low", "high", "rows_first", "tile", "rows_second", "scratch", "scratch_bytes",
          "below", "above", "border", "border_bytes", "arguments_first", "arguments_second", "spaces_first",
          "spaces_second", "extents_first", "extents_second", "table_first", "table_second", "rings",
          "table_rings", "least")
"""The header's words; `begin` is the first point that runs here, and `points` how many do.  Rows are indices
of the kernels' iteration dimension 0; those of the first kernel are from `least` to `rows_first`.  `at_`,
`table_` and `extents_` are word indices of the kernels' blocks, of their arguments' entries, and of lists
that say where in its block each of a kernel's spaces has its number of rows."""

PLAIN, RING, DEFERRED = 0, 1, 2
ENTRY = ("word", "kind", "pitch", "x", "y", "z")
"""The words of an argument's entry: its address's word, kind, bytes between rows; then, for a RING, its
offset in the scratch, its bytes between rows and the store row of the first kernel's row 0; for a DEFERRED,
its offset in the border buffer and the bytes of one row."""


class Driver(NamedTuple):
    """The native functions, and the objects that keep them alive."""

    address: int
    finish: int
    keep: Any


_drivers: list[Driver] = []


def driver(seconds: float | None) -> Driver | None:
    """Load the driver, once a process; None if it does not arrive within so many seconds.  Raises
    `Unavailable` if it cannot be compiled."""
    if not _drivers:
        key, source = _source()
        found = code.within(seconds, key, ("drive", "finish"), code.TEXT, lambda: source)
        if found is None:
            return None
        _drivers.append(Driver(found.addresses["drive"], found.addresses["finish"], found))
    return _drivers[0]


@cache
def _source() -> tuple[str, str]:
    """The cache key and the text of the driver."""
    source = text()
    return code.text_key(source), source


def text() -> str:
    """The driver as LLVM IR.  `FIELD x` loads the header's word x into %x, and `WORD x` that of an entry."""
    lines = []
    for line in _TEXT.splitlines():
        macro, *names = line.split() or [""]
        if macro in ("FIELD", "WORD"):
            base, words = ("%h", FIELDS) if macro == "FIELD" else ("%entry.at", ENTRY)
            for name in names:
                lines.append(f"  %{name}.at = getelementptr i64, ptr {base}, i64 {words.index(name)}")
                lines.append(f"  %{name} = load i64, ptr %{name}.at")
        else:
            lines.append(line.replace("@ENTRY", str(len(ENTRY))))
    return "\n".join(lines)


_TEXT = """
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.smin.i64(i64, i64)

; Run a kernel on its rows [lo, hi).  `ring`: the scratch, whose row 0 is the first kernel's row `base`.
; `border`: 0, or the buffer that takes the deferred results, with row `lo` at buffer row `slot`.
define internal void @run(ptr %kernel, ptr %block, ptr %original, ptr %table, i64 %arguments, ptr %extents,
                          i64 %spaces, i64 %lo, i64 %hi, i64 %ring, i64 %base, i64 %border, i64 %slot) {
entry:
  %rows = sub i64 %hi, %lo
  %some = icmp sgt i64 %rows, 0
  br i1 %some, label %loop, label %done
loop:
  %k = phi i64 [ 0, %entry ], [ %k1, %next ]
  %more = icmp slt i64 %k, %arguments
  br i1 %more, label %body, label %call
body:
  %e0 = mul i64 %k, @ENTRY
  %entry.at = getelementptr i64, ptr %table, i64 %e0
  %word = load i64, ptr %entry.at
WORD kind pitch x y z
  %old.at = getelementptr i64, ptr %original, i64 %word
  %old = load i64, ptr %old.at
  %ahead = mul i64 %lo, %pitch
  %plain = add i64 %old, %ahead
  %isring = icmp eq i64 %kind, 1
  %origin = add i64 %base, %z
  %back = mul i64 %origin, %y
  %r0 = add i64 %plain, %ring
  %r1 = add i64 %r0, %x
  %r2 = sub i64 %r1, %back
  %a1 = select i1 %isring, i64 %r2, i64 %plain
  %isdeferred = icmp eq i64 %kind, 2
  %away = icmp ne i64 %border, 0
  %taken = and i1 %isdeferred, %away
  %down = mul i64 %slot, %pitch
  %b0 = add i64 %border, %x
  %b1 = add i64 %b0, %down
  %a2 = select i1 %taken, i64 %b1, i64 %a1
  %new.at = getelementptr i64, ptr %block, i64 %word
  store i64 %a2, ptr %new.at
  br i1 %taken, label %copy, label %next
copy:
  %fill = call i64 @rows(i64 %plain, i64 %a2, i64 %rows, i64 %pitch, i64 %y)
  br label %next
next:
  %k1 = add i64 %k, 1
  br label %loop
call:
  br label %space
space:
  %n = phi i64 [ 0, %call ], [ %n1, %cut ]
  %n.more = icmp slt i64 %n, %spaces
  br i1 %n.more, label %cut, label %go
cut:
  %extent.word = getelementptr i64, ptr %extents, i64 %n
  %extent = load i64, ptr %extent.word
  %extent.at = getelementptr i64, ptr %block, i64 %extent
  store i64 %rows, ptr %extent.at
  %tile.at = getelementptr i64, ptr %extent.at, i64 -1
  store i64 %rows, ptr %tile.at
  %n1 = add i64 %n, 1
  br label %space
go:
  store i64 1, ptr %block
  call void %kernel(ptr %block, i64 0)
  br label %done
done:
  ret void
}

; Copy `count` rows of `bytes` bytes, `pitch` apart on both sides.
define internal i64 @rows(i64 %source, i64 %target, i64 %count, i64 %pitch, i64 %bytes) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i1, %body ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %body, label %done
body:
  %ahead = mul i64 %i, %pitch
  %s = add i64 %source, %ahead
  %t = add i64 %target, %ahead
  %sp = inttoptr i64 %s to ptr
  %tp = inttoptr i64 %t to ptr
  call void @llvm.memcpy.p0.p0.i64(ptr %tp, ptr %sp, i64 %bytes, i1 false)
  %i1 = add i64 %i, 1
  br label %loop
done:
  ret i64 %i
}

define void @drive(ptr %h, i64 %p) {
entry:
FIELD begin points first second words_first words_second at_first at_second chunk reach low high
FIELD rows_first tile rows_second
FIELD scratch scratch_bytes below above border border_bytes arguments_first arguments_second spaces_first
FIELD spaces_second extents_first extents_second table_first table_second rings table_rings least
  %kernel1 = inttoptr i64 %first to ptr
  %kernel2 = inttoptr i64 %second to ptr
  %original1 = getelementptr i64, ptr %h, i64 %at_first
  %original2 = getelementptr i64, ptr %h, i64 %at_second
  %table1 = getelementptr i64, ptr %h, i64 %table_first
  %table2 = getelementptr i64, ptr %h, i64 %table_second
  %extents1 = getelementptr i64, ptr %h, i64 %extents_first
  %extents2 = getelementptr i64, ptr %h, i64 %extents_second
  %table3 = getelementptr i64, ptr %h, i64 %table_rings
  %block1 = alloca i64, i64 %words_first, align 16
  %block2 = alloca i64, i64 %words_second, align 16
  %bytes1 = shl i64 %words_first, 3
  %bytes2 = shl i64 %words_second, 3
  call void @llvm.memcpy.p0.p0.i64(ptr %block1, ptr %original1, i64 %bytes1, i1 false)
  call void @llvm.memcpy.p0.p0.i64(ptr %block2, ptr %original2, i64 %bytes2, i1 false)
  %mine = mul i64 %p, %scratch_bytes
  %ring = add i64 %scratch, %mine
  %bordering = mul i64 %p, %border_bytes
  %edge = add i64 %border, %bordering
  %lo = mul i64 %p, %tile
  %end = add i64 %lo, %tile
  %hi = call i64 @llvm.smin.i64(i64 %end, i64 %rows_second)
  %isfirst = icmp eq i64 %p, %begin
  %below.here = select i1 %isfirst, i64 0, i64 %below
  %lowend = add i64 %lo, %below.here
  %stop = add i64 %begin, %points
  %p1 = add i64 %p, 1
  %islast = icmp sge i64 %p1, %stop
  %above.here = select i1 %islast, i64 0, i64 %above
  %highstart = sub i64 %hi, %above.here
  %start0 = add i64 %lo, %low
  %start = call i64 @llvm.smax.i64(i64 %start0, i64 %least)
  %last0 = add i64 %hi, %high
  %last = call i64 @llvm.smin.i64(i64 %last0, i64 %rows_first)
  br label %loop
loop:
  %c = phi i64 [ %lo, %entry ], [ %ce, %shifted ]
  %done = phi i64 [ %start, %entry ], [ %now, %shifted ]
  %more = icmp slt i64 %c, %hi
  br i1 %more, label %body, label %out
body:
  %ce0 = add i64 %c, %chunk
  %ce = call i64 @llvm.smin.i64(i64 %ce0, i64 %hi)
  %want = add i64 %ce, %reach
  %to = call i64 @llvm.smin.i64(i64 %want, i64 %last)
  %base = add i64 %c, %low
  call void @run(ptr %kernel1, ptr %block1, ptr %original1, ptr %table1, i64 %arguments_first, ptr %extents1,
                 i64 %spaces_first, i64 %done, i64 %to, i64 %ring, i64 %base, i64 0, i64 0)
  %now = call i64 @llvm.smax.i64(i64 %done, i64 %to)
  %s1 = call i64 @llvm.smin.i64(i64 %ce, i64 %lowend)
  %slot1 = sub i64 %c, %lo
  call void @run(ptr %kernel2, ptr %block2, ptr %original2, ptr %table2, i64 %arguments_second, ptr %extents2,
                 i64 %spaces_second, i64 %c, i64 %s1, i64 %ring, i64 %base, i64 %edge, i64 %slot1)
  %s2 = call i64 @llvm.smax.i64(i64 %c, i64 %lowend)
  %s3 = call i64 @llvm.smin.i64(i64 %ce, i64 %highstart)
  call void @run(ptr %kernel2, ptr %block2, ptr %original2, ptr %table2, i64 %arguments_second, ptr %extents2,
                 i64 %spaces_second, i64 %s2, i64 %s3, i64 %ring, i64 %base, i64 0, i64 0)
  %s4 = call i64 @llvm.smax.i64(i64 %s2, i64 %highstart)
  %past = sub i64 %s4, %highstart
  %slot4 = add i64 %past, %below
  call void @run(ptr %kernel2, ptr %block2, ptr %original2, ptr %table2, i64 %arguments_second, ptr %extents2,
                 i64 %spaces_second, i64 %s4, i64 %ce, i64 %ring, i64 %base, i64 %edge, i64 %slot4)
  %keepfrom = add i64 %ce, %low
  %keep = sub i64 %now, %keepfrom
  %skip = sub i64 %ce, %c
  %any = icmp sgt i64 %keep, 0
  br i1 %any, label %shift, label %shifted
shift:
  %r = phi i64 [ 0, %body ], [ %r1, %move ]
  %left = icmp slt i64 %r, %rings
  br i1 %left, label %move, label %shifted
move:
  %two = shl i64 %r, 1
  %ring.at = getelementptr i64, ptr %table3, i64 %two
  %offset = load i64, ptr %ring.at
  %pitch.at = getelementptr i64, ptr %ring.at, i64 1
  %pitch = load i64, ptr %pitch.at
  %target0 = add i64 %ring, %offset
  %ahead = mul i64 %skip, %pitch
  %source0 = add i64 %target0, %ahead
  %target = inttoptr i64 %target0 to ptr
  %source = inttoptr i64 %source0 to ptr
  %bytes = mul i64 %keep, %pitch
  call void @llvm.memmove.p0.p0.i64(ptr %target, ptr %source, i64 %bytes, i1 false)
  %r1 = add i64 %r, 1
  br label %shift
shifted:
  br label %loop
out:
  ret void
}

; When all points are done: the border rows of every point, into place.
define void @finish(ptr %h) {
entry:
FIELD begin points tile rows_second below above border border_bytes arguments_second at_second table_second
  %original = getelementptr i64, ptr %h, i64 %at_second
  %table = getelementptr i64, ptr %h, i64 %table_second
  %stop = add i64 %begin, %points
  br label %points.loop
points.loop:
  %p = phi i64 [ %begin, %entry ], [ %p1, %points.next ]
  %p.more = icmp slt i64 %p, %stop
  br i1 %p.more, label %points.body, label %out
points.body:
  %p1 = add i64 %p, 1
  %lo = mul i64 %p, %tile
  %end = add i64 %lo, %tile
  %hi = call i64 @llvm.smin.i64(i64 %end, i64 %rows_second)
  %empty = icmp sge i64 %lo, %hi
  br i1 %empty, label %points.next, label %arguments
arguments:
  %k = phi i64 [ 0, %points.body ], [ %k1, %arguments.next ]
  %k.more = icmp slt i64 %k, %arguments_second
  br i1 %k.more, label %argument, label %points.next
argument:
  %e0 = mul i64 %k, @ENTRY
  %entry.at = getelementptr i64, ptr %table, i64 %e0
WORD kind
  %isdeferred = icmp eq i64 %kind, 2
  br i1 %isdeferred, label %both, label %arguments.next
both:
  %word = load i64, ptr %entry.at
WORD pitch x y
  %address.at = getelementptr i64, ptr %original, i64 %word
  %address = load i64, ptr %address.at
  %bordering = mul i64 %p, %border_bytes
  %edge0 = add i64 %border, %bordering
  %edge = add i64 %edge0, %x
  %isfirst = icmp eq i64 %p, %begin
  %n1 = select i1 %isfirst, i64 0, i64 %below
  %ahead1 = mul i64 %lo, %pitch
  %place1 = add i64 %address, %ahead1
  %done1 = call i64 @rows(i64 %edge, i64 %place1, i64 %n1, i64 %pitch, i64 %y)
  %islast = icmp sge i64 %p1, %stop
  %n2 = select i1 %islast, i64 0, i64 %above
  %start2 = sub i64 %hi, %above
  %ahead2 = mul i64 %start2, %pitch
  %place2 = add i64 %address, %ahead2
  %skip = mul i64 %below, %pitch
  %edge2 = add i64 %edge, %skip
  %done2 = call i64 @rows(i64 %edge2, i64 %place2, i64 %n2, i64 %pitch, i64 %y)
  br label %arguments.next
arguments.next:
  %k1 = add i64 %k, 1
  br label %arguments
points.next:
  br label %points.loop
out:
  ret void
}
"""

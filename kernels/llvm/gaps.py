"""Accesses of a step that runs across rows with gaps between them, such as `x[:, 1:]`.

The first `left` lanes of a step belong to the row in which it begins, all others to the next row, which lies
some bytes further behind: there is no third row in a step.  Each row's lanes are accessed under a mask, so
that nothing between the rows or behind the last one is touched.
"""

from __future__ import annotations

from diffuse.ir import ITEMSIZE
from diffuse.kernels.llvm.code import MEMORY, Code
from diffuse.kernels.llvm.vectors import first, listed, masked, scattered, shuffled, store_masked


def load(code: Code, dtype: str, at: str, apart: int, gap: str, left: str, active: str | None) -> str:
    """Load elements that lie `apart` elements from one to the next, with a gap of so many bytes behind the
    first `left` ones; lanes that are not active hold the first element."""
    n, kind = code.lanes, code.memory(dtype)
    filler = "poison" if active is None else first(code, dtype, at)
    here, end = _splat(code, least(code, left, active or str(n))), _splat(code, active or str(n))
    there, found, done = _behind(code, at, gap), "poison", 0
    while done < n:
        start = min(done * apart, (n - 1) * (apart - 1))
        reached = min(n, (start + n - 1) // apart + 1)
        wanted = {k * apart - start: k for k in range(done, reached)}
        numbers = listed([wanted.get(j, n) for j in range(n)])
        before = code.let(f"icmp sgt <{n} x i64> {here}, {numbers}")
        within = code.let(f"icmp sgt <{n} x i64> {end}, {numbers}")
        behind = code.let(f"xor <{n} x i1> {before}, {within}")
        raw = masked(code, dtype, n, _element(code, dtype, at, start), before, filler)
        raw = masked(code, dtype, n, _element(code, dtype, there, start), behind, raw)
        if apart == 1:
            return raw
        picked = [k if k < done else n + k * apart - start if k < reached else 0 for k in range(n)]
        found, done = shuffled(code, kind, found, raw, picked), reached
    return found


def store(code: Code, dtype: str, at: str, apart: int, gap: str, left: str, active: str | None, raw: str
          ) -> None:
    """Store to the elements that `load` reads."""
    n = code.lanes
    numbers, end = listed(range(n)), _splat(code, active or str(n))
    within = code.let(f"icmp sgt <{n} x i64> {end}, {numbers}")
    if apart == 1:
        here = _splat(code, least(code, left, active or str(n)))
        before = code.let(f"icmp sgt <{n} x i64> {here}, {numbers}")
        store_masked(code, dtype, n, at, raw, before)
        behind = code.let(f"xor <{n} x i1> {before}, {within}")
        store_masked(code, dtype, n, _behind(code, at, gap), raw, behind)
        return
    behind = code.let(f"icmp sle <{n} x i64> {_splat(code, left)}, {numbers}")
    far = _splat(code, gap)
    more = code.let(f"select <{n} x i1> {behind}, <{n} x i64> {far}, <{n} x i64> zeroinitializer")
    along = listed([k * apart * ITEMSIZE[dtype] for k in range(n)])
    offsets = code.let(f"add nsw <{n} x i64> {more}, {along}")
    to = code.let(f"getelementptr i8, ptr {at}, <{n} x i64> {offsets}")
    scattered(code, dtype, to, raw, within)


def _splat(code: Code, number: str) -> str:
    """A number, an i64, in all lanes."""
    return code.splat("int64", number)


def least(code: Code, one: str, other: str) -> str:
    """The lesser one of two numbers, i64."""
    less = code.let(f"icmp slt i64 {one}, {other}")
    return code.let(f"select i1 {less}, i64 {one}, i64 {other}")


def _behind(code: Code, at: str, distance: str) -> str:
    """The address so many bytes behind another one, which need not be within an array."""
    return code.let(f"getelementptr i8, ptr {at}, i64 {distance}")


def _element(code: Code, dtype: str, base: str, index: int) -> str:
    return code.let(f"getelementptr {MEMORY[dtype]}, ptr {base}, i64 {index}") if index else base

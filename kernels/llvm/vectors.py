"""Vectors of elements in their form in memory: shuffles, partial loads, and conversions to and from values.

The element types bool and float16 have another form in registers (code.py).
"""

from __future__ import annotations

from collections.abc import Iterable

from diffuse.ir import ITEMSIZE
from diffuse.kernels.llvm.code import MEMORY, Code, Value


def loaded(code: Code, kind: str, at: str, align: int, constant: bool) -> str:
    if constant:
        code.declare("!10 = !{}")
    return code.let(f"load {kind}, ptr {at}, align {align}{', !invariant.load !10' * constant}")


def strictly(code: Code, word: str, source: str, value: Value, target: str) -> str:
    """Convert one number between half and float.  The instruction converts several at a time: where flags
    matter, the others must not be arbitrary register contents, such as a signalling NaN."""
    if not code.module.target.quiet:
        return code.let(f"{word} {source} {value} to {target}")
    name = f"llvm.experimental.constrained.{word}." + {"half": "f16.f32", "float": "f32.f16"}[target]
    rounding = ("metadata", 'metadata !"round.tonearest"') if word == "fptrunc" else ()
    code.declare(f"declare {target} @{name}({', '.join((source, *rounding[:1], 'metadata'))})")
    given = ", ".join((f"{source} {value}", *rounding[1:], 'metadata !"fpexcept.strict"'))
    return code.let(f"call {target} @{name}({given})")


def from_memory(code: Code, dtype: str, raw: str) -> str:
    if dtype == "bool":
        return code.let(f"icmp ne {code.memory(dtype)} {raw}, zeroinitializer")
    if dtype == "float16":
        return code.let(f"fpext {code.memory(dtype)} {raw} to {code.type(dtype)}")
    return raw


def to_memory(code: Code, dtype: str, value: str) -> str:
    if dtype == "bool":
        return code.let(f"zext {code.type(dtype)} {value} to {code.memory(dtype)}")
    if dtype == "float16":
        return code.let(f"fptrunc {code.type(dtype)} {value} to {code.memory(dtype)}")
    return value


def suffix(element: str, lanes: int) -> str:
    return f"v{lanes}" + {"half": "f16", "float": "f32", "double": "f64"}.get(element, element)


def stream(code: Code, dtype: str, lanes: int, at: str, raw: str) -> None:
    code.declare("!8 = !{i32 1}")
    align = lanes * ITEMSIZE[dtype]
    code.do(f"store <{lanes} x {MEMORY[dtype]}> {raw}, ptr {at}, align {align}, !nontemporal !8")


def shuffled(code: Code, kind: str, a: str, b: str, order: list[int]) -> str:
    picked = ", ".join(f"i32 {i}" for i in order)
    return code.let(f"shufflevector {kind} {a}, {kind} {b}, <{len(order)} x i32> <{picked}>")


def twice(code: Code, mask: str | None) -> str | None:
    """The mask of (real, imaginary) pairs."""
    if mask is None:
        return None
    return shuffled(code, code.type("bool"), mask, "poison", [i // 2 for i in range(2 * code.lanes)])


def first(code: Code, dtype: str, at: str, lanes: int = 0) -> str:
    """The element at an address in all lanes of a vector, in its form in memory."""
    kind, n = MEMORY[dtype], lanes or code.lanes
    one = code.let(f"load <1 x {kind}>, ptr {at}, align {ITEMSIZE[dtype]}")
    return shuffled(code, f"<1 x {kind}>", one, "poison", [0] * n)


def listed(numbers: Iterable[int]) -> str:
    """A constant vector of these numbers, i64."""
    return f"<{', '.join(f'i64 {number}' for number in numbers)}>"


def read_some(code: Code, dtype: str, at: str, numbers: list[int], active: str, filler: str) -> str:
    """Load the lanes of a vector whose numbers are less than `active`, and take the others from the
    filler."""
    n = len(numbers)
    wide = f"<{n} x i64>"
    one = code.let(f"insertelement {wide} poison, i64 {active}, i64 0")
    bound = shuffled(code, wide, one, "poison", [0] * n)
    return masked(code, dtype, n, at, code.let(f"icmp sgt {wide} {bound}, {listed(numbers)}"), filler)


def masked(code: Code, dtype: str, lanes: int, at: str, mask: str, filler: str) -> str:
    """Load the lanes of a vector under a mask, and take the others from the filler."""
    kind = f"<{lanes} x {MEMORY[dtype]}>"
    name = f"llvm.masked.load.{suffix(MEMORY[dtype], lanes)}.p0"
    code.declare(f"declare {kind} @{name}(ptr, <{lanes} x i1>, {kind})")
    where = f"ptr align {ITEMSIZE[dtype]} {at}"
    return code.let(f"call {kind} @{name}({where}, <{lanes} x i1> {mask}, {kind} {filler})")


def packed(code: Code, dtype: str, value: str, mask: str) -> str:
    """The lanes of a vector that a mask chooses, at the front, in their order; the others are arbitrary."""
    kind, truth = code.memory(dtype), f"<{code.lanes} x i1>"
    name = f"llvm.experimental.vector.compress.{suffix(MEMORY[dtype], code.lanes)}"
    code.declare(f"declare {kind} @{name}({kind}, {truth}, {kind})")
    return code.let(f"call {kind} @{name}({kind} {value}, {truth} {mask}, {kind} poison)")


def store_first(code: Code, dtype: str, at: str, raw: str, count: str) -> None:
    """Store so many of the first lanes of a vector, an i64."""
    n = code.lanes
    ones = code.let(f"shl nuw i64 1, {count}")
    bits = code.let(f"trunc i64 {code.let(f'sub i64 {ones}, 1')} to i{n}")
    mask = code.let(f"bitcast i{n} {bits} to <{n} x i1>")
    store_masked(code, dtype, n, at, raw, mask)


def store_masked(code: Code, dtype: str, n: int, at: str, raw: str, mask: str) -> None:
    """Store the lanes that a mask chooses of a vector of `n` elements in their form in memory."""
    kind, name = f"<{n} x {MEMORY[dtype]}>", f"llvm.masked.store.{suffix(MEMORY[dtype], n)}.p0"
    code.declare(f"declare void @{name}({kind}, ptr, <{n} x i1>)")
    code.do(f"call void @{name}({kind} {raw}, ptr align {ITEMSIZE[dtype]} {at}, <{n} x i1> {mask})")


def store_apart(code: Code, dtype: str, at: str, raw: str, stride: int, active: str | None,
                but: str | None = None) -> None:
    """Store the lanes of a vector so many elements apart, by as many vectors under masks; only the first
    `active` lanes, an i64, unless it is None, and not lane `but`."""
    n, kind = code.lanes, code.memory(dtype)
    bound = "" if active is None else code.splat("int64", active)
    none = "" if but is None else code.splat("int64", but)
    for start in range(0, n * stride, n):
        lanes = [(start + k) // stride if (start + k) % stride == 0 else n for k in range(n)]
        spread = shuffled(code, kind, raw, "poison", [min(lane, n - 1) for lane in lanes])
        mask = f"<{', '.join('i1 ' + ('true' if lane < n else 'false') for lane in lanes)}>"
        numbers = listed(lanes)
        if bound:
            mask = code.let(f"icmp sgt <{n} x i64> {bound}, {numbers}")
        if none:
            others = code.let(f"icmp ne <{n} x i64> {none}, {numbers}")
            mask = code.let(f"and <{n} x i1> {mask}, {others}")
        to = code.let(f"getelementptr inbounds {MEMORY[dtype]}, ptr {at}, i64 {start}")
        store_masked(code, dtype, n, to, spread, mask)


def moved(code: Code, dtype: str, raw: str, sources: str) -> str:
    """A vector of eight lanes, each with the element of the lane whose number, an i64, `sources` has."""
    kind, wide = code.memory(dtype), "<8 x i64>"
    name = {"double": "avx512.permvar.df.512", "i64": "avx512.permvar.di.512", "float": "avx2.permps",
            "i32": "avx2.permd"}[MEMORY[dtype]]
    if ITEMSIZE[dtype] == 4:
        wide = "<8 x i32>"
        sources = code.let(f"trunc <8 x i64> {sources} to {wide}")
    code.declare(f"declare {kind} @llvm.x86.{name}({kind}, {wide})")
    return code.let(f"call {kind} @llvm.x86.{name}({kind} {raw}, {wide} {sources})")


def strided(code: Code, stride: str, at: str) -> str:
    """The addresses of elements so many bytes apart, as a vector."""
    n = code.lanes
    offsets = code.let(f"mul nsw <{n} x i64> {code.splat('int64', stride)}, {listed(range(n))}")
    return code.let(f"getelementptr inbounds i8, ptr {at}, <{n} x i64> {offsets}")


def gathered(code: Code, dtype: str, addresses: str, mask: str | None, filler: str) -> str:
    """Load from a vector of addresses under a mask, if there is one, and take the other lanes from the
    filler."""
    kind, n = code.memory(dtype), code.lanes
    name = f"llvm.masked.gather.{suffix(MEMORY[dtype], n)}.v{n}p0"
    code.declare(f"declare {kind} @{name}(<{n} x ptr>, <{n} x i1>, {kind})")
    where = f"<{n} x ptr> align {ITEMSIZE[dtype]} {addresses}"
    return code.let(f"call {kind} @{name}({where}, <{n} x i1> {mask or 'splat (i1 true)'}, {kind} {filler})")


def scattered(code: Code, dtype: str, addresses: str, raw: str, mask: str | None) -> None:
    """Store the lanes of a vector to a vector of addresses, under a mask, if there is one."""
    kind, n = code.memory(dtype), code.lanes
    name = f"llvm.masked.scatter.{suffix(MEMORY[dtype], n)}.v{n}p0"
    code.declare(f"declare void @{name}({kind}, <{n} x ptr>, <{n} x i1>)")
    where = f"<{n} x ptr> align {ITEMSIZE[dtype]} {addresses}"
    code.do(f"call void @{name}({kind} {raw}, {where}, <{n} x i1> {mask or 'splat (i1 true)'})")

"""The PTX machine's instructions on tricky operands, against Python's exact numbers and the C library."""

from __future__ import annotations

import ctypes
import ctypes.util
import operator
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.bodies import Array, differences
from tests.each import for_each
from tests.ptx.instructions import DTYPES
from tests.ptx_machine import Fault, Machine, Memory, PtxError

REGISTER = {"pred": "%p", "8": "%h", "16": "%h", "32": "%r", "64": "%d"}
HEADER = """.version 8.1
.target sm_80
.address_size 64
.visible .entry k(
	.param .u64 k_param_0,
	.param .u64 k_param_1
)
.maxntid 32
{
	.reg .pred %p<9>;
	.reg .b16 %h<9>;
	.reg .b32 %r<9>;
	.reg .b64 %d<40>;
	ld.param.b64 %d30, [k_param_0];
	ld.param.b64 %d31, [k_param_1];
	mov.u32 %r8, %tid.x;
	mov.u32 %r7, %ctaid.x;
	mad.lo.s32 %r8, %r7, 32, %r8;
	mul.wide.u32 %d32, %r8, 8;
"""


def register(dtype: str, number: int) -> str:
    return REGISTER["pred" if dtype == "pred" else dtype[1:]] + str(number)


def run(body: str, arrays: Sequence[Array], results: int = 1, dtype: str = "u8") -> list[Array]:
    """Run a kernel over columns of eight bytes for each thread, which lie one behind another: %d30 is the
    address of a thread's element in the first array, and %d31 in the first result."""
    many = len(arrays[0])
    assert many % 32 == 0
    memory = Memory()
    source, target = memory.allocate(8 * many * len(arrays)), memory.allocate(8 * many * results)
    memory.write(source, b"".join(np.ascontiguousarray(a).astype("u8").tobytes() for a in arrays))
    text = HEADER + "\tadd.s64 %d30, %d30, %d32;\n\tadd.s64 %d31, %d31, %d32;\n" + body + "\n\tret;\n}\n"
    Machine(text).launch("k", many // 32, source.to_bytes(8, "little") + target.to_bytes(8, "little"), memory)
    found = np.frombuffer(memory.read(target, 8 * many * results), "u8").reshape(results, many)
    return [column.astype(dtype) for column in found]


def computed(name: str, result: str, sources: Sequence[str], arrays: Sequence[Array]) -> Array:
    """What an instruction computes of these arrays, which are as long as possible."""
    many = -(-len(arrays[0]) // 32) * 32
    bits = [np.resize(a, many).view(f"u{a.dtype.itemsize}") for a in arrays]
    lines = []
    for k, dtype in enumerate(sources):
        width = "16" if dtype == "pred" else dtype[1:]
        lines.append(f"ld.global.b{width} {register('b' + width, k + 1)}, [%d30+{8 * many * k}];")
        if dtype == "pred":
            lines.append(f"setp.ne.b16 %p{k + 1}, %h{k + 1}, 0;")
    names = ", ".join(register(dtype, k + 1) for k, dtype in enumerate(sources))
    lines.append(f"{name} {register(result, 0)}, {names};")
    if result == "pred":
        lines.append("selp.b16 %h0, 1, 0, %p0;")
    width = "16" if result == "pred" else result[1:]
    lines.append(f"st.global.b{width} [%d31], {register('b' + width, 0)};")
    # bytes behind narrow results hold what fresh memory holds
    (found,) = run("\n".join(lines), bits)
    wanted = DTYPES["u16" if result == "pred" else result]
    return found.astype(f"u{wanted.itemsize}").view(wanted)[:len(arrays[0])]


DRAW = np.random.default_rng(7)


@pytest.fixture(autouse=True)
def numbers_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test draws the same numbers, whichever tests ran before."""
    monkeypatch.setattr(f"{__name__}.DRAW", np.random.default_rng(7))


def edges(dtype: str, many: int = 96) -> Array:
    """Integers: the bounds, small ones, random bits."""
    kind = np.iinfo(DTYPES[dtype])
    small = np.array([0, 1, 2, 3, 31, kind.max, kind.max - 1, kind.min, kind.min + 1], DTYPES[dtype])
    other = DRAW.integers(kind.min, kind.max, many, DTYPES[dtype], endpoint=True)
    other[::3] >>= DRAW.integers(0, kind.bits, len(other[::3])).astype(other.dtype)
    return np.append(small, other)


def crossed(*dtypes: str) -> list[Array]:
    columns = [DRAW.permutation(np.resize(edges(dtype), 960)) for dtype in dtypes]
    return columns


def wrapped(value: int, dtype: str) -> int:
    bits = int(dtype[1:])
    value %= 1 << bits
    return value - (1 << bits) if dtype[0] == "s" and value >> bits - 1 else value


def truncated(x: int, y: int) -> int:
    return (abs(x) // abs(y)) * (1 if (x < 0) == (y < 0) else -1)


def extracted(x: int, start: int, count: int, dtype: str) -> int:
    """The manual's definition of bfe, bit by bit."""
    start, count, most = start & 255, count & 255, int(dtype[1:]) - 1
    if dtype[0] == "u" or count == 0:
        sign = 0
    else:
        sign = x >> min(start + count - 1, most) & 1
    found = [x >> i + start & 1 if i < count and i + start <= most else sign for i in range(most + 1)]
    return sum(bit << i for i, bit in enumerate(found))


def inserted(x: int, into: int, start: int, count: int, dtype: str) -> int:
    start, count, bits = start & 255, count & 255, int(dtype[1:])
    for i in range(count):
        if i + start < bits:
            into = into & ~(1 << i + start) | (x >> i & 1) << i + start
    return into


def permuted(x: int, y: int, codes: int) -> int:
    data = (x | y << 32).to_bytes(8, "little")
    picked = [(codes >> 4 * k & 15) for k in range(4)]
    return sum((255 * (data[c & 7] >> 7) if c & 8 else data[c & 7]) << 8 * k for k, c in enumerate(picked))


INTEGER: list[tuple[str, str, tuple[str, ...], Callable[..., int]]] = []
"""Instructions: name, result, sources, and what they compute of Python's integers."""
for bits in (16, 32, 64):
    for s in (f"s{bits}", f"u{bits}"):
        INTEGER += [
            (f"add.{s}", s, (s, s), lambda x, y: x + y), (f"sub.{s}", s, (s, s), lambda x, y: x - y),
            (f"mul.lo.{s}", s, (s, s), lambda x, y: x * y),
            (f"mul.hi.{s}", s, (s, s), lambda x, y, b=bits: x * y >> b),
            (f"mad.lo.{s}", s, (s, s, s), lambda x, y, z: x * y + z),
            (f"min.{s}", s, (s, s), min), (f"max.{s}", s, (s, s), max),
            (f"shr.{s}", s, (s, "u32"), lambda x, y: x >> min(y, 64)),
        ]
        if bits < 64:
            w = f"{s[0]}{2 * bits}"
            INTEGER += [(f"mul.wide.{s}", w, (s, s), lambda x, y: x * y),
                        (f"mad.wide.{s}", w, (s, s, w), lambda x, y, z: x * y + z)]
        if bits > 16:
            INTEGER.append((f"bfe.{s}", s, (s, "u32", "u32"), lambda x, i, n, s=s: extracted(x, i, n, s)))
    s, b = f"s{bits}", f"u{bits}"
    INTEGER += [(f"abs.{s}", s, (s,), abs), (f"neg.{s}", s, (s,), lambda x: -x),
                (f"shl.b{bits}", b, (b, "u32"), lambda x, y: x << min(y, 64)),
                (f"not.b{bits}", b, (b,), lambda x: ~x),
                (f"selp.b{bits}", b, (b, b, "pred"), lambda x, y, p: x if p else y),
                (f"slct.b{bits}.s32", b, (b, b, "s32"), lambda x, y, z: x if z >= 0 else y),
                (f"setp.lt.{s}", "pred", (s, s), lambda x, y: int(x < y)),
                (f"setp.ge.{b}", "pred", (b, b), lambda x, y: int(x >= y)),
                (f"setp.hi.{b}", "pred", (b, b), lambda x, y: int(x > y))]
    if bits > 16:
        INTEGER += [(f"popc.b{bits}", "u32", (b,), lambda x: x.bit_count()),
                    (f"clz.b{bits}", "u32", (b,), lambda x, n=bits: n - x.bit_length()),
                    (f"brev.b{bits}", b, (b,), lambda x, n=bits: int(f"{x:0{n}b}"[::-1], 2)),
                    (f"bfi.b{bits}", b, (b, b, "u32", "u32"),
                     lambda x, y, i, n, b=b: inserted(x, y, i, n, b))]
INTEGER += [
    ("shf.l.wrap.b32", "u32", ("u32",) * 3, lambda x, y, n: (y << 32 | x) << (n & 31) >> 32),
    ("shf.r.wrap.b32", "u32", ("u32",) * 3, lambda x, y, n: (y << 32 | x) >> (n & 31)),
    ("shf.l.clamp.b32", "u32", ("u32",) * 3, lambda x, y, n: (y << 32 | x) << min(n, 32) >> 32),
    ("shf.r.clamp.b32", "u32", ("u32",) * 3, lambda x, y, n: (y << 32 | x) >> min(n, 32)),
    ("prmt.b32", "u32", ("u32",) * 3, permuted),
    ("cvt.s16.s8", "s16", ("s8",), lambda x: x), ("cvt.u16.u8", "u16", ("u8",), lambda x: x),
    ("cvt.s64.s32", "s64", ("s32",), lambda x: x), ("cvt.u32.u64", "u32", ("u64",), lambda x: x),
    ("cvt.s32.u16", "s32", ("u16",), lambda x: x),
    ("cvt.s8.s64", "s16", ("s64",), lambda x: wrapped(x, "s8")),
]


@for_each("case", INTEGER)
def test_integers(case: tuple[str, str, tuple[str, ...], Callable[..., int]]) -> None:
    name, result, sources, function = case
    arrays = [DRAW.integers(0, 2, 960, "u2") if s == "pred" else crossed(s)[0] for s in sources]
    if name[:2] in ("bf", "sh"):  # counts of bits, also beyond the width
        arrays[-1] = DRAW.integers(0, 70, 960).astype(arrays[-1].dtype)
        arrays[-1][:9] = 255
    kind = "u16" if result == "pred" else result
    meant = [wrapped(function(*values), kind) for values in zip(*[a.tolist() for a in arrays], strict=True)]
    found = computed(name, result, sources, arrays)
    assert found.tolist() == meant


@pytest.mark.parametrize("dtype", ["s32", "u32", "s64", "u64"])
def test_divisions_round_to_zero(dtype: str) -> None:
    x, y = crossed(dtype, dtype)
    y[y == 0] = 7
    for name, function in (("div", truncated), ("rem", lambda x, y: x - truncated(x, y) * y)):
        meant = [wrapped(function(a, b), dtype) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
        assert computed(f"{name}.{dtype}", dtype, (dtype, dtype), [x, y]).tolist() == meant


def test_carries_go_through_wide_sums() -> None:
    a, b, c, d = crossed("u64", "u64", "u64", "u64")
    body = "\n".join([f"ld.global.b64 %d{k}, [%d30+{8 * 960 * k}];" for k in range(4)] + [
        "add.cc.s64 %d4, %d0, %d2;", "addc.cc.s64 %d5, %d1, %d3;", "addc.s64 %d6, 0, 0;",
        "sub.cc.s64 %d7, %d0, %d2;", "subc.cc.s64 %d8, %d1, %d3;", "subc.s64 %d9, 0, 0;"] + [
        f"st.global.b64 [%d31+{8 * 960 * k}], %d{4 + k};" for k in range(6)])
    words = run(body, [a, b, c, d], 6)
    for i in range(960):
        x, y = int(a[i]) | int(b[i]) << 64, int(c[i]) | int(d[i]) << 64
        found = [sum(int(w[i]) << 64 * k for k, w in enumerate(words[start:start + 3])) for start in (0, 3)]
        assert found == [x + y, (x - y) % 2 ** 192]


# Floats


def patterns(dtype: str, many: int = 2000) -> Array:
    """Random bits, numbers near 1, numbers with few bits, special values."""
    kind = np.dtype(dtype)
    bits = DRAW.integers(0, 2 ** (8 * kind.itemsize), many, f"u{kind.itemsize}", endpoint=False).view(kind)
    near = DRAW.standard_normal(many).astype(kind)
    few = (DRAW.integers(-8, 8, many) * 2.0 ** DRAW.integers(-5, 5, many)).astype(kind)
    info = np.finfo(kind)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, info.max, info.smallest_normal,
                        info.smallest_subnormal, -info.smallest_subnormal], kind)
    with np.errstate(all="ignore"):
        return DRAW.permutation(np.concatenate([bits, near, few, np.resize(special, many)]))


def same(found: Array, meant: Sequence[Any]) -> bool:
    return not differences([found], [np.array(meant, found.dtype)])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_fma_is_rounded_once(dtype: str) -> None:
    library = ctypes.CDLL(ctypes.util.find_library("m"))
    function, kind = (library.fma, ctypes.c_double) if dtype == "float64" else (library.fmaf, ctypes.c_float)
    function.argtypes, function.restype = [kind] * 3, kind
    x, y, z = (patterns(dtype) for _ in range(3))
    with np.errstate(all="ignore"):
        z[::3] = -(x * y)[::3]  # what remains is the error of the product
        z[1::9] = np.nextafter(z[1::9], x[1::9])
        x[::7] *= x.dtype.type(2.0 ** -100)
    width = "f" + str(8 * x.itemsize)
    found = computed(f"fma.rn.{width}", width, [width] * 3, [x, y, z])
    assert same(found, [function(*values) for values in zip(x.tolist(), y.tolist(), z.tolist(), strict=True)])


def to_half(exact: Fraction) -> np.float16:
    """The nearest float16, to even."""
    if abs(exact) >= 65520:
        return np.float16(np.copysign(np.inf, exact.numerator))
    guess = np.float16(float(exact))
    with np.errstate(over="ignore"):
        near = [np.nextafter(guess, np.float16(s)) for s in (-np.inf, np.inf)] + [guess]
    return min((x for x in near if np.isfinite(x)),
               key=lambda x: (abs(Fraction(float(x)) - exact), int(x.view("u2")) & 1))


@pytest.mark.parametrize("name", ["fma.rn", "add.rn", "mul.rn"])
def test_half_precision_is_rounded_once(name: str) -> None:
    x, y, z = (a[np.isfinite(a) & (a != 0)][:900] for a in (patterns("float16", 400) for _ in range(3)))
    columns = [x, y, z][:3 if name == "fma.rn" else 2]
    found = computed(f"{name}.f16", "f16", ["f16"] * len(columns), columns)
    for values in zip(found, *columns, strict=True):
        result, *given = [Fraction(float(v)) if np.isfinite(v) else v for v in values]
        exact = given[0] + given[1] if name == "add.rn" else given[0] * given[1]
        exact = exact + given[2] if name == "fma.rn" else exact
        assert values[0] == to_half(exact), values


def test_two_floats_become_two_halves_of_a_word() -> None:
    x, y = patterns("float32", 200), patterns("float32", 200)
    found = computed("cvt.rn.f16x2.f32", "b32", ("f32", "f32"), [x, y])
    with np.errstate(over="ignore"):
        upper, lower = x.astype("f2"), y.astype("f2")
    halves = np.ascontiguousarray(found).view("f2").reshape(-1, 2)
    assert np.array_equal(halves, np.column_stack([lower, upper]), equal_nan=True)
    backwards = computed("cvt.rn.f16x2.f32", "b32", ("f32", "f32"), [y, x])
    products = computed("mul.rn.f16x2", "b32", ("b32", "b32"), [found, backwards]).view("f2").reshape(-1, 2)
    with np.errstate(all="ignore"):
        assert np.array_equal(products, np.column_stack([lower * upper] * 2), equal_nan=True)


def test_two_halves_of_a_word_are_compared_apart() -> None:
    x, y = patterns("float16", 400)[:256], patterns("float16", 400)[:256]
    y[::3] = x[::3]
    words = [np.ascontiguousarray(v).view("u4") for v in (x, y)]
    many = len(words[0])
    a, b = (register("b32", k) for k in (1, 2))
    lines = [f"ld.global.b32 {a}, [%d30];", f"ld.global.b32 {b}, [%d30+{8 * many}];",
             f"setp.le.f16x2 %p0|%p1, {a}, {b};", "selp.b16 %h0, 1, 0, %p0;", "selp.b16 %h1, 2, 0, %p1;",
             "or.b16 %h0, %h0, %h1;", "st.global.b16 [%d31], %h0;"]
    (found,) = run("\n".join(lines), words)
    low, high = (np.less_equal(x[k::2], y[k::2]) for k in (0, 1))
    assert np.array_equal(found.astype("u2")[:many], low + 2 * high)


def test_a_part_that_nobody_writes_may_be_anything() -> None:
    """LLVM packs it and shifts it out again; a register that is written on another way stays a fault."""
    x = np.arange(32, dtype="u4")
    packed = "ld.global.b16 %h1, [%d30]; mov.b32 %r1, {%h2, %h1}; shr.u32 %r1, %r1, 16;"
    lines = packed.replace("; ", ";\n") + "\nst.global.b32 [%d31], %r1;"
    (found,) = run(lines, [x])
    assert np.array_equal(found.astype("u4"), x)
    with pytest.raises(Fault, match="%h2 was not written"):
        run("bra.uni L1;\nmov.b16 %h2, 0;\nL1:\n" + lines, [x])


def test_extremes_prefer_numbers_and_order_zeros() -> None:
    x = np.array([0.0, -0.0, np.nan, 1.0, np.nan, -2.0])
    y = np.array([-0.0, 0.0, 1.0, np.nan, np.nan, 3.0])
    assert same(computed("min.f64", "f64", ("f64", "f64"), [x, y]), [-0.0, -0.0, 1, 1, np.nan, -2])
    assert same(computed("max.f64", "f64", ("f64", "f64"), [x, y]), [0.0, 0.0, 1, 1, np.nan, 3])
    assert same(computed("max.NaN.f64", "f64", ("f64", "f64"), [x, y]), [0.0, 0.0] + [np.nan] * 3 + [3])
    assert same(computed("copysign.f64", "f64", ("f64", "f64"), [x[3:], y[:3]]), [0.0, 0.0, -1.0])


@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_comparisons_are_ordered_or_not(name: str) -> None:
    x, y = patterns("float32", 200), patterns("float32", 200)
    y[::2] = x[::2]
    values = list(zip(x.tolist(), y.tolist(), strict=True))
    for suffix, nan in (("", False), ("u", True)):
        meant = [nan if a != a or b != b else getattr(operator, name)(a, b) for a, b in values]
        assert computed(f"setp.{name}{suffix}.f32", "pred", ("f32", "f32"), [x, y]).tolist() == meant


@pytest.mark.parametrize("source", ["f16", "f32", "f64"])
@pytest.mark.parametrize("target", ["s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"])
def test_floats_become_integers_with_saturation(source: str, target: str) -> None:
    kind, dtype = np.iinfo(DTYPES[target]), DTYPES[source]
    with np.errstate(all="ignore"):
        near = [s * (float(b) + d) for b in (kind.max, kind.min, 4) for d in (-1, -0.5, 0, 0.5, 1, 1.5)
                for s in (1, -1)]
        x = np.concatenate([np.array(near).astype(dtype), patterns(source.replace("f", "float"), 50)])
        numbers = x.astype("f8").tolist()
    nan = 0 if source != "f64" and kind.bits < 64 else (kind.min or 1 << kind.bits - 1)
    rounded: dict[str, Callable[[Fraction], int]] = {
        "rni": round, "rzi": lambda v: truncated(v.numerator, v.denominator),
        "rmi": lambda v: v.numerator // v.denominator, "rpi": lambda v: -(-v.numerator // v.denominator)}
    for mode, function in rounded.items():
        meant = [nan if v != v else kind.max if v == np.inf else kind.min if v == -np.inf
                 else min(max(function(Fraction(v)), kind.min), kind.max) for v in numbers]
        held = "s16" if target == "s8" else "u16" if target == "u8" else target
        assert computed(f"cvt.{mode}.{target}.{source}", held, (source,), [x]).tolist() == meant


@pytest.mark.parametrize("source", ["s16", "u16", "s32", "u32", "s64", "u64", "f64"])
@pytest.mark.parametrize("target", ["f16", "f32", "f64"])
def test_conversions_to_floats_are_rounded_once(source: str, target: str) -> None:
    if source == target:
        return
    x = patterns("float64", 300) if source == "f64" else edges(source, 500)
    if source[1:] == "64":  # halfway between two numbers, and beside that
        x[:60] = (2 ** 53 + 2 ** 29 + np.arange(-30, 30)).astype(x.dtype)
    found = computed(f"cvt.rn.{target}.{source}", target, (source,), [x])
    info = np.finfo(found.dtype)
    for value, result in zip(x.tolist(), found, strict=True):
        if value != value or abs(value) == np.inf or value == 0:
            assert same(np.array([result]), [value])
            continue
        exact = Fraction(value)
        half = Fraction(float(info.max)) + Fraction(2) ** (info.maxexp - info.nmant - 2)
        if abs(exact) >= half:
            assert result == np.copysign(np.inf, value)
            continue
        for other in (np.nextafter(result, info.dtype.type(s)) for s in (-np.inf, np.inf)):
            if np.isfinite(other):
                here, there = abs(Fraction(float(result)) - exact), abs(Fraction(float(other)) - exact)
                assert here < there or here == there and not int(result.view(f"u{result.itemsize}")) & 1


UNKNOWN = ["add.f64 %d0, %d1, %d2;", "mul.f32 %r0, %r1, %r2;", "div.approx.f32 %r0, %r1, %r2;",
           "add.rn.ftz.f32 %r0, %r1, %r2;", "ex2.approx.f32 %r0, %r1;", "cvt.rn.bf16.f32 %h0, %r1;",
           "bar.sync 1;", "atom.global.add.u64 %d0, [%d1], %d2;", "@%p1 add.s64 %d0, %d1, %d2;",
           "add.s64 %d0, %r1, %d2;", "cvt.f32.f64 %r0, %d1;"]


@pytest.mark.parametrize("line", UNKNOWN)
def test_what_is_unknown_or_inexact_is_refused_with_its_line(line: str) -> None:
    with pytest.raises(PtxError, match=f"line {HEADER.count(chr(10)) + 1}: {line[:6]}"):
        Machine(HEADER + "\t" + line + "\n\tret;\n}\n")

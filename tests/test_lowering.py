"""Every lowering rule against NumPy's own loop: operation by operation, element type by element type."""

from __future__ import annotations

import ctypes
import platform
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from diffuse.ir import Privilege
from diffuse.kernels.body.expr import Argument, Body, Loop, Op, Space
from diffuse.kernels.body.operations import EXPONENTS, neutral
from diffuse.kernels.build import codegen, jit
from diffuse.kernels.llvm import nest
from diffuse.kernels.llvm.code import COMPONENT, Code, Module
from diffuse.kernels.llvm.ops.integers import COMPARISONS
from diffuse.kernels.llvm.ops.rules import RULES, fold, supported
from diffuse.kernels.targets.host import Host
from tests import machine_code, precise
from tests.each import for_each

Array = NDArray[Any]

DTYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
          "float16", "float32", "float64", "complex64", "complex128")
X86 = "x86_64-unknown-linux-gnu"
CHARACTERS = {np.dtype(d).char: d for d in DTYPES}

ROUNDED = frozenset("""exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan arctan2 sinh cosh
    tanh arcsinh arccosh arctanh hypot cbrt power float_power erf erfc logaddexp logaddexp2""".split()) | {
        name for name, exponent in EXPONENTS.items() if exponent not in (-1, 0.5, 2)}
"""Operations that may differ from NumPy by 4 units in the last place; all others have its bits."""
CANCELLING = frozenset("tanh logaddexp logaddexp2 expm1".split())
"""Those for which NumPy's own results may be farther from the exact ones: 4 units from these are enough."""


def specials(dtype: str) -> Array:
    """Zeros, infinities, NaN, denormals, extremes, ties, and what lies beside the ranges of the integers."""
    if dtype == "bool":
        return np.array([False, True, True, False])
    if dtype[0] in "iu":
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        some = [0, 1, 2, 3, 5, 7, 31, 32, 63, 64, 100, -1, -2, -7, -64]
        some += [low, low + 1, high, high - 1, high // 2]
        return np.array([v for v in some if low <= v <= high], dtype)
    if dtype[0] == "f":
        f = np.finfo(dtype)
        numbers = [0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, -3.0, 0.1,
                   -0.7, 128.0, 300.7, -129.0]
        powers = () if dtype == "float16" else (15, 16, 31, 32, 53, 63, 64)
        edges = [sign * 2.0 ** e for e in powers for sign in (1, -1)]
        if dtype == "float64":
            edges += [2.0 ** 31 - 0.5, -(2.0 ** 31) - 0.5, -(2.0 ** 31) - 1, 65519.99999999, 65520.0,
                      2.0 ** -25, 2.0 ** -25 + 2.0 ** -70, 1 + 2.0 ** -11, 1 + 2.0 ** -11 + 2.0 ** -40,
                      3e38, 3.5e38, 1e-46, 1e-310]
        limits = [f.max, -f.max, f.tiny, -f.tiny, f.smallest_subnormal, -f.smallest_subnormal, f.eps]
        return np.concatenate([np.array(numbers + edges, dtype), np.array(limits, dtype)])
    part = COMPONENT[dtype]
    f = np.finfo(part)
    line = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1, -1, 0.5, -2.5, 1e10, f.max, f.tiny], part)
    found = np.empty(line.size ** 2, dtype)
    found.real, found.imag = np.repeat(line, line.size), np.tile(line, line.size)
    return found


def ordinary(dtype: str, count: int, random: np.random.Generator) -> Array:
    if dtype == "bool":
        return random.integers(0, 2, count).astype(bool)
    if dtype[0] in "iu":
        info = np.iinfo(dtype)
        wide = random.integers(info.min, info.max, count, np.dtype(dtype).type, endpoint=True)
        return np.where(random.random(count) < 0.5, wide, wide % np.array(20, dtype)).astype(dtype)
    if dtype[0] == "f":
        return (random.normal(size=count) * 10.0 ** random.integers(-3, 4, count)).astype(dtype)
    found = np.empty(count, dtype)
    found.real, found.imag = (random.normal(size=count) * 10.0 ** random.integers(-2, 3, count) for _ in "ab")
    return found


def operands(dtypes: tuple[str, ...]) -> list[Array]:
    """One array per input: all pairs of special values, then ordinary ones; not a multiple of the lanes."""
    random = np.random.default_rng(7)
    lines = [specials(d) for d in dtypes]
    lines = [random.permutation(x)[:50] if len(dtypes) > 1 else x for x in lines]
    if len(dtypes) == 1:
        return [np.concatenate([lines[0], ordinary(dtypes[0], 301, random)])]
    pairs = [np.repeat(lines[0], lines[1].size), np.tile(lines[1], lines[0].size)]
    pairs += [random.permutation(np.resize(x, pairs[0].size)) for x in lines[2:]]
    return [np.concatenate([x[:pairs[0].size], ordinary(d, 301, random)])
            for x, d in zip(pairs, dtypes, strict=True)]


def numpy_function(operation: str) -> Callable[..., Any]:
    """What the operation means, in NumPy's (for erf: SciPy's) words."""
    if operation == "erf":
        return pytest.importorskip("scipy.special").erf  # type: ignore[no-any-return]
    if operation == "erfc":  # SciPy's is not precise where it is small
        return lambda x: precise.erfc(x).astype(x.dtype)
    by_hand: dict[str, Callable[..., Any]] = {"where": np.where, "real": np.real, "imag": np.imag}
    if operation in by_hand:
        return by_hand[operation]
    if operation in EXPONENTS:
        return np.sqrt if operation == "power0.5" else lambda x: np.power(x, EXPONENTS[operation])
    if operation == "clip":
        return np._core.umath.clip  # type: ignore[attr-defined,no-any-return]
    stem, _, part = operation.rpartition("_")
    if part.isdigit():
        return lambda *arrays: getattr(np, stem)(*arrays)[int(part)]
    return getattr(np, operation)  # type: ignore[no-any-return]


def signatures(operation: str) -> list[tuple[tuple[str, ...], str]]:
    """The loops of NumPy's ufunc, over our element types."""
    if operation == "where":
        return [(("bool", d, d), d) for d in DTYPES]
    if operation == "clip":
        return [((d, d, d), d) for d in DTYPES if d != "bool"]
    if operation in ("real", "imag"):
        return [((d,), COMPONENT.get(d, d)) for d in DTYPES]
    if operation in EXPONENTS:
        return [((d,), d) for d in ("float16", "float32", "float64")]
    if operation in ("erf", "erfc"):
        return [((d,), d) for d in ("float32", "float64")]
    stem, _, part = operation.rpartition("_")
    ufunc, position = (getattr(np, stem), int(part)) if part.isdigit() else (getattr(np, operation), 0)
    found: dict[tuple[tuple[str, ...], str], None] = {}
    for loop in ufunc.types:
        inputs, outputs = loop.replace("q", "l").replace("Q", "L").split("->")
        if all(c in CHARACTERS for c in inputs + outputs):
            found[tuple(CHARACTERS[c] for c in inputs), CHARACTERS[outputs[position]]] = None
    return list(found)


def body(results: list[str], inputs: tuple[str, ...], ops: list[tuple[str, str, tuple[int, ...]]]) -> Body:
    """Contiguous arrays of rank 1 in, op by op one array out for each."""
    loads = [Op("load", d, (), k) for k, d in enumerate(inputs)]
    arguments = [Argument(k, 0, d, 0, "1", Privilege.READ) for k, d in enumerate(inputs)]
    text = list(loads)
    for kind, dtype, args in ops:
        text.append(Op(kind, dtype, args))
        text.append(Op("store", dtype, (len(text) - 1,), len(arguments)))
        arguments.append(Argument(len(arguments), 0, dtype, 0, "1", Privilege.WRITE))
    assert [a.dtype for a in arguments[len(inputs):]] == results
    return Body((Space(1, (0,)),), tuple(arguments), (), (Loop(0, (0,), tuple(text)),))


def run(kernel: Body, inputs: list[Array], results: list[str], native: jit.Native | None = None
        ) -> list[Array]:
    count = inputs[0].size
    outputs = [np.zeros(count, d) for d in results]
    arrays = [np.ascontiguousarray(a) for a in inputs] + outputs
    values = [1, count, count]
    for array in arrays:
        values += [array.ctypes.data, array.itemsize]
    machine_code.run(native or jit.compile(kernel), kernel, values, 1)
    return outputs


def distance(a: Array, b: Array) -> Any:
    """Units in the last place between floats; NaN is NaN."""
    if a.dtype.kind == "c":
        return np.maximum(distance(a.real, b.real), distance(a.imag, b.imag))
    bits = {2: np.int16, 4: np.int32, 8: np.int64}[a.itemsize]
    lines = [np.ascontiguousarray(x).view(bits).astype(object) for x in (a, b)]
    lines = [np.where(x < 0, -(2 ** (8 * a.itemsize - 1)) - x, x) for x in lines]
    return np.where(np.isnan(a) & np.isnan(b), 0, np.abs(lines[0] - lines[1])).astype(float)


def same(a: Array, b: Array) -> Any:
    """Equal to the bit, where one NaN is like another."""
    if a.dtype.kind == "c":
        return same(a.real, b.real) & same(a.imag, b.imag)
    if a.dtype.kind == "f":
        return ((a == b) & (np.signbit(a) == np.signbit(b))) | (np.isnan(a) & np.isnan(b))
    return a == b


def check(operation: str, got: Array, want: Array, inputs: list[Array]) -> None:
    assert got.dtype == want.dtype
    good = same(got, want)
    if operation in ROUNDED and got.dtype.kind in "fc":
        good |= distance(got, want) <= 4
    if operation in CANCELLING and got.dtype != "float16" and not good.all():
        wide = [x.astype(np.clongdouble if x.dtype.kind == "c" else np.longdouble) for x in inputs]
        exact = precisely(operation, wide)
        good |= distance(got, exact.astype(got.dtype)) <= 4
        if operation.startswith("logaddexp"):  # and half a unit of what cancels
            allowed = np.finfo(got.dtype).eps * (2 * abs(exact) + abs(np.maximum(*wide)) / 2)
            good |= abs(got - exact) <= allowed
    if operation in ("power", "float_power") and got.dtype.kind == "c":
        good |= raised(got, want, inputs)
    bad = np.flatnonzero(~good)[:4]
    assert not bad.size, f"{operation} of {[x[bad] for x in inputs]}: {got[bad]} should be {want[bad]}"


def precisely(operation: str, wide: list[Array]) -> Array:
    """An operation on long doubles; NumPy's `logaddexp2` has one constant of fewer digits."""
    if operation != "logaddexp2":
        found: Array = numpy_function(operation)(*wide)
        return found
    x, y = wide
    same = np.maximum(x, y) + np.log1p(np.exp2(-abs(x - y))) / np.log(np.longdouble(2))
    return np.where(np.isfinite(x - y), same, np.logaddexp2(x, y))


def raised(got: Array, want: Array, inputs: list[Array]) -> Any:
    """Are powers as close as a rounded exponent lets them be?"""
    x, y = (v.astype(np.clongdouble) for v in inputs)
    turns = np.abs(y) * (np.abs(np.log(np.abs(x))) + np.abs(np.angle(x)))
    error = np.finfo(got.dtype).eps * (4 + 4 * turns)
    return (np.abs(got - want) <= error * np.abs(want)) | (error > 0.01) & np.isfinite(turns)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
        yield


@for_each("operation", sorted(RULES))
def test_rule(operation: str) -> None:
    meaning = numpy_function(operation)
    for inputs, result in signatures(operation):
        assert supported(operation, inputs, result), (operation, inputs, result)
        arrays = operands(inputs)
        if operation == "power" and inputs[0][0] == "i":
            arrays[1] = np.abs(arrays[1] // 2)  # negative exponents are refused before they come here
        if operation == "clip":
            arrays[1:] = arrays[1][3:4].repeat(arrays[0].size), arrays[2][9:10].repeat(arrays[0].size)
        want = meaning(*arrays)
        kernel = body([result], inputs, [(operation, result, tuple(range(len(inputs))))])
        (got,) = run(kernel, arrays, [result])
        check(operation, got, want, arrays)


@pytest.mark.parametrize("source", DTYPES)
def test_casts_are_astype(source: str) -> None:
    (array,) = operands((source,))
    array = np.resize(array, array.size // 8 * 8)  # NumPy's own remainder loops cast NaN to uint32 otherwise
    others = [d for d in DTYPES if d != source]
    kernel = body(others, (source,), [("cast", d, (0,)) for d in others])
    for target, got in zip(others, run(kernel, [array], others), strict=True):
        check("cast", got, array.astype(target), [array])


def test_clip_keeps_nan_and_what_equals_a_bound() -> None:
    """As NumPy does with scalar bounds; of bounds that are arrays it takes the bound's zero, not x's."""
    x = np.array([0.0, -0.0, np.nan, 0.5, -2.0, 3.0] * 4)
    kernel = body(["float64"], ("float64",) * 3, [("clip", "float64", (0, 1, 2))])
    bounds = ((0.0, 1.0), (-0.0, 1.0), (np.nan, 1.0), (-1.0, 0.0), (-1.0, -0.0), (2.0, 1.0), (-1.0, np.nan))
    for low, high in bounds:
        (got,) = run(kernel, [x, np.full(x.size, low), np.full(x.size, high)], ["float64"])
        check("clip", got, np.clip(x, low, high), [x])


def test_every_elementwise_ufunc_has_rules_for_all_of_its_loops() -> None:
    without = {"divmod", "matmul", "matvec", "vecmat", "vecdot", "isnat", "frexp", "modf"}
    ufuncs = {u.__name__ for u in vars(np).values() if isinstance(u, np.ufunc)} - without
    missing = {u for u in ufuncs if signatures(u) and u not in RULES}
    assert not missing


@pytest.mark.parametrize("operation, inputs, result", [
    ("add", ("float64", "int64"), "float64"),
    ("add", ("float64",), "float64"),
    ("add", ("int64", "int64"), "int32"),
    ("subtract", ("bool", "bool"), "bool"),
    ("less", ("int64", "int32"), "bool"),
    ("floor", ("complex64",), "complex64"),
    ("add", ("longdouble", "longdouble"), "longdouble"),
    ("nothing", ("int8",), "int8"),
])
def test_what_numpy_has_no_loop_for_has_no_rule(operation: str, inputs: tuple[str, ...], result: str) -> None:
    assert not supported(operation, inputs, result)


SILENT = "less greater_equal maximum fmin clip sign heaviside floor_divide remainder isfinite cast".split()


@pytest.mark.parametrize("operation", SILENT)
@pytest.mark.skipif(platform.machine() != "x86_64", reason="reads x86's floating-point flags")
def test_nan_that_numpy_passes_in_silence_raises_no_flag(operation: str) -> None:
    """One fused task has one set of flags: an ordering of NaN must not look like an invalid operation."""
    invalid = 1
    libm = ctypes.CDLL("libm.so.6")
    x = np.array([np.nan, 1.0, -2.0, 0.5, 3.0] * 5)
    arity = {"clip": 3, "sign": 1, "isfinite": 1, "cast": 1}.get(operation, 2)
    bools = dict.fromkeys(("less", "greater_equal", "isfinite"), "bool")
    result = (bools | {"cast": "float16"}).get(operation, "float64")
    arrays = [np.roll(x, k) for k in range(arity)]
    kernel = body([result], ("float64",) * arity, [(operation, result, tuple(range(arity)))])
    run(kernel, arrays, [result])
    libm.feclearexcept(invalid)
    run(kernel, arrays, [result])
    assert not libm.fetestexcept(invalid)
    root = body(["float64"], ("float64",), [("sqrt", "float64", (0,))])
    run(root, arrays[:1], ["float64"])
    assert libm.fetestexcept(invalid)  # of -2: the flags are really read


ORDERINGS = "less less_equal greater greater_equal maximum minimum clip".split()

MACHINES = {"x86-64": Host(X86, "x86-64", "", False, quiet=False, fma=False),
            "AVX": Host(X86, "sandybridge", "", False, fma=False),
            "AVX2": Host(X86, "x86-64-v3", "", True),
            "AVX-512": Host(X86, "x86-64-v4", "", True)}
"""Machines whose code this one may be able to run, too."""


@pytest.mark.parametrize("lanes", [1, 4, 8, 16])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("machine", MACHINES)
def test_orderings_of_quiet_nan_are_silent_on_every_machine(machine: str, dtype: str, lanes: int,
                                                            monkeypatch: pytest.MonkeyPatch) -> None:
    """Infinities, zeros of both signs and NaN beside each other in one vector: NumPy's bits and no flag; of a
    NaN that signals, the bits."""
    target = replace(MACHINES[machine], lanes=lanes)
    if dtype == "float16" and not target.halves:
        pytest.skip("no conversions of float16")
    if not runs(machine):
        pytest.skip(f"this processor has no {machine}")
    codegen.machine()  # as the machine that it is, with the library that others need
    monkeypatch.setattr(codegen, "host", lambda: target)
    of = {o: (0, 2, 3) if o == "clip" else (0, 1) for o in ORDERINGS}
    results = ["bool" if o in COMPARISONS else dtype for o in ORDERINGS]
    kernel = body(results, (dtype,) * 4, [(o, r, of[o]) for o, r in zip(ORDERINGS, results, strict=True)])
    native = machine_code.native(kernel)
    libm = ctypes.CDLL("libm.so.6")
    for signal in (False, True):
        line = np.array([0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 1.0, -1.0], dtype)
        if signal:
            line[2:4] = signalling(dtype)
        pairs = np.repeat(line, 8), np.tile(line, 8)
        arrays = [np.concatenate([x, x[:13]]) for x in pairs]
        arrays += [np.full(77, bound, dtype) for bound in (-1, 0.5)]
        libm.feclearexcept(61)
        found = run(kernel, arrays, results, native)
        assert signal or not libm.fetestexcept(61)
        for operation, got in zip(ORDERINGS, found, strict=True):
            inputs = [arrays[k] for k in of[operation]]
            check(operation, got, numpy_function(operation)(*inputs), inputs)


def runs(machine: str) -> bool:
    """Can this processor run code for that machine?"""
    if platform.machine() != "x86_64":
        return False
    import llvmlite.binding as llvm

    needs = {"x86-64": (), "AVX": ("avx",), "AVX2": ("avx2", "fma", "f16c", "bmi2"),
             "AVX-512": ("avx512f", "avx512dq", "avx512bw", "avx512vl", "avx512cd")}[machine]
    return all(llvm.get_host_cpu_features().get(f) for f in needs)


def signalling(dtype: str) -> Array:
    """A NaN whose first bit of the mantissa is clear."""
    bits = {"float16": (0x7D00, np.uint16), "float32": (0x7FA00000, np.uint32),
            "float64": (0x7FF4000000000000, np.uint64)}[dtype]
    return np.array(bits[0], bits[1]).view(dtype)


@pytest.mark.parametrize("machine", MACHINES)
def test_an_ordering_is_one_comparison_where_the_machine_has_a_quiet_one(machine: str) -> None:
    kernel = body(["bool"], ("float64",) * 2, [("less", "bool", (0, 1))])
    text = nest.emit(kernel, MACHINES[machine])
    assert ("constrained.fcmp" in text) == (machine != "x86-64")
    assert ("fcmp ord" in text) == (machine == "x86-64")


@pytest.mark.parametrize("operator, function", [("sum", np.add), ("prod", np.multiply), ("min", np.minimum),
                                                ("max", np.maximum)])
def test_the_neutral_value_of_a_fold_changes_nothing(operator: str, function: np.ufunc) -> None:
    for dtype in DTYPES:
        x = specials(dtype)
        if dtype[0] == "c" and operator == "prod":
            x = x[np.isfinite(x) & (x.real != 0) & (x.imag != 0)]  # 1 + 0j times infinity is not infinity
        start = np.full(x.size, neutral(operator, dtype), dtype)
        check(operator, function(start, x), x, [x])


class Elsewhere:
    """A target of which nothing is known but its lanes."""

    fma = True
    quiet = sse = masks_bytes = tiles = counts = packs = permutes = passes = ahead = seeds = False
    flags = library = True

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes

    def math(self, code: Code, name: str, dtype: str, values: tuple[str, ...]) -> str:
        return code.let(f"call {code.type(dtype)} @{name}({code.type(dtype)} {values[0]})")


def test_a_fold_is_its_ufunc_and_any_and_all_are_logical() -> None:
    code = Code(Module(Elsewhere(8)), 8)
    for operator, text in (("sum", "fadd"), ("prod", "fmul"), ("max", "fcmp ogt"), ("min", "fcmp olt")):
        fold(code, operator, "float64", "%a", "%b")
        assert text in "\n".join(code.lines)
    for operator, text in (("any", "or"), ("all", "and")):
        assert fold(code, operator, "bool", "%a", "%b") and f" = {text} <8 x i1> %a, %b" in code.lines[-1]


@pytest.mark.parametrize("lanes", [1, 4])
def test_every_rule_is_written_in_the_lanes_asked_for(lanes: int) -> None:
    module = Module(Elsewhere(lanes))
    code = Code(module, lanes)
    for operation in RULES:
        for inputs, result in signatures(operation):
            names: list[Any] = [("%a", "%b") if d in COMPONENT else "%a" for d in inputs]
            value = RULES[operation](code, inputs, result, tuple(names))
            assert isinstance(value, tuple) == (result in COMPONENT)
    text = "\n".join(code.lines)
    assert "<8 x" not in text and ("<4 x" in text) == (lanes == 4)
    assert "<8 x" not in str(module)

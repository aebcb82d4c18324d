"""The building blocks of lowering rules: a dtype and values in, LLVM text out.

A *rule* is `(code, input dtypes, result dtype, values) -> value`.  Rules are chosen by operation and by the
*letter* of the first (for `where`: the second) input: b(ool) i(nt) u(int) f(loat) c(omplex).
"""

from __future__ import annotations

from collections.abc import Callable

from diffuse.ir import ITEMSIZE
from diffuse.kernels.llvm.code import COMPONENT, Code, Value, guarded, literal

Dtypes = tuple[str, ...]
Rule = Callable[[Code, Dtypes, str, tuple[Value, ...]], Value]
Table = dict[str, dict[str, Rule]]
"""Operation -> letters -> rule, as in `{"add": {"b": ..., "iu": ..., "f": ..., "c": ...}}`."""

BITS = {"float32": "int32", "float64": "int64", "float16": "int32"}
"""The integer types that hold the bits of a float's value (a float16 is held in a float32)."""

FLOAT = {"float16": "float32", "float32": "float32", "float64": "float64"} | COMPONENT
"""The float format in which values of this dtype, or their parts, are computed."""


def letter(dtype: str) -> str:
    return dtype[0]


def width(dtype: str) -> int:
    """The bits of an integer type."""
    return 8 * ITEMSIZE[dtype]


def real(value: Value) -> str:
    """The value, which is known not to be complex."""
    assert isinstance(value, str)
    return value


def parts(value: Value) -> tuple[str, str]:
    """The parts of a value that is known to be complex."""
    assert isinstance(value, tuple)
    return value


def binary(code: Code, instruction: str, dtype: str, a: str, b: str) -> str:
    return code.let(f"{instruction} {code.type(dtype)} {a}, {b}")


def compare(code: Code, predicate: str, dtype: str, a: str, b: str) -> str:
    """A bool; floats have the predicates oeq une olt uno ..., integers eq ne slt ult ...

    LLVM writes an ordering with an instruction that flags NaN as an invalid operation, which NumPy's
    comparisons do not do.  It takes a quiet one, where the target has it, if told that flags are looked at;
    elsewhere, if there are flags, lanes with NaN compare numbers instead for which the predicate is false.
    """
    kind = code.type(dtype)
    if letter(dtype) != "f":
        return code.let(f"icmp {predicate} {kind} {a}, {b}")
    if predicate not in _WHEN_UNKNOWN or not code.module.target.flags:
        return code.let(f"fcmp {predicate} {kind} {a}, {b}")
    if code.module.target.quiet:
        return code.quiet(predicate, dtype, a, b)
    known = code.let(f"fcmp ord {kind} {a}, {b}")
    x, y = (code.const(dtype, number) for number in _WHEN_UNKNOWN[predicate])
    constant = not (a.startswith("%") and b.startswith("%"))
    a, b = choose(code, dtype, known, a, x), choose(code, dtype, known, b, y)
    if constant:  # LLVM would see through a plain selection
        a = code.intrinsic("llvm.arithmetic.fence", dtype, a)
    return code.let(f"fcmp {predicate} {kind} {a}, {b}")


_WHEN_UNKNOWN = {"olt": (1.0, 0.0), "ole": (1.0, 0.0), "ogt": (0.0, 1.0), "oge": (0.0, 1.0)}
"""Operands for which a predicate is false."""


def settled(code: Code, dtype: str, value: str) -> str:
    """Hide a value's origin from LLVM.

    LLVM would otherwise turn a division by `choose(special, one, x)` into a selection between two divisions,
    where the one by x is done for all lanes and raises its flags.
    """
    return code.intrinsic("llvm.arithmetic.fence", dtype, value)


def choose(code: Code, dtype: str, condition: str, a: str, b: str) -> str:
    """`a` where the condition holds, `b` elsewhere."""
    kind = code.type(dtype)
    return code.let(f"select {code.type('bool')} {condition}, {kind} {a}, {kind} {b}")


def convert(code: Code, instruction: str, source: str, target: str, value: str) -> str:
    return code.let(f"{instruction} {code.type(source)} {value} to {code.type(target)}")


def both(code: Code, a: str, b: str) -> str:
    return binary(code, "and", "bool", a, b)


def either(code: Code, a: str, b: str) -> str:
    return binary(code, "or", "bool", a, b)


def negated(code: Code, a: str) -> str:
    return binary(code, "xor", "bool", a, code.const("bool", True))


def is_nan(code: Code, dtype: str, a: str) -> str:
    return compare(code, "uno", dtype, a, a)


def magnitude(code: Code, dtype: str, a: str) -> str:
    """The absolute value of a float."""
    return code.intrinsic("llvm.fabs", dtype, a)


def fused(code: Code, dtype: str, a: str, b: str, c: str) -> str:
    """a * b + c, rounded once: only where NumPy's own loops do so."""
    return code.intrinsic("llvm.fma", dtype, a, b, c)


def nonzero(code: Code, dtype: str, value: Value) -> str:
    """The truth of a value of any dtype; NaN is true."""
    if letter(dtype) == "b":
        return real(value)
    if isinstance(value, tuple):
        part = COMPONENT[dtype]
        return either(code, nonzero(code, part, value[0]), nonzero(code, part, value[1]))
    return compare(code, "une" if letter(dtype) == "f" else "ne", dtype, value, code.const(dtype, 0))


def routine(code: Code, name: str, result: str, parameters: tuple[tuple[str, str], ...],
            write: Callable[[Code, tuple[str, ...]], None], arguments: tuple[str, ...]) -> str:
    """Call a function written once per module and number of lanes, for code that needs a loop or a branch.

    `parameters` are (name, dtype); `write` writes the body, from the label `entry` to its `ret`.
    """
    inner = Code(code.module, code.lanes)
    name = f"diffuse.{name}.{code.lanes}"
    inner.label("entry")
    write(inner, tuple(f"%{p}" for p, _ in parameters))
    head = ", ".join(f"{code.type(dtype)} %{p}" for p, dtype in parameters)
    body = "\n".join(inner.lines)
    code.declare(f"define internal {code.type(result)} @{name}({head}) {{\n{body}\n}}")
    given = ", ".join(f"{code.type(dtype)} {a}" for (_, dtype), a in zip(parameters, arguments, strict=True))
    return code.let(f"call {code.type(result)} @{name}({given})")


def anywhere(code: Code, condition: str) -> str:
    """Whether the condition holds in any lane, as an i1."""
    if code.lanes == 1:
        return condition
    kind = code.type("bool")
    name = f"llvm.vector.reduce.or.v{code.lanes}i1"
    code.declare(f"declare i1 @{name}({kind})")
    return code.let(f"call i1 @{name}({kind} {condition})")


RAISING = {"divide": ("fdiv", 1.0, 0.0), "invalid": ("fdiv", 0.0, 0.0), "over": ("fmul", 1e300, 1e300)}
"""Arithmetic that raises the flag of each of NumPy's error modes."""


def flag(code: Code, mode: str, condition: str) -> None:
    """Raise a floating-point flag if the condition holds in any lane; integer operations set none by
    themselves."""
    if not code.module.target.flags:
        return
    instruction, a, b = RAISING[mode]
    name = f"llvm.experimental.constrained.{instruction}.f64"
    code.declare(f"declare double @{name}(double, double, metadata, metadata)")
    with guarded(code, anywhere(code, condition)):
        x, y = literal("float64", a), literal("float64", b)
        code.let(f'call double @{name}(double {x}, double {y}, metadata !"round.tonearest", '
                 'metadata !"fpexcept.strict")')

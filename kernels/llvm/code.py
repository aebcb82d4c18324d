"""The text of one LLVM function being written, value by value.

`Code` knows types, literals, names and sections, but no operation of NumPy: `ops` writes operations with it,
and `nest` the loops around them.  It does not depend on a machine either: that part (`math`) is delegated to
its target.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from diffuse.kernels.targets.base import Target

Value = str | tuple[str, str]
"""An LLVM value: a name or a literal.  A complex value is its (real, imaginary) parts."""

ELEMENT = {
    "bool": "i1",
    "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "uint8": "i8", "uint16": "i16", "uint32": "i32", "uint64": "i64",
    "float16": "float", "float32": "float", "float64": "double",
    "complex64": "float", "complex128": "double",
}
"""The LLVM type of one lane of a value.  A float16 travels as a float, a complex as two values."""

MEMORY = ELEMENT | {"bool": "i8", "float16": "half"}
"""The LLVM type of one element in memory; a complex element is two adjacent ones."""

COMPONENT = {"complex64": "float32", "complex128": "float64"}
"""The element type of the parts of a complex type."""

_MANGLED = {"i1": "i1", "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64", "half": "f16", "float": "f32",
            "double": "f64", "ptr": "p0"}


class Module:
    """The declarations and globals that the functions of one LLVM module share."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.declarations: dict[str, None] = {}
        self.functions: list[str] = []
        self.written: set[str] = set()
        """Names of the functions among the declarations that are written where they are first called."""
        self._shared: dict[tuple[str, ...], str] = {}
        """The names of functions by parameters and lines."""

    def shared(self, name: str, parameters: str, code: Code) -> str:
        """Write a function, unless an equal one was written; returns the name of that one, else its own."""
        found = self._shared.setdefault((parameters, *code.lines), name)
        if found == name:
            head = f"define internal void @{name}{parameters} nounwind {{"
            self.functions.append("\n".join([head, *code.lines, "}"]))
        return found

    def __str__(self) -> str:
        return "\n".join([*self.declarations, *self.functions]) + "\n"


class Code:
    """The text of one function.  Text goes to the end of the current section, `lines`.

    The emitter keeps several sections open at once (a loop's preheader and its body), switches between
    them by assigning to `lines`, and joins them when the loop is closed.
    """

    def __init__(self, module: Module, lanes: int) -> None:
        self.module = module
        self.lanes = lanes
        self.lines: list[str] = []
        self.doubts: list[str] | None = None
        """While code is written for ordinary operands alone: the conditions, each an i1, under which there
        are others and its results are wrong."""
        self._count = 0

    def name(self, stem: str = "v") -> str:
        """A name that is unique in this function, without its sigil."""
        self._count += 1
        return f"{stem}{self._count}"

    def let(self, text: str) -> str:
        """Write an instruction with a result; returns the result's name."""
        self._count += 1
        name = f"%v{self._count}"
        self.lines.append(f"  {name} = {text}")
        return name

    def do(self, text: str) -> None:
        """Write an instruction without a result."""
        self.lines.append("  " + text)

    def label(self, name: str) -> None:
        """Begin a basic block."""
        self.lines.append(name + ":")

    def declare(self, text: str) -> None:
        """Add a declaration or global to the module, once."""
        self.module.declarations[text] = None

    def type(self, dtype: str) -> str:
        """The LLVM type of a value of this element type (of each part of it, if it is complex)."""
        element = ELEMENT[dtype]
        return element if self.lanes == 1 else f"<{self.lanes} x {element}>"

    def memory(self, dtype: str, lanes: int | None = None) -> str:
        """The LLVM type of `lanes` neighbouring elements in memory."""
        lanes = self.lanes if lanes is None else lanes
        return MEMORY[dtype] if lanes == 1 else f"<{lanes} x {MEMORY[dtype]}>"

    def const(self, dtype: str, value: object) -> str:
        """A literal in all lanes (of one part, for a complex element type)."""
        text = literal(dtype, value)
        return text if self.lanes == 1 else f"splat ({ELEMENT[dtype]} {text})"

    def math(self, name: str, dtype: str, *values: str) -> str:
        """Call a transcendental function of float32 or float64 values, as the target implements it."""
        return self.module.target.math(self, name, dtype, values)

    def intrinsic(self, name: str, dtype: str, *values: str, result: str | None = None) -> str:
        """Call an LLVM intrinsic overloaded on its operands, and on its result where that differs.

        A value that begins with "i1 " or "i32 " is an immediate of that type, as in `("llvm.abs", "int32",
        x, "i1 false")`; all others are of type `dtype`.
        """
        operand, returned = self.type(dtype), self.type(result or dtype)
        mangled = f"{name}.{self._mangle(result)}" if result else name
        mangled += f".{self._mangle(dtype)}"
        typed = [v if v.startswith(("i1 ", "i32 ")) else f"{operand} {v}" for v in values]
        types = ", ".join(v.split()[0] if v.startswith(("i1 ", "i32 ")) else operand for v in values)
        self.declare(f"declare {returned} @{mangled}({types})")
        return self.let(f"call {returned} @{mangled}({', '.join(typed)})")

    def quiet(self, predicate: str, dtype: str, a: str, b: str) -> str:
        """Compare floats by an instruction that raises no flag for a quiet NaN."""
        kind, truth = self.type(dtype), self.type("bool")
        name = f"llvm.experimental.constrained.fcmp.{self._mangle(dtype)}"
        self.declare(f"declare {truth} @{name}({kind}, {kind}, metadata, metadata)")
        return self.let(f'call {truth} @{name}({kind} {a}, {kind} {b}, metadata !"{predicate}", '
                        'metadata !"fpexcept.maytrap")')

    def _mangle(self, dtype: str) -> str:
        element = _MANGLED[ELEMENT[dtype]]
        return element if self.lanes == 1 else f"v{self.lanes}{element}"

    def splat(self, dtype: str, value: str) -> str:
        """Broadcast a scalar (one lane) to all lanes."""
        if self.lanes == 1:
            return value
        first = self.let(f"insertelement {self.type(dtype)} poison, {ELEMENT[dtype]} {value}, i64 0")
        return self.let(f"shufflevector {self.type(dtype)} {first}, {self.type(dtype)} poison, "
                        f"<{self.lanes} x i32> zeroinitializer")


def literal(dtype: str, value: Any) -> str:
    """A Python (or NumPy) number as an LLVM literal; floats are written by their bits, so exactly."""
    if dtype == "bool":
        return "true" if value else "false"
    if ELEMENT[dtype] in ("float", "double"):
        number = float(value)
        if ELEMENT[dtype] == "float":  # written as the double of the same value
            number = _single(number)
        return f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"
    return str(int(value))


def _single(number: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", number))[0])
    except OverflowError:  # beyond the largest float: rounds to infinity, as a cast does
        return float("inf") if number > 0 else float("-inf")


@contextmanager
def counted(code: Code, low: str, high: str, step: int | str = 1) -> Iterator[str]:
    """A loop over `low, low + step, ...` below `high` (empty if `low >= high`); yields the index, an i64."""
    with carrying(code, low, high, step, []) as (index, _):
        yield index


@contextmanager
def carrying(code: Code, low: str, high: str, step: int | str, begin: list[tuple[str, str]]
             ) -> Iterator[tuple[str, list[str]]]:
    """A loop as `counted`, with values that are carried from one iteration to the next in registers.

    `begin` has the LLVM type and the initial value of each.  Yields the index and a list of the values at the
    beginning of an iteration; the body replaces them by those at its end.  After the loop the list has the
    final ones.
    """
    stems = ("before", "head", "inside", "latch", "after", "i", "i")
    before, head, inside, latch, after, index, following = (code.name(stem) for stem in stems)
    index, following = "%" + index, "%" + following
    code.do(f"br label %{before}")
    code.label(before)
    code.do(f"br label %{head}")
    code.label(head)
    code.do(f"{index} = phi i64 [ {low}, %{before} ], [ {following}, %{latch} ]")
    lines, first = code.lines, len(code.lines)
    names = ["%" + code.name("c") for _ in begin]
    values = names.copy()
    more = code.let(f"icmp slt i64 {index}, {high}")
    code.do(f"br i1 {more}, label %{inside}, label %{after}")
    code.label(inside)
    yield index, values
    code.do(f"br label %{latch}")
    code.label(latch)
    code.do(f"{following} = add nsw i64 {index}, {step}")
    code.do(f"br label %{head}")
    code.label(after)
    lines[first:first] = [f"  {name} = phi {kind} [ {value}, %{before} ], [ {turned}, %{latch} ]"
                          for name, (kind, value), turned in zip(names, begin, values, strict=True)]
    values[:] = names


@contextmanager
def guarded(code: Code, condition: str) -> Iterator[None]:
    """Guard the code written inside by `condition`, an i1."""
    inside, after = code.name("then"), code.name("after")
    code.do(f"br i1 {condition}, label %{inside}, label %{after}")
    code.label(inside)
    yield
    code.do(f"br label %{after}")
    code.label(after)


@contextmanager
def with_lanes(code: Code, lanes: int) -> Iterator[None]:
    """Write values with another number of lanes inside the context."""
    code.lanes, outer = lanes, code.lanes
    yield
    code.lanes = outer

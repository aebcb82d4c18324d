"""Parses the PTX that LLVM writes into basic blocks of instructions, and into variables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

VARIABLE = re.compile(r"(?:\.align\s+(\d+)\s+)?\.[busf](\d+)\s+([\w$]+)(?:\[(\d+)\])?"
                      r"\s*(?:=\s*\{?([^}]*)\}?)?$")
FUNCTION = re.compile(r"\.(entry|func)\s*(?:\(([^)]*)\)\s*)?([\w$]+)\s*\(([^)]*)\)(.*)$")
SPACES = re.compile(r"\.(shared|local|global|const|param)\s+(.*)$")
ENDS = ("bra", "ret", "bar", "trap", "exit")
"""Instructions after which another basic block begins."""


class PtxError(Exception):
    """Text that this machine does not know; the message names the line."""


class Instruction(NamedTuple):
    line: int
    text: str
    guard: str
    """The predicate register, with a leading "!" where it is negated; empty without one."""
    parts: tuple[str, ...]
    """The name and its modifiers: ("add", "rn", "f64")."""
    operands: tuple[str, ...]

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}"


class Variable(NamedTuple):
    """A variable of a kernel in one of PTX's state spaces, such as shared or local memory."""

    name: str
    align: int
    size: int
    values: bytes = b""


class Layout:
    """Variables that lie one after another."""

    def __init__(self, before: Layout | None = None) -> None:
        self.variables: dict[str, tuple[int, int]] = dict(before.variables) if before else {}
        """The offset and the size of each."""
        self.size: int = before.size if before else 0

    def add(self, variable: Variable) -> None:
        start = -(-self.size // variable.align) * variable.align
        self.variables[variable.name] = start, variable.size
        self.size = start + variable.size


class Function:
    """A kernel, or a function that kernels call."""

    def __init__(self, name: str, kernel: bool, shared: Layout) -> None:
        self.name, self.kernel = name, kernel
        self.shared = Layout(shared)
        """The module's shared variables, and those that only this function uses."""
        self.result = ""
        self.parameters = Layout()
        self.arguments: dict[str, int] = {}
        """The size of each variable by which it passes and takes values of functions that it calls."""
        self.local = Layout()
        self.threads = 0
        """The threads of a group, if the kernel states them; else 0."""
        self.bits: dict[str, int] = {}
        """The width of the registers that begin with each prefix; 1 of predicates."""
        self.blocks: list[list[Instruction]] = [[]]
        self.labels: dict[str, int] = {}

    def label(self, name: str) -> None:
        if self.blocks[-1]:
            self.blocks.append([])
        self.labels[name] = len(self.blocks) - 1

    def append(self, instruction: Instruction) -> None:
        self.blocks[-1].append(instruction)
        if instruction.parts[0] in ENDS:
            self.blocks.append([])

    def width(self, register: str) -> int:
        """The bits of a register."""
        return self.bits[register if register in self.bits else register.rstrip("0123456789")]


class Module:
    """A parsed module."""

    def __init__(self, text: str) -> None:
        self.functions: dict[str, Function] = {}
        self.shared = Layout()
        self.globals: dict[str, Variable] = {}
        inside: Function | None = None
        for line, statement in _statements(text):
            try:
                inside = self._statement(inside, line, statement)
            except (KeyError, ValueError, IndexError, PtxError) as problem:
                raise PtxError(f"line {line}: {statement}: {problem}") from problem

    def _statement(self, inside: Function | None, line: int, text: str) -> Function | None:
        """Parse one statement; returns the function that the next one is in."""
        if text.startswith("function "):
            return self._function(text)
        if text == "end":
            return None
        if inside is None:
            self._directive(text)
        elif text.endswith(":"):
            inside.label(text[:-1])
        elif text.startswith(".reg"):
            bits, name = re.findall(r"\.(pred|[busf]\d+)\s+(%\w+)", text)[0]
            inside.bits[name] = 1 if bits == "pred" else int(bits[1:])
        elif found := SPACES.match(text):
            self._variable(found[1], found[2], inside)
        elif not text.startswith((".pragma", ".loc", ".file")):
            inside.append(_instruction(line, text))
        return inside

    def _directive(self, text: str) -> None:
        if found := SPACES.match(text.removeprefix(".visible ").removeprefix(".weak ")):
            self._variable(found[1], found[2], None)
        elif not text.startswith((".version", ".target", ".address_size")):
            raise PtxError("unknown directive")

    def _variable(self, space: str, text: str, inside: Function | None) -> None:
        variable = _declared(text)
        if space == "shared":
            (inside.shared if inside else self.shared).add(variable)
        elif space in ("global", "const"):
            self.globals[variable.name] = variable
        elif inside is None:
            raise PtxError("a variable outside of functions")
        elif space == "local":
            inside.local.add(variable)
        else:
            inside.arguments[variable.name] = variable.size

    def _function(self, text: str) -> Function:
        found = FUNCTION.search(text)
        if not found:
            raise PtxError("not a function as LLVM writes them")
        function = Function(found[3], found[1] == "entry", self.shared)
        for parameter in filter(None, map(str.strip, found[4].split(","))):
            function.parameters.add(_declared(parameter.removeprefix(".param").strip()))
        if found[2]:
            result = _declared(found[2].strip().removeprefix(".param").strip())
            function.result = result.name
            function.arguments[result.name] = result.size
        if threads := re.search(r"\.(?:max|req)ntid\s+(\d+)", found[5]):
            function.threads = int(threads[1])
        self.functions[function.name] = function
        return function


def _declared(text: str) -> Variable:
    found = VARIABLE.match(text)
    if not found:
        raise PtxError("not a declaration as LLVM writes them")
    size = int(found[2]) // 8
    values = b"".join(int(value, 0).to_bytes(size, "little", signed=value.strip().startswith("-"))
                      for value in (found[5] or "").split(",") if value.strip())
    return Variable(found[3], int(found[1] or size), size * int(found[4] or 1), values)


def _instruction(line: int, text: str) -> Instruction:
    guard, rest = "", text
    if text.startswith("@"):
        guard, rest = text[1:].split(None, 1)
    name, _, operands = rest.partition(" ")
    return Instruction(line, text, guard, tuple(name.split(".")), tuple(_operands(operands)))


def _operands(text: str) -> list[str]:
    """The operands, cut at the commas outside of brackets."""
    found, depth = [""], 0
    for letter in text:
        depth += (letter in "({[") - (letter in ")}]")
        if letter == "," and not depth:
            found.append("")
        else:
            found[-1] += letter
    return [operand.strip() for operand in found if operand.strip()]


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Each statement with the number of its first line: "function ..." is the head of a function, and "end"
    stands behind its body.  The braces of inner scopes are left out."""
    held, begun, depth = "", 0, 0
    for number, line in enumerate(text.splitlines(), 1):
        line = " ".join(line.partition("//")[0].split())
        begun = begun if held else number
        held = f"{held} {line}".strip()
        if depth and held[:1] in ("{", "}"):
            depth += 1 if held[0] == "{" else -1
            held = held[1:].strip()
            if not depth:
                yield number, "end"
        if held.endswith("{") and not depth:
            yield begun, f"function {held[:-1]}"
            held, depth = "", 1
        elif held.endswith((":", ";")) or held.startswith((".version", ".target", ".address_size")):
            if depth or not held.startswith((".func", ".extern")):  # else a declaration of a function
                yield begun, held.removesuffix(";").strip()
            held = ""

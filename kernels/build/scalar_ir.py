"""Parses the LLVM text of one function to the blocks of a `UserFunction`, or refuses it with a reason.

The accepted instructions are a closed list: arithmetic, comparisons, conversions, selections, branches, and
calls of intrinsics and of C's mathematical functions.  The latter become operations of the kernel language,
whose results do not depend on a machine's C library.  The function passes its result to `RESULT`, and calls
`RAISES` where the program's function would raise an exception.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from diffuse.kernels.body.user import BasicBlock, Exit, Instruction, Operand, Phi

RESULT, RAISES = "diffuse.result", "diffuse.raises"

DTYPES = {"i1": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "float": "float32",
          "double": "float64"}

INTRINSICS = {name: f"llvm.{name}" for name in (
    "sqrt fabs floor ceil trunc rint nearbyint roundeven round copysign minnum maxnum minimum maximum fma "
    "smin smax umin umax abs ctpop").split()} | {"fmin": "llvm.minnum", "fmax": "llvm.maxnum"}
"""Intrinsics, and C functions, with exact results."""

OPERATIONS = {name: name for name in (
    "exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh tanh cbrt hypot fmod erf erfc").split()} | {
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2", "asinh": "arcsinh",
    "acosh": "arccosh", "atanh": "arctanh", "pow": "power"}
"""Intrinsics, and C functions, that become operations of the kernel language."""

IGNORED = ("llvm.lifetime.", "llvm.assume", "llvm.experimental.noalias", "llvm.dbg.")

ARITHMETIC = frozenset("fadd fsub fmul fdiv frem fneg add sub mul sdiv udiv srem urem shl lshr ashr and or "
                       "xor freeze".split())

_NAME = r'%(?:"[^"]*"|[-\w.$]+)'
_OPERAND = rf"(?:{_NAME}|[-\w.+]+)"
_TYPE = r"(?:i1|i8|i16|i32|i64|float|double)"
_SIMPLE = re.compile(rf"(\w+)(?: [a-z]\w*)*? ({_TYPE}) ({_OPERAND})(?:, ({_OPERAND}))?$")
_COMPARE = re.compile(rf"([if]cmp)(?: [a-z]\w*)*? (\w+) ({_TYPE}) ({_OPERAND}), ({_OPERAND})$")
_CONVERT = re.compile(rf"(\w+)(?: [a-z]\w*)*? ({_TYPE}) ({_OPERAND}) to ({_TYPE})$")
_SELECT = re.compile(rf"select(?: [a-z]\w*)*? i1 ({_OPERAND}), ({_TYPE}) ({_OPERAND}), {_TYPE} ({_OPERAND})$")
_PHI = re.compile(rf"phi(?: [a-z]\w*)*? ({_TYPE}) (\[.*)$")
_CALL = re.compile(r'(?:tail |musttail |notail )?call (?:[a-z]\w*(?:\([^)]*\))? )*?(\S+) '
                   r'@("[^"]*"|[\w.$]+)\((.*)\)')
_BRANCH = re.compile(rf"br (?:i1 ({_OPERAND}), )?label ({_NAME})(?:, label ({_NAME}))?$")


class Refused(Exception):
    """The reason why a function cannot become an operation of the kernel language, as the end of a
    sentence."""


class _Line(NamedTuple):
    name: str
    """The name of the result; empty if there is none."""
    text: str


def blocks(text: str, parameters: int) -> tuple[BasicBlock, ...]:
    """Parse the function whose definition is `text` to its blocks, without unreachable ones."""
    return _Reader(text, parameters).read()


class _Reader:
    """The state of parsing one function."""

    def __init__(self, text: str, parameters: int) -> None:
        head, *lines = text.splitlines()
        self.numbers = {name: k for k, name in enumerate(re.findall(_NAME, head))}
        if len(self.numbers) != parameters:
            raise Refused("its parameters are not numbers")
        self.lines: dict[str, list[_Line]] = {}
        for line in lines:
            self._line(line.partition(", !")[0].partition(" #")[0].rstrip())
        self.entry = next(iter(self.lines))

    def _line(self, line: str) -> None:
        label = re.match(r'("[^"]*"|[-\w.$]+):', line)
        if label:
            self.lines["%" + label[1]] = []
            return
        found = re.match(rf"  (?:({_NAME}) = )?(.*)", line)
        if found and found[2]:
            if not self.lines:  # a first block without a label
                self.lines["%entry"] = []
            self.lines[next(reversed(self.lines))].append(_Line(found[1] or "", found[2]))

    def read(self) -> tuple[BasicBlock, ...]:
        order = self._order()
        self.place = {name: k for k, name in enumerate(order)}
        for name in order:
            for line in self.lines[name]:
                if line.name:
                    self.numbers[line.name] = len(self.numbers)
        return tuple([self._block(name) for name in order])

    def _targets(self, name: str) -> list[str]:
        """The successors of a block; conditions that are literals are resolved."""
        found = _BRANCH.match(self.lines[name][-1].text)
        if found is None:
            return []
        if found[1] in ("true", "false"):
            return [found[2 if found[1] == "true" else 3]]
        return [target for target in (found[2], found[3]) if target]

    def _order(self) -> list[str]:
        """The reachable blocks, each after its predecessors except for the back edges of loops."""
        seen, finished = {self.entry}, []
        path: list[tuple[str, Iterator[str]]] = [(self.entry, iter(self._targets(self.entry)))]
        while path:
            name, targets = path[-1]
            target = next((t for t in targets if t not in seen), None)
            if target is None:
                finished.append(name)
                path.pop()
            else:
                seen.add(target)
                path.append((target, iter(self._targets(target))))
        return finished[::-1]

    def _operand(self, text: str) -> Operand:
        return self.numbers[text] if text.startswith("%") else text

    def _block(self, name: str) -> BasicBlock:
        phis, instructions = [], []
        *lines, last = self.lines[name]
        values: tuple[Operand, ...] = ()
        for line in lines:
            result = re.match(rf"call void @{RESULT}\((.*)\)", line.text)
            if line.text.startswith("phi "):
                phis.append(self._phi(line))
            elif result:
                values = tuple([self._operand(a.split()[-1]) for a in result[1].split(", ")])
            elif line.name:
                instructions.append(self._instruction(line.text))
            elif not any(f"@{start}" in line.text for start in IGNORED):
                self._void(line.text)
        return BasicBlock(tuple(phis), tuple(instructions), self._exit(name, last.text, values))

    def _exit(self, name: str, text: str, values: tuple[Operand, ...]) -> Exit:
        targets = tuple([self.place[t] for t in self._targets(name)])
        if len(targets) == 2 and targets[0] != targets[1]:
            branch = _BRANCH.match(text)
            assert branch is not None
            return Exit(targets, self._operand(branch[1]))
        if targets:
            return Exit(targets[:1])
        if text != "ret void" or not values:
            raise Refused("it does not always return")
        return Exit((), "", values)

    def _phi(self, line: _Line) -> Phi:
        found = _PHI.match(line.text)
        if found is None:
            raise Refused(f"it chooses between addresses ({line.text})")
        pairs = re.findall(rf"\[ ({_OPERAND}), ({_NAME}) \]", found[2])
        return Phi(DTYPES[found[1]], tuple([(self.place[block], self._operand(value))
                                            for value, block in pairs if block in self.place]))

    def _instruction(self, text: str) -> Instruction:
        kind = text.split()[0]
        if found := _COMPARE.match(text):
            operands = self._operand(found[4]), self._operand(found[5])
            return Instruction(found[1], "bool", operands, DTYPES[found[3]], found[2])
        if found := _SELECT.match(text):
            operands3 = tuple([self._operand(found[k]) for k in (1, 3, 4)])
            return Instruction("select", DTYPES[found[2]], operands3, DTYPES[found[2]])
        if found := _CONVERT.match(text):
            return Instruction(found[1], DTYPES[found[4]], (self._operand(found[3]),), DTYPES[found[2]])
        if kind in ARITHMETIC and (found := _SIMPLE.match(text)):
            dtype = DTYPES[found[2]]
            values = tuple([self._operand(v) for v in (found[3], found[4]) if v])
            if kind == "frem":
                return Instruction("apply", dtype, values, dtype, "fmod")
            return Instruction(kind, dtype, values, dtype)
        if found := _CALL.match(text):
            return self._call(found[1], found[2].strip('"'), found[3])
        if kind in ("load", "store", "alloca", "getelementptr"):
            raise Refused("it works on memory: arrays, lists and other containers are no numbers")
        raise Refused(f"it has an instruction that is not translated ({text})")

    def _call(self, kind: str, symbol: str, arguments: str) -> Instruction:
        stem = re.sub(r"^llvm\.|\.[if]\d+$", "", symbol)
        if kind not in DTYPES:
            self._void(f"@{symbol}(")
            raise Refused(f"it calls {symbol}, whose result is no number")
        dtype = DTYPES[kind]
        if stem not in OPERATIONS and dtype == "float32" and stem.endswith("f"):
            stem = stem[:-1]  # C's function of a float
        given = [a.split() for a in arguments.split(", ")]
        if stem in ("abs", "ctpop"):
            given = given[:1]
        operands = tuple([self._operand(a[-1]) for a in given])
        same = all(a[0] == kind for a in given)
        if stem in INTRINSICS and same:
            return Instruction("intrinsic", dtype, operands, dtype, INTRINSICS[stem])
        if stem in OPERATIONS and same and dtype.startswith("float"):
            return Instruction("apply", dtype, operands, dtype, OPERATIONS[stem])
        self._void(f"@{symbol}(")
        raise Refused(f"it calls {symbol}, which Diffuse has no vector code for")

    def _void(self, text: str) -> None:
        """Refuse an instruction with an effect."""
        if f"@{RAISES}(" in text:
            raise Refused("it may raise an exception")
        if "@NRT_" in text:
            raise Refused("it allocates memory")
        if "@Py" in text:
            raise Refused("it calls Python")
        if not text.startswith("@"):
            raise Refused(f"it has an effect beside its result ({text[:80]})")

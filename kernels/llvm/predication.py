"""Calls of the program's own scalar functions on vectors: their branches become masks.

Each basic block is written once, for all lanes.  Its *mask* says which lanes go through it: a conditional
branch splits the mask of its block, a join merges values by the masks of the edges that lead there.  A loop
runs until its mask is empty; the values with which lanes leave it are kept.  In a block that not all lanes go
through, the others hold arbitrary values, so their operands are replaced in instructions that could raise a
floating-point flag, or trap: the flags are those of the scalar function, whatever the target's vectors are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from diffuse.kernels.body.user import Instruction, Operand, UserFunction
from diffuse.kernels.llvm.code import COMPONENT, Code, Value
from diffuse.kernels.llvm.ops.instructions import anywhere, compare, negated, settled
from diffuse.kernels.llvm.ops.rules import RULES

Mask = str | None
"""A vector of bools; None: all lanes."""


class Edge(NamedTuple):
    """An edge from one block to another: the lanes that take it, and the values for the phis there."""

    target: int
    mask: Mask
    values: tuple[str, ...]


def call(code: Code, function: UserFunction, arguments: Sequence[Value]) -> Value:
    """Write the function's computation on values of its parameters' element types."""
    flat: list[str] = []
    for argument in arguments:
        flat.extend((argument,) if isinstance(argument, str) else argument)
    found = _Call(code, function, flat).write()
    return found[0] if len(found) == 1 else (found[0], found[1])


class _Call:
    """One call being written."""

    def __init__(self, code: Code, function: UserFunction, arguments: list[str]) -> None:
        self.code, self.function = code, function
        self.values = dict(enumerate(arguments))
        self.first: list[int] = []
        """For each block, the number of its first value."""
        number = len(arguments)
        for block in function.blocks:
            self.first.append(number)
            number += len(block.phis) + len(block.instructions)
        self.whole: list[tuple[frozenset[str], Mask]] = []
        """Groups of disjoint masks, each with the mask that is their union."""
        self.parts: dict[str, frozenset[str]] = {}
        """The masks of which a union was made."""
        self.results: list[tuple[str, ...]] = []

    def write(self) -> tuple[str, ...]:
        blocks = frozenset(range(len(self.function.blocks)))
        self._region(blocks, 0, [Edge(0, None, ())])
        (result,) = self.results
        return result

    def _region(self, blocks: frozenset[int], head: int, entering: list[Edge]) -> list[Edge]:
        """Write blocks that are entered at `head`; returns the edges that leave them or lead back to
        `head`."""
        arriving: dict[int, list[Edge]] = {head: entering}
        leaving = []
        for group in self._components(blocks, head):
            heads = [b for b in sorted(group) if b in arriving]
            if len(heads) != 1:
                raise NotImplementedError("it has a loop with more than one entry")
            edges = arriving.pop(heads[0])
            inner = len(group) > 1 or heads[0] != head and heads[0] in self._successors(heads[0])
            for edge in self._loop(group, heads[0], edges) if inner else self._block(heads[0], edges):
                if edge.target in blocks and edge.target != head:
                    arriving.setdefault(edge.target, []).append(edge)
                else:
                    leaving.append(edge)
        return leaving

    def _successors(self, block: int) -> tuple[int, ...]:
        return self.function.blocks[block].exit.targets

    def _components(self, blocks: frozenset[int], head: int) -> list[frozenset[int]]:
        """The strongly connected components, but for edges to `head`, in topological order (Tarjan)."""
        order: dict[int, int] = {}
        low: dict[int, int] = {}
        stack: list[int] = []
        found: list[frozenset[int]] = []

        def visit(b: int) -> None:
            order[b] = low[b] = len(order)
            stack.append(b)
            for after in self._successors(b):
                if after not in blocks or after == head:
                    continue
                if after not in order:
                    visit(after)
                    low[b] = min(low[b], low[after])
                elif after in stack:
                    low[b] = min(low[b], order[after])
            if low[b] == order[b]:
                found.append(frozenset(stack[stack.index(b):]))
                del stack[stack.index(b):]

        visit(head)
        return found[::-1]

    def _block(self, number: int, edges: list[Edge]) -> list[Edge]:
        """Write one block, which is entered by these edges; returns the edges that leave it."""
        block, mask = self.function.blocks[number], self._union([e.mask for e in edges])
        value = self.first[number]
        for text in self._merge(number, edges):
            self.values[value] = text
            value += 1
        for instruction in block.instructions:
            self.values[value] = self._instruction(instruction, mask)
            value += 1
        targets = block.exit.targets
        if not targets:
            dtype = COMPONENT.get(self.function.result, self.function.result)
            self.results.append(tuple([self._text(v, dtype) for v in block.exit.values]))
            return []
        if len(targets) == 1:
            return [self._edge(number, targets[0], mask)]
        condition = self._text(block.exit.condition, "bool")
        yes, no = self._both(mask, condition), self._both(mask, negated(self.code, condition))
        self.whole.append((frozenset((yes, no)), mask))
        return [self._edge(number, target, m) for target, m in zip(targets, (yes, no), strict=True)]

    def _edge(self, source: int, target: int, mask: Mask) -> Edge:
        values = []
        for phi in self.function.blocks[target].phis:
            values.append(self._text(dict(phi.incoming)[source], phi.dtype))
        return Edge(target, mask, tuple(values))

    def _loop(self, group: frozenset[int], head: int, entering: list[Edge]) -> list[Edge]:
        """Write a loop over a component of several blocks; returns the edges that leave it."""
        code, truth = self.code, self.code.type("bool")
        phis = self.function.blocks[head].phis
        entered = self._union([e.mask for e in entering])
        initial = [entered or code.const("bool", True), *self._merge(head, entering)]
        kinds = [truth, *[code.type(phi.dtype) for phi in phis]]
        names = ["%" + code.name("loop") for _ in kinds]
        before, again, latch, after = (code.name(stem) for stem in ("before", "again", "latch", "after"))
        for line in (f"br label %{before}", f"br label %{again}"):
            code.do(line)
            code.label(before if line.endswith(before) else again)
        place, known = len(code.lines), set(self.values.values())
        leaving = self._region(group, head, [Edge(head, names[0], tuple(names[1:]))])
        code.do(f"br label %{latch}")
        code.label(latch)
        back, exits = ([e for e in leaving if (e.target == head) is inside] for inside in (True, False))
        more = self._union([e.mask for e in back]) or code.const("bool", True)
        carried = list(zip(names, kinds, initial, [more, *self._merge(head, back)], strict=True))
        gone = [self._kept(carried, known, e, len(exits) == 1, entered) for e in exits]
        code.do(f"br i1 {anywhere(code, more)}, label %{again}, label %{after}")
        code.label(after)
        code.lines[place:place] = [f"  {name} = phi {kind} [ {start}, %{before} ], [ {next_}, %{latch} ]"
                                   for name, kind, start, next_ in carried]
        if len(gone) > 1:
            self.whole.append((frozenset(str(e.mask) for e in gone), entered))
        return gone

    def _kept(self, carried: list[tuple[str, str, str, str]], known: set[str], edge: Edge, only: bool,
              entered: Mask) -> Edge:
        """An edge out of a loop, with the values with which its lanes left."""
        code, truth, mask = self.code, self.code.type("bool"), str(edge.mask)
        gone = entered
        if not only:
            so_far = "%" + code.name("gone")
            gone = code.let(f"or {truth} {so_far}, {mask}")
            carried.append((so_far, truth, code.const("bool", False), gone))
        values = []
        for phi, value in zip(self.function.blocks[edge.target].phis, edge.values, strict=True):
            if value.startswith("%") and value not in known:
                kind, so_far = code.type(phi.dtype), "%" + code.name("kept")
                value = code.let(f"select {truth} {mask}, {kind} {value}, {kind} {so_far}")
                carried.append((so_far, kind, "0" if kind[0] == "i" else "zeroinitializer", value))
            values.append(value)
        return edge._replace(mask=gone, values=tuple(values))

    def _merge(self, target: int, edges: list[Edge]) -> list[str]:
        """The values of a block's phis: each lane takes that of the edge by which it came."""
        code, truth, found = self.code, self.code.type("bool"), []
        for k, phi in enumerate(self.function.blocks[target].phis):
            value, kind = edges[0].values[k], code.type(phi.dtype)
            for edge in edges[1:]:
                if edge.values[k] != value:
                    value = code.let(f"select {truth} {edge.mask}, {kind} {edge.values[k]}, {kind} {value}")
            found.append(value)
        return found

    def _both(self, mask: Mask, condition: str) -> str:
        """The lanes of a mask for which a condition holds; that of the other lanes may be undefined."""
        if mask is None:
            return condition
        kind = self.code.type("bool")
        return self.code.let(f"select {kind} {mask}, {kind} {condition}, {kind} {self.code.const('bool', 0)}")

    def _union(self, masks: Iterable[Mask]) -> Mask:
        """The union of some masks; a mask that was split is restored as it was."""
        given = list(masks)
        if None in given:
            return None
        parts = frozenset().union(*[self.parts.get(m, frozenset((m,))) for m in given if m is not None])
        for group, parent in reversed(self.whole):
            if group <= parts:
                if parent is None:
                    return None
                parts = parts - group | self.parts.get(parent, frozenset((parent,)))
        whole, *others = sorted(parts)
        for other in others:
            whole = self.code.let(f"or {self.code.type('bool')} {whole}, {other}")
        self.parts[whole] = parts
        return whole

    def _text(self, operand: Operand, dtype: str) -> str:
        """An operand in all lanes."""
        if isinstance(operand, int):
            return self.values[operand]
        code = self.code
        kind = code.type(dtype)
        if operand in ("undef", "poison", "zeroinitializer"):
            operand = "false" if dtype == "bool" else "0" if "float" not in dtype else "0.0"
        return operand if code.lanes == 1 else f"splat ({kind.split()[-1][:-1]} {operand})"

    def _instruction(self, instruction: Instruction, mask: Mask) -> str:
        kinds = [instruction.source] * len(instruction.operands)
        if instruction.kind == "select":
            kinds[0] = "bool"
        values = [self._text(v, d) for v, d in zip(instruction.operands, kinds, strict=True)]
        if mask is not None:
            for k in _endangered(instruction):
                values[k] = self._safe(instruction, mask, values[k])
        return _WRITERS.get(instruction.kind, _plain)(self.code, instruction, values)

    def _safe(self, instruction: Instruction, mask: str, value: str) -> str:
        """An operand that raises no flag and no trap in the inactive lanes."""
        code, dtype = self.code, instruction.source
        kind = code.type(dtype)
        harmless = code.const(dtype, _HARMLESS.get(instruction.attribute, 1))
        safe = code.let(f"select {code.type('bool')} {mask}, {kind} {value}, {kind} {harmless}")
        return settled(code, dtype, safe) if dtype.startswith("float") else safe


_HARMLESS = {"arcsin": 0.5, "arccos": 0.5, "arctanh": 0.5}
"""Arguments for which these functions raise no flag, where 1 would."""


def _endangered(instruction: Instruction) -> Sequence[int]:
    """The operands to replace by 1 in inactive lanes: with one operand 1, sums and products of numbers of any
    size raise no flag."""
    kind, operands = instruction.kind, instruction.operands
    if kind in ("fadd", "fsub", "fmul"):
        return (1,) if isinstance(operands[1], int) else (0,)
    if kind in ("fdiv", "sdiv", "udiv", "srem", "urem"):
        return (1,)
    if kind in ("fptosi", "fptoui", "fptrunc", "apply") or instruction.attribute in ("llvm.sqrt", "llvm.fma"):
        return range(len(operands))
    return ()


def _plain(code: Code, instruction: Instruction, values: list[str]) -> str:
    return code.let(f"{instruction.kind} {code.type(instruction.source)} {', '.join(values)}")


def _convert(code: Code, instruction: Instruction, values: list[str]) -> str:
    source, target = code.type(instruction.source), code.type(instruction.dtype)
    return code.let(f"{instruction.kind} {source} {values[0]} to {target}")


def _select(code: Code, instruction: Instruction, values: list[str]) -> str:
    kind = code.type(instruction.source)
    return code.let(f"select {code.type('bool')} {values[0]}, {kind} {values[1]}, {kind} {values[2]}")


def _icmp(code: Code, instruction: Instruction, values: list[str]) -> str:
    kind = code.type(instruction.source)
    return code.let(f"icmp {instruction.attribute} {kind} {values[0]}, {values[1]}")


_ORDERED = {"ult": "oge", "ule": "ogt", "ugt": "ole", "uge": "olt"}
"""Comparisons that hold for NaN, with the opposite one that does not."""


def _fcmp(code: Code, instruction: Instruction, values: list[str]) -> str:
    predicate, dtype = instruction.attribute, instruction.source
    if predicate in _ORDERED:
        return negated(code, compare(code, _ORDERED[predicate], dtype, *values))
    return compare(code, predicate, dtype, *values)


def _intrinsic(code: Code, instruction: Instruction, values: list[str]) -> str:
    extra = ["i1 false"] if instruction.attribute == "llvm.abs" else []
    return code.intrinsic(instruction.attribute, instruction.source, *values, *extra)


def _apply(code: Code, instruction: Instruction, values: list[str]) -> str:
    dtypes = (instruction.source,) * len(values)
    return str(RULES[instruction.attribute](code, dtypes, instruction.dtype, tuple(values)))


Writer = Callable[[Code, Instruction, list[str]], str]
CONVERSIONS = ("sitofp", "uitofp", "fptosi", "fptoui", "fpext", "fptrunc", "zext", "sext", "trunc", "bitcast")
_WRITERS: dict[str, Writer] = {"select": _select, "icmp": _icmp, "fcmp": _fcmp, "intrinsic": _intrinsic,
                               "apply": _apply, **dict.fromkeys(CONVERSIONS, _convert)}

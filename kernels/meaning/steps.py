"""Translates a loop to the steps that evaluate it block by block: which values are views of memory, which
scratch registers hold the others, and which do not change from block to block.

    RecipeStep ::= (function(*inputs, out=...), positions of the inputs, position of the output, name)

Positions count values first, then one place per argument that is stored to.  A register is freed after the
last use of its value, so that few are in use and they stay in cache.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from diffuse.kernels.body.expr import STRUCTURAL, Body, Loop, Op
from diffuse.kernels.body.operations import exact
from diffuse.kernels.build import routines
from diffuse.kernels.meaning import complexes, functions

RecipeStep = tuple[Any, tuple[int, ...], int, str]

PLACED = frozenset(("scalar", "const", "scan", "spmv", "turn", "nth", "pick"))
"""Kinds of ops whose values or actors belong to one launch (interpret.LoopValues)."""


@dataclass
class Recipe:
    """The interpretation of a loop: its steps, and the positions and registers they use."""

    length: int
    """The number of positions."""
    natural: bool
    """Whether to visit the dimensions in their own order, which keeps the leaves of a reduction whole."""
    constant: list[int] = field(default_factory=list)
    """Values computed once, before the first block, by `prologue`."""
    prologue: list[RecipeStep] = field(default_factory=list)
    steps: list[RecipeStep] = field(default_factory=list)
    views: list[tuple[int, int, bool]] = field(default_factory=list)
    """(position, argument, raw): positions that hold the block's part of an argument; raw bools are bytes."""
    index: list[tuple[int, int]] = field(default_factory=list)
    """(value, dimension) of the iteration indices."""
    placed: list[int] = field(default_factory=list)
    """Values that a launch has the parts of: scalars, literals, and what reads memory by itself."""
    widest: int = 1
    """Bytes of the largest element."""
    scratch: list[tuple[int, int]] = field(default_factory=list)
    """(position, register)."""
    registers: list[str] = field(default_factory=list)
    """Element type of each register."""

    def bind(self, actors: dict[int, Any]) -> list[RecipeStep]:
        """The steps, with the reductions and scans of one point inserted."""
        return [(actors[out], args, out, name) if function is None else (function, args, out, name)
                for function, args, out, name in self.steps]


class Registers:
    """Scratch registers by element type; the one freed last is reused first."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.free: dict[str, list[int]] = {}
        self.held: dict[int, int] = {}

    def take(self, position: int, dtype: str) -> None:
        free = self.free.setdefault(dtype, [])
        if not free:
            free.append(len(self.recipe.registers))
            self.recipe.registers.append(dtype)
        self.held[position] = free.pop()
        self.recipe.scratch.append((position, self.held[position]))

    def give(self, position: int) -> None:
        if position in self.held:
            register = self.held.pop(position)
            self.free[self.recipe.registers[register]].append(register)


def recipe_of(body: Body, number: int) -> Recipe:
    """The interpretation of a loop of a body."""
    loop = body.loops[number]
    ops, count = loop.ops, len(loop.ops)
    result = Recipe(count + len(body.arguments) + 1, any(op.kind in ("reduce", "scan", "spmv") for op in ops))
    result.widest = max([np.dtype(dtype).itemsize for dtype in {op.dtype for op in ops}], default=1)
    result.placed = [i for i, op in enumerate(ops) if op.kind in PLACED]
    registers = Registers(result)
    last = {a: i for i, op in enumerate(ops) for a in op.args}
    direct = _direct(body, loop, last)
    constant: set[int] = set()
    for i, op in enumerate(ops):
        if op.kind in ("scalar", "const"):
            constant.add(i)
        elif op.kind == "index":
            result.index.append((i, op.attribute))
        elif op.kind == "load":
            _load(body, loop, i, last.get(i, i), result, registers)
        elif op.kind == "store":
            if (count + op.attribute, op.attribute, False) not in result.views:
                result.views.append((count + op.attribute, op.attribute, False))
            if i not in direct.values():
                result.steps.append((functions.cast, op.args, count + op.attribute, "cast"))
        elif op.kind == "scatter":
            pass  # it is a loop of its own (interpret.scattered)
        elif op.kind in ("reduce", "scan", "spmv", "turn", "pick", "nth"):
            if op.kind != "reduce":
                registers.take(i, op.dtype)
            result.steps.append((None, op.args, i, op.kind))
        elif op.args and constant.issuperset(op.args):
            constant.add(i)
            result.constant.append(i)
            result.prologue.append((compute(loop, op), op.args, i, op.kind))
        else:
            _compute(loop, i, last, direct, result, registers)
        for a in {*op.args, i}:
            if last.get(a, a) == i:
                registers.give(a)
    return result


def _load(body: Body, loop: Loop, i: int, last: int, result: Recipe, registers: Registers) -> None:
    """A view of memory; a copy if that memory is overwritten while the value is still in use."""
    op = loop.ops[i]
    argument = body.arguments[op.attribute]
    raw = argument.dtype == "bool"
    overwritten = any(
        later.kind == "store" and body.arguments[later.attribute].slot == argument.slot
        for later in loop.ops[i + 1:last])
    if not raw and not overwritten:
        result.views.append((i, op.attribute, False))
        return
    source = len(loop.ops) + len(body.arguments) + 1 + i
    result.length = max(result.length, source + 1)
    result.views.append((source, op.attribute, raw))
    registers.take(i, op.dtype)
    result.steps.append((functions.truth if raw else functions.cast, (source,), i, "load"))


def _compute(loop: Loop, i: int, last: dict[int, int], direct: dict[int, int], result: Recipe,
             registers: Registers) -> None:
    op = loop.ops[i]
    function = compute(loop, op)
    if i in direct:
        result.steps.append((function, op.args, len(loop.ops) + loop.ops[direct[i]].attribute, op.kind))
        return
    if isinstance(function, np.ufunc):  # elementwise: the result may replace an input
        for a in set(op.args):
            if last[a] == i:
                registers.give(a)
    registers.take(i, op.dtype)
    result.steps.append((function, op.args, i, op.kind))


def _direct(body: Body, loop: Loop, last: dict[int, int]) -> dict[int, int]:
    """Ops whose value is computed directly into memory: the next op stores it, and no later op uses it."""
    found = {}
    invariant: set[int] = set()
    for i, (op, then) in enumerate(zip(loop.ops, loop.ops[1:], strict=False)):
        if op.kind in ("scalar", "const") or (op.args and invariant.issuperset(op.args)):
            invariant.add(i)
        if (then.kind == "store" and then.args == (i,) and last[i] == i + 1 and op.args
                and body.arguments[then.attribute].dtype == op.dtype and i not in invariant
                and (op.kind == "cast"
                     or op.kind not in STRUCTURAL and isinstance(compute(loop, op), np.ufunc))):
            found[i] = i + 1
    return found


def compute(loop: Loop, op: Op) -> Any:
    """The function that evaluates an op: NumPy's if its bits are the specification, else the compiled
    routine, or, where that has to be compiled first, the formula of it (see `complexes`), if there is one."""
    dtypes = tuple(loop.ops[a].dtype for a in op.args)
    if exact(op.kind, dtypes):
        return functions.function(op.kind)
    formula = complexes.function(op.kind, dtypes[0])
    if formula is not None and not routines.ready(op.kind, dtypes, op.dtype):
        return formula
    return routines.routine(op.kind, dtypes, op.dtype)

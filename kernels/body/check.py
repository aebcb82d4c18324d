"""Checks that a body is well formed, by a table of named rules; each rule yields its violations as sentences.

An operation with a badly typed body, and a pass that breaks a body, are found here and not in the machine
code.  The setting `DIFFUSE_CHECK` applies the checks after composition and after each pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from diffuse.ir import ITEMSIZE, Privilege
from diffuse.ir.loops import NEAR, REPEATS
from diffuse.kernels.body import abi, operations
from diffuse.kernels.body.expr import EFFECTS, STRUCTURAL, Argument, Body, Loop, Op

Rule = Callable[[Body], Iterator[str]]


def check(body: Body, stage: str, numbered: bool = False) -> None:
    """Raise TypeError, naming the rule, the loop and the op, unless a body is well formed.

    `stage` names the pass that made it.  A `numbered` body has been through all passes and must satisfy more
    rules.
    """
    for name, rule in {**RULES, **(NUMBERED if numbered else {})}.items():
        for sentence in rule(body):
            raise TypeError(f"{name} after {stage}: {sentence}")


def _spaces(body: Body) -> Iterator[str]:
    for number, (rank, axes, *_) in enumerate(body.spaces):
        if len(axes) != body.launch_rank:
            yield (f"space {number} has {len(axes)} launch dimensions: expected "
                   f"{body.launch_rank}, as the first")
        cut = [axis for axis in axes if axis != -1]
        if len(set(cut)) != len(cut) or not set(cut) <= set(range(rank)):
            yield (f"space {number} of rank {rank} is cut along {axes}: expected dimensions of it, each "
                   "once, and -1 where a launch dimension cuts nothing")
    for number, argument in enumerate(body.arguments):
        if not 0 <= argument.space < len(body.spaces):
            yield f"argument {number} is in space {argument.space}: there are {len(body.spaces)}"
            continue
        rank = body.spaces[argument.space].rank
        if len(argument.classes) != rank or not set(argument.classes) <= {*"01scn", *NEAR, *REPEATS}:
            yield (f"argument {number} has the classes {argument.classes!r}: expected 0, 1, s or c for "
                   f"each of {rank} dimensions, or for the last one of {NEAR}, or n, p or q for the one "
                   "before it")
    for number, loop in enumerate(body.loops):
        if not 0 <= loop.space < len(body.spaces):
            yield f"loop {number} is over space {loop.space}: there are {len(body.spaces)}"
        elif sorted(loop.order) != list(range(body.spaces[loop.space].rank)):
            yield (f"loop {number} goes in the order {loop.order}: expected each of the "
                   f"{body.spaces[loop.space].rank} dimensions of its space once")


def _types(body: Body) -> Iterator[str]:
    for number, loop in enumerate(body.loops):
        for i, op in enumerate(loop.ops):
            try:
                inputs = tuple([_value(loop, i, a) for a in op.args])
                expected = _result(body, loop, op, inputs)
                if op.dtype != expected or op.dtype not in ITEMSIZE:
                    raise TypeError(f"it is said to give {op.dtype}: expected {expected}")
            except TypeError as error:
                yield f"loop {number}, op {i}, {op.kind}: {error}"


def _value(loop: Loop, i: int, a: int) -> str:
    """The element type of value `a` as used by op `i`; TypeError if it is not available there."""
    if not 0 <= a < i:
        raise TypeError(f"it uses v{a}: expected a value that was computed before it")
    if loop.ops[a].kind in EFFECTS:
        raise TypeError(f"it uses v{a}: a {loop.ops[a].kind} has no value")
    return loop.ops[a].dtype


def _result(body: Body, loop: Loop, op: Op, inputs: tuple[str, ...]) -> str:
    """The element type of an op's result for inputs of these types; TypeError if the op is badly typed."""
    if op.kind in STRUCTURAL and len(inputs) != STRUCTURAL[op.kind] != -1:
        raise TypeError(f"it has {len(inputs)} inputs: expected {STRUCTURAL[op.kind]}")
    match op.kind, op.attribute:
        case "load", int(number):
            return _argument(body, loop, number).dtype
        case "pick", int(number):
            if inputs != ("int64",):
                raise TypeError(f"its distance is {inputs[0]}: expected int64")
            return _argument(body, loop, number).dtype
        case "nth", (int(mask), int(counts)) if body.spaces[loop.space].rank == 1:
            found = [*inputs, _argument(body, loop, mask).dtype, _argument(body, loop, counts).dtype]
            if found != ["int64", "int64", "bool", "int64"]:
                raise TypeError(f"it is on {', '.join(found)}: expected two of int64, a mask and int64")
            return "int64"
        case "scatter", (str(operator), int(target), int(index), int(values), int(axis), "a" | "d"):
            _argument(body, loop, values)
            if (*inputs, _argument(body, loop, index).dtype) != ("int64",) * 4:
                raise TypeError("its indices, their number and order, the distance of values are not int64")
            if not 0 <= axis < body.spaces[loop.space].rank:
                raise TypeError(f"it indexes dimension {axis}: expected one of its space")
            dtype = _argument(body, loop, target).dtype
            if operator and operations.result(operator, (dtype, dtype)) != dtype:
                raise TypeError(f"{operator!r} of {dtype} gives another type")
            return dtype
        case "scalar", int(number) if 0 <= number < len(body.scalars):
            return body.scalars[number]
        case "index", int(dimension) if 0 <= dimension < body.spaces[loop.space].rank:
            return "int64"
        case ("const", value) if value is not None:
            return op.dtype
        case "cast", None:
            return op.dtype
        case "store", int(number):
            expected = _argument(body, loop, number).dtype
            if inputs[0] != expected:
                raise TypeError(f"it stores {inputs[0]} in argument {number} of {expected}: cast it before")
            return expected
        case "reduce", (operator, int(number)) if operator in operations.INDEXED:
            _argument(body, loop, number)
            return inputs[0]
        case "reduce", (operator, int(number)) if operator in operations.FOLDS:
            _argument(body, loop, number)
            return operations.result(operations.FOLDS[operator], (*inputs, *inputs))
        case "scan", (operator, int(dimension)) if (operator in operations.FOLDS
                                                    and 0 <= dimension < body.spaces[loop.space].rank):
            return inputs[0]
        case "spmv", (int(), *_) as numbers if len(numbers) in (1, 3):
            arguments = [_argument(body, loop, number) for number in numbers]
            for dtype in (*inputs, *[a.dtype for a in arguments[1:2]]):
                if dtype[0] not in "iu":
                    raise TypeError(f"its positions are {dtype}: expected integers")
            return op.dtype
        case "turn", (int(number), tuple(along)) if len(along) == len(inputs) == len(set(along)) > 0:
            if any(dtype != "int64" for dtype in inputs):
                raise TypeError(f"its shifts are {', '.join(inputs)}: expected int64")
            if not set(along) <= set(range(body.spaces[loop.space].rank)):
                raise TypeError(f"it shifts along {along}: expected dimensions of its space")
            return _argument(body, loop, number).dtype
        case kind, None if kind not in STRUCTURAL:
            return operations.result(kind, inputs)
    raise TypeError(f"its attribute is {op.attribute!r}: expected one as in expr.py, within this body")


def _argument(body: Body, loop: Loop, number: int) -> Argument:
    if not 0 <= number < len(body.arguments):
        raise TypeError(f"it names argument {number}: there are {len(body.arguments)}")
    if body.arguments[number].space != loop.space:
        raise TypeError(f"it names argument {number} of space {body.arguments[number].space}: "
                        f"expected one of the loop's space, {loop.space}")
    return body.arguments[number]


def _privileges(body: Body) -> Iterator[str]:
    for number, loop in enumerate(body.loops):
        for op in loop.ops:
            for place, k in enumerate(op.arguments):
                needed = Privilege.WRITE if op.kind in EFFECTS and place == 0 else Privilege.READ
                if body.arguments[k].privilege not in (needed, Privilege.READ_WRITE):
                    yield (f"loop {number} has a {op.kind} of argument {k}, whose privilege is "
                           f"{body.arguments[k].privilege.name}: expected {needed.name}")


def _epilogue(body: Body) -> Iterator[str]:
    first = len(body.loops) - body.epilogue
    if first < 0 or body.epilogue < 0:
        yield f"{body.epilogue} loops are at the end: there are {len(body.loops)}"
    for number, loop in enumerate(body.loops[max(0, first):], first):
        cut = max(body.spaces[loop.space].axes) >= 0
        if cut or any(op.kind in ("reduce", "scan", "spmv", "scatter") for op in loop.ops):
            yield f"loop {number} is at the end: expected single elements, and no op over several"


def _whole(body: Body) -> Iterator[str]:
    folds = [(loop.space, op.attribute[1]) for loop in body.loops for op in loop.ops if op.kind == "reduce"]
    for number in body.whole:
        if not 0 <= number < len(folds):
            yield f"reduction {number} is complete at each point: there are {len(folds)}"
            continue
        space, argument = folds[number]
        letters = body.arguments[argument].classes
        if letters[-1:] != "0" or any(axis < 0 or letters[axis] == "0" for axis in body.spaces[space].axes):
            yield (f"reduction {number} is complete at each point: expected one of rows, in a space that is "
                   "cut along dimensions that it keeps")


def _parts(body: Body) -> Iterator[str]:
    for number in body.parts:
        if not 0 <= number < len(abi.reductions(body)) or not abi.leaf_runs(body, number):
            yield (f"subtrees of reduction {number} are folded at each point: expected one whose outermost "
                   "reduced dimension is the one that the launch cuts")


def _last(body: Body) -> Iterator[str]:
    places = {"store": 1, "reduce": 2, "scatter": 2}
    for number, loop in enumerate(body.loops):
        order = [places.get(op.kind, 0) for op in loop.ops]
        if order != sorted(order) or not order[-1:] or not order[-1]:
            yield f"loop {number} does not end with its stores, followed by its reductions"
        stored = [op.attribute for op in loop.ops if op.kind == "store"]
        if len(set(stored)) != len(stored):
            yield f"loop {number} stores to the arguments {stored}: expected each once"


def _first_use(body: Body) -> Iterator[str]:
    ops = [op for loop in body.loops for op in loop.ops]
    used = {"arguments": [number for op in ops for number in op.arguments],
            "scalars": [op.attribute for op in ops if op.kind == "scalar"],
            "spaces": [loop.space for loop in body.loops]}
    for noun, numbers in used.items():
        if list(dict.fromkeys(numbers)) != list(range(len(getattr(body, noun)))):
            yield f"{noun} are first used in the order {list(dict.fromkeys(numbers))}: expected 0, 1, 2, ..."


RULES: dict[str, Rule] = {
    "spaces": _spaces, "types": _types, "privileges": _privileges, "epilogue": _epilogue,
    "whole rows": _whole, "parts": _parts}
"""The rules for every body, in the order of their application; each relies on those before it."""

NUMBERED: dict[str, Rule] = {"stores last": _last, "numbers by first use": _first_use}
"""The additional rules for a body to be compiled."""

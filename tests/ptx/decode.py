"""Decodes PTX: each instruction becomes a Python function of the threads that execute it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tests.ptx.instructions import DTYPES, meaning
from tests.ptx.memory import Array, Fault
from tests.ptx.text import Function, Instruction, Module, PtxError
from tests.ptx.threads import ENDED, LOCAL, SHARED, STACK, WAITS, Block, Code, Frame, Lanes, Step

Get = Callable[[Lanes], Array]
Put = Callable[[Lanes, Array], None]

ADDRESS = re.compile(r"\[([%$\w]+)(?:\+?(-?\d+))?\]$")
WINDOWS = {"shared": SHARED, "local": LOCAL, "global": 0, "const": 0}
"""Where the state spaces begin among generic addresses."""
HELD = {1: np.dtype(bool), 16: np.dtype("u2"), 32: np.dtype("u4"), 64: np.dtype("u8")}
"""How registers of so many bits are held."""
CARRIES = ("add", "addc", "sub", "subc")
CARRY = "%cc"
"""The carry of wide additions and subtractions, which lives in one block."""
SPECIAL: dict[str, Get] = {
    "%tid.x": lambda lanes: lanes.threads % lanes.frame.batch.size,
    "%ctaid.x": lambda lanes: lanes.threads // lanes.frame.batch.size,
    "%ntid.x": lambda lanes: np.array([lanes.frame.batch.size]),
    "%laneid": lambda lanes: lanes.threads % lanes.frame.batch.size % 32,
}


def decoded(module: Module) -> dict[str, Code]:
    """All functions of a module; PtxError with the line of an instruction that is unknown."""
    codes: dict[str, Code] = {}
    for name, function in module.functions.items():
        codes[name] = Code(function, [])
        decoder = Decoder(module, function, codes)
        read: set[str] = set()
        written: list[list[str]] = []
        for block in function.blocks:
            here: dict[str, None] = {}
            for instruction in block:
                targets, sources = registers(instruction)
                read |= {source for source in sources if source not in here}
                here.update(dict.fromkeys(targets))
            written.append(list(here))
        for block, targets in zip(function.blocks, written, strict=True):
            steps = [(instruction, decoder.step(instruction)) for instruction in block]
            codes[name].blocks.append(Block(steps, [target for target in targets if target in read]))
    return codes


def registers(instruction: Instruction) -> tuple[list[str], list[str]]:
    """The registers that an instruction writes and reads."""
    found = [re.findall(r"%\w+", operand) for operand in instruction.operands]
    first = 0 if instruction.parts[0] in ("st", "bra", "call", "bar") else 1
    sources = [register for names in found[first:] for register in names]
    targets = [register for names in found[:first] for register in names if register != "_"]
    return targets, sources + [instruction.guard.lstrip("!")] * bool(instruction.guard)


class Decoder:
    """Decodes the instructions of one function."""

    def __init__(self, module: Module, function: Function, codes: Mapping[str, Code]) -> None:
        self.module, self.function, self.codes = module, function, codes
        self.written = {target for block in function.blocks for i in block for target in registers(i)[0]}

    def step(self, instruction: Instruction) -> Step:
        try:
            return self._step(instruction)
        except (PtxError, KeyError, ValueError, IndexError) as problem:
            raise PtxError(f"{instruction}: {problem}") from problem

    def _step(self, instruction: Instruction) -> Step:
        parts, operands = instruction.parts, instruction.operands
        if parts[0] == "bra" and parts[1:] in ((), ("uni",)):
            return self._branch(instruction)
        if instruction.guard:
            raise PtxError("only branches may have a guard")
        match parts:
            case ("ret",) | ("ret", "uni"):
                return _end
            case ("bar" | "barrier", "sync") if operands == ("0",):
                return _wait
            case ("bar", "warp", "sync") if operands == ("-1",):
                return _wait
            case ("trap",):
                return _trap
            case ("ld", *_):
                return self._load(instruction)
            case ("st", *_):
                return self._store(instruction)
            case ("call",) | ("call", "uni"):
                return self._call(instruction)
            case ("cvta", *_):
                return self._window(instruction)
        if parts[0] == "mov" and "{" in "".join(operands):
            return self._unpack(instruction) if "{" in operands[0] else self._pack(instruction)
        if parts[0] in CARRIES and (parts[0].endswith("c") or parts[1:2] == ("cc",)):
            return self._carry(instruction)
        if parts[0] == "setp" and parts[-1] == "f16x2":
            return self._compare_halves(instruction)
        known = meaning(parts)
        gets = [self._source(name, dtype) for name, dtype in zip(operands[1:], known.sources, strict=True)]
        put, function = self._target(operands[0], known.result), known.function
        return lambda lanes: put(lanes, function(*[get(lanes) for get in gets]))

    def _compare_halves(self, instruction: Instruction) -> Step:
        """A comparison of pairs of float16, with a predicate for the lower ones and one for the others."""
        (names, *operands), compare = instruction.operands, meaning((*instruction.parts[:-1], "f16")).function
        gets = [self._source(operand, "b32") for operand in operands]
        puts = [self._target(name, "pred") for name in names.split("|")]

        def step(lanes: Lanes) -> None:
            words = [get(lanes) for get in gets]
            for put, shift in zip(puts, (0, 16), strict=True):
                put(lanes, compare(*[(x >> np.uint32(shift)).astype("u2").view("f2") for x in words]))
        return step

    def _carry(self, instruction: Instruction) -> Step:
        """A part of an addition or subtraction of integers that are wider than registers."""
        name, *modifiers, dtype = instruction.parts
        if modifiers not in ([], ["cc"]) or dtype not in ("s32", "u32", "s64", "u64"):
            raise PtxError("unknown instruction")
        unsigned = f"u{dtype[1:]}"
        left, right = (self._source(operand, unsigned) for operand in instruction.operands[1:])
        put, adds = self._target(instruction.operands[0], unsigned), name.startswith("add")

        def step(lanes: Lanes) -> None:
            x, y = left(lanes), right(lanes)
            carry = lanes.get(CARRY).astype(x.dtype) if name.endswith("c") else x.dtype.type(0)
            total = x + y if adds else x - y
            put(lanes, total + carry if adds else total - carry)
            if modifiers:
                lanes.values[CARRY] = (total < x) | (total + carry < total) if adds else (
                    (x < y) | (total < carry))
        return step

    # Operands

    def _source(self, operand: str, dtype: str) -> Get:
        """How an operand is read as a value of a type: one element for each thread, or one for all."""
        wanted = DTYPES[dtype]
        if operand in SPECIAL:
            special = SPECIAL[operand]
            return lambda lanes: special(lanes).astype(wanted)
        if operand.startswith("%"):
            return self._register(operand, wanted)
        if operand in self.function.local.variables:
            offset = self.function.local.variables[operand][0]
            return lambda lanes: np.array([lanes.frame.depot + offset], wanted)
        if operand in self.module.globals:
            return lambda lanes: np.array([lanes.frame.batch.symbols[operand]], wanted)
        for known in (self.function.parameters, self.function.shared):
            if operand in known.variables:
                return _constant(np.array([known.variables[operand][0]], wanted))
        return _constant(literal(operand, wanted))

    def _register(self, name: str, wanted: np.dtype[Any]) -> Get:
        held = HELD[self.function.width(name)]
        if held == wanted:
            return lambda lanes: lanes.get(name)
        if held.itemsize < wanted.itemsize or "b" in (held.kind, wanted.kind):
            raise PtxError(f"{name} holds {held}, not {wanted}")
        if held.itemsize == wanted.itemsize:
            return lambda lanes: lanes.get(name).view(wanted)
        narrow = np.dtype(f"u{wanted.itemsize}")
        return lambda lanes: lanes.get(name).astype(narrow).view(wanted)

    def _target(self, register: str, dtype: str) -> Put:
        """How a value of a type is written to a register, extended if that is wider."""
        held, given = HELD[self.function.width(register)], DTYPES[dtype]
        if held.itemsize < given.itemsize or (held.kind == "b") != (given.kind == "b"):
            raise PtxError(f"{register} holds {held}, not {given}")
        if held.itemsize == given.itemsize:
            def put(lanes: Lanes, value: Array) -> None:
                lanes.values[register] = value.view(held)
            return put
        bits = given if given.kind == "i" else np.dtype(f"u{given.itemsize}")
        extended = np.dtype(f"{bits.kind}{held.itemsize}")

        def extend(lanes: Lanes, value: Array) -> None:
            lanes.values[register] = value.view(bits).astype(extended).view(held)
        return extend

    # Control

    def _branch(self, instruction: Instruction) -> Step:
        target = self.function.labels[instruction.operands[0]]
        negated, register = instruction.guard.startswith("!"), instruction.guard.lstrip("!")

        def go(lanes: Lanes) -> None:
            lanes.next = target

        def choose(lanes: Lanes) -> None:
            taken = lanes.get(register) != negated
            if len(taken) > 1:
                lanes.next = np.where(taken, target, lanes.next)
            elif taken[0]:
                lanes.next = target
        return choose if register else go

    def _call(self, instruction: Instruction) -> Step:
        operands = instruction.operands
        result = operands[0].strip("() ") if operands[0].startswith("(") else ""
        name, *given = operands[bool(result):]
        passed = [argument.strip() for argument in given[0].strip("()").split(",")] if given else []
        callee = self.codes[name]

        def step(lanes: Lanes) -> None:
            caller = lanes.frame
            depot = caller.depot + -(-self.function.local.size // 16) * 16
            if depot + callee.function.local.size > STACK:
                raise Fault("the stack of local memory is full")
            taken = np.zeros((lanes.count, callee.function.parameters.size), "u1")
            slots = callee.function.parameters.variables.values()
            for (start, size), argument in zip(slots, passed, strict=True):
                taken[:, start:start + size] = caller.arguments[argument][lanes.rows]
            frame = Frame(caller.batch, callee, lanes.threads, taken, depot)
            frame.run()
            if result:
                caller.arguments[result][lanes.rows] = frame.arguments[callee.function.result]
        return step

    # Memory

    def _window(self, instruction: Instruction) -> Step:
        """`cvta`: between addresses in a state space and generic ones."""
        parts, (target, source) = instruction.parts, instruction.operands
        start = np.uint64(WINDOWS[parts[-2]])
        get, put = self._source(source, "u64"), self._target(target, "u64")
        if parts[1] == "to":
            return lambda lanes: put(lanes, get(lanes) - start)
        return lambda lanes: put(lanes, get(lanes) + start)

    def _pack(self, instruction: Instruction) -> Step:
        """`mov` of several registers to one that is as wide as they are together.

        A part that no instruction writes may be anything: LLVM leaves out what it then drops.
        """
        names, whole = _names(instruction.operands[1]), DTYPES[instruction.parts[1]]
        bits = 8 * whole.itemsize // len(names)
        anything = _constant(np.array([0xA55A], DTYPES[f"b{bits}"]))
        gets = [self._source(name, f"b{bits}") if name in self.written or name[0] != "%" else anything
                for name in names]
        put = self._target(instruction.operands[0], instruction.parts[1])

        def step(lanes: Lanes) -> None:
            value: Array = np.zeros(1, whole)
            for k, get in enumerate(gets):
                value = value | get(lanes).astype(whole) << whole.type(k * bits)
            put(lanes, value)
        return step

    def _unpack(self, instruction: Instruction) -> Step:
        names, whole = _names(instruction.operands[0]), DTYPES[instruction.parts[1]]
        bits = 8 * whole.itemsize // len(names)
        get = self._source(instruction.operands[1], instruction.parts[1])
        puts = [(k, self._target(name, f"b{bits}")) for k, name in enumerate(names) if name != "_"]

        def step(lanes: Lanes) -> None:
            for k, put in puts:
                put(lanes, (get(lanes) >> whole.type(k * bits)).astype(f"u{bits // 8}"))
        return step

    def _access(self, instruction: Instruction, operand: str, names: str) -> tuple[str, bool, str, Get, str]:
        """The state space of a load or store, whether it is constant, the name at its address, the address,
        and the type of an element."""
        *modifiers, dtype = instruction.parts[1:]
        space = modifiers.pop(0) if modifiers and modifiers[0] in (*WINDOWS, "param") else ""
        constant = modifiers[:1] == ["nc"] or space == "const"
        many = len(_names(names))
        rest = [part for part in modifiers if part != "nc"]
        found = ADDRESS.match(operand)
        if rest != ([f"v{many}"] if many > 1 else []) or not found:
            raise PtxError("unknown form of access")
        offset = np.uint64(int(found[2] or 0) % 2 ** 64)
        start = self._source("0" if found[1] in self.function.arguments else found[1], "u64")
        return ("global" if space == "const" else space, constant, found[1],
                lambda lanes: start(lanes) + offset, dtype)

    def _load(self, instruction: Instruction) -> Step:
        names = _names(instruction.operands[0])
        space, constant, symbol, address, dtype = self._access(instruction, instruction.operands[1],
                                                               instruction.operands[0])
        puts, wanted = [self._target(name, dtype) for name in names], DTYPES[dtype]
        width = wanted.itemsize

        def step(lanes: Lanes) -> None:
            start = _aligned(address(lanes), width * len(puts))
            for k, put in enumerate(puts):
                put(lanes, lanes.load(instruction, space, start + np.uint64(k * width), wanted, constant))

        def parameter(lanes: Lanes) -> None:
            rows = lanes.frame.arguments.get(symbol, lanes.frame.given)
            rows = rows[lanes.rows] if len(rows) > 1 else rows
            at = int(address(lanes)[0])  # the compiler indexes parameters by constants
            for k, put in enumerate(puts):
                value = rows[:, at + k * width:at + (k + 1) * width]
                put(lanes, np.ascontiguousarray(value).view(wanted)[:, 0])
        return parameter if space == "param" else step

    def _store(self, instruction: Instruction) -> Step:
        names = _names(instruction.operands[1])
        space, _, symbol, address, dtype = self._access(instruction, instruction.operands[0],
                                                        instruction.operands[1])
        gets, width = [self._source(name, dtype) for name in names], DTYPES[dtype].itemsize

        def step(lanes: Lanes) -> None:
            start = _aligned(address(lanes), width * len(gets))
            for k, get in enumerate(gets):
                lanes.store(instruction, space, start + np.uint64(k * width), get(lanes))

        def parameter(lanes: Lanes) -> None:
            at = int(address(lanes)[0])
            for k, get in enumerate(gets):
                value = np.ascontiguousarray(np.broadcast_to(get(lanes), lanes.count))
                lanes.frame.arguments[symbol][lanes.rows, at + k * width:at + (k + 1) * width] = (
                    value.view("u1").reshape(-1, width))
        return parameter if space == "param" else step


def literal(text: str, wanted: np.dtype[Any]) -> Array:
    """A literal as a value of a type."""
    if text[:2] in ("0d", "0f"):
        number = int(text[2:], 16)
        given = np.dtype("f8" if text[1] == "d" else "f4")
    elif text in ("true", "false"):
        return np.array([text == "true"])
    else:
        number = int(text.removesuffix("U"), 0)
        if wanted.kind == "b":
            return np.array([number != 0])
        given = wanted
    bits = number % (1 << 8 * given.itemsize)
    value = np.array([bits], f"u{given.itemsize}")
    if given.itemsize != wanted.itemsize:
        raise PtxError(f"{text} is not of {8 * wanted.itemsize} bits")
    return value.view(wanted)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.strip("{}").split(",")]


def _constant(value: Array) -> Get:
    return lambda lanes: value


def _aligned(address: Array, width: int) -> Array:
    if (address & np.uint64(width - 1)).any():
        raise Fault(f"misaligned address {int(address.max()):#x} of {width} bytes")
    return address


def _end(lanes: Lanes) -> None:
    lanes.next = ENDED


def _wait(lanes: Lanes) -> None:
    lanes.next += WAITS


def _trap(lanes: Lanes) -> None:
    raise Fault("a trap")

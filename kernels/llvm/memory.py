"""Moves elements between memory and values: loads and stores of the lanes of one step of an innermost loop.

The letter of an access (see `expr.Argument`) says how the lanes lie: "1" side by side, "0" all at one place,
"s" a run-time number of bytes apart, "2", "3" or "4" so many elements, "p" and "q" side by side, with each
element in two or four lanes, "r" and "d" as the tables of flat.py say, "g" along rows with gaps between them
(gaps.py).  In the last, partial step of a loop only the first `active` lanes are in use: the others are
neither read nor written, and a load fills them with the first lane's value, so that computing on them raises
no floating-point flag that an element does not raise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from diffuse.ir import ITEMSIZE
from diffuse.ir.loops import NEAR, REPEATS
from diffuse.kernels.llvm import gaps
from diffuse.kernels.llvm.code import COMPONENT, MEMORY, Code, Value, with_lanes
from diffuse.kernels.llvm.vectors import (
    first,
    from_memory,
    gathered,
    loaded,
    masked,
    moved,
    read_some,
    scattered,
    shuffled,
    store_apart,
    store_masked,
    stream,
    strictly,
    strided,
    to_memory,
    twice,
)

GATHERED = frozenset(("float32", "float64", "int32", "int64", "uint32", "uint64"))
"""Element types that some processors gather and scatter by one instruction."""
MASKED = 4
"""The least bytes of an element whose vectors are loaded under a mask by one instruction."""


class Step(NamedTuple):
    """The lanes of one step: indices `at`, `at + 1`, ... of the innermost dimension."""

    at: str
    mask: str | None = None
    """The mask of active lanes; None: all are active."""
    active: str | None = None
    """The number of active lanes, an i64."""
    row: str = ""
    column: str = ""
    """The column in which the step begins, if the loop runs over two dimensions (flat.py)."""
    left: str = ""
    """The number of elements from there to the end of the row."""
    within: str | None = None
    """The mask of lanes that are elements, if the step may have one between two rows (skips.py)."""
    sources: str = ""
    """For each lane, the number of the lane whose element it computes on: another one if it is none."""
    second: Step | None = None
    """In a step of two vectors (paired.py), the step of the second one."""


class Place(NamedTuple):
    """The place of an access: the element at index 0 of the innermost dimension, and how to advance from
    it."""

    dtype: str
    letter: str
    base: str
    stride: str = "0"
    """Bytes from one index to the next."""
    distances: str = ""
    """For letter d, the address of a table: bytes from the step's row to each column and those after it."""
    apart: int = 1
    """For letter g, the elements from one column to the next."""
    gap: str = ""
    """For letter g, the bytes by which an element of the next row lies further than the columns say."""
    streams: bool = False
    """Do stores of whole vectors bypass the caches?  The vectors have to be aligned to their size."""
    constant: bool = False
    """Does the kernel never write to it?"""
    gathers: bool = False
    """Are strided elements of a vector accessed by one instruction?"""
    align: int = 0
    """The alignment in bytes of each step's address; 0: that of an element."""


def prefetch(code: Code, there: str, distance: int = 0, write: bool = False, keep: bool = False) -> None:
    """Fetch the cache line so many bytes behind an address into the first-level cache, for writing or for
    reading.  A line that is not to be kept bypasses the other caches, if the target wants that."""
    if distance:
        there = code.let(f"getelementptr i8, ptr {there}, i64 {distance}")
    code.declare("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
    kept = write or keep or not code.module.target.passes
    code.do(f"call void @llvm.prefetch.p0(ptr {there}, i32 {int(write)}, i32 {3 * kept}, i32 1)")


def load(code: Code, place: Place, step: Step) -> Value:
    if step.second is not None:
        with with_lanes(code, code.lanes // 2):
            kind = code.type(place.dtype)
            one, other = (str(load(code, place, each)) for each in (step._replace(second=None), step.second))
        return beside(code, kind, one, other, code.lanes // 2)
    if step.within is not None and place.letter != "0":
        raw = str(load(code, place, step._replace(within=None)))
        return moved(code, place.dtype, raw, step.sources)
    if place.letter in (*NEAR,):
        masks = step.mask is None or ITEMSIZE[place.dtype] >= MASKED
        if code.lanes > 1 and masks and place.dtype not in COMPONENT:
            return _load_near(code, place, step)
        place = place._replace(letter="s")
    if place.letter in REPEATS:
        return _load_repeated(code, place, step)
    if place.letter == "0":
        return splat(code, place.dtype, load_one(code, place.dtype, place.base, place.constant))
    at = address(code, place, step)
    if code.lanes == 1:
        return load_one(code, place.dtype, at, place.constant)
    if place.letter == "g":
        return gaps.load(code, place.dtype, at, place.apart, place.gap, step.left, step.active)
    if place.letter in "sd":
        return _load_strided(code, place, at, step)
    if place.dtype in COMPONENT:
        return _load_pairs(code, COMPONENT[place.dtype], at, place, step)
    raw = _read(code, place.dtype, code.lanes, at, place, step.mask)
    return from_memory(code, place.dtype, raw)


def store(code: Code, place: Place, step: Step, value: Value) -> None:
    if step.second is not None:
        n, kind = code.lanes // 2, code.type(place.dtype)
        for each, start in ((step._replace(second=None), 0), (step.second, n)):
            half = shuffled(code, kind, str(value), "poison", list(range(start, start + n)))
            with with_lanes(code, n):
                store(code, place, each, half)
        return
    if place.letter == "0":
        end = "0" if code.lanes == 1 else str(code.lanes - 1)
        if step.active is not None:
            end = code.let(f"sub i64 {step.active}, 1")
        store_one(code, place.dtype, place.base, lane(code, place.dtype, value, end))
        return
    near = int(place.letter) if place.letter in (*NEAR,) else 0
    if near:
        place = place._replace(letter="s")
    at = address(code, place, step)
    if near and code.lanes > 1 and place.dtype in GATHERED and code.module.target.permutes:
        between = None if step.within is None else step.left
        store_apart(code, place.dtype, at, str(value), near, step.active, between)
    elif code.lanes == 1:
        store_one(code, place.dtype, at, value)
    elif place.letter == "g":
        gaps.store(code, place.dtype, at, place.apart, place.gap, step.left, step.active, str(value))
    elif place.letter == "s":
        _store_strided(code, place, at, step, value)
    elif isinstance(value, tuple):
        _store_pairs(code, COMPONENT[place.dtype], at, place, step, value)
    else:
        mask = step.mask if step.within is None else step.within
        _write(code, place.dtype, code.lanes, at, place, mask, to_memory(code, place.dtype, value))


def beside(code: Code, kind: str, one: str, other: str, lanes: int) -> str:
    """Two vectors of so many lanes as one."""
    return shuffled(code, kind, one, other, list(range(2 * lanes)))


def load_one(code: Code, dtype: str, at: str, constant: bool = False) -> Value:
    """Load one element as a value of one lane; `constant` as in `Place`."""
    if dtype in COMPONENT:
        part = COMPONENT[dtype]
        second = code.let(f"getelementptr inbounds {MEMORY[part]}, ptr {at}, i64 1")
        return str(load_one(code, part, at, constant)), str(load_one(code, part, second, constant))
    raw = loaded(code, MEMORY[dtype], at, ITEMSIZE[dtype], constant)
    if dtype == "bool":
        return code.let(f"icmp ne i8 {raw}, 0")
    return strictly(code, "fpext", "half", raw, "float") if dtype == "float16" else raw


def store_one(code: Code, dtype: str, at: str, value: Value) -> None:
    if isinstance(value, tuple):
        part = COMPONENT[dtype]
        second = code.let(f"getelementptr inbounds {MEMORY[part]}, ptr {at}, i64 1")
        store_one(code, part, at, value[0])
        store_one(code, part, second, value[1])
        return
    if dtype == "bool":
        value = code.let(f"zext i1 {value} to i8")
    elif dtype == "float16":
        value = strictly(code, "fptrunc", "float", value, "half")
    code.do(f"store {MEMORY[dtype]} {value}, ptr {at}, align {ITEMSIZE[dtype]}")


def merge(code: Code, dtype: str, at: str, mask: str, others: str = "poison") -> str:
    """Load the lanes under a mask in their form in memory, and merge them with the other lanes of a
    vector."""
    part, lanes = COMPONENT.get(dtype, dtype), code.lanes * (2 if dtype in COMPONENT else 1)
    return masked(code, part, lanes, at, mask if lanes == code.lanes else str(twice(code, mask)), others)


def store_merged(code: Code, dtype: str, at: str, value: str) -> None:
    """Store a vector that `merge` returned."""
    part, lanes = COMPONENT.get(dtype, dtype), code.lanes * (2 if dtype in COMPONENT else 1)
    code.do(f"store <{lanes} x {MEMORY[part]}> {value}, ptr {at}, align {ITEMSIZE[part]}")


def splat(code: Code, dtype: str, value: Value) -> Value:
    """Broadcast a value of one lane to all lanes."""
    if isinstance(value, tuple):
        return code.splat(COMPONENT[dtype], value[0]), code.splat(COMPONENT[dtype], value[1])
    return code.splat(dtype, value)


def lane(code: Code, dtype: str, value: Value, which: str) -> Value:
    """Extract one lane of a value."""
    if code.lanes == 1:
        return value
    kind = code.type(COMPONENT.get(dtype, dtype))
    if isinstance(value, tuple):
        return (code.let(f"extractelement {kind} {value[0]}, i64 {which}"),
                code.let(f"extractelement {kind} {value[1]}, i64 {which}"))
    return code.let(f"extractelement {kind} {value}, i64 {which}")


def last(code: Code, index: str, end: str) -> Step:
    """The last, partial step of a loop."""
    name = f"llvm.get.active.lane.mask.v{code.lanes}i1.i64"
    code.declare(f"declare <{code.lanes} x i1> @{name}(i64, i64)")
    mask = code.let(f"call <{code.lanes} x i1> @{name}(i64 {index}, i64 {end})")
    return Step(index, mask, code.let(f"sub i64 {end}, {index}"))


def element(code: Code, dtype: str, base: str, index: str) -> str:
    """The address of an element of a contiguous range."""
    kind = f"[2 x {MEMORY[COMPONENT[dtype]]}]" if dtype in COMPONENT else MEMORY[dtype]
    return code.let(f"getelementptr inbounds {kind}, ptr {base}, i64 {index}")


def address(code: Code, place: Place, step: Step) -> str:
    """The address of the element of a place at which a step begins."""
    if place.letter in "1r":
        return element(code, place.dtype, place.base, step.at if place.letter == "1" else step.column)
    offset = code.let(f"mul nsw i64 {step.at if place.letter == 's' else step.row}, {place.stride}")
    at = code.let(f"getelementptr inbounds i8, ptr {place.base}, i64 {offset}")
    if place.letter != "g":
        return at
    column = step.column if place.apart == 1 else code.let(f"mul nsw i64 {step.column}, {place.apart}")
    return element(code, place.dtype, at, column)


def _read(code: Code, dtype: str, lanes: int, at: str, place: Place, mask: str | None) -> str:
    element, align = MEMORY[dtype], ITEMSIZE[dtype]
    if mask is None:
        return loaded(code, f"<{lanes} x {element}>", at, place.align or align, place.constant)
    # one element (or pair) fills the inactive lanes
    pair = lanes != code.lanes
    first = f"<2 x {element}>" if pair else f"<1 x {element}>"
    one = code.let(f"load {first}, ptr {at}, align {align}")
    order = ", ".join(f"i32 {i % 2 if pair else 0}" for i in range(lanes))
    filler = code.let(f"shufflevector {first} {one}, {first} poison, <{lanes} x i32> <{order}>")
    return masked(code, dtype, lanes, at, mask, filler)


def _write(code: Code, dtype: str, lanes: int, at: str, place: Place, mask: str | None, raw: str) -> None:
    if mask is None and place.streams:
        stream(code, dtype, lanes, at, raw)
        return
    if mask is None:
        align = place.align or ITEMSIZE[dtype]
        code.do(f"store <{lanes} x {MEMORY[dtype]}> {raw}, ptr {at}, align {align}")
        return
    store_masked(code, dtype, lanes, at, raw, mask)


def _load_pairs(code: Code, part: str, at: str, place: Place, step: Step) -> Value:
    n = code.lanes
    raw = _read(code, part, 2 * n, at, place, twice(code, step.mask))
    kind = f"<{2 * n} x {MEMORY[part]}>"
    return (shuffled(code, kind, raw, "poison", list(range(0, 2 * n, 2))),
            shuffled(code, kind, raw, "poison", list(range(1, 2 * n, 2))))


def _store_pairs(code: Code, part: str, at: str, place: Place, step: Step, value: tuple[str, str]) -> None:
    n = code.lanes
    raw = shuffled(code, code.type(part), value[0], value[1], [i // 2 + i % 2 * n for i in range(2 * n)])
    _write(code, part, 2 * n, at, place, twice(code, step.mask), raw)


def _load_near(code: Code, place: Place, step: Step) -> str:
    """Load a few whole vectors and select the elements from them; none reaches beyond the first and the last
    element.  In a partial step their lanes beyond the last active element are masked off."""
    stride, lanes, kind = int(place.letter), code.lanes, code.memory(place.dtype)
    index = code.let(f"mul nsw i64 {step.at}, {stride}")
    at = element(code, place.dtype, place.base, index)
    filler = None if step.active is None else first(code, place.dtype, at)
    found, done = "poison", 0
    while done < lanes:
        start = min(done * stride, (lanes - 1) * (stride - 1))
        there = element(code, place.dtype, at, str(start))
        reached = min(lanes, (start + lanes - 1) // stride + 1)
        if filler is None:
            raw = code.let(f"load {kind}, ptr {there}, align {ITEMSIZE[place.dtype]}")
        else:
            wanted = {k * stride - start: k for k in range(done, reached)}
            raw = read_some(code, place.dtype, there, [wanted.get(j, lanes) for j in range(lanes)],
                             str(step.active), filler)
        picked = [k if k < done else lanes + k * stride - start if k < reached else 0 for k in range(lanes)]
        found = shuffled(code, kind, found, raw, picked)
        done = reached
    return from_memory(code, place.dtype, found)


def _load_repeated(code: Code, place: Place, step: Step) -> Value:
    """Load a few elements side by side, and repeat each in neighbouring lanes."""
    times, lanes = REPEATS[place.letter], code.lanes
    at = element(code, place.dtype, place.base, code.let(f"sdiv exact i64 {step.at}, {times}"))
    few = lanes // times
    kind = f"<{few} x {MEMORY[place.dtype]}>"
    if step.active is None:
        raw = loaded(code, kind, at, ITEMSIZE[place.dtype], place.constant)
    else:
        active = code.let(f"sdiv exact i64 {step.active}, {times}")
        filler = first(code, place.dtype, at, few)
        raw = read_some(code, place.dtype, at, list(range(few)), active, filler)
    repeated = shuffled(code, kind, raw, "poison", [k // times for k in range(lanes)])
    return from_memory(code, place.dtype, repeated)


def _load_strided(code: Code, place: Place, at: str, step: Step) -> Value:
    """Load lane by lane, which was measured to be faster than gather instructions; inactive lanes read the
    first again."""
    if place.gathers and place.letter == "s" and place.dtype in GATHERED:
        return _gather(code, place, at, step)
    table = element(code, "int64", place.distances, step.column) if place.letter == "d" else ""
    first = str(load_one(code, "int64", table)) if table else "0"

    def there(k: int) -> str:
        if table:
            offset = str(load_one(code, "int64", element(code, "int64", table, str(k)))) if k else first
        else:
            offset = code.let(f"mul nsw i64 {place.stride}, {k}")
        if step.active is not None:
            within = code.let(f"icmp sgt i64 {step.active}, {k}")
            offset = code.let(f"select i1 {within}, i64 {offset}, i64 {first}")
        return code.let(f"getelementptr inbounds i8, ptr {at}, i64 {offset}")

    return load_lanes(code, place.dtype, there)


def _gather(code: Code, place: Place, at: str, step: Step) -> str:
    """Load strided elements by one instruction; inactive lanes hold the first one."""
    filler = "poison" if step.mask is None else first(code, place.dtype, at)
    return gathered(code, place.dtype, strided(code, place.stride, at), step.mask, filler)


def load_lanes(code: Code, dtype: str, there: Callable[[int], str]) -> Value:
    """Load one element for each lane, from its own address."""
    part = COMPONENT.get(dtype, dtype)
    width = 2 if dtype in COMPONENT else 1
    kind = code.memory(part)
    raws = ["poison"] * width
    for k in range(code.lanes):
        first = there(k)
        for i in range(width):
            to = first
            if i:
                to = code.let(f"getelementptr inbounds {MEMORY[part]}, ptr {to}, i64 1")
            one = code.let(f"load {MEMORY[part]}, ptr {to}, align {ITEMSIZE[part]}")
            raws[i] = code.let(f"insertelement {kind} {raws[i]}, {MEMORY[part]} {one}, i64 {k}")
    values = [from_memory(code, part, raw) for raw in raws]
    return (values[0], values[1]) if width == 2 else values[0]


def _store_strided(code: Code, place: Place, at: str, step: Step, value: Value) -> None:
    """Store lane by lane; the partial step uses a scatter instruction with a mask, and so do all steps where
    the place `gathers`."""
    part = COMPONENT.get(place.dtype, place.dtype)
    parts = [to_memory(code, part, v) for v in (value if isinstance(value, tuple) else (value,))]
    kind, n = code.memory(part), code.lanes
    if step.mask is None and not (place.gathers and place.dtype in GATHERED):
        for k in range(n):
            offset = code.let(f"mul nsw i64 {place.stride}, {k}")
            to = code.let(f"getelementptr inbounds i8, ptr {at}, i64 {offset}")
            for i, raw in enumerate(parts):
                one = code.let(f"extractelement {kind} {raw}, i64 {k}")
                there = code.let(f"getelementptr inbounds {MEMORY[part]}, ptr {to}, i64 {i}")
                code.do(f"store {MEMORY[part]} {one}, ptr {there}, align {ITEMSIZE[part]}")
        return
    for i, raw in enumerate(parts):
        start = code.let(f"getelementptr inbounds {MEMORY[part]}, ptr {at}, i64 {i}") if i else at
        scattered(code, part, strided(code, place.stride, start), raw, step.mask)


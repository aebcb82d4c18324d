"""Jumps in functions of one lane, and code that only few lanes need, of one result or two."""

from __future__ import annotations

from collections.abc import Callable

from diffuse.kernels.llvm.code import Code
from diffuse.kernels.llvm.math.values import BOOL, Real, Truth
from diffuse.kernels.llvm.ops.instructions import anywhere

Pair = tuple[Real, Real]
"""Two results, such as the real and the imaginary part."""
Slow = Callable[..., Pair]


def rarely(name: str, special: Truth, quick: Real, slow: Callable[..., Real], *operands: Real,
           harmless: float = 1.0) -> Real:
    """Return `slow(*operands)` in the lanes that are special, `quick` in the others.

    The branch is taken only where some lane is special.  On the host it calls a function, which saves the
    registers itself, and takes a harmless number for the operands of the other lanes.  Code for ordinary
    operands alone has no branch.
    """
    code = special.code
    if code.doubts is not None:
        code.doubts.append(anywhere(code, special.name))
        return quick
    start, rare, end, after = (code.name(stem) for stem in ("start", "rare", "end", "after"))
    _branch(special, start, rare, after)
    if code.module.target.flags:
        mended = _called(name, special, quick, slow, operands, harmless)
    else:
        given = operands if code.lanes == 1 else [special.choose(x, harmless) for x in operands]
        mended = special.choose(slow(*given), quick)
    code.do(f"br label %{end}")
    code.label(end)
    code.do(f"br label %{after}")
    code.label(after)
    choices = f"[ {quick.name}, %{start} ], [ {mended.name}, %{end} ]"
    return Real(code, code.let(f"phi {code.type(quick.dtype)} {choices}"), quick.dtype)


def _branch(special: Truth, start: str, rare: str, after: str) -> None:
    """End the block `start` with a branch to `rare`, which is begun, if any lane is special, and to `after`
    otherwise, as nearly always."""
    code = special.code
    code.declare('!9 = !{!"branch_weights", i32 1, i32 1048576}')
    code.do(f"br label %{start}")
    code.label(start)
    code.do(f"br i1 {anywhere(code, special.name)}, label %{rare}, label %{after}, !prof !9")
    code.label(rare)


def _called(name: str, special: Truth, quick: Real, slow: Callable[..., Real], operands: tuple[Real, ...],
            harmless: float) -> Real:
    """Call a function, written where it is called first, that computes the special lanes."""
    code = special.code
    kind, truth = code.type(quick.dtype), code.type(BOOL)
    convention = "preserve_allcc " if code.module.target.sse else ""
    function = f"diffuse.{name}.{quick.dtype}.{code.lanes}"
    if function not in code.module.written:
        code.module.written.add(function)
        _write_slow(code, f"{convention}{kind} @{function}", slow, quick.dtype, len(operands), harmless)
    given = "".join(f"{kind} {x.name}, " for x in operands) + f"{kind} {quick.name}, {truth} {special.name}"
    return Real(code, code.let(f"call {convention}{kind} @{function}({given})"), quick.dtype)


def _write_slow(code: Code, head: str, slow: Callable[..., Real], dtype: str, count: int,
                harmless: float) -> None:
    inner = Code(code.module, code.lanes)
    inner.label("entry")
    special = Truth(inner, "%special")
    operands = [special.choose(Real(inner, f"%x{i}", dtype), harmless).settled() for i in range(count)]
    found = special.choose(slow(*operands), Real(inner, "%quick", dtype))
    kind = inner.type(dtype)
    inner.do(f"ret {kind} {found.name}")
    parameters = "".join(f"{kind} %x{i}, " for i in range(count))
    body = "\n".join(inner.lines)
    code.declare(f"define internal {head}({parameters}{kind} %quick, {inner.type(BOOL)} %special) "
                 f"noinline nounwind cold {{\n{body}\n}}")


def cases(*rows: tuple[Truth, Callable[[], Pair]], otherwise: Callable[[], Pair]) -> Pair:
    """Compute the first row whose condition holds, and only that; for code of one lane."""
    if not rows:
        return otherwise()
    (condition, compute), *others = rows
    code = condition.code
    yes, no, after = (code.name(stem) for stem in ("yes", "no", "joined"))
    code.do(f"br i1 {condition.name}, label %{yes}, label %{no}")
    found = []
    for label, write in ((yes, compute), (no, lambda: cases(*others, otherwise=otherwise))):
        code.label(label)
        values, end = write(), code.name("end")
        code.do(f"br label %{end}")
        code.label(end)
        code.do(f"br label %{after}")
        found.append((values, end))
    code.label(after)
    return _joined(found)


def _joined(found: list[tuple[Pair, str]]) -> Pair:
    """Choose between pairs by the block that was left last."""
    def phi(k: int) -> Real:
        first = found[0][0][k]
        choices = ", ".join(f"[ {values[k].name}, %{block} ]" for values, block in found)
        return Real(first.code, first.code.let(f"phi {first.code.type(first.dtype)} {choices}"), first.dtype)
    return phi(0), phi(1)


def rarely_pair(name: str, special: Truth, quick: Pair, slow: Slow, *operands: Real) -> Pair:
    """Return `slow(*operands)` in the lanes that are special, `quick` in the others.

    `slow` is written for one lane, as a function of its own.
    """
    code = special.code
    if code.doubts is not None:
        code.doubts.append(anywhere(code, special.name))
        return quick
    start, rare, after = (code.name(stem) for stem in ("start", "rare", "after"))
    _branch(special, start, rare, after)
    function = _one(code, name, slow, operands)
    if code.lanes == 1:
        mended = _call(code, function, operands)
    else:
        mended = _lanes(function, special, quick, operands)
    code.do(f"br label %{after}")
    code.label(after)
    return _joined([(quick, start), (mended, rare)])


def alone(name: str, slow: Slow, *operands: Real) -> Pair:
    """Call a function of one lane, in code of one lane."""
    return _call(operands[0].code, _one(operands[0].code, name, slow, operands), operands)


def _pair(code: Code, dtype: str) -> str:
    return f"{{ {code.type(dtype)}, {code.type(dtype)} }}"


def _one(code: Code, name: str, slow: Slow, operands: tuple[Real, ...]) -> str:
    """Write the function of one lane, once; return its name."""
    dtype = operands[0].dtype
    function = f"diffuse.{name}.{dtype}.one"
    if function not in code.module.written:
        code.module.written.add(function)
        inner = Code(code.module, 1)
        inner.label("entry")
        _give(inner, slow(*[Real(inner, f"%x{i}", dtype) for i in range(len(operands))]))
        parameters = ", ".join(f"{inner.type(dtype)} %x{i}" for i in range(len(operands)))
        code.declare(_text(inner, f"{_pair(inner, dtype)} @{function}({parameters})", code))
    return function


def _text(inner: Code, head: str, code: Code) -> str:
    apart = " noinline cold" if code.module.target.flags else " alwaysinline"
    body = "\n".join(inner.lines)
    return f"define internal {head} nounwind{apart} {{\n{body}\n}}"


def _give(code: Code, values: Pair) -> None:
    kind = _pair(code, values[0].dtype)
    first, second = (f"{code.type(v.dtype)} {v.name}" for v in values)
    half = code.let(f"insertvalue {kind} poison, {first}, 0")
    code.do(f"ret {kind} {code.let(f'insertvalue {kind} {half}, {second}, 1')}")


def _call(code: Code, function: str, operands: tuple[Real, ...], convention: str = "",
          more: str = "") -> Pair:
    dtype = operands[0].dtype
    given = ", ".join(f"{code.type(dtype)} {x.name}" for x in operands) + more
    kind = _pair(code, dtype)
    pair = code.let(f"call {convention}{kind} @{function}({given})")
    first, second = (Real(code, code.let(f"extractvalue {kind} {pair}, {k}"), dtype) for k in (0, 1))
    return first, second


def _lanes(one: str, special: Truth, quick: Pair, operands: tuple[Real, ...]) -> Pair:
    """Call a function of one lane in a loop over the lanes that are special."""
    code, dtype = special.code, operands[0].dtype
    function = f"{one}.{code.lanes}"
    # the caller's registers stay as they are; a pair of wide vectors does not come back in registers
    convention = "preserve_allcc " if code.module.target.sse and code.lanes <= 8 else ""
    if function not in code.module.written:
        code.module.written.add(function)
        inner = Code(code.module, code.lanes)
        inner.label("entry")
        _write_lanes(inner, one, dtype, len(operands))
        parameters = ", ".join(f"{inner.type(dtype)} %x{i}" for i in range(len(operands) + 2))
        head = f"{convention}{_pair(inner, dtype)} @{function}({parameters}, {inner.type(BOOL)} %special)"
        code.declare(_text(inner, head, code))
    more = f", {code.type(BOOL)} {special.name}"
    return _call(code, function, (*operands, *quick), convention, more)


def _write_lanes(code: Code, one: str, dtype: str, count: int) -> None:
    """Apply a function of `count` operands where %special holds; two vectors behind them are its results so
    far."""
    kind, size = code.type(dtype), code.lanes
    element = kind.partition(" x ")[2].rstrip(">")
    places = []
    for i in range(count + 2):
        place = code.let(f"alloca {kind}, align 64")
        code.do(f"store {kind} %x{i}, ptr {place}, align 64")
        places.append(place)
    bits = code.let(f"bitcast {code.type(BOOL)} %special to i{size}")
    code.do("br label %head")
    code.label("head")
    code.do(f"%lane = phi i{size} [ 0, %entry ], [ %next, %latch ]")
    chosen = code.let(f"lshr i{size} {bits}, %lane")
    code.do(f"br i1 {code.let(f'trunc i{size} {chosen} to i1')}, label %inside, label %latch")
    code.label("inside")
    at = code.let(f"zext i{size} %lane to i64")
    spots = [code.let(f"getelementptr {element}, ptr {place}, i64 {at}") for place in places]
    given = ", ".join(f"{element} {code.let(f'load {element}, ptr {spot}')}" for spot in spots[:count])
    pair = code.let(f"call {{ {element}, {element} }} @{one}({given})")
    for k in (0, 1):
        part = code.let(f"extractvalue {{ {element}, {element} }} {pair}, {k}")
        code.do(f"store {element} {part}, ptr {spots[count + k]}")
    code.do("br label %latch")
    code.label("latch")
    code.do(f"%next = add i{size} %lane, 1")
    code.do(f"br i1 {code.let(f'icmp eq i{size} %next, {size}')}, label %done, label %head")
    code.label("done")
    found = [Real(code, code.let(f"load {kind}, ptr {place}, align 64"), dtype) for place in places[count:]]
    _give(code, (found[0], found[1]))

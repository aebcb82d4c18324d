"""Compiler passes over kernel bodies, each a function from body to body.

They run on the composed body, which has one loop for each task, in the order of `PASSES`; each may rely on
those before it.

Task fusion asked whether *points* communicate; loop fusion asks whether *elements* do.  Two loops may become
one if each pair of conflicting accesses is to the same element at the same iteration, or never to the same
element.  The passes after it look at one loop at a time, in which no two arguments share elements any more.
Together they turn a temporary into a name that loses its subscript.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from diffuse.ir import Relation
from diffuse.kernels.body.expr import EFFECTS, Argument, Body, Loop, Op
from diffuse.kernels.body.loop_fusion import READS, LoopFusion, Touched

Ops = Sequence[Op]

LOOKING = frozenset(("spmv", "turn", "pick", "nth"))
"""Kinds of ops that read elements other than that of the current iteration: they "look"."""

TOUCHING = LOOKING | {"load", "store", "reduce", "scatter"}
"""Kinds of ops that name arguments."""

ALONE = frozenset(("scan", "scatter"))
"""Kinds of ops whose loop no other one joins."""

MOVING = frozenset(("load", "store", "turn", "pick"))
"""Kinds of ops that advance along an argument with the iteration."""

_op = tuple.__new__
# Calling the base's constructor halves the cost of making ops.


class Facts(NamedTuple):
    """Facts about the slots of a body, derived from its tasks."""

    relation: Callable[[int, int, int], Relation]
    """The relation between the elements of two views of a slot: (slot, view, view)."""
    near: Callable[[int, int], Iterable[int]]
    """The views of a slot that may overlap a given one: (slot, view)."""
    temporaries: frozenset[int]
    """Slots that are not used after the body."""


def fuse_loops(body: Body, facts: Facts) -> Body:
    """Move each loop into another one that it may join, and the loops that it depends on before that one.

    First each loop joins those that make its operands, so that these become names.  Then the rest is put
    together: had a loop joined one with which it shares nothing before, its users could not always join both.
    """
    fed = _fused(body, facts, True)
    return fed if len({loop.space for loop in fed.loops}) == len(fed.loops) else _fused(fed, facts, False)


def _fused(body: Body, facts: Facts, fed: bool) -> Body:
    """The body with loops fused; `fed` as in `LoopFusion.add`."""
    fusion = LoopFusion(facts.relation, facts.near)
    homes = []
    for loop in body.loops:
        alone = not ALONE.isdisjoint([op[0] for op in loop.ops])
        homes.append(fusion.add(loop.space, _touched(body.arguments, loop.ops), alone, fed))
    fused: dict[int, list[Op]] = {n: [] for n in fusion.order()}
    firsts: dict[int, Loop] = {}
    for loop, home in zip(body.loops, map(fusion.home, homes), strict=True):
        ops = fused[home]
        firsts.setdefault(home, loop)
        base = len(ops)
        ops += [_op(Op, (kind, dtype, tuple([base + a for a in args]), attribute))
                for kind, dtype, args, attribute in loop.ops] if base else loop.ops
    return _with(body, [firsts[n]._replace(ops=tuple(ops)) for n, ops in fused.items()])


def _touched(arguments: Sequence[Argument], ops: Ops) -> Touched:
    found: Touched = {}
    for op in ops:
        kind = op[0]
        if kind == "load" or kind == "store":  # the most frequent kinds
            argument = arguments[op[3]]
            found.setdefault(argument[0], set()).add((argument[1], kind))
            continue
        if kind not in TOUCHING:
            continue
        for place, number in enumerate(op.arguments):
            slot, view, *_ = arguments[number]
            kinds: tuple[str, ...] = (kind,)
            if kind == "scatter":  # it reads what it writes, too
                kinds = ("load",) if place else ("load", "store")
            elif kind in LOOKING:
                kinds = ("look",)
            found.setdefault(slot, set()).update([(view, kind) for kind in kinds])
    return found


def forward_stores(body: Body, facts: Facts) -> Body:
    """Replace a load by the value that was stored to its argument before."""
    def forwarded(ops: Ops) -> Iterable[Op]:
        names: dict[int, int] = {}
        stored: dict[int, int] = {}
        moved = names.keys()
        for number, op in enumerate(ops):
            op = op if moved.isdisjoint(op[2]) else _renamed(op, names)
            if op.kind == "store":
                stored[op.attribute] = op.args[0]
            elif op.kind == "load" and op.attribute in stored:
                names[number] = stored[op.attribute]
            yield op

    return _each(body, forwarded)


def share_expressions(body: Body, facts: Facts) -> Body:
    """Compute equal expressions once.

    Loads may be shared: no load that is still used follows a store to its argument, since it was forwarded.
    """
    def shared(ops: Ops) -> Iterable[Op]:
        names: dict[int, int] = {}
        firsts: dict[Op, int] = {}
        moved = names.keys()
        for number, op in enumerate(ops):
            op = op if moved.isdisjoint(op[2]) else _renamed(op, names)
            first = number if op[0] in EFFECTS else firsts.setdefault(op, number)
            if first != number:
                names[number] = first
            yield op

    return _each(body, shared)


def drop_dead_stores(body: Body, facts: Facts) -> Body:
    """Drop stores that are overwritten, and stores and reductions to temporaries that no loop reads, or no
    other one.

    The stores that remain go to the end of the loop, before its reductions: loads after them were forwarded.
    """
    touched = [_touched(body.arguments, _without_unused_loads(loop.ops)) for loop in body.loops]
    loops = Counter(slot for slots in touched for slot in slots)
    unread = facts.temporaries - {slot for slots in touched for slot, accesses in slots.items()
                                  if any(kind in READS for _, kind in accesses)}
    found = []
    for loop, slots in zip(body.loops, touched, strict=True):
        gone = unread | {slot for slot, accesses in slots.items() if loops[slot] == 1
                         and slot in facts.temporaries and all(kind != "reduce" for _, kind in accesses)}
        values, stores, reduces = [], dict[int, int](), []
        for number, op in enumerate(loop.ops):
            if op.kind == "store":
                stores.pop(op.attribute, None)
                if body.arguments[op.attribute].slot not in gone:
                    stores[op.attribute] = number
            elif op.kind not in EFFECTS:
                values.append(number)
            elif body.arguments[op.attribute[1]].slot not in gone:
                reduces.append(number)
        found.append(loop._replace(ops=_picked(loop.ops, [*values, *stores.values(), *reduces])))
    return _with(body, found)


def _without_unused_loads(ops: Ops) -> Ops:
    """These ops without the loads whose value no op uses: those that were forwarded, among others."""
    used = {a for op in ops for a in op[2]}
    return [op for number, op in enumerate(ops) if op[0] != "load" or number in used]


def drop_dead_code(body: Body, facts: Facts) -> Body:
    """Drop ops that no store or reduction depends on, and empty loops."""
    def needed(ops: Ops) -> Iterable[Op]:
        wanted = [op.kind in EFFECTS for op in ops]
        for number in range(len(ops) - 1, -1, -1):
            if wanted[number]:
                for a in ops[number].args:
                    wanted[a] = True
        return _picked(ops, [number for number, keep in enumerate(wanted) if keep])

    return _each(body, needed)


def order_loops(body: Body, facts: Facts) -> Body:
    """Choose loop orders: the dimension along which most accesses have unit stride is the innermost.

    A reduction's tree is defined on the natural order, so loops that reduce keep it, and so do sparse rows,
    which go along the rows of their dense operand; a scan runs along its own dimension innermost.
    """
    return _with(body, [loop._replace(order=_order(loop.ops, body.spaces[loop.space].rank, body.arguments))
                        for loop in body.loops])


def _order(ops: Ops, rank: int, arguments: Sequence[Argument]) -> tuple[int, ...]:
    """Dimensions from the outermost loop to the innermost."""
    inner = rank - 1
    for op in ops:
        if op.kind in ("reduce", "spmv", "scatter"):
            return tuple(range(rank))
        if op.kind == "scan":
            inner = op.attribute[1]
            break
    else:
        used = [arguments[op.arguments[0]].classes for op in ops if op.kind in MOVING]
        if rank > 1:
            inner = max(range(rank), key=lambda d: (sum(c[d] in "1pq" for c in used), d))
    return tuple([*(d for d in range(rank) if d != inner), inner]) if rank else ()


PASSES: dict[str, Callable[[Body, Facts], Body]] = {
    "loop fusion": fuse_loops,
    "store-to-load forwarding": forward_stores,
    "common subexpressions": share_expressions,
    "dead stores": drop_dead_stores,
    "dead code": drop_dead_code,
    "loop order": order_loops,
}
"""The passes, in the order in which they run."""


def _each(body: Body, step: Callable[[Ops], Iterable[Op]]) -> Body:
    return _with(body, [loop._replace(ops=tuple(step(loop.ops))) for loop in body.loops])


def _with(body: Body, loops: Iterable[Loop]) -> Body:
    """The body with the nonempty ones of these loops; those over spaces of the epilogue form its epilogue."""
    late = {loop.space for loop in body.loops[len(body.loops) - body.epilogue:]}
    kept = tuple([loop for loop in loops if loop.ops])
    return Body(body.spaces, body.arguments, body.scalars, kept, sum([loop.space in late for loop in kept]))


def _picked(ops: Ops, numbers: Sequence[int]) -> tuple[Op, ...]:
    """A selection of ops, in this order, with their values renumbered."""
    names = {old: new for new, old in enumerate(numbers) if new != old}
    if not names:
        return tuple([ops[number] for number in numbers])
    moved = names.keys()
    return tuple([op if moved.isdisjoint(op[2]) else _renamed(op, names)
                  for op in [ops[number] for number in numbers]])


def _renamed(op: Op, names: Mapping[int, int]) -> Op:
    """The op with the values that it uses renamed."""
    kind, dtype, args, attribute = op
    return _op(Op, (kind, dtype, tuple([names.get(a, a) for a in args]), attribute))

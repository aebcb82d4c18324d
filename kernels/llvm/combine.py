"""Completes a reduction after its loop: writes a function that folds the leaves and stores the results.

It does so for all results, or (`Body.whole`) for those of one point.  Where each of several points writes a
contiguous range of leaves (`Body.parts`), the point folds the subtrees within its range itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from diffuse.kernels.body import abi
from diffuse.kernels.body.expr import Body
from diffuse.kernels.llvm.block import Block
from diffuse.kernels.llvm.code import COMPONENT, Code, Module, counted, guarded, with_lanes
from diffuse.kernels.llvm.memory import Place, Step, store
from diffuse.kernels.llvm.ops.rules import cast
from diffuse.kernels.llvm.reduce import Partials, load_state, store_state


def combine(module: Module, body: Body, number: int) -> str:
    """Write the function that completes a reduction; returns the instruction that calls it."""
    code = Code(module, 1)
    code.label("entry")
    block, reduction = _Related(code, body), abi.reductions(body)[number]
    p, whole = Partials(block, number), number in body.whole
    with guarded(code, code.let(f"icmp sgt i64 {p.leaves}, 0")):
        if whole:
            bounds = block.bounds(body.loops[reduction.loop].space, block.coordinates())
            _results(code, block, p, reduction.argument, bounds)
        else:
            if number in body.parts:
                _each(code, p, lambda output: _join(code, p, _called(number, output),
                                                    _run(block, p, reduction)))
            else:
                _each(code, p, lambda output: tree(code, p, output))
            _results(code, block, p, reduction.argument, None)
    code.do("ret void")
    name = module.shared(f"combine{number}", f"({FORM}{', i64 %point' if whole else ''})", code)
    words = f"i64 {block.words.arguments[reduction.argument]}, i64 {block.words.partials[number]}"
    return f"call void @{name}(ptr %block, {words}{', i64 %point' if whole else ''})"


FORM = "ptr %block, i64 %result, i64 %partials"
"""The parameters of a function that completes a reduction: the block, and the words in it at which the
argument for the results and the partials are described.  Reductions that differ only in these share it."""


class _Related(Block):
    """The block in a function that gets the places of an argument and of a reduction as parameters."""

    def _beside(self, parameter: str, words: int) -> str:
        place = self.code.let(f"add i64 {parameter}, {words}") if words else parameter
        return self.code.let(f"getelementptr inbounds i64, ptr %block, i64 {place}")

    def address(self, argument: int) -> str:
        return self.code.let(f"load ptr, ptr {self._beside('%result', 0)}, align 8")

    def stride(self, argument: int, dimension: int) -> str:
        return self.code.let(f"load i64, ptr {self._beside('%result', 1 + dimension)}, align 8")

    def partials(self, reduction: int) -> str:
        return self.code.let(f"load ptr, ptr {self._beside('%partials', 0)}, align 8")


def fold(module: Module, body: Body, number: int) -> str:
    """Write the function that folds the subtrees within a point's range of leaves; returns the instruction
    that calls it."""
    _write_pair(module, body, number)
    code = Code(module, 1)
    code.label("entry")
    block, reduction = Block(code, body), abi.reductions(body)[number]
    p, name = Partials(block, number), f"fold{number}"
    run = _run(block, p, reduction)
    low = code.let(f"mul i64 %point, {run}")
    end = code.let(f"add i64 {low}, {run}")
    high = code.let(f"select i1 {code.let(f'icmp slt i64 {end}, {p.leaves}')}, i64 {end}, i64 {p.leaves}")
    with guarded(code, code.let(f"icmp slt i64 {low}, {high}")):
        _each(code, p, lambda output: _tree(code, p, _called(number, output), low, high))
    code.do("ret void")
    module.functions.append("\n".join([f"define internal void @{name}(ptr %block, i64 %point) nounwind {{",
                                       *code.lines, "}"]))
    return f"call void @{name}(ptr %block, i64 %point)"


def _run(block: Block, p: Partials, reduction: abi.Reduction) -> str:
    """The number of leaves that each point writes, if they are contiguous."""
    code, rest = block.code, p.leaf_counts[1:]
    run = block.tile(block.body.loops[reduction.loop].space, 0)
    if not rest:
        run = code.let(f"lshr i64 {code.let(f'add i64 {run}, {(1 << p.shift) - 1}')}, {p.shift}")
    return p.product([run, *rest])


def _each(code: Code, p: Partials, write: Callable[[str | None], None]) -> None:
    """Apply `write` to each output of a row reduction; for columns once for all outputs, which are
    contiguous."""
    if p.by_rows:
        with counted(code, "0", p.outputs) as output:
            write(output)
    else:
        write(None)


Pair = Callable[[Code, str, str], None]
"""Writes p[i] = op(p[i], p[i + s]), given i and s."""


def _called(number: int, output: str | None) -> Pair:
    """A call of the function for one pair, which the folding of subtrees and their joining share."""
    def write(code: Code, leaf: str, apart: str) -> None:
        code.do(f"call void @pair{number}(ptr %block, i64 {output or 0}, i64 {leaf}, i64 {apart})")
    return write


def _write_pair(module: Module, body: Body, number: int) -> None:
    """Write the function for one pair of leaves: of one output of rows, or of all outputs of columns."""
    code = Code(module, 1)
    code.label("entry")
    p = Partials(Block(code, body), number)
    _pair(code, p, "%output" if p.by_rows else None, "%leaf", "%apart")
    code.do("ret void")
    form = "ptr %block, i64 %output, i64 %leaf, i64 %apart"
    head = f"define internal void @pair{number}({form}) nounwind noinline {{"
    module.functions.append("\n".join([head, *code.lines, "}"]))


def _pair(code: Code, p: Partials, output: str | None, leaf: str, apart: str) -> None:
    """Fold a pair of leaves: of one output, or of all outputs, which lie side by side, by vectors as far as
    whole ones go."""
    other = code.let(f"add i64 {leaf}, {apart}")

    def fold_at(which: str) -> None:
        here, there = p.at(leaf, which), p.at(other, which)
        low, high = (load_state(code, place, Step("0")) for place in (here, there))
        store_state(code, here, Step("0"), p.operator.fold(code, low, high))

    if output is not None:
        fold_at(output)
        return
    lanes, start = code.module.target.lanes, "0"
    if lanes > 1 and not p.operator.indexed and p.operator.dtype not in COMPONENT:
        start = code.let(f"and i64 {p.outputs}, {-lanes}")
        with counted(code, "0", start, lanes) as which, with_lanes(code, lanes):
            fold_at(which)
    with counted(code, start, p.outputs) as which:
        fold_at(which)


def tree(code: Code, p: Partials, output: str | None) -> None:
    """Write p[i] = op(p[i], p[i + s]) for s = 1, 2, 4, ...; for one output, or for all in turn."""
    _tree(code, p, lambda code, leaf, apart: _pair(code, p, output, leaf, apart), "0", p.leaves)


def _tree(code: Code, p: Partials, pair: Pair, low: str, high: str) -> None:
    """Write the pairs of the tree with all leaves in [low, high)."""
    with _levels(code, p) as (level, apart, pairs):
        # first, first + pairs, ...: up to the last leaf with a partner, or the last complete pair
        rest = code.let(f"sub i64 {pairs}, 1")
        end = code.let(f"add i64 {code.let(f'sub i64 {p.leaves}, {apart}')}, {rest}")
        first = "0"
        if (low, high) != ("0", p.leaves):
            last = code.let(f"icmp eq i64 {high}, {p.leaves}")
            end = code.let(f"select i1 {last}, i64 {end}, i64 {high}")
            up = code.let(f"add i64 {low}, {rest}")
            first = code.let(f"and i64 {up}, {code.let(f'sub i64 0, {pairs}')}")
            end = code.let(f"sub i64 {end}, {first}")
        times = code.let(f"ashr i64 {end}, {code.let(f'add i64 {level}, 1')}")
        with counted(code, "0", times) as step:
            leaf = code.let(f"mul i64 {step}, {pairs}")
            pair(code, leaf if first == "0" else code.let(f"add i64 {first}, {leaf}"), apart)


def _join(code: Code, p: Partials, pair: Pair, run: str) -> None:
    """Write the rest of the tree, after the subtrees within ranges of so many leaves have been folded."""
    up = code.let(f"add i64 {p.leaves}, {code.let(f'sub i64 {run}, 1')}")
    runs = code.let(f"udiv i64 {up}, {run}")
    with _levels(code, p) as (_, apart, pairs), counted(code, "1", runs) as k:
        begin = code.let(f"mul i64 {k}, {run}")
        leaf = code.let(f"and i64 {begin}, {code.let(f'sub i64 0, {pairs}')}")
        # the pair crosses this border, has both its leaves, and crosses no earlier border
        crosses = code.let(f"icmp slt i64 {leaf}, {begin}")
        there = code.let(f"icmp slt i64 {code.let(f'add i64 {leaf}, {apart}')}, {p.leaves}")
        new = code.let(f"icmp sge i64 {leaf}, {code.let(f'sub i64 {begin}, {run}')}")
        both = code.let(f"and i1 {crosses}, {there}")
        with guarded(code, code.let(f"and i1 {both}, {new}")):
            pair(code, leaf, apart)


@contextmanager
def _levels(code: Code, p: Partials) -> Iterator[tuple[str, str, str]]:
    """A loop over the levels of the tree: their number, the distance between the leaves of a pair, and twice
    that."""
    count = code.let(f"sub i64 64, {code.intrinsic('llvm.ctlz', 'int64', p.leaves, 'i1 false')}")
    with counted(code, "0", count) as level:
        apart = code.let(f"shl i64 1, {level}")
        yield level, apart, code.let(f"shl i64 {apart}, 1")


def _results(code: Code, block: Block, p: Partials, argument: int,
             bounds: dict[int, tuple[str, str]] | None) -> None:
    """Store leaf 0 of every output to the argument.  With bounds of the dimensions, fold the leaves of the
    outputs within them first."""
    base, dtype = block.address(argument), block.body.arguments[argument].dtype
    strides = {d: block.stride(argument, d) for d in p.kept}
    with ExitStack() as loops:
        indices = []
        for d in p.kept:
            index = loops.enter_context(counted(code, *(bounds[d] if bounds else ("0", p.extents[d]))))
            indices.append(index)
            offset = code.let(f"mul nsw i64 {index}, {strides[d]}")
            base = code.let(f"getelementptr inbounds i8, ptr {base}, i64 {offset}")
        output = p.flat(indices, [p.extents[d] for d in p.kept])
        if bounds:
            tree(code, p, output)
        state = load_state(code, p.at("0", output), Step("0"))
        source = p.operator.dtypes[-1]
        store(code, Place(dtype, "0", base), Step("0"), cast(code, source, dtype, state[-1]))


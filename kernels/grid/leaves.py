"""The phases that combine the leaves of a reduction, in the order of its tree (see `abi.Reduction`)."""

from __future__ import annotations

from diffuse.ir import ITEMSIZE
from diffuse.kernels.body import abi
from diffuse.kernels.grid.schedule import BRANCHES, CHUNK, THREADS, GridKernel
from diffuse.kernels.grid.threads import HERE
from diffuse.kernels.llvm import reduce
from diffuse.kernels.llvm.block import Block
from diffuse.kernels.llvm.code import Code, guarded
from diffuse.kernels.llvm.memory import Place, element, store
from diffuse.kernels.llvm.ops.rules import cast
from diffuse.kernels.llvm.reduce import Partials, load_state, store_state

HALVINGS = CHUNK.bit_length() - 2
"""The number of levels of the tree that one group combines, besides the first."""


class Chunk:
    """The leaves of one output that a group combines, `%argument` leaves apart: thread i folds the leaves 2 i
    and 2 i + 1 into the state i in shared memory, and the states are then folded in pairs."""

    def __init__(self, code: Code, block: Block, kernel: GridKernel) -> None:
        self.code, self.partials = code, Partials(block, kernel.reduction)
        self.leaves = self.partials.leaves
        chunk = code.let(f"mul i64 %argument, {CHUNK}")
        up = code.let(f"add i64 {self.leaves}, {code.let(f'sub i64 {chunk}, 1')}")
        chunks = code.let(f"udiv i64 {up}, {chunk}")
        self.last = code.let(f"icmp eq i64 {chunks}, 1")
        self.output = code.let(f"udiv i64 %group, {chunks}")
        self.first = code.let(f"mul i64 {code.let(f'urem i64 %group, {chunks}')}, {chunk}")

    def leaf(self, number: str) -> str:
        """The leaf of this number within the chunk."""
        return self.code.let(f"add i64 {self.first}, {self.code.let(f'mul i64 {number}, %argument')}")

    def exists(self, leaf: str) -> str:
        return self.code.let(f"icmp ult i64 {leaf}, {self.leaves}")

    def state(self, number: str) -> list[Place]:
        """The places of the parts of a state in shared memory."""
        found, at = [], 0
        for dtype in self.partials.operator.dtypes:
            base = self.code.let(f"getelementptr inbounds i8, ptr %shared, i64 {at}")
            found.append(Place(dtype, "1", element(self.code, dtype, base, number)))
            at += THREADS * ITEMSIZE[dtype]
        return found

    def fold(self, low: reduce.State, high: reduce.State) -> reduce.State:
        return self.partials.operator.fold(self.code, low, high)


def pair(code: Code, block: Block, kernel: GridKernel) -> None:
    """Write the first level of the tree over a chunk: each thread folds a pair of leaves."""
    chunk = Chunk(code, block, kernel)
    p = chunk.partials
    leaf = chunk.leaf(code.let("shl i64 %thread, 1"))
    with guarded(code, chunk.exists(leaf)):
        other = code.let(f"add i64 {leaf}, %argument")
        both = chunk.exists(other)
        there = code.let(f"select i1 {both}, i64 {other}, i64 {leaf}")
        low, high = (load_state(code, p.at(number, chunk.output), HERE) for number in (leaf, there))
        state = p.operator.select(code, both, chunk.fold(low, high), low)
        store_state(code, chunk.state("%thread"), HERE, state)


def halve(code: Code, block: Block, kernel: GridKernel) -> None:
    """Write another level: state i is folded with the state 2 ** step behind it, for each i that is a
    multiple of twice that distance."""
    with guarded(code, code.let(f"icmp ult i64 %thread, {code.let(f'lshr i64 {THREADS // 2}, %step')}")):
        chunk = Chunk(code, block, kernel)
        here = code.let(f"shl i64 {code.let('shl i64 %thread, 1')}, %step")
        there = code.let(f"add i64 {here}, {code.let('shl i64 1, %step')}")
        with guarded(code, chunk.exists(chunk.leaf(code.let(f"shl i64 {there}, 1")))):
            places = chunk.state(here)
            low, high = (load_state(code, place, HERE) for place in (places, chunk.state(there)))
            store_state(code, places, HERE, chunk.fold(low, high))


def finish(code: Code, block: Block, kernel: GridKernel) -> None:
    """Write what is left of a chunk to its first leaf, or to the argument."""
    with guarded(code, code.let("icmp eq i64 %thread, 0")):
        chunk = Chunk(code, block, kernel)
        state = load_state(code, chunk.state("0"), HERE)
        _put(code, block, kernel, chunk.partials, (chunk.first, chunk.output), chunk.last, state)


def tree(code: Code, block: Block, kernel: GridKernel) -> None:
    """Write the levels of the tree over `BRANCHES` leaves of one output, by one thread, which loads all of
    them before it folds the first.  Neighbouring threads take neighbouring outputs."""
    p, levels = Partials(block, kernel.reduction), BRANCHES.bit_length() - 1
    number = code.let(f"add i64 {code.let(f'mul i64 %group, {THREADS}')}, %thread")
    apart = code.let(f"add i64 %argument, {levels}")
    up = code.let(f"sub i64 {code.let(f'shl i64 1, {apart}')}, 1")
    parts = code.let(f"lshr i64 {code.let(f'add i64 {p.leaves}, {up}')}, {apart}")
    with guarded(code, code.let(f"icmp ult i64 {number}, {code.let(f'mul i64 {p.outputs}, {parts}')}")):
        part, output = (code.let(f"{word} i64 {number}, {p.outputs}") for word in ("udiv", "urem"))
        first = code.let(f"shl i64 {part}, {apart}")
        held, inside = list[reduce.State](), list[str]()
        for k in range(BRANCHES):
            leaf = code.let(f"add i64 {first}, {code.let(f'shl i64 {k}, %argument')}")
            inside.append(code.let(f"icmp ult i64 {leaf}, {p.leaves}"))
            there = code.let(f"select i1 {inside[k]}, i64 {leaf}, i64 {first}")
            held.append(load_state(code, p.at(there, output), HERE))
        for level in range(levels):
            for k in range(0, BRANCHES, 2 << level):
                other = k + (1 << level)
                folded = p.operator.fold(code, held[k], held[other])
                held[k] = p.operator.select(code, inside[other], folded, held[k])
        last = code.let(f"icmp eq i64 {parts}, 1")
        _put(code, block, kernel, p, (first, output), last, held[0])


def results(code: Code, block: Block, kernel: GridKernel) -> None:
    """Store leaf 0 of each output to the argument, where there are no other leaves."""
    p = Partials(block, kernel.reduction)
    output = code.let(f"add i64 {code.let(f'mul i64 %group, {THREADS}')}, %thread")
    with guarded(code, code.let(f"icmp ult i64 {output}, {p.outputs}")):
        _store(code, block, kernel, p, output, load_state(code, p.at("0", output), HERE))


def _put(code: Code, block: Block, kernel: GridKernel, p: Partials, place: tuple[str, str], last: str,
         state: reduce.State) -> None:
    """Store a state to its (leaf, output), or to the argument if it is the last one of its output."""
    leaf, output = place
    with guarded(code, code.let(f"xor i1 {last}, true")):
        store_state(code, p.at(leaf, output), HERE, state)
    with guarded(code, last):
        _store(code, block, kernel, p, output, state)


def _store(code: Code, block: Block, kernel: GridKernel, p: Partials, output: str, state: reduce.State
           ) -> None:
    """Store the final state of an output to the argument."""
    argument = abi.reductions(block.body)[kernel.reduction].argument
    base, dtype, rest = block.address(argument), block.body.arguments[argument].dtype, output
    for k, d in reversed(list(enumerate(p.kept))):
        index = rest
        if k:
            index = code.let(f"urem i64 {rest}, {p.extents[d]}")
            rest = code.let(f"udiv i64 {rest}, {p.extents[d]}")
        offset = code.let(f"mul nsw i64 {index}, {block.stride(argument, d)}")
        base = code.let(f"getelementptr inbounds i8, ptr {base}, i64 {offset}")
    value = cast(code, p.operator.dtypes[-1], dtype, state[-1])
    store(code, Place(dtype, "0", base), HERE, value)

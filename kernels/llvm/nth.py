"""Finds the positions of the true elements of a mask, one iteration after another: the op `nth`.

A row of the loop begins with the mask's block that contains its first element, found in a table of the number
of true elements before each block.  From there the mask is read once.  The positions of the true elements of
a few hundred bytes are queued, without a branch for each, and the loop's steps take them from the queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from diffuse.kernels.body.operations import COUNTED
from diffuse.kernels.llvm import reduce
from diffuse.kernels.llvm.block import Block
from diffuse.kernels.llvm.code import Code, carrying, counted, guarded, with_lanes
from diffuse.kernels.llvm.memory import Step, element, load_one, merge, store_one

CHUNK, WORD = 512, 8
"""Bytes of the mask that are queued together, and bytes that are skipped together if none is true."""
ALL_TRUE = 0x0101010101010101
"""A word of true elements only."""
WIDEST = 64
"""The most lanes of a step."""


class Mask(NamedTuple):
    """The operands of the op: the mask, the number of true elements before each block, and the lengths of
    both."""

    base: str
    counts: str
    length: str
    blocks: str


class Nth:
    """The queue of one op, and the position in the mask up to which it is filled."""

    def __init__(self, code: Code, block: Block) -> None:
        self.code = code
        self.queue = block.room("int64", CHUNK + 2 * WIDEST)
        self.words = {name: block.room("int64", 1) for name in ("at", "head", "tail")}
        self.mask = Mask("", "", "", "")

    def start(self, mask: Mask, first: str) -> None:
        """Begin with the true element of this number."""
        code = self.code
        self.mask = mask
        with with_lanes(code, 1):
            low, high = self.words["head"], self.words["tail"]
            self._set(low, "0")
            self._set(high, mask.blocks)
            with self._while(lambda: self._more(low, high)):
                a, b = self._get(low), self._get(high)
                middle = code.let(f"lshr i64 {code.let(f'add i64 {a}, {b}')}, 1")
                before = load_one(code, "int64", element(code, "int64", mask.counts, middle))
                beyond = code.let(f"icmp sgt i64 {before}, {first}")
                self._set(low, code.let(f"select i1 {beyond}, i64 {a}, i64 {middle}"))
                self._set(high, code.let(f"select i1 {beyond}, i64 {middle}, i64 {b}"))
            found = self._get(low)
            before = load_one(code, "int64", element(code, "int64", mask.counts, found))
            left, at = low, self.words["at"]
            self._set(left, code.let(f"sub i64 {first}, {before}"))
            self._set(at, code.let(f"mul i64 {found}, {COUNTED}"))
            with self._while(lambda: self._to_skip(left)):
                here = self._get(at)
                self._set(left, code.let(f"sub i64 {self._get(left)}, {self._true(here)}"))
                self._set(at, code.let(f"add i64 {here}, 1"))
            for name in ("head", "tail"):
                self._set(self.words[name], "0")

    def take(self, step: Step) -> str:
        """The positions for the lanes of a step; an inactive lane has that of the first."""
        code, lanes = self.code, self.code.lanes
        needed = step.active or str(lanes)
        with with_lanes(code, 1):
            with self._while(lambda: self._too_few(needed)):
                self._refill(needed)
            head = self._get(self.words["head"])
            self._set(self.words["head"], code.let(f"add i64 {head}, {needed}"))
            there = element(code, "int64", self.queue, head)
        if step.mask is not None:
            first = code.splat("int64", str(load_one(code, "int64", there)))
            return merge(code, "int64", there, step.mask, first)
        return code.let(f"load {code.memory('int64')}, ptr {there}, align 8")

    def _refill(self, needed: str) -> None:
        """Move the rest to the front of the queue, and append the next chunk.  If the mask has no more true
        elements, because it was written to in the meantime, append zeros."""
        code, words = self.code, self.words
        head, tail = self._get(words["head"]), self._get(words["tail"])
        left = code.let(f"sub i64 {tail}, {head}")
        with counted(code, "0", left) as k:
            source = element(code, "int64", self.queue, code.let(f"add i64 {head}, {k}"))
            store_one(code, "int64", element(code, "int64", self.queue, k), load_one(code, "int64", source))
        self._set(words["head"], "0")
        start = self._get(words["at"])
        end = code.intrinsic("llvm.smin", "int64", code.let(f"add i64 {start}, {CHUNK}"), self.mask.length)
        whole = code.let(f"sub i64 {end}, {WORD - 1}")
        with carrying(code, start, whole, WORD, [("i64", left)]) as (at, filled):
            filled[0] = self._word(at, filled[0])
        done = code.let(f"and i64 {code.let(f'sub i64 {end}, {start}')}, {-WORD}")
        rest = code.let(f"add i64 {start}, {done}")
        with carrying(code, rest, end, 1, [("i64", filled[0])]) as (at, filled):
            filled[0] = self._one(at, filled[0])
        self._set(words["at"], end)
        self._set(words["tail"], filled[0])
        with guarded(code, code.let(f"icmp sge i64 {start}, {self.mask.length}")):
            with counted(code, left, needed) as k:
                store_one(code, "int64", element(code, "int64", self.queue, k), "0")
            self._set(words["tail"], needed)

    def _word(self, at: str, filled: str) -> str:
        """Append the positions of the true elements among eight bytes to the queue: none, all, or one by
        one."""
        code = self.code
        word = code.let(f"load i64, ptr {element(code, 'bool', self.mask.base, at)}, align 1")
        stems = "none", "some", "every", "mixed", "after"
        none, some, every, mixed, after = (code.name(stem) for stem in stems)
        code.do(f"br label %{none}")
        code.label(none)
        code.do(f"br i1 {code.let(f'icmp ne i64 {word}, 0')}, label %{some}, label %{after}")
        code.label(some)
        code.do(f"br i1 {code.let(f'icmp eq i64 {word}, {ALL_TRUE}')}, label %{every}, label %{mixed}")
        code.label(every)
        with with_lanes(code, WORD):
            positions = reduce.consecutive(code, at)
            there = element(code, "int64", self.queue, filled)
            code.do(f"store {code.type('int64')} {positions}, ptr {there}, align 8")
        full = code.let(f"add i64 {filled}, {WORD}")
        code.do(f"br label %{after}")
        code.label(mixed)
        more = filled
        for k in range(WORD):
            more = self._one(code.let(f"add i64 {at}, {k}"), more)
        last = code.name("last")
        code.do(f"br label %{last}")
        code.label(last)
        code.do(f"br label %{after}")
        code.label(after)
        return code.let(f"phi i64 [ {filled}, %{none} ], [ {full}, %{every} ], [ {more}, %{last} ]")

    def _one(self, at: str, filled: str) -> str:
        store_one(self.code, "int64", element(self.code, "int64", self.queue, filled), at)
        return self.code.let(f"add i64 {filled}, {self._true(at)}")

    def _true(self, at: str) -> str:
        """Whether the mask is true at a position, as 0 or 1."""
        found = load_one(self.code, "bool", element(self.code, "bool", self.mask.base, at))
        return self.code.let(f"zext i1 {found} to i64")

    def _more(self, low: str, high: str) -> str:
        apart = self.code.let(f"sub i64 {self._get(high)}, {self._get(low)}")
        return self.code.let(f"icmp sgt i64 {apart}, 1")

    def _to_skip(self, left: str) -> str:
        """Are there true elements to skip, and is there mask left to read?"""
        some = self.code.let(f"icmp sgt i64 {self._get(left)}, 0")
        within = self.code.let(f"icmp slt i64 {self._get(self.words['at'])}, {self.mask.length}")
        return self.code.let(f"and i1 {some}, {within}")

    def _too_few(self, needed: str) -> str:
        words = self.words
        there = self.code.let(f"sub i64 {self._get(words['tail'])}, {self._get(words['head'])}")
        return self.code.let(f"icmp slt i64 {there}, {needed}")

    def _get(self, room: str) -> str:
        return str(load_one(self.code, "int64", room))

    def _set(self, room: str, value: str) -> None:
        store_one(self.code, "int64", room, value)

    @contextmanager
    def _while(self, condition: Callable[[], str]) -> Iterator[None]:
        """A loop that runs while a condition, written at its head, holds."""
        code = self.code
        head, inside, after = (code.name(stem) for stem in ("while", "inside", "after"))
        code.do(f"br label %{head}")
        code.label(head)
        code.do(f"br i1 {condition()}, label %{inside}, label %{after}")
        code.label(inside)
        yield
        code.do(f"br label %{head}")
        code.label(after)

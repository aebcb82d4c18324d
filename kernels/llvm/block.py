"""Reads the block of a launch (see `abi`) inside a kernel, and allocates the kernel's own scratch."""

from __future__ import annotations

from typing import NamedTuple

from diffuse.kernels.body import abi
from diffuse.kernels.body.expr import Body
from diffuse.kernels.llvm.code import COMPONENT, ELEMENT, MEMORY, Code, Value


class SplitWords(NamedTuple):
    """The words of a split operand (see `abi`)."""

    first: str
    number: str
    others: str
    low: str
    high: str


class Block:
    """The block that a function gets as `%block`.  Words are read where they are needed.

    They are cheap to read again, while a kernel with many arguments has more of them than a machine has
    registers.
    """

    def __init__(self, code: Code, body: Body) -> None:
        self.code, self.body, self.words = code, body, abi.words(body)
        self._entry = len(code.lines)

    def _pointer(self, word: int) -> str:
        return self.code.let(f"getelementptr inbounds i64, ptr %block, i64 {word}")

    def word(self, word: int) -> str:
        return self.code.let(f"load i64, ptr {self._pointer(word)}, align 8")

    def points(self) -> str:
        """The number of points of the launch."""
        count = self.word(0)
        for d in range(1, self.body.launch_rank):
            count = self.code.let(f"mul i64 {count}, {self.word(d)}")
        return count

    def coordinates(self) -> list[str]:
        """The coordinates of `%point`, which counts the points of the launch domain in row-major order."""
        rest, found = "%point", []
        for d in range(self.body.launch_rank - 1, 0, -1):
            extent = self.word(d)
            found.append(self.code.let(f"urem i64 {rest}, {extent}"))
            rest = self.code.let(f"udiv i64 {rest}, {extent}")
        return [rest, *reversed(found)]

    def bounds(self, space: int, point: list[str]) -> dict[int, tuple[str, str]]:
        """For each dimension, the first index that the point at these coordinates runs and the one after the
        last.  A point beyond the last tile has none: its first index is the greater one."""
        code, found = self.code, {}
        for d in range(self.body.spaces[space].rank):
            found[d] = "0", self.extent(space, d)
        for d, (coordinate, axis) in enumerate(zip(point, self.body.spaces[space].axes, strict=False)):
            if axis < 0:
                continue
            tile = self.tile(space, d)
            low = code.let(f"mul nsw i64 {coordinate}, {tile}")
            high = code.let(f"add nsw i64 {low}, {tile}")
            extent = found[axis][1]
            if self.body.spaces[space].begins:
                low, high = self._from_begin(space, d, coordinate, low, high)
            less = code.let(f"icmp slt i64 {high}, {extent}")
            found[axis] = low, code.let(f"select i1 {less}, i64 {high}, i64 {extent}")
        return found

    def _from_begin(self, space: int, d: int, coordinate: str, low: str, high: str) -> tuple[str, str]:
        """The bounds of a tile whose split has a begin; the last tile's have to be clipped."""
        code, begin = self.code, self.begin(space, d)
        low, high = code.let(f"sub nsw i64 {low}, {begin}"), code.let(f"sub nsw i64 {high}, {begin}")
        first = code.let(f"icmp eq i64 {coordinate}, 0")
        following = code.let(f"add nsw i64 {coordinate}, 1")
        last = code.let(f"icmp eq i64 {following}, {self.word(d)}")
        early = code.let(f"icmp slt i64 {low}, 0")  # of a tile that is shorter than the begin
        none = code.let(f"or i1 {first}, {early}")
        return (code.let(f"select i1 {none}, i64 0, i64 {low}"),
                code.let(f"select i1 {last}, i64 {(1 << 62)}, i64 {high}"))

    def tile(self, space: int, launch_dimension: int) -> str:
        return self.word(self.words.spaces[space] + launch_dimension)

    def begin(self, space: int, launch_dimension: int) -> str:
        """The begin of a launch dimension in a space that has begins."""
        return self.extent(space, self.body.spaces[space].rank + launch_dimension)

    def extent(self, space: int, dimension: int) -> str:
        return self.word(self.words.spaces[space] + self.body.launch_rank + dimension)

    def address(self, argument: int) -> str:
        return self.code.let(f"load ptr, ptr {self._pointer(self.words.arguments[argument])}, align 8")

    def stride(self, argument: int, dimension: int) -> str:
        return self.word(self.words.arguments[argument] + 1 + dimension)

    def split(self, argument: int) -> SplitWords:
        """Where the rows of a split operand lie."""
        word = self.words.splits[self.body.split.index(argument)]
        return SplitWords(self.word(word), self.word(word + 1),
                          self.code.let(f"load ptr, ptr {self._pointer(word + 2)}, align 8"),
                          self.word(word + 3), self.word(word + 4))

    def partials(self, reduction: int) -> str:
        return self.code.let(f"load ptr, ptr {self._pointer(self.words.partials[reduction])}, align 8")

    def scalar(self, number: int) -> Value:
        """The scalar argument as a value of one lane."""
        code, dtype, word = self.code, self.body.scalars[number], self.words.scalars[number]
        if dtype in COMPONENT:
            part = ELEMENT[COMPONENT[dtype]]
            real = code.let(f"load {part}, ptr {self._pointer(word)}, align 8")
            return real, code.let(f"load {part}, ptr {self._pointer(word + 1)}, align 8")
        if dtype in ("float16", "float32", "float64"):
            return code.let(f"load {ELEMENT[dtype]}, ptr {self._pointer(word)}, align 8")
        whole = self.word(word)
        if dtype == "bool":
            return code.let(f"icmp ne i64 {whole}, 0")
        return whole if ELEMENT[dtype] == "i64" else code.let(f"trunc i64 {whole} to {ELEMENT[dtype]}")

    def room(self, dtype: str, count: int) -> str:
        """Allocate scratch for so many elements, at the function's entry."""
        name = "%" + self.code.name("room")
        kind = f"[2 x {MEMORY[COMPONENT[dtype]]}]" if dtype in COMPONENT else MEMORY[dtype]
        self.code.lines.insert(self._entry, f"  {name} = alloca [{count} x {kind}], align 64")
        return name

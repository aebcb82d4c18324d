"""What the emitter asks of the machine that it writes for.

A target is a value: its `repr` is part of the key that compiled code is kept under.
"""

from __future__ import annotations

from typing import Protocol

from diffuse.kernels.llvm.code import Code


class OneLane:
    """What is alike in targets whose kernels compute one element a thread, as Target has it."""

    lanes = 1
    masks_bytes = quiet = sse = flags = library = counts = False


class Target(Protocol):
    @property
    def lanes(self) -> int:
        """Elements that a loop without scans computes at once."""

    @property
    def masks_bytes(self) -> bool:
        """Can the processor load and store vectors of bytes under a mask?"""

    @property
    def quiet(self) -> bool:
        """Has it orderings of vectors of floats that are false for NaN and raise no flag?"""

    @property
    def sse(self) -> bool:
        """Does SSE's control and status register keep the flags of its arithmetic?"""

    @property
    def flags(self) -> bool:
        """Does its arithmetic raise floating-point flags?"""

    @property
    def fma(self) -> bool:
        """Has it an instruction for a fused multiply-add?"""

    @property
    def counts(self) -> bool:
        """Does one instruction convert a vector of int64 to float64?"""

    @property
    def tiles(self) -> bool:
        """Does a grid kernel run one point of a launch (kernels/grid/threads.py)?  Else it runs all."""

    @property
    def library(self) -> bool:
        """Has it the C library's functions?"""

    def math(self, code: Code, name: str, dtype: str, values: tuple[str, ...]) -> str:
        """Write a call of a transcendental function of float32 or float64 values."""

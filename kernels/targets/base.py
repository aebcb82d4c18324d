"""The properties of a target machine that the emitter needs.

A target is a value: its `repr` is part of the key that compiled code is kept under.
"""

from __future__ import annotations

from typing import Protocol

from diffuse.kernels.llvm.code import Code


class OneLane:
    """The common properties of targets whose kernels compute one element per thread (see `Target`)."""

    lanes = 1
    masks_bytes = quiet = sse = flags = library = counts = packs = permutes = passes = ahead = seeds = False


class Target(Protocol):
    @property
    def lanes(self) -> int:
        """The number of elements that a loop without scans computes at once."""

    @property
    def masks_bytes(self) -> bool:
        """Can the processor load and store vectors of bytes under a mask?"""

    @property
    def quiet(self) -> bool:
        """Does it have vector comparisons of floats that are false for NaN and raise no flag?"""

    @property
    def sse(self) -> bool:
        """Are the flags of its arithmetic in SSE's control and status register?"""

    @property
    def flags(self) -> bool:
        """Does its arithmetic raise floating-point flags?"""

    @property
    def fma(self) -> bool:
        """Does it have an instruction for a fused multiply-add?"""

    @property
    def seeds(self) -> bool:
        """Does it have a GPU's instructions that approximate 1 / x and 1 / sqrt x (kernels/llvm/seeds.py)?"""

    @property
    def counts(self) -> bool:
        """Does one instruction convert a vector of int64 to float64?"""

    @property
    def packs(self) -> bool:
        """Does one instruction move chosen lanes of 32 or 64 bits to the front of a vector of 512 bits?"""

    @property
    def permutes(self) -> bool:
        """Does one instruction read 8 float64 from a table of 16 in registers, each at a place of its own?"""

    @property
    def passes(self) -> bool:
        """Should prefetches of data that is read once bypass all caches but the first?"""

    @property
    def ahead(self) -> bool:
        """Do loops fetch the lines of later steps?"""

    @property
    def tiles(self) -> bool:
        """Does a grid kernel run one point of a launch (kernels/grid/threads.py)?  Otherwise it runs all
        points."""

    @property
    def library(self) -> bool:
        """Does it have the C library's functions?"""

    def math(self, code: Code, name: str, dtype: str, values: tuple[str, ...]) -> str:
        """Write a call of a transcendental function of float32 or float64 values."""

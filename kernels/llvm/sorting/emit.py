"""Emits the LLVM module of a routine that sorts, searches or counts."""

from __future__ import annotations

from collections.abc import Callable

from diffuse.kernels.llvm.code import Code, Module
from diffuse.kernels.llvm.sorting import cells, counting, dividing, merging, radix, search
from diffuse.kernels.targets.base import Target

ROUTINES: dict[str, Callable[[Code, str], None]] = {
    function.__name__: function for function in (
        radix.encode, radix.decode, radix.number, radix.count, radix.scatter, radix.scatter_numbered,
        radix.scatter_pairs, search.search_left, search.search_right, search.interpolate, cells.cells_left,
        cells.cells_right, cells.cells_counts, counting.between, counting.histogram,
        counting.histogram_weighted, counting.tally, counting.weigh, merging.merge, dividing.divide)
}
"""The function that writes each routine, for one element type."""


def emit(name: str, dtype: str, target: Target) -> str:
    """The module of a routine: `void k(ptr words)`."""
    module = Module(target)
    code = Code(module, 1)
    code.label("entry")
    ROUTINES[name](code, dtype)
    code.do("ret void")
    text = "\n".join(["define void @k(ptr %words) {", *code.lines, "}"])
    return "\n".join([*module.declarations, text]) + "\n"

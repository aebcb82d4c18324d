"""NVIDIA's GPUs as a target: their kernels become PTX.

Nothing is contracted or approximated: additions and multiplications are rounded one by one, divisions and
square roots as IEEE 754 says, subnormal numbers stay what they are.  There are no floating-point flags.
"""

from __future__ import annotations

from dataclasses import dataclass

from diffuse.kernels.llvm.code import Code
from diffuse.kernels.llvm.math import table
from diffuse.kernels.targets.base import OneLane

TRIPLE = "nvptx64-nvidia-cuda"
FEATURES = "+ptx81"
"""The first version of PTX in which a kernel's parameters may have 32,764 bytes."""
NEWEST = 90
"""The newest architecture that this version of PTX knows, sm_90; its PTX runs on all later ones."""
PARAMETERS = 32_764
"""The most bytes of a kernel's parameters."""


@dataclass(frozen=True)
class Nvptx(OneLane):
    """GPUs of one architecture and later ones."""

    architecture: str = "sm_80"
    tiles: bool = False
    fma: bool = True
    seeds: bool = True

    def math(self, code: Code, name: str, dtype: str, values: tuple[str, ...]) -> str:
        return table.call(code, name, dtype, values)

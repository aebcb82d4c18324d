"""Operands for quotients and other functions whose code has branches for rare numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

RARE = np.array([0.0, 1.0, 3.0, 708.0, 746.0, 2.0 ** 28, np.inf, np.nan, 5e-324, 1e-310, 2.0 ** -1022,
                 2.0 ** -969, 1e-290, 1e290, 2.0 ** 1017, 2.0 ** 1023, np.finfo(float).max])


def of_all_sizes(draw: np.random.Generator, many: int) -> tuple[Any, Any]:
    """Two arrays of equal length: all pairs of rare numbers, then so many numbers of random bits, which have
    all exponents, and a quarter as many near one."""
    rare = np.concatenate([RARE, -RARE])
    left, right = (grid.ravel() for grid in np.meshgrid(rare, rare))
    bits = [draw.integers(0, 1 << 64, many, np.uint64).view(float) for _ in range(2)]
    near = [np.ldexp(draw.random(many // 4) + 0.5, draw.integers(-20, 20, many // 4)) for _ in range(2)]
    return np.concatenate([left, bits[0], near[0]]), np.concatenate([right, bits[1], near[1]])

"""Powers to small constant exponents: operations of their own, `power3` or `power-0.5`.

The value of a scalar is data and belongs to no kernel: whoever records `x ** 3` decides that it is one of
these.
"""

from __future__ import annotations

EXPONENTS = {f"power{n}": float(n) for n in (-4, -3, -2, -1.5, -1, -0.5, 0.5, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8)}
"""Exponent of each operation."""

NAMES = {exponent: name for name, exponent in EXPONENTS.items()}

"""Into how many pieces a runtime of several ranks divides launches."""

from __future__ import annotations

import math
from typing import Any


def pieces(plans: Any) -> list[int]:
    """For each kind of launch of these plans, the pieces of its points: Legate's points, or the ranks of MPI
    that run some."""
    return [_count(prepared) for plan in plans for layout in plan.layouts.values()
            for prepared in layout.derived.values() if hasattr(prepared, "cut") or hasattr(prepared, "share")]


def _count(prepared: Any) -> int:
    if hasattr(prepared, "cut"):
        return math.prod(prepared.cut.spread)
    return sum(count > 0 for _, count in prepared.share.points) if prepared.share.divided else 1

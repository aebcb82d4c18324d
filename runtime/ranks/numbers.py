"""Numbers that matrices refer to: elements of rows, and the distinct columns of these elements."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

SPARSE = 16
"""Numbers are made distinct with a table of marks if their range is at most this many times their count, else
by sorting."""
RowNumbers = NDArray[np.int64]
"""Row numbers in ascending order."""


def reach(low: NDArray[Any], high: NDArray[Any], most: int) -> tuple[int, int]:
    """The range of elements, of which there are `most`, that the rows with these bounds have; (0, 0) if there
    are none."""
    if not low.size:
        return 0, 0
    first, last = max(int(low.min()), 0), min(int(high.max()), most)
    return (first, last) if first < last else (0, 0)


def distinct(columns: NDArray[Any]) -> RowNumbers:
    """The distinct values of an integer array, ascending."""
    if not columns.size:
        return np.zeros(0, np.int64)
    low, high = int(columns.min()), int(columns.max())
    if high - low > SPARSE * columns.size:
        return np.unique(columns).astype(np.int64)
    marks = np.zeros(high - low + 1, bool)
    marks[columns - low] = True
    return np.flatnonzero(marks) + low

"""Properties of NumPy's functions for gates, by name: which broadcast, write or return views, and what they
make."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

BROADCASTING = frozenset(("where", "clip"))
"""Functions, beside the ufuncs, that broadcast their arguments."""

SPREADING = frozenset(("outer", "meshgrid", "kron"))
"""Functions whose results may have as many elements as the product of all their arguments' sizes."""

STRICT = frozenset("choose select unique_all unique_counts unique_inverse unique_values".split())
"""Functions whose dispatcher refuses arguments that NumPy's own code takes, or refuses in other words."""

COPYING = frozenset(("meshgrid", "kron", "tile", "repeat", "indices"))
"""Functions that have NumPy's bits in results of any size, of which NumPy makes `FEW` elements faster."""
FEW = 1 << 18

REPEATING = frozenset(("tile", "repeat"))
"""Functions whose results have the elements of their first argument as many times as the second one says."""

WRITING = frozenset("copyto putmask put place fill_diagonal put_along_axis shuffle nan_to_num fill".split())
"""Functions and methods that write into arguments other than `out`."""

AIMED = frozenset("copyto putmask put place fill_diagonal fill".split())
"""Functions and methods that write into their first argument and into nothing else."""

VIEWING = frozenset("""transpose permute_dims matrix_transpose swapaxes moveaxis rollaxis squeeze expand_dims
    flip fliplr flipud rot90 diagonal split array_split hsplit vsplit dsplit unstack broadcast_to atleast_1d
    atleast_2d atleast_3d reshape ravel real imag shape ndim size asanyarray""".split())
"""Functions that need only the shape, strides and type of an array, of any size (ops/manipulation.py)."""

RUNNING = ("cumsum", "cumprod")
"""Functions that NumPy lets write past the end of an output that is too small."""

EXACT = frozenset("""concatenate stack vstack hstack dstack column_stack append roll pad triu tril diff clip
    array_equal array_equiv allclose copy astype flatten conj conjugate array ones full arange
    eye linspace gradient round""".split())
"""Functions and methods whose kernels have NumPy's bits, so that NumPy can compute them if the program waits
for each call (ops/single.py)."""


def extent(shape: Any) -> int:
    """The number of elements of an array of this shape; UNKNOWN if it is no integer or tuple of integers."""
    if type(shape) is int:
        return shape
    count = 1
    for n in shape if type(shape) is tuple else (UNKNOWN,):
        if type(n) is not int:
            return UNKNOWN
        count *= n
    return count


def steps(*numbers: Any) -> int:
    """An upper bound on the elements of `arange` of integers; UNKNOWN for other numbers."""
    for number in numbers:
        if type(number) is not int:
            return UNKNOWN
    return int(max(numbers[:2]) - min(0, *numbers[:2]))


def listed(value: Any, *_: Any) -> int:
    """Zero for a sequence or a number: NumPy converts these, however long."""
    return 0 if type(value) in (list, tuple, float, int) else UNKNOWN


UNKNOWN = 1 << 62
"""Stands for a number of elements that the arguments do not determine: more than any small array has."""

CREATING: dict[str, Callable[..., int]] = {
    "zeros": lambda shape, *_: extent(shape), "ones": lambda shape, *_: extent(shape),
    "empty": lambda shape, *_: extent(shape), "full": lambda shape, *_: extent(shape),
    "arange": lambda *numbers: steps(*numbers[:3]), "indices": lambda shape, *_: extent(shape),
    "eye": lambda n, m=None, *_: extent((n, n if m is None else m)),
    "linspace": lambda start, stop, num=50, *_: num if type(num) is int else UNKNOWN,
    "array": listed, "asarray": listed,
}
"""Functions that make arrays, with the number of elements as a function of arguments that are no arrays."""

COUNTED = frozenset(("zeros", "ones", "empty", "arange"))
"""Functions of `CREATING` whose only argument may be the number of elements."""

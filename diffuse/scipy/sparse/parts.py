"""Builds a csr array from arrays that are distributed over ranks, without gathering its structure on any
rank.

SciPy's constructor inspects positions and indices.  Here tasks do, and ranks learn only whether the structure
is sound.  Accessing the structure gathers it.
"""

from __future__ import annotations

from typing import Any

import numpy

from diffuse import library
from diffuse.numpy.arrays import access, core, far
from diffuse.scipy.sparse import checks
from diffuse.scipy.sparse.state import CLASSES, NUMBERS, Name, Sparse, put, stand_in, stored


def build(self: Sparse, real: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Build a csr array from distributed values, indices and positions.  Returns False if SciPy has to build
    it, which then also reports what is wrong."""
    if real._format != "csr" or len(args) > 2 or kwargs.keys() - {"shape"}:
        return False
    given: Any = args[0] if args else None
    shape: Any = kwargs.get("shape", args[1] if len(args) > 1 else None)
    if not _in_parts(given) or not _extents(shape) or library.current().runtime.ranks == 1:
        return False
    values, indices, positions = given
    rows, columns = map(int, shape)
    count = values.shape[0]
    if indices.shape != values.shape or positions.shape != (rows + 1,) or not count:
        return False
    wrong = (positions[1:] < positions[:-1]).any() | (indices.min() < 0) | (indices.max() >= columns)
    if bool(wrong | (positions[0] != 0) | (positions[-1] != count)):
        return False
    distributed(real, (rows, columns), {"data": values, "indices": indices, "indptr": positions}, self)
    return True


def distributed(real: Any, shape: tuple[int, int], found: dict[Name, Any], ours: Sparse) -> None:
    """Initialise a compressed array from distributed arrays whose structure is known to be sound."""
    held = real(shape, dtype=found["data"].dtype)
    # SciPy derives the index type from arrays without elements and the largest value
    names: tuple[Name, ...] = ("indices", "indptr")
    index = held._get_index_dtype(tuple([numpy.empty(0, found[name].dtype) for name in names]),
                                  maxval=max(*shape, found["data"].shape[0]), check_contents=True)
    for part in names:
        found[part] = found[part].astype(index, copy=False)
    for each, array in found.items():
        stored(held, each, stand_in(array))
    ours._become(held, found)
    put(ours, "_asked", True)  # the program knows the structure, and its types
    put(ours, "_checked", checks.stamp(ours))


def apart(a: Sparse) -> bool:
    """Is this a csr or csc array with a distributed structure?"""
    return a._held.format in ("csr", "csc") and far.here() and all(
        isinstance(part := a._parts.get(name), core.Array) and not access.ready(part)
        for name in ("indices", "indptr"))


def transposed(a: Sparse) -> Any:
    """The transpose of such an array, with the same arrays."""
    held = a._held
    real = held._csc_container if held.format == "csr" else held._csr_container
    kind: Any = CLASSES[real]
    found = kind.__new__(kind)
    distributed(real, held.shape[::-1], {name: a._part(name) for name in a._names}, found)
    put(found, "_kept", a._kept)
    return found


def _in_parts(given: Any) -> bool:
    """Are these Diffuse arrays of values, indices and positions, of which ranks may hold only parts?"""
    if type(given) is not tuple or len(given) != 3 or any(type(x) is not core.array_class for x in given):
        return False
    values, *structure = given
    return (all(x.ndim == 1 for x in given) and values.dtype.char in NUMBERS
            and all(x.dtype.char in "il" and not access.ready(x) for x in structure))


def _extents(shape: Any) -> bool:
    return (type(shape) is tuple and len(shape) == 2
            and all(isinstance(n, int | numpy.integer) and n > 0 for n in shape))

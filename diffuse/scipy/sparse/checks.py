"""Validates structure that comes from outside, before a kernel follows its indices.

SciPy's constructors do not check for indices out of range, and its products then read whatever lies there.
Here a matrix made of arrays is validated once, and again before the first product after its indices were
written.
"""

from __future__ import annotations

from typing import Any

from diffuse.scipy.sparse.state import Name, Sparse, Stamp, fetched, put, shell

STRUCTURE: dict[str, tuple[Name, ...]] = {"csr": ("indptr", "indices"), "csc": ("indptr", "indices"),
                                          "bsr": ("indptr", "indices"), "coo": (0, 1), "dia": ("offsets",)}


def integers(a: Sparse) -> bool:
    """Do positions and indices have types that kernels support?  SciPy converts or refuses others."""
    return all(fetched(a._held, name).dtype.char in "il" if name not in a._parts
               else a._parts[name].dtype.char in "il" for name in STRUCTURE[a._held.format])


def check(a: Sparse) -> None:
    """Raise ValueError, as SciPy's `check_format` does, unless positions and indices are sound."""
    now = stamp(a)
    if a._checked == now:
        return
    held = a._structured()
    if held.format == "coo":
        _check_coordinates(held)
    elif held.format == "bsr":
        shell(held).check_format(full_check=True)
    elif held.format != "dia":
        check_compressed(held)
    put(a, "_checked", now)


def stamp(a: Sparse) -> Stamp:
    """The stamp of the structure and the shape of the values, to detect that a check is out of date."""
    return (*a._stamp(*STRUCTURE[a._held.format]), a._part("data").shape)


def check_compressed(held: Any) -> None:
    """Raise ValueError unless the positions and indices of a SciPy object (csr or csc) are sound."""
    positions, indices, count = held.indptr, held.indices, len(held.data)
    major, minor = held._swap(held._shape_as_2d)
    if positions.shape != (major + 1,):
        raise ValueError(f"indptr has shape {positions.shape}; expected ({major + 1},): one position for "
                         f"each of {major} {_lines(held)}, and the end of the last one")
    if positions[0] != 0:
        raise ValueError(f"indptr begins with {positions[0]}; index pointer should start with 0")
    if bool((positions[1:] < positions[:-1]).any()):
        at = int((positions[1:] < positions[:-1]).argmax())
        raise ValueError(f"indptr falls from {positions[at]} to {positions[at + 1]} at {at + 1}; indptr must "
                         f"be a non-decreasing sequence")
    if indices.shape != (count,) or positions[-1] > count:
        raise ValueError(f"indptr ends with {positions[-1]}, for {len(indices)} indices and {count} values; "
                         f"indices and data should have the same size, and indptr end there")
    if indices.size:
        check_range("indices", indices[:positions[-1]], minor)


def _check_coordinates(held: Any) -> None:
    for name, indices, length in zip(("row", "column"), held.coords, held.shape, strict=False):
        if indices.shape != held.data.shape:
            raise ValueError(f"{len(indices)} {name} indices for {len(held.data)} values; row, column, "
                             f"and data array must all be the same length")
        if indices.size:
            check_range(f"{name} indices", indices, length)


def check_range(name: str, indices: Any, length: int) -> None:
    """Raise ValueError unless all values lie in [0, length)."""
    if not indices.size:
        return
    if (largest := int(indices.max())) >= length:
        raise ValueError(f"{name} must be < {length}, and one is {largest}: correct it, or give a "
                         f"larger shape")
    if (smallest := int(indices.min())) < 0:
        raise ValueError(f"{name} must be >= 0, and one is {smallest}: indices count from 0 and do not wrap")


def _lines(held: Any) -> str:
    return "rows" if held.format == "csr" else "columns"

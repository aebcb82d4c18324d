"""The flags of an array: as NumPy shows them, and set on the array's description."""

from __future__ import annotations

from typing import Any

import numpy

from diffuse.numpy.arrays.core import Array
from diffuse.numpy.arrays.forms import Mirror
from diffuse.numpy.arrays.lending import Lent, foreign, lock

_PLAIN = type(numpy.empty(0).flags)
_OWNS = 0x4
"""The bit of OWNDATA in the number that NumPy packs the flags into."""
_PRINTED = ("C_CONTIGUOUS", "F_CONTIGUOUS", "OWNDATA", "WRITEABLE", "ALIGNED", "WRITEBACKIFCOPY")
_LETTERS = {"W": "writeable", "A": "aligned", "X": "writebackifcopy"}


def _copied(meta: Mirror) -> Mirror:
    """Another description of the same array: a view of NumPy's determines anew whether it is aligned."""
    found = meta.view()
    if not meta.flags.aligned:
        found.flags.aligned = False
    return found


class Flags:
    """The counterpart of NumPy's flags object: a snapshot of the flags, some of which can be set."""

    __slots__ = ("_array", "_flags")
    __hash__: Any = None

    def __init__(self, array: Array) -> None:
        object.__setattr__(self, "_array", array)
        object.__setattr__(self, "_flags", array.meta.flags)

    def __getattr__(self, name: str) -> Any:
        if name == "owndata":
            x = self._array
            return x.owner is None and not (x.meta is x.memory and foreign(x.meta))
        if name == "num":
            return self._flags.num & ~_OWNS | (_OWNS if self.owndata else 0)
        return getattr(self._flags, name)

    def __getitem__(self, name: Any) -> Any:
        return self.owndata if name in ("OWNDATA", "O") else self._flags[name]

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a flag on a copy of the array's description, which other arrays may share."""
        x = self._array
        if name == "writeable":
            if value and x.owner is not None and not x.owner.meta.flags.writeable:
                raise ValueError("cannot set WRITEABLE flag to True of this array")
        elif name != "aligned":
            setattr(numpy.empty(0).flags, name, value)  # NumPy's error, or nothing to do
            return
        described_by_memory = x.meta is x.memory
        meta = x.meta if described_by_memory else _copied(x.meta)
        if name == "writeable" and described_by_memory and type(meta.base) is Lent:
            meta = x.memory = lock(meta, bool(value))
        else:
            setattr(meta.flags, name, bool(value))
        x.meta = meta
        if not described_by_memory and x.memory is not None:  # views find their place by it
            x.memory = _copied(x.memory)
            setattr(x.memory.flags, name, bool(value))

    def __setitem__(self, name: str, value: Any) -> None:
        setattr(self, _LETTERS.get(name, name.lower()), value)

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, (Flags, _PLAIN)) and self.num == other.num

    def __repr__(self) -> str:
        return "".join([f"  {name} : {self[name]}\n" for name in _PRINTED])

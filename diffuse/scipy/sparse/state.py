"""The state of a sparse array: a SciPy object, and Diffuse arrays in place of the arrays that it holds.

`held` is a genuine SciPy matrix over NumPy memory and knows shape, format and flags.  `parts` are Diffuse
arrays by SciPy's names for them (`data`, `indices`, `indptr`, `offsets`; coordinates by number), made on
demand.  An array among the parts is authoritative: the held object's array may be out of date, or stand for
elements that are not computed yet; `plain` updates it.

All this is kept in slots: an instance's dictionary belongs to the program, and `vars` also shows what a SciPy
object has there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy

from diffuse.numpy.arrays import access, base
from diffuse.numpy.arrays.core import Array
from diffuse.numpy.bridge.fallback import looking_into
from diffuse.numpy.ops.operands import wrap

CLASSES: dict[type, type] = {}
"""Our class for each of SciPy's, filled in by `classes`."""

SLOTS = ("_held", "_parts", "_kept", "_read", "_checked", "_narrow", "_asked",
         "_rows", "_light")
"""The state of an object, as slots of the most derived classes: elsewhere they would conflict with dict's."""

NUMBERS = frozenset("?bBhHiIlLqQfdFD")
"""Characters of the element types that both SciPy's sparse arrays and kernels support."""

put = object.__setattr__

Name = str | int
Stamp = tuple[Any, ...]


class Kept(NamedTuple):
    """A value derived from arrays, with their stamp at that time."""

    stamp: Stamp
    value: Any


class Open:
    """Gives instances a dictionary for the program's own attributes."""


class Sparse(Open):
    """The state of all formats; a mixin of the classes that also derive from SciPy's."""

    _names: tuple[Name, ...] = ()
    _held: Any
    _parts: dict[Name, Any]
    _kept: dict[str, Kept]
    """Data derived from the structure; shared between a matrix and its transpose."""
    _read: dict[Name, _Version]
    """The versions with which the arrays of the held object are up to date."""
    _checked: Stamp | None
    """The stamp of the structure, and the shape of the values, at the last check."""
    _narrow: tuple[Any, ...] | None
    """Positions and indices in 32 bits, shared with the held object, where the program expects 64 bits."""
    _rows: Any
    """The rows that the last product used."""
    _light: Any
    """The arrays of a small matrix, if SciPy computed its last product at once."""
    _asked: bool
    """Whether the program has accessed the structure, other than by a product."""

    def _become(self, held: Any, parts: dict[Name, Any] | None = None) -> None:
        """Initialise from a SciPy object."""
        put(self, "_held", held)
        put(self, "_parts", {} if parts is None else parts)
        put(self, "_read", {})
        put(self, "_narrow", None)
        put(self, "_asked", False)
        self._forget()

    def _forget(self) -> None:
        """Forget everything derived from the structure, which has changed."""
        put(self, "_kept", {})
        put(self, "_checked", None)
        self._remade()

    def _remade(self) -> None:
        """Forget the caches of products, because one of the arrays was replaced."""
        put(self, "_rows", None)
        put(self, "_light", None)

    def _part_names(self) -> tuple[Name, ...]:
        return self._names

    def _part(self, name: Name) -> Any:
        """The Diffuse array of this name; a NumPy array if its element type has no kernels."""
        found = self._parts.get(name)
        if found is None:
            if name != "data":
                self._widen()
            found = wrap(fetched(self._held, name))
            if isinstance(found, Array):
                self._share(name, found)
        return found

    def _share(self, name: Name, part: Any) -> None:
        """Record an array over the memory of the held object as up to date."""
        self._parts[name] = part
        self._read[name] = _version(part)

    def _shown(self, name: Name) -> Any:
        """The array of this name for the program, which may write to it: from now on writes are counted."""
        found = self._part(name)
        if isinstance(found, Array):
            access.storage_of(found)
        return found

    def _replace(self, name: Name, value: Any) -> None:
        """Replace an array by one that the program assigns."""
        self._remade()
        if isinstance(value, Array):
            self._parts[name] = value
            return
        self._widen()
        self._parts.pop(name, None)
        array = numpy.array(value) if isinstance(value, numpy.ndarray) else numpy.asarray(value)
        stored(self._held, name, array)

    def plain(self, reading: bool = False) -> Any:
        """The SciPy object, after waiting for everything that was recorded for its arrays.

        With `reading`: wait only for pending writes, not for pending reads.
        """
        self._widen()
        for name in self._parts:
            if not (reading and self._current(name)):
                self._update(name)
        return self._held

    to_scipy = plain

    def _widen(self) -> None:
        """Restore the 64-bit types of positions and indices, for good."""
        put(self, "_asked", True)
        if self._narrow is not None:
            put(self, "_narrow", None)
            self._remade()
            for name in ("indptr", "indices"):
                stored(self._held, name, fetched(self._held, name).astype(numpy.int64))

    def _structured(self, types: bool = True) -> Any:
        """The SciPy object, with placeholders for values that are being computed.

        Without `types` the caller does not depend on the width of indices.
        """
        if types:
            self._widen()
        for name, part in self._parts.items():
            if self._current(name):
                continue
            if name != "data" or access.ready(part):
                self._update(name)
            else:
                stored(self._held, name, stand_in(part))
                self._read.pop(name, None)
        return self._held

    def _current(self, name: Name) -> bool:
        """Is the held object's array up to date with everything that was recorded?"""
        part = self._parts[name]
        read = self._read.get(name)
        return read is not None and read == _version(part) and fetched(self._held, name) is part.memory

    def _update(self, name: Name) -> None:
        part = self._parts[name]
        memory = memory_of(part)
        if fetched(self._held, name) is not memory:
            stored(self._held, name, memory)
        self._read[name] = _version(part)

    def _changed(self, written: bool) -> None:
        """After SciPy worked on the held object: take over new arrays, and count writes to the old ones."""
        for name, part in list(self._parts.items()):
            memory, now = part.memory, _present(self._held, name)
            if now is None:
                del self._parts[name]
            elif now is not memory:
                if now.size and numpy.may_share_memory(now, memory):
                    self._share(name, looking_into(part, memory, now))
                else:
                    del self._parts[name]
            if written and part.storage is not None:
                part.storage.version += 1
                base.wrote(part)
                if name in self._parts:
                    self._read[name] = _version(self._parts[name])
        if written:
            self._forget()

    def _stamp(self, *names: Name) -> Stamp:
        """The versions of these arrays: equal stamps mean equal elements."""
        return tuple([_version(self._part(name)) for name in names])

    # -- attributes that SciPy's objects have of their own -------------------------------------------------

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        """A copy of the attributes of the SciPy object and of those that the program added; arrays are not
        copied."""
        held = getattr(self, "_held", None)
        if held is not None:
            self._widen()
        found: dict[str, Any] = {} if held is None else {**vars(held)}
        names = self._part_names() if found else ()
        found.update({name: self._shown(name) for name in names if isinstance(name, str)})
        if "coords" in found:
            found["coords"] = tuple([self._shown(name) for name in names if isinstance(name, int)])
        return {**found, **own(self)}

    def __getattr__(self, name: str) -> Any:
        held = None if name in SLOTS else getattr(self, "_held", None)
        if held is None or name.startswith("__"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name,
                                 obj=self)
        return getattr(held, name)

    def __setattr__(self, name: str, value: Any) -> None:
        held = getattr(self, "_held", None)
        if held is not None and name in vars(held) and not hasattr(type(self), name):
            setattr(held, name, value)
        else:
            super().__setattr__(name, value)

    @property
    def _shape(self) -> Any:
        return self._held._shape

    @_shape.setter
    def _shape(self, shape: Any) -> None:
        self._held._shape = shape
        self._forget()


own: Callable[[Any], dict[str, Any]] = vars(Open)["__dict__"].__get__
"""The attributes that the program gave an object."""


def fetched(held: Any, name: Name) -> Any:
    """The array of this name in a SciPy object."""
    return getattr(held, name) if isinstance(name, str) else held.coords[name]


def stored(held: Any, name: Name, array: Any) -> None:
    """Replace an array of a SciPy object."""
    if isinstance(name, str):
        setattr(held, name, array)
    else:
        held.coords = (*held.coords[:name], array, *held.coords[name + 1:])


def shell(held: Any) -> Any:
    """Another SciPy object with the same arrays and flags."""
    kind: Any = type(held)
    other = kind.__new__(kind)
    vars(other).update(vars(held))
    return other


def _present(held: Any, name: Name) -> Any:
    """The array of this name if the object still has one, else None."""
    if not isinstance(name, str) and name >= len(held.coords):
        return None
    return fetched(held, name)


def memory_of(part: Any) -> Any:
    """The memory of an array, which SciPy may write to."""
    shared = part.storage is not None and part.storage.shared
    return base.writable(part) if shared else base.owned(part)


def stand_in(part: Any) -> Any:
    """A placeholder of the same shape and type, whose elements must not be read."""
    return numpy.broadcast_to(numpy.zeros((), part.dtype), part.shape)


def _version(part: Any) -> Any:
    if not isinstance(part, Array):
        return object()
    storage = access.storage_of(part)
    if storage.exported and storage.shown():
        return object()  # other code may write at any time
    return _Version(part, storage.version)


class _Version:
    """An array and its version."""

    __slots__ = ("part", "version")

    def __init__(self, part: Any, version: int) -> None:
        self.part, self.version = part, version

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Version) and self.part is other.part and self.version == other.version


def made(held: Any, parts: dict[Name, Any] | None = None, kind: Any = None) -> Any:
    """A sparse array of ours over a SciPy object; of our class for SciPy's, or of the given one."""
    kind = CLASSES[type(held)] if kind is None else kind
    found = kind.__new__(kind)
    found._become(held, parts)
    return found

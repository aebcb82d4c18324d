"""What a sparse array is made of: a SciPy object, and Diffuse arrays in place of the arrays that it holds.

`held` is a genuine SciPy matrix over NumPy memory and knows shape, format and flags.  `parts` are Diffuse
arrays by the name that SciPy gives them (`data`, `indices`, `indptr`, `offsets`; of coordinates the number),
made when somebody asks.  An array that is among the parts is the truth, and what the held object has in its
place may be out of date, or stand for elements that are not computed yet; `plain` brings it up to date.

All this lives in slots: an instance's dictionary is the program's, and `vars` shows it with what a SciPy
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
"""Our class for each of SciPy's; `classes` fills it in."""

SLOTS = ("_held", "_parts", "_kept", "_read", "_checked", "_narrow", "_asked",
         "_rows", "_light")
"""The state of an object, as slots of the classes at the end of the line: others would clash with dict's."""

put = object.__setattr__

Name = str | int
Stamp = tuple[Any, ...]


class Kept(NamedTuple):
    """Something made of arrays, and what they were then."""

    stamp: Stamp
    value: Any


class Open:
    """Lets the program give objects attributes of its own."""


class Sparse(Open):
    """The state that all formats have; a mixin of the classes that also derive from SciPy's."""

    _names: tuple[Name, ...] = ()
    _held: Any
    _parts: dict[Name, Any]
    _kept: dict[str, Kept]
    """What was derived from the structure; shared between a matrix and its transpose."""
    _read: dict[Name, _Version]
    """What the arrays of the held object are up to date with."""
    _checked: Stamp | None
    """The stamp of the structure, and the shape of the values, when somebody last looked through it."""
    _narrow: tuple[Any, ...] | None
    """Positions and indices in 32 bits, which the held object has, too, where the program expects 64."""
    _rows: Any
    """What the last product went along."""
    _light: Any
    """The arrays of a small matrix, if SciPy computed its last product at once."""
    _asked: bool
    """Somebody has asked for the structure, by other means than a product."""

    def _become(self, held: Any, parts: dict[Name, Any] | None = None) -> None:
        """Be the matrix that a SciPy object describes."""
        put(self, "_held", held)
        put(self, "_parts", {} if parts is None else parts)
        put(self, "_read", {})
        put(self, "_narrow", None)
        put(self, "_asked", False)
        self._forget()

    def _forget(self) -> None:
        """The structure is another than before: what was derived from it is gone."""
        put(self, "_kept", {})
        put(self, "_checked", None)
        self._remade()

    def _remade(self) -> None:
        """Forget what products have found out, because one of the arrays was replaced."""
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
        """An array over the memory that the held object has, which is up to date."""
        self._parts[name] = part
        self._read[name] = _version(part)

    def _shown(self, name: Name) -> Any:
        """The array of this name for the program, which may write to it: writes are counted from now on."""
        found = self._part(name)
        if isinstance(found, Array):
            access.storage_of(found)
        return found

    def _replace(self, name: Name, value: Any) -> None:
        """The program assigns another array."""
        self._remade()
        if isinstance(value, Array):
            self._parts[name] = value
            return
        self._widen()
        self._parts.pop(name, None)
        array = numpy.array(value) if isinstance(value, numpy.ndarray) else numpy.asarray(value)
        stored(self._held, name, array)

    def plain(self, reading: bool = False) -> Any:
        """The SciPy object with everything that was recorded for its arrays done: waits.

        Only for `reading`: waits for those who write, not for those who read, too.
        """
        self._widen()
        for name in self._parts:
            if not (reading and self._current(name)):
                self._update(name)
        return self._held

    to_scipy = plain

    def _widen(self) -> None:
        """Have the types of positions and indices that SciPy's object has, from now on."""
        put(self, "_asked", True)
        if self._narrow is not None:
            put(self, "_narrow", None)
            self._remade()
            for name in ("indptr", "indices"):
                stored(self._held, name, fetched(self._held, name).astype(numpy.int64))

    def _structured(self, types: bool = True) -> Any:
        """The SciPy object without waiting for values: others stand in for those that are being computed.

        Not `types`: the caller does not care how many bits indices have.
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
        """Has the held object the elements that an array has after all that was recorded?"""
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
        """SciPy worked on the held object: take over the arrays that are new, and count writes to the old."""
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
        """What these arrays are now: equal stamps, equal elements."""
        return tuple([_version(self._part(name)) for name in names])

    # -- attributes that SciPy's objects have of their own -------------------------------------------------

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        """What a SciPy object has of its own and what the program added: a copy; the arrays are no copies."""
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
    """The array of this name of a SciPy object."""
    return getattr(held, name) if isinstance(name, str) else held.coords[name]


def stored(held: Any, name: Name, array: Any) -> None:
    """Give a SciPy object another array."""
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
    """The array of this name if the object has one still."""
    if not isinstance(name, str) and name >= len(held.coords):
        return None
    return fetched(held, name)


def memory_of(part: Any) -> Any:
    """The memory of an array, which SciPy may write to."""
    shared = part.storage is not None and part.storage.shared
    return base.writable(part) if shared else base.owned(part)


def stand_in(part: Any) -> Any:
    """An array of the same shape and type in which nobody may look for elements."""
    return numpy.broadcast_to(numpy.zeros((), part.dtype), part.shape)


def _version(part: Any) -> Any:
    if not isinstance(part, Array):
        return object()
    storage = access.storage_of(part)
    if storage.exported and storage.shown():
        return object()  # somebody else may write at any time
    return _Version(part, storage.version)


class _Version:
    """An array at one time."""

    __slots__ = ("part", "version")

    def __init__(self, part: Any, version: int) -> None:
        self.part, self.version = part, version

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Version) and self.part is other.part and self.version == other.version

    __hash__ = None  # type: ignore[assignment]


def made(held: Any, parts: dict[Name, Any] | None = None, kind: Any = None) -> Any:
    """A sparse array of ours over a SciPy object, of our class for SciPy's or of the one given."""
    kind = CLASSES[type(held)] if kind is None else kind
    found = kind.__new__(kind)
    found._become(held, parts)
    return found

"""Functions that Diffuse lacks, on arrays too large for one node: delegates calls of NumPy to cuPyNumeric.

NumPy would need all elements of the arguments on every rank. cuPyNumeric, where it is installed, computes on
parts, over the same stores of Legate's. Calls that it refuses go to NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy

from diffuse import library
from diffuse.numpy.arrays import access, core
from diffuse.numpy.arrays.access import host
from diffuse.numpy.arrays.core import Array, hosted
from diffuse.numpy.arrays.forms import NATIVE
from diffuse.numpy.bridge import exposed, legate
from diffuse.numpy.ops import elementwise
from diffuse.settings import config

REFUSALS = (NotImplementedError, TypeError)
"""Exceptions that cuPyNumeric raises for arguments that NumPy accepts."""
WRITERS = {f"numpy.{name}"
           for name in ("copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask")}
"""Functions that write to an argument, which may be a part that Legate cannot name."""
NAMED = {"eig": "EigResult", "eigh": "EighResult", "qr": "QRResult", "slogdet": "SlogdetResult",
         "svd": "SVDResult"}
"""Tuples of `numpy.linalg` whose fields have names."""


def call(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any] | None:
    """The result of NumPy's function `name`, computed by cuPyNumeric, in a tuple; None if NumPy should
    compute it."""
    if not name.startswith("numpy.") or name in WRITERS:
        return None
    if kwargs.get("out") is not None:
        return None
    arrays = [x for x in _flat((args, kwargs)) if isinstance(x, Array)]
    if sum(x.form.size * x.form.itemsize for x in arrays) <= most():
        return None
    function = find(name)
    if function is None:
        return None
    loan = Loan()
    try:
        found = function(*loan.lowered(args), **loan.lowered(kwargs))
        result = (loan.raised(found, name),)
    except REFUSALS:
        result = None
    finally:
        loan.end()
    return result


def most() -> int:
    """The most bytes of arguments that each rank may hold by itself."""
    return library.current().sharing.room // 2 if config.gather is None else int(config.gather)


@cache
def find(name: str) -> Callable[..., Any] | None:
    """cuPyNumeric's function, if it is installed and implements that itself."""
    if find_spec("cupynumeric") is None:
        return None
    found: Any = import_module("cupynumeric")
    for part in name.split(".")[1:]:
        found = getattr(found, part, None)
    made = getattr(found, "_cupynumeric_metadata", None)
    return found if made is not None and made.implemented else None


class Exhibit:
    """An object that cuPyNumeric accepts as an array of another library."""

    def __init__(self, interface: dict[str, Any]) -> None:
        self.__legate_data_interface__ = interface


class Loan:
    """Arrays that are lent to cuPyNumeric for the length of a call."""

    def __init__(self) -> None:
        self._lent: list[Any] = []

    def lowered(self, value: Any) -> Any:
        """Replace Diffuse's arrays in `value` by cuPyNumeric's."""
        if isinstance(value, Array):
            return self._array(value)
        if type(value) in (list, tuple):
            return type(value)([self.lowered(v) for v in value])
        if type(value) is dict:
            return {k: self.lowered(v) for k, v in value.items()}
        return value

    def _array(self, x: Any) -> Any:
        if type(x) is not core.array_class or not x.form.size:
            return host(x) if x.form.ndim or not x.form.size else host(x)[()]
        storage = access.storage_of(x)
        store = None
        if not storage.shown():
            before = storage.shared
            store = legate.share(x)
            if store is not None and not before:
                self._lent.append(x)
        if store is None:
            x = elementwise.duplicate(x)
            store = legate.share(x)
            self._lent.append(x)
        return import_module("cupynumeric").asarray(Exhibit(legate.described(store)))

    def raised(self, value: Any, name: str) -> Any:
        """Convert a result for the program: cuPyNumeric's arrays in it become Diffuse's."""
        if type(value) in (list, tuple):
            items = [self.raised(v, name) for v in value]
            kind = NAMED.get(name.removeprefix("numpy.linalg."))
            if kind is not None and type(value) is tuple:
                return getattr(import_module("numpy.linalg._linalg"), kind)(*items)
            return type(value)(items)
        if not exposed.shares(value):
            return value
        if value.size < max(core.SMALL, 1) or value.dtype not in NATIVE:
            found = numpy.array(value)
            return found if found.dtype not in NATIVE else hosted(found) if found.ndim else found[()]
        found = exposed.adopt(value)
        meeting = [x for x in self._lent if elementwise.meets(x.storage, found.storage)]
        if meeting:  # part of an argument: it and the argument stay in program order
            self._lent = [x for x in self._lent if not any(x is y for y in meeting)]
        else:
            legate.unshare(found)
        return found

    def end(self) -> None:
        """End the loans, after which only Diffuse holds the arrays."""
        for x in self._lent:
            legate.unshare(x)
        self._lent.clear()


def _flat(value: Any) -> list[Any]:
    if type(value) in (list, tuple):
        return [x for v in value for x in _flat(v)]
    if type(value) is dict:
        return [x for v in value.values() for x in _flat(v)]
    return [value]

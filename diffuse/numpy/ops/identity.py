"""The identity of a ufunc: its name, documentation and attributes are those of NumPy's ufunc."""

from __future__ import annotations

from typing import Any

import numpy

from diffuse.numpy.arrays import base


def _documentation(self: Any) -> Any:
    return self.numpy.__doc__


def _document(self: Any, text: Any) -> None:
    self.numpy.__doc__ = text


def _forget(self: Any) -> None:
    del self.numpy.__doc__


DOCUMENTATION: Any = property(_documentation, _document, _forget)
"""The attribute `__doc__` of ufuncs: NumPy's lets a program set and delete it."""


class Identity:
    """The attributes of a ufunc that describe it, taken from NumPy's ufunc; equal and hashed as that one."""

    numpy: Any
    """NumPy's ufunc."""
    __name__: str
    __class__: Any = numpy.ufunc
    """For `isinstance(np.add, np.ufunc)`, which programs use."""

    def __init_subclass__(cls) -> None:
        """Let instances define their documentation, instead of the docstring of the class."""
        cls.__doc__ = DOCUMENTATION

    def __repr__(self) -> str:
        return f"<ufunc '{self.__name__}'>"

    def __getattr__(self, name: str) -> Any:
        """Other attributes of NumPy's ufunc: signatures, and the interface to its loops."""
        if name == "numpy":
            raise AttributeError(name)
        return getattr(self.numpy, name)

    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        """The attributes that a program can change, which are those of NumPy's ufunc."""
        return self.numpy.__dict__

    def __eq__(self, other: Any) -> Any:
        """Equal NumPy's ufunc, so that libraries find this one in tables of ufuncs."""
        return self.numpy is (other.numpy if isinstance(other, Identity) else other)

    def __hash__(self) -> int:
        return hash(self.numpy)

    def __reduce__(self) -> tuple[Any, ...]:
        return find, (self.__name__,)


def find(name: str) -> Any:
    """The ufunc with this name."""
    return base.UFUNCS[name]

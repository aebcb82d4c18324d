"""The identity of a ufunc: its name, documentation, attributes and errors are those of NumPy's ufunc."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy

from diffuse.numpy.arrays import base
from diffuse.numpy.small import native


def _documentation(self: Any) -> Any:
    return self.numpy.__doc__


def _document(self: Any, text: Any) -> None:
    self.numpy.__doc__ = text


def _forget(self: Any) -> None:
    del self.numpy.__doc__


DOCUMENTATION: Any = property(_documentation, _document, _forget)
"""The attribute `__doc__` of ufuncs: NumPy's lets a program set and delete it."""


def _with_numpys_errors(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a method of ufuncs: NumPy raises the error for arguments that the method's signature refuses.  The
    extension's gates do so by themselves."""
    @wraps(method)
    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:  # the method ran
                raise
        return getattr(numpy.ufunc, method.__name__)(self.numpy, *args, **kwargs)

    return called


class Identity:
    """The attributes of a ufunc that describe it, taken from NumPy's ufunc; equal and hashed as that one."""

    numpy: Any
    """NumPy's ufunc."""
    __name__: str
    __class__: Any = numpy.ufunc
    """For `isinstance(np.add, np.ufunc)`, which programs use."""

    def __init_subclass__(cls) -> None:
        """Let instances define their documentation, instead of the docstring of the class, and methods have
        NumPy's errors."""
        cls.__doc__ = DOCUMENTATION
        for name in ("reduce", "accumulate", "reduceat", "at") if native is None else ():
            if name in vars(cls):
                setattr(cls, name, _with_numpys_errors(vars(cls)[name]))

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

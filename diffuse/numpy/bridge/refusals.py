"""NumPy's words for arguments that do not fit a function (too many, too few, or of unknown names) and for
attributes that cannot be assigned.

Python says of ours what it says of any function, and NumPy's inner functions have names of their own.  So
such a call is made once more by NumPy's public function, which raises its exception.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import wraps
from types import FunctionType
from typing import Any

import numpy

from diffuse import library
from diffuse.numpy.bridge import fallback

SAID = re.compile(r"""\(\)\ (takes|missing|got\ (an\ unexpected|multiple|some\ positional))
    |an\ invalid\ keyword\ argument\ for\ |\ given\ by\ name\ \(
    |^\ ?expected\ \d\ arguments?,\ got\ \d""", re.VERBOSE)
"""What Python, and NumPy's functions in C, say of arguments that do not fit."""
PACKAGE = os.path.dirname(library.__file__) + os.sep


def refused(gate: Any, plain: Any, error: TypeError, given: tuple[Any, ...], names: tuple[str, ...] = ()
            ) -> tuple[Any] | None:
    """Raise NumPy's exception where `error` says that the function of a gate does not take such arguments;
    return NumPy's result in a tuple if its function takes them, and None for errors of other kinds.

    The last of the arguments `given` have `names`.  `plain` is NumPy's function, as far as the gate has no
    `__wrapped__`, which is the public one.
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if (SAID.search(str(error)) is None
            or trace is not None and not trace.tb_frame.f_code.co_filename.startswith(PACKAGE)):
        return None
    count, numpys = len(given) - len(names), getattr(gate, "__wrapped__", plain)
    args, kwargs = given[:count], dict(zip(names, given[count:], strict=True))
    owner = getattr(numpys, "__self__", None)
    if isinstance(owner, numpy.ufunc):  # NumPy names the class where a program calls a method of it
        args, numpys = (owner, *args), getattr(numpy.ufunc, numpys.__name__)
    return (fallback.call(numpys, args, kwargs, silent="inspection"),)


def answered(numpys: Any, error: TypeError, given: tuple[Any, ...], names: tuple[str, ...]) -> Any:
    """Return what NumPy's function returns, or raise its exception, where ours does not take such arguments;
    raise an `error` of another kind again.  The last of the arguments `given` have `names`."""
    found = refused(None, numpys, error, given, names)
    if found is None:
        raise error
    return found[0]


def worded(ours: Callable[..., Any]) -> Any:
    """Make a method of arrays raise NumPy's exception for arguments that do not fit."""
    @wraps(ours)
    def method(*args: Any, **kwargs: Any) -> Any:
        try:
            return ours(*args, **kwargs)
        except TypeError as error:
            numpys = getattr(numpy.ndarray, ours.__name__)
            return answered(numpys, error, (*args, *kwargs.values()), tuple(kwargs))

    return method


def documented(kind: type) -> None:
    """Give a class and its methods NumPy's documentation and signatures, and read-only attributes NumPy's
    error on assignment."""
    kind.__doc__ = numpy.ndarray.__doc__
    for part in kind.__mro__:
        for name, method in [*vars(part).items()]:
            theirs = getattr(numpy.ndarray, name, None)
            if isinstance(method, property) and theirs is not None:
                refused = None if method.fset else refusal(name)
                setattr(part, name, property(method.fget, method.fset or refused, method.fdel or refused,
                                             theirs.__doc__))
            if isinstance(method, FunctionType) and callable(theirs):
                vars(method)["__wrapped__"] = theirs
                method.__doc__ = method.__doc__ or theirs.__doc__


def refusal(name: str) -> Callable[..., None]:
    """The setter and deleter of a read-only attribute, which raises NumPy's error."""
    def refuse(self: Any, value: Any = None) -> None:
        raise AttributeError(f"attribute {name!r} of 'numpy.ndarray' objects is not writable")

    return refuse

"""Functions that NumPy writes in Python, run over Diffuse's arrays: their code is NumPy's, read from the
installed version, and what it calls is Diffuse's, and so recorded."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

import numpy


def over_ours(real: Callable[..., Any]) -> Callable[..., Any]:
    """A function of NumPy's with Diffuse's functions in the place of those that it calls."""
    theirs: Any = getattr(real, "__wrapped__", real)
    ours = importlib.import_module("diffuse.numpy")
    names = dict(theirs.__globals__)
    for name, value in theirs.__globals__.items():
        if isinstance(value, ModuleType) and value.__name__ in ("numpy", "numpy._core.numeric"):
            names[name] = ours
        elif value is numpy.ndarray or (callable(value) and not isinstance(value, type)
                                        and vars(numpy).get(name) is value):
            names[name] = getattr(ours, name)
    found = FunctionType(theirs.__code__, names, theirs.__name__, theirs.__defaults__, theirs.__closure__)
    found.__kwdefaults__ = theirs.__kwdefaults__
    return found

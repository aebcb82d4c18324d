"""NumPy's functions ask a foreign array whether it answers them itself, and so do ours, all of them."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import numpy
from numpy.testing.overrides import get_overridable_numpy_array_functions

import diffuse.numpy as np
from diffuse import settings
from tests.each import for_each

CREATION = {"ones", "full", "eye", "identity", "tri", "fromfunction", "genfromtxt", "loadtxt", "require"}
"""Functions that ask what `like` is given alone; positional arguments of ours are extents."""


class Foreign:
    """An array of another library, which tells how many arguments its functions are given."""

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        return "asked", len(args), sorted(options)

    def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **options: Any) -> Any:
        return "a ufunc"

    def __array__(self, *args: Any, **options: Any) -> Any:
        raise TypeError("nobody may convert it")


def functions() -> list[tuple[str, Any]]:
    """The functions that can be overridden, with the names of their modules."""
    found = []
    for function in get_overridable_numpy_array_functions():
        module = function.__module__
        if module in ("numpy", "numpy.linalg", "numpy.fft") and function.__name__ not in CREATION:
            found.append((f"{module}.{function.__name__}", function))
    return sorted(found)


@for_each("name, theirs", functions())
def test_a_foreign_array_is_asked(name: str, theirs: Any) -> None:
    module, _, attribute = name.rpartition(".")
    ours = getattr(importlib.import_module(f"diffuse.{module}"), attribute)
    try:
        parameters = inspect.signature(theirs).parameters.values()
    except ValueError:
        count = 1
    else:
        count = max(1, sum(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
                           for p in parameters))
    for first, *rest in ([Foreign()] * count, [Foreign(), *[0] * (count - 1)]):
        try:
            expected = theirs(first, *rest)
        except Exception:  # whatever NumPy says of arguments that make no sense
            continue
        if isinstance(expected, tuple) and expected[0] == "asked":
            with settings.using(small=0):
                assert ours(first, *rest) == expected


def test_a_foreign_array_that_is_written_from_is_asked() -> None:
    for name in ("copyto", "put", "putmask", "place", "fill_diagonal"):
        function = getattr(np, name)
        count = {"copyto": 0, "fill_diagonal": 0}.get(name, 1)
        assert function(Foreign(), *[0] * count, Foreign())[0] == "asked", name
    assert np.cross(np.ones(3), Foreign())[0] == "asked"
    assert np.linalg.outer(np.ones(3), Foreign())[0] == "asked"
    assert numpy.cross(numpy.ones(3), Foreign())[0] == "asked"

"""Arrays that count the operations of a program that is written for NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np


class Counting(np.ndarray):
    """An array that counts the operations done on it and on everything computed from it."""

    __array_priority__ = 100.0      # above that of SciPy's sparse arrays
    done = 0

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        Counting.done += 1
        if out is not None:
            options["out"] = tuple(np.asarray(x) for x in out)
        result = getattr(ufunc, method)(*(plain(x) for x in inputs), **options)
        return out[0] if out is not None else np.asarray(result).view(Counting)

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        Counting.done += 1
        return np.asarray(function(*map(plain, args), **options)).view(Counting)

    def __setitem__(self, key: Any, value: Any) -> None:
        Counting.done += 1
        np.asarray(self)[key] = plain(value)

    def copy(self, order: Any = "C") -> Any:
        Counting.done += 1
        return np.array(np.asarray(self), order=order).view(Counting)


def plain(value: Any) -> Any:
    """The NumPy array of a counting one; anything else unchanged."""
    return np.asarray(value) if isinstance(value, Counting) else value

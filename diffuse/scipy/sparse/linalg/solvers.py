"""SciPy's iterative solvers over Diffuse's arrays, running SciPy's code (see `sources`)."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy

import diffuse.numpy as np
from diffuse.numpy.bridge import fallback
from diffuse.scipy.sparse.linalg import conversion
from diffuse.scipy.sparse.linalg.operators import Identity, Observed, operand
from diffuse.scipy.sparse.linalg.sources import load
from diffuse.scipy.sparse.linalg.watch import Watch, current
from diffuse.settings import config

make_system = load("_isolve.utils").make_system


def solver(module: str, name: str) -> Callable[..., Any]:
    """SciPy's solver `name`, which raises an error where its iterates would be NaN."""
    real = getattr(load(module), name)
    signature = inspect.signature(real)

    def run(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        _vectors(given)
        x0 = given.get("x0")
        watch = Watch(name, b=given["b"], x0=None if isinstance(x0, str) else x0)
        given["A"] = Observed(watch, "A", given["A"])
        if given.get("M") is not None:
            given["M"] = Observed(watch, "M", given["M"])
        elif "M" in signature.parameters and not hasattr(given["A"], "psolve"):
            given["M"] = Identity(given["A"].dtype, given["A"].shape)
        if name == "gmres" and given.get("maxiter") == 0:  # SciPy's raises an error
            return make_system(given["A"], given.get("M"), x0, given["b"])[2], 0
        found = _watched(watch, real, given)
        if found[1] > 0 and bool(np.isnan(found[0]).any()):
            raise watch.failure or watch.error("the last iteration")
        return found

    return fallback.dressed(run, real, f"diffuse.{conversion.NAME}")


def recorder(module: str, name: str) -> Callable[..., Any]:
    """SciPy's solver `name`, recorded for large systems and run by SciPy for small ones."""
    real = getattr(load(module), name)
    signature = inspect.signature(real)

    def run(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        if max(getattr(given["A"], "shape", ()), default=0) < config.small:
            return conversion.scipys(name, *args, **kwargs)
        _vectors(given)
        if name == "tfqmr" and getattr(given["A"], "dtype", None) == numpy.int64:
            given["A"] = given["A"].astype(float)  # it does so itself, with a matrix
        for key in ("A", "M", "M1", "M2"):
            if given.get(key) is not None and not hasattr(given[key], "psolve"):
                given[key] = operand(given[key])
        return _watched(None, real, given)

    return fallback.dressed(run, real, f"diffuse.{conversion.NAME}")


def _vectors(given: dict[str, Any]) -> None:
    """Convert the vectors among a solver's arguments to arrays."""
    for name in ("b", "x0"):
        if name in given and given[name] is not None and not isinstance(given[name], str):
            given[name] = conversion.vector(given[name])


def _watched(watch: Watch | None, real: Callable[..., Any], given: dict[str, Any]) -> Any:
    token = current.set(watch)
    try:
        return real(**given)
    finally:
        current.reset(token)

"""Every operation that NumPy's functions record can be described, and the description survives execution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse import library
from diffuse.ir import IndexTask
from diffuse.spec import discover, mismatches, of_task
from diffuse.spec.opspec import OpSpec
from tests.around import around, fenced
from tests.operators import labels

SHAPE = (7, 9)
UFUNCS = sorted(name for name in dir(numpy) if isinstance(getattr(numpy, name), numpy.ufunc)
                and not getattr(numpy, name).signature and getattr(numpy, name).nin <= 2
                and getattr(numpy, name).nout == 1)
CALLS: dict[str, tuple[Callable[[Any], Callable[..., Any]], int]] = {
    "where": (lambda m: lambda x, y: m.where(x > 0, x, y), 2),
    "clip": (lambda m: lambda x: m.clip(x, -0.5, 0.5), 1),
    "sum of columns": (lambda m: lambda x: x.sum(0), 1),
    "sum of rows": (lambda m: lambda x: x.sum(1), 1),
    "max": (lambda m: lambda x: x.max(1), 1),
    "min": (lambda m: lambda x: x.min(0), 1),
    "prod": (lambda m: lambda x: x.prod(0), 1),
    "cumsum": (lambda m: lambda x: m.cumsum(x, 1), 1),
    "cumprod": (lambda m: lambda x: m.cumprod(x, 0), 1),
    "argmax": (lambda m: lambda x: m.argmax(x, 1), 1),
    "any": (lambda m: lambda x: m.any(x, 0), 1),
}


recorded = around(fenced, compile="off", small=0)


def operands(count: int, types: str, seed: int) -> list[Any]:
    rng = numpy.random.default_rng(seed)
    return [numpy.asarray(rng.standard_normal(SHAPE) if types == "d" else rng.integers(1, 9, SHAPE),
                          "float64" if types == "d" else "int64") for _ in range(count)]


def tasks(function: Callable[..., Any], given: list[Any]) -> list[IndexTask]:
    """What a function of our arrays records, before anything runs."""
    ours = [np.array(each) for each in given]
    library.fence()
    result = function(*ours)
    found = list(library.current().window.open.tasks)
    del result
    return found


def described(function: Callable[..., Any], given: list[Any]) -> OpSpec | None:
    """The description of the one task that a function records; None if it records none, or several."""
    found = tasks(function, given)
    return of_task(found[0]) if len(found) == 1 else None


def test_ufuncs_and_their_descriptions() -> None:
    unknown = []
    for name in UFUNCS:
        theirs = getattr(numpy, name)
        with numpy.errstate(all="ignore"):
            for types in "dl":
                given = operands(theirs.nin, types, 1)
                try:
                    theirs(*given)
                except TypeError:
                    continue
                spec = described(getattr(np, name), given)
                if spec is None:
                    unknown.append((name, types))
                    continue
                for seed in (1, 2):
                    assert mismatches(spec, theirs, operands(theirs.nin, types, seed)) == [], (name, types)
    assert unknown == [("pow", "l"), ("power", "l")]  # at once: whether it raises depends on the values


@pytest.mark.parametrize("name", CALLS)
def test_calls_and_their_descriptions(name: str) -> None:
    make, count = CALLS[name]
    given = operands(count, "d", 1)
    found = tasks(make(np), given)
    if name == "where":  # the comparison is a task of its own
        assert [task.operation for task in found] == ["greater", "where"]
        return
    (task,) = found
    spec = of_task(task)
    for seed in (1, 2):
        assert mismatches(spec, make(numpy), operands(count, "d", seed)) == []
    assert labels(discover(make(numpy), *given).spec) == labels(spec)

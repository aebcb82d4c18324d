"""The same function by NumPy and by Diffuse, in turn in one process, which disturbs both alike."""

from __future__ import annotations

import importlib.util
import statistics
import time
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from case import ROOT

Measures = dict[str, Any]


def module(name: str, library: Any) -> ModuleType:
    """A file of bench/ anew, with this library in the place of NumPy."""
    path = ROOT / "bench" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"{name} by {library.__name__}", path)
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    setattr(found, "np", library)
    return found


def measured(theirs: Callable[[], Sequence[Any]], ours: Callable[[], Sequence[Any]], options: Measures
             ) -> Measures:
    """Medians of seconds of both, warm; the ratio; operations that Diffuse recorded and tasks that it ran in
    a call; the largest relative difference of their results."""
    from diffuse.kernels.build.compiler import compiler
    from diffuse.observe import trace
    from diffuse.stream import engine

    difference = differences(theirs(), ours())
    once = seconds(theirs, lambda: None)
    for _ in range(max(3, min(40, int(options["warm"] / once)))):
        seconds(ours, engine.fence)
    compiler.wait()
    seconds(ours, engine.fence)
    before = trace.snapshot()
    seconds(ours, engine.fence)
    after = trace.snapshot()
    rounds = max(options["rounds"], min(200, int(options["seconds"] / once)))
    samples = [(seconds(theirs, lambda: None), seconds(ours, engine.fence)) for _ in range(rounds)]
    numpy_median, median = (statistics.median(side) for side in zip(*samples, strict=True))
    return {"numpy": numpy_median, "diffuse": median, "ratio": numpy_median / median,
            "difference": difference,
            **{name: after.get(name, 0) - before.get(name, 0) for name in ("recorded", "launched")}}


def seconds(call: Callable[[], Any], wait: Callable[[], None]) -> float:
    """Wall-clock seconds of a call and all its work."""
    start = time.perf_counter()
    results = call()
    wait()
    found = time.perf_counter() - start
    del results
    return found


def differences(theirs: Sequence[Any], ours: Sequence[Any]) -> float:
    """The largest difference of two lists of arrays, relative to the largest element of each."""
    import numpy

    return max(float(numpy.max(numpy.abs(numpy.asarray(y) - x)) / numpy.max(numpy.abs(x)))
               for x, y in zip(theirs, ours, strict=True))

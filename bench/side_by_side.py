"""The same function by NumPy and by Diffuse, in processes of their own that take turns, sample by sample.

Not in one process: Diffuse sets how the C library keeps freed memory, which makes NumPy faster, too.
"""

from __future__ import annotations

import importlib.util
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import child
import harness
import machine
from case import ROOT
from child import Child

Measures = dict[str, Any]
SECONDS = 1.5
"""About how many seconds all of NumPy's samples of a program take together."""
MOST = 200
"""The most samples that are taken of one program."""


def module(name: str, library: Any) -> ModuleType:
    """A file of bench/ with this library in the place of NumPy."""
    path = ROOT / "bench" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"{name} by {library.__name__}", path)
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    setattr(found, "np", library)
    return found


class Side(Child):
    """The process of one library."""

    def __init__(self, script: str, library: str, options: Measures, environment: dict[str, str]) -> None:
        super().__init__([sys.executable, script, "--side", library, json.dumps(options)], environment)
        self.library = library

    def ask(self, **command: Any) -> Measures:
        found = super().ask(**command)
        if "failed" in found:
            raise SystemExit(f"{self.library}: {found['failed']}")
        return found


def serve(start: Callable[[Any, Measures], Callable[[], Sequence[Any]]]) -> bool:
    """In the child: answer the parent's commands, and say that this was a child.  `start(library, options)`
    gives the function that is called."""
    if sys.argv[1:2] != ["--side"]:
        return False
    answers = child.answers()
    sys.path.append(str(ROOT))
    _, _, name, options = sys.argv
    call = start(importlib.import_module(name), json.loads(options))

    def answer(command: Measures) -> Measures:
        if "save" in command:
            return save(call, command["save"])
        if "warm" in command:
            return warm(call, command["warm"])
        return sample(call, command["sample"], name)

    child.serve(answer, answers)
    return True


def save(call: Callable[[], Sequence[Any]], folder: str) -> Measures:
    """Keep the results of a call in a folder."""
    import numpy

    for number, result in enumerate(call()):
        numpy.save(Path(folder) / f"{number}.npy", numpy.asarray(result))
    return {}


def sample(call: Callable[[], Sequence[Any]], times: int, name: str) -> Measures:
    """The median of the seconds that so many calls take, each until all its work is done; for Diffuse also
    the operations that a call records, and the tasks that it launches."""
    if name == "numpy":
        seconds = [timed(call, lambda: None) for _ in range(times)]
        return {"seconds": statistics.median(seconds)}
    from diffuse.observe import trace
    from diffuse.stream import engine

    before = trace.snapshot()
    seconds = [timed(call, engine.fence) for _ in range(times)]
    counters = trace.snapshot()
    counted = {key: counters.get(key, 0) - before.get(key, 0) for key in ("recorded", "launched")}
    return {"seconds": statistics.median(seconds), **{key: n / times for key, n in counted.items()}}


def timed(call: Callable[[], Sequence[Any]], wait: Callable[[], None]) -> float:
    """The wall-clock seconds of a call and of waiting for its work, without freeing the results."""
    start = time.perf_counter()
    results = call()
    wait()
    found = time.perf_counter() - start
    del results
    return found


def warm(call: Callable[[], Sequence[Any]], times: int) -> Measures:
    """Call Diffuse until its kernels are compiled and decisions that depend on earlier calls are taken."""
    from diffuse.kernels.build.compiler import compiler
    from diffuse.stream import engine

    for _ in range(2):
        for _ in range(times):
            timed(call, engine.fence)
        compiler.wait()
    return {}


def measured(script: str, options: Measures, threads: int, calls: int, rounds: int) -> Measures:
    """Compare NumPy and Diffuse on the calls that `script` serves, after two warm-up runs of `calls` calls.

    Gives the median seconds of both, their ratio, what Diffuse counted, and the largest relative difference
    of the results.
    """
    with child.scratch() as scratch:
        environment = machine.environment(threads, scratch + "/cache")
        sides = {name: Side(script, library, options, environment)
                 for name, library in (("numpy", "numpy"), ("diffuse", "diffuse.numpy"))}
        for name, side in sides.items():
            folder = Path(scratch) / name
            folder.mkdir()
            side.ask(save=str(folder))
        difference = harness.difference(Path(scratch) / "diffuse", Path(scratch) / "numpy")["scaled"]
        once = sides["numpy"].ask(sample=3)["seconds"]
        sides["diffuse"].ask(warm=calls)
        samples = [[side.ask(sample=3 if once < 0.1 else 1) for side in sides.values()]
                   for _ in range(max(rounds, min(MOST, int(SECONDS / once / 3))) if calls > 1 else rounds)]
        for side in sides.values():
            side.close()
    theirs, ours = (statistics.median(one["seconds"] for one in found)
                    for found in zip(*samples, strict=True))
    counted = samples[-1][1]
    return {"numpy": theirs, "diffuse": ours, "ratio": theirs / ours, "difference": difference,
            "recorded": counted["recorded"], "launched": counted["launched"]}

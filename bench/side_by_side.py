"""The same function by NumPy and by Diffuse, in processes of their own that take turns, sample by sample.

Not in one process: Diffuse sets how the C library keeps freed memory, which makes NumPy faster, too.
"""

from __future__ import annotations

import importlib.util
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import harness
import machine
from case import ROOT

Measures = dict[str, Any]
SECONDS = 1.5
"""Of NumPy's samples together, about."""
MOST = 200
"""Samples, at most."""


def module(name: str, library: Any) -> ModuleType:
    """A file of bench/ with this library in the place of NumPy."""
    path = ROOT / "bench" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"{name} by {library.__name__}", path)
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    setattr(found, "np", library)
    return found


class Side:
    """The parent's end of one library's process."""

    def __init__(self, script: str, library: str, options: Measures, environment: dict[str, str]) -> None:
        command = [sys.executable, script, "--side", library, json.dumps(options)]
        self.library = library
        self.process = subprocess.Popen(command, env=environment, text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)

    def ask(self, command: str) -> Any:
        assert self.process.stdin is not None and self.process.stdout is not None
        print(command, file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.library}: failed at {command!r}")
        return json.loads(line)

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def serve(start: Callable[[Any, Measures], Callable[[], Sequence[Any]]]) -> bool:
    """In the child: answer the parent's commands, and say that this was a child.  `start(library, options)`
    gives the function that is called."""
    if sys.argv[1:2] != ["--side"]:
        return False
    sys.path.append(str(ROOT))
    _, _, name, options = sys.argv
    library = importlib.import_module(name)
    call = start(library, json.loads(options))
    for line in sys.stdin:
        command, _, word = line.strip().partition(" ")
        print(json.dumps(COMMANDS[command](call, word, name)), flush=True)
    return True


def save(call: Callable[[], Sequence[Any]], folder: str, name: str) -> None:
    """Keep the results of a call in a folder."""
    import numpy

    for number, result in enumerate(call()):
        numpy.save(Path(folder) / f"{number}.npy", numpy.asarray(result))


def sample(call: Callable[[], Sequence[Any]], times: str, name: str) -> Measures:
    """Wall-clock seconds of so many calls, each with all its work; what Diffuse counted in the last one."""
    if name == "numpy":
        seconds = [timed(call, lambda: None) for _ in range(int(times))]
        return {"seconds": statistics.median(seconds)}
    from diffuse.observe import trace
    from diffuse.stream import engine

    before = trace.snapshot()
    seconds = [timed(call, engine.fence) for _ in range(int(times))]
    counters = trace.snapshot()
    counted = {key: counters.get(key, 0) - before.get(key, 0) for key in ("recorded", "launched")}
    return {"seconds": statistics.median(seconds), **{key: n / int(times) for key, n in counted.items()}}


def timed(call: Callable[[], Sequence[Any]], wait: Callable[[], None]) -> float:
    start = time.perf_counter()
    results = call()
    wait()
    found = time.perf_counter() - start
    del results
    return found


def warm(call: Callable[[], Sequence[Any]], times: str, name: str) -> None:
    """Call Diffuse until its kernels are compiled and decisions that depend on what came before are taken."""
    from diffuse.kernels.build.compiler import compiler
    from diffuse.stream import engine

    for _ in range(2):
        for _ in range(int(times)):
            timed(call, engine.fence)
        compiler.wait()


COMMANDS: dict[str, Callable[[Callable[[], Sequence[Any]], str, str], Any]] = {
    "save": save, "sample": sample, "warm": warm}


def measured(script: str, options: Measures, threads: int, calls: int, rounds: int) -> Measures:
    """Medians of seconds of both, the ratio, what Diffuse counted, and the largest relative difference of the
    results, for what `serve` answers in `script`; twice `calls` calls do not count."""
    with tempfile.TemporaryDirectory(prefix="diffuse-bench-") as scratch:
        environment = machine.environment(threads, scratch + "/cache")
        sides = {name: Side(script, library, options, environment)
                 for name, library in (("numpy", "numpy"), ("diffuse", "diffuse.numpy"))}
        for name, side in sides.items():
            folder = Path(scratch) / name
            folder.mkdir()
            side.ask(f"save {folder}")
        difference = harness.difference(Path(scratch) / "diffuse", Path(scratch) / "numpy")["scaled"]
        once = sides["numpy"].ask("sample 3")["seconds"]
        sides["diffuse"].ask(f"warm {calls}")
        samples = [[side.ask("sample 3" if once < 0.1 else "sample 1") for side in sides.values()]
                   for _ in range(max(rounds, min(MOST, int(SECONDS / once / 3))) if calls > 1 else rounds)]
        for side in sides.values():
            side.close()
    theirs, ours = (statistics.median(one["seconds"] for one in found)
                    for found in zip(*samples, strict=True))
    counted = samples[-1][1]
    return {"numpy": theirs, "diffuse": ours, "ratio": theirs / ours, "difference": difference,
            "recorded": counted["recorded"], "launched": counted["launched"]}

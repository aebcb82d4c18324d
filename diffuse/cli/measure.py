"""One process of a comparison: a program, run under NumPy or under Diffuse, as a JSON file of measurements.

Run as a script, so that the process under NumPy imports nothing of Diffuse.  A program with `arguments`,
`setup`, `step` and `results` is timed step by step: each step ends when a value of every result was read.
Any other program is timed as a whole.  The files that it saves are copied for the comparison, and restored
after the run under NumPy, so that both runs begin alike.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from types import ModuleType
from typing import Any

CONVENTION = ("arguments", "setup", "step", "results")


class Saved:
    """The files that the program opens for writing, with copies of their previous contents."""

    def __init__(self, folder: str, words: list[str]) -> None:
        self.folder = folder
        self.before: dict[str, str | None] = {}
        """For each file, a copy of its previous contents; None if it did not exist."""
        program = [] if words[0].startswith("-") else [os.path.dirname(os.path.realpath(words[0]))]
        self._places = tuple(os.path.join(os.path.realpath(p), "") for p in (os.getcwd(), *program))
        home = os.path.expanduser("~")
        others = (sys.prefix, sys.base_prefix, tempfile.gettempdir(), os.path.join(home, ".cache"),
                  os.path.join(home, ".config"), "/dev", "/proc", os.environ.get("DIFFUSE_CACHE_DIR"),
                  os.environ.get("MPLCONFIGDIR"))
        self._others = tuple(os.path.join(os.path.realpath(p), "") for p in others if p)
        self._process, self._busy = os.getpid(), False
        sys.addaudithook(self._opened)

    def _opened(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event != "open" or self._busy or not isinstance(arguments[0], (str, bytes)):
            return
        if arguments[2] & (os.O_WRONLY | os.O_RDWR) and os.getpid() == self._process:
            path = os.path.realpath(os.fsdecode(arguments[0]))
            if path not in self.before and self._programs(path):
                self._busy = True
                try:
                    self.before[path] = self._copy(path)
                finally:
                    self._busy = False

    def _programs(self, path: str) -> bool:
        """Is it a file for the user, rather than a cache or temporary file?"""
        if path.endswith(".pyc"):
            return False
        return path.startswith(self._places) or not path.startswith(self._others)

    def _copy(self, path: str) -> str | None:
        if not os.path.isfile(path):
            return None
        handle, copy = tempfile.mkstemp(dir=self.folder)
        os.close(handle)
        return shutil.copy2(path, copy)

    def copies(self, restore: bool) -> dict[str, str]:
        """Copy each file that exists now; `restore` then brings back the previous contents."""
        self._busy = True
        found = {}
        for path, before in self.before.items():
            copy = self._copy(path)
            if copy is None:
                continue
            found[os.path.relpath(path) if path.startswith(self._places[0]) else path] = copy
            if restore and before is None:
                os.remove(path)
            elif restore and before is not None:
                shutil.copy2(before, path)
        return found


def memory(field: str) -> int:
    """Bytes of memory that this process uses ("VmRSS"), or their peak ("VmHWM")."""
    try:
        with open("/proc/self/status") as status:
            for line in status:
                if line.startswith(field + ":"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def force(results: dict[str, Any]) -> None:
    """Read one element of every result, which waits for everything before it."""
    for array in results.values():
        if getattr(array, "size", 0):
            array.item(0)


def load(path: str) -> ModuleType:
    """Load the program as a module, without running it as `__main__`."""
    module = ModuleType("__diffuse_program__")
    module.__file__ = os.path.abspath(path)
    sys.modules[module.__name__] = module
    with open(path, "rb") as source:
        exec(compile(source.read(), path, "exec"), module.__dict__)
    return module


def follows(path: str) -> bool:
    """Does the program's text define the functions of the convention at top level?"""
    import ast

    with open(path, "rb") as source:
        outer = ast.parse(source.read(), path).body
    return {node.name for node in outer if isinstance(node, ast.FunctionDef)}.issuperset(CONVENTION)


def steps(path: str, words: list[str], counters: Any) -> dict[str, Any]:
    """Time every step of a program that follows the convention; its results go to `results.npz`."""
    module = load(path)
    parser = argparse.ArgumentParser(prog=path)
    module.arguments(parser)
    args = parser.parse_args(words)
    before = memory("VmRSS")
    start = time.perf_counter()
    state = module.setup(args)
    force(module.results(state))
    setup = time.perf_counter() - start
    times, counts = [], []
    for _ in range(max(1, int(getattr(args, "iterations", 10)))):
        past = counters()
        start = time.perf_counter()
        after = module.step(state)
        state = state if after is None else after
        force(module.results(state))
        times.append(time.perf_counter() - start)
        now = counters()
        counts.append({name: now[name] - past.get(name, 0) for name in now})
    return {"setup": setup, "steps": times, "counts": counts, "arrays": memory("VmHWM") - before,
            "results": module.results(state)}


def save(results: dict[str, Any], path: str) -> None:
    import importlib

    numpy = importlib.import_module("numpy")
    numpy.savez(path, **{name: numpy.asarray(array) for name, array in results.items()})


def whole(words: list[str]) -> tuple[dict[str, Any], int]:
    """Time a program from its first statement to its last, as `python words...`; returns the time and its
    exit status."""
    import runpy

    start, status = time.perf_counter(), 0
    sys.argv = words[1:] if words[0] == "-m" else words
    try:
        if words[0] == "-m":
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        elif words[0] == "-c":
            exec(compile(words[1], "<string>", "exec"), {"__name__": "__main__"})
        else:
            sys.path[0] = os.path.dirname(os.path.realpath(words[0]))
            runpy.run_path(words[0], run_name="__main__")
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    return {"total": time.perf_counter() - start}, status


def main(under: str, folder: str, words: list[str]) -> int:
    """Measure one run; `folder` gets `measured.json` and, with the convention, `results.npz`."""
    stepwise = not words[0].startswith("-") and follows(words[0])
    status = 0
    saved = Saved(folder, words)
    if under == "diffuse":
        from diffuse import intercept
        from diffuse.observe import trace

        def counters() -> dict[str, int]:
            return dict(trace.snapshot())

        with intercept.numpy_replaced():
            if stepwise:
                sys.path[0] = os.path.dirname(os.path.realpath(words[0]))
                found = steps(words[0], words[1:], counters)
            else:
                start = time.perf_counter()
                status = intercept.run(words)
                found = {"total": time.perf_counter() - start, "counts": [counters()]}
    elif stepwise:
        sys.path[0] = os.path.dirname(os.path.realpath(words[0]))
        found = steps(words[0], words[1:], dict)
    else:
        found, status = whole(words)
    found["peak"] = memory("VmHWM")
    found["saved"] = saved.copies(restore=under == "numpy")
    if "results" in found:
        save(found.pop("results"), os.path.join(folder, "results.npz"))
    with open(os.path.join(folder, "measured.json"), "w") as out:
        json.dump(found, out)
    return status


if __name__ == "__main__":
    # the program must not import from the folder of this file
    sys.path[0] = os.getcwd()
    if sys.argv[1] == "diffuse":
        sys.path.insert(1, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))

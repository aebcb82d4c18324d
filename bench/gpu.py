"""Diffuse on a GPU beside its processor, CuPy, torch and NumPy: single operations and whole applications.

Operations are measured against the bandwidth at which the device copies its own memory; applications in
seconds a step.  Each contender is a process of its own, and what it measured is written as soon as it ends.
Options: --quick for small sizes, --simt to run the program's own part on a machine without a GPU (its numbers
then mean nothing), --json FILE.  NumPy runs applications at small sizes alone: at large ones a step takes it
minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import child
import table

Measures = dict[str, Any]

REPEATS, SECONDS = 7, 5.0
"""Runs that are measured behind the first, and after how many seconds no other one begins."""
LARGE, SMALL = 10 ** 8, 10 ** 5

APPS = {"black_scholes": (10 ** 8, 10 ** 4), "stencil": (16384, 128), "channel_flow": (8000, 64),
        "shallow_water": (8000, 64), "cg": (5000, 24), "jacobi": (32768, 128), "mandelbrot": (8192, 64)}
"""Applications with a large and a small size."""


class Operation(NamedTuple):
    """A single operation on arrays of n float64: what it computes, and how many bytes an element it moves."""

    run: Callable[[Any, Any, Any], Any]
    bytes: float


def _rows(x: Any) -> Any:
    return x.reshape(-1, 1000)


OPERATIONS = {
    "copy": Operation(lambda np, x, y: x.copy(), 16),
    "x + y": Operation(lambda np, x, y: x + y, 24),
    "(x * 2 + y) * x - y / (x + 3)": Operation(lambda np, x, y: (x * 2 + y) * x - y / (x + 3), 24),
    "exp(-x) * sin(y)": Operation(lambda np, x, y: np.exp(-x) * np.sin(y), 24),
    "x.sum()": Operation(lambda np, x, y: x.sum(), 8),
    "(x * y).sum()": Operation(lambda np, x, y: (x * y).sum(), 16),
    "x.max()": Operation(lambda np, x, y: x.max(), 8),
    "x.sum(axis=0)": Operation(lambda np, x, y: _rows(x).sum(axis=0), 8),
    "x.sum(axis=1)": Operation(lambda np, x, y: _rows(x).sum(axis=1), 8),
    "x[1:-1] - (x[2:] + x[:-2]) / 2": Operation(lambda np, x, y: x[1:-1] - (x[2:] + x[:-2]) / 2, 16),
}


class Contender(NamedTuple):
    """A library with NumPy's functions."""

    np: Any
    wait: Callable[[], object]
    sparse: str = "scipy.sparse"
    """The module that stands for scipy.sparse."""


def diffuse() -> Contender:
    import diffuse
    import diffuse.numpy

    return Contender(diffuse.numpy, diffuse.fence, "diffuse.scipy.sparse")


def cupy() -> Contender:
    np: Any = import_module("cupy")
    return Contender(np, lambda: np.cuda.get_current_stream().synchronize(), "cupyx.scipy.sparse")


def numpy() -> Contender:
    return Contender(import_module("numpy"), lambda: None)


def torch() -> Contender:
    """torch, for operations that it names as NumPy does."""
    library: Any = import_module("torch")
    library.set_default_device("cuda")
    library.set_default_dtype(library.float64)
    return Contender(library, library.cuda.synchronize)


CONTENDERS = {"diffuse, gpu": (diffuse, {"DIFFUSE_RUNTIME": "cuda"}),
              "diffuse, processor": (diffuse, {"DIFFUSE_RUNTIME": "local"}),
              "cupy": (cupy, {}), "torch": (torch, {}), "numpy": (numpy, {})}


def timed(run: Callable[[], object], wait: Callable[[], object], repeats: int) -> list[float]:
    """Seconds of the first run and of each of the others, of which there are fewer if they are slow."""
    found: list[float] = []
    while len(found) < 2 or len(found) <= repeats and sum(found[1:]) < SECONDS:
        wait()
        start = time.perf_counter()
        result = run()  # kept: what nobody holds is not computed
        wait()
        found.append(time.perf_counter() - start)
        del result
    return found


def operations(one: Contender, n: int) -> Measures:
    x, y = one.np.linspace(0.1, 1.0, n), one.np.linspace(1.0, 2.0, n)
    found: Measures = {}
    for name, (run, _) in OPERATIONS.items():
        try:
            first, *others = timed(lambda run=run: run(one.np, x, y), one.wait, REPEATS)  # type: ignore[misc]
            found[name] = {"first": first, "median": statistics.median(others)}
        except Exception as error:
            found[name] = {"failed": f"{type(error).__name__}: {error}"}
    return found


def application(one: Contender, name: str, size: int, dtype: str = "float64") -> Measures:
    """Seconds of a step, of the first one, and a number that says whether results agree."""
    try:
        app = import_module(f"apps.{name}")
        parser = argparse.ArgumentParser()
        app.arguments(parser)
        vars(app)["np"] = one.np
        if "sp" in vars(app):
            vars(app)["sp"] = _sparse(one.sparse)
        state = app.setup(parser.parse_args(["--size", str(size), "--dtype", dtype]))
        first, *others = timed(lambda: app.step(state), one.wait, REPEATS)
        sums = [float(abs(array).sum()) for array in app.results(state).values()]
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {error}"[:200]}
    return {"first": first, "median": statistics.median(others), "sums": sums}


def _sparse(name: str) -> Any:
    """A module like scipy.sparse; what CuPy lacks of it goes by an older name."""
    module: Any = import_module(name)
    if not hasattr(module, "diags_array"):
        module.diags_array = lambda values, *, offsets, shape, dtype: module.diags(
            values, offsets, shape, dtype=dtype)
    return module


def launches(one: Contender) -> Measures:
    """Seconds of the main thread for an operation on 1e5 elements, replayed and not waited for."""
    x, turns = one.np.linspace(0.1, 1.0, 10 ** 5), 2000
    for _ in range(turns):
        y = x + 1.0
    one.wait()
    start = time.perf_counter()
    for _ in range(turns):
        y = x + 1.0
    seconds = (time.perf_counter() - start) / turns
    del y
    one.wait()
    return {"launch": seconds}


def measured(name: str, options: Measures) -> Measures:
    """In the child: everything of one contender."""
    one = CONTENDERS[name][0]()
    large = not options["quick"]
    found: Measures = {"operations": operations(one, LARGE if large else SMALL), "launches": launches(one)}
    if name != "torch" and not (large and name == "numpy"):
        found["applications"] = {app: application(one, app, sizes[0 if large else 1])
                                 for app, sizes in APPS.items() if app in options["apps"]}
    return found


def device() -> Measures:
    """The GPU, its driver, and its memory."""
    from diffuse.runtime.device.driver import Driver

    driver = Driver()
    return {"name": driver.name(), "architecture": driver.architecture(), "driver": driver.version,
            "memory": driver.memory()[1]}


def shown(results: dict[str, Measures], quick: bool) -> str:
    """Both tables."""
    names = [name for name in results if "absent" not in results[name]]
    n, texts = SMALL if quick else LARGE, []
    rows = []
    for operation, (_, moved) in OPERATIONS.items():
        cells = []
        for name in names:
            one = results[name]["operations"][operation]
            cells.append(f"{moved * n / one['median'] / 1e9:,.0f}" if "median" in one else "-")
        rows.append([operation, *cells])
    texts.append(table.render(f"GB/s, {n:,} float64", ["operation", *names], rows))
    rows = []
    for app in APPS:
        cells = []
        for name in names:
            one = results[name].get("applications", {}).get(app, {})
            cells.append(table.seconds(one.get("median")))
        rows.append([app, *cells])
    texts.append(table.render("seconds a step", ["application", *names], rows))
    rows = [["recording and launching x + 1", *[table.seconds(results[name]["launches"]["launch"])
                                                for name in names]]]
    texts.append(table.render("main thread, 1e5 elements", ["", *names], rows))
    for name, one in results.items():
        if "absent" in one:
            texts.append(f"{name}: {one['absent']}")
    return "\n".join(texts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--simt", action="store_true")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--apps", nargs="*", default=list(APPS), choices=list(APPS))
    parser.add_argument("--contenders", nargs="*", default=list(CONTENDERS), choices=list(CONTENDERS))
    options = parser.parse_args()
    sys.path.append(str(Path(__file__).resolve().parent.parent))  # Diffuse need not be installed
    results: dict[str, Measures] = {}
    where = {"name": "simulated"} if options.simt else device()
    for name in options.contenders:
        environment = {**os.environ, **CONTENDERS[name][1]}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        if options.simt and environment.get("DIFFUSE_RUNTIME") == "cuda":
            environment["DIFFUSE_RUNTIME"] = "simt"
        try:
            results[name] = child.ask(__file__, name, {"quick": options.quick, "apps": options.apps},
                                      environment)
        except subprocess.TimeoutExpired as error:
            results[name] = {"absent": f"not done after {error.timeout:.0f} s"}
        print(f"{name}: {results[name].get('absent', 'measured')}", file=sys.stderr, flush=True)
        if options.json:
            Path(options.json).write_text(json.dumps({"device": where, "results": results}, indent=1))
    print(f"{where}\n{shown(results, options.quick)}")


if __name__ == "__main__":
    children = {name: (lambda options, name=name: measured(name, options)) for name in CONTENDERS}
    if not child.answer(children):
        main()

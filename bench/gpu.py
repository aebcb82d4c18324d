"""Times Diffuse on a GPU beside the host, CuPy, torch, JAX and NumPy: single operations and applications.

Operations are measured against the bandwidth at which the device copies its own memory; applications in
seconds a step.  Each contender is a process of its own, with a limit of time.  Each number is printed when it
is measured, and kept in the file of `--json` from then on, together with those that are there from earlier
runs, so that a run that is cut off, or a contender that fails, loses no other number.
Options: --quick for small sizes, --simt to run the program's own part on a machine without a GPU (its numbers
then mean nothing), --json FILE, --sections, --contenders and --apps for a part, --seconds for the limit of
everything, --brief for no tables.  NumPy runs applications at small sizes alone: at large ones a step takes
minutes there.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import child
import table

Measures = dict[str, Any]

CLOSE = 1e-6
"""Within which sums of results agree."""
REPEATS, SECONDS = 7, 5.0
"""Runs that are measured behind the first, and after how many seconds no other one begins."""
LARGE, SMALL = 10 ** 8, 10 ** 5
EACH = 40
"""Seconds that an application may take, setting it up and compiling it included: one that takes longer ends
the process, and the others are measured in another one."""

APPS = {"black_scholes": (10 ** 8, 10 ** 4), "stencil": (16384, 128), "channel_flow": (8000, 64),
        "shallow_water": (8000, 64), "cg": (5000, 24), "jacobi": (32768, 128), "mandelbrot": (8192, 64)}
"""Applications with a large and a small size."""


class Operation(NamedTuple):
    """A single operation on arrays of n float64: what it computes, and how many bytes an element it moves."""

    run: Callable[[Any, Any, Any], Any]
    bytes: float


def _rows(x: Any) -> Any:
    return x.reshape(-1, 1000)


def _copied(x: Any) -> Any:
    return x.clone() if hasattr(x, "clone") else x.copy()  # as torch calls it


OPERATIONS = {
    "copy": Operation(lambda np, x, y: _copied(x), 16),
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
    submit: Callable[[], object] = lambda: None
    """What sends operations that were recorded to the device."""
    compiled: Callable[[Callable[..., Any]], Callable[..., Any]] = lambda run: run
    """What makes the function that is measured of an operation on two arrays."""


def diffuse() -> Contender:
    import diffuse
    import diffuse.numpy

    return Contender(diffuse.numpy, diffuse.fence, "diffuse.scipy.sparse", diffuse.flush)


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


def jax() -> Contender:
    """JAX, whose operations are compiled, and waited for by their results."""
    library: Any = import_module("jax")

    def compiled(run: Callable[..., Any]) -> Callable[..., Any]:
        made = library.jit(run)
        return lambda x, y: library.block_until_ready(made(x, y))

    return Contender(import_module("jax.numpy"), lambda: None, compiled=compiled)


WAITS = {"DIFFUSE_COMPILE": "wait"}
"""Kernels are waited for: a task that is interpreted until its kernel is ready runs on the host."""
CONTENDERS = {"diffuse, gpu": (diffuse, {"DIFFUSE_RUNTIME": "cuda", **WAITS}),
              "cupy": (cupy, {}), "torch": (torch, {}), "jax": (jax, {"JAX_ENABLE_X64": "1"}),
              "diffuse, processor": (diffuse, {"DIFFUSE_RUNTIME": "local", **WAITS}), "numpy": (numpy, {})}
SECTIONS = ("operations", "launches", "applications")


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


Measured = Iterator[tuple[str, Measures]]
"""What was measured, and its numbers."""


def operations(one: Contender, options: Measures) -> Measured:
    n = SMALL if options["quick"] else LARGE
    x, y = one.np.linspace(0.1, 1.0, n), one.np.linspace(1.0, 2.0, n)
    for name, (run, moved) in OPERATIONS.items():
        call = one.compiled(partial(run, one.np))
        yield name, tried(partial(call, x, y), one.wait, moved * n)


def tried(run: Callable[[], Any], wait: Callable[[], object], moved: float) -> Measures:
    """Time an operation: return the seconds of its first run, the median of the others, the gigabytes per
    second that it moves, and the sum of its result; if it fails, return the reason.  The sum shows that there
    is a result, since an operation that ends early for lack of memory would seem fast."""
    try:
        first, *others = timed(run, wait, REPEATS)
        sums = [float(abs(run()).sum())]
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {error}"[:200]}
    median = statistics.median(others)
    return {"first": first, "median": median, "GB/s": moved / median / 1e9, "sums": sums}


def applications(name: str, one: Contender, options: Measures) -> Measured:
    for app, sizes in APPS.items():
        if app in options["apps"]:
            signal.alarm(options["each"])
            size = sizes[1 if options["quick"] else 0]
            yield app, by_jax(app, size) if name == "jax" else application(one, app, size)
    signal.alarm(0)


def by_jax(name: str, size: int) -> Measures:
    """An application as bench/ writes it for JAX, whose arrays are not written in place."""
    try:
        peers = vars(import_module(name))["CASE"].contenders
        if "jax" not in peers:
            return {"failed": "bench/ has it not for JAX"}
        peer = peers["jax"](argparse.Namespace(size=size, dtype="float64"))
        first, *others = timed(peer.step, peer.wait, REPEATS)
        sums = [float(abs(array).sum()) for array in peer.results().values()]
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {error}"[:200]}
    return {"first": first, "median": statistics.median(others), "sums": sums, "steps": 1 + len(others)}


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
    return {"first": first, "median": statistics.median(others), "sums": sums, "steps": 1 + len(others)}


def _sparse(name: str) -> Any:
    """A module like scipy.sparse; what CuPy lacks of it goes by an older name."""
    module: Any = import_module(name)
    if not hasattr(module, "diags_array"):
        module.diags_array = lambda values, *, offsets, shape, dtype: module.diags(
            values, offsets, shape, dtype=dtype)
    return module


def launches(one: Contender, _: Measures) -> Measured:
    """Seconds of the main thread for an operation on 1e5 elements, replayed and not waited for.  Each result
    is held until it is submitted, as others would not be computed."""
    x, turns = one.np.linspace(0.1, 1.0, 10 ** 5), 2000
    for _part in range(2):
        one.wait()
        start = time.perf_counter()
        for _turn in range(turns):
            y = x + 1.0
            one.submit()
        seconds = (time.perf_counter() - start) / turns
    del y
    one.wait()
    yield "x + 1", {"median": seconds}


def measured(name: str, options: Measures) -> Measures:
    """In the child: print each number of a section of one contender."""
    one, section = CONTENDERS[name][0](), options["section"]
    run: dict[str, Callable[[], Measured]] = {
        "operations": lambda: operations(one, options), "launches": lambda: launches(one, options),
        "applications": lambda: applications(name, one, options)}
    for what, numbers in run[section]():
        print(json.dumps({"what": what, "numbers": numbers}), flush=True)
        text = ", ".join(f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}"
                         for key, value in numbers.items())
        print(f"{name}: {what}: {text}", file=sys.stderr, flush=True)
    return {}


def left_out(name: str, section: str, quick: bool) -> bool:
    """Is the section not for this contender?"""
    return (section == "applications" and (name == "torch" or name == "numpy" and not quick)
            or section == "launches" and name == "jax")


def device() -> Measures:
    """The GPU, its driver, and its memory."""
    from diffuse.runtime.device.driver import Driver

    driver = Driver()
    return {"name": driver.name(), "architecture": driver.architecture(), "driver": driver.version,
            "memory": driver.memory()[1]}


def shown(results: dict[str, Measures], quick: bool) -> str:
    """The tables of everything that was measured."""
    names, texts = list(results), []

    def cells(section: str, what: str, key: str, text: Callable[[Any], str]) -> list[str]:
        found = [results[name].get(section, {}).get(what, {}).get(key) for name in names]
        return ["-" if value is None else text(value) for value in found]

    copies = [numbers["operations"]["copy"].get("GB/s", 0.0) for numbers in results.values()
              if "copy" in numbers.get("operations", {})]
    best = max(copies, default=0.0)
    rows = [[what, *cells("operations", what, "GB/s", lambda value: f"{value:,.0f} ({value / best:.0%})")]
            for what in OPERATIONS if best]
    n = SMALL if quick else LARGE
    texts.append(table.render(f"GB/s, {n:,} float64 (share of the fastest copy)", ["", *names], rows))
    for key, title in (("median", "seconds a step"), ("first", "seconds of the first step")):
        rows = [[app, *cells("applications", app, key, table.seconds)] for app in APPS]
        texts.append(table.render(title, ["", *names], rows))
    rows = [["first x + y", *cells("operations", "x + y", "first", table.seconds)],
            ["recording and launching x + 1 on 1e5 elements", *cells("launches", "x + 1", "median",
                                                                     table.seconds)]]
    texts.append(table.render("the program's thread", ["", *names], rows))
    ours = results.get("diffuse, gpu", {}).get("applications", {})
    for name in names:
        theirs = results[name].get("applications", {})
        ratios = [theirs[app]["median"] / ours[app]["median"] for app in ours
                  if "median" in ours[app] and "median" in theirs.get(app, {})]
        if ratios and name != "diffuse, gpu":
            texts.append(f"{name} takes {statistics.geometric_mean(ratios):.3g} times Diffuse's time on the "
                         f"GPU, in the geometric mean of {len(ratios)} applications")
    texts += disagreements(results)
    texts += [f"{name}, {section}: {why}" for name in names
              for section, why in results[name].get("unfinished", {}).items()]
    return "\n".join(texts)


def disagreements(results: dict[str, Measures]) -> list[str]:
    """Which contenders' sums are not those of the first one that has taken as many steps."""
    found: list[str] = []
    for section, what in [*[("operations", name) for name in OPERATIONS],
                          *[("applications", name) for name in APPS]]:
        seen: dict[Any, tuple[str, list[float]]] = {}
        for name in results:
            numbers = results[name].get(section, {}).get(what, {})
            if "sums" not in numbers:
                continue
            first, wanted = seen.setdefault(numbers.get("steps"), (name, numbers["sums"]))
            pairs = zip(numbers["sums"], wanted, strict=True)
            if not all([math.isclose(a, b, rel_tol=CLOSE, abs_tol=CLOSE) for a, b in pairs]):
                found.append(f"{what}: the sums of {name} are {numbers['sums']}, those of {first} {wanted}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--simt", action="store_true")
    parser.add_argument("--json", metavar="FILE", type=Path)
    parser.add_argument("--brief", action="store_true")
    parser.add_argument("--seconds", type=float, default=3600)
    for name, choices in (("apps", APPS), ("contenders", CONTENDERS), ("sections", SECTIONS)):
        parser.add_argument(f"--{name}", nargs="*", default=list(choices), choices=list(choices))
    options = parser.parse_args()
    sys.path.append(str(Path(__file__).resolve().parent.parent))  # Diffuse need not be installed
    end = time.monotonic() + options.seconds
    before = json.loads(options.json.read_text()) if options.json and options.json.exists() else {}
    kept: Measures = before
    if options.sections or not before.get("results"):
        kept = {"quick": options.quick, "device": {"name": "simulated"} if options.simt else device(),
                "steps": before.get("steps", {})}
        kept = before if all([before.get(key) == kept[key] for key in kept]) else kept
    results = kept.setdefault("results", {})
    for section in options.sections:
        for name in options.contenders:
            if not left_out(name, section, options.quick):
                one = results.setdefault(name, {})
                one.setdefault("unfinished", {}).pop(section, None)
                measure(name, section, one, options, max(end - time.monotonic(), 0.0))
                if options.json:
                    options.json.write_text(json.dumps(kept, indent=1))
    if not options.brief:
        print(f"{kept['device']}\n{shown(results, kept['quick'])}", flush=True)


LATE = f"failed (status {-signal.SIGALRM})"
"""What a process is said to have done that an application ended, as it took too long."""


def measure(name: str, section: str, one: Measures, options: argparse.Namespace, seconds: float) -> None:
    """Measure a section of a contender in a process of its own, for at most so many seconds, and put the
    numbers into `one`.  After an application that takes too long another process goes on with the next."""
    environment = {**os.environ, **CONTENDERS[name][1]}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    if options.simt and environment.get("DIFFUSE_RUNTIME") == "cuda":
        environment["DIFFUSE_RUNTIME"] = "simt"
    end, reasons = time.monotonic() + seconds, []
    left = [app for app in APPS if app in options.apps]
    while True:
        asked = {"quick": options.quick, "apps": left, "section": section, "each": EACH}
        found, why = child.measures(__file__, name, asked, environment, max(end - time.monotonic(), 0.0))
        for line in found:
            if "what" in line:
                one.setdefault(section, {})[line["what"]] = line["numbers"]
            why = why or line.get("absent", "")
        late = why == LATE and section == "applications"
        left = left[sum("what" in line for line in found):]
        reasons += [f"{left[0]}: took more than {EACH} s"] if late else [why] if why else []
        left = left[1:]
        if not late or not left:
            break
    if reasons:
        one["unfinished"][section] = "; ".join(reasons)
        print(f"{name}, {section}: {one['unfinished'][section]}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    children = {name: (lambda options, name=name: measured(name, options)) for name in CONTENDERS}
    if not child.answer(children):
        main()

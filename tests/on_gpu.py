"""What a machine with a GPU can check, in one command and without a network: `python tests/on_gpu.py`.

The steps of `PLAN` run one after another, each in a process of its own with a limit of time, so that one that
fails, hangs or crashes stops no other, and all within `--budget` seconds; what is most worth knowing comes
first: whether kernels load, run and have the same bits, then the share of the memory's bandwidth, then whole
programs beside other libraries.  Everything is printed when it is known; numbers and the outcome of each step
are kept in `--json`, and all that was printed in a text file beside it.  The tables come last.

NumPy and llvmlite are enough; what is not installed is left out and said.  `--parts` runs some checks in this
process, with `--runtime simt` where there is no GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

PARTS = ("first", "bodies", "applications", "libraries", "legate", "launches", "sanitizer")
PATIENCE = 45
"""Seconds that a tool of compute-sanitizer may take."""
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")

BENCH = "bench/gpu.py"
PLAN: tuple[tuple[int, tuple[str, ...]], ...] = (
    (60, ("tests/on_gpu.py", "--parts", "first")),
    (60, ("tests/on_gpu.py", "--parts", "bodies", "--bodies", "100")),
    (60, (BENCH, "--contenders", "diffuse, gpu", "--sections", "operations", "launches")),
    (90, ("tests/on_gpu.py", "--parts", "applications")),
    (60, (BENCH, "--contenders", "cupy", "--sections", "operations", "launches")),
    (150, (BENCH, "--contenders", "diffuse, gpu", "--sections", "applications")),
    (120, (BENCH, "--contenders", "cupy", "--sections", "applications")),
    (60, ("tests/on_gpu.py", "--parts", "libraries")),
    (90, ("tests/on_gpu.py", "--parts", "legate")),
    (60, (BENCH, "--contenders", "torch", "jax", "--sections", "operations")),
    (120, (BENCH, "--contenders", "jax", "--sections", "applications")),
    (200, ("tests/on_gpu.py", "--parts", "launches", "sanitizer")),
    (120, (BENCH, "--contenders", "diffuse, processor", "--sections", "operations", "applications")),
    (600, ("tests/on_gpu.py", "--parts", "bodies", "--bodies", "700")),
)
"""The steps: the seconds that each may take, and a script with its options."""
LEAST = 10.0
"""Seconds below which no step begins."""
TABLES = (BENCH, "--contenders", "--sections")
"""The command that prints the tables of what was kept, and measures nothing."""
PRODUCTS = frozenset(("jacobi",))
"""Applications with matrix products."""
NEAR = 1e-13
"""How far results may differ there, relative to the largest."""
LLVMLITE = 0, 48
"""The first version of llvmlite that makes kernels."""


def bodies(runtime: Any, count: int) -> tuple[int, int, list[str]]:
    """How many random bodies agree on the device with the interpreter, how many run on the host, and what
    differs."""
    from tests.applications import launched
    from tests.bodies import Case, differences
    from tests.simt import expected

    good, hosted, bad = 0, 0, []
    for seed in range(count):
        case = Case(seed, transcendental=seed % 3 == 0)
        if 0 in case.extents:
            continue
        found, on_device = launched(case, runtime)
        different = differences(found, expected(case))
        hosted += not on_device
        good += not different
        if different:
            bad.append(f"seed {seed}: {different}\n{case.body}")
    return good, hosted, bad


def applications(name: str) -> list[str]:
    """What differs between the applications' results on the device and on this machine's processor.

    All bits are to be the same, but where CuPy computes matrix products, whose sums have another order.
    """
    from diffuse import settings
    from tests.applications import PROGRAMS, SMALL, results

    programs = PROGRAMS
    try:
        import scipy.sparse  # noqa: F401
    except ImportError:
        say("SciPy is not installed: its applications were not run")
        programs = SMALL
    bad = []
    for app in programs:
        here = results(app, "local")
        with settings.using(cupy=False):
            there = results(app, name)
        bad += [f"{app}: {key} differs" for key in here if here[key].tobytes() != there[key].tobytes()]
        if name == "cuda" and app in PRODUCTS and find_spec("cupy") is not None:
            there = results(app, name)
            bad += [f"{app} with CuPy: {key} differs" for key in here if not agree(here[key], there[key])]
    say("applications: " + ("all agree bit for bit" if not bad else "; ".join(bad)))
    return bad


def agree(one: Any, other: Any) -> bool:
    """Are the elements of two arrays equal within `NEAR` times the largest?"""
    import numpy as np

    largest = max(float(np.abs(one).max(initial=0.0)), 1e-300)
    return one.shape == other.shape and bool((np.abs(one - other) <= NEAR * largest).all())


def on_legate(device: str) -> list[str]:
    """What differs between the applications' results on a GPU of Legate's and on this machine's processor."""
    if find_spec("legate") is None:
        say("Legate is not installed: nothing was run on it")
        return []
    if device == "cuda":
        os.environ.setdefault("LEGATE_CONFIG", "--gpus 1 --fbmem 20000")
    else:
        from tests import legate_grid

        legate_grid.install()
    bad = applications("legate")
    from legate.core import TaskTarget, get_machine

    gpus = get_machine().count(TaskTarget.GPU)
    say(f"Legate has {gpus} GPU" + "s" * (gpus != 1))
    return bad if gpus or device != "cuda" else [*bad, "Legate ran on no GPU"]


def launches(device: str, last: int) -> tuple[int, list[str]]:
    """How many random bodies agree that run as Legate's tasks for GPUs would run them, and what differs."""
    from diffuse.runtime.legate import libraries

    if libraries.compiler() is None:
        say("no C++ compiler: what Legate's task does was not run")
        return 0, []
    from tests.grid_devices import OnGpu, OnHost
    from tests.grid_launches import check

    good, bad = 0, []
    for seed in range(last):
        for several in (False, True):
            try:
                good += check(seed, OnGpu if device == "cuda" else OnHost, several, 20) is not None
            except Exception as error:
                bad.append(f"seed {seed}, {'several points' if several else 'one point'}: {error}")
    return good, bad


def sanitized(tool: str, name: str) -> str:
    """What a tool of compute-sanitizer says of some bodies; empty if it finds nothing."""
    command = ["compute-sanitizer", "--tool", tool, "--error-exitcode", "9", "--target-processes",
               "application-only", sys.executable, __file__, "--runtime", name, "--bodies", "25", "--parts",
               "bodies"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return f"it took more than {PATIENCE} s"
    return "" if done.returncode == 0 else done.stdout[-4000:] + done.stderr[-2000:]


def first(runtime: Any) -> list[str]:
    """What is wrong with some functions, sums, quotients and roots, computed on the device."""
    import numpy as np

    import diffuse.numpy as dnp
    from diffuse import settings
    from tests.operands import of_all_sizes

    values, (a, b) = np.linspace(-3.0, 3.0, 1_000_000), of_all_sizes(np.random.default_rng(1), 4_000_000)
    found: dict[str, list[Any]] = {}
    for name in ("local", runtime):
        with settings.using(runtime=name, small=0), np.errstate(all="ignore"):
            x, y, z = dnp.array(values), dnp.array(a), dnp.array(b)
            w = dnp.exp(-x * x) + dnp.sin(x)
            several = y / z, 1.0 / z, dnp.sqrt(abs(y))  # one loop
            found[name] = [np.asarray(w), float(w.sum()), np.asarray(w.reshape(1000, 1000).sum(axis=0)),
                           *[np.asarray(one) for one in several]]
    bad = []
    names = "functions", "a sum", "sums of columns", "quotients", "inverses", "roots"
    for what, here, there in zip(names, *found.values(), strict=True):
        same = ordinary(here).tobytes() == ordinary(there).tobytes()
        say(f"{what}: {'the same bits' if same else 'DIFFERENT'}")
        bad += [] if same else [f"{what} differ"]
    return bad


def ordinary(x: Any) -> Any:
    """A number or an array, with one bit pattern for all NaNs."""
    import numpy as np

    return np.where(np.isnan(x), np.nan, x)


def libraries(name: str) -> list[str]:
    """What is wrong when other libraries share arrays with Diffuse, and when it calls CuPy."""
    from tests.gpu_libraries import CHECKS

    bad = []
    for what, check in CHECKS.items():
        try:
            check(name)
            say(f"{what}: as it should be")
        except ImportError as error:
            say(f"{what}: left out ({error})")
        except Exception as error:
            bad.append(f"{what}: {type(error).__name__}: {error}")
            say(bad[-1][:500])
    return bad


def planned(budget: float, kept: Path) -> list[str]:
    """Run the steps of `PLAN` within so many seconds, and note in the JSON file `kept` how each ended; those
    that failed."""
    begun, failed = time.monotonic(), []
    for number, (seconds, command) in enumerate(PLAN, 1):
        text, start = " ".join(command), time.monotonic() - begun
        left = min(float(seconds), budget - start)
        if left < LEAST:
            say(f"== {number} of {len(PLAN)}: {text}: left out, the time is over")
            noted(kept, text, "left out")
            continue
        say(f"== {number} of {len(PLAN)}, at {start:.0f} s: {text}")
        measures = command[0] == BENCH
        more = ("--brief", "--json", str(kept), "--seconds", f"{left - 5:.0f}") if measures else ()
        why = run((*command, *more), left)
        noted(kept, text, why or f"done in {time.monotonic() - begun - start:.0f} s")
        if why:
            say(f"== {text}: {why}")
            failed.append(f"{text}: {why}")
    run((*TABLES, "--json", str(kept)), 30.0)
    return failed


def run(command: Sequence[str], seconds: float) -> str:
    """Run a script for at most so many seconds, and say what it prints; why it failed, or an empty text."""
    process = subprocess.Popen([sys.executable, *command], cwd=ROOT, start_new_session=True, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace")

    def told() -> None:
        for line in process.stdout or ():
            say(line.rstrip("\n"))

    printed = threading.Thread(target=told, daemon=True)
    printed.start()
    try:
        status = process.wait(seconds)
        why = f"status {status}" if status else ""
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        why = f"not done after {seconds:.0f} s"
    printed.join(2.0)  # what it started may go on, and hold the other end
    return why


def noted(kept: Path, step: str, outcome: str) -> None:
    """Keep the outcome of a step."""
    found = json.loads(kept.read_text()) if kept.exists() else {}
    found.setdefault("steps", {})[step] = outcome
    kept.write_text(json.dumps(found, indent=1))


def checked(part: str, name: str, count: int) -> list[str]:
    """Run one part; what is wrong."""
    bad: list[str] = []
    if part == "first":
        bad = first(name)
    elif part == "libraries":
        bad = libraries(name)
    elif part == "bodies":
        from diffuse.runtime import make

        good, hosted, bad = bodies(make(name), count)
        say(f"{good} random bodies agree bit for bit, {hosted} of them on the host, {len(bad)} differ")
    elif part == "launches":
        good, bad = launches(name, count // 4)
        say(f"{good} launches from Legate's messages agree bit for bit, {len(bad)} do not")
    elif part == "applications":
        bad = applications(name)
    elif part == "legate":
        bad = on_legate(name)
    elif name == "cuda" and not shutil.which("compute-sanitizer"):
        say("compute-sanitizer is not installed: its tools were not run")
    elif name == "cuda":
        for tool in TOOLS:
            said = sanitized(tool, name)
            say(f"compute-sanitizer {tool}: {said or 'nothing found'}")
            bad += [tool] if said else []
    return bad


def say(text: str) -> None:
    """Print at once, and keep it if there is a file for that: whoever is cut off later keeps what was
    found."""
    print(text, flush=True)
    if transcript is not None:
        with transcript.open("a") as file:
            file.write(text + "\n")


transcript: Path | None = None
"""The file of all that is printed."""


def versions() -> str:
    """Python's version and those of the packages that are compared."""
    found = []
    for name in ("numpy", "llvmlite", "numba", "scipy", "cupy-cuda13x", "torch", "jax"):
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"no {name}")
    return ", ".join([f"Python {platform.python_version()}", *found])


def lacking() -> str:
    """What is missing for kernels to be made here; an empty text if nothing is."""
    wanted = ".".join(map(str, LLVMLITE))
    try:
        found = version("llvmlite")
    except PackageNotFoundError:
        found = ""
    if found and tuple(map(int, found.split(".")[:2])) >= LLVMLITE:
        return ""
    return (f"llvmlite {found or 'is missing'}: kernels need {wanted} or later; unpack its wheel into a "
            "folder and name that in PYTHONPATH")


def everything(kept: Path, budget: float) -> int:
    """Run all steps, and keep what they find in a JSON file and in a text file beside it."""
    global transcript
    kept.parent.mkdir(parents=True, exist_ok=True)
    transcript = kept.with_suffix(".txt")
    transcript.unlink(missing_ok=True)
    say(versions())
    if said := lacking():
        say(said)
    failed = planned(budget, kept)
    say("\n".join(["== done", *(failed or ["nothing failed"])]))
    return 1 if failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runtime", default="cuda", choices=["cuda", "simt"])
    parser.add_argument("--bodies", type=int, default=700)
    parser.add_argument("--parts", nargs="*", choices=list(PARTS))
    parser.add_argument("--budget", type=float, default=3600, help="seconds for everything")
    parser.add_argument("--json", type=Path, default=ROOT / "bench" / "results" / "gpu.json")
    options = parser.parse_args()
    # what is checked stays on the device, however small it is
    os.environ.update(DIFFUSE_RUNTIME=options.runtime, DIFFUSE_COMPILE="wait", DIFFUSE_SIDES="0")
    if not options.parts:
        return everything(options.json.resolve(), options.budget)
    if options.runtime == "cuda":
        from diffuse.runtime.device.driver import Driver

        gpu = Driver()
        say(f"{gpu.name()}, {gpu.architecture()}, CUDA {gpu.version}, {gpu.memory()[1] >> 20} MiB")
    bad = []
    for part in options.parts:
        start = time.perf_counter()
        try:
            bad += checked(part, options.runtime, options.bodies)
        except Exception:
            traceback.print_exc()
            bad.append(f"{part} failed")
        say(f"    {part}: {time.perf_counter() - start:.0f} s")
    for line in bad[:10]:
        say(line)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

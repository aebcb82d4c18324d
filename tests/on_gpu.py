"""What a machine with a GPU can check, in one command and without a network: `python tests/on_gpu.py`.

Random bodies and applications on the device, bit for bit against the interpreter and the local runtime, and
random bodies from messages as Legate's task for GPUs gets them; then, if it is installed, the four tools of
compute-sanitizer over some of the bodies.  NumPy and llvmlite are enough; applications that need SciPy are
left out without it.  `--runtime simt` runs the same where there is no GPU, `--parts` some of it.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

PARTS = ("bodies", "launches", "applications", "sanitizer")
PATIENCE = 1200
"""Seconds that a tool of compute-sanitizer may take."""
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")


def bodies(runtime: Any, first: int, last: int) -> tuple[int, int, list[str]]:
    """How many random bodies agree on the device with the interpreter, how many run on the host, and what
    differs."""
    from tests.applications import launched
    from tests.bodies import Case, differences
    from tests.simt import expected

    good, hosted, bad = 0, 0, []
    for seed in range(first, last):
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
    """What differs between the applications' results on the device and on this machine's processor."""
    from tests.applications import PROGRAMS, SMALL, results

    programs = PROGRAMS
    try:
        import scipy.sparse  # noqa: F401
    except ImportError:
        say("SciPy is not installed: its applications were not run")
        programs = SMALL
    bad = []
    for app in programs:
        here, there = results(app, "local"), results(app, name)
        bad += [f"{app}: {key} differs" for key in here if here[key].tobytes() != there[key].tobytes()]
    return bad


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
    command = ["compute-sanitizer", "--tool", tool, "--error-exitcode", "9", sys.executable, __file__,
               "--runtime", name, "--bodies", "25", "--parts", "bodies"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return f"it took more than {PATIENCE} s"
    return "" if done.returncode == 0 else done.stdout[-4000:] + done.stderr[-2000:]


def checked(part: str, name: str, count: int) -> list[str]:
    """Run one part; what is wrong."""
    bad: list[str] = []
    if part == "bodies":
        from diffuse.runtime import make

        good, hosted, bad = bodies(make(name), 0, count)
        say(f"{good} random bodies agree bit for bit, {hosted} of them on the host, {len(bad)} differ")
    elif part == "launches":
        good, bad = launches(name, count // 4)
        say(f"{good} launches from Legate's messages agree bit for bit, {len(bad)} do not")
    elif part == "applications":
        bad = applications(name)
        say("applications: " + ("all agree bit for bit" if not bad else "; ".join(bad)))
    elif name == "cuda" and not shutil.which("compute-sanitizer"):
        say("compute-sanitizer is not installed: its tools were not run")
    elif name == "cuda":
        for tool in TOOLS:
            said = sanitized(tool, name)
            say(f"compute-sanitizer {tool}: {said or 'nothing found'}")
            bad += [tool] if said else []
    return bad


def say(text: str) -> None:
    """Print at once: whoever is cut off later keeps what was found."""
    print(text, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runtime", default="cuda", choices=["cuda", "simt"])
    parser.add_argument("--bodies", type=int, default=700)
    parser.add_argument("--parts", nargs="*", default=list(PARTS), choices=list(PARTS))
    options = parser.parse_args()
    os.environ["DIFFUSE_RUNTIME"] = options.runtime
    say(f"Python {platform.python_version()}, " + ", ".join(
        f"{name} {version(name)}" for name in ("numpy", "llvmlite")))
    if options.runtime == "cuda":
        from diffuse.runtime.device.driver import Driver

        gpu = Driver()
        say(f"{gpu.name()}, {gpu.architecture()}, CUDA {gpu.version}, {gpu.memory()[1] >> 20} MiB")
    bad = []
    for part in options.parts:
        start = time.perf_counter()
        bad += checked(part, options.runtime, options.bodies)
        say(f"    {time.perf_counter() - start:.0f} s")
    for line in bad[:10]:
        say(line)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

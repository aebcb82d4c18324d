"""What a machine with a GPU can check, in one command and without a network: `python tests/on_gpu.py`.

Random bodies and applications on the device, bit for bit against the interpreter and the local runtime, and
random bodies from messages as Legate's task for GPUs gets them; then, if it is installed, the four tools of
compute-sanitizer over some of the bodies.  `--runtime simt` runs the same where there is no GPU.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")


def bodies(runtime: Any, first: int, last: int) -> tuple[int, int, list[str]]:
    """How many random bodies agree on the device with the interpreter, how many run on the host, and what
    differs."""
    from tests.bodies import Case, differences
    from tests.simt import expected
    from tests.test_simt import launched

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
    from tests.test_simt import PROGRAMS, results

    bad = []
    for app in PROGRAMS:
        here, there = results(app, "local"), results(app, name)
        bad += [f"{app}: {key} differs" for key in here if here[key].tobytes() != there[key].tobytes()]
    return bad


def launches(device: str, last: int) -> tuple[int, list[str]]:
    """How many random bodies agree that run as Legate's tasks for GPUs would run them, and what differs."""
    from diffuse.runtime.legate import libraries

    if libraries.compiler() is None:
        print("no C++ compiler: what Legate's task does was not run")
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
               "--runtime", name, "--bodies", "25", "--only-bodies"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    return "" if done.returncode == 0 else done.stdout[-4000:] + done.stderr[-2000:]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runtime", default="cuda", choices=["cuda", "simt"])
    parser.add_argument("--bodies", type=int, default=700)
    parser.add_argument("--only-bodies", action="store_true")
    options = parser.parse_args()
    os.environ["DIFFUSE_RUNTIME"] = options.runtime
    from diffuse.runtime import make

    runtime: Any = make(options.runtime)
    if options.runtime == "cuda":
        gpu = runtime.gpu
        print(f"{gpu.name()}, {gpu.architecture()}, CUDA {gpu.version}, {gpu.memory()[1] >> 20} MiB")
    start = time.perf_counter()
    good, hosted, bad = bodies(runtime, 0, options.bodies)
    print(f"{good} random bodies agree bit for bit, {hosted} of them on the host, {len(bad)} differ: "
          f"{time.perf_counter() - start:.0f} s")
    if not options.only_bodies:
        started, wrong = launches(options.runtime, options.bodies // 4)
        print(f"{started} launches from Legate's messages agree bit for bit, {len(wrong)} do not")
        bad += wrong
        wrong = applications(options.runtime)
        print("applications: " + ("all agree bit for bit" if not wrong else "; ".join(wrong)))
        bad += wrong
        if options.runtime == "cuda" and shutil.which("compute-sanitizer"):
            for tool in TOOLS:
                said = sanitized(tool, options.runtime)
                print(f"compute-sanitizer {tool}: {'nothing found' if not said else said}")
                bad += [tool] if said else []
        elif options.runtime == "cuda":
            print("compute-sanitizer is not installed: its tools were not run")
    for line in bad[:10]:
        print(line)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

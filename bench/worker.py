"""One contender in a process of its own: commands in, measurements out, one JSON object a line.

    python bench/worker.py APPLICATION CONTENDER '{"size": ..., "dtype": ...}'

A process of its own makes the peak of memory, the first call and the environment the contender's own.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import resource
import sys
import time
import traceback
from functools import partial
from pathlib import Path
from typing import Any

import child
import machine
from case import ROOT, Case, Peer, on_cupynumeric


def memory(field: str) -> int:
    """Bytes of this process now ("VmRSS") or at most ("VmHWM").

    Not ru_maxrss where it can be helped: a process inherits that from the one that started it.
    """
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(field):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def forget() -> dict[str, Any]:
    """The peak so far; from here on "VmHWM" is that of what follows, where the system allows it."""
    peak = memory("VmHWM")
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return {"peak": peak}


def timed(peer: Peer, iterations: int) -> dict[str, Any]:
    """Seconds an iteration, and what the counters gained an iteration."""
    before = peer.counters()
    cpu, start = time.process_time(), time.perf_counter()
    for _ in range(iterations):
        peer.step()
    issued = time.perf_counter()
    peer.wait()
    end = time.perf_counter()
    gained = {name: (n - before.get(name, 0)) / iterations for name, n in peer.counters().items()}
    return {"seconds": (end - start) / iterations, "issue": (issued - start) / iterations,
            "cpu": (time.process_time() - cpu) / iterations, "gained": gained}


def save(peer: Peer, folder: str) -> dict[str, Any]:
    import numpy as np

    peer.wait()
    for name, array in peer.results().items():
        np.save(Path(folder) / f"{name}.npy", np.asarray(array))
    return {}


def window() -> int | None:
    """Tasks that Diffuse's window holds by now; None where there is no Diffuse."""
    engine = sys.modules.get("diffuse.stream.engine")
    return engine.current().window.size if engine else None


def answer(peer: Peer, command: dict[str, Any]) -> dict[str, Any]:
    """Do one of the parent's commands."""
    if "run" in command:
        return timed(peer, command["run"])
    if "save" in command:
        return save(peer, command["save"])
    if "forget" in command:
        return forget()
    if "settle" in command:
        machine.settle()
        return {}
    return {"peak": memory("VmHWM"), "rss": memory("VmRSS"), "counters": peer.counters(), "window": window()}


def main() -> None:
    answers = child.answers()
    sys.path.append(str(ROOT))
    name, contender, options = sys.argv[1:4]
    try:
        case: Case = importlib.import_module(name).CASE
        args = argparse.Namespace(**json.loads(options))
        start = time.perf_counter()
        peer = {"cupynumeric": on_cupynumeric(name), **case.contenders}[contender](args)
        peer.wait()
        child.say({"ready": time.perf_counter() - start, "started": peer.started, "rss": memory("VmRSS"),
                   "peak": memory("VmHWM")}, answers)
        child.serve(partial(answer, peer), answers)
    except ImportError as error:
        child.say({"missing": str(error)}, answers)
    except Exception as error:
        traceback.print_exc()
        child.say({"failed": f"{type(error).__name__}: {error}"}, answers)


if __name__ == "__main__":
    main()

"""What one launch costs apart from its kernel: processor time in the runtime's calls and on its threads.

Tasks of sixteen elements, one operation each, on arrays of their own and with a new array for each result.
The main thread's share is measured inside the runtime's `launch`, `create` and `release`: what recording and
planning cost is in overheads.py.  All of the rest of the process's time is the runtime's.

"cuda, no device" is the runtime for NVIDIA's GPUs over the driver of the tests, which notes launches and does
nothing: it is what the program's thread does for a launch, without the driver's own share.

Beside it stands an empty task of Legate's on three stores, made through Legate's Python interface, one after
another: with nothing else in the processor's caches, the least that a task costs there.
"""

from __future__ import annotations

import argparse
import math
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable
from typing import Any

import child
import contenders
import report
import table
from case import ROOT
from contenders import LEGATE, LOCAL, MANY, STUB

Measures = dict[str, Any]
SHAPE = (8, 2)      # a single dimension is cut at multiples of 512 only
MAIN, TOTAL = 25e-6, 250e-6
DEVICE = 3e-6
SMALLEST = {"DIFFUSE_SMALL": "0", "DIFFUSE_MIN_CHUNK": "1", "DIFFUSE_WINDOW_SIZE": "1",
            "DIFFUSE_COMPILE": "wait"}


class Meter:
    """The main thread's seconds inside the calls of a runtime."""

    def __init__(self, runtime: Any) -> None:
        self.seconds = 0.0
        self.launches = self.calls = 0
        self.points = 0
        self.clock = self.own()
        """The cost of reading the clock twice, which is subtracted from the time of each call."""
        for name in ("launch", "create", "release"):
            setattr(type(runtime), name, self.timed(name, getattr(type(runtime), name)))

    def timed(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def measured(*args: Any, **options: Any) -> Any:
            start = time.thread_time()
            try:
                return call(*args, **options)
            finally:
                self.seconds += time.thread_time() - start
                self.calls += 1
                if name == "launch":
                    self.launches += 1
                    self.points = max(self.points, args[1].points)

        return measured

    def own(self) -> float:
        """Seconds that this meter finds in a call of nothing."""
        nothing, found = self.timed("nothing", lambda: None), []
        for _ in range(9):
            self.seconds = 0.0
            for _ in range(1000):
                nothing()
            found.append(self.seconds / 1000)
        return statistics.median(found)

    def sample(self, operation: Callable[[], Any], wait: Callable[[], None], count: int) -> Measures:
        """Seconds a launch: on the main thread, on all threads, by the clock."""
        wait()
        self.seconds, self.launches, self.calls = 0.0, 0, 0
        main, total, clock = time.thread_time(), time.process_time(), time.perf_counter()
        for _ in range(count):
            operation()
        wait()
        main, total = time.thread_time() - main, time.process_time() - total
        clock = time.perf_counter() - clock
        self.seconds -= self.calls * self.clock
        n = max(1, self.launches)
        return {"main": self.seconds / n, "total": (total - main + self.seconds) / n, "wall": clock / n}


def empty(runtime: Any, wait: Callable[[], None], count: int) -> Measures:
    """Seconds a task of Legate's that does nothing: three stores, as many points as Legate processors."""
    from diffuse.ir import Store
    from diffuse.runtime.legate import message
    from diffuse.runtime.legate.instances import LegateInstance
    from diffuse.runtime.legate.requirements import shared

    place, points = runtime.placement, runtime.processors
    parts = []
    for _ in range(3):
        instance = LegateInstance(Store(-1, SHAPE, "float64"))
        place.store(instance).fill(0.0)
        tiles = ((0, 0, SHAPE[0] // points),)
        parts.append(place.part(instance, shared(SHAPE, tiles), (points,)))
        if place.alone:
            parts[-1] = (place.store(instance),)
    words = message.Message(message.RUN, 0, 1, 0, 0, 0, 0, bytes(300)).pack(0, 0, False, (), b"")
    wait()
    main, total = time.thread_time(), time.process_time()
    for _ in range(count):
        task = place.task((points,))
        task.add_input(*parts[0])
        task.add_input(*parts[1])
        task.add_output(*parts[2])
        place.send(task, words)
    submitted = time.thread_time() - main
    wait()
    main, total = time.thread_time() - main, time.process_time() - total
    return {"main": submitted / count, "total": (total - main + submitted) / count}


def costs(options: Measures) -> Measures:
    """In the child: both programs, on the runtime that the environment names."""
    import diffuse.numpy as np
    from diffuse.stream import engine

    runtime = engine.current().runtime
    meter = Meter(runtime)
    a, b, c = np.ones(SHAPE), np.ones(SHAPE), np.zeros(SHAPE)
    found: Measures = {}
    programs: dict[str, Callable[[], Measures]] = {
        "in place": lambda: meter.sample(lambda: np.add(a, b, out=c), engine.fence, options["count"]),
        "new array": lambda: meter.sample(lambda: a + b, engine.fence, options["count"])}
    if runtime.name == "legate":
        programs["empty task"] = lambda: empty(runtime, engine.fence, options["count"])
    samples: dict[str, list[Measures]] = {name: [] for name in programs}
    for _ in range(options["repeats"] + 1):
        for name, program in programs.items():
            samples[name].append(program())
    for name, (_, *rest) in samples.items():
        found[name] = {key: statistics.median(sample[key] for sample in rest) for key in rest[0]}
    return found | {"points": meter.points}


def measure(args: argparse.Namespace, cache: str) -> Measures:
    """Each runtime in a process of its own."""
    options = {"count": 200 if args.quick else 1000, "repeats": args.rounds}
    found = {name: child.ask(__file__, name, options,
                             contenders.environment(name, args.threads, cache) | SMALLEST)
             for name in (LOCAL, LEGATE, MANY)}
    with child.scratch() as folder:
        driver = {"LD_LIBRARY_PATH": folder} if stub(folder) else None
        found[STUB] = {"absent": "a C compiler builds the driver"} if driver is None else child.ask(
            __file__, STUB, options, contenders.environment(STUB, args.threads, cache) | SMALLEST | driver)
    return found


def stub(folder: str) -> bool:
    """Build the driver without a device in a folder."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    command = [str(compiler), "-O2", "-shared", "-fPIC", "-o", f"{folder}/libcuda.so.1",
               str(ROOT / "tests" / "libcuda.c")]
    return compiler is not None and subprocess.run(command).returncode == 0


def goals(result: Measures) -> list[Measures]:
    found = result[STUB]
    on_device = report.goal(f"{STUB}: microseconds a launch, main thread", DEVICE * 1e6,
                            found["in place"]["main"] * 1e6 if "in place" in found else None, at_least=False)
    return [on_device] + [report.goal(f"{name}: microseconds a launch, {what}", limit * 1e6,
                        result[name]["in place"][key] * 1e6 if "in place" in result[name] else None,
                        at_least=False)
            for name in (LEGATE, MANY)
            for what, key, limit in (("main thread", "main", MAIN), ("all threads", "total", TOTAL))]


def text(result: Measures) -> str:
    programs = ("in place", "new array")
    found = {name: c for name, c in result.items() if "absent" not in c}
    header = ("runtime", "points", *(f"{program}, {what}" for program in programs
                                     for what in ("main", "total", "wall")),
              "empty task, main", "total")
    rows = [[name, str(c["points"]), *(table.seconds(c[program][key]) for program in programs
                                       for key in ("main", "total", "wall")),
             *(table.seconds(c["empty task"][key]) if "empty task" in c else "-"
               for key in ("main", "total"))]
            for name, c in found.items()]
    title = (f"a launch of {math.prod(SHAPE)} elements, three stores; wall: with recording; "
             "last: an empty task of Legate's")
    absent = [f"{name}: {c['absent']}" for name, c in result.items() if "absent" in c]
    return "\n".join([table.render(title, header, rows), *absent])


if __name__ == "__main__":
    child.answer(dict.fromkeys((LOCAL, LEGATE, MANY, STUB), costs))

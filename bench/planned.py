"""Programs under the partition of the stream, one named by hand, and the one that `diffuse.plan` finds.

    python bench/planned.py [--quick] [--ranks 2 4] [--only PROGRAM] [--time] [--json FILE]

Bytes and messages of a turn are counted for predicted ranks (`diffuse run --predict`), which a test holds
against what real ranks send.  What the plan itself says of its bytes, and the time by the model of the
machine, which plans compare, stand beside them.  By hand the training steps are data parallel: each operation
before the loss by parts of the batch; where these do not divide, that row is left out, with the reason.  With
`--time` the programs run on real ranks over MPI, too: processes of this machine, for which what is sent costs
little.  The file is also the program that `diffuse run` runs.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

Measures = dict[str, Any]
Step = Callable[[Any], Any]
ROOT = Path(__file__).resolve().parent.parent
RANKS, QUICK = (2, 4), (4,)
WARM_UP, COUNTED = 6, 4
PATIENCE = 300
WAYS = ("default", "by hand", "planned")
FEWER = 1.3
"""How many times fewer bytes the products, the attention and the sweeps of both directions shall move."""
APPS = {"matmul": ("--size", "512"), "attention": (), "stencil": ("--size", "512"),
        "gmg": ("--size", "256"), "channel_flow": ("--size", "257"), "shallow_water": ("--size", "256")}
"""The options of programs of apps/; `gmg` is conjugate gradients with a multigrid cycle."""
HERE = ("sweeps", "transformer", "residual network")
PROGRAMS = (*APPS, *HERE)
PLAINLY = ("matmul", "attention", "sweeps")
"""Programs in which traffic dominates."""
GRIDS: dict[str, Callable[[int], dict[str, int]]] = {
    "matmul": lambda ranks: {"i": 2, "j": ranks // 2}, "stencil": lambda ranks: {"i": 2, "j": ranks // 2}}
"""The grids that one would name for all operations of a program at once; those of `HERE` name their own."""


def sweeps(np: Any, ranks: int, way: str) -> tuple[Any, Step]:
    """Implicit steps by turns along both directions, whose recurrences are running sums: what moves is
    transposed between them."""
    import diffuse

    n = 512
    u = np.arange(n * n * 1.0).reshape(n, n) % 7.0

    def step(u: Any) -> Any:
        for axis in (0, 1):
            points: Any = {"ji"[axis]: ranks}
            with diffuse.schedule(**points) if way == "by hand" else nullcontext():
                below = np.cumsum(u * 0.01, axis=axis)
                u = u * 0.5 + below / (1.0 + abs(below))
                u = u + np.cumsum(u, axis=axis) * 0.001
        return u

    return u, step


def descent(loss: Any, x: Any) -> Step:
    """A training step: gradients of a loss by its weights on some data, and weights moved against them."""
    import diffuse

    gradients = diffuse.grad(loss)

    def step(weights: Any) -> Any:
        found = gradients(weights, x)
        return {name: weight - 0.1 * found[name] for name, weight in weights.items()}

    return step


def batches(ranks: int, way: str) -> Any:
    """By hand, the grid of a part of a program in which the first dimension is the batch."""
    import diffuse

    return diffuse.schedule(i=ranks) if way == "by hand" else nullcontext()


def transformer(np: Any, ranks: int, way: str) -> tuple[Any, Step]:
    """A training step of one block of a transformer: attention by heads, and two products."""
    batch, places, features, heads = 8, 64, 128, 8
    random = np.random.default_rng(3)
    x = random.standard_normal((batch, places, features))
    shapes = {"q": 1, "k": 1, "v": 1, "o": 1, "up": 4, "down": 4}
    weights = {name: random.standard_normal(
        (features, n * features) if name != "down" else (n * features, features)) / features
        for name, n in shapes.items()}

    def apart(y: Any) -> Any:
        return y.reshape(batch, places, heads, -1).transpose(0, 2, 1, 3)

    def block(weights: Any, x: Any) -> Any:
        q, k, v = [apart(x @ weights[name]) for name in "qkv"]
        scores = q @ k.transpose(0, 1, 3, 2) / (features / heads) ** 0.5
        raised = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
        seen = raised / np.sum(raised, axis=-1, keepdims=True) @ v
        y = x + seen.transpose(0, 2, 1, 3).reshape(batch, places, features) @ weights["o"]
        return (y + np.maximum(y @ weights["up"], 0.0) @ weights["down"] - 1.0) ** 2

    def loss(weights: Any, x: Any) -> Any:
        with batches(ranks, way):
            found = block(weights, x)
        return np.mean(found)

    return weights, descent(loss, x)


def residual_network(np: Any, ranks: int, way: str) -> tuple[Any, Step]:
    """A training step of three residual blocks of convolutions of 3 x 3 on images of 16 x 16."""
    batch, side, channels = 32, 16, 16
    random = np.random.default_rng(3)
    x = random.standard_normal((batch, side, side, channels))
    weights = {f"w{n}": random.standard_normal((3, 3, channels, channels)) / (9 * channels) for n in range(6)}

    def convolved(x: Any, w: Any) -> Any:
        padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
        return sum([padded[:, i:i + side, j:j + side] @ w[i, j] for i in range(3) for j in range(3)])

    def loss(weights: Any, x: Any) -> Any:
        for n in range(0, 6, 2):
            with batches(ranks, way):
                x = x + convolved(np.maximum(convolved(x, weights[f"w{n}"]), 0.0), weights[f"w{n + 1}"])
        return np.mean((x - 1.0) ** 2)

    return weights, descent(loss, x)


def made(name: str, ranks: int, way: str) -> tuple[Any, Step]:
    """The state of a program at the start, and what makes the next one of it."""
    import numpy as np

    if name in HERE:
        return {"sweeps": sweeps, "transformer": transformer, "residual network": residual_network}[name](
            np, ranks, way)
    app = importlib.import_module(f"apps.{name}")
    parser = argparse.ArgumentParser()
    app.arguments(parser)

    def step(state: Any) -> Any:
        app.step(state)
        return state

    return app.setup(parser.parse_args(APPS[name])), step


def inside(name: str, way: str, target: str) -> None:
    """Count and time the turns of a program: runs as a program under `diffuse run`."""
    import diffuse
    from diffuse.runtime.mpi import traffic
    from diffuse.stream import engine

    runtime: Any = engine.current().runtime
    state, step = made(name, runtime.ranks, way)
    grid: Any = GRIDS[name](runtime.ranks) if way == "by hand" and name in GRIDS else {}
    region = diffuse.plan() if way == "planned" else nullcontext()

    def turn(state: Any) -> Any:
        with region, (
                diffuse.schedule(**grid) if grid else nullcontext()):
            return step(state)

    def sent() -> tuple[int, int]:
        return (0, 0) if traffic.kept is None else traffic.kept.total(runtime.over_ranks)

    try:
        for _ in range(WARM_UP):
            state = turn(state)
    except ValueError as error:
        if way != "by hand":
            raise
        if runtime.rank == 0:  # a grid that does not divide the loops of the program on so many ranks
            Path(target).write_text(json.dumps({"refused": str(error)}))
        return
    diffuse.fence()
    before, begun = sent(), time.perf_counter()
    for _ in range(COUNTED):
        state = turn(state)
    diffuse.fence()
    seconds, after = (time.perf_counter() - begun) / COUNTED, sent()
    if runtime.rank == 0:
        Path(target).write_text(json.dumps({
            "bytes": (after[0] - before[0]) / COUNTED, "messages": (after[1] - before[1]) / COUNTED,
            "seconds": seconds, **foreseen(str(region))}))


def foreseen(said: str) -> Measures:
    """What plans say of a turn, planned and by default: its bytes, and its seconds by the model of the
    machine."""
    found = re.findall(r"(\S+) bytes in (\S+) ms, (\S+) in (\S+) by default", said)
    totals = [sum([float(each[k].replace(",", "")) for each in found]) for k in range(4)]
    return {"told": [totals[0], totals[2]], "modelled": [totals[1] / 1e3, totals[3] / 1e3]}


def counted(name: str, way: str, options: list[str], cache: str) -> Measures:
    """What the turns of a program move and take on ranks that these options of `diffuse run` name."""
    environment = {**os.environ, "DIFFUSE_FALLBACK": "silent", "DIFFUSE_CACHE_DIR": cache,
                   "OPENBLAS_NUM_THREADS": "1", "DIFFUSE_SMALL": "0", "DIFFUSE_MIN_CHUNK": "1024",
                   "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))}
    with tempfile.TemporaryDirectory(prefix="diffuse-bench-") as folder:
        target = Path(folder, "found.json")
        command = [sys.executable, "-m", "diffuse", "run", *options, __file__, "--inside", name, way,
                   str(target)]
        done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True,
                              timeout=PATIENCE)
        if done.returncode or not target.exists():
            said = (done.stderr.splitlines() or ["no message"])[-1]
            raise SystemExit(f"{name} {way} {' '.join(options)}: status {done.returncode}: {said}")
        found: Measures = json.loads(target.read_text())
        return found


def measure(name: str, ranks: int, timed: bool, cache: str) -> Measures:
    """A program under each partition."""
    row: Measures = {"program": name, "ranks": ranks}
    for way in WAYS:
        if way == "by hand" and name not in (*GRIDS, *HERE):
            continue
        row[way] = counted(name, way, ["--predict", str(ranks)], cache)
        if timed and "refused" not in row[way]:
            row[way]["real"] = counted(name, way, ["--runtime", "mpi", "--ranks", str(ranks), "--cpus", "1",
                                                   "--traffic"], cache)
    return row


def goals(result: Measures) -> list[Measures]:
    import report

    found = []
    for row in result["rows"]:
        name = f"{row['program']} on {row['ranks']} ranks"
        planned, usual = row["planned"]["modelled"]
        found.append(report.goal(f"{name}: modelled time by default / planned", 1.0,
                                 (usual or 1.0) / (planned or 1.0)))
        if row["program"] in PLAINLY and row["ranks"] == 4:
            found.append(report.goal(f"{name}: bytes by default / planned", FEWER,
                                     (row["default"]["bytes"] + 1.0) / (row["planned"]["bytes"] + 1.0)))
    return found


def text(result: Measures) -> str:
    import report
    import table

    rows, refused = [], []
    for row in result["rows"]:
        for way in WAYS:
            found = row.get(way, {})
            if "refused" in found:
                refused.append(f"{row['program']} on {row['ranks']} ranks, {way}: {found['refused']}")
            elif found:
                real, told = found.get("real"), row["planned"]
                rows.append((row["program"], str(row["ranks"]), way,
                             "-" if way == "by hand" else f"{told['told'][way == 'default']:,.0f}",
                             f"{found['bytes']:,.0f}", f"{found['messages']:,.0f}",
                             "-" if way == "by hand" else table.seconds(told["modelled"][way == "default"]),
                             "-" if real is None else f"{real['bytes']:,.0f}",
                             "-" if real is None else table.seconds(real["seconds"])))
    head = ("program", "ranks", "partition", "bytes by plan", "bytes predicted", "messages", "modelled",
            "bytes sent", "time")
    return "\n".join([
        table.render("what a turn moves, all ranks together", head, rows), *refused,
        report.goal_table(result["goals"])])


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="partitions by default, by hand, and planned")
    parser.add_argument("--quick", action="store_true", help="4 ranks")
    parser.add_argument("--ranks", type=int, nargs="*")
    parser.add_argument("--only", nargs="*", default=PROGRAMS, help="programs: " + ", ".join(PROGRAMS))
    parser.add_argument("--time", action="store_true", help="on real ranks, too")
    parser.add_argument("--json", help="default bench/results/planned.json")
    parser.add_argument("--inside", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.inside:
        inside(*args.inside)
        return
    import harness
    import machine

    sys.path.insert(0, str(ROOT))
    result: Measures = {"bench": "planned", "rows": []}
    with tempfile.TemporaryDirectory(prefix="diffuse-bench-") as cache:
        for ranks in args.ranks or (QUICK if args.quick else RANKS):
            result["rows"] += [measure(name, ranks, args.time, cache) for name in args.only]
    result["goals"], result["machine"] = goals(result), machine.description(1)
    print(text(result))
    harness.keep(result, "planned", args.json)


if __name__ == "__main__":
    main()

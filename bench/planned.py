"""Programs under the partition of the stream, one named by hand, and the one that `diffuse.plan` finds.

    python bench/planned.py [--quick] [--ranks 2 4] [--only PROGRAM] [--time] [--link 1000] [--json FILE]

Bytes and messages of a turn are counted for predicted ranks (`diffuse run --predict`), which a test holds
against what real ranks send.  What the plan itself says of its bytes, and the time by the model of the
machine, which plans compare, stand beside them.  By hand the training steps are data parallel: each operation
before the loss by parts of the batch; the transformer also runs as in Megatron-LM, its products cut by heads
and by columns of the wide layer.  Where grids do not divide, that row is left out, with the reason.

With `--time` the programs run on real ranks over MPI, too: processes of this machine, for which what is sent
costs little.  All partitions of a program take turns within the same processes, and the median of the rounds
counts.  `--link` has these ranks talk by TCP over a link that carries so many Mbit/s for all of them
together: the loopback device of a network namespace of their own with a token bucket (Linux, as root).
`diffuse machine` measures it first, as a user would.  The file is also the program that `diffuse run` runs.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import statistics
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
WARM_UP, COUNTED, ROUNDS = 6, 4, 15
PATIENCE = 600
WAYS = ("default", "by hand", "Megatron", "planned")
FEWER = 1.3
"""How many times fewer bytes the products, the attention and the sweeps of both directions shall move; and
how many times faster they shall be where a link is limited."""
NOISE = 0.98
"""From this ratio of times on a partition counts as not slower: the medians of one partition that runs twice
within a job differ by up to 2 percent."""
LIMITED = ("unshare", "-n", "sh", "-c", "ip link set lo up && tc qdisc add dev lo root tbf rate \"$0\"mbit "
           "burst 256kb limit 64mb && exec \"$@\"")
"""Runs a command where the loopback device carries so many Mbit/s."""
APPS = {"matmul": ("--size", "512"), "attention": (), "stencil": ("--size", "512"),
        "gmg": ("--size", "256"), "channel_flow": ("--size", "257"), "shallow_water": ("--size", "256")}
"""The options of programs of apps/; `gmg` is conjugate gradients with a multigrid cycle."""
HERE = ("sweeps", "transformer", "residual network")
ALIKE = ("gmg",)
"""Programs of `APPS` for which the partition by hand names several grids, not one for all operations."""
PROGRAMS = (*APPS, *HERE)
PLAINLY = ("matmul", "attention", "sweeps")
"""Programs in which traffic dominates."""
COARSE = 1 << 12
"""Grids of fewer points stay on one rank in a multigrid cycle that is partitioned by hand."""
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


def columns(ranks: int, way: str) -> Any:
    """As in Megatron-LM, the grid of a part of a program that is cut by columns, or by heads."""
    import diffuse

    return diffuse.schedule(j=ranks) if way == "Megatron" else nullcontext()


def transformer(np: Any, ranks: int, way: str) -> tuple[Any, Step]:
    """A training step of one block of a transformer: attention by heads, and two products.  As in Megatron-LM
    products before heads and the wide layer are cut into columns, and attention by heads; those after them
    are the stream's, which moves less than ranks that add up terms (`diffuse.schedule(k=2)`) in the order of
    BLAS, one after another: 10.5 MB in all on 2 ranks instead of 14.6."""
    batch, places, features, heads = 8, 64, 128, 8
    random = np.random.default_rng(3)
    x = random.standard_normal((batch, places, features))
    shapes = {"q": 1, "k": 1, "v": 1, "o": 1, "up": 4, "down": 4}
    weights = {name: random.standard_normal(
        (features, n * features) if name != "down" else (n * features, features)) / features
        for name, n in shapes.items()}

    def apart(y: Any) -> Any:
        return y.reshape(batch, places, heads, -1).transpose(0, 2, 1, 3)

    def product(x: Any, w: Any) -> Any:
        if way != "Megatron":
            return x @ w
        with columns(ranks, way):
            return (x.reshape(batch * places, -1) @ w).reshape(batch, places, -1)

    def block(weights: Any, x: Any) -> Any:
        q, k, v = [apart(product(x, weights[name])) for name in "qkv"]
        with columns(ranks, way):
            scores = q @ k.transpose(0, 1, 3, 2) / (features / heads) ** 0.5
            raised = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
            seen = raised / np.sum(raised, axis=-1, keepdims=True) @ v
        y = x + seen.transpose(0, 2, 1, 3).reshape(batch, places, features) @ weights["o"]
        wide = np.maximum(product(y, weights["up"]), 0.0)
        return (y + wide @ weights["down"] - 1.0) ** 2

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


def multigrid(app: Any, ranks: int) -> Step:
    """Conjugate gradients with a multigrid cycle by hand: rows of matrices and vectors over ranks, and grids
    of few points on one rank."""
    import diffuse

    whole = app.cycle

    def cycle(grids: Any, b: Any, *sweeps: int) -> Any:
        with diffuse.schedule(i=ranks if len(b) >= COARSE else 1, uneven=True):
            return whole(grids, b, *sweeps)

    def step(state: Any) -> Any:
        app.cycle = cycle  # which calls itself for the next grid
        try:
            with diffuse.schedule(i=ranks, uneven=True):
                app.step(state)
        finally:
            app.cycle = whole
        return state

    return step


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

    return app.setup(parser.parse_args(APPS[name])), (
        multigrid(app, ranks) if way == "by hand" and name in ALIKE else step)


def ways_of(name: str) -> tuple[str, ...]:
    """The partitions under which a program runs."""
    known = {"by hand": (*GRIDS, *HERE, *ALIKE), "Megatron": ("transformer",)}
    return tuple([way for way in WAYS if name in known.get(way, (name,))])


class Running:
    """A program that runs under one partition, a few turns at a time."""

    def __init__(self, name: str, way: str, runtime: Any) -> None:
        import diffuse

        self.state, self.step = made(name, runtime.ranks, way)
        self.grid: Any = GRIDS[name](runtime.ranks) if way == "by hand" and name in GRIDS else {}
        self.region: Any = diffuse.plan() if way == "planned" else nullcontext()
        self.runtime, self.refused = runtime, ""
        self.rounds: list[list[float]] = []
        try:
            self.turns(WARM_UP)
        except ValueError as error:  # a grid that does not divide the loops of the program on so many ranks
            if way not in ("by hand", "Megatron"):
                raise
            self.refused = str(error)

    def turns(self, count: int) -> None:
        import diffuse

        for _ in range(count):
            with self.region, diffuse.schedule(**self.grid) if self.grid else nullcontext():
                self.state = self.step(self.state)
        diffuse.fence()

    def round(self) -> None:
        """Some turns, of which bytes, messages and time are kept."""
        before, begun = self.sent(), time.perf_counter()
        self.turns(COUNTED)
        seconds, after = time.perf_counter() - begun, self.sent()
        self.rounds.append([n / COUNTED for n in (seconds, after[0] - before[0], after[1] - before[1])])

    def sent(self) -> tuple[int, int]:
        from diffuse.runtime.mpi import traffic

        found = (0, 0) if traffic.kept is None else traffic.kept.total(self.runtime.over_ranks)
        self.runtime.over_ranks(0)  # ranks begin together
        return found

    def found(self) -> Measures:
        if self.refused:
            return {"refused": self.refused}
        seconds, sent, messages = zip(*self.rounds, strict=True)
        return {"seconds": statistics.median(seconds), "bytes": sent[-1], "messages": messages[-1],
                **foreseen(str(self.region))}


def inside(name: str, ways: str, rounds: str, target: str) -> None:
    """Count and time the turns of a program under some partitions, which take turns: runs as a program under
    `diffuse run`."""
    from diffuse.stream import engine

    runtime: Any = engine.current().runtime
    running = {way: Running(name, way, runtime) for way in ways.split(",")}
    for _ in range(int(rounds)):
        for one in running.values():
            if not one.refused:
                one.round()
    found = {way: one.found() for way, one in running.items()}
    if runtime.rank == 0:
        Path(target).write_text(json.dumps(found))


def foreseen(said: str) -> Measures:
    """What plans say of a turn, planned and by default: its bytes, and its seconds by the model of the
    machine."""
    found = re.findall(r"(\S+) bytes in (\S+) ms, (\S+) in (\S+) by default", said)
    totals = [sum([float(each[k].replace(",", "")) for each in found]) for k in range(4)]
    return {"told": [totals[0], totals[2]], "modelled": [totals[1] / 1e3, totals[3] / 1e3]}


def environment(cache: str, link: int) -> dict[str, str]:
    more = {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,tcp", "OMPI_MCA_btl_tcp_if_include": "lo"}
    return {**os.environ, "DIFFUSE_FALLBACK": "silent", "DIFFUSE_CACHE_DIR": cache,
            "OPENBLAS_NUM_THREADS": "1", "DIFFUSE_SMALL": "0", "DIFFUSE_MIN_CHUNK": "1024",
            **(more if link else {}),
            "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))}


def ran(words: list[str], cache: str, link: int = 0) -> None:
    """Run a command of Diffuse, over a link of so many Mbit/s if that is not 0."""
    before = [*LIMITED, str(link)] if link else []
    done = subprocess.run([*before, sys.executable, "-m", "diffuse", *words], env=environment(cache, link),
                          cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)
    if done.returncode:
        said = (done.stderr.splitlines() or ["no message"])[-1]
        raise SystemExit(f"{' '.join(words)}: status {done.returncode}: {said}")


def counted(name: str, ways: tuple[str, ...], options: list[str], cache: str, rounds: int = 1, link: int = 0
            ) -> Measures:
    """What the turns of a program move and take on ranks that these options of `diffuse run` name, for each
    of some partitions."""
    with tempfile.TemporaryDirectory(prefix="diffuse-bench-") as folder:
        target = Path(folder, "found.json")
        ran(["run", *options, __file__, "--inside", name, ",".join(ways), str(rounds), str(target)], cache,
            link)
        found: Measures = json.loads(target.read_text())
        return found


def measure(name: str, ranks: int, timed: bool, link: int, cache: str) -> Measures:
    """A program under each partition."""
    row: Measures = {"program": name, "ranks": ranks}
    for way in ways_of(name):
        row |= counted(name, (way,), ["--predict", str(ranks)], cache)
    if timed:
        real = counted(name, ways_of(name), ["--runtime", "mpi", "--ranks", str(ranks), "--cpus", "1",
                                             "--traffic"], cache, ROUNDS, link)
        for way, found in real.items():
            row[way]["real"] = found
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
        real = [row[way]["real"]["seconds"] for way in ("default", "planned") if "real" in row[way]]
        if real:
            limited = result["link"] and row["ranks"] == 4 and row["program"] in PLAINLY
            found.append(report.goal(f"{name}: time by default / planned", FEWER if limited else NOISE,
                                     real[0] / real[1]))
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
                searched = way in ("default", "planned")
                rows.append((row["program"], str(row["ranks"]), way,
                             f"{told['told'][way == 'default']:,.0f}" if searched else "-",
                             f"{found['bytes']:,.0f}", f"{found['messages']:,.0f}",
                             table.seconds(told["modelled"][way == "default"]) if searched else "-",
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
    parser.add_argument("--link", type=int, default=0, metavar="MBIT",
                        help="on real ranks that share a link of so many Mbit/s")
    parser.add_argument("--json", help="default bench/results/planned.json")
    parser.add_argument("--inside", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.inside:
        inside(*args.inside)
        return
    import harness
    import machine

    sys.path.insert(0, str(ROOT))
    result: Measures = {"bench": "planned", "link": args.link, "rows": []}
    with tempfile.TemporaryDirectory(prefix="diffuse-bench-") as cache:
        for ranks in args.ranks or (QUICK if args.quick else RANKS):
            if args.link:
                ran(["machine", "--ranks", str(ranks)], cache, args.link)
            result["rows"] += [measure(name, ranks, args.time or args.link > 0, args.link, cache)
                               for name in args.only]
    result["goals"], result["machine"] = goals(result), machine.description(1)
    print(text(result))
    harness.keep(result, "planned", args.json)


if __name__ == "__main__":
    main()

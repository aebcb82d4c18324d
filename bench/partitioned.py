"""The programs of bench/planned.py, and the partitions that one would name for them by hand.

By hand training steps are data parallel: each operation before the loss by parts of the batch; the
transformer also runs as in Megatron-LM, its products cut by heads and by columns of the wide layer.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

Step = Callable[[Any], Any]
WAYS = ("default", "by hand", "Megatron", "planned")
APPS = {"matmul": ("--size", "512"), "attention": (), "stencil": ("--size", "512"),
        "gmg": ("--size", "256"), "channel_flow": ("--size", "257"), "shallow_water": ("--size", "256")}
"""The options of programs of apps/; `gmg` is conjugate gradients with a multigrid cycle."""
HERE = ("sweeps", "transformer", "residual network", "chain")
CHAIN = 500
"""The operations of a turn of `chain`."""
ALIKE = ("gmg",)
"""Programs of `APPS` for which the partition by hand names several grids, not one for all operations."""
PROGRAMS = (*APPS, *HERE)
COARSE = 1 << 12
"""Grids of fewer points stay on one rank in a multigrid cycle that is partitioned by hand."""
GRIDS: dict[str, Callable[[int], dict[str, int]]] = {
    "matmul": lambda ranks: {"i": 2, "j": ranks // 2}, "stencil": lambda ranks: {"i": 2, "j": ranks // 2}}
"""The grids that one would name for all operations of a program at once; those of `HERE` name their own."""


def sweeps(np: Any, ranks: int, way: str) -> tuple[Any, Step]:
    """Alternating-direction implicit steps on a square grid: running sums along rows stand for one solve, and
    those along columns for the other.  Between the two the grid is redistributed."""
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


def chain(np: Any, ranks: int, way: str) -> tuple[Any, Step]:
    """Many operations on few elements, whose time is that of recording them.  Two of them are running sums,
    so that a plan has something to choose."""
    u = np.arange(64 * 48.0).reshape(64, 48) % 7.0

    def step(u: Any) -> Any:
        for axis in (0, 1):
            u = u + np.cumsum(u, axis=axis) * 0.001
            u = abs(u) * 0.5
            for _ in range(CHAIN // 10 - 1):
                u = (u * 0.5 + 1.5) * 0.25 - u * 0.125
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
        return {"sweeps": sweeps, "transformer": transformer, "residual network": residual_network,
                "chain": chain}[name](np, ranks, way)
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
    by_hand = (*GRIDS, "sweeps", "transformer", "residual network", *ALIKE)
    known = {"by hand": by_hand, "Megatron": ("transformer",)}
    return tuple([way for way in WAYS if name in known.get(way, (name,))])

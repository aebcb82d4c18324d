"""Self-attention by heads, as in a layer of a transformer, applied to what it returned before.

Source: A. Vaswani et al., "Attention is all you need", 2017, sections 3.2.1 and 3.2.2; split by heads as in
"Partition work, not data" and in Megatron-LM: everything but the sum over the heads is a head's own affair.
BERT-large has 8 batches of 512 places, 1,024 features and 16 heads.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from dataclasses import dataclass

import numpy as np


@dataclass
class State:
    x: np.ndarray           # (batches * places, features)
    wq: np.ndarray          # (heads, features, features of a head), and so wk and wv
    wk: np.ndarray
    wv: np.ndarray
    wo: np.ndarray          # (heads, features of a head, features)
    batches: int
    weights: np.ndarray     # what was looked at last: (heads, batches, places, places)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--size", type=int, default=256, help="places")
    parser.add_argument("--batches", type=int, default=2)
    parser.add_argument("--features", type=int, default=512)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--dtype", default="float64", choices=["float32", "float64"])
    parser.add_argument("--iterations", type=int, default=5)


def setup(args: argparse.Namespace) -> State:
    random = np.random.default_rng(7)
    e, h = args.features, args.heads
    x = random.standard_normal((args.batches * args.size, e)).astype(args.dtype)
    shapes = [(h, e, e // h)] * 3 + [(h, e // h, e)]
    wq, wk, wv, wo = [(random.standard_normal(shape) / math.sqrt(e)).astype(args.dtype) for shape in shapes]
    return State(x, wq, wk, wv, wo, args.batches, np.ones((h, args.batches, 1, 1), args.dtype))


def step(state: State) -> None:
    h, e, d = state.wq.shape
    x = np.broadcast_to(state.x, (h, *state.x.shape))
    q, k, v = [(x @ w).reshape(h, state.batches, -1, d) for w in (state.wq, state.wk, state.wv)]
    scores = (q @ k.transpose(0, 1, 3, 2)) / math.sqrt(d)
    weights = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
    state.weights = weights / np.sum(weights, axis=-1, keepdims=True)
    seen = (state.weights @ v).reshape(h, -1, d)
    y = state.x + np.sum(seen @ state.wo, axis=0)
    state.x = (y - np.mean(y, axis=1, keepdims=True)) / np.std(y, axis=1, keepdims=True)


def results(state: State) -> dict[str, np.ndarray]:
    return {"x": state.x, "weights": state.weights}


def check(state: State) -> tuple[str, float, float]:
    """Weights sum to one; features are normal."""
    off = float(np.max(np.abs(np.sum(state.weights, axis=-1) - 1.0)))
    wide = float(np.max(np.abs(np.mean(state.x * state.x, axis=1) - 1.0)))
    return "weights or features are off by", max(off, wide), 1e-12 if state.x.dtype == np.float64 else 1e-4


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="self-attention by heads")
    arguments(parser)
    args = parser.parse_args(argv)
    state = setup(args)
    start = time.perf_counter()
    for iteration in range(1, args.iterations + 1):
        step(state)
    print(f"iteration {iteration:4}  largest {np.max(state.x):.6f}  {time.perf_counter() - start:9.3f} s")
    what, error, bound = check(state)
    print(f"check: {what} {error:.3g} (at most {bound:.3g})")
    if not error <= bound:
        sys.exit("check failed")


if __name__ == "__main__":
    main()

"""Softmax of attention scores along their last dimension, with a scale and a mask.

Source: the fused softmax that "Partition work, not data" splits along the first three dimensions, on scores
of 8 batches, 16 heads and 512 by 512 places at full size.  A place sees no place behind it.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass

import numpy as np


@dataclass
class State:
    x: np.ndarray           # (batches, heads, places, places): the scores
    mask: np.ndarray        # (places, places): may a place see another one?
    y: np.ndarray


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--size", type=int, default=512, help="places")
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--dtype", default="float64", choices=["float32", "float64"])
    parser.add_argument("--iterations", type=int, default=5)


def setup(args: argparse.Namespace) -> State:
    shape = args.batches, args.heads, args.size, args.size
    place = np.arange(args.size)
    row = (np.arange(args.batches * args.heads) % 5).reshape(shape[:2])[:, :, None, None]
    x = (((place[:, None] * 3 + place[None, :] * 7) % 23) / 4.0 + row).astype(args.dtype)
    return State(x, place[:, None] >= place[None, :], np.zeros_like(x))


def step(state: State) -> None:
    x = np.where(state.mask, 0.125 * state.x, -np.inf)
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    state.y = e / np.sum(e, axis=-1, keepdims=True)
    state.x = state.x + state.y


def results(state: State) -> dict[str, np.ndarray]:
    return {"y": state.y}


def check(state: State) -> tuple[str, float, float]:
    """Weights sum to one, and places behind have none."""
    off = float(np.max(np.abs(np.sum(state.y, axis=-1) - 1.0)))
    behind = float(np.max(np.where(state.mask, 0.0, state.y)))
    return "weights are off by", max(off, behind), 1e-13 if state.y.dtype == np.float64 else 1e-5


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="softmax of attention scores")
    arguments(parser)
    args = parser.parse_args(argv)
    state = setup(args)
    start = time.perf_counter()
    for iteration in range(1, args.iterations + 1):
        step(state)
    print(f"iteration {iteration:4}  largest {np.max(state.y):.6f}  {time.perf_counter() - start:9.3f} s")
    what, error, bound = check(state)
    print(f"check: {what} {error:.3g} (at most {bound:.3g})")
    if not error <= bound:
        sys.exit("check failed")


if __name__ == "__main__":
    main()

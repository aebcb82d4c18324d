"""Operators to describe and to discover: plain functions on NumPy arrays, with operands for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from diffuse.spec import Indexing, OpSpec

Operator = tuple[Callable[..., Any], tuple[Any, ...]]


def softmax(x: Any) -> Any:
    raised = np.exp(x - x.max(-1, keepdims=True))
    return raised / raised.sum(-1, keepdims=True)


def attention(q: Any, k: Any, v: Any) -> Any:
    return softmax(q @ np.swapaxes(k, -1, -2)) @ v


def convolution(data: Any, filters: Any) -> Any:
    windows = np.lib.stride_tricks.sliding_window_view(data, filters.shape[2], 2)
    return np.einsum("bcxk,cok->box", windows, filters)


def padded_convolution(data: Any, filters: Any) -> Any:
    width = filters.shape[2] - 1
    return convolution(np.pad(data, ((0, 0), (0, 0), (width // 2, width - width // 2))), filters)


def stencil(x: Any) -> Any:
    p = np.pad(x, 1)
    return p[1:-1, 1:-1] + p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2]


def normalised(x: Any) -> Any:
    return (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True)


def cholesky(a: Any) -> Any:
    return np.linalg.cholesky(a @ np.swapaxes(a, 1, 2) + 50 * np.eye(a.shape[1]))


_f = np.random.default_rng(3).standard_normal

CATALOGUE: dict[str, tuple[Operator, str]] = {
    "matmul": ((np.matmul, (_f((8, 12)), _f((12, 16)))),
               "%0.0: gather 0 | %0.1, %1.0: sum | %1.1: gather 1"),
    "add": ((np.add, (_f((8, 12)), _f((8, 12)))), "%0.0, %1.0: gather 0 | %0.1, %1.1: gather 1"),
    "add a row": ((np.add, (_f((8, 12)), _f(12))), "%0.0: gather 0 | %0.1, %1.0: gather 1"),
    "add row and column": ((np.add, (_f((1, 12)), _f((8, 1)))), "%0.1: gather 1 | %1.0: gather 0"),
    "softmax": ((softmax, (_f((8, 4, 16)),)), "%0.0: gather 0 | %0.1: gather 1"),
    "layer normalisation": ((normalised, (_f((8, 16)),)), "%0.0: gather 0"),
    "sum": ((lambda x: x.sum(0), (_f((8, 16)),)), "%0.0: sum | %0.1: gather 0"),
    "max of negative": ((np.max, (-1 - np.abs(_f((8, 16))),)), "%0.0: max | %0.1: max"),
    "mean": ((np.mean, (_f((8, 16)),)), "%0.0: mean | %0.1: mean"),
    "transpose": ((np.transpose, (_f((8, 16)),)), "%0.0: gather 1 | %0.1: gather 0"),
    "flatten": ((np.ravel, (_f((8, 12)),)), "%0.0: gather 0 | %0.1: gather 0 block 6"),
    "concatenate": ((lambda *x: np.concatenate(x), (_f((8, 12)), _f((8, 12)), _f((8, 12)))),
                    "%0.0, %1.0, %2.0: gather 0 block 3 | %0.1, %1.1, %2.1: gather 1"),
    "concatenate unequal": ((lambda *x: np.concatenate(x), (_f((8, 12)), _f((5, 12)))),
                            "%0.1, %1.1: gather 1"),
    "outer": ((np.outer, (_f(8), _f(12))), "%0.0: gather 0 | %1.0: gather 1"),
    "dot": ((np.dot, (_f(8), _f(8))), "%0.0, %1.0: sum"),
    "stacked matmul": ((np.matmul, (_f((4, 8, 12)), _f((4, 12, 16)))),
                       "%0.0, %1.0: gather 0 | %0.1: gather 1 | %0.2, %1.1: sum | %1.2: gather 2"),
    "attention": ((attention, (_f((2, 4, 8, 16)), _f((2, 4, 12, 16)), _f((2, 4, 12, 20)))),
                  "%0.0, %1.0, %2.0: gather 0 | %0.1, %1.1, %2.1: gather 1 | %0.2: gather 2 | "
                  "%2.3: gather 3"),
    "convolution": ((convolution, (_f((8, 4, 34)), _f((4, 16, 3)))),
                    "%0.0: gather 0 | %0.1, %1.0: sum | %1.1: gather 1 | %0.2 border 0 2: gather 2"),
    "padded convolution": ((padded_convolution, (_f((8, 4, 34)), _f((4, 16, 3)))),
                           "%0.0: gather 0 | %0.1, %1.0: sum | %1.1: gather 1 | "
                           "%0.2 border 1 1: gather 2 trimmed 1 1"),
    "convolution of an even width": ((convolution, (_f((8, 5, 34)), _f((5, 16, 4)))),
                                     "%0.0: gather 0 | %0.1, %1.0: sum | %1.1: gather 1 | "
                                     "%0.2 border 0 3: gather 2"),
    "take": ((lambda x, i: x[i], (_f((8, 12)), np.arange(6) % 5)), "%0.1: gather 1 | %1.0: gather 0"),
    "cumsum": ((lambda x: np.cumsum(x, 1), (_f((8, 12)),)), "%0.0: gather 0"),
    "sort": ((lambda x: np.sort(x, 1), (_f((8, 12)),)), "%0.0: gather 0"),
    "stacked Cholesky": ((cholesky, (_f((6, 5, 5)),)), "%0.0: gather 0"),
    "stencil": ((stencil, (_f((8, 12)),)),
                "%0.0 border 1 1: gather 0 trimmed 1 1 | %0.1 border 1 1: gather 1 trimmed 1 1"),
}
"""Operators with the rules that discovery has to find (partitioning of papers/004, table of operators)."""


Label = tuple[frozenset[tuple[int, int]], frozenset[tuple[int, int]], bool]


def label(spec: OpSpec, loop: int) -> Label:
    """The dimensions that a loop moves along in what is read and what is written."""
    def moved(uses: tuple[Indexing, ...]) -> frozenset[tuple[int, int]]:
        return frozenset((use.operand, d) for use in uses for d, (_, terms) in enumerate(use.map.rows)
                         if any(k == loop for k, _ in terms))

    return moved(spec.reads), moved(spec.writes), spec.loops[loop].reduced


def labels(spec: OpSpec) -> set[Label]:
    """Those of all loops."""
    return {label(spec, k) for k in range(len(spec.loops))}

"""The operators of the networks of papers/004 (tables 2 to 4: GPT, wide ResNet, graph attention), as plain
functions on small arrays, each with its description in `diffuse.spec`'s language or as an Einstein sum."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from diffuse.spec import Opaque, OpSpec, Sum, describe, einsum, function
from tests.operators import label, labels, softmax


class Operator(NamedTuple):
    """One operator of a network."""

    function: Callable[..., Any]
    operands: tuple[Any, ...]
    rules: str
    """What discovery has to find."""
    spec: OpSpec
    """Its description, derived without running it."""
    missed: str = ""
    """The loops of the description that discovery does not find: those of windows, with each part of which go
    other rows of an image."""


def gelu(x: Any) -> Any:
    return 0.5 * x * (1.0 + np.tanh(0.7978845608 * (x + 0.044715 * x ** 3)))


def normalised(x: Any, scale: Any, shift: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * scale + shift


def losses(scores: Any, labels: Any) -> Any:
    """The mean of the losses of softmax and cross-entropy."""
    picked = np.take_along_axis(scores, labels[..., None], -1)[..., 0]
    return np.mean(np.log(np.exp(scores).sum(-1)) - picked)


def convolution(stride: int, pad: int) -> Callable[..., Any]:
    """A convolution of images, with squares of weights for each pair of channels."""
    def convolved(x: Any, w: Any) -> Any:
        x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
        height, width = [n - k + 1 for n, k in zip(x.shape[2:], w.shape[2:], strict=True)]
        found: Any = 0.0
        for k, m in np.ndindex(*w.shape[2:]):
            tap = x[:, :, k:k + height:stride, m:m + width:stride]
            found = found + (w[:, :, k, m].T @ tap.reshape(*tap.shape[:2], -1)).reshape(
                len(x), w.shape[1], *tap.shape[2:])
        return found

    return convolved


def batch_normalised(x: Any, scale: Any, shift: Any) -> Any:
    mean, variance = x.mean((0, 2, 3), keepdims=True), x.var((0, 2, 3), keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5) * scale[:, None, None] + shift[:, None, None]


def pooled(x: Any) -> Any:
    return x.reshape(*x.shape[:2], x.shape[2] // 2, 2, x.shape[3] // 2, 2).max((3, 5))


def elu(x: Any) -> Any:
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


def mean_of(spec: OpSpec) -> OpSpec:
    """The description of a mean, given that of the sum."""
    return replace(spec, reducer="mean")


def elementwise(*shapes: tuple[int, ...]) -> OpSpec:
    """The description of a function of each element of arrays of two to four dimensions, broadcast."""
    loops = "abcd"[:max(map(len, shapes))]
    return einsum(",".join([loops[len(loops) - len(shape):] for shape in shapes]) + "->" + loops, *shapes)


_random = np.random.default_rng(7)
_f = _random.standard_normal


def _i(most: int, *shape: int) -> Any:
    return _random.integers(0, most, shape)


B, S, T, H, F, N, D, V = 4, 6, 8, 10, 12, 2, 4, 14
"""Batch, places, places that are looked at, features, wide features, heads, features of a head, words."""

GPT: dict[str, Operator] = {
    "token embedding": Operator(
        lambda table, tokens: table[tokens], (_f((V, H)), _i(V, B, S)),
        "%0.1: gather 2 | %1.0: gather 0 | %1.1: gather 1",
        describe(lambda table, tokens: lambda b, s, h: function(table[:, h], tokens[b, s]), (V, H), (B, S))),
    "position embedding": Operator(
        np.add, (_f((B, S, H)), _f((S, H))),
        "%0.0: gather 0 | %0.1, %1.0: gather 1 | %0.2, %1.1: gather 2",
        elementwise((B, S, H), (S, H))),
    "layer normalisation": Operator(
        normalised, (_f((B, S, H)), _f(H), _f(H)),
        "%0.0: gather 0 | %0.1: gather 1",
        describe(lambda x, g, c: lambda b, s, h: Opaque(x[b, s, :], g[:], c[:])[h], (B, S, H), (H,), (H,),
                 h=H)),
    "query, key, value": Operator(
        np.matmul, (_f((B, S, H)), _f((H, F))),
        "%0.0: gather 0 | %0.1: gather 1 | %0.2, %1.0: sum | %1.1: gather 2",
        einsum("bsh,hf->bsf", (B, S, H), (H, F))),
    "heads apart": Operator(
        lambda x: x.transpose(0, 2, 1, 3), (_f((B, S, N, D)),),
        "%0.0: gather 0 | %0.1: gather 2 | %0.2: gather 1 | %0.3: gather 3",
        einsum("bsnd->bnsd", (B, S, N, D))),
    "scores": Operator(
        lambda q, k: q @ k.swapaxes(-1, -2) * 0.125, (_f((B, N, S, D)), _f((B, N, T, D))),
        "%0.0, %1.0: gather 0 | %0.1, %1.1: gather 1 | %0.2: gather 2 | %0.3, %1.3: sum | %1.2: gather 3",
        einsum("bnsd,bntd->bnst", (B, N, S, D), (B, N, T, D))),
    "causal mask": Operator(
        lambda x, mask: np.where(mask, x, -1e9), (_f((B, N, S, T)), _i(2, S, T) > 0),
        "%0.0: gather 0 | %0.1: gather 1 | %0.2, %1.0: gather 2 | %0.3, %1.1: gather 3",
        elementwise((B, N, S, T), (S, T))),
    "softmax": Operator(
        softmax, (_f((B, N, S, T)),),
        "%0.0: gather 0 | %0.1: gather 1 | %0.2: gather 2",
        describe(lambda x: lambda b, n, s, t: Opaque(x[b, n, s, :])[t], (B, N, S, T), t=T)),
    "dropout": Operator(
        lambda x, mask: x * mask / 0.9, (_f((B, N, S, T)), _i(2, B, N, S, T)),
        "%0.0, %1.0: gather 0 | %0.1, %1.1: gather 1 | %0.2, %1.2: gather 2 | %0.3, %1.3: gather 3",
        elementwise((B, N, S, T), (B, N, S, T))),
    "values": Operator(
        np.matmul, (_f((B, N, S, T)), _f((B, N, T, D))),
        "%0.0, %1.0: gather 0 | %0.1, %1.1: gather 1 | %0.2: gather 2 | %0.3, %1.2: sum | %1.3: gather 3",
        einsum("bnst,bntd->bnsd", (B, N, S, T), (B, N, T, D))),
    "projection of heads": Operator(
        lambda x, w: np.einsum("bsnd,ndf->bsf", x, w), (_f((B, S, N, D)), _f((N, D, F))),
        "%0.0: gather 0 | %0.1: gather 1 | %0.2, %1.0: sum | %0.3, %1.1: sum | %1.2: gather 2",
        einsum("bsnd,ndf->bsf", (B, S, N, D), (N, D, F))),
    "residual": Operator(
        np.add, (_f((B, S, H)), _f((B, S, H))),
        "%0.0, %1.0: gather 0 | %0.1, %1.1: gather 1 | %0.2, %1.2: gather 2",
        elementwise((B, S, H), (B, S, H))),
    "wide layer": Operator(
        lambda x, w, c: x @ w + c, (_f((B, S, H)), _f((H, F)), _f(F)),
        "%0.0: gather 0 | %0.1: gather 1 | %1.1, %2.0: gather 2",
        describe(lambda x, w, c: lambda b, s, f: function(x[b, s, :], w[:, f], c[f]), (B, S, H), (H, F),
                 (F,))),
    "GELU": Operator(
        gelu, (_f((B, S, H)),),
        "%0.0: gather 0 | %0.1: gather 1 | %0.2: gather 2",
        elementwise((B, S, H))),
    "loss": Operator(
        losses, (_f((B, S, V)), _i(V, B, S)),
        "%0.0, %1.0: mean | %0.1, %1.1: mean",
        mean_of(describe(lambda x, y: lambda: Sum(lambda b, s: function(x[b, s, :], y[b, s])), (B, S, V),
                         (B, S)))),
    "gradient of weights": Operator(
        lambda x, y: np.einsum("bsh,bsf->hf", x, y), (_f((B, S, H)), _f((B, S, F))),
        "%0.0, %1.0: sum | %0.1, %1.1: sum | %0.2: gather 0 | %1.2: gather 1",
        einsum("bsh,bsf->hf", (B, S, H), (B, S, F))),
    "gradient of softmax": Operator(
        lambda y, dy: y * (dy - (y * dy).sum(-1, keepdims=True)), (_f((B, N, S, T)), _f((B, N, S, T))),
        "%0.0, %1.0: gather 0 | %0.1, %1.1: gather 1 | %0.2, %1.2: gather 2",
        describe(lambda y, dy: lambda b, n, s, t: Opaque(y[b, n, s, :], dy[b, n, s, :])[t], (B, N, S, T),
                 (B, N, S, T), t=T)),
    "step of the optimiser": Operator(
        lambda w, dw: w - 0.1 * dw, (_f((H, F)), _f((H, F))),
        "%0.0, %1.0: gather 0 | %0.1, %1.1: gather 1",
        elementwise((H, F), (H, F))),
}
"""A block of GPT with its loss, and what its gradients need besides."""

C, M, P = 4, 6, 10
"""Channels in and out, and the side of an image."""

WIDE_RESNET: dict[str, Operator] = {
    "convolution": Operator(
        convolution(1, 1), (_f((B, C, P, P + 2)), _f((C, M, 3, 3))),
        "%0.0: gather 0 | %0.1, %1.0: sum | %1.1: gather 1 | %0.2 border 1 1: gather 2 trimmed 1 1 | "
        "%0.3 border 1 1: gather 3 trimmed 1 1",
        describe(lambda x, w: lambda b, o, i, j: Sum(lambda c, k, m: x[b, c, i + k, j + m] * w[c, o, k, m]),
                 (B, C, P + 2, P + 4), (C, M, 3, 3)), "km"),
    "convolution without border": Operator(
        convolution(1, 0), (_f((B, C, P, P + 2)), _f((C, M, 3, 3))),
        "%0.0: gather 0 | %0.1, %1.0: sum | %1.1: gather 1 | %0.2 border 0 2: gather 2 | "
        "%0.3 border 0 2: gather 3",
        describe(lambda x, w: lambda b, o, i, j: Sum(lambda c, k, m: x[b, c, i + k, j + m] * w[c, o, k, m]),
                 (B, C, P, P + 2), (C, M, 3, 3)), "km"),
    "strided convolution": Operator(
        convolution(2, 1), (_f((B, C, P, P + 2)), _f((C, M, 3, 3))),
        "%0.0: gather 0 | %0.1, %1.0: sum | %1.1: gather 1 | %0.2 border 2 0 step 2: gather 2 trimmed 1 0 | "
        "%0.3 border 2 0 step 2: gather 3 trimmed 1 0",
        describe(lambda x, w: lambda b, o, i, j:
                 Sum(lambda c, k, m: x[b, c, 2 * i + k, 2 * j + m] * w[c, o, k, m]),
                 (B, C, P + 2, P + 4), (C, M, 3, 3)), "km"),
    "shortcut": Operator(
        lambda x, w: np.einsum("bcij,co->boij", x, w), (_f((B, C, P, P + 2)), _f((C, M))),
        "%0.0: gather 0 | %0.1, %1.0: sum | %0.2: gather 2 | %0.3: gather 3 | %1.1: gather 1",
        einsum("bcij,co->boij", (B, C, P, P + 2), (C, M))),
    "batch normalisation": Operator(
        batch_normalised, (_f((B, C, P, P + 2)), _f(C), _f(C)),
        "%0.1, %1.0, %2.0: gather 1",
        describe(lambda x, g, s: lambda b, c, i, j: Opaque(x[:, c, :, :], g[c], s[c])[b, i, j],
                 (B, C, P, P + 2), (C,), (C,), b=B, i=P, j=P + 2)),
    "normalisation by known moments": Operator(
        lambda x, m, v: (x - m[:, None, None]) / np.sqrt(abs(v[:, None, None]) + 1e-5),
        (_f((B, C, P, P + 2)), _f(C), np.exp(_f(C))),
        "%0.0: gather 0 | %0.1, %1.0, %2.0: gather 1 | %0.2: gather 2 | %0.3: gather 3",
        describe(lambda x, m, v: lambda b, c, i, j: function(x[b, c, i, j], m[c], v[c]),
                 (B, C, P, P + 2), (C,), (C,))),
    "ReLU": Operator(
        lambda x: np.maximum(x, 0.0), (_f((B, C, P, P + 2)),),
        "%0.0: gather 0 | %0.1: gather 1 | %0.2: gather 2 | %0.3: gather 3",
        elementwise((B, C, P, P + 2))),
    "residual": Operator(
        np.add, (_f((B, C, P, P + 2)), _f((B, C, P, P + 2))),
        "%0.0, %1.0: gather 0 | %0.1, %1.1: gather 1 | %0.2, %1.2: gather 2 | %0.3, %1.3: gather 3",
        elementwise((B, C, P, P + 2), (B, C, P, P + 2))),
    "largest of squares": Operator(
        pooled, (_f((B, C, P, P + 2)),),
        "%0.0: gather 0 | %0.1: gather 1 | %0.2: gather 2 | %0.3 step 2: gather 3",
        describe(lambda x: lambda b, c, i, j: function(*[x[b, c, 2 * i + k, 2 * j + m] for k in (0, 1)
                                                         for m in (0, 1)]), (B, C, P, P + 2))),
    "mean of images": Operator(
        lambda x: x.mean((2, 3)), (_f((B, C, P, P + 2)),),
        "%0.0: gather 0 | %0.1: gather 1 | %0.2: mean | %0.3: mean",
        mean_of(einsum("bcij->bc", (B, C, P, P + 2)))),
    "classifier": Operator(
        np.matmul, (_f((B, C)), _f((C, M))),
        "%0.0: gather 0 | %0.1, %1.0: sum | %1.1: gather 1",
        einsum("bc,co->bo", (B, C), (C, M))),
    "loss": Operator(
        losses, (_f((B, M)), _i(M, B)),
        "%0.0, %1.0: mean",
        mean_of(describe(lambda x, y: lambda: Sum(lambda b: function(x[b, :], y[b])), (B, M), (B,)))),
}
"""A block of a wide residual network with its ends."""

G, K = 10, 3
"""Nodes of the graph, and heads."""

GAT: dict[str, Operator] = {
    "features": Operator(
        np.matmul, (_f((G, H)), _f((H, F))),
        "%0.0: gather 0 | %0.1, %1.0: sum | %1.1: gather 1",
        einsum("nh,hf->nf", (G, H), (H, F))),
    "terms of nodes": Operator(
        np.matmul, (_f((G, F)), _f(F)),
        "%0.0: gather 0 | %0.1, %1.0: sum",
        einsum("nf,f->n", (G, F), (F,))),
    "scores of pairs": Operator(
        np.add, (_f((G, 1)), _f((1, T))),
        "%0.0: gather 0 | %1.1: gather 1",
        describe(lambda x, y: lambda n, m: x[n, 0] + y[0, m], (G, 1), (1, T))),
    "leaky ReLU": Operator(
        lambda x: np.where(x > 0, x, 0.2 * x), (_f((G, T)),),
        "%0.0: gather 0 | %0.1: gather 1",
        elementwise((G, T))),
    "neighbours": Operator(
        lambda x, a: np.where(a > 0, x, -9e15), (_f((G, T)), _i(2, G, T)),
        "%0.0, %1.0: gather 0 | %0.1, %1.1: gather 1",
        elementwise((G, T), (G, T))),
    "softmax of neighbours": Operator(
        softmax, (_f((G, T)),),
        "%0.0: gather 0",
        describe(lambda x: lambda n, m: Opaque(x[n, :])[m], (G, T), m=T)),
    "dropout": Operator(
        lambda x, mask: x * mask / 0.4, (_f((G, T)), _i(2, G, T)),
        "%0.0, %1.0: gather 0 | %0.1, %1.1: gather 1",
        elementwise((G, T), (G, T))),
    "sum over neighbours": Operator(
        np.matmul, (_f((G, T)), _f((T, F))),
        "%0.0: gather 0 | %0.1, %1.0: sum | %1.1: gather 1",
        einsum("nm,mf->nf", (G, T), (T, F))),
    "ELU": Operator(
        elu, (_f((G, F)),),
        "%0.0: gather 0 | %0.1: gather 1",
        elementwise((G, F))),
    "heads side by side": Operator(
        lambda *x: np.concatenate(x, 1), (_f((G, F)), _f((G, F)), _f((G, F))),
        "%0.0, %1.0, %2.0: gather 0 | %0.1, %1.1, %2.1: gather 1 block 3",
        describe(lambda x, y, z: lambda n, f: Opaque(x[n, :], y[n, :], z[n, :])[f], (G, F), (G, F), (G, F),
                 f=3 * F)),
    "mean of heads": Operator(
        lambda x: x.mean(0), (_f((K, G, F)),),
        "%0.0: mean | %0.1: gather 0 | %0.2: gather 1",
        mean_of(einsum("knf->nf", (K, G, F)))),
    "logarithm of softmax": Operator(
        lambda x: x - np.log(np.exp(x).sum(1, keepdims=True)), (_f((G, F)),),
        "%0.0: gather 0",
        describe(lambda x: lambda n, f: Opaque(x[n, :])[f], (G, F), f=F)),
}
"""A layer of graph attention with its ends."""

NETWORKS = {"GPT": GPT, "wide ResNet": WIDE_RESNET, "GAT": GAT}


def missed(operator: Operator, found: OpSpec) -> set[str]:
    """The loops of an operator's description that the discovered one lacks; it has no others."""
    mine = labels(found)
    assert mine <= labels(operator.spec)
    return {loop.name for k, loop in enumerate(operator.spec.loops) if label(operator.spec, k) not in mine}

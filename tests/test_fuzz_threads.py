"""Several threads of a program record, wait and read at the same time: each has NumPy's results."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse.settings import using
from tests.outcomes import run_all

THREADS, PROGRAMS = 4, 6
STATEMENTS: tuple[Callable[[Any, Any, Any, Any], Any], ...] = (
    lambda m, a, b, c: a * 0.5 + b * 0.25 - c,
    lambda m, a, b, c: a[::-1] * 0.7 + b,
    lambda m, a, b, c: m.where(b > c, a, b * 0.5),
    lambda m, a, b, c: a - b.mean(axis=0, keepdims=True),
    lambda m, a, b, c: m.roll(a, 1, axis=0) + m.sqrt(abs(c)),
    lambda m, a, b, c: m.maximum(a, float((b * c).sum()) / b.size),
    lambda m, a, b, c: m.cumsum(a, axis=-1) * 0.01,
)
shared = numpy.random.default_rng(5).random((300, 200))


def programs(module: Any, whole: Any, seed: int) -> list[Any]:
    """Some programs one after another; a statement in three writes in place."""
    pick, found = random.Random(seed), []
    for _ in range(PROGRAMS):
        shape = pick.randint(20, 400), pick.randint(5, 200)
        arrays = [module.array(numpy.random.default_rng(k).random(shape)) for k in range(3)]
        for _ in range(pick.randint(4, 12)):
            a, b, c = (pick.choice(arrays) for _ in range(3))
            value = pick.choice(STATEMENTS)(module, a, b, c)
            if pick.random() < 0.3:
                a[1:-1] = value[2:] * 0.5
            else:
                arrays[pick.randrange(3)] = value
            if pick.random() < 0.2:
                found.append(float((whole * seed).sum()))
        found += arrays
    return found


@pytest.mark.parametrize("small", [0, 16384])
def test_threads_at_the_same_time(small: int) -> None:
    found: dict[int, list[Any]] = {}
    with using(small=small):
        whole = np.array(shared)
        threads = [threading.Thread(target=lambda seed=seed: found.update({seed: programs(np, whole, seed)}))
                   for seed in range(THREADS)]
        run_all(threads)
        for seed in range(THREADS):
            expected = programs(numpy, shared, seed)
            assert len(found[seed]) == len(expected)
            for one, other in zip(found[seed], expected, strict=True):
                assert numpy.allclose(numpy.asarray(one), other, rtol=1e-6, atol=1e-6)

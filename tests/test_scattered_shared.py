"""Steps of a loop on elements that lie far apart, as along the last axis of a stack, which threads share."""

from __future__ import annotations

import time
from typing import Any

import numpy
import pytest

import diffuse
import diffuse.numpy as np
from diffuse import library
from diffuse.numpy.arrays import soon
from diffuse.numpy.small import native
from diffuse.settings import using
from tests.around import around

pytestmark = [pytest.mark.skipif(native is None, reason="the extension is not there"),
              pytest.mark.local_only("arrays that were recorded are not at hand")]
SHAPE = 130, 120, 33
"""Few elements in a level, which are computed at once, and more levels than a processor's caches hold: a
launch that takes less than 8 us is not shared."""
LONGEST = 60.0
"""Seconds until launches are shared, at most: on a busy machine threads seldom get a turn."""

two_threads = around(using, small=16_384, runtime="local", threads=2, compile="wait")


def elimination(m: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """A forward sweep of a tridiagonal solve over the levels: products, temporaries and assignments."""
    upper, right = m.empty_like(a), m.empty_like(a)
    upper[:, :, 0] = 0.25
    right[:, :, 0] = a[:, :, 0] / b[:, :, 0]
    for k in range(1, SHAPE[2]):
        pivot = 1.0 / (b[:, :, k] - a[:, :, k] * upper[:, :, k - 1])
        upper[:, :, k] = a[:, :, k] * pivot
        right[:, :, k] = (b[:, :, k] - a[:, :, k] * right[:, :, k - 1]) * pivot
    return upper, right


def test_bits_are_numpys() -> None:
    pick = numpy.random.default_rng(3)
    plain = pick.random(SHAPE), pick.random(SHAPE) + 2.0
    want = elimination(numpy, *plain)
    ours = [np.array(x) for x in plain]
    diffuse.fence()
    runtime = library.current().runtime
    end = time.monotonic() + LONGEST
    while time.monotonic() < end:
        native.connect_team(soon._team)  # what earlier launches have lost by it counts no more
        launched = runtime.mark()
        found = elimination(np, *ours)
        assert [float(x[3, 4, 5]) for x in found] == [x[3, 4, 5] for x in want]
        shared = runtime.mark() - launched
        assert [numpy.asarray(x).tobytes() for x in found] == [x.tobytes() for x in want]
        if shared > 4:
            return
    raise AssertionError(f"nothing was shared in {LONGEST} seconds")

"""Measures the machine on which it runs as one of several ranks, and keeps that for plans.

`diffuse machine` starts it.  All ranks do the same at the same time, since that is how they work: messages go
round in a ring, and what takes processors or memory takes all of them at once.  Each time is the least of
several, and each number the mean over the ranks.
"""

from __future__ import annotations

import socket
import sys
import time
import zlib
from collections.abc import Callable
from typing import Any

import numpy

import diffuse
import diffuse.numpy as np
from diffuse.movement.machine import Machine, keep
from diffuse.settings import config
from diffuse.stream.engine import current

TIMES, SMALL_MESSAGES = 7, 50
LARGE = 8 << 20
"""Bytes of a large message."""
ELEMENTS, FEW = 1 << 21, 1 << 15
"""Elements on each rank of arrays that are larger than caches, and of those that fit."""
MORE = 64
"""Operations that a long kernel has more than a short one."""
STEPS: tuple[Callable[[Any], Any], ...] = (lambda y: y + 0.5, lambda y: y * 1.0625, np.sqrt)
"""The operations of these kernels, by turns."""
SIDE = 384
"""Rows and columns of the matrices that are multiplied."""
TAG = 1


def main() -> int:
    """Measure, keep and print: one of several ranks over MPI."""
    runtime: Any = current().runtime
    if runtime.ranks < 2 or runtime.network is None:
        print("diffuse machine: messages need at least two ranks over MPI", file=sys.stderr)
        return 2
    hosts = runtime.network.gather(zlib.crc32(socket.gethostname().encode()))
    near = max([hosts.count(host) for host in hosts])
    latency, bandwidth = _messages(runtime, 1)
    levels: tuple[tuple[int, float, float], ...] = ()
    if near < runtime.ranks and near > 1:  # neighbours on one node, then each with one of another node
        levels = ((near, latency, bandwidth),)
        latency, bandwidth = _messages(runtime, near)
    compute, memory = _kernels(runtime)
    found = Machine(latency, bandwidth, _additions(runtime), compute, memory, _products(runtime), levels)
    where = keep(found, config.cache_dir)
    if runtime.rank == 0:
        print(f"the machine as {runtime.ranks} ranks see it, kept in {where}:", *described(found), sep="\n")
    return 0


def described(machine: Machine) -> list[str]:
    """The numbers of a machine, one a line."""
    return [f"  a message           {1e6 * machine.latency:.1f} us and {machine.bandwidth / 1e9:.2f} GB/s",
             *[f"  within {size:4} ranks    {1e6 * latency:.1f} us and {bandwidth / 1e9:.2f} GB/s"
               for size, latency, bandwidth in machine.levels],
             f"  adding up           {machine.reduction / 1e9:.2f} GB/s",
             f"  fused operations    {machine.compute / 1e9:.2f} GB/s of results",
             f"  memory              {machine.memory / 1e9:.2f} GB/s",
             f"  products            {machine.products / 1e9:.2f} GFLOP/s"]


def _least(runtime: Any, run: Callable[[], object]) -> float:
    """The least seconds of several runs, which all ranks begin together; the mean over the ranks."""
    least = float("inf")
    for _ in range(TIMES):
        runtime.over_ranks(0)
        begun = time.perf_counter()
        run()
        least = min(least, time.perf_counter() - begun)
    return float(runtime.over_ranks(round(1e12 * least)) / runtime.ranks / 1e12)


def _messages(runtime: Any, distance: int) -> tuple[float, float]:
    """The seconds of a message to the rank at this distance in a ring, and its bytes a second."""
    rank, ranks, network = runtime.rank, runtime.ranks, runtime.network
    after, before = (rank + distance) % ranks, (rank - distance) % ranks

    def ring(count: int, size: int) -> float:
        sent, received = numpy.ones(size, numpy.uint8), numpy.empty(size, numpy.uint8)

        def run() -> None:
            for _ in range(count):
                network.exchange([(after, sent)], [(before, received)], TAG)

        return _least(runtime, run) / count

    latency = ring(SMALL_MESSAGES, 8)
    return latency, LARGE / max(ring(2, LARGE) - latency, 1e-9)


def _additions(runtime: Any) -> float:
    """The bytes a second that a rank adds to others."""
    one, other = numpy.ones(LARGE // 8), numpy.ones(LARGE // 8)
    return LARGE / _least(runtime, lambda: numpy.add(one, other, out=one))


def _kernels(runtime: Any) -> tuple[float, float]:
    """The bytes of results a second within a fused kernel, and the bytes a second from and to memory."""
    def operations(elements: int, count: int) -> float:
        x = np.arange(elements * runtime.ranks) * 1.0
        diffuse.fence()

        def run() -> None:
            y = x
            for k in range(count):
                y = STEPS[k % len(STEPS)](y)
            diffuse.fence()

        run()  # compiles
        return _least(runtime, run)

    with diffuse.settings.using(compile="wait", small=0):
        stream = operations(ELEMENTS, 1)
        short, long = operations(FEW, 1), operations(FEW, 1 + MORE)
    return MORE * FEW * 8 / max(long - short, long / 4), 2 * ELEMENTS * 8 / stream


def _products(runtime: Any) -> float:
    """The multiplications and additions a second in products of matrices."""
    one = numpy.ones((SIDE, SIDE))
    return 2.0 * SIDE**3 / _least(runtime, lambda: numpy.matmul(one, one))


if __name__ == "__main__":
    sys.exit(main())

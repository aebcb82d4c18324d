"""Runs NumPy's functions and compiled routines, both of which release Python's lock, on parts of arrays in
several threads.

The threads last as long as a call: starting one takes some 50 us, and there is none to stop, to fork or to
interrupt afterwards.  The caller waits for all of them in any case.
"""

from __future__ import annotations

import _thread
from collections.abc import Callable, Sequence
from contextvars import copy_context
from functools import partial
from typing import Any

import numpy

from diffuse import library

SHARE = 1 << 16
"""The fewest elements that are worth a thread of their own."""

Job = Callable[[], Any]


def threads() -> int:
    """The number of computing threads: that of the runtime."""
    running = library.current()
    return running.points if running.host_sees else 1


def parts(count: int, share: int = 0, step: int = 1) -> list[tuple[int, int]]:
    """Cut `count` elements into one range for each thread, each at least `share` long (0: SHARE), at
    multiples of `step`."""
    many = max(1, min(threads(), count // (share or SHARE)))
    ends = [count * k // many // step * step for k in range(many)] + [count]
    return list(zip(ends, ends[1:], strict=False))


def together(jobs: Sequence[Job]) -> list[Any]:
    """Run functions at the same time, one of them in this thread; returns their results in order.  Raises the
    exception of the first of them that failed, once all have ended.  NumPy's error modes, which are context
    variables, are the caller's in all threads."""
    results: list[Any] = [None] * len(jobs)
    errors: list[BaseException | None] = [None] * len(jobs)
    begun = []
    try:
        for k in range(1, len(jobs)):
            done = _thread.allocate_lock()
            done.acquire()
            try:
                job = partial(copy_context().run, jobs[k])
                _thread.start_new_thread(_run, (job, k, results, errors, done))
            except RuntimeError:  # the system gives no more threads
                results[k] = jobs[k]()
            else:
                begun.append(done)
        if jobs:
            results[0] = jobs[0]()
    finally:
        for done in begun:
            done.acquire()
    for error in errors:
        if error is not None:
            raise error
    return results


def _run(job: Job, k: int, results: list[Any], errors: list[BaseException | None], done: Any) -> None:
    try:
        results[k] = job()
    except BaseException as error:
        errors[k] = error
    finally:
        done.release()


def on_parts(count: int, function: Callable[[int, int], Any], share: int = 0, step: int = 1) -> list[Any]:
    """Call `function(low, high)` for ranges of `count` elements at the same time (`parts`)."""
    return together([_part(function, low, high) for low, high in parts(count, share, step)])


def _part(function: Callable[[int, int], Any], low: int, high: int) -> Job:
    return lambda: function(low, high)


def extremes(array: Any) -> tuple[Any, Any]:
    """The smallest and the largest element of a one-dimensional array; NaN if there is one."""
    low, high = numpy.minimum, numpy.maximum
    found = on_parts(array.size, lambda start, end: (low.reduce(array[start:end]),
                                                     high.reduce(array[start:end])))
    return low.reduce([pair[0] for pair in found]), high.reduce([pair[1] for pair in found])


def rows(shape: Sequence[int], axis: int) -> tuple[int, int]:
    """The dimension along which the lines of an array in the direction of `axis` are divided, and the number
    of its indices in each share."""
    others = [d for d in range(len(shape)) if d != axis]
    longest = max(others, key=lambda d: shape[d])
    work = 1
    for d, n in enumerate(shape):
        work *= 1 if d == longest else n
    return longest, -(-SHARE // max(1, work))


def slabs(function: Callable[[tuple[Any, ...]], Any], shape: Sequence[int], axis: int) -> list[Any]:
    """Call `function(index)` at the same time for indices of slabs that hold whole lines along `axis`."""
    dimension, share = rows(shape, axis)

    def one(low: int, high: int) -> Any:
        return function((slice(None),) * dimension + (slice(low, high),))

    return on_parts(shape[dimension], one, share)

"""Arrays of zeros take no memory and no launch until somebody writes, and read as zeros at any time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse.numpy.small import native
from diffuse.settings import config
from diffuse.stream import engine
from tests.outcomes import launches

SIZE = 1 << 20
"""Of float64, more bytes than a mapping of its own needs (`runtime.local.system.MAPPED`)."""
MANY, MIDDLE = 1 << 26, 60_000

MAKE: dict[str, Callable[[int], Any]] = {
    "zeros": np.zeros,
    "zeros_like": lambda n: np.zeros_like(np.empty(n)),
    "full": lambda n: np.full(n, 0.0),
    "int": lambda n: np.zeros(n, int),
    "complex": lambda n: np.zeros(n, complex),
    "assigned": lambda n: assigned(np.empty(n)),
    "fortran": lambda n: np.zeros((1024, n // 1024), order="F"),
}

local = pytest.mark.local_only("stores are filled where they lie")


def assigned(x: Any) -> Any:
    x[...] = 0
    return x


def resident() -> int:
    """Bytes of this process in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


@local
@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE.keys())
def test_zeros_that_nobody_touches_cost_no_launch(make: Any) -> None:
    assert launches(lambda: make(SIZE)) == 0
    assert launches(lambda: [make(SIZE) for _ in range(3)]) == 0
    x = make(SIZE)
    engine.fence()
    assert not numpy.asarray(x).any()


@local
def test_zeros_that_nobody_touches_take_no_memory() -> None:
    engine.fence()
    before = resident()
    x, y = np.zeros(MANY), np.ones(SIZE)
    assert float(x[5]) == 0.0 and float(y[5]) == 1.0
    x[7] = 3.0
    z = x[100:200] + 1.0
    assert float(z[0]) == 1.0 and float(x[7]) == 3.0
    assert resident() - before < x.nbytes // 8
    first = np.zeros(MANY)
    first[1000:2000] += 1.0
    assert float(first[1500]) == 1.0 and float(first[-1]) == 0.0 and resident() - before < x.nbytes // 8
    x[numpy.array([3, MANY - 1])] = 2.0
    assert float(x[3]) == 2.0 and float(x[-1]) == 2.0 and resident() - before < x.nbytes // 8


@local
def test_what_is_not_all_zero_bits_is_filled() -> None:
    for value in (-0.0, 1.0, complex(0.0, -0.0)):
        x = np.full(SIZE, value)
        engine.fence()
        assert numpy.asarray(x).tobytes() == numpy.full(SIZE, value).tobytes()


def test_memory_that_was_used_before_is_cleared() -> None:
    for size in (SIZE, SIZE // 16):
        for _ in range(4):
            x = np.ones(size) * 3.0
            y = x + 1.0
            del x
            z = np.zeros(size)
            engine.fence()
            assert not numpy.asarray(z).any() and float(y[3]) == 4.0
            z += 1.0
            assert float(z.sum()) == size


@pytest.mark.parametrize("size", [20_000, SIZE])
@pytest.mark.parametrize("window", ["auto", "1"])
def test_zeros_are_zero_whoever_comes_first(size: int, window: str) -> None:
    before = config.window
    config.window = window
    try:
        for module in (np, numpy):
            m: Any = module
            x, y, z = m.zeros(size), m.zeros(size), m.zeros((2, size), int)
            y[1:-1] = x[2:] - 1.0
            z[1] += 2
            w = m.zeros(size)
            w[3] = 1.0
            w += y
            x[...] = 0.0
            x[::2] = 5.0
            v = m.zeros(size)
            u = v
            v = v + 1.0
            found = [numpy.array(a).tobytes() for a in (x, y, z, w, v, u)]
            if m is np:
                ours = found
        assert ours == found
    finally:
        config.window = before


def test_zeros_join_what_follows_and_vanish_as_temporaries() -> None:
    a = np.ones(SIZE)

    def run() -> Any:
        return (np.zeros(SIZE) + a) * 2.0

    assert launches(run) == 1
    assert engine.current().plans[-1].vanished >= 2

    def accumulate() -> Any:
        total = np.zeros(SIZE)
        for _ in range(3):
            total += a
        return total

    assert launches(accumulate) == 1


@local
def test_zeros_that_are_gone_leave_nothing() -> None:
    engine.fence()
    for _ in range(1000):
        np.zeros(SIZE)
    assert len(engine.current().zeros.held) <= 257
    engine.fence()
    assert not engine.current().zeros.held


@local
def test_an_interrupt_while_a_fill_is_brought_back(monkeypatch: pytest.MonkeyPatch) -> None:
    window = engine.current().window
    add = window.add
    for late in (False, True):
        x, y = np.zeros(SIZE), np.ones(SIZE)

        def interrupted(recorded: Any, late: bool = late) -> None:
            monkeypatch.setattr(window, "add", add)
            if late:
                add(recorded)
            raise KeyboardInterrupt

        monkeypatch.setattr(window, "add", interrupted)
        with pytest.raises(KeyboardInterrupt):
            x += y
        x += y
        assert float(x[0]) == 1.0 and float(x.sum()) == SIZE


@local
def test_too_many_zeros_are_an_error_of_the_program() -> None:
    before = config.memory
    config.memory = engine.current().runtime.usage().in_use + 4 * SIZE  # type: ignore[attr-defined]
    try:
        with pytest.raises(MemoryError):
            float(np.zeros(SIZE)[0])
    finally:
        config.memory = before
    assert float(np.zeros(SIZE)[0]) == 0.0


@local
@pytest.mark.skipif(native is None, reason="the extension was not built")
def test_empty_arrays_that_are_not_large_are_numpys_memory_until_a_task_writes_to_them() -> None:
    np.empty(SIZE)  # from now on it is known where stores are
    made = [np.empty(MIDDLE), np.empty((200, 300), "f4"), np.empty((300, 200), complex, order="F")]
    for x in made:
        assert type(x) is np.ndarray and x.storage is None and x.flags.writeable
    assert np.empty(SIZE).storage is not None
    one, other = np.full(MIDDLE, 2.0), np.arange(MIDDLE)
    found = np.add(one, other, out=made[0])
    found += 1.0
    assert found is made[0] and numpy.array_equal(numpy.asarray(found), numpy.arange(MIDDLE) + 3.0)
    made[2][1:] = 1j
    assert numpy.asarray(made[2]).flags.f_contiguous and made[2][5, 7] == 1j

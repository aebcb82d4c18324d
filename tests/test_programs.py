"""Ordinary NumPy programs, each run as it is under NumPy and under Diffuse: results, types, shapes agree.

The kind of program that people bring: time loops, reductions in conditions, in-place updates through views,
masks, small and large arrays side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest

import diffuse.numpy
from diffuse import settings
from diffuse.stream import engine

Program = Callable[[Any], tuple[Any, ...]]
PROGRAMS: list[Program] = []


def program(function: Program) -> Program:
    PROGRAMS.append(function)
    return function


@program
def heat_equation(np: Any) -> tuple[Any, ...]:
    a = np.zeros((120, 90))
    a[0, :] = 1.0
    b = a.copy()
    for _ in range(15):
        b[1:-1, 1:-1] = 0.2 * (a[1:-1, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:] + a[2:, 1:-1] + a[:-2, 1:-1])
        a[1:-1, 1:-1] = 0.2 * (b[1:-1, 1:-1] + b[1:-1, :-2] + b[1:-1, 2:] + b[2:, 1:-1] + b[:-2, 1:-1])
    return a, b


@program
def alternating_directions(np: Any) -> tuple[Any, ...]:
    n = 40
    u, v, p, q = (np.zeros((n, n)) for _ in range(4))
    for _ in range(3):
        v[0, :] = 1.0
        p[:, 0] = 0.0
        q[:, 0] = v[0, :]
        for j in range(1, n - 1):
            p[1:-1, j] = -0.5 / (0.5 * p[1:-1, j - 1] - 2.0)
            q[1:-1, j] = (-0.3 * u[j, :-2] + 1.6 * u[j, 1:-1] - 0.3 * u[j, 2:] - 0.5 * q[1:-1, j - 1]) / (
                0.5 * p[1:-1, j - 1] - 2.0)
        v[-1, :] = 1.0
        for j in range(n - 2, -1, -1):
            v[j, 1:-1] = p[1:-1, j] * v[j + 1, 1:-1] + q[1:-1, j]
        u[1:-1, 1:-1] += 0.1 * v[1:-1, 1:-1]
    return u, v, p, q


@program
def game_of_life(np: Any) -> tuple[Any, ...]:
    rng = numpy.random.default_rng(4)
    grid = np.array(rng.integers(0, 2, (70, 60)))
    for _ in range(8):
        near = sum(np.roll(np.roll(grid, i, 0), j, 1) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j)
        grid = ((near == 3) | ((grid == 1) & (near == 2))).astype(int)
    return grid, grid.sum()


@program
def nbody(np: Any) -> tuple[Any, ...]:
    rng = numpy.random.default_rng(1)
    mass = np.array(rng.random((60, 1)))
    place, speed = np.array(rng.random((60, 3))), np.array(rng.random((60, 3)))
    for _ in range(4):
        x, y, z = place[:, 0:1], place[:, 1:2], place[:, 2:3]
        dx, dy, dz = x.T - x, y.T - y, z.T - z
        inverse = dx**2 + dy**2 + dz**2 + 0.01
        inverse[inverse > 0] = inverse[inverse > 0] ** -1.5
        pull = np.hstack(((dx * inverse) @ mass, (dy * inverse) @ mass, (dz * inverse) @ mass))
        speed += pull * 0.01
        place += speed * 0.01
    return place, speed, 0.5 * np.sum(mass * speed**2)


@program
def shortest_paths(np: Any) -> tuple[Any, ...]:
    path = np.fromfunction(lambda i, j: (i * j) % 7 + 1, (50, 50), dtype=int)
    for i in range(50):
        path[:] = np.minimum(path[:], path[:, i][:, None] + path[i, :])
    return (path,)


@program
def mandelbrot_mask(np: Any) -> tuple[Any, ...]:
    x, y = np.linspace(-2, 0.5, 80), np.linspace(-1.2, 1.2, 60)
    c = x + y[:, None] * 1j
    n, z = np.zeros(c.shape, dtype=np.int64), np.zeros(c.shape, dtype=np.complex128)
    for k in range(12):
        inside = np.abs(z) < 2.0
        n[inside] = k
        z[inside] = z[inside] ** 2 + c[inside]
    return n, z.real > 0


@program
def conjugate_gradients(np: Any) -> tuple[Any, ...]:
    n = 80
    a = np.diag(np.full(n, 4.0)) + np.diag(np.full(n - 1, -1.0), 1) + np.diag(np.full(n - 1, -1.0), -1)
    x, r = np.zeros(n), np.ones(n)
    p, rz, turns = r.copy(), r @ r, 0
    while np.sqrt(rz) > 1e-10 and turns < 50:
        q = a @ p
        alpha = rz / (p @ q)
        x += alpha * p
        r -= alpha * q
        rz, old = r @ r, rz
        p = r + rz / old * p
        turns += 1
    return x, turns, np.allclose(a @ x, 1.0)


@program
def softmax_and_layers(np: Any) -> tuple[Any, ...]:
    rng = numpy.random.default_rng(7)
    x, w = np.array(rng.standard_normal((90, 40))), np.array(rng.standard_normal((40, 30)))
    hidden = np.maximum(x @ w + np.ones(30), 0)
    top = np.max(hidden, axis=-1, keepdims=True)
    grown = np.exp(hidden - top)
    return grown / np.sum(grown, axis=-1, keepdims=True), hidden.mean(0), hidden.std(axis=1), hidden.argmax(1)


@program
def normalise_columns(np: Any) -> tuple[Any, ...]:
    data = np.fromfunction(lambda i, j: (i * j + 1.0) / 70, (300, 40))
    mean, spread = data.mean(axis=0), data.std(axis=0)
    spread[spread <= 0.1] = 1.0
    data -= mean
    data /= np.sqrt(300.0) * spread
    upper = np.eye(40)
    for i in range(39):
        upper[i + 1:, i] = upper[i, i + 1:] = data[:, i] @ data[:, i + 1:]
    return data, upper


@program
def running_totals(np: Any) -> tuple[Any, ...]:
    x = np.arange(6000.0) % 17 - 8
    x[::3] *= -1
    x[1::2] += x[:-1:2]
    y = np.cumsum(x)
    y[10:] -= y[:-10].copy()
    x[1:] = x[:-1]
    x[5:50:3] = 7
    return x, y, np.diff(y), y[::-1][:20], np.count_nonzero(y > 0)


@program
def integers_wrap_and_divide(np: Any) -> tuple[Any, ...]:
    a = np.arange(-3000, 3000, dtype=np.int16)
    b = (a * 77).astype(np.int8)
    return (b, a // 7, a % -5, a << 3, a >> 2, ~a, a ** 2, np.abs(b), (b * b).sum(), a.astype(np.uint8) + b,
            np.where(a % 2 == 0, a, -a), (a > 5) ^ (a < 9), a.astype(np.float32) / 3, np.bitwise_and(a, 255))


@program
def histogram_by_hand(np: Any) -> tuple[Any, ...]:
    x = np.array(numpy.random.default_rng(2).random(5000))
    edges = np.linspace(0, 1, 11)
    bins = zip(edges[:-1], edges[1:], strict=True)
    counts = np.array([((x >= low) & (x < high)).sum() for low, high in bins])
    return counts, x[x > 0.99], np.sort(x)[:5], np.clip(x, 0.2, 0.8).sum()


@program
def converge_on_a_condition(np: Any) -> tuple[Any, ...]:
    x, turns = np.full((200, 100), 2.0), 0
    while True:
        new = 0.5 * (x + 3.0 / x)
        change = np.max(np.abs(new - x))
        x = new
        turns += 1
        if change < 1e-12:
            break
    return x, turns, f"{float(change):.3e}", x[3, 4] == x[0, 0]


@program
def views_of_views(np: Any) -> tuple[Any, ...]:
    a = np.arange(6000.0).reshape(60, 100)
    t = a.T
    t[10:20] += 1000.0
    d = a[:60, :60].diagonal()
    r = a.reshape(-1)
    r[::7] = -1.0
    a[5:, :] = a[:-5, :].copy() * 2
    c = (a[::2, ::-1] + a[1::2]).swapaxes(0, 1)
    c += 1
    return a, t, d.sum(), r[:30], c, c.flags.c_contiguous, a.real.max()


def agree(found: Any, expected: Any) -> None:
    if isinstance(expected, (str, bool, int)) and not isinstance(expected, numpy.generic):
        assert found == expected
        return
    ours, theirs = numpy.asarray(found), numpy.asarray(expected)
    assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
    if theirs.dtype.kind in "fc":
        numpy.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=1e-12)
    else:
        numpy.testing.assert_array_equal(ours, theirs)


@pytest.fixture(params=[("wait", 0, "auto"), ("off", 0, 5), ("background", 8192, "auto"), ("wait", 0, 1)],
                ids=lambda p: "-".join(map(str, p)))
def mode(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run programs compiled, interpreted, or changing from one to the other; with all operations recorded, or
    small arrays computed at once; with several window sizes."""
    compiled, small, window = request.param
    engine.fence()
    with settings.using(compile=compiled, small=small, window=window, min_chunk=500, fallback="silent"):
        yield
        engine.fence()


@pytest.mark.parametrize("run", PROGRAMS, ids=lambda p: p.__name__)
def test_a_program_gives_numpys_results(run: Program, mode: None) -> None:
    expected = run(numpy)
    found = run(diffuse.numpy)
    for ours, theirs in zip(found, expected, strict=True):
        agree(ours, theirs)

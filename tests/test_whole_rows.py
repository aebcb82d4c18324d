"""Folds of whole rows: each point completes those of its rows, and later loops of the same task read them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse.settings import using
from diffuse.stream import blocking, engine
from tests.around import around
from tests.outcomes import launches
from tests.test_fuzz_stream import stream

pytestmark = pytest.mark.local_only("the launch domain is chosen here")

Program = Callable[[Any, Any], Any]


everything = around(using, small=0, min_chunk=64, compile="wait")
"""Small arrays are recorded and shared by several points."""


def softmax(m: Any, x: Any) -> Any:
    e = m.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def normalised(m: Any, x: Any) -> Any:
    d = x - x.mean(-1, keepdims=True)
    return d / m.sqrt((d * d).mean(-1, keepdims=True) + 1e-5)


def first(m: Any, x: Any) -> Any:
    """The distance of each element from the first largest one of its row, and which rows have any."""
    place = x.argmax(-1)
    return m.arange(x.shape[-1]) - place[..., None], (x > 1.5).any(-1)[..., None] & (x < 0)


def twice(m: Any, x: Any) -> Any:
    """Folds of folds: rows of rows, and of all of them."""
    s = (x * 2.0).sum(-1)
    return s[..., None] * x, s.sum(-1), (x / s[..., None]).sum()


def over(m: Any, x: Any) -> Any:
    """What a fold read is written over, and the fold's own results are."""
    y = x.copy()
    s = y.sum(-1, keepdims=True)
    y[...] = y + s
    s[...] = s * 2.0
    return y - s, s, y


def spread(m: Any, x: Any) -> Any:
    """Two results of one temporary, which one of them shares its memory with."""
    e = m.exp(x - x.max(-1, keepdims=True))
    s = e.sum(-1, keepdims=True)
    return e / s, s - e


def mirrored(m: Any, x: Any) -> Any:
    """A temporary that is read backwards at last."""
    y = x * 2.0
    return y[..., ::-1] / y.sum(-1, keepdims=True)


def beside(m: Any, x: Any) -> Any:
    """A temporary that is folded where a result is written that does not come from it."""
    y = x * 2.0
    return x + y.sum(-1, keepdims=True), y.min(-1)


PROGRAMS: list[Program] = [softmax, normalised, first, twice, over, spread, mirrored, beside]


def bits(found: Any) -> list[bytes]:
    found = found if isinstance(found, tuple) else (found,)
    return [numpy.asarray(x).tobytes() for x in found]


def drawn(shape: tuple[int, ...], dtype: str) -> Any:
    x = numpy.random.default_rng(len(shape)).standard_normal(shape).astype(dtype)
    x.reshape(-1)[3::97] = -0.0
    x.reshape(-1)[5::201] = 1.25
    return x


@pytest.mark.parametrize("shape, dtype", [((70, 40), "float32"), ((9, 1100), "float64"),
                                          ((3, 40, 17), "float64")])
@pytest.mark.parametrize("program", PROGRAMS, ids=[program.__name__ for program in PROGRAMS])
def test_the_bits_are_those_of_one_task_at_a_time(program: Program, shape: tuple[int, ...], dtype: str,
                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    plain = drawn(shape, dtype)
    with stream(1, window=1, compile="off"):
        expected = bits(program(np, np.array(plain)))
    with stream(3, seed=1, compile="off", check=True):
        assert bits(program(np, np.array(plain))) == expected
    with stream(2):
        assert bits(program(np, np.array(plain))) == expected
    monkeypatch.setattr(blocking, "CACHE", 1 << 10)  # the loops take turns on a few rows
    monkeypatch.setattr(blocking, "LEAST", 1)
    for seed in (None, 2):  # by machine code, and interpreted although there is some
        with stream(3, seed):
            assert bits(program(np, np.array(plain))) == expected


@pytest.mark.parametrize("program", [softmax, normalised], ids=["softmax", "normalised"])
def test_rows_are_one_task(program: Program) -> None:
    x = np.array(drawn((400, 300), "float64"))

    with stream(2):
        assert launches(lambda: program(np, x)) == 1
        assert launches(lambda: program(np, x[:, :200])) == 1
        assert launches(lambda: program(np, x.T)) == 1  # all of it is cut as its folds are
    error = numpy.abs(numpy.asarray(program(np, x)) - program(numpy, numpy.asarray(x)))
    assert error.max() < 1e-13


def test_the_kernel_of_softmax(golden: Callable[[str], None]) -> None:
    x = np.array(drawn((400, 300), "float64"))
    with stream(2):
        kept = softmax(np, x)
        engine.fence()
        plan = engine.current().plans[-1]
    golden(str(plan.composition.body))
    del kept


@pytest.mark.parametrize("program, shared", [(softmax, 1), (normalised, 1), (spread, 1), (mirrored, 0),
                                             (lambda m, x: (x, x * 2.0, softmax(m, x)), 1)])
def test_a_temporary_shares_the_memory_of_a_result_that_replaces_it(program: Program, shared: int) -> None:
    x = np.array(drawn((400, 300), "float64"))
    with stream(2):
        kept = program(np, x)
        engine.fence()
        assert len(engine.current().plans[-1].shared) == shared
    del kept


def test_on_other_machines_points_do_not_complete_rows() -> None:
    x = drawn((70, 40), "float64")
    expected = bits(softmax(np, np.array(x)))
    with using(runtime="simt"):
        assert bits(softmax(np, np.array(x))) == expected

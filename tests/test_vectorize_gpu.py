"""Functions of `diffuse.vectorize` in kernels for a GPU: the PTX is run by the interpreter of tests."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse import settings, vectorize
from diffuse.kernels.body.user import BasicBlock, Exit, Instruction, UserFunction, declare
from diffuse.kernels.build.scalar_ir import INTRINSICS
from diffuse.runtime.device import driver
from diffuse.stream import engine
from tests import test_lowering
from tests.each import for_each
from tests.interpreted_gpu import Interpreted
from tests.test_ptx_machine import launch
from tests.test_vectorize import TRIED, VECTORIZED, arguments, branches, escape, nested

pytest.importorskip("llvmlite", reason="kernels are compiled by llvmlite")
pytest.importorskip("numba", reason="functions are translated by Numba")


@pytest.fixture(autouse=True)
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "Driver", Interpreted)


def both(function: Callable[..., Any], *arrays: Any) -> tuple[Any, Any, list[str]]:
    """The results on the host and on the device, and the kernels that it launched."""
    found, launched = [], []
    for runtime in ("local", "cuda"):
        with settings.using(runtime=runtime, small=0, compile="wait"):
            given = [np.array(a) for a in arrays]
            engine.flush()
            here: Any = engine.current().runtime
            if runtime == "cuda":
                launched = here.gpu.launched
                launched.clear()
            found.append(numpy.asarray(function(*given)))
    return found[0], found[1], launched


@pytest.mark.parametrize("function", TRIED, ids=lambda f: str(f.__name__))
def test_ptx_has_the_hosts_bits(function: Callable[..., Any]) -> None:
    with numpy.errstate(all="ignore"):
        here, there, launched = both(VECTORIZED[function], *arguments(TRIED[function]))
    assert here.dtype == there.dtype and launched == ["loop0"]
    assert numpy.array_equal(here, there, equal_nan=here.dtype.kind in "fc")
    if here.dtype.kind == "f":
        assert numpy.array_equal(numpy.signbit(here), numpy.signbit(there))


def test_functions_fuse_with_what_is_around_them() -> None:
    def program(x: Any) -> Any:
        y = VECTORIZED[nested](x * 2, x[::-1]) + VECTORIZED[escape](x)
        return (VECTORIZED[branches](np.abs(y), x + 1) * 3).sum()

    here, there, launched = both(program, numpy.linspace(0.1, 3.0, 900))
    assert here.tobytes() == there.tobytes()
    assert launched == ["loop0", "chunks0"]


def tail(x: float) -> float:
    return math.lgamma(x) + x


def test_what_cannot_be_translated_runs_on_the_host_and_says_why() -> None:
    x = numpy.linspace(1.0, 3.0, 50)
    with pytest.warns(RuntimeWarning, match="it calls lgamma"):
        here, there, _ = both(lambda y: vectorize(tail)(y) * 2, x)
    assert here.tobytes() == there.tobytes() == (numpy.vectorize(tail)(x) * 2).tobytes()


TWO = "copysign minnum maxnum minimum maximum smin smax umin umax".split()


def applied(name: str, dtype: str) -> UserFunction:
    """A function that is one intrinsic of LLVM."""
    count = 3 if name == "fma" else 2 if name in TWO else 1
    step = Instruction("intrinsic", dtype, tuple(range(count)), dtype, INTRINSICS[name])
    return UserFunction(name, (dtype,) * count, dtype, (BasicBlock((), (step,), Exit((), "", (count,))),))


WHOLE = ("smin", "smax", "umin", "umax", "abs", "ctpop")


@for_each("name, dtype", [
    (name, dtype) for name in INTRINSICS if name not in ("fmin", "fmax")
    for dtype in (("int32", "int64") if name in WHOLE else ("float32", "float64"))])
def test_every_intrinsic_has_the_hosts_bits(name: str, dtype: str) -> None:
    function = applied(name, dtype)
    declare(function)
    count = len(function.parameters)
    body = test_lowering.body([dtype], (dtype,) * count, [(function.name, dtype, tuple(range(count)))])
    line = test_lowering.specials(dtype)
    given = [numpy.roll(line, 7 * k) for k in range(count)]
    with numpy.errstate(all="ignore"):
        (want,) = test_lowering.run(body, given, [dtype])
        out = numpy.zeros_like(want)
        words = [word for a in (*given, out) for word in (a.ctypes.data, a.itemsize)]
        launch(body, [1, out.size, out.size, *words], (out.size,), [*given, out])
    assert test_lowering.same(out, want).all(), out[~test_lowering.same(out, want)]

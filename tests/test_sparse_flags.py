"""Sparse products raise no floating-point warning, as SciPy's do not; what they are fused with still does."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest
import scipy.sparse

import diffuse.numpy
import diffuse.scipy.sparse
from diffuse import settings
from diffuse.kernels.build import jit
from diffuse.kernels.llvm import nest
from diffuse.kernels.llvm.flags import MXCSR_INVALID, MXCSR_OVERFLOW
from diffuse.kernels.targets.host import Host
from diffuse.observe import trace
from diffuse.stream import engine
from tests import machine_code
from tests.each import for_each
from tests.outcomes import warned
from tests.test_llvm import BODIES

Program = Callable[[Any, Any], Any]

EXCEPTIONS = 61
"""All that C's `fenv.h` has on x86-64."""

ROWS = 5001
ROW = 3003
"""The row with something special in it; errors of other operations are made before it and behind it."""

FLOATS = "float64 float32 complex128 complex64".split()

SPECIALS = {
    "infinity times zero": ([numpy.inf, 1.0], [0.0, 1.0]),
    "infinity less infinity": ([numpy.inf, 1.0], [1.0, -numpy.inf]),
    "product too large": ([1e30, 1.0], [1e30, 1.0]),
    "sum too large": ([1.0, 1.0], [3e38, 3e38]),
    "product too small": ([1e-30, 1.0], [1e-30, 0.0]),
    "not a number": ([numpy.nan, 1.0], [numpy.inf, 1.0]),
}
"""Two elements of a row, and what the vector has in their columns, for float32."""


@pytest.fixture(params=["wait", "off"], autouse=True)
def recorded(request: pytest.FixtureRequest) -> Iterator[None]:
    """Tasks for arrays of any size, over several points; compiled or interpreted."""
    engine.fence()
    with settings.using(compile=request.param, small=0, min_chunk=1000):
        yield
        engine.fence()


def said(program: Program, np: Any, sp: Any, **modes: Any) -> set[str]:
    """The warnings of a program when its results are looked at, without what follows `encountered`."""
    with warned() as caught:
        with np.errstate(**modes):
            results = program(np, sp)
            engine.fence()
    del results
    assert all(w.category is RuntimeWarning for w in caught)
    return {str(w.message).partition(" encountered")[0] for w in caught}


def both(program: Program, **modes: Any) -> tuple[set[str], set[str]]:
    theirs = said(program, numpy, scipy.sparse, **modes)
    return said(program, diffuse.numpy, diffuse.scipy.sparse, **modes), theirs


def scaled(numbers: Any, dtype: str) -> Any:
    """These numbers of float32, as much larger or smaller in float64."""
    found = numpy.array(numbers)
    if dtype in ("float64", "complex128"):
        with numpy.errstate(all="ignore"):
            found = numpy.where(numpy.abs(numpy.log10(numpy.abs(found))) > 20, numpy.sign(found)
                                * numpy.abs(found) ** 8.1, found)
            found[numpy.isinf(found) & numpy.isfinite(numbers)] = 1.7e308
    return found.astype(dtype)


def operands(special: str, dtype: str, columns: int | None = None, form: str = "csr") -> tuple[Any, Any]:
    """A SciPy matrix of ordinary numbers and two special ones, and a dense vector or matrix."""
    rng = numpy.random.default_rng(0)
    elements, there = (scaled(numbers, dtype) for numbers in SPECIALS[special])
    a = scipy.sparse.diags_array([numpy.ones(ROWS), numpy.full(ROWS - 1, 0.3)], offsets=[0, 1]).tocsr()
    a = a.astype(dtype)
    a.data[a.indptr[ROW]:a.indptr[ROW + 1]] = elements
    x = rng.standard_normal((ROWS,) if columns is None else (ROWS, columns)).astype(dtype)
    x[ROW:ROW + 2] = there if columns is None else there[:, None]
    return a.asformat(form), x


def lazily(sp: Any, a: Any) -> Any:
    return getattr(sp, type(a).__name__)(a)


def test_the_numbers_are_special() -> None:
    """NumPy does warn of the same sums."""
    for special, kind in (("infinity times zero", "invalid value"), ("product too large", "overflow"),
                          ("infinity less infinity", "invalid value"), ("sum too large", "overflow"),
                          ("product too small", "underflow")):
        for dtype in ("float32", "float64"):
            a, x = operands(special, dtype)
            row = a.data[a.indptr[ROW]:a.indptr[ROW + 1]]

            def program(np: Any, sp: Any, row: Any = row, x: Any = x) -> Any:
                return np.add.reduce(row * x[ROW:ROW + 2])

            assert said(program, numpy, None, under="warn") == {kind}, (special, dtype)


@pytest.mark.parametrize("columns", [None, 1, 3, 11])
@for_each("dtype", FLOATS)
@for_each("special", SPECIALS)
def test_products_are_silent_among_operations_that_could_have_warned(special: str, dtype: str,
                                                                     columns: int | None) -> None:
    a, x = operands(special, dtype, columns)
    other = numpy.random.default_rng(1).standard_normal(x.shape).astype(dtype)

    def program(np: Any, sp: Any) -> Any:
        q = lazily(sp, a) @ np.array(x)
        y = np.array(other)
        return q, (y * y + y) / 2, y - 1

    ours, theirs = both(program, under="warn")
    assert ours == theirs == set()


@for_each("form", ["csr", "csc", "coo"])
@for_each("special", SPECIALS)
def test_products_alone_are_silent(special: str, form: str) -> None:
    a, x = operands(special, "float64", None, form)
    ours, theirs = both(lambda np, sp: (lazily(sp, a) @ np.array(x), np.array(x) @ lazily(sp, a)))
    assert ours == theirs == set()


CULPRITS = {"sqrt": "invalid value", "square": "overflow", "divide": "divide by zero"}


@pytest.mark.not_device("no floating-point flags are kept")
@for_each("culprit", CULPRITS)
@for_each("where", [0, 7, ROW - 1, ROW, ROW + 1, ROWS - 1])
@for_each("special", ["infinity times zero", "product too large", "product too small"])
@pytest.mark.parametrize("columns", [None, 3])
def test_what_other_operations_raise_is_reported(culprit: str, where: int, special: str,
                                                 columns: int | None) -> None:
    """Whether the operation comes before the product or behind it, and on whichever side of the row."""
    a, x = operands(special, "float64", columns)
    y = numpy.full(x.shape, 2.0)
    y[where] = {"sqrt": -1.0, "square": 1e200, "divide": 0.0}[culprit]

    def raising(np: Any, y: Any) -> Any:
        return 1.0 / y if culprit == "divide" else getattr(np, culprit)(y)

    def before(np: Any, sp: Any) -> Any:
        made = raising(np, np.array(y))
        return made, lazily(sp, a) @ np.array(x)

    def behind(np: Any, sp: Any) -> Any:
        q = lazily(sp, a) @ np.array(x)
        return q, raising(np, np.array(y))

    for program in (before, behind):
        ours, theirs = both(program, under="warn")
        assert ours == theirs == {CULPRITS[culprit]}


@pytest.mark.not_device("no floating-point flags are kept")
def test_the_warning_of_a_fused_task_names_the_operation_and_its_line() -> None:
    a, x = operands("infinity times zero", "float64")
    lazy, dense = lazily(diffuse.scipy.sparse, a), diffuse.numpy.array(x)
    y = diffuse.numpy.array(-numpy.ones(ROWS))
    engine.fence()
    launched = trace.counters["launched"]
    with warned() as caught:
        q = lazy @ dense
        root = diffuse.numpy.sqrt(y)
        engine.fence()
    assert trace.counters["launched"] - launched == 1
    assert [str(w.message) for w in caught] == ["invalid value encountered in sqrt"]
    assert [w.filename for w in caught] == [__file__]
    del q, root


@pytest.mark.not_device("no floating-point flags are kept")
def test_what_is_computed_with_the_product_warns() -> None:
    """inf * 1 raises nothing in the row; inf - inf behind it does."""
    a, x = operands("infinity times zero", "float64")
    x[ROW:ROW + 2] = 1.0

    def program(np: Any, sp: Any) -> Any:
        q = lazily(sp, a) @ np.array(x)
        return q - q

    ours, theirs = both(program)
    assert ours == theirs == {"invalid value"}


def test_errors_that_raise_do_not_raise_of_products() -> None:
    a, x = operands("infinity times zero", "float64")
    with diffuse.numpy.errstate(all="raise"):
        q = lazily(diffuse.scipy.sparse, a) @ diffuse.numpy.array(x)
        engine.fence()
    assert numpy.asarray(q).tobytes() == (a @ x).tobytes()


@pytest.mark.skipif(platform.machine() != "x86_64", reason="flags are put back on x86-64 alone")
@pytest.mark.parametrize("before", [0, MXCSR_OVERFLOW, MXCSR_INVALID])
def test_a_nest_of_nothing_but_a_product_leaves_the_flags_as_they_were(before: int) -> None:
    a, x = operands("infinity times zero", "float64")
    out, body, libm = numpy.zeros(ROWS), BODIES["spmv"], ctypes.CDLL("libm.so.6")
    arrays = zip((a.indptr, a.indptr[1:], a.data, a.indices, x, out), (4, 4, 0, 0, 0, 8), strict=True)
    native = jit.compile(body)
    libm.feclearexcept(EXCEPTIONS)
    libm.feraiseexcept(before)
    words = [word for part, step in arrays for word in (part.ctypes.data, step)]
    machine_code.run(native, body, [1, ROWS, ROWS, *words], 1)
    raised = libm.fetestexcept(MXCSR_INVALID | MXCSR_OVERFLOW)
    libm.feclearexcept(EXCEPTIONS)
    assert raised == before
    assert out.tobytes() == (a @ x).tobytes()


def test_elsewhere_than_on_x86_no_register_of_its_is_touched() -> None:
    here = Host("x86_64-unknown-linux-gnu", "x86-64-v3", "", True)
    there = Host("aarch64-unknown-linux-gnu", "generic", "", True)
    assert "mxcsr" in nest.emit(BODIES["spmv"], here)
    assert "mxcsr" not in nest.emit(BODIES["spmv"], there)

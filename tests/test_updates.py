"""Updates in place whose operand is an operation, such as `x -= u * v`: done at once in one pass."""

from __future__ import annotations

import platform
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse.numpy.ops.moving import TURNS
from diffuse.numpy.small import native
from diffuse.observe import trace
from tests.each import for_each

pytestmark = [
    pytest.mark.local_only("nothing is at hand elsewhere"),
    pytest.mark.skipif(native is None or platform.libc_ver()[0] != "glibc" or sys.version_info >= (3, 14),
                       reason="the extension finds out by glibc who the caller is")]

pick = numpy.random.default_rng(7)
SHAPE = 250, 300
X, A = pick.random(SHAPE) + 1.0, pick.random(SHAPE)
U, V = pick.random(SHAPE[0]) + 0.5, pick.random(SHAPE[1]) + 0.5


@pytest.fixture(autouse=True)
def allowance() -> Iterator[None]:
    """Operations are done at once, as after a few waits for short chains (test_soon.py)."""
    assert native is not None
    native.set_allowance(1 << 40)
    yield
    native.set_allowance(0)


def counted(run: Callable[[], Any]) -> int:
    """How many updates a call does in one pass."""
    before = trace.counters["updates"]
    run()
    return trace.counters["updates"] - before


def rank_one(x: Any, u: Any, v: Any, a: Any) -> None:
    x -= u[:, None] * v


def part(x: Any, u: Any, v: Any, a: Any) -> None:
    x[3:, 5:] -= u[3:, None] / v[5:]


def whole(x: Any, u: Any, v: Any, a: Any) -> None:
    x += a * x


def number(x: Any, u: Any, v: Any, a: Any) -> None:
    x *= 2 - a


def flat(x: Any, u: Any, v: Any, a: Any) -> None:
    y = x.reshape(-1)
    y += a.reshape(-1) + 3


def own_row(x: Any, u: Any, v: Any, a: Any) -> None:
    x[1:] -= u[1:, None] * x[0]


def columns(x: Any, u: Any, v: Any, a: Any) -> None:
    x[:, ::2] += a[:, ::2] * u[:, None]


def several(x: Any, u: Any, v: Any, a: Any) -> None:
    for k in range(1, 9):
        x[k:, k:] += u[k:, None] * v[k:]
        x[k:, k:] -= a[k:, k:] * v[k:]


@for_each("run, times", [(rank_one, 1), (part, 1), (whole, 1), (number, 1), (flat, 1), (own_row, 1),
                         (columns, 1), (several, 16)])
@for_each("dtype", ["f8", "f4", "i8"])
def test_updates_take_one_pass_and_have_numpys_bits(run: Any, times: int, dtype: str) -> None:
    plain = [(99 * x).astype(dtype) for x in (X, U, V, A)]
    ours = [np.array(x) for x in plain]
    divides = run is part and dtype == "i8"
    if divides:
        with pytest.raises(TypeError):
            run(*ours)
        return
    assert counted(lambda: run(*ours)) == times
    run(*plain)
    for one, other in zip(ours, plain, strict=True):
        assert one.dtype == other.dtype and one.tobytes() == other.tobytes()


def test_updates_of_views_that_move_are_not_recorded() -> None:
    assert native is not None
    native.set_allowance(0)  # else these are done at once for another reason
    plain, x, u, v = X.copy(), np.array(X), np.array(U), np.array(V)
    before = trace.counters["updates"]
    for k in range(3 * TURNS):
        plain[k:, k:] -= U[k:, None] * V[k:]
        x[k:, k:] -= u[k:, None] * v[k:]
        float(x[0, 0])  # what is recorded is computed here
    assert trace.counters["updates"] - before >= TURNS
    assert x.tobytes() == plain.tobytes()


class Keeper:
    """An object that keeps what it is updated with."""

    kept: Any = None

    def __isub__(self, other: Any) -> Keeper:
        self.kept = other
        return self

    __rsub__ = __isub__


@pytest.mark.filterwarnings("ignore:numpy.subtract runs by NumPy")
def test_others_get_a_product_with_values() -> None:
    u, v = np.array(U), np.array(V)
    product = U[:, None] * V

    def run() -> None:
        keeper = Keeper()
        keeper -= u[:, None] * v
        assert numpy.array_equal(keeper.kept, product)
        plain = X.copy()
        plain -= u[:, None] * v
        assert numpy.array_equal(plain, X - product)
        x = np.array(X)
        x = x - u[:, None] * v
        assert numpy.array_equal(x, X - product)
        many = np.array([X, X])
        many -= u[:, None] * v  # of fewer dimensions
        assert numpy.array_equal(many, numpy.array([X, X]) - product)
        with pytest.raises(TypeError):
            whole = np.array(X.astype(int))
            whole -= u[:, None] * v
        with pytest.raises(ValueError, match="broadcast"):
            short = np.array(X[:, :-1])
            short -= u[:, None] * v
        square, factor = np.array(X[:, :SHAPE[0]]), np.array(A[:, :SHAPE[0]])
        square @= factor * factor
        assert numpy.allclose(square, X[:, :SHAPE[0]] @ A[:, :SHAPE[0]] ** 2)
        square **= factor * factor
        assert numpy.allclose(square, (X[:, :SHAPE[0]] @ A[:, :SHAPE[0]] ** 2) ** A[:, :SHAPE[0]] ** 2)
        small = [x.__isub__, u[:, None].__mul__]
        assert numpy.array_equal(small[0](small[1](v)), X - product - product)

    assert counted(run) == 0


def test_operators_that_the_interpreter_does_not_call_are_done_at_once() -> None:
    x, y, u, v = np.array(X), np.array(X), np.array(U)[:, None], np.array(V)
    product, index = U[:, None] * V, slice(None)
    many: Any = numpy.empty((3, 1), object)
    held, left, right = many
    held[0], left[0], right[0] = x, u, v

    def run() -> None:
        nonlocal held
        y[index] -= u * v
        held -= left * right

    assert counted(run) == 1
    assert numpy.array_equal(held[0], X - product) and numpy.array_equal(y, X - product)


def test_operands_that_overlap_are_read_before() -> None:
    plain, x = X.copy(), np.array(X)
    assert counted(lambda: shifted(x)) == 0
    shifted(plain)
    assert x.tobytes() == plain.tobytes()


def shifted(x: Any) -> None:
    x[1:] -= x[:-1] * 2.0
    x[:, 1:] *= x[:, :-1] + 1.0
    x[:] -= x[:, 4, None] * x[4]


def test_views_of_the_updated_array_see_it() -> None:
    x, u, v = np.array(X), np.array(U), np.array(V)
    row, same = x[2], x
    x -= u[:, None] * v
    expected = X - U[:, None] * V
    assert x is same and numpy.array_equal(row, expected[2])
    y = x + 1.0  # reads what the update wrote, wherever it is computed
    assert numpy.array_equal(y, expected + 1.0)


def test_errors_of_both_operations_are_reported() -> None:
    def run(x: Any, u: Any, v: Any) -> list[str]:
        u[3], v[4], x[7] = 1e300, 1e300, numpy.inf
        u[7] = numpy.inf
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            native_allowed()
            x -= u[:, None] * v
        return [str(one.message) for one in caught]

    found, expected = run(np.array(X), np.array(U), np.array(V)), run(X.copy(), U.copy(), V.copy())
    assert found == expected and len(found) == 2


def native_allowed() -> None:
    """Changing the filters of warnings ends what is done at once; go on with it."""
    assert native is not None
    native.set_allowance(1 << 40)


def test_an_error_that_raises_leaves_the_array_as_it_was() -> None:
    x, u, v = np.array(X), np.array(U), np.array(V)
    u[3] = v[4] = 1e300
    with np.errstate(over="raise"), pytest.raises(FloatingPointError, match="multiply"):
        native_allowed()
        x -= u[:, None] * v
    assert numpy.array_equal(x, X)


def test_a_trace_function_sees_whole_products() -> None:
    x, u, v = np.array(X), np.array(U), np.array(V)

    def traced(frame: Any, event: str, argument: Any) -> Any:
        return traced

    def run() -> None:
        nonlocal x
        x -= (u[:, None]
              * v)

    before = sys.gettrace()
    sys.settrace(traced)
    try:
        assert counted(run) == 0
    finally:
        sys.settrace(before)
    assert numpy.array_equal(x, X - U[:, None] * V)

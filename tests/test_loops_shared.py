"""Single operations on some 100,000 elements that the extension shares with the runtime's threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest

import diffuse
import diffuse.numpy as np
from diffuse import library
from diffuse.numpy.arrays import soon
from diffuse.numpy.small import native
from diffuse.observe import trace
from diffuse.settings import using
from tests.around import around
from tests.at_once import allowed

pytestmark = pytest.mark.skipif(native is None, reason="the extension is not there")
SIZE = 100_003
MOST = 20_000
"""Calls until one of them is shared, at most."""

pick = numpy.random.default_rng(5)
ARRAYS = {
    "x": pick.random(SIZE) - 0.3, "y": pick.random(SIZE) + 0.1, "i": pick.integers(-99, 99, SIZE),
    "j": pick.integers(1, 99, SIZE), "f": pick.random(SIZE).astype("float32"),
    "mask": pick.random(SIZE) > 0.5, "c": pick.random(SIZE) + 1j * pick.random(SIZE),
    "A": pick.random((401, 307)), "row": pick.random(307)}
LOOPS = """x + y; x * 2.5; x / y; -x; abs(x); x > y; x**2; i // j; i % 7; i & j; i << 2; f * f; c * c; abs(c)
    np.maximum(x, y); np.minimum(x, 0.5); np.floor(x); np.isnan(x); np.add(x, y, out=z); A + row; A * A
    A + 1.0; A.T * 2.0; A[::2] * 3.0; x[::-1] + y; x[::2] * y[::2]; i + j; np.conj(c); ~mask"""
KERNELS = "np.exp(x); np.sin(x); y**0.7; np.arctan2(x, y); np.sqrt(y); x // y; np.exp(f); f**0.3; y**3.0"


def named(m: Any) -> dict[str, Any]:
    found = {"np": m, **{name: m.array(value) for name, value in ARRAYS.items()}, "z": m.zeros(SIZE)}
    diffuse.fence()
    return found


def shared(call: Callable[[], Any], least: int = 1) -> set[bytes]:
    """The results of two of many calls, which follow closely on each other: of the first one that NumPy or
    machine code computes at once, and of one that is shared with other threads, in `least` launches."""
    running, counters = library.current(), trace.counters
    found: set[bytes] = set()
    for number in range(MOST):
        if number % 500 == 0:
            native.connect_team(soon._team)  # what earlier launches have lost by it counts no more
        launched, recorded = running.runtime.mark(), counters["recorded"]
        result = call()
        if running.unreported:
            diffuse.fence()
        if counters["recorded"] != recorded:
            continue
        if not found:
            found.add(numpy.asarray(result).tobytes())
        if running.runtime.mark() >= launched + least:
            return found | {numpy.asarray(result).tobytes()}
    raise AssertionError(f"none of {MOST} calls was shared")


two_threads = around(using, small=16_384, runtime="local", threads=2, compile="wait")


@pytest.mark.parametrize("text", ["x + y", "x > y", "i // j", "c * c", "A + row", "np.add(x, y, out=z)"])
def test_loops_are_shared_and_have_numpys_bits(text: str) -> None:
    ours, plain = named(np), eval(text, named(numpy))
    assert shared(eval(f"lambda: {text}", ours)) == {plain.tobytes()}


@pytest.mark.parametrize("text", [line.strip() for line in LOOPS.replace("\n", ";").split(";")])
def test_calls_that_are_waited_for_have_numpys_bits(text: str) -> None:
    ours, plain = named(np), eval(text, named(numpy))
    for _ in range(12):
        found = eval(text, ours)
        diffuse.fence()
        assert found.dtype == plain.dtype and numpy.asarray(found).tobytes() == plain.tobytes()


@pytest.mark.parametrize("text", [text.strip() for text in KERNELS.split(";")])
def test_machine_code_has_the_same_bits_on_one_thread_and_on_two(text: str) -> None:
    ours = named(np)
    with np.errstate(all="ignore"):
        assert len(shared(eval(f"lambda: {text}", ours))) == 1


@pytest.mark.parametrize("text", ["x / y", "np.log(y)"])
def test_floating_point_errors_of_any_thread_are_reported(text: str) -> None:
    ours = named(np)
    shared(eval(f"lambda: {text}", ours))
    for place in (3, SIZE - 5):
        ours["y"][:] = ARRAYS["y"]
        ours["y"][place] = 0.0
        diffuse.fence()
        for _ in range(3):
            with pytest.warns(RuntimeWarning, match="divide by zero"):
                found = eval(text, ours)
                diffuse.fence()
            assert numpy.isinf(numpy.asarray(found)[place])


def test_outputs_that_are_operands_and_other_layouts() -> None:
    """An output that is an operand is written once, and other layouts than those of the first call count."""
    ours, x, y = named(np), ARRAYS["x"].copy(), ARRAYS["y"]
    for _ in range(30):
        np.add(ours["x"], ours["y"], out=ours["x"])
        diffuse.fence()
        x += y
    assert numpy.asarray(ours["x"]).tobytes() == x.tobytes()
    for part in (slice(None), slice(None, None, 2), slice(1, None)):
        for _ in range(8):
            found = np.exp(ours["y"][part])
            diffuse.fence()
        assert numpy.allclose(numpy.asarray(found), numpy.exp(y[part]), rtol=1e-14)


def columns(m: Any) -> tuple[Any, Any]:
    values = numpy.linspace(-1.0, 2.0, 8_003 * 160).reshape(-1, 160)
    return m.array(values), m.array(numpy.linspace(1.0, 2.0, 8_003))


def turns() -> Iterator[int]:
    """Numbers of columns, none of which the caches still hold, until a call on one is shared with other
    threads, and for a few more calls."""
    runtime, others = library.current().runtime, 0
    for number in range(MOST):
        if number % 500 == 0:
            native.connect_team(soon._team)
        launched = runtime.mark()
        yield number * 19 % 160
        others += runtime.mark() > launched
        if others == 5:
            return
    raise AssertionError(f"{others} of {MOST} calls were shared")


def test_a_column_is_shared_as_its_elements_lie_apart() -> None:
    (ours, _), (plain, _) = columns(np), columns(numpy)
    for column in turns():
        assert numpy.asarray(ours[:, column] * 2.5).tobytes() == (plain[:, column] * 2.5).tobytes()


def test_loops_that_take_turns_do_not_forget_how_long_each_takes() -> None:
    """These two numbers of elements have one hash in the table of times (small/shares.c)."""
    few, many = (np.array(numpy.ones((size, 8)))[:, 0] for size in (30_720, 655_360))
    diffuse.fence()
    with allowed():
        assert len(shared(lambda: (many * 2.5, few * 2.5)[1], least=2)) == 1


def test_a_column_is_changed_once_and_by_all_threads() -> None:
    """What is computed in place is not computed again, and its floating-point errors are reported."""
    (ours, other), (plain, right) = columns(np), columns(numpy)
    for column in turns():
        ours[:, column] += other
        plain[:, column] += right
    assert numpy.asarray(ours).tobytes() == plain.tobytes()
    for place in (2, 8_000):
        other[place] = right[place] = 0.0
        with pytest.warns(RuntimeWarning, match="divide by zero"):
            ours[:, 7] /= other
        with numpy.errstate(divide="ignore"):
            plain[:, 7] /= right
        assert numpy.asarray(ours).tobytes() == plain.tobytes()


def test_products_of_columns_are_shared_and_have_numpys_bits() -> None:
    (ours, _), (plain, _) = columns(np), columns(numpy)
    expected = [plain[:, 7] @ plain[:, column] for column in range(160)]
    for column in turns():
        assert ours[:, 7] @ ours[:, column] == expected[column]
    ours[8_000, 7] = numpy.inf
    ours[8_000, 3] = 0.0
    for _ in range(3):
        with pytest.warns(RuntimeWarning, match="invalid value"):
            assert numpy.isnan(ours[:, 7] @ ours[:, 3])

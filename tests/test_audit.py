"""Samples of the audit of calls (audit.py) and of the fuzzer of views (stateful.py), and what these found."""

from __future__ import annotations

import ctypes
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy
import pytest

import diffuse
import diffuse.numpy as dnp
from diffuse.settings import config, using
from tests import audit, audit_calls, audit_parameters, stateful
from tests.around import around
from tests.each import for_each
from tests.outcomes import warned

quiet = around(using, small=config.small, fallback="silent", compile="off")
"""Without warnings about functions that NumPy computes, and without compiling: kernels would come at other
times."""


@pytest.mark.local_only("arrays are in memory of their own there, and NumPy's view of them a copy")
@pytest.mark.parametrize(("mode", "count"), [("small", 300), ("recorded", 300), ("large", 30)])
def test_generated_calls(mode: str, count: int) -> None:
    for number in range(count):
        text, differences = audit.checked(mode, number)
        assert not [d for d in differences if d[0] != "["], text + "\n" + "\n".join(differences)


@pytest.mark.local_only("NumPy's views of the memory are copies there")
@pytest.mark.parametrize("mode", [*stateful.MODES])
def test_families_of_views(mode: str) -> None:
    for number in range(6):
        text, differences = stateful.checked(mode, number)
        assert not [d for d in differences if d[0] != "["], text + "\n" + "\n".join(differences)


@pytest.mark.parametrize("text", ["np.median(a, out=b)", "a.mean(out=b)", "np.nanmedian(a, axis=0, out=b)"])
def test_calls_that_end_numpy_are_not_generated(text: str) -> None:
    draft = audit_parameters.Draft(random.Random(3), "small")
    draft.new((7,), "f2", "C")
    assert not audit_calls.avoided(draft, text)
    draft.new((), "O", "C")
    assert audit_calls.avoided(draft, text)
    assert audit_calls.avoided(draft, "b.put(1<<40, c, mode='wrap')")


@pytest.mark.parametrize("command", ["numpy_suite", "scipy_suite", "fuzz_ranks", "block_programs"])
def test_commands_tell_how_they_are_called(command: str) -> None:
    words = [sys.executable, str(Path(__file__).with_name(f"{command}.py")), "--help"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300,
                          env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)})
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"usage: {command}.py")


def told(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [told(v) for v in value]
    if isinstance(value, (dnp.ndarray, numpy.ndarray)):
        return str(value.dtype), value.shape, value.strides, repr(value.tolist())
    return (type(value).__name__, repr(value)) if not isinstance(value, numpy.generic) else (str(value.dtype),
                                                                                             repr(value))


def outcome(np: Any, code: str) -> Any:
    """The result of the expression behind the last semicolon, or the error; and the warnings."""
    scope: dict[str, Any] = {"np": np, "numpy": numpy, "diffuse": diffuse}
    before, _, last = code.rpartition(";")
    with warned() as caught:
        try:
            exec(before, scope)
            found = told(eval(last.strip(), scope))
        except Exception as error:
            found = type(error).__name__, str(error)
        diffuse.fence()
    return found, sorted({(w.category.__name__, str(w.message)) for w in caught})


FOUND = Path(__file__).with_name("audit_found.txt").read_text(encoding="utf-8").splitlines()
"""The calls that the two found wrong and that were mended: an expression a line, behind statements."""


@pytest.mark.parametrize("small", [0, 16384])
@for_each("code", FOUND)
def test_what_was_found(code: str, small: int) -> None:
    config.small = small
    assert outcome(dnp, code) == outcome(numpy, code)


@pytest.mark.local_only("NumPy's views of the memory are copies there")
@pytest.mark.parametrize("kind", ["f2", "f8"])
@pytest.mark.parametrize("view", [
    "np.ma.array(x)", "np.ma.array(x).data", "np.ma.masked_where(x > 3, x, copy=False)", "np.asmatrix(x)",
    *["numpy.frombuffer(x, x.dtype)", "np.frombuffer(x, x.dtype)", "numpy.ndarray(x.shape, x.dtype, x)"
      ] * stateful.BUFFERS])
def test_what_shows_the_memory_of_an_array_stays_up_to_date(view: str, kind: str) -> None:
    x = dnp.array((numpy.arange(20000) % 5).astype(kind))
    shown = eval(view, {"np": dnp, "numpy": numpy, "x": x})
    x += 1
    assert numpy.array(numpy.asarray(shown)).ravel()[:7].tolist() == [1, 2, 3, 4, 5, 1, 2]


@pytest.mark.local_only("NumPy's views of the memory are copies there")
@pytest.mark.parametrize("size", [200, 5000, 20000])
@pytest.mark.parametrize("view", [
    "np.ma.array(x)", "np.ma.array(x[1:])", "np.ma.masked_where(x > 3, x, copy=False)", "np.asmatrix(x)",
    "np.asmatrix(x[1:])", "np.ma.fix_invalid(x, copy=False)", "np.ma.getdata(np.ma.array(x))"])
def test_tasks_read_an_array_before_what_shows_its_memory_is_written(view: str, size: int) -> None:
    x, rows = dnp.array(numpy.arange(size) * 1.0), dnp.ones((40000 // size + 1, size))
    shown = eval(view, {"np": dnp, "numpy": numpy, "x": x})
    pending = rows * 2.0 + x
    shown[...] = 7.0
    assert numpy.array_equal(pending[0], numpy.arange(size) + 2.0)
    assert float((rows * 0.0 + x)[0, 3]) == 7.0


@pytest.mark.local_only("NumPy's views of the memory are copies there")
def test_an_address_that_is_a_number_shows_what_was_computed_since() -> None:
    x = dnp.array(numpy.arange(20000.0))
    address = x.ctypes.data
    for k in range(1, 4):
        x += 1
        dnp.add(x, 1, out=x)
        assert list((ctypes.c_double * 3).from_address(address)) == [2 * k, 2 * k + 1, 2 * k + 2]


@pytest.mark.parametrize("code", ["np.prod(np.float32(2.5), axis=0)", "np.any(0)", "np.max(3, initial=5)"])
def test_a_reduction_of_a_number_is_a_number_at_once(code: str) -> None:
    config.small = 0
    found, expected = eval(code, {"np": dnp}), eval(code, {"np": numpy})
    assert type(found) is type(expected) and found == expected


def test_small_products_of_one_element_have_numpys_bits_whatever_their_dimensions() -> None:
    x, y = numpy.array([-1.1 + 0.7j]), numpy.array([[2.6 + 1.9j]])
    for a, b in ((x, y), (y, x), (x, y[0]), (y, y), (x[0, ...], y[0, 0, ...])):
        assert dnp.multiply(a, b).tobytes() == numpy.multiply(a, b).tobytes()


def test_one_small_element_read_backwards_has_numpys_bits() -> None:
    for value in numpy.linspace(1.1, 9.0, 60):
        x = numpy.array([value])[::-1]
        for name in ("arccosh", "sinh", "log10", "cbrt", "tan"):
            assert getattr(dnp, name)(x).tobytes() == getattr(numpy, name)(x).tobytes()


def test_views_that_are_equal_for_one_row_are_not_for_more() -> None:
    config.small = 0
    for rows in (1, 6):
        plain = numpy.arange(5.0 * rows).reshape(rows, 5)
        x = dnp.array(plain)
        assert (x - x[::-1]).tolist() == (plain - plain[::-1]).tolist()

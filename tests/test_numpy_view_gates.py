"""Functions and methods that give views: NumPy's results, and no Python code where the extension is there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse.numpy import small
from tests.each import for_each
from tests.outcomes import python_calls

EXPRESSIONS = """x.reshape(-1); x.reshape(2, -1); x.reshape((2, -1)); x.reshape(7); x.reshape()
    x.T.reshape(-1); x.ravel(); x.T.ravel(); x.transpose(); x.transpose(1, 0); x.transpose((1, 0))
    x.transpose(2); x.swapaxes(0, 1); x.squeeze(); x.squeeze(3); x[:1].squeeze(0); x.diagonal()
    x.diagonal(1); x.view('int64'); x.view('float32'); x.view('i4,f4').dtype.names; x.view('bogus')
    x.view(); x.view(complex); x.T.view(complex); np.reshape(x, -1); np.ravel(x.T); np.flip(x)
    np.flip(x, 1); np.transpose(x, (1, 0)); np.split(x, 2); np.array_split(x, 3); np.split(x, 3)
    np.expand_dims(x, -1); np.expand_dims(x, 3); np.expand_dims(x[:, 1:], 1); np.expand_dims(x, (0, 1))
    np.flip(x, -1); np.flip(x, 2); np.flip(x[::2], 0); np.flip(x.T, (0, 1)); np.flip(x, None)
    np.split(x, 4.0); np.split(x, 0); np.array_split(x, 7, 1); np.array_split(x.T, 3); np.array_split(x, 999)
    np.diagonal(x, 1); np.diagonal(x.T); np.transpose(x); np.transpose(x, None); np.transpose(x, (0, 0))
    np.transpose(x, (-1, 0)); np.transpose(x, 1, 0); x.transpose(-1, 0); x.transpose((0, 1))
    x.transpose(None); np.transpose(x[None], (2, 0, 1)); np.broadcast_to(x, (3, *x.shape))
    np.broadcast_to(x, (1, *x.shape)); np.broadcast_to(x[:1], x.shape); np.broadcast_to(x[:, :1], x.shape)
    np.broadcast_to(x, x.shape); np.broadcast_to(x[0], (0, len(x[0])))
    np.broadcast_to(x, 7); np.broadcast_to(x, (-1, 7))
    x[0].tolist(); x[:, 0].tolist(); x.T[0].view('int64').tolist(); x[0].tolist(1)
    np.expand_dims(x, 0); np.rot90(x); np.moveaxis(x, 0, 1); np.diagonal(x); np.fliplr(x)"""


def evaluated(text: str, m: Any, x: Any) -> Any:
    """What an expression gives, with views as they lie in memory; an error by its type and text."""
    try:
        found = eval(text, {"np": m, "x": x})
    except Exception as error:
        return type(error), str(error)
    parts = found if isinstance(found, list) else [found]
    return [(part.shape, part.strides, part.dtype, part.flags.writeable, numpy.asarray(part).tobytes())
            if hasattr(part, "strides") else part for part in parts]


@pytest.mark.usefixtures("threshold")
@for_each("text", [line.strip() for line in EXPRESSIONS.replace("\n", ";").split(";")])
@for_each("shape", [(20, 10), (200, 100)])
def test_views_are_numpys(text: str, shape: tuple[int, int]) -> None:
    real = numpy.arange(shape[0] * shape[1] * 1.0).reshape(shape)
    pending = np.array(real - 1.0) + 1.0
    for ours in (np.array(real), pending):
        assert evaluated(text, np, ours) == evaluated(text, numpy, real)


def test_views_write_to_the_array() -> None:
    x = np.zeros((200, 100))
    bits = x.view("int64")
    for part in (x.reshape(-1), x.ravel(), x.T, np.flip(x), bits.view("float64"), x.swapaxes(0, 1)):
        part += 1.0
    assert float(x.min()) == float(x.max()) == 6.0


@pytest.mark.skipif(small.native is None, reason="needs the extension")
@pytest.mark.parametrize("pending", [False, True])
def test_views_of_large_arrays_run_no_python_code(pending: bool) -> None:
    x = np.zeros((200, 100))
    if not pending:
        float(x[0, 0])
    reshape, view = x.reshape, x.view
    calls = python_calls(lambda: (reshape(-1), view("int64"), x.ravel(), x.swapaxes(0, 1), x.transpose(),
                                  x.squeeze(), x.diagonal()))
    assert not calls[1:], "it runs more than the lambda itself"


@pytest.mark.parametrize("n", [4, 300, 50_000])
def test_descriptions_by_functions(n: int) -> None:
    theirs = numpy.ones((n, 3))
    ours = np.ones((n, 3)) + 1.0
    assert (np.shape(ours), np.ndim(ours), np.size(ours)) == ((n, 3), 2, 3 * n)
    assert (np.shape(ours[0]), np.ndim(ours[0]), np.size(ours[0, 0])) == ((3,), 1, 1)
    assert (np.size(ours, 1), np.size(a=ours, axis=0), np.shape(a=theirs)) == (3, n, (n, 3))
    assert type(np.size(ours)) is type(np.ndim(ours)) is type(np.shape(ours)[0]) is int
    wrong: list[Callable[[Any, Any], Any]] = [lambda m, x: m.shape(x, 1), lambda m, x: m.ndim(),
                                              lambda m, x: m.size(x, 5)]
    for call in wrong:
        with pytest.raises((TypeError, IndexError, ValueError)) as raised:
            call(numpy, theirs)
        with pytest.raises(raised.type):
            call(np, ours)

"""One matrix, or one line, goes to NumPy's LAPACK and FFT through the extension's gate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse.numpy.bridge import fallback
from diffuse.numpy.small import native
from diffuse.stream import engine

CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "cholesky": lambda np, a: np.linalg.cholesky(a @ a.T),
    "solve": lambda np, a: np.linalg.solve(a, a[0]),
    "slogdet": lambda np, a: np.linalg.slogdet(a),
    "eigh": lambda np, a: np.linalg.eigh(a + a.T),
    "qr": lambda np, a: np.linalg.qr(a, mode="r"),
    "svd": lambda np, a: np.linalg.svd(a, full_matrices=False),
    "fft": lambda np, a: np.fft.fft(a.ravel()),
}


@pytest.fixture
def heard() -> Iterator[list[str]]:
    """The calls that go to NumPy by Python's code."""
    names: list[str] = []
    fallback.listener = lambda name, reason, elements: names.append(name)
    yield names
    fallback.listener = None


def matrix(*shape: int) -> Any:
    return numpy.random.default_rng(3).random(shape) + 150 * numpy.eye(shape[-1])


@pytest.mark.parametrize("name", CALLS)
def test_results_are_numpys(name: str) -> None:
    """Functions of a matrix have NumPy's results below and above the size of small arrays."""
    for rows in (3, 150):
        a = matrix(rows, rows)
        expected, found = CALLS[name](numpy, a), CALLS[name](np, np.array(a))
        assert not isinstance(expected, tuple) or type(found) is type(expected)
        for one, other in zip(*[x if isinstance(x, tuple) else (x,) for x in (found, expected)], strict=True):
            assert one.dtype == other.dtype and numpy.asarray(one).tobytes() == other.tobytes()


@pytest.mark.skipif(native is None, reason="needs the extension")
def test_python_only_sees_to_stacks_and_pending_matrices(heard: list[str]) -> None:
    x, stack = np.array(matrix(150, 150)), np.array(matrix(2, 150, 150))
    if engine.current().host_sees:
        np.linalg.inv(x), np.linalg.slogdet(x), np.fft.rfft(x.ravel())
        assert heard == []
    assert (numpy.asarray(np.linalg.inv(stack)) == numpy.linalg.inv(matrix(2, 150, 150))).all()
    assert heard == ["numpy.linalg.inv"]


def test_errors_are_numpys() -> None:
    x = np.array(numpy.ones((70, 70)))
    with pytest.raises(numpy.linalg.LinAlgError, match="Singular matrix"):
        np.linalg.inv(x)
    with pytest.raises(numpy.linalg.LinAlgError, match="must be square"):
        np.linalg.inv(x[1:])
    with pytest.raises(TypeError):
        np.linalg.inv(x, x)

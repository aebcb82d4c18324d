"""`numpy.fft` on large arrays: NumPy's bits, layouts, errors and warnings, from several threads."""

from __future__ import annotations

import warnings
from typing import Any

import numpy
import pytest

import diffuse.numpy as dnp
from diffuse.numpy.ops.readers import reads
from diffuse.numpy.order import team
from tests.outcomes import warned

NAMES = numpy.fft._pocketfft.__all__
OPTIONS: tuple[dict[str, Any], ...] = (
    {}, {"norm": "ortho"}, {"axis": 0}, {"axes": (0,)}, {"n": 37}, {"axis": -2}, {"s": (8, 9)}, {"norm": "x"})


@pytest.fixture(autouse=True)
def threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(team, "threads", lambda: 3)


def samples(shape: tuple[int, ...]) -> list[Any]:
    r = numpy.random.default_rng(1)
    x = r.standard_normal(shape)
    endless = x.copy()
    endless.flat[5] = numpy.inf
    z = x + 1j * r.standard_normal(shape)
    return [x, z, x.astype("f4"), x.T, z[::2], endless, (x * 9).astype(int)]


def outcome(np: Any, name: str, x: Any, options: dict[str, Any]) -> Any:
    with warned() as told:
        try:
            found = numpy.asarray(getattr(np.fft, name)(x, **options))
        except (TypeError, ValueError, IndexError) as error:
            return type(error), str(error)
    return found.dtype, found.shape, found.strides, found.tobytes(), {str(w.message) for w in told}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [(150, 230), (33, 34, 35)], ids=str)
def test_transforms_are_numpys(name: str, shape: tuple[int, ...]) -> None:
    for x in samples(shape):
        for options in OPTIONS:
            assert outcome(dnp, name, dnp.asarray(x.copy("K")), options) == outcome(numpy, name, x, options)


def test_error_modes_are_those_of_the_caller() -> None:
    x = dnp.full((200, 200), numpy.inf)
    with dnp.errstate(invalid="raise"), pytest.raises(FloatingPointError, match="invalid value"):
        dnp.fft.fft(x)
    with dnp.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("error")
        dnp.fft.fft(x)


def test_transforms_read_their_argument_only() -> None:
    assert reads(vars(dnp.fft)["_scope"]["fft"], (numpy.ones(3),), {})
    assert not reads(vars(dnp.fft)["_scope"]["fft"], (numpy.ones(3),), {"out": numpy.ones(3, complex)})

"""Arrays whose contents are lost, and all the others while the program still holds one."""

from __future__ import annotations

import gc
from typing import Any

import numpy
import pytest

from diffuse.library import call, current, fence
from diffuse.numpy.arrays.access import ready, storage_of
from diffuse.numpy.arrays.base import view_of
from tests.test_walks import busy

pytestmark = pytest.mark.local_only("which memory is at hand")


@pytest.fixture(autouse=True)
def search() -> None:
    """The search for the handles of an earlier test does not put this one's off."""
    current().losses._next = 0.0


@pytest.fixture
def lost() -> Any:
    """An array whose memory the program has seen, and whose last operation failed."""
    x, other = busy(), busy()
    float(x[0, 0])
    lose(x, other)
    with pytest.raises(ValueError, match="no result"):
        fence()
    return x


def lose(x: Any, other: Any) -> None:
    def fail(a: Any, b: Any) -> None:
        raise ValueError("no result")

    call("failing", fail, ((storage_of(other), view_of(other)),), ((storage_of(x), view_of(x)),))


def raises(x: Any) -> None:
    for read in (lambda: float(x[0, 0]), lambda: numpy.asarray(x[3] + 1.0), lambda: numpy.asarray(x)):
        with pytest.raises(ValueError, match="no result"):
            read()


def test_other_arrays_are_at_hand_while_a_lost_one_is_held(lost: Any) -> None:
    y = busy()
    float(y[0, 0])
    z = busy() + y
    assert not ready(y)
    fence()
    assert ready(y)
    raises(lost)
    fence()
    raises(lost)
    lose(z, y)
    with pytest.raises(ValueError, match="no result"):
        fence()
    fence()
    raises(z)
    raises(lost)
    lost[...] = y
    assert numpy.array_equal(numpy.asarray(lost), numpy.asarray(y))
    raises(z)


def test_a_lost_array_that_the_collector_does_not_know_still_raises() -> None:
    x, y = busy(), busy()
    float(x[0, 0]), float(y[0, 0])
    gc.freeze()
    try:
        lose(x, y)
        with pytest.raises(ValueError, match="no result"):
            fence()
        fence()
        raises(x)
        assert not ready(y)
    finally:
        gc.unfreeze()
        current().losses._next = 0.0
    fence()
    assert ready(y)
    raises(x)


def test_a_search_for_handles_is_not_repeated_at_once(lost: Any) -> None:
    y = busy()
    float(y[0, 0])
    fence()
    current().losses._next = float("inf")
    z = busy()
    lose(z, y)
    with pytest.raises(ValueError, match="no result"):
        fence()
    fence()
    raises(z)
    assert not ready(y)
    current().losses._next = 0.0
    fence()
    assert ready(y)
    raises(z)
    raises(lost)

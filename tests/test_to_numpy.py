"""`diffuse.to_numpy`: what is shared, what is copied, and what becomes of structures."""

from __future__ import annotations

import collections
from typing import Any

import numpy
import pytest

import diffuse
import diffuse.numpy as np
from diffuse.stream import engine
from tests.kinds import is_ours

SIZES = [500, 100_000]


class Pair(collections.namedtuple("Pair", "first second")):
    """A named tuple of the program's."""


@pytest.mark.parametrize("size", SIZES)
def test_both_see_what_the_other_writes(size: int) -> None:
    x = np.arange(float(size)) + 1
    for part in (x, x[::2], x[3:], x.reshape(2, -1).T):
        theirs = diffuse.to_numpy(part)
        assert type(theirs) is numpy.ndarray
        assert (theirs.shape, theirs.strides, theirs.dtype) == (part.shape, part.strides, part.dtype)
        theirs[-1] = -5
        assert numpy.all(part[-1] == -5)
        part[-1] *= 2
        assert numpy.all(theirs[-1] == -10)


@pytest.mark.parametrize("size", SIZES)
def test_a_copy_shares_nothing(size: int) -> None:
    x = np.arange(float(size)) + 1
    theirs = diffuse.to_numpy(x, copy=True)
    theirs[0] = 99
    x[1] = 77
    assert x[0] == 1 and theirs[1] == 2
    mine = numpy.ones(3)
    assert diffuse.to_numpy(mine) is mine and diffuse.to_numpy(mine, copy=True) is not mine


@pytest.mark.local_only("arrays are shown in copies")
def test_operations_run_at_once_for_as_long_as_somebody_looks(nothing_alone: None) -> None:
    x = np.ones(1_000_000)
    x += 1
    theirs = diffuse.to_numpy(x)
    x += 1
    assert not engine.busy(x.storage) and theirs[0] == 3
    del theirs
    x += 1
    assert engine.busy(x.storage)
    copy = diffuse.to_numpy(x, copy=True)
    x += 1
    assert engine.busy(x.storage) and copy[0] == 4


def test_showing_an_array_often_costs_the_same_each_time() -> None:
    x = np.ones(100_000)
    for _ in range(50):
        diffuse.to_numpy(x)
    assert len(x.storage._shown) <= 2


def test_structures_are_rebuilt_around_the_arrays() -> None:
    x = np.arange(1000.0)
    held: Any = {"a": [x, (x, Pair(x, 1))], "rest": [1, "two"], "more": collections.OrderedDict(k=x[:500])}
    found = diffuse.to_numpy(held)
    assert type(found["a"][0]) is numpy.ndarray and found["a"][0] is not x
    pair = found["a"][1][1]
    assert type(pair) is Pair and type(pair.first) is numpy.ndarray and pair.second == 1
    assert found["rest"] is held["rest"]                      # nothing to convert: the very same
    assert type(found["more"]) is collections.OrderedDict and type(found["more"]["k"]) is numpy.ndarray
    assert is_ours(held["a"][0]) and is_ours(held["more"]["k"])  # what was given is as it was
    found["a"][0][0] = 5
    assert x[0] == 5


def test_a_default_dict_keeps_its_default_and_a_list_its_class() -> None:
    class Many(list[Any]):
        label = "many"

    counted = collections.defaultdict(int, x=np.ones(1000))
    assert diffuse.to_numpy(counted)["missing"] == 0
    found = diffuse.to_numpy(Many([np.ones(1000)]))
    assert type(found) is Many and type(found[0]) is numpy.ndarray and found.label == "many"


def test_scalars_flags_and_everything_else() -> None:
    x = np.ones(100_000)
    assert type(diffuse.to_numpy(x.sum())) is numpy.float64
    x.flags.writeable = False
    assert not diffuse.to_numpy(x).flags.writeable
    for value in (5, "text", None, object(), [1, 2], (3,), numpy.float32(2)):
        assert diffuse.to_numpy(value) is value


def test_a_sparse_array_becomes_scipys_copy() -> None:
    scipy_sparse = pytest.importorskip("scipy.sparse")
    import diffuse.scipy.sparse as sp

    ours = sp.csr_array(np.eye(300))
    found = diffuse.to_numpy(ours)
    assert type(found) is scipy_sparse.csr_array and type(found.data) is numpy.ndarray
    found.data[:] = 7
    assert ours.data[0] == 1


def test_a_wrong_argument_says_what_is_right() -> None:
    with pytest.raises(TypeError, match="copy=None: expected True .* or False"):
        diffuse.to_numpy(np.ones(3), copy=None)  # type: ignore[arg-type]

"""Views of few elements of small arrays are NumPy's own, over the memory of an array that tasks may read."""

from __future__ import annotations

import gc
import random
from typing import Any

import numpy
import pytest

import diffuse
import diffuse.numpy as np
from diffuse import settings
from diffuse.numpy.arrays import core

LARGE = 200


def ours(count: int) -> Any:
    x = np.arange(count) * 0.5
    assert isinstance(x, core.Array) and x.storage is None
    return x


def test_views_of_few_elements_are_numpys_and_share_memory() -> None:
    x = ours(900).reshape(30, 30)
    row, column = x[3], x[:, 4]
    assert type(row) is type(column) is numpy.ndarray
    row[5] = -1.0
    column += 100.0
    assert x[3, 5] == -1.0 and x[7, 4] == 0.5 * (7 * 30 + 4) + 100.0
    x[3] = 2.0
    assert (row == 2.0).all() and np.shares_memory(row, x)
    del x
    assert row[0] == 2.0


def test_views_of_many_elements_and_of_arrays_with_a_store_are_ours() -> None:
    x = ours(900).reshape(30, 30)
    assert isinstance(x[3:20], core.Array)
    large = np.zeros((LARGE, LARGE)) + x.ravel()[:1]
    assert isinstance(large[:5, 3], core.Array)


def test_tasks_read_the_elements_that_there_were() -> None:
    x = ours(LARGE)
    few = x[:5]
    large = np.ones((LARGE, LARGE))
    sums = []
    for k in range(4):
        sums.append(large * x + x[:, None])
        few[2] = 1000.0 + k
        few += 1.0
    expected, sums_expected = numpy.arange(LARGE) * 0.5, []
    for k in range(4):
        sums_expected.append(numpy.ones((LARGE, LARGE)) * expected + expected[:, None])
        expected[2] = 1000.0 + k
        expected[:5] += 1.0
    for one, other in zip(sums, sums_expected, strict=True):
        assert numpy.array_equal(numpy.asarray(one), other)
    assert numpy.array_equal(numpy.asarray(x), expected)


@pytest.mark.not_device("what the program has seen once is copied")
def test_an_array_whose_views_are_gone_is_read_without_a_copy() -> None:
    x = ours(LARGE)
    few = x[:5]
    large = np.ones((LARGE, LARGE)) + 0.0
    first = large + x
    assert x.storage is None, "a snapshot"
    del few
    second = large + x
    assert x.storage is not None, "the array itself"
    assert numpy.array_equal(numpy.asarray(first), numpy.asarray(second))


@pytest.mark.not_device("what the program has seen once is copied")
def test_tasks_that_write_wait_while_a_view_is_held() -> None:
    x = ours(LARGE)
    few = x[:5]
    large = np.ones((LARGE, LARGE)) + 1.0
    np.sum(large, axis=0, out=x)
    assert (few == 2.0 * LARGE).all()
    x += (large * 0.5).sum(axis=1)
    assert (few == 3.0 * LARGE).all()
    few[0] = 7.0
    assert float((large * x)[0, 0]) == 14.0
    held = x.storage
    assert held.shown()
    del few
    gc.collect()
    assert not held.shown()


@pytest.mark.not_device("what the program has seen once is copied")
def test_an_array_that_lent_its_memory_is_not_resized() -> None:
    x = ours(300)
    few = x[:5]
    with pytest.raises(ValueError, match="resize"):
        x.resize((400,))
    del few
    x.resize((400,))
    assert x.shape == (400,)


def step(m: Any, names: dict[str, Any], rng: random.Random) -> None:
    """A random step of a program on small arrays, views of them, and large arrays."""
    x = names[rng.choice(["x", "y"])]
    kind = rng.randrange(9)
    k = rng.randrange(5)
    if kind == 0:
        names["v"] = x[k]
    elif kind == 1:
        names["v"] = x[:, k][3:]
    elif kind == 2:
        names["v"][...] = k
    elif kind == 3:
        names["v"] *= 0.5
    elif kind == 4:
        names["big"] = names["big"] * 0.5 + x.ravel()
    elif kind == 5:
        names["big"][k] = x.ravel()
    elif kind == 6:
        x += names["big"][:20].reshape(20, -1)[:, :20]
    elif kind == 7:
        m.add(names["big"][k], 1.0, out=x.reshape(-1))
    else:
        names["v"] = x[k] * 1.0
        names["y"] = names["x"] + 0.25 * names["y"].T


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_agree_with_numpy(seed: int) -> None:
    found = []
    for m in (np, numpy):
        rng = random.Random(seed)
        start: Any = m.arange(400.0)
        names = {"x": start.reshape(20, 20) / 7.0, "y": start.reshape(20, 20) / 3.0, "v": start[:3] * 1.0,
                 "big": m.zeros((100, 400)) + start}
        for _ in range(60):
            step(m, names, rng)
        found.append({name: numpy.array(value) for name, value in names.items()})
    for name, value in found[1].items():
        assert numpy.array_equal(found[0][name], value), name
    diffuse.fence()


@pytest.mark.local_only("NumPy's views of the memory are copies there")
def test_place_reads_what_it_wrote_through_an_array_of_the_program() -> None:
    found = []
    with settings.using(small=0):
        for np_ in numpy, np:
            x = np_.arange(900) % 7
            np_.place(x, x > 2, x.__array__())
            found.append(x.tolist())
    assert found[0] == found[1]


def test_an_array_of_another_shape_after_resize_owns_its_memory() -> None:
    x = np.arange(400.)
    x.resize((20, 20))
    assert x.flags.owndata and x.base is None
    x.resize((100, 2))  # which the memory of another array would refuse
    x.resize(3)
    assert x.tolist() == [0.0, 1.0, 2.0]

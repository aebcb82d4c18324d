"""Looking at an array leaves it in Legate's store; what writes to the host's copy takes it out of there."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

from diffuse.numpy.ops.readers import reads
from tests.jobs import needs_legate, python

START = """
import warnings
import numpy
import diffuse.numpy as np
from diffuse.stream import engine

warnings.simplefilter("ignore")
stores = engine.current().stores

def fresh():
    global expected
    expected = (numpy.arange(40000.0) * 7919) % 40009
    return (np.arange(40000.0) * 7919) % 40009

def where(x):
    instance = stores.instances[x.storage.id]
    return "home" if instance.home else "away" if instance.filled else "nowhere"

def same(x):
    assert float((x * 2).sum()) == float((expected * 2).sum())
"""

LOOKS = """
looks = {
    "an element": lambda x: x[3], "a number": lambda x: float(x.sum()), "text": str,
    "a function": np.median, "options": lambda x: np.quantile(x, 0.3, axis=0), "indices": lambda x: x[[4, 5]],
    "a copy": lambda x: x.tolist(), "sorted": np.sort, "a test": lambda x: np.testing.assert_allclose(x, x),
}
for name, look in looks.items():
    x = fresh()
    look(x)
    assert where(x) == "away", name
    x += 1  # the host's copy is old now
    expected += 1
    same(x)
    assert look(x) is None or str(look(x)) == str(look(expected)), name
print("looked")
"""

WRITES = """
def scatter(x): x[[3, 5, 5]] = -1.0
def element(x): x[7] = 100.0
def inplace(x): x.sort()
def shuffled(x): np.random.default_rng(3).shuffle(x)
def placed(x): np.place(x, x > 30000, [1.0, 2.0])
def out(x): np.median(x.reshape(200, 200), axis=0, out=x[:200])
def positional(x): np.median(x.reshape(200, 200), 0, x[:200])
def overwritten(x): np.median(x, overwrite_input=True)
def accumulated(x): np.add.at(x, [1, 1], 5.0)
def shown(x): numpy.asarray(x)[5] = -7.0
def flat(x): x.flat[9] = -9.0
def small(x):
    part = x[:10]
    float(part[0])
    part += 5  # computed at once

assert np.size(fresh()[:10]) < diffuse.config.small
for write in (scatter, element, inplace, shuffled, placed, out, positional, overwritten, accumulated, shown,
              flat, small):
    for look in (lambda x: None, np.median):
        x = fresh()
        x *= 1.0
        look(x)
        write(x)
        write(expected)
        same(x)
        assert numpy.array_equal(x, expected), write
        x -= 3
        expected -= 3
        same(x)
print("written")
"""


@needs_legate
@pytest.mark.parametrize("small", ["0", "16384"])
def test_looking_at_an_array_leaves_it_where_it_is(small: str) -> None:
    done = python(START + LOOKS, LEGATE_CONFIG="--cpus 2", DIFFUSE_RUNTIME="legate", DIFFUSE_SMALL=small)
    assert done.stdout == "looked\n", done.tail


@needs_legate
def test_what_the_host_writes_is_seen_by_later_tasks() -> None:
    done = python("import diffuse\n" + START + WRITES, LEGATE_CONFIG="--cpus 2", DIFFUSE_RUNTIME="legate")
    assert done.stdout == "written\n", done.tail


@pytest.mark.parametrize("function, args, kwargs, verdict", [
    (numpy.median, (1,), {}, True),
    (numpy.median, (1,), {"axis": 0, "out": None}, True),
    (numpy.median, (1,), {"out": numpy.zeros(3)}, False),
    (numpy.median, (1, 0, numpy.zeros(3)), {}, False),
    (numpy.median, (1,), {"overwrite_input": True}, False),
    (numpy.median, (), {"no": "such option"}, False),
    (numpy.bincount, (1,), {}, True),
    (numpy.put, (1, 2, 3), {}, False),
    (numpy.ndarray.sort, (1,), {}, False),
    (numpy.random.shuffle, (1,), {}, False),
])
def test_functions_that_only_read(function: Any, args: Any, kwargs: Any, verdict: bool) -> None:
    assert reads(function, args, kwargs) is verdict

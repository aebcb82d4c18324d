"""The stable order of elements is NumPy's, found by words of leading bits and positions or by digits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy
import pytest

from diffuse.numpy.order import merging, numbering, radix, team
from diffuse.settings import using

pytestmark = pytest.mark.local_only("functions run on memory that the host sees")

SIZE = 6000
CLOSE = "pairs beyond the leading bits"
MANY = "many other keys with the same leading bits"


@pytest.fixture(autouse=True, params=[1, 3, 4], ids=lambda count: f"{count} threads")
def parallel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(team, "SHARE", 50)
    monkeypatch.setattr(team, "threads", lambda: request.param)
    monkeypatch.setattr(merging, "threads", lambda: request.param)
    monkeypatch.setattr(merging, "SHARE", 50)
    monkeypatch.setattr(numbering, "BLOCK", 300)
    with using(compile="wait"):
        yield


def elements(what: str, dtype: str) -> Any:
    rng = numpy.random.default_rng(len(what))
    wide = rng.integers(-(1 << 62), 1 << 62, SIZE)
    match what:
        case "random":
            x = wide if dtype == "int64" else rng.standard_normal(SIZE)
        case "small integers of both signs":
            x = rng.integers(-90, 90, SIZE)
        case "few values far apart":
            x = wide[:20][rng.integers(0, 20, SIZE)]
        case "equal":
            x = numpy.full(SIZE, 7)
        case "descending":
            x = numpy.arange(SIZE)[::-1]
        case "extremes":
            x = numpy.full(SIZE, numpy.iinfo("int64").max)
            x[::3] = numpy.iinfo("int64").min
        case _ if what == CLOSE:
            x = wide >> 40 << 40
            x[1::50], x[2::50] = x[::50] + 3, x[::50] + 1
        case _:
            x = (wide >> 60 << 60) + rng.integers(0, 200, SIZE)
    return x.astype(dtype)


@pytest.mark.parametrize("dtype", ["int64", "float64", "uint64", "int32", "float32", "uint8"])
@pytest.mark.parametrize("what", ["random", "small integers of both signs", "few values far apart", "equal",
                                  "descending", "extremes", CLOSE, MANY])
@pytest.mark.filterwarnings("ignore:invalid value")
def test_the_order_is_numpys_stable_one(what: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = elements(what, dtype)
    wanted = x.argsort(kind="stable")
    for words in (True, False):
        monkeypatch.setattr(radix, "vectorized", lambda dtype, words=words: words)
        known = radix.keys_of(x)
        assert known is not None
        found = numbering.ordered(known.keys, known.varying, marked=True)
        assert found is not None and found.first is not None
        assert found.positions.tolist() == wanted.tolist()
        ordered = x[wanted]
        assert found.first.tolist() == [True, *(ordered[1:] != ordered[:-1]).tolist()]


@pytest.mark.parametrize("what, sorted_", [
    ("random", True), ("small integers of both signs", True), ("few values far apart", True), (CLOSE, True),
    (MANY, False)])
def test_words_sort_all_but_elements_that_only_later_bits_order(what: str, sorted_: bool) -> None:
    x = elements(what, "int64")
    known = radix.keys_of(x)
    assert known is not None
    found = numbering._by_words(known.keys, known.varying, False)
    assert (found is not None) == sorted_

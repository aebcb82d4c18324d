"""`einsum` of two arrays as matrix products and multiplications, against NumPy's."""

from __future__ import annotations

import random
from typing import Any

import numpy
import pytest

import diffuse.numpy as dnp
from diffuse.observe import trace
from diffuse.settings import using
from tests.each import for_each

LETTERS = "abcdef"


def case(pick: random.Random) -> tuple[str, list[Any], bool]:
    """Subscripts, operands, and whether NumPy is to optimize."""
    labels = LETTERS[:pick.randint(1, 5)]
    extents = {label: pick.choice([1, 2, 3, 5, 8, 30]) for label in labels}
    terms = ["".join(pick.sample(labels, pick.randint(0, min(3, len(labels))))) for _ in range(2)]
    used = sorted(set("".join(terms)))
    result = "".join(pick.sample(used, pick.randint(0, min(3, len(used)))))
    dtype, values = pick.choice(["f8", "f4", "c16", "i8", "i4", "u8", "f2", "?"]), numpy.random.default_rng(1)
    operands = []
    for term in terms:
        x = (values.standard_normal([extents[label] for label in term]) * 5).astype(dtype)
        operands.append(pick.choice([x, x, x.T.copy().T, x[::-1] if x.ndim else x]))
    return ",".join(terms) + pick.choice(["", f"->{result}", f"->{result}"]), operands, pick.random() < 0.3


def outcome(np: Any, subscripts: str, operands: list[Any], optimize: bool) -> Any:
    try:
        found = numpy.asarray(np.einsum(subscripts, *map(np.asarray, operands), optimize=optimize))
    except ValueError as error:
        return str(error)
    strides = found.strides if 1 not in found.shape else ()
    return found.dtype, found.shape, strides, found


@pytest.mark.parametrize("subscripts", ["ij,ij->ij", "ij,j->ij", "i,j->ij", "i,->i"])
def test_no_product_is_a_negative_zero(subscripts: str) -> None:
    """NumPy adds products without sums to zero, too."""
    shapes = {"ij": (30, 40), "j": (40,), "i": (30,), "": ()}
    operands = [numpy.full(shapes[term], value) for term, value in zip(
        subscripts.partition("->")[0].split(","), (0.0, -2.0), strict=True)]
    with using(small=0):
        found = dnp.einsum(subscripts, *map(dnp.array, operands))
    assert not numpy.signbit(numpy.asarray(found)).any()
    assert not numpy.signbit(numpy.einsum(subscripts, *operands)).any()


@pytest.mark.parametrize("seed", range(4))
def test_products_are_numpys(seed: int) -> None:
    pick = random.Random(seed)
    with using(small=0), numpy.errstate(all="ignore"):
        for _ in range(80):
            subscripts, operands, optimize = case(pick)
            ours, plain = (outcome(np, subscripts, operands, optimize) for np in (dnp, numpy))
            if isinstance(plain, str):
                assert ours == plain
                continue
            assert ours[:3] == plain[:3], (subscripts, [x.strides for x in operands])
            close = {"f": 1e-3, "e": 0.2, "d": 1e-9, "D": 1e-9}.get(plain[0].char, 0.0)
            scale = max(1.0, float(abs(plain[3]).max())) if plain[3].size else 1.0
            numpy.testing.assert_allclose(ours[3], plain[3], close, close * scale, err_msg=subscripts)


@pytest.mark.parametrize(("subscripts", "shapes"), [
    ("ij,jk->ik", [(200, 150), (150, 30)]), ("nij,njk->nik", [(3000, 3, 3), (3000, 3, 3)]),
    ("i,j->ij", [(20000,), (3,)]), ("ij,j->ij", [(200, 100), (100,)]), ("ab,cb", [(200, 150), (30, 150)])])
def test_large_ones_are_recorded(subscripts: str, shapes: list[tuple[int, ...]]) -> None:
    operands = [dnp.ones(shape) for shape in shapes]
    trace.counters.clear()
    found = dnp.einsum(subscripts, *operands) + 1
    assert trace.counters["recorded"] >= 2
    assert (found == numpy.einsum(subscripts, *map(numpy.asarray, operands)) + 1).all()


@for_each("subscripts", ["ij,ij->i", "ij,j->i", "ij->i", "ij,ij->", "ij,ij->j", "ij,ij"])
@for_each("shape", [(700, 1600), (3, 400_000), (260_000, 5)])
def test_sums_at_hand_are_numpys(subscripts: str, shape: tuple[int, int]) -> None:
    """The first call leaves them to NumPy's function; later ones share rows of the result among threads."""
    pick = numpy.random.default_rng(3)
    extents = dict(zip("ij", shape, strict=True))
    operands = [pick.random([extents[label] for label in term]) - 0.5
                for term in subscripts.partition("->")[0].split(",")]
    wanted, given = numpy.einsum(subscripts, *operands), [*map(dnp.array, operands)]
    for _ in range(3):
        found = dnp.einsum(subscripts, *given)
        assert numpy.asarray(found).tobytes() == wanted.tobytes()
        assert type(found) is type(wanted) or wanted.size >= 128

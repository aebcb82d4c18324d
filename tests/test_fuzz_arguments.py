"""Reductions and scans with all their arguments, drawn at random: results, outputs and errors are NumPy's."""

from __future__ import annotations

import random
from operator import attrgetter
from typing import Any

import numpy
import pytest

import diffuse.numpy
from diffuse.stream import engine
from tests.each import rounds
from tests.outcomes import unwarned

pytestmark = pytest.mark.usefixtures("threshold")

NAMES = """sum sum prod max min any all mean var std ptp argmax argmin cumsum cumprod nansum nanprod trace
add.reduce multiply.reduce minimum.reduce logical_or.reduce add.accumulate multiply.accumulate
add.reduceat""".split()
DTYPES = "float64 float64 float32 int64 int32 int8 uint16 uint64 bool complex128 complex64 float16".split()
SHAPES = ((), (1,), (7,), (40,), (4, 5), (33, 6), (3, 40), (5, 1, 4), (2, 3, 5), (0, 3), (3, 0))
INITIAL = (0, 5, -2, 2.5, True, 1j, None, numpy.float32(1.5), [3], [1] * 4, "a", numpy.array(3.0),
           numpy.array([3.0]), numpy.nan, 1 << 70)
WITHOUT_DTYPE = {"max", "min", "any", "all", "ptp", "argmax", "argmin"}
WITH_INITIAL = {"sum", "prod", "max", "min", "nansum", "nanprod"}
WITHOUT_KEEPDIMS = {"cumsum", "cumprod", "trace"}
WITHOUT_WHERE = {"ptp", "argmax", "argmin"} | WITHOUT_KEEPDIMS


def values_of(pick: random.Random, shape: tuple[int, ...], dtype: str) -> Any:
    draw = numpy.random.default_rng(pick.randrange(1 << 30)).normal(0, 3, shape)
    if dtype.startswith("complex"):
        return numpy.asarray(draw + 1j * draw[..., ::-1] if shape else draw + 1j, dtype)
    values = numpy.asarray(abs(draw) if dtype[0] == "u" else draw).astype(dtype)
    if dtype[0] == "f" and values.size and pick.random() < 0.15:
        values.reshape(-1)[pick.randrange(values.size)] = pick.choice((numpy.nan, numpy.inf, -0.0))
    return values


def laid(np: Any, values: Any, how: int) -> Any:
    """The same elements in C's order, in Fortran's, two steps apart, reversed, or transposed twice."""
    a = np.array(values)
    if how == 1:
        a = np.array(values, order="F")
    elif how == 2 and values.ndim:
        a = np.zeros((2 * values.shape[0], *values.shape[1:]), values.dtype)[::2]
        a[...] = np.array(values)
    elif how == 3 and values.ndim:
        a = np.array(values[::-1])[::-1]
    elif how == 4 and values.ndim == 3:
        a = np.array(values.transpose(1, 2, 0)).transpose(2, 0, 1)
    return a


def axis_of(pick: random.Random, rank: int) -> Any:
    kind = pick.randrange(12)
    if kind < 3:
        return None
    if kind == 3:
        return pick.choice((rank, -rank - 1, 1.5, [0], (0, 0), "x", (0, 7)))
    if kind < 7 and rank > 1:
        return tuple(pick.sample(range(-1, rank - 1), pick.randrange(rank + 1)))
    return pick.randrange(-rank, rank) if rank else pick.choice((0, -1, None))


def out_of(pick: random.Random, np: Any, a: Any, natural: Any, seed: int, scalars: bool) -> Any:
    """An array for the result: its shape or another one, its type or another one, in many layouts."""
    shape, dtype = natural.shape, pick.choice((*DTYPES, *[str(natural.dtype)] * 8))
    kind = pick.randrange(14)
    if kind == 0:
        shape = pick.choice((() if scalars else (3,), (3,), (1, *shape), (*shape, 2), (9, 9)))
    if kind == 1 and a.ndim and a.size >= natural.size and natural.size and a.dtype == natural.dtype:
        flat = a.reshape(-1) if a.flags.c_contiguous else a[:0].reshape(-1)
        if flat.size:
            return flat[:natural.size].reshape(shape)  # overlaps the input
    rng = random.Random(seed)
    out = laid(np, numpy.full(shape, 3).astype(dtype), rng.choice((0, 0, 1, 2, 3, 4)))
    if kind == 2:
        out.flags.writeable = False
    if kind == 3:
        return pick.choice(((out,), (out,), (out, out), (None,), [out], 5))
    return out


def options_of(pick: random.Random, name: str, shape: tuple[int, ...]) -> dict[str, Any]:
    base, _, method = name.partition(".")
    options: dict[str, Any] = {}
    if name != "trace" and pick.random() < 0.8:
        options["axis"] = axis_of(pick, len(shape))
    if base not in WITHOUT_DTYPE and pick.random() < 0.3:
        options["dtype"] = pick.choice((*DTYPES, "U3", "M8[s]") if base != "trace" else DTYPES)
    scan = base in WITHOUT_KEEPDIMS or method in ("accumulate", "reduceat")
    if not scan and pick.random() < 0.3:
        options["keepdims"] = pick.choice((True, True, False))
    if not scan and base not in WITHOUT_WHERE and pick.random() < 0.3:
        options["where"] = pick.randrange(6)
    if not scan and (base in WITH_INITIAL or method) and pick.random() < 0.3:
        options["initial"] = pick.choice(INITIAL)
    if name in ("var", "std") and pick.random() < 0.4:
        options[pick.choice(("ddof", "ddof", "correction"))] = pick.choice((0, 1, 0.5, numpy.int64(1), 50))
    if name in ("var", "std") and pick.random() < 0.1:
        options["mean"] = 0.5
    return options


def called(np: Any, seed: int) -> tuple[Any, ...]:
    """Make the arrays of a call with one library, and call: the kind of error, or result, output, operand and
    whatever else says how precise the result is."""
    pick = random.Random(seed)
    name, shape, dtype = pick.choice(NAMES), pick.choice(SHAPES), pick.choice(DTYPES)
    layout = pick.randrange(5)
    values = values_of(pick, shape, dtype)
    if "prod" in name or "multiply" in name:
        values = (values / 4 + 1).astype(dtype)
    options = options_of(pick, name, shape)
    a = laid(np, values, layout)
    if "where" in options:
        mask = numpy.asarray(numpy.random.default_rng(seed).random(shape) < 0.6)
        narrow, larger = mask[..., :1] if shape else mask, numpy.ones((2, *shape), bool)
        where: Any = (mask, mask, mask, narrow, mask.tolist(), larger)[options["where"]]
        options["where"] = laid(np, where, layout) if isinstance(where, numpy.ndarray) else where
    as_method = pick.random() < 0.4 and hasattr(a, name) and "correction" not in options
    arguments = ([0, shape[0] // 2 if shape else 0],) if name.endswith("reduceat") else ()
    if pick.random() < 0.45 and (name != "trace" or len(shape) > 1):
        try:
            plain = {k: numpy.asarray(v) if k == "where" else v for k, v in options.items()}
            natural = numpy.asarray(attrgetter(name)(numpy)(values, *arguments, **plain))
        except Exception:
            natural = numpy.zeros(3)
        options["out"] = out_of(pick, np, a, natural, seed, "cum" not in name and "acc" not in name)
    text = f"seed {seed}: {name} of {dtype} {shape} layout {layout} method {as_method}, {options}"
    try:
        found = getattr(a, name)(**options) if as_method else attrgetter(name)(np)(a, *arguments, **options)
    except Exception as error:
        engine.flush()
        return text, type(error), error, None, None, None
    out = options.get("out")
    return text, None, found, out[0] if type(out) is tuple else out, a, options.get("dtype", "int")


def precision(*arrays: Any) -> float:
    kinds = [numpy.zeros((), x.dtype).real.dtype for x in arrays if x.dtype.kind in "fc"]
    return max([{2: 1e-1, 4: 1e-5, 8: 1e-11}.get(k.itemsize, 1e-11) for k in kinds], default=0.0)


def compare(seed: int) -> None:
    with unwarned():
        text, wrong, expected, target, operand, dtype = called(numpy, seed)
        _, failed, found, ours, changed, _ = called(diffuse.numpy, seed)
        if wrong or failed:
            assert failed is wrong, f"{text}\n{found!r}\n{expected!r}"
            return
        if target is not None:
            assert (found is ours) == (expected is target), text
            assert isinstance(ours, diffuse.numpy.ndarray) and ours.strides == target.strides, text
        pairs = [(found, expected), (changed, operand), *([(ours, target)] if target is not None else [])]
        for one, other in pairs:
            assert isinstance(one, numpy.ndarray) or isinstance(one, diffuse.numpy.ndarray) == \
                isinstance(other, numpy.ndarray), text
            one = numpy.array(one)
            other = numpy.asarray(other)
            assert (one.dtype, one.shape) == (other.dtype, other.shape), f"{text}\n{one!r}\n{other!r}"
            near = precision(one, other, operand, numpy.zeros(0, dtype))
            if one.dtype.kind in "fc":
                scale = numpy.abs(other[numpy.isfinite(other)]).max(initial=1.0)
                numpy.testing.assert_allclose(one, other, rtol=near, atol=near * scale * 10, err_msg=text)
            else:
                numpy.testing.assert_array_equal(one, other, err_msg=text)


@pytest.mark.parametrize("first", range(0, rounds(400, 800), 200))
def test_every_argument(first: int) -> None:
    for seed in range(first, first + 200):
        compare(seed)

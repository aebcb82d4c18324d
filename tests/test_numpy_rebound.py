"""Functions of NumPy whose own code runs over Diffuse's arrays: values, types, errors and warnings."""

from __future__ import annotations

import warnings
from typing import Any

import numpy

import diffuse.numpy as dnp
from diffuse.numpy.bridge.namespace import REBOUND
from diffuse.observe import trace
from tests.each import for_each
from tests.outcomes import warned

LINES = """
np.nanmin(gaps)
np.nanmax(table, axis=0)
np.nanmax(table, axis=1, keepdims=True)
np.nanmin(table, axis=0, initial=0.0, where=table > 0)
np.nanargmin(plane, axis=1)
np.nanargmax(gaps)
np.nanargmax(table, axis=0)
np.nancumsum(gaps)
np.nancumsum(table, axis=1, dtype='f4')
np.nancumprod(table, axis=0)
np.nanmean(table, axis=0)
np.nanmean(table, axis=0, dtype='f4')
np.nanmean(whole)
np.nanmean(table, axis=0, out=np.empty(150))
np.nanvar(table, axis=1)
np.nanvar(pairs)
np.nanstd(gaps, ddof=1)
np.angle(pairs, deg=True)
np.angle(x)
np.sinc(x)
np.i0(x)
np.unwrap(x * 9)
np.unwrap(plane * 5, axis=0)
np.unwrap(whole, period=10)
np.unwrap(x, axis=3)
np.cov(plane)
np.cov(x, gaps)
np.cov(plane, rowvar=False, bias=True)
np.cov(plane, fweights=np.arange(150))
np.corrcoef(plane)
np.ediff1d(x)
np.ediff1d(whole, to_end=3, to_begin=[1, 2])
np.ediff1d(x, to_begin='a')
np.polyval([1, 2, 3.0], x)
np.polyval(np.poly1d([1, 2]), x)
np.real_if_close(pairs)
np.real_if_close(pairs * 0)
np.cumulative_sum(x, include_initial=True)
np.cumulative_sum(plane)
np.cumulative_prod(plane, axis=1, include_initial=True)
np.kron(plane, plane[:2, :2])
np.tensordot(plane, plane, axes=([0], [0]))
np.tensordot(plane, plane, 3)
np.vander(x[:20000], 4)
np.resize(x, (300, 200))
np.resize(x, -3)
np.diagflat(x[:400], 3)
np.asarray_chkfinite(x)
np.asarray_chkfinite(gaps)
np.apply_over_axes(np.sum, plane, [0, 1])
np.trim_zeros(np.concatenate([np.zeros(30000), x, np.zeros(3)]))
np.require(plane, 'f4', ['F', 'W'])
np.polyadd(x, [1, 2])
np.polysub(x, x[:30000])
np.polymul(x[:20000], [1, 2, 3])
np.polyder(x, 2)
np.polyint(x)
""".strip().splitlines()


def arrays(np: Any) -> dict[str, Any]:
    r = numpy.random.default_rng(0)
    x, plane = r.standard_normal(40000), r.standard_normal((200, 150))
    gaps, table = x.copy(), plane.copy()
    gaps[::7] = table[::3, ::5] = table[:, 10] = numpy.nan
    found = {"x": x, "plane": plane, "gaps": gaps, "table": table, "pairs": x[:20000] + 1j * x[20000:],
             "whole": r.integers(-5, 50, 30000)}
    return {name: np.array(value) for name, value in found.items()}


def outcome(line: str, np: Any) -> tuple[Any, ...]:
    names = arrays(np) | {"np": np}
    with warned() as told:
        warnings.filterwarnings("ignore", message=".*runs by NumPy here")
        try:
            found = eval(line, names)
            said = numpy.array(numpy.asarray(found))
        except Exception as error:
            return type(error), str(error)
    where = sorted([(w.category, str(w.message), w.filename) for w in told], key=str)
    return numpy.ndim(found), said.dtype, said.shape, where, said


@for_each("line", LINES)
def test_large_arrays_give_what_numpy_gives(line: str) -> None:
    ours, plain = outcome(line, dnp), outcome(line, numpy)
    if len(plain) == 2:
        assert ours == plain
        return
    assert ours[:-1] == plain[:-1]
    tolerance = 1e-5 if plain[1].itemsize < 8 else 1e-11
    numpy.testing.assert_allclose(ours[-1], plain[-1], tolerance, tolerance)


def test_every_function_is_tried() -> None:
    tried = {f"numpy.{line[3:line.index('(')]}" for line in LINES}
    assert tried == REBOUND


def test_they_are_recorded_and_not_run_by_numpy() -> None:
    x = dnp.arange(20000.0)
    trace.counters.clear()
    y = dnp.polyval([1.0, 2.0], dnp.unwrap(x)) + dnp.sinc(x)
    assert trace.counters["fallbacks"] == 0 and trace.counters["recorded"] > 5
    assert numpy.isfinite(numpy.asarray(y)).all()


def test_arrays_of_other_libraries_are_asked_themselves() -> None:
    masked = numpy.ma.masked_array(numpy.arange(20000.0), numpy.arange(20000) % 2 > 0)
    found = dnp.nanmean([masked, masked])
    assert found == numpy.nanmean([masked, masked])

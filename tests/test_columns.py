"""Reductions along the second innermost dimension take four rows at a time, and keep their bits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from diffuse.kernels.body.expr import Body, Op
from diffuse.kernels.llvm import columns, nest
from diffuse.kernels.meaning.reduce import definition
from tests.test_llvm import LOAD, MACHINE, build, do, put, run

SUM, LARGEST = (Op("reduce", "float64", (0,), (operator, 1)) for operator in ("sum", "max"))


@pytest.mark.parametrize("rows", [*range(1, 10), 31, 32, 33, 35, 67])
@pytest.mark.parametrize("width", [1, 7, 8, 9, 24, 27])
def test_any_number_of_rows_has_the_bits_of_the_tree(rows: int, width: int) -> None:
    x = np.random.default_rng(rows).standard_normal((rows, width))
    for fold in (SUM, LARGEST):
        for tile in (rows, 32):
            out = np.zeros((1, width))
            run(build(LOAD[0], fold, views=["Rs1", "W01"]), x.shape, [x, out], -(-rows // tile), tile)
            assert out[0].tobytes() == definition(fold.attribute[0], x, [0]).tobytes(), (fold, tile)


@pytest.mark.parametrize("shape", [(3, 13, 9), (2, 64, 8), (40, 5, 11)])
def test_of_three_dimensions_the_last_two_or_all_but_the_last(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(7).standard_normal(shape)
    for classes, axes in (("s01", [1]), ("001", [0, 1]), ("0s1", [0])):
        out = np.zeros([1 if letter == "0" else n for letter, n in zip(classes, shape, strict=True)])
        run(build(LOAD[0], SUM, views=["Rss1", "W" + classes]), shape, [x, out])
        assert out.ravel().tobytes() == definition("sum", x, axes).ravel().tobytes(), classes


def test_several_reductions_of_what_depends_on_the_row_and_its_number() -> None:
    """Sums and maxima of x * column + row number, and a minimum of x itself."""
    ops = (LOAD[0], LOAD[1], do("multiply", 0, 1), Op("index", "int64", (), 0), Op("cast", "float64", (3,)),
           do("add", 2, 4), Op("reduce", "float64", (5,), ("sum", 2)),
           Op("reduce", "float64", (5,), ("max", 3)), Op("reduce", "float64", (0,), ("min", 4)))
    body = build(*ops, views=["Rs1", "Rs0", "W01", "W01", "W01"])
    draw = np.random.default_rng(8)
    x, column = draw.standard_normal((39, 21)), draw.standard_normal((39, 1))
    x[5, 3] = np.nan
    found = [np.zeros((1, 21)) for _ in range(3)]
    run(body, x.shape, [x, column, *found], 2, 32)
    computed = x * column + np.arange(39.0)[:, None]
    for out, operator, values in zip(found, ("sum", "max", "min"), (computed, computed, x), strict=True):
        assert out[0].tobytes() == definition(operator, values, [0]).tobytes(), operator


@pytest.mark.parametrize(("source", "result"), [("float32", "float32"), ("bool", "int64"),
                                                ("uint8", "uint64"), ("complex128", "complex128")])
def test_narrow_and_complex_elements(source: str, result: str) -> None:
    x = (np.random.default_rng(9).standard_normal((45, 19)) * 50).astype(source)
    ops = Op("load", source, (), 0), Op("cast", result, (0,)), Op("reduce", result, (1,), ("sum", 1))
    body = build(*ops, views=["Rs1", "W01"], dtype=source)
    body = replace(body, arguments=(body.arguments[0], body.arguments[1]._replace(dtype=result)))
    out = np.zeros((1, 19), result)
    run(body, x.shape, [x, out])
    assert out[0].tobytes() == definition("sum", x.astype(result), [0]).tobytes()


def stores(body: Body) -> int:
    """How often the kernel's main function stores a vector of results."""
    text = nest.emit(body, MACHINE)
    return sum(line.lstrip().startswith("store <8 x double>") for line in text.splitlines())


def test_results_are_stored_once_for_four_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    body = build(LOAD[0], SUM, views=["Rs1", "W01"])
    many = stores(body)
    monkeypatch.setattr(columns, "applies", lambda nest: False)
    assert many == stores(body) + 1


def test_not_where_elements_are_stored_or_rows_are_reduced() -> None:
    stored = Op("reduce", "float64", (1,), ("sum", 2))
    bodies = {"stored": build(LOAD[0], do("negative", 0), put(1, 1), stored, views=["Rs1", "Ws1", "W01"]),
              "rows": build(LOAD[0], SUM, views=["Rs1", "Ws0"]),
              "places": build(LOAD[0], Op("reduce", "float64", (0,), ("argmin", 1)), views=["Rs1", "W01"])}
    body = bodies["places"]
    bodies["places"] = replace(body, arguments=(body.arguments[0], body.arguments[1]._replace(dtype="int64")))
    for name, body in bodies.items():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(columns, "write", lambda nest, bases, name=name: pytest.fail(name))
            nest.emit(body, MACHINE)

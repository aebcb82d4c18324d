"""The table of operations: one row each, and what every row without a body has elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

import diffuse.numpy as dnp
from diffuse.kernels.body import operations
from diffuse.kernels.body.expr import STRUCTURAL, Builder
from diffuse.kernels.body.operations import TABLE, Operation, declare
from diffuse.kernels.llvm.ops.rules import RULES
from diffuse.kernels.meaning import functions
from diffuse.numpy.ops import elementwise
from diffuse.observe import trace
from diffuse.observe.floaterrors import DIVIDE, INVALID, OVERFLOW, UNDERFLOW
from tests.each import for_each

OPS = [name for name, row in TABLE.items() if row.body is None and not name.startswith("user.")]


@for_each("name", OPS)
def test_an_op_has_lowering_rules_and_a_meaning(name: str) -> None:
    assert name in RULES and name not in STRUCTURAL
    assert callable(functions.function(name))


def test_every_lowering_rule_has_a_row() -> None:
    assert set(RULES) == set(OPS)


@pytest.mark.parametrize("name, inputs, result", [
    ("add", ("int8", "int8"), "int8"),
    ("less", ("float32", "float32"), "bool"),
    ("less", ("uint64", "int64"), "bool"),
    ("where", ("bool", "complex64", "complex64"), "complex64"),
    ("absolute", ("complex64",), "float32"),
    ("absolute", ("int16",), "int16"),
    ("frexp_1", ("float64",), "int32"),
    ("ldexp", ("float32", "int64"), "float32"),
])
def test_the_type_of_a_result(name: str, inputs: tuple[str, ...], result: str) -> None:
    assert operations.result(name, inputs) == result


@pytest.mark.parametrize("name, inputs, complaint", [
    ("add", ("int8",), "'add' takes 2 inputs, not 1"),
    ("add", ("int8", "int16"), "'add' takes inputs that are alike, not int8, int16"),
    ("where", ("int8", "int8", "int8"), "'where' takes inputs that are bool, then alike"),
    ("less", ("int32", "uint64"), "alike or mixed"),
    ("sum", ("int8",), "'sum' is no op of the kernel language"),
    ("nothing", (), "declare"),
])
def test_what_an_op_does_not_take(name: str, inputs: tuple[str, ...], complaint: str) -> None:
    with pytest.raises(TypeError, match=complaint):
        operations.result(name, inputs)


@pytest.mark.parametrize("name, signature, word, flags", [
    ("divide", ("float64",) * 3, "divide", DIVIDE | OVERFLOW | UNDERFLOW | INVALID),
    ("floor_divide", ("int8",) * 3, "floor_divide", DIVIDE | OVERFLOW),
    ("power3", ("float64",) * 2, "power", DIVIDE | OVERFLOW | UNDERFLOW | INVALID),
    ("cumsum:1", ("float32",) * 2, "accumulate", OVERFLOW | UNDERFLOW | INVALID),
    ("copy", ("float64", "int8"), "cast", OVERFLOW | UNDERFLOW | INVALID),
    ("copy", ("float64", "float64"), "copy", 0),
    ("add", ("int64",) * 3, "add", 0),
    ("a host function", (), "a host function", 0),
])
def test_floating_point_errors(name: str, signature: tuple[str, ...], word: str, flags: int) -> None:
    assert operations.errors(name, signature)[1] == flags
    assert operations.errors(name, signature)[0] == word or not flags


def test_a_name_stands_for_one_operation() -> None:
    before = TABLE["add"]
    with pytest.raises(ValueError, match="operation 'add' is declared already.* choose another name"):
        declare(Operation("add", 2))
    assert TABLE["add"] is before


@pytest.mark.not_device("no floating-point flags are kept")
def test_one_declaration_is_all_that_a_new_operation_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """It fuses with the operations around it, and its floating-point errors are reported by its name."""
    def lerp(b: Builder) -> None:
        x, y, t = b.input(0), b.input(1), b.input(2)
        way = b.emit("subtract", "float64", y, x)
        b.store(b.emit("add", "float64", x, b.emit("multiply", "float64", t, way)))

    monkeypatch.setattr(operations, "TABLE", dict(TABLE))
    declare(Operation("lerp", 3, body=lerp, errors=INVALID, word="interpolation"))
    x = dnp.arange(50_000.0)
    before = trace.counters["launched"]
    y = elementwise.issue("lerp", ("float64",) * 4, (x * 2, x, x + 1)) + x
    n = np.arange(50_000.0)
    assert np.array_equal(np.asarray(y), 2 * n + (n + 1) * (n - 2 * n) + n)
    assert trace.counters["launched"] == before + 1
    x[0] = np.inf
    with pytest.warns(RuntimeWarning, match="invalid value encountered in interpolation"):
        assert np.isnan(np.asarray(elementwise.issue("lerp", ("float64",) * 4, (x, x, x)))[0])

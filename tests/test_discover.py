"""Discovery finds the dimensions that can be cut, and none that cannot; execution refutes what is wrong."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

from diffuse.spec import describe, discover, einsum, mismatches, verified
from diffuse.spec.opspec import Loop, OpSpec, plain
from tests.each import for_each
from tests.network_operators import NETWORKS, missed
from tests.operators import CATALOGUE, convolution, labels


@for_each("name", CATALOGUE)
def test_rules_of_the_catalogue(name: str) -> None:
    (function, operands), expected = CATALOGUE[name]
    found = discover(function, *operands)
    assert " | ".join(map(str, found.rules)) == expected
    assert mismatches(found.spec, function, operands) == []


@for_each("network, name", [(network, name) for network, some in NETWORKS.items()
                            for name in some])
def test_operators_of_networks(network: str, name: str) -> None:
    """Discovery and derivation know nothing of each other, and find the same loops."""
    operator = NETWORKS[network][name]
    found = discover(operator.function, *operator.operands)
    assert " | ".join(map(str, found.rules)) == operator.rules
    assert mismatches(found.spec, operator.function, operator.operands) == []
    assert missed(operator, found.spec) == set(operator.missed)


def test_results_that_are_shorter_than_their_operands() -> None:
    """Parts have equal parts of the result, also where their number does not divide the operand.  A border on
    both sides, which gives the same elements, would be other rows than a description says."""
    def differences(x: Any) -> Any:
        if len(x) != 10:
            assert len(x) < 9
        return x[2:] - x[:-2]

    found = discover(differences, numpy.random.default_rng(1).standard_normal((10, 3)))
    assert " | ".join(map(str, found.rules)) == "%0.1: gather 1 | %0.0 border 0 2: gather 0"
    assert str(found.spec) == "d0:3 d1:8 | %0[d1^0^2,d0] -> %1[d1,d0]"
    assert mismatches(found.spec, differences, [numpy.ones((10, 3))]) == []


def test_linear_operands() -> None:
    for name, expected in {"matmul": {0, 1}, "sum": {0}, "softmax": set(), "add": set(), "attention": {2},
                           "sort": set(), "transpose": {0}}.items():
        (function, operands), _ = CATALOGUE[name]
        assert discover(function, *operands).spec.linear == expected, name


def test_what_is_random_or_changes_its_operands_is_refused() -> None:
    generator = numpy.random.default_rng(1)
    with pytest.raises(ValueError, match="different results of equal operands"):
        discover(lambda x: x + generator.standard_normal(x.shape), numpy.ones((8, 8)))

    def double(x: Any) -> Any:
        x *= 2
        return x

    with pytest.raises(ValueError, match="changes its operands"):
        discover(double, numpy.ones((8, 8)))


def test_a_function_that_needs_its_extents_is_tried_on_these() -> None:
    def fixed(x: Any) -> Any:
        if x.shape[1] != 12:
            raise ValueError("twelve columns, please")
        return x * numpy.arange(12.0)

    found = discover(fixed, numpy.ones((8, 12)))
    assert " | ".join(map(str, found.rules)) == "%0.0: gather 0"


def test_a_wrong_description_is_refuted_with_the_part_and_the_index() -> None:
    x = numpy.arange(24.0).reshape(4, 6)
    wrong = OpSpec((Loop("i", 4), Loop("j", 6)), (plain(0, (0, 1)),), (plain(1, (0, 1)),), None)
    (first, *_) = mismatches(wrong, lambda x: numpy.cumsum(x, 1), [x])
    assert str(first) == "loop j in 2 parts, part 1: result 0 at (0, 0) is 3.0, not 6.0"
    summed = OpSpec((Loop("j", 6), Loop("i", 4, True)), (plain(0, (1, 0)),), (plain(1, (0,)),), "sum")
    (first, *_) = mismatches(summed, lambda x: x.max(0), [x])
    assert str(first) == "loop i in 2 parts, all parts together: result 0 at (0,) is 24.0, not 18.0"
    narrow = describe(lambda x, w: lambda b, o, i: x[b, :, :] * w[:, o, :], (8, 4, 34), (4, 16, 3), i=32)
    assert any("raises" in str(m) or "shape" in str(m)
               for m in mismatches(narrow, convolution, [numpy.ones((8, 4, 34)), numpy.ones((4, 16, 3))]))


def test_einsum_descriptions_hold_when_they_are_run() -> None:
    rng = numpy.random.default_rng(5)
    for subscripts, shapes in {"ij,jk->ik": ((8, 6), (6, 9)), "bij,bjk->bik": ((4, 5, 6), (4, 6, 7)),
                               "ij->j": ((6, 8),), "ii->i": ((6, 6),), "ij,ij->": ((6, 8), (6, 8)),
                               "...i,i": ((4, 5, 6), (6,)), "ij->ji": ((6, 8),)}.items():
        operands = [rng.standard_normal(shape) for shape in shapes]
        spec = einsum(subscripts, *shapes)
        assert mismatches(spec, lambda *a, s=subscripts: numpy.einsum(s, *a), operands) == [], subscripts


def test_discovery_agrees_with_einsum() -> None:
    for subscripts, shapes in {"ij,jk->ik": ((8, 6), (6, 9)), "bij,bjk->bik": ((4, 8, 6), (4, 6, 7)),
                               "ij->j": ((6, 8),), "ij,j->ij": ((6, 8), (8,))}.items():
        operands = [numpy.random.default_rng(k).standard_normal(shape) for k, shape in enumerate(shapes)]
        found = discover(lambda *a, s=subscripts: numpy.einsum(s, *a), *operands).spec
        assert labels(found) == labels(einsum(subscripts, *shapes)), subscripts


def test_a_description_is_verified_or_its_mismatches_are_raised() -> None:
    x = numpy.arange(24.0).reshape(4, 6)
    spec = OpSpec((Loop("i", 4), Loop("j", 6)), (plain(0, (0, 1)),), (plain(1, (0, 1)),), None)
    assert verified(spec, numpy.sqrt, x) is spec
    with pytest.raises(ValueError, match=r"loop j in 2 parts, part 1: result 0 at \(0, 0\) is 3.0, not 6.0"):
        verified(spec, lambda x: numpy.cumsum(x, 1), x)
    with pytest.raises(ValueError, match="loop i in 3 parts, part 1: raises ValueError: cannot reshape"):
        verified(spec, lambda x: x.reshape(4, 6) * 1.0, x)
    calls = iter(range(9))
    with pytest.raises(ValueError, match="different results of equal operands"):
        verified(spec, lambda x: x + next(calls), x)


def test_folds_of_bits_are_not_taken_for_folds_of_numbers() -> None:
    """The bits that many small numbers have in common are none, as their product's would be."""
    numbers = numpy.random.default_rng(1).integers(1, 9, (24, 16))
    for operator, rule in (("bitwise_and", "bitand"), ("bitwise_or", "bitor"), ("bitwise_xor", "bitxor")):
        found = discover(getattr(numpy, operator).reduce, numbers)
        assert " | ".join(map(str, found.rules)) == f"%0.0: {rule} | %0.1: gather 0", operator


def test_a_function_that_accepts_no_parts_is_refused_with_the_part() -> None:
    with pytest.raises(ValueError, match="accepts no parts of its operands, of part 0 of 2 along dimension 0 "
                                         "of operand 0 it says ValueError: cannot reshape array of size"):
        discover(lambda x: x.reshape(4, 24), numpy.ones((8, 12)))


def test_a_state_that_shows_after_many_runs_is_refused() -> None:
    runs = iter(range(1000))

    def worn(x: Any) -> Any:
        return x * (1.0 if next(runs) < 20 else 2.0)

    with pytest.raises(ValueError, match="different results of equal operands"):
        discover(worn, numpy.ones((8, 8)))

"""What is no body: every rule, and the sentence that it says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from diffuse.ir import Privilege
from diffuse.kernels.body.check import NUMBERED, RULES, check
from diffuse.kernels.body.expr import Argument, Body, Loop, Op, Space
from tests.bodies import Case
from tests.each import for_each

READ, WRITE = Privilege.READ, Privilege.WRITE

GOOD = Body(
    (Space(1, (0,)), Space(0, (-1,))),
    (Argument(0, 0, "float64", 0, "1", READ), Argument(1, 0, "int64", 0, "1", READ),
     Argument(2, 0, "bool", 0, "1", WRITE), Argument(3, 0, "float64", 0, "0", WRITE),
     Argument(3, 0, "float64", 1, "", Privilege.READ_WRITE)),
    ("float64",),
    (Loop(0, (0,), (Op("load", "float64", (), 0), Op("load", "int64", (), 1), Op("cast", "float64", (1,)),
                    Op("scalar", "float64", (), 0), Op("less", "bool", (0, 3)),
                    Op("where", "float64", (4, 2, 0)), Op("store", "bool", (4,), 2),
                    Op("reduce", "float64", (5,), ("sum", 3)))),
     Loop(1, (), (Op("load", "float64", (), 4), Op("sqrt", "float64", (0,)),
                  Op("store", "float64", (1,), 4)))),
    1)
"""One loop over elements, and one at the end that takes the root of what the first one reduced."""


def with_op(number: int, op: Op) -> Body:
    """The good body with another op in the first loop."""
    ops = list(GOOD.loops[0].ops)
    ops[number] = op
    return with_loop(0, ops=tuple(ops))


def with_loop(number: int, **fields: Any) -> Body:
    loops = list(GOOD.loops)
    loops[number] = loops[number]._replace(**fields)
    return replace(GOOD, loops=tuple(loops))


def with_argument(number: int, **fields: Any) -> Body:
    arguments = list(GOOD.arguments)
    arguments[number] = arguments[number]._replace(**fields)
    return replace(GOOD, arguments=tuple(arguments))


OPS = GOOD.loops[0].ops

BREACHES = [
    (replace(GOOD, spaces=(Space(1, (1,)), GOOD.spaces[1])), "spaces", "rank 1 is cut along (1,)"),
    (replace(GOOD, spaces=(Space(1, (0, 0)), Space(0, (-1, -1)))), "spaces", "each once"),
    (replace(GOOD, spaces=(GOOD.spaces[0], Space(0, (-1, -1)))), "spaces", "expected 1, as the first"),
    (with_argument(1, space=2), "spaces", "argument 1 is in space 2: there are 2"),
    (with_argument(1, classes="11"), "spaces", "argument 1 has the classes '11'"),
    (with_argument(1, classes="x"), "spaces", "expected 0, 1, s or c for each of 1 dimensions"),
    (with_loop(1, space=5), "spaces", "loop 1 is over space 5"),
    (with_loop(0, order=(0, 0)), "spaces", "loop 0 goes in the order (0, 0)"),
    (with_op(5, Op("where", "float64", (4, 7, 0))), "types", "loop 0, op 5, where: it uses v7"),
    (with_op(7, Op("reduce", "float64", (6,), ("sum", 3))), "types", "it uses v6: a store has no value"),
    (with_op(4, Op("less", "bool", (0,))), "types", "'less' takes 2 inputs, not 1"),
    (with_op(4, Op("less", "bool", (0, 1))), "types", "alike or mixed, not float64, int64"),
    (with_op(4, Op("less", "float64", (0, 3))), "types", "it is said to give float64: expected bool"),
    (with_op(4, Op("lesser", "bool", (0, 3))), "types", "'lesser' is no op of the kernel language"),
    (with_op(4, Op("less", "bool", (0, 3), 1)), "types", "its attribute is 1"),
    (with_op(2, Op("cast", "float64", (1, 1))), "types", "op 2, cast: it has 2 inputs: expected 1"),
    (with_op(2, Op("cast", "string", (1,))), "types", "it is said to give string"),
    (with_op(0, Op("load", "float64", (), 9)), "types", "op 0, load: it names argument 9: there are 5"),
    (with_op(0, Op("load", "float64", (), 4)), "types", "it names argument 4 of space 1"),
    (with_op(0, Op("load", "float32", (), 0)), "types", "said to give float32: expected float64"),
    (with_op(0, Op("index", "int64", (), 1)), "types", "op 0, index: its attribute is 1"),
    (with_op(5, Op("pick", "float64", (0,), 0)), "types", "its distance is float64: expected int64"),
    (with_op(5, Op("nth", "int64", (1, 1), (0, 1))), "types", "expected two of int64, a mask and int64"),
    (with_op(7, Op("scatter", "float64", (0, 1, 1), ("", 3, 1, 0, 0, "a"))), "types", "are not int64"),
    (with_op(7, Op("scatter", "float64", (1, 1, 1), ("", 3, 1, 0, 1, "a"))), "types",
     "it indexes dimension 1"),
    (with_op(7, Op("scatter", "float64", (1, 1, 1), ("less", 3, 1, 0, 0, "a"))), "types",
     "gives another type"),
    (with_op(3, Op("scalar", "float64", (), 1)), "types", "op 3, scalar: its attribute is 1"),
    (with_op(6, Op("store", "bool", (5,), 2)), "types", "it stores float64 in argument 2 of bool"),
    (with_op(7, Op("reduce", "float64", (5,), ("mean", 3))), "types", "its attribute is ('mean', 3)"),
    (with_op(7, Op("reduce", "float64", (5,), ("sum", 8))), "types", "op 7, reduce: it names argument 8"),
    (with_op(5, Op("spmv", "float64", (0, 1), (0,))), "types", "its positions are float64"),
    (with_op(5, Op("scan", "float64", (0,), ("sum", 1))), "types", "op 5, scan: its attribute is ('sum', 1)"),
    (with_argument(0, privilege=WRITE), "privileges", "argument 0, whose privilege is WRITE"),
    (with_argument(3, privilege=READ), "privileges", "argument 3, whose privilege is READ"),
    (replace(GOOD, epilogue=3), "epilogue", "3 loops are at the end: there are 2"),
    (replace(GOOD, epilogue=2), "epilogue", "loop 0 is at the end: expected single elements"),
    (replace(GOOD, whole=(1,)), "whole rows", "reduction 1 is complete at each point: there are 1"),
    (replace(GOOD, parts=(1,)), "parts", "subtrees of reduction 1 are folded at each point"),
    (replace(GOOD, parts=(0,), spaces=(GOOD.spaces[0]._replace(axes=(-1,)), GOOD.spaces[1])), "parts",
     "expected one whose outermost reduced dimension"),
    (replace(GOOD, whole=(0,)), "whole rows", "expected one of rows, in a space that is cut along"),
    (with_loop(0, ops=(*OPS[:6], OPS[7], OPS[6])), "stores last", "loop 0 does not end with its stores"),
    (with_loop(0, ops=(*OPS[:7], OPS[6], OPS[7])), "stores last", "loop 0 stores to the arguments [2, 2]"),
    (with_loop(0, ops=OPS[:6]), "stores last", "loop 0 does not end with its stores"),
    (replace(GOOD, loops=GOOD.loops[:1], epilogue=0), "numbers by first use",
     "arguments are first used in the order [0, 1, 2, 3]"),
    (replace(GOOD, scalars=("float64", "bool")), "numbers by first use", "scalars are first used in the"),
]


def test_a_body_is_one() -> None:
    check(GOOD, "hand", numbered=True)
    assert {rule for _, rule, _ in BREACHES} == {*RULES, *NUMBERED}


@for_each("body, rule, sentence", BREACHES)
def test_a_breach_is_named(body: Body, rule: str, sentence: str) -> None:
    with pytest.raises(TypeError) as raised:
        check(body, "hand", numbered=True)
    assert str(raised.value).startswith(f"{rule} after hand: ") and sentence in str(raised.value)


@for_each("seed", range(40))
def test_random_bodies_are_bodies(seed: int) -> None:
    check(Case(seed, transcendental=seed % 2 == 0).body, "drawing lots")

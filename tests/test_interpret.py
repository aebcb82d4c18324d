"""The interpreter against the meaning of bodies on whole arrays, and its parts one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from bodies import Case, differences
from hypothesis import given, settings
from hypothesis import strategies as st

from diffuse.ir import Privilege
from diffuse.kernels import interpret, interpret_reduce, routines
from diffuse.kernels.expr import Argument, Body, Loop, Op, Space

SEEDS = st.integers(0, 1 << 30)


def run(case: Case, points: int) -> None:
    partials = case.partials()
    values = case.values(points, partials)
    for p in range(points):
        interpret.point(case.body, values, p)
    interpret.finish(case.body, values)


@settings(max_examples=400, deadline=None)
@given(SEEDS)
def test_a_body_means_its_ops_on_whole_arrays(seed: int) -> None:
    case = Case(seed)
    before = case.save()
    case.evaluate()
    expected = case.save()
    for points in {1, case.points}:
        case.restore(before)
        run(case, points)
        assert not differences(case.memory, expected), f"{points} points\n{case.body}"

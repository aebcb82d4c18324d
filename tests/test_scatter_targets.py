"""The op `scatter` on processors with and without instructions that pack: queues, parts, short and
long targets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from diffuse.ir import Privilege
from diffuse.kernels.body.expr import Argument, Body, Loop, Op, Space
from diffuse.kernels.build import codegen
from diffuse.kernels.llvm import nest, scatter
from diffuse.kernels.targets.host import host
from tests import test_llvm

COUNTS = 0, 1, scatter.TURN + 1, scatter.LEAD, scatter.LEAD + 3, scatter.SOME, 3 * scatter.SOME + 17
EXTENTS = 5, 300, scatter.NEAR // 8 + 100
"""The last one exceeds the first-level cache."""
TYPES = [("float64", "float64"), ("float32", "int32"), ("int16", "bool"), ("int64", "uint16")]


def body(operator: str, dtype: str, source: str, letter: str) -> Body:
    """Write the values (argument 2) at the indices (argument 1), or fold them into what is there."""
    arguments = (Argument(0, 0, dtype, 0, letter, Privilege.READ_WRITE),
                 Argument(1, 0, "int64", 0, "0", Privilege.READ),
                 Argument(2, 0, source, 0, "0", Privilege.READ))
    ops = (*[Op("scalar", "int64", (), k) for k in range(3)],
           Op("scatter", dtype, (0, 1, 2), (operator, 0, 1, 2, 0, "a")))
    return Body((Space(1, (0,)),), arguments, ("int64",) * 3, (Loop(0, (0,), ops),))


@pytest.mark.parametrize("packs", [True, False])
@pytest.mark.parametrize("dtype, source", TYPES)
@pytest.mark.parametrize("operator", ["", "add"])
def test_the_last_of_equal_indices_wins_and_sums_are_in_order(
        operator: str, dtype: str, source: str, packs: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    here = host()
    target = here if packs else replace(here, features=here.features.replace("+avx512", "-avx512"))
    if target.packs is not packs:
        pytest.skip("this processor has no such instructions")
    monkeypatch.setattr(codegen, "host", lambda: target)
    monkeypatch.setattr(test_llvm, "_natives", {})
    rng = np.random.default_rng(7)
    for count in COUNTS:
        for extent in EXTENTS:
            for pitch, step, points in ((1, 1, 1), (1, 1, 3), (0, 1, 2), (3, 2, 2), (2, 3, 1)):
                at = rng.integers(0, extent, count)
                values = rng.integers(0, 100, 3 * count + 1).astype(source)
                whole = rng.integers(0, 100, step * extent).astype(dtype)
                expected = whole.copy()
                picked = values[::pitch][:count] if pitch else np.broadcast_to(values[0], count)
                if operator:
                    np.add.at(expected[::step], at, picked.astype(dtype))
                else:
                    expected[::step][at] = picked
                made = body(operator, dtype, source, "1" if step == 1 else "s")
                ascending = int(bool((np.diff(at) >= 0).all()))
                test_llvm.run(made, [extent], [whole[::step], at, values], points, -(-extent // points),
                              [count, pitch, ascending])
                assert whole.tobytes() == expected.tobytes(), (count, extent, pitch, step, points)


@pytest.mark.parametrize("cpu, hint", [("znver5", 0), ("sapphirerapids", 3)])
def test_only_zen_fetches_what_is_read_once_past_the_larger_caches(cpu: str, hint: int) -> None:
    text = nest.emit(body("", "float64", "float64", "1"), replace(host(), cpu=cpu))
    read, written = "i32 0, i32 {}, i32 1)", "i32 1, i32 3, i32 1)"
    assert read.format(hint) in text and written in text
    assert read.format(3 - hint) not in text

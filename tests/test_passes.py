"""The passes over bodies: a page before and after each, and what they may not touch."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from diffuse.ir import IndexTask
from diffuse.kernels.body import passes
from diffuse.kernels.body.compose import compose
from diffuse.kernels.body.expr import Body
from diffuse.kernels.body.passes import PASSES, Facts
from diffuse.settings import using
from tests.test_compose import Array, task

a, b, c, t, u = (Array(i, (8, 5)) for i in range(5))
turned, other = Array(0, (8, 5)).turned(), Array(5, (8, 5)).turned()

#   t = a + b; c = t * t; u = sqrt(a); u = a + b; c = c + u; other.T = -a.T      t and u are temporaries
PROGRAM = [task("add", [a, b], t), task("multiply", [t, t], c), task("sqrt", [a], u), task("add", [a, b], u),
           task("add", [c, u], c), task("negative", [turned], other)]
TEMPORARIES = {3, 4}


def recorded(tasks: list[IndexTask], gone: set[int], monkeypatch: pytest.MonkeyPatch
             ) -> dict[str, tuple[Body, Body, Facts]]:
    """The body before and after each pass."""
    found: dict[str, tuple[Body, Body, Facts]] = {}

    def watched(name: str, step: Callable[[Body, Facts], Body]) -> Callable[[Body, Facts], Body]:
        def run(body: Body, facts: Facts) -> Body:
            found[name] = body, step(body, facts), facts
            return found[name][1]
        return run

    for name, step in PASSES.items():
        monkeypatch.setitem(passes.PASSES, name, watched(name, step))
    with using(check=True):
        compose(tasks, gone)
    return found


@pytest.mark.parametrize("name", PASSES)
def test_page(name: str, golden: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    before, after, _ = recorded(PROGRAM, TEMPORARIES, monkeypatch)[name]
    golden(f"{before}\n\n-- {name} --\n\n{after}")


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_that_ran_has_nothing_left_to_do(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    step = PASSES[name]
    _, after, facts = recorded(PROGRAM, TEMPORARIES, monkeypatch)[name]
    assert step(after, facts) == after


def test_a_pass_that_breaks_a_body_is_found_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    step = PASSES["dead code"]

    def broken(body: Body, facts: Facts) -> Body:
        found = step(body, facts)
        loop = found.loops[0]
        return Body(found.spaces, found.arguments, found.scalars, (loop._replace(ops=loop.ops[1:]),))

    monkeypatch.setitem(passes.PASSES, "dead code", broken)
    said = "types after dead code: loop 0, op 1, add: it uses v1"
    with using(check=True), pytest.raises(TypeError, match=said):
        compose([task("add", [a, b], c)], ())


def test_a_temporary_whose_loads_were_all_forwarded_is_not_stored() -> None:
    # t = a + b; t.part = sqrt(a.part); c.part = t.part * t.part: two loops, the second reads what it wrote
    part = (8, 4)
    tasks = [task("add", [a, b], t), task("sqrt", [a.part(0, part)], t.part(0, part)),
             task("multiply", [t.part(0, part), t.part(0, part)], c.part(0, part))]
    with using(check=True):
        body = compose(tasks, {t.store.id}).body
        kept = compose(tasks, ()).body
    assert [op.kind for loop in body.loops for op in loop.ops] == ["load", "sqrt", "multiply", "store"]
    assert [op.kind for loop in kept.loops for op in loop.ops].count("store") == 3


def test_a_temporary_that_another_loop_reads_is_stored() -> None:
    # t = a + b; c.part = t.part: the second loop, over fewer iterations, reads what the first one stored
    part = (8, 4)
    tasks = [task("add", [a, b], t), task("sqrt", [t.part(0, part)], c.part(0, part))]
    with using(check=True):
        body = compose(tasks, {t.store.id}).body
    assert [[op.kind for op in loop.ops] for loop in body.loops] == [["load", "load", "add", "store"],
                                                                     ["load", "sqrt", "store"]]

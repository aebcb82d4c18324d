"""DIFFUSE_CHECK notices a plan that does not fit the tasks that share it."""

from __future__ import annotations

from dataclasses import replace

import pytest

import diffuse.numpy as np
from diffuse import settings
from diffuse.stream import engine


@pytest.mark.local_only("it looks at a plan")
def test_a_plan_of_other_tasks_is_noticed() -> None:
    """A plan with another composition stands for what a wrong canonical form would lead to."""
    engine.fence()
    engine.current().window.forget()
    with settings.using(check=True, small=0):
        x = np.ones((50, 5)) * 2.0
        engine.flush()
        assert float(x.sum()) == 500
        plan = next(plan for plan in reversed(engine.current().plans) if "multiply" in plan.operations)
        changed = replace(plan.composition.body, parts=(0,))
        plan.composition = plan.composition._replace(body=changed)
        y = np.ones((60, 5)) * 2.0
        with pytest.raises(RuntimeError, match="share a plan"):
            engine.flush()
        del y
    engine.current().window.forget()

"""Rechecks a fused group before it runs, where DIFFUSE_CHECK asks for it: is it a fusible prefix, do its
temporaries vanish rightly, and is the plan that it shares with other groups its own?"""

from __future__ import annotations

from diffuse.fusion.temporaries import temporaries
from diffuse.fusion.verify import verify
from diffuse.kernels.body.compose import compose
from diffuse.stream.group import Group, opaque
from diffuse.stream.layers import shared, tasks_of
from diffuse.stream.plan import Plan


def recheck(group: Group, bits: bytes, plan: Plan | None) -> None:
    """Raise an error if a group is not fusible, or would have another kernel than that of its plan if it were
    composed anew.  `bits` says which of its stores are live; `plan` is None if it has to be made."""
    ids = list(group.slots)
    live = {store for store, bit in zip(ids, bits, strict=True) if bit}
    gone = (temporaries(group.tasks, (), live) if plan is None
            else {ids[slot] for slot in plan.composition.vanished})
    first = plan not in group.trail.replays
    verify(group.tasks, opaque, live, gone, by_definition=first)
    if plan is not None and first:
        _agrees(group, live, plan)


def _agrees(group: Group, live: set[int], plan: Plan) -> None:
    """Raise RuntimeError unless a group would have the kernel of its plan if it were composed anew."""
    if plan.composition.body.split:  # made of the composed one for ranks of Legate's
        return
    tasks, equal = tasks_of(group, plan.layers), plan.equal
    if plan.layers:
        equal = shared(plan.layers, tasks, equal)
    if compose(tasks, temporaries(group.tasks, (), live), equal) != plan.composition:
        raise RuntimeError(f"DIFFUSE_CHECK: these tasks share a plan that is not theirs: {plan.text}")

"""Borders: cuts the small tasks before a large one like that one, so that both are one group; and notes
refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from diffuse.fusion.constraints import Refusal, prefix
from diffuse.ir import ONE, Decomposition
from diffuse.ir.template import Recorded, Template
from diffuse.observe import trace
from diffuse.stream.group import Group, opaque
from diffuse.stream.memo import Chain, Node, Trail
from diffuse.stream.outline import spilled_bytes, weight

if TYPE_CHECKING:
    from diffuse.stream.window import Window

BORDER = 64
"""The most tasks before a large one that are cut like it."""


def recuts(group: Group, refusal: Refusal, decomposition: Decomposition) -> bool:
    """Might the tasks of a group be cut like the refused task, which has this decomposition?"""
    return (refusal.constraint == "launch-domain equivalence" and group.domain == ONE.domain
            and decomposition.domain != ONE.domain and len(group.recorded) <= BORDER)


def recut(window: Window, group: Group, recorded: Recorded, template: Template, refusal: Refusal
          ) -> Trail | None:
    """Cut the small tasks before a large one like that one, so that borders fuse with the interior that
    follows them; None if the result is no fusible prefix."""
    beside = template.decomposition
    if beside is None or not recuts(group, refusal, beside):
        return None
    everything = [*group.recorded, recorded]
    templates = [window.cut(each, number, beside) for number, each in enumerate(everything)]
    tasks = [each.task(one) for each, one in zip(templates, everything, strict=True)]
    if any(each.domain != template.domain for each in tasks) or prefix(tasks, opaque)[1] is not None:
        return None
    from diffuse.ir.text import task_text

    trace.event("decompose",
                lambda: f"{len(tasks) - 1} tasks are cut like the one after them, {task_text(tasks[-1])}")
    analysis, memo = group.begin(), window.memo
    node = memo.root
    chain: Chain = None
    spilled = 0
    for one, task in zip(templates, tasks, strict=True):
        row, before = analysis.numbering.row(task), node
        slots, following = analysis.outline.add(task), node.edges.get(row)
        node = following if isinstance(following, Node) else memo.joined(
            node, row, analysis.outline.loops, slots)
        stores = [access.store.id for access in task.accesses]
        spilled += spilled_bytes(node, before, group.slots, one, stores)
        chain = chain, one
    group.begin()
    group.sketch = None
    return Trail(node, chain, template.domain, beside, spilled, weight(spilled, node))


def refused(refusal: Refusal) -> Refusal:
    """Count a refusal."""
    trace.count("refusals")
    trace.event("refusal", lambda: str(refusal))
    return refusal


def note(window: Window, group: Group, recorded: Recorded, reason: Refusal | str) -> None:
    """Learn from an assignment that has to wait for operations on small parts of its array (snapshots.py).
    Where ranks hold parts of arrays, nothing is learned."""
    addressed = window.stores.runtime.addressed
    if isinstance(reason, str) or reason.constraint != "anti-dependence" or not addressed:
        return
    if window.snapshots is None:
        from diffuse.stream.snapshots import Snapshots  # few programs need it

        window.snapshots = Snapshots()
    if window.snapshots.note(group, recorded):
        window.memo.forget_trails()

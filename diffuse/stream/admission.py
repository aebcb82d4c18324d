"""Decides whether a task that was not recorded here before joins the open group of the window.

The task is decomposed beside the tasks of the group, and found by its row in a sketch or by its canonical
row; if neither is known, dependence analysis decides (fusion/constraints.py).  The window remembers the
answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from diffuse.fusion.constraints import Refusal, admit
from diffuse.ir import ONE, Decomposition
from diffuse.ir.template import Recorded, Template
from diffuse.settings import config
from diffuse.stream.borders import recut, recuts, refused
from diffuse.stream.cuts import Cuts, like_all_rows
from diffuse.stream.decompose import followed
from diffuse.stream.group import Group, opaque
from diffuse.stream.memo import Later, Node, Trail
from diffuse.stream.outline import MOST_COST, MOST_LOOPS, spilled_bytes, weight
from diffuse.stream.sketch import sketched

if TYPE_CHECKING:
    from diffuse.stream.window import Window


def analysed(window: Window, group: Group, recorded: Recorded) -> Trail | Refusal:
    """Make the edge for a task that was not recorded here before: from the row of a sketch or from its
    canonical row, if one of these is known, else by dependence analysis.

    Rows of sketches are made where a prefix has come again with other extents, as most never do.
    """
    row, chosen, known = None, ONE, group.trail.node.sketched
    if (known or config.check) and window.region is None and window.learned is None:
        row, chosen = sketched(group, recorded, window.stores.runtime)
    edge = None if row is None else known.get(row)
    if edge is None or config.check or (isinstance(edge, Refusal) and recuts(group, edge, chosen)):
        return _numbered(window, group, recorded, row, chosen)
    if isinstance(edge, Refusal):
        return refused(edge)
    recorded[0].cut = True
    return _joined(group, edge, recorded, Later(recorded[0], chosen))


def _numbered(window: Window, group: Group, recorded: Recorded, brief: Any, chosen: Decomposition
              ) -> Trail | Refusal:
    """Make the edge by the canonical row of a task; record it for `brief`, its row in the sketch, too."""
    tasks, analysis = group.tasks, group.analysis or group.begin()
    for earlier in tasks[group.numbered:]:
        analysis.numbering.row(earlier)
        analysis.cuts.add(earlier)
    window.learn(recorded)
    template = _aligned(window, analysis.cuts, recorded, len(tasks), group.trail.beside)
    task = template.task(recorded)
    if config.check and not opaque(template):
        from diffuse.ir.check import check

        check(task)
    row = analysis.numbering.row(task)
    analysis.cuts.add(task)
    group.numbered = len(tasks) + 1
    node = group.trail.node
    edge = node.edges.get(row)
    if edge is not None and brief is None and window.region is None and window.learned is None:
        brief, chosen = sketched(group, recorded, window.stores.runtime)
    if edge is None:
        for earlier in tasks[group.analysed:]:
            analysis.effects.add(earlier)
            analysis.outline.add(earlier)
        group.analysed = len(tasks)
        refusal, outline = admit(analysis.effects, task, opaque), analysis.outline
        if refusal is None and (outline.loops >= MOST_LOOPS or outline.cost >= MOST_COST):
            refusal = Refusal("size of the kernel", tasks[0], task)
        if refusal is None:
            analysis.effects.add(task)
            slots = outline.add(task)
            edge = window.memo.joined(node, row, outline.loops, slots)
            group.analysed += 1
        else:
            edge = window.memo.refused(node, row, refusal)
    if brief is not None:
        if config.check and (template.decomposition != chosen
                             or node.sketched.setdefault(brief, edge) is not edge):
            raise RuntimeError(f"DIFFUSE_CHECK: the sketch of {task} is not its canonical row")
        node.sketch(brief, edge)
    if isinstance(edge, Refusal):
        again = recut(window, group, recorded, template, edge)
        return refused(edge) if again is None else again
    found = _joined(group, edge, recorded, template)
    group.made(task, found)
    return found


def _joined(group: Group, node: Node, recorded: Recorded, template: Template | Later) -> Trail:
    """The trail of a group with one more task, which leads to this node."""
    trail, chosen = group.trail, template.decomposition
    assert chosen is not None
    spilled = trail.spilled + spilled_bytes(node, trail.node, group.slots, recorded[0], recorded[1])
    return Trail(node, (trail.templates, template), trail.domain or chosen.domain,
                 followed(chosen, trail.beside), spilled, weight(spilled, node))


def _aligned(window: Window, cuts: Cuts, recorded: Recorded, number: int, beside: Decomposition | None
             ) -> Template:
    """Decompose the task that has this number in the open group; a small one is cut like the tasks before
    it."""
    aligns = window.stores.runtime.addressed and window.region is None
    found = cuts.aligned(recorded[0], recorded[1]) if aligns else None
    if found is not None:
        recorded[0].cut = True
        return found
    found = window.cut(recorded, number, beside)
    if aligns and cuts.split is None and found.decomposition is not None:
        return like_all_rows(recorded[0], found.decomposition) or found
    return found

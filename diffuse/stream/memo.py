"""Memoization: the decisions of the analysis, found again by canonical form and by the templates recorded.

A path from the root spells the canonical form of a window (papers/003, section 5.2).  Each edge holds the
decision that the analysis took there: the next node when the task joined the prefix, the refusal when it did
not.

A canonical row takes a look at every access.  A *trail* tells windows apart by the identity of templates
(ir/template.py) and by which of them share stores: more finely (extents and offsets are part of it), and at a
tenth of the cost.  Two windows on one trail have the same decompositions and the same rows, so that a trail
leads to a node.  Replaying a window that the program recorded before is a walk there: one dictionary look-up
a task, no decomposition, no row, no analysis.
"""

from __future__ import annotations

from typing import Any

from diffuse.fusion.constraints import Refusal
from diffuse.ir import Decomposition, Point
from diffuse.ir.template import Template

Spilled = tuple["Spilled", tuple[int, ...]] | None
"""Slots, as a list that shares its beginning with others: those before the last task, and those since it."""


class Node:
    """A prefix in canonical form.  `plans` maps liveness (papers/003, 5.1), one byte a slot, to plans."""

    __slots__ = ("edges", "plans", "depth", "spilled")

    def __init__(self, depth: int, spilled: tuple[int, ...] = (), before: Spilled = None) -> None:
        self.edges: dict[tuple[Any, ...], Node | Refusal] = {}
        self.plans: dict[bytes, Any] = {}
        self.depth = depth
        self.spilled: Spilled = (before, spilled) if spilled else before
        """The slots that need memory although the prefix makes them (outline.py)."""


Chain = tuple["Chain", Template] | None
"""A list of templates that shares its beginning with others: what comes before the last one, and the last."""


class Trail:
    """A prefix as it was recorded.  An edge is (template, slot of each store), slots counted by first use."""

    __slots__ = ("edges", "node", "replays", "templates", "domain", "beside", "spilled")

    def __init__(self, node: Node, templates: Chain = None, domain: Point = (),
                 beside: Decomposition | None = None, spilled: int = 0) -> None:
        self.edges: dict[tuple[Any, ...], Trail | Refusal] = {}
        self.node = node
        """The same in canonical form."""
        self.replays: dict[Any, Any] = {}
        """What each plan of the node is for these views (replay.py)."""
        self.templates = templates
        """The templates of its tasks, decomposed."""
        self.domain = domain
        """The launch domain of its tasks, but of those of an epilogue."""
        self.beside = beside
        """How the last of its tasks is cut that several points share by rows."""
        self.spilled = spilled
        """Bytes of the slots that need memory although the prefix makes them."""


class Memo:
    """Both trees.  Past `limit` nodes they are cleared, which costs time and never a result."""

    def __init__(self, limit: int = 1 << 18) -> None:
        self.limit = limit
        self.clear()

    def clear(self) -> None:
        self.root = Node(0)
        self.start = Trail(self.root)
        self.nodes = 1

    def joined(self, node: Node, row: tuple[Any, ...], spilled: tuple[int, ...]) -> Node:
        """Remember that the task of `row` joins the prefix `node`, and which slots need memory since then."""
        child = Node(node.depth + 1, spilled, node.spilled)
        node.edges[row] = child
        self.nodes += 1
        return child

    def refused(self, node: Node, row: tuple[Any, ...], refusal: Refusal) -> Refusal:
        node.edges[row] = refusal
        return refusal

    def add_edge(self, trail: Trail, key: tuple[Any, ...], edge: Trail | Refusal) -> None:
        """Remember the edge `key` of a trail."""
        trail.edges[key] = edge
        self.nodes += 1

    def trim(self) -> None:
        """Clear the trees if they are full; called between groups, when no group refers to a node."""
        if self.nodes > self.limit:
            self.clear()

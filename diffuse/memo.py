"""What was decided before: a tree of canonical rows, walked one recorded task at a time.

A path from the root spells the canonical form of a window (papers/003, section 5.2).  Each edge holds the
decision that the analysis took there: the next node when the task joined the prefix, the refusal when it did
not.  Replaying an isomorphic window is a walk: one dictionary look-up a task, no analysis.
"""

from __future__ import annotations

from typing import Any

from diffuse.fusion import Refusal


class Node:
    """A prefix in canonical form.  `plans` maps liveness bits (papers/003, 5.1) to what was made of it."""

    __slots__ = ("edges", "plans", "depth")

    def __init__(self, depth: int) -> None:
        self.edges: dict[tuple[Any, ...], Node | Refusal] = {}
        self.plans: dict[int, Any] = {}
        self.depth = depth


class Memo:
    """The tree and its bound: past `limit` nodes it is forgotten whole, which costs time, never a result."""

    def __init__(self, limit: int = 1 << 18) -> None:
        self.limit = limit
        self.clear()

    def clear(self) -> None:
        self.root = Node(0)
        self.nodes = 1

    def joined(self, node: Node, row: tuple[Any, ...]) -> Node:
        """Remember that the task of `row` joins the prefix `node`."""
        child = Node(node.depth + 1)
        node.edges[row] = child
        self.nodes += 1
        return child

    def refused(self, node: Node, row: tuple[Any, ...], refusal: Refusal) -> Refusal:
        node.edges[row] = refusal
        return refusal

    def trim(self) -> None:
        """Called between groups, when nobody stands on a node."""
        if self.nodes > self.limit:
            self.clear()

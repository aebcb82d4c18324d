"""Memoization: finds earlier decisions of the analysis by canonical form and by the templates recorded.

A path from the root spells the canonical form of a window (papers/003, section 5.2).  Each edge holds the
analysis's decision there: the next node if the task joined the prefix, the refusal if it did not.

Computing a canonical row examines every access.  A *trail* distinguishes windows by the identity of templates
(ir/template.py) and by which of them share stores: more finely (extents and offsets are part of it), and at a
tenth of the cost.  Two windows on one trail have the same decompositions and the same rows, so a trail leads
to a node.  Replaying a window that the program recorded before is a walk along a trail: one dictionary
look-up per task, no decomposition, no row, no analysis.

Between the two is the *sketch* (sketch.py): a row that is made of the kinds of templates (ir/kinds.py)
without partitioning their views.  It finds the edge of a window that has other extents and offsets than any
before, at a quarter of the cost of a canonical row.  Rows of sketches are made when a window comes for the
second time with extents of its own, since most windows never do.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from zlib import crc32

from diffuse.bounded import Past, Size, recurs, sweeps
from diffuse.fusion.constraints import Refusal
from diffuse.ir import Decomposition, Point
from diffuse.ir.template import Template

FIRST_NODES, MOST_NODES = 1 << 14, 1 << 18
"""The initial limit of the edges of the tree of prefixes, and the limit to which it may grow
(bounded.py)."""
NEW_TRAILS = 1 << 12
"""The number of new edges of the tree of trails after which they are dropped unless they recur."""

MOST_SKETCHED = 64

Spilled = tuple["Spilled", tuple[int, ...]] | None
"""A persistent list of slots: the list before the last task, which other nodes share, and the task's own
slots."""


class Node:
    """A prefix in canonical form.  `plans` maps liveness (papers/003, 5.1), one byte per slot, to plans."""

    __slots__ = ("edges", "sketched", "plans", "divided", "depth", "loops", "spilled", "name")

    def __init__(self, depth: int, loops: int = 0, spilled: tuple[int, ...] = (), before: Spilled = None
                 ) -> None:
        self.edges: dict[tuple[Any, ...], Node | Refusal] = {}
        self.sketched: dict[tuple[Any, ...], Node | Refusal] = {}
        """Some of the same edges, by the rows of sketches: at most `MOST_SKETCHED`."""
        self.plans: dict[bytes, Any] = {}
        self.divided = 0
        """The number of its trails that have plans of their own (layers.py)."""
        self.depth = depth
        self.loops = loops
        """The number of loops of the prefix's kernel (outline.py)."""
        self.spilled: Spilled = (before, spilled) if spilled else before
        """The slots that need memory although the prefix makes them."""
        self.name = 0
        """A hash of its rows."""

    def sketch(self, row: tuple[Any, ...], edge: Node | Refusal) -> None:
        """Record the row of a sketch for an edge."""
        if len(self.sketched) >= MOST_SKETCHED:
            self.sketched.clear()
        self.sketched[row] = edge


class Later(NamedTuple):
    """A template that has to be decomposed when somebody asks for its partitions."""

    template: Template
    decomposition: Decomposition


Chain = tuple["Chain", Template | Later] | None
"""A persistent list of templates: the list before the last one, which other trails share, and the last
one."""


def decomposed(one: Template | Later) -> Template:
    """A template of a chain, decomposed."""
    return one.template.under(one.decomposition) if isinstance(one, Later) else one


def links(chain: Chain, number: int) -> list[Template | Later]:
    """The last templates of a chain, so many of them, in order."""
    found: list[Template | Later] = []
    while len(found) < number:
        assert chain is not None
        chain, one = chain
        found.append(one)
    found.reverse()
    return found


class Trail:
    """A prefix as it was recorded.  An edge is (template, slot of each store), slots counted by first use."""

    __slots__ = ("edges", "expected", "node", "replays", "templates", "domain", "beside", "spilled", "weight",
                 "sizes", "name", "plans", "layers", "live", "unlike", "looks")

    def __init__(self, node: Node, templates: Chain = None, domain: Point = (),
                 beside: Decomposition | None = None, spilled: int = 0, weight: int = 0) -> None:
        self.edges: dict[tuple[Any, ...], Trail | Refusal | str] = {}
        self.expected: Any = None
        """What compiled code keeps of the call that led on from here, and the edge that it followed."""
        self.node = node
        """The corresponding prefix in canonical form."""
        self.replays: dict[Any, Any] = {}
        """The replay of each plan of the node for these views (replay.py)."""
        self.templates = templates
        """The templates of its tasks, decomposed."""
        self.domain = domain
        """The launch domain of its tasks, except those of an epilogue."""
        self.beside = beside
        """The decomposition that small tasks after this one follow (decompose.py)."""
        self.spilled = spilled
        """Bytes of the slots that need memory although the prefix makes them."""
        self.weight = weight
        """The bytes in `spilled` with an allowance for loops (`group.Group.room`)."""
        self.sizes: tuple[int, int, int, int] | None = None
        """The bytes of its tasks, as brevity.py sums them up."""
        self.name = 0
        """A hash of the operations, views and slots of its tasks."""
        self.plans: dict[bytes, Any] | None = None
        """The plans of its node, or its own if its tasks are divided (layers.py); None until one is made."""
        self.layers: Any = ()
        """Into which layers its tasks are divided, if they are."""
        self.live: bytes | None = None
        """Which of its stores were live when it was last planned (liveness.py)."""
        self.unlike = -1
        """The slot of a store that was not live as then at the last look of early.py, or -1."""
        self.looks: Any = None
        """When its groups were ready to be launched early (early.py)."""


class Memo:
    """The tree of prefixes and that of trails.  A full tree is cleared, which costs time but changes no
    result.

    Trails, unlike prefixes, depend on extents and offsets: a program whose shapes always change makes ever
    new trails, but few nodes.  So from time to time the new edges of trails are dropped, unless the program
    comes back to most of them.
    """

    def __init__(self) -> None:
        self.nodes_size = Size(FIRST_NODES, MOST_NODES)
        self.new_trails = NEW_TRAILS
        self._new: list[tuple[Trail, tuple[Any, ...], int]] = []
        """The edges of trails that were added since such edges were last dropped: the trail, the key there,
        and a hash of the operations, views and slots of the tasks up to there."""
        self._past = Past()
        """The hashes of earlier edges of trails."""
        self._turns = 0
        self._sweep = sweeps.number
        """The sweep of tables after which new edges were last dropped."""
        self.root = Node(0)
        self.start = Trail(self.root)
        self.starts: dict[Any, Trail] = {}
        """Where groups begin whose tasks a region of the program cuts otherwise (regions.py)."""
        self.nodes = self.trails = 0

    def begin(self, name: Any) -> Trail:
        """The trail with which groups of a region begin; its name stands for what the region decides."""
        found = self.starts.get(name)
        if found is None:
            found = self.starts[name] = Trail(self.root)
            found.name = hash((0, name)) if not isinstance(name, Trail) else hash((1, name.name))
        return found

    def clear(self) -> None:
        """Forget all decisions."""
        self.root = Node(0)
        self.start = Trail(self.root)
        self.starts.clear()
        self._new.clear()
        self._sweep = sweeps.number
        self.nodes = self.trails = 0

    def forget_trails(self) -> None:
        """Forget the trails, and with them the replays of plans.  An open group may continue along its own
        trail."""
        self.start.edges.clear()
        self.start.expected = None
        self.starts.clear()
        self._new.clear()
        self._sweep = sweeps.number
        self.trails = 0

    def joined(self, node: Node, row: tuple[Any, ...], loops: int, spilled: tuple[int, ...]) -> Node:
        """Record that the task of `row` joins the prefix `node`, the number of the kernel's loops then, and
        which further slots then need memory."""
        child = Node(node.depth + 1, loops, spilled, node.spilled)
        child.name = hash((node.name, row))
        node.edges[row] = child
        self.nodes += 1
        self.nodes_size.count(child.name)
        return child

    def refused(self, node: Node, row: tuple[Any, ...], refusal: Refusal) -> Refusal:
        """Record that the task of `row` stays out of the prefix `node`."""
        node.edges[row] = refusal
        self.nodes += 1
        self.nodes_size.count(hash((node.name, row)))
        return refusal

    def add_edge(self, trail: Trail, key: tuple[Any, ...], edge: Trail | Refusal | str) -> None:
        """Add the edge `key` to a trail: to the next trail, or the reason why the task does not join."""
        trail.edges[key] = edge
        self.trails += 1
        template, *slots = key
        views = [hash(use.map) for use in template.uses]
        name = hash((trail.name, crc32(template.operation.encode()), template.shape, *views, *slots))
        self._new.append((trail, key, name))
        if isinstance(edge, Trail):
            edge.name = name

    def trim(self, alone: bool = True) -> bool:
        """Clear full trees, and drop trails that do not recur; called between groups, when no group refers to
        a node.  Returns whether trails were dropped that do not recur.

        Trails that were added before a sweep of the tables lead to templates that are not found any more.
        Several ranks, which are not `alone`, wait for a number of trails: they have to forget alike, and
        their tables differ.
        """
        if self.nodes > self.nodes_size.limit and not self.nodes_size.grows():
            self.clear()
        elif self.trails > MOST_NODES:
            self.forget_trails()
        elif len(self._new) > self.new_trails or alone and self._sweep != sweeps.number:
            return self._drop_trails()
        return False

    def _drop_trails(self) -> bool:
        """Drop the new edges of trails unless most of them were there before; and the others, too, if that
        was long ago.  Returns whether they were dropped."""
        again = sum([self._past.seen(name) for *_, name in self._new])
        drops = not recurs(again, len(self._new))
        if drops:
            if self._turns != self._past.turns:
                self.forget_trails()
            for trail, key, _ in self._new:
                trail.expected = None
                self.trails -= trail.edges.pop(key, None) is not None
            self.starts = {name: trail for name, trail in self.starts.items() if trail.edges}
        self._turns, self._sweep = self._past.turns, sweeps.number
        self._new.clear()
        return drops

"""Lowers weak steps to ranks: which rank holds which tile after each step, and which ranks exchange data.

The paper's section 6: no permutation is needed between steps, and at most one in all, before the gathers,
where tiles are smallest.  Rather than naming mesh axes, a slice or an exchange assigns the parts of a tile to
the ranks that share it, equally many ranks a part; every such assignment can be carried out.  It is chosen to
agree with what each rank wants in the end, so that few ranks, or none, need the permutation (section 7.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from diffuse.ir import Point
from diffuse.movement.route import Group
from diffuse.movement.weak import WeakStep

Sources = tuple[tuple[int, ...], ...]


def lower(shape: Point, steps: Sequence[WeakStep], have: Sequence[Point], parts: Point,
          want: Sequence[Point]) -> tuple[Group, ...]:
    """Return weak steps as collectives of ranks, with a permutation among them if one is needed.

    `have` and `want` say where the tile of each rank begins at first and in the end; `parts` is the weak type
    at first.  The steps must lead to the weak type of `want`.
    """
    return _Lowering(shape, tuple(steps), list(have), parts, want).run()


class _Lowering:
    """The state of a lowering: the tile that each rank holds after the steps so far."""

    def __init__(self, shape: Point, steps: tuple[WeakStep, ...], place: list[Point], parts: Point,
                 want: Sequence[Point]) -> None:
        self.shape, self.steps, self.place, self.want = shape, steps, place, want
        self.tile = tuple(size // n for size, n in zip(shape, parts, strict=True))
        self.final = list(self.tile)
        for step in steps:
            if step.source is not None:
                self.final[step.source] *= step.factor
            if step.target is not None:
                self.final[step.target] //= step.factor
        self.found: list[Group] = []

    def run(self) -> tuple[Group, ...]:
        tail = len(self.steps)
        while tail and self.steps[tail - 1].target is None:
            tail -= 1
        for number, step in enumerate(self.steps[:tail]):
            if step.target is None:
                self._gather(step)
            else:
                self._scatter(step, self.steps[number + 1:])
        self._permute()
        for step in self.steps[tail:]:
            self._gather(step)
        return tuple(self.found)

    def _finish(self, kind: str, name: str, factor: int, place: list[Point], tile: Point, sources: Sources,
                readers: Sources | None = None) -> None:
        """Add a step, after which the tiles of the ranks have this shape and begin at these places."""
        self.found.append(Group(kind, name, factor, (self.tile, tile), (self.place, place), sources,
                                readers or sources))
        self.place, self.tile = place, tile

    def _shared(self, step: WeakStep) -> dict[Point, list[int]]:
        """Group the ranks that take part in a step together.

        Their tiles lie within one tile that is larger by the step's factor along its source.
        """
        found: dict[Point, list[int]] = {}
        for rank, begin in enumerate(self.place):
            key = begin if step.source is None else self._coarse(begin, step.source, step.factor)
            found.setdefault(key, []).append(rank)
        return found

    def _coarse(self, begin: Point, dimension: int, factor: int) -> Point:
        width = self.tile[dimension] * factor
        return (*begin[:dimension], begin[dimension] // width * width, *begin[dimension + 1:])

    def _scatter(self, step: WeakStep, later: Sequence[WeakStep]) -> None:
        """Lower a slice or an exchange: assign the parts of tiles to the ranks that share them."""
        i, j, factor = step.source, step.target, step.factor
        assert j is not None
        tile = list(self.tile)
        tile[j] //= factor
        if i is not None:
            tile[i] *= factor
        # the length of a tile along each dimension, after later steps have taken parts from it
        taken = [prod(s.factor for s in later if s.source == d) for d in range(len(tile))]
        reach = [n * t for n, t in zip(tile, taken, strict=True)]
        place = list(self.place)
        sources: list[tuple[int, ...]] = [(rank,) for rank in range(len(place))]
        for key, ranks in self._shared(step).items():
            scores = [self._scores(rank, key, j, tile[j], reach, factor) for rank in ranks]
            chosen = assign(scores, factor)
            for rank, part in zip(ranks, chosen, strict=True):
                place[rank] = (*key[:j], key[j] + part * tile[j], *key[j + 1:])
            if i is not None:
                olds = [self.place[rank][i] % tile[i] // self.tile[i] for rank in ranks]
                for group in matchings(list(zip(olds, chosen, strict=True)), factor):
                    members = tuple(ranks[n] for n in group)
                    for rank in members:
                        sources[rank] = members
        self._finish(step.kind, str(step), factor, place, tuple(tile), tuple(sources))

    def _scores(self, rank: int, key: Point, j: int, width: int, reach: Sequence[int],
                factor: int) -> list[int]:
        """Return how many wanted elements of a rank each part of a tile will have along dimension j, once
        later steps have lengthened the parts; zeros if the tile has none of them along other dimensions."""
        want, final = self.want[rank], self.final
        for d, begin in enumerate(key):
            if d != j:
                low = begin // reach[d] * reach[d]
                if low >= want[d] + final[d] or want[d] >= low + reach[d]:
                    return [0] * factor
        scores = []
        for part in range(factor):
            low = (key[j] + part * width) // reach[j] * reach[j]
            scores.append(max(0, min(low + reach[j], want[j] + final[j]) - max(low, want[j])))
        return scores

    def _gather(self, step: WeakStep) -> None:
        """Lower a gather: each group has one holder of every part."""
        i, factor = step.source, step.factor
        assert i is not None
        place = [self._coarse(begin, i, factor) for begin in self.place]
        tile = (*self.tile[:i], self.tile[i] * factor, *self.tile[i + 1:])
        sources: list[tuple[int, ...]] = [()] * len(place)
        for ranks in self._shared(step).values():
            holders: dict[int, list[int]] = {}
            for rank in ranks:
                holders.setdefault(self.place[rank][i], []).append(rank)
            for members in zip(*(holders[begin] for begin in sorted(holders)), strict=True):
                for rank in members:
                    sources[rank] = members
        self._finish(step.kind, str(step), factor, place, tile, tuple(sources))

    def _permute(self) -> None:
        """Give every rank a tile within what it wants, unless each has one already.

        Ranks that want the same tile must hold all parts of it equally often.  A rank that holds a needed
        part keeps it; the others take the remaining parts.
        """
        parts = [range(0, n, t) for n, t in zip(self.final, self.tile, strict=True)]
        times = len(self.place) * prod(self.tile) // prod(self.shape)
        room: dict[Point, int] = {}
        place: list[Point | None] = [None] * len(self.place)
        for rank, begin in enumerate(self.place):
            inside = all(w <= b < w + n for b, w, n in zip(begin, self.want[rank], self.final, strict=True))
            if inside and room.setdefault(begin, times):
                room[begin] -= 1
                place[rank] = begin
        if None not in place:
            return
        self._finish("allpermute", f"allpermute of {place.count(None)} ranks", 1,
                     *self._moves(place, room, parts, times))

    def _moves(self, place: list[Point | None], room: dict[Point, int], parts: Sequence[range],
               times: int) -> tuple[list[Point], Point, Sources, Sources]:
        """Choose tiles for the ranks that do not keep theirs, and the senders and receivers."""
        movers = [rank for rank, begin in enumerate(place) if begin is None]
        offers: dict[Point, list[int]] = {}
        for rank in reversed(movers):
            offers.setdefault(self.place[rank], []).append(rank)
        open_parts: dict[Point, list[Point]] = {}
        for rank in movers:
            want = self.want[rank]
            if want not in open_parts:
                places = _corners(want, parts)
                open_parts[want] = [p for p in places for _ in range(room.get(p, times))][::-1]
        sources = [(rank,) for rank in range(len(place))]
        readers = list(sources)
        result = [self.place[rank] if begin is None else begin for rank, begin in enumerate(place)]
        for rank in movers:
            result[rank] = begin = open_parts[self.want[rank]].pop()
            sender = offers[begin].pop()
            sources[rank], readers[sender] = (sender,), (rank,)
        return result, self.tile, tuple(sources), tuple(readers)


def _corners(want: Point, parts: Sequence[range]) -> list[Point]:
    """Return where the parts of a tile begin."""
    found: list[Point] = [()]
    for begin, offsets in zip(want, parts, strict=True):
        found = [(*corner, begin + offset) for corner in found for offset in offsets]
    return found


def assign(scores: Sequence[Sequence[int]], parts: int) -> list[int]:
    """Assign a part to each member, every part equally often, for high scores.

    Members with the fewest parts to choose from come first, each takes the best part with room, and of equal
    ones that with the most room.
    """
    room = [len(scores) // parts] * parts
    order = sorted(range(len(scores)), key=lambda n: (sum(s > 0 for s in scores[n]) or parts + 1, n))
    found = [0] * len(scores)
    for member in order:
        best = max((part for part in range(parts) if room[part]),
                   key=lambda part: (scores[member][part], room[part], -part))
        room[best] -= 1
        found[member] = best
    return found


def matchings(edges: Sequence[tuple[int, int]], parts: int) -> list[list[int]]:
    """Split the edges of a regular bipartite multigraph on `parts` nodes a side into perfect matchings.

    Returns the numbers of the edges of each matching: the groups of an exchange, in each of which every old
    part and every new one occurs once.
    """
    by_node: list[list[int]] = [[] for _ in range(parts)]
    for number, (left, _) in enumerate(edges):
        by_node[left].append(number)
    found = []
    for _ in range(len(edges) // parts):
        match: dict[int, int] = {}
        matched: dict[int, int] = {}
        for left in range(parts):
            _augment(left, by_node, edges, match, matched)
        for number in match.values():
            by_node[edges[number][0]].remove(number)
        found.append(sorted(match.values(), key=lambda number: edges[number][0]))
    return found


def _augment(left: int, by_node: list[list[int]], edges: Sequence[tuple[int, int]], match: dict[int, int],
             matched: dict[int, int]) -> None:
    """Extend a matching to one more node, along the shortest path on which others are matched anew.

    `match` has the edge of each new part, and `matched` the new part of each old one.
    """
    came: dict[int, int] = {}
    queue = [left]
    for node in queue:
        for number in by_node[node]:
            right = edges[number][1]
            if right in came:
                continue
            came[right] = number
            if right in match:
                queue.append(edges[match[right]][0])
                continue
            while True:
                match[right] = came[right]
                node = edges[came[right]][0]
                before = matched.get(node)
                matched[node] = right
                if before is None:
                    return
                right = before
    raise AssertionError("a regular bipartite graph has a perfect matching")

"""The cheapest sequence of weak collectives between two partitions, found by A*.

The paper's section 7.2, with the cost of its figure 11 and, among sequences of equal cost, the fewest that
communicate.  Only sequences in normal form are searched: by lemma 6.5 one of them is optimal, and none of
them ever holds more than the larger of both ends.  `tests/exhaustive.py` searches all
sequences under that bound.

Slices come first and are free; then come exchanges, which leave the size of tiles as it is; the gathers that
remain are known in closed form.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from heapq import heappop, heappush
from itertools import islice, permutations, product
from math import gcd, prod

from diffuse.ir import Point
from diffuse.movement.weak import WeakSpace, WeakStep, merged, primes

UNIT = 1 << 10
"""The cost of one element.  A step that communicates adds one, which breaks ties."""

LIMIT = 20_000
"""The most states that a search expands before it takes the best sequence known; a number of states instead
of a time, so that all ranks find the same."""

FURTHER = 200
"""The most states that a search expands to find further sequences of equal cost."""

SLICING, MOVING, DONE = range(3)
SearchState = tuple[int, Point]
"""Whether slices may still follow, and the parts of each dimension."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The outcome of a search."""

    sequences: tuple[tuple[WeakStep, ...], ...]
    """Sequences of the least cost and the fewest steps, at most `ties` of them."""
    optimal: bool
    """False where the search ended at its limit."""
    states: int
    """The number of states that were expanded."""

    @property
    def steps(self) -> tuple[WeakStep, ...]:
        """The first of the sequences."""
        return self.sequences[0]


def cheapest(space: WeakSpace, have: Point, want: Point, ties: int = 1, limit: int = LIMIT) -> SearchResult:
    """Return the cheapest sequence of weak steps from one partition into parts to another.

    Up to `ties` equally cheap sequences are returned: the permutations that their lowering needs are not
    known here.  Raises ValueError if the devices cannot hold the array in these parts.
    """
    for parts in (have, want):
        if len(parts) != len(space.shape) or not space.has(parts):
            raise ValueError(f"{space.devices} devices cannot hold an array of shape {space.shape} "
                             f"in {parts} equal parts, each of them on equally many devices")
    return _Search(space, have, want, ties, limit).run()


@lru_cache(1 << 12)
def _divisors(number: int) -> tuple[int, ...]:
    """Return the divisors of a number that exceed 1, largest first."""
    found = {1}
    for p in primes(number):
        found |= {p * d for d in found}
    return tuple(sorted(found - {1}, reverse=True))


@lru_cache(1 << 14)
def _exponent(number: int, prime: int) -> int:
    """Return how often a prime divides a number."""
    count = 0
    while number % prime == 0:
        number //= prime
        count += 1
    return count


class _Search:
    """One search: the known costs of the states seen so far."""

    def __init__(self, space: WeakSpace, have: Point, want: Point, ties: int, limit: int) -> None:
        self.space, self.have, self.want, self.ties, self.limit = space, have, want, ties, limit
        self.volume = prod(space.shape)
        self.last = prod(want)
        self.final = self._price(self.last)
        self.least = self._price(space.devices)
        self.primes = sorted(set(primes(space.devices)))
        self.best: dict[SearchState, int] = {}
        self.came: dict[SearchState, list[tuple[SearchState, tuple[WeakStep, ...]]]] = {}
        self.open: list[tuple[int, int, int, Point]] = []

    def _price(self, parts: int) -> int:
        """Return the cost of a step that fills tiles of one of so many parts of the array."""
        return self.volume // parts * UNIT + 1

    def run(self) -> SearchResult:
        start, goal = (SLICING, self.have), (DONE, self.want)
        self.best[start] = 0
        heappush(self.open, (0, 0, *start))
        states, limit, optimal = 0, self.limit, False
        while self.open:
            total, rest, phase, parts = heappop(self.open)
            state = (phase, parts)
            if optimal and (total > self.best[goal] or states >= limit):
                break
            if total - rest > self.best[state]:
                continue
            if state == goal:
                optimal = True
                if self.ties == 1:
                    break
                limit = states + FURTHER
                continue
            if states >= limit and goal in self.best:
                break
            states += 1
            for step, following, price in self._edges(phase, parts):
                self._reach(state, step, following, self.best[state] + price)
        found = dict.fromkeys(tuple(merged(path)) for path in islice(self._paths(goal), 2 * self.ties))
        return SearchResult(tuple(islice(found, self.ties)), optimal, states)

    def _reach(self, state: SearchState, step: tuple[WeakStep, ...], following: SearchState,
               cost: int) -> None:
        known = self.best.get(following)
        if known is not None and known <= cost:
            if known == cost and following[0] != SLICING:  # slices make one sequence in any order
                self.came[following].append((state, step))
            return
        rest = self._rest(*following)
        if rest is None:
            return
        self.best[following] = cost
        self.came[following] = [(state, step)]
        heappush(self.open, (cost + rest, rest, *following))

    def _paths(self, state: SearchState) -> Iterator[tuple[WeakStep, ...]]:
        """Enumerate the sequences of steps to a state that were found to cost the least."""
        if state not in self.came:
            yield ()
            return
        for before, steps in self.came[state]:
            for path in self._paths(before):
                yield (*path, *steps)

    def _edges(self, phase: int, parts: Point) -> Iterator[tuple[tuple[WeakStep, ...], SearchState, int]]:
        """Enumerate the steps from a state, with the state that each leads to and its price."""
        count = prod(parts)
        spare = [size // n for size, n in zip(self.space.shape, parts, strict=True)]
        if phase == SLICING:
            free = self.space.devices // count
            for p, j in product([p for p in self.primes if free % p == 0], range(len(parts))):
                if spare[j] % p == 0:
                    step = WeakStep(None, j, p)
                    yield (step,), (SLICING, step(parts)), 0
        if count % self.last:
            return
        gathers = self._gathers(parts)
        if gathers is not None:
            yield gathers[0], (DONE, self.want), gathers[1]
        price = self._price(count)
        for i, j in permutations(range(len(parts)), 2):
            for factor in _divisors(gcd(parts[i], spare[j])):
                step = WeakStep(i, j, factor)
                yield (step,), (MOVING, step(parts)), price

    def _gathers(self, parts: Point) -> tuple[tuple[WeakStep, ...], int] | None:
        """Return the gathers that lead to the goal, and their price; None if gathers alone do not.

        Small factors come first, which costs least.
        """
        factors = []
        for i, (n, m) in enumerate(zip(parts, self.want, strict=True)):
            if n % m:
                return None
            if n > m:
                factors.append((n // m, i))
        count, price, steps = prod(parts), 0, []
        for factor, i in sorted(factors):
            count //= factor
            price += self._price(count)
            steps.append(WeakStep(i, None, factor))
        return tuple(steps), price

    def _rest(self, phase: int, parts: Point) -> int | None:
        """Return a lower bound of the cost from a state to the goal; None if there is no way.

        An exchange adds parts to one dimension and takes parts from one, so that there are at least as many
        of them as dimensions that lack parts.  A gather takes parts from one, and the last one fills tiles of
        the goal's size.
        """
        if phase == DONE:
            return 0
        count = prod(parts)
        lose = sum(m % n != 0 for n, m in zip(parts, self.want, strict=True))
        if phase == SLICING:
            gain, price = self._lacking(parts, self.space.devices // count), self.least
        else:
            if count % self.last:
                return None
            gain = sum(n % m != 0 for n, m in zip(parts, self.want, strict=True))
            price = self._price(count)
        gathering = self.final + gain * price + max(0, lose - gain - 1) * price
        if self.last % count and (phase == MOVING or count > self.last):
            return gathering
        exchanging = max(gain, lose) * self.final
        if phase == MOVING and count == self.last:
            return exchanging
        return min(gathering, exchanging)

    def _lacking(self, parts: Point, free: int) -> int:
        """Return a lower bound on the dimensions that will not get all the parts that they lack from free
        slices."""
        most = 0
        for p in self.primes:
            lacks = sorted(need for n, m in zip(parts, self.want, strict=True)
                           if (need := _exponent(m, p) - _exponent(n, p)) > 0)
            have, short = _exponent(free, p), 0
            for need in lacks:
                have -= need
                short += have < 0
            most = max(most, short)
        return most

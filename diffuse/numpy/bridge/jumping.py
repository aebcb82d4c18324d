"""Draws the numbers of a large array on all threads: NumPy's own, with the generator left as NumPy leaves it.

A PCG64 generator makes a sequence of words, and can jump ahead in it.  Each thread draws from another place
of the sequence.  As most functions take a word for a number but sometimes more, a part does not begin
exactly where the part before it ends.  But two generators in equal states draw equal numbers ever after: the
part before goes on, and a spare generator draws the first numbers of the part once more, until both are in
one state.  As a rule that takes one or two numbers; where it takes too many, NumPy draws the array.
"""

from __future__ import annotations

import _thread
from collections.abc import Callable, Sequence
from ctypes import memmove
from functools import partial
from math import prod, sqrt
from typing import Any

import numpy

from diffuse import library
from diffuse.numpy.arrays import core
from diffuse.numpy.order import memory, team

Array = numpy.ndarray[Any, Any]

FEWEST = {"standard_normal": 150_000, "normal": 150_000, "standard_exponential": 400_000,
          "exponential": 400_000, "random": 600_000, "uniform": 600_000, "integers": 1_500_000}
"""The fewest numbers of each function that are worth threads, as measured."""
SIZES = {"random": 0, "random_sample": 0, "standard_normal": 0, "standard_exponential": 0, "exponential": 1,
         "uniform": 2, "normal": 2, "integers": 2, "randint": 2, "rand": -1, "randn": -1}
"""Functions that draw their numbers one after another, with the position of the size argument; -1: all
arguments."""
STEPS = "random", "uniform"
"""Functions that take exactly one word of the generator for each number."""
INTO = "standard_normal", "standard_exponential", "random"
"""Functions that can draw into a given array."""
MOST = 1 << 24
"""The most numbers of the other functions, whose results are copied into the array."""
TRIED = 1 << 15
"""The number of numbers that show how many words a function takes for one."""
TRIES = 64
"""How many numbers two parts may draw one by one, both together, until they are in one state."""
SHORTEST, MOST_PARTS = 1 << 15, 64
"""The fewest random numbers that a part draws, and the most parts.  A part begins later than expected by the
slack of all parts before it, and the slack of all parts together has to be smaller than a part."""
SLACK = 200
"""A part has room for this many numbers more than expected, and for one in as many of its numbers."""
EVEN = 1e-4
"""How far from halves and wholes the words for a number are if a number is rarely refused."""
FAR = 1 << 50
"""A bound on the words between two states: beyond it, the second one comes before the first."""
MASK = (1 << 128) - 1

Draw = Callable[["Source", Array], None]
"""Fills an array with numbers of a source."""

_rates: dict[tuple[Any, ...], float] = library.Bounded(1 << 8)
"""The words that a function takes for a number, by its name and arguments; 0 if parts did not meet once."""
_sources: list[Source] = []
"""Generators that draw in place of the program's."""
_busy = _thread.allocate_lock()
"""Held by the thread that uses these."""


class Source:
    """A generator that can be set to any state."""

    __slots__ = ("bits", "generator")

    def __init__(self) -> None:
        self.bits = numpy.random.PCG64(0)
        self.generator = numpy.random.Generator(self.bits)

    def jump(self, begin: dict[str, Any], words: int) -> None:
        """Continue so many words after a state; half a word that is left over there stays left over."""
        bits: Any = self.bits
        bits.state = begin
        if words:
            bits.advance(words)
            bits.state = {**begin, "state": bits.state["state"]}

    def state(self) -> tuple[int, int, int]:
        """The state of PCG64: its place in the sequence, whether half of a word is kept for the next number
        of 32 bits, and this half."""
        found: Any = self.bits.state
        left = found["has_uint32"]
        return found["state"]["state"], left, left and found["uinteger"]


def _multiplier() -> int:
    """The factor by which the generator multiplies its state in each step."""
    bits: Any = numpy.random.PCG64(0)
    bits.state = {**bits.state, "state": {"state": 1, "inc": 1}}
    bits.advance(1)
    return int(bits.state["state"]["state"]) - 1


_FACTOR = _multiplier()


def words_between(state: int, other: int, increment: int) -> int:
    """The number of steps from one state to another; -1 if there are more than `FAR`.  The bits of the number
    are found from the lowest on: steps of 2**k words change no lower bits of the state than bit k."""
    factor, bit, found = _FACTOR, 1, 0
    while state != other:
        if (state ^ other) & bit:
            state = state * factor + increment & MASK
            found |= bit
        bit <<= 1
        if bit > FAR:
            return -1
        increment, factor = (factor + 1) * increment & MASK, factor * factor & MASK
    return found


def sized(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
          ) -> tuple[tuple[int, ...], tuple[Any, ...], dict[str, Any]] | None:
    """The shape that a call requests, and its other arguments; None if NumPy has to draw."""
    place = SIZES[name]
    named = dict(kwargs)
    size: Any
    given: tuple[Any, ...]
    if place < 0:
        size, given = args, ()
    else:
        size = args[place] if len(args) > place else named.pop("size", None)
        given, rest = args[:place], args[place + 1:]
        if rest or len(args) > place and "size" in named:
            return None
    if "out" in named or any(type(v) not in core.NUMBERS for v in given):
        return None
    shape: Any = (size,) if type(size) is int else size
    if type(shape) is not tuple or not shape or any(type(n) is not int or n <= 0 for n in shape):
        return None
    return shape, given, named


def drawn(function: Callable[..., Any], name: str, generator: Any, args: tuple[Any, ...],
          kwargs: dict[str, Any]) -> Array | None:
    """Draw the array of a call of a generator's function on all threads; None if NumPy has to draw it."""
    bits: Any = getattr(generator, "bit_generator", None)
    found = sized(name, args, kwargs) if isinstance(bits, numpy.random.PCG64) else None
    if found is None or type(generator) is not numpy.random.Generator:
        return None
    shape, given, named = found
    count = prod(shape)
    threads = min(team.threads(), MOST_PARTS, max(count // SHORTEST, 1))
    into = name in INTO and not given and not named
    if (count < FEWEST[name] or threads == 1 or library.current().runtime.ranks > 1
            or not into and (count > MOST or any(type(v) not in core.NUMBERS for v in named.values()))
            or not _busy.acquire(blocking=False)):
        return None
    try:
        while len(_sources) <= threads:
            _sources.append(Source())

        def draw(source: Source, out: Array) -> None:
            if into:
                function(source.generator, out=out)
            else:
                out[...] = function(source.generator, *given, **named, size=out.size)

        with bits.lock:
            begin: Any = bits.state
            _sources[0].jump(begin, 0)
            try:
                one = function(_sources[0].generator, *given, **named, size=1)
                if one.dtype.itemsize != 8:
                    return None
                out = memory.empty(count, one.dtype).reshape(shape)
            except Exception as error:
                if library.of_handler(error):
                    raise
                return None  # NumPy will raise its own
            key = name, *given, *named.items()
            rate = _rate(key, draw, begin, one.dtype)
            if not rate:
                return None
            parts = Parts(draw, begin, out.reshape(-1), _sources[:threads], _sources[threads], rate)
            if not parts.fit() or not parts.drawn():
                _rates[key] = 0.0
                return None
            _rates[key] = parts.rate
            bits.state = _sources[threads - 1].bits.state
            return out
    finally:
        _busy.release()


def _rate(key: tuple[Any, ...], draw: Draw, begin: Any, dtype: Any) -> float:
    """The words that a function takes for a number: what earlier calls took, or else what a trial takes."""
    found = 1.0 if key[0] in STEPS else _rates.get(key)
    if found is None:
        source = _sources[0]
        source.jump(begin, 0)
        draw(source, numpy.empty(TRIED, dtype))
        found = words_between(begin["state"]["state"], source.state()[0], begin["state"]["inc"]) / TRIED
    return found


class Parts:
    """The parts of one array, each drawn by a source; `spare` is another source.  `rate` is the expected
    number of words for a number."""

    def __init__(self, draw: Draw, begin: Any, out: Array, sources: Sequence[Source], spare: Source,
                 rate: float) -> None:
        self.rate = rate
        self._draw, self._begin, self._out, self._sources, self._spare = draw, begin, out, sources, spare
        count = out.size // len(sources) // 2 * 2
        slack = count // SLACK + SLACK
        if abs(2.0 * rate - round(2.0 * rate)) < 2.0 * EVEN:  # half a word, or one, is the least for a number
            rate = round(2.0 * rate) / 2.0
            slack = begin["has_uint32"] if rate == 0.5 else 0
        self._words = [int(k * count * rate) for k in range(len(sources))]
        """Where each part begins in the sequence."""
        self._low = [k * (count + slack) for k in range(len(sources))]
        """Where each part begins in the array, at first."""
        self._high = [*[low - 2 * slack for low in self._low[1:]], out.size]
        """Where the drawn numbers of each part end."""

    def fit(self) -> bool:
        """Is there room for all parts?"""
        return self._low[-1] < self._out.size

    def drawn(self) -> bool:
        """Draw the array; False if the parts do not meet."""
        jobs: list[Callable[[], None]] = []
        for source, words, low, high in zip(self._sources, self._words, self._low, self._high, strict=True):
            source.jump(self._begin, words)
            jobs.append(partial(self._draw, source, self._out[low:high]))
        team.together(jobs)
        met = [0, *[self._met(k) for k in range(1, len(self._sources))]]
        if -1 in met:
            return False
        if self._words[1]:
            self.rate = self._words[1] / self._high[0]
        self._join(met)
        return True

    def _met(self, k: int) -> int:
        """Continue the part before part `k` until it is in a state in which part `k` was; return after how
        many numbers part `k` was in it, -1 if they do not meet."""
        source, spare, first = self._sources[k - 1], self._spare, 0
        increment, one = self._begin["state"]["inc"], numpy.empty(1, self._out.dtype)
        spare.jump(self._begin, self._words[k])
        for _ in range(TRIES):
            state, target = source.state(), spare.state()
            if state == target:
                return first
            words = words_between(state[0], target[0], increment)
            if words < 0 or not words and target[1]:  # at one place the half that is left comes first
                self._draw(spare, one)
                first += 1
                continue
            near = words - 4.0 * sqrt(words * (self.rate % 0.5)) - 4.0  # seldom beyond the next part
            high, many = self._high[k - 1], max(int(near / self.rate), 1)
            if high + many > self._low[k]:
                break
            self._draw(source, self._out[high:high + many])
            self._high[k - 1] = high + many
        return -1

    def _join(self, met: Sequence[int]) -> None:
        """Move each part, without its first numbers, to the end of the one before it, and draw the last
        numbers."""
        end, size, base = 0, self._out.itemsize, self._out.ctypes.data
        for low, first, high in zip(self._low, met, self._high, strict=True):
            if end < low + first:
                memmove(base + end * size, base + (low + first) * size, (high - low - first) * size)
            end += high - low - first
        if end < self._out.size:
            self._draw(self._sources[-1], self._out[end:])

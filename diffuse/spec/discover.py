"""Discovery: which dimensions of a function's operands can be cut, found by running it on parts.

ShardCombine (papers/004, section 4.2), with rules that prevent false discoveries: every rule is confirmed
with another number of parts and other numbers; extents are made distinct, so that equal ones are equal for a
reason; a border that makes every part the whole is refused; folds begin with the first part, not with zero.
A discovery is evidence, not proof.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, product
from math import prod
from typing import Any, NamedTuple

import numpy

from diffuse.ir import AccessMap
from diffuse.spec import running
from diffuse.spec.combine import Combine, combining, holds
from diffuse.spec.opspec import Indexing, Loop, OpSpec, Trim, row

PARTS = (2, 3)
UNIT = 6
"""Chosen extents are multiples of the least common multiple of `PARTS`."""
MOST = 1 << 16
"""The most elements of chosen extents that an operand has, unless the given one has more."""
BORDER = 4
"""The widest border that is tried if the results do not determine its width."""

Dimension = tuple[int, int]
"""An operand and one of its dimensions."""


class Rule(NamedTuple):
    """Dimensions that can be cut together, and how the results of the parts combine to the whole."""

    dimensions: tuple[Dimension, ...]
    combines: tuple[Combine, ...]
    """One rule for each result."""
    border: tuple[int, int] = (0, 0)
    """The elements below and above that a part also needs."""
    step: int = 1
    """How many elements of the operand make one of the result, if parts have to be multiples of that."""

    def __str__(self) -> str:
        where = ", ".join(f"%{operand}.{d}" for operand, d in self.dimensions)
        border = f" border {self.border[0]} {self.border[1]}" if any(self.border) else ""
        step = f" step {self.step}" if self.step > 1 else ""
        return f"{where}{border}{step}: {', '.join(map(str, self.combines))}"


@dataclass(frozen=True)
class Discovery:
    """The discovered description, and its evidence."""

    spec: OpSpec
    """The description with the rules that are loops; interleaved gathers are not included."""
    rules: tuple[Rule, ...]
    runs: int
    """How many times the function ran."""
    shapes: tuple[tuple[int, ...], ...]
    """The shapes of the operands that it ran on."""


class _Runner:
    """The function, the operands that it is tried on, and its results for whole operands."""

    def __init__(self, function: Callable[..., Any], probes: Sequence[Sequence[Any]]) -> None:
        self.function, self.probes, self.runs = function, probes, 0
        self.parted = False
        """Has the function accepted all parts of its operands, for one way of cutting them at least?"""
        self.refused: tuple[str, Exception] | None = None
        """The first part that it did not accept, and what it raised."""
        self.wholes = [self.run(probe) for probe in probes]

    def run(self, operands: Sequence[Any]) -> list[Any]:
        self.runs += 1
        with numpy.errstate(all="ignore"):
            return running.outputs(self.function, operands)

    def parts(self, probe: int, dimensions: Sequence[Dimension], count: int, border: tuple[int, int],
              shorter: bool = False, step: int = 1) -> tuple[list[list[Any]], list[int]] | None:
        """The results of parts, and the size of each part, a multiple of `step`; None if the function refuses
        one of them.  The results that parts of equal lengths make are those of a function that returns a
        `shorter` result."""
        operands = self.probes[probe]
        operand, axis = dimensions[0]
        extent = operands[operand].shape[axis]
        if extent < count or (any(border) and -(-extent // count) + sum(border) >= extent):
            return None
        extent -= sum(border) if shorter else 0
        tile = step * -(-extent // (step * count))
        found, weights = [], []
        for low in range(0, extent, tile):
            high = min(low + tile, extent)
            needed = list(operands)
            for number, d in dimensions:
                index = [slice(None)] * operands[number].ndim
                index[d] = slice(max(0, low - border[0]), high + border[1])
                needed[number] = operands[number][tuple(index)]
            try:
                found.append(self.run(needed))
            except Exception as error:  # a function may refuse the parts with any exception
                self.refused = self.refused or (
                    f"part {low // tile} of {-(-extent // tile)} along dimension {axis} of operand {operand}",
                    error)
                return None
            weights.append(high - low)
        self.parted = True
        return found, weights

    def rule(self, dimensions: tuple[Dimension, ...], border: tuple[int, int] = (0, 0), shorter: bool = False,
             step: int = 1) -> Rule | None:
        """The rule for these dimensions, confirmed with every number of parts and all operands; of a function
        that pads, or whose result is `shorter` by the border, or whose every `step` elements give one."""
        found = self.parts(0, dimensions, PARTS[0], border, shorter, step)
        if found is None:
            return None
        left = combining(found[0], self.wholes[0], found[1], (border[0] // step, border[1] // step))
        if any(border) or step > 1:
            left = [[c for c in rules if c.kind == "gather" and c.block == 1
                     and any(c.trim) == (any(border) and not shorter)] for rules in left]
        for parts, probe in list(product(PARTS, range(len(self.probes))))[1:]:
            if not all(left) or (tried := self.parts(probe, dimensions, parts, border, shorter, step)
                                     ) is None:
                return None
            left = [[rule for rule in rules
                     if holds(rule, [part[k] for part in tried[0]], self.wholes[probe][k], tried[1])]
                    for k, rules in enumerate(left)]
        return Rule(dimensions, tuple([rules[0] for rules in left]), border, step) if all(left) else None


def discover(function: Callable[..., Any], *operands: Any, seed: int = 0) -> Discovery:
    """Find the dimensions of a function's operands that can be cut.

    The function takes arrays and returns one or several; it runs on random ones of other extents where it
    accepts these, and else of the given ones.  Raises ValueError for a function that returns different
    results for equal operands, modifies them, or accepts no parts of them: none of these can run on parts.
    Exceptions of the function on the operands are passed on.
    """
    given = [numpy.asarray(each) for each in operands]
    first = running.repeatable(function, given)
    found: list[Rule] = []
    runs, parted, refused = 0, False, None
    shapes = [each.shape for each in given]
    for probes in _probes(function, given, seed):
        runner = _Runner(function, probes)
        same = all(a.shape == b.shape for a, b in zip(probes[0], given, strict=True))
        # What was refused on other extents is not accepted on these; but borders may depend on extents.
        _search(runner, found, plain=runs == 0, borders=same)
        runs += runner.runs
        parted = parted or runner.parted
        refused = runner.refused or refused  # the given extents come last
        shapes = [each.shape for each in probes[0]] if runs == runner.runs else shapes
    linear = frozenset(k for k in range(len(given)) if _linear(function, given, k))
    whole = running.outputs(function, given)
    running.alike(function, first, whole)
    if refused is not None and not parted:
        part, error = refused
        raise ValueError(f"{function!r} accepts no parts of its operands, of {part} it says "
                         f"{type(error).__name__}: {error}; describe it by hand") from error
    return Discovery(_spec(found, given, whole, linear), tuple(found), runs, tuple(shapes))


def _probes(function: Callable[..., Any], given: Sequence[Any], seed: int) -> Iterator[list[list[Any]]]:
    """The sets of operands to try the function on: with distinct extents if it accepts them, else as
    given."""
    classes = sorted({n for each in given for n in each.shape if n > 1})
    for kept in [None, *classes]:
        free = (n for n in count(UNIT, UNIT) if n != kept)
        extents = {n: n if n == kept else next(free) for n in classes}
        if any([prod([extents.get(n, n) for n in each.shape]) > max(MOST, each.size) for each in given]):
            continue
        probes = _drawn(function, given, extents, seed)
        if probes:
            yield probes
            break
    yield _drawn(function, given, {n: n for n in classes}, seed) or [list(given)]


def _drawn(function: Callable[..., Any], given: Sequence[Any], extents: dict[int, int], seed: int
           ) -> list[list[Any]]:
    """Two sets of random operands and, if the function accepts them, one that begins with zeros, so that the
    results of parts differ, and one of integers of which most are alike, so that folds of bits and of numbers
    differ.  Empty if it does not accept these extents."""
    probes = [_made(given, extents, seed + k) for k in range(2)]
    if not _accepts(function, probes):
        return []
    begun, flat = [[each.copy() for each in probes[0]] for _ in range(2)]
    for each, level in zip(begun, flat, strict=True):
        each.reshape(-1)[: each.size // 2] = 0
        if level.size and level.dtype.kind in "iub":
            _level(level)
    return [*probes, *[made for made in (begun, flat) if _accepts(function, [made])]]


def _level(array: Any) -> None:
    """Let all integers of an array be one with all bits, but for the first and the last of each dimension,
    which have one bit each; nothing if the array has no such numbers."""
    high = (1 << int(array.max() + 1).bit_length() - 1) - 1
    if high >= 3 and array.min() <= 1:
        ends = numpy.ix_(*[sorted({0, n - 1}) for n in array.shape])
        array[...] = high
        array[ends] = 1 + sum(numpy.indices(array[ends].shape)) % 2


def _made(given: Sequence[Any], extents: dict[int, int], seed: int) -> list[Any]:
    """Random operands of the given types; integers lie between the least and the greatest given one."""
    rng = numpy.random.default_rng(seed)
    found = []
    for each in given:
        shape = tuple(extents.get(n, n) for n in each.shape)
        if each.dtype.kind in "fc":
            made: Any = rng.standard_normal(shape)
            if each.dtype.kind == "c":
                made = made + 1j * rng.standard_normal(shape)
            elif each.size and numpy.min(each) >= 0:
                made = numpy.abs(made)  # the function may not accept negative numbers
        else:
            low, high = (int(each.min()), int(each.max())) if each.size else (0, 0)
            made = rng.integers(low, high + 1, shape)
        found.append(numpy.asarray(made).astype(each.dtype))
    return found


def _accepts(function: Callable[..., Any], probes: Sequence[Sequence[Any]]) -> bool:
    try:
        with numpy.errstate(all="ignore"):
            for probe in probes:
                running.outputs(function, probe)
    except Exception:  # any exception: it does not accept these extents
        return False
    return True


def _search(runner: _Runner, found: list[Rule], plain: bool, borders: bool) -> None:
    """Add the rules of all dimensions that have none yet: `plain` ones, and those with `borders`."""
    operands = runner.probes[0]
    taken = {dimension for rule in found for dimension in rule.dimensions}
    for operand, array in enumerate(operands):
        for d, extent in enumerate(array.shape):
            if (operand, d) in taken or extent < 2:
                continue
            for dimensions in _together(operands, (operand, d), taken):
                rule = (runner.rule(dimensions) if plain else None) or (
                    _bordered(runner, dimensions) if borders else None)
                if rule is not None:
                    found.append(rule)
                    taken |= set(rule.dimensions)
                    break


def _together(operands: Sequence[Any], first: Dimension, taken: set[Dimension]
              ) -> list[tuple[Dimension, ...]]:
    """Sets of dimensions to be cut with the first one, smallest first: at most one of each later operand, of
    the same extent."""
    extent = operands[first[0]].shape[first[1]]
    choices: list[list[Dimension | None]] = [
        [None, *[(k, d) for d, n in enumerate(array.shape) if n == extent and (k, d) not in taken]]
        for k, array in enumerate(operands) if k > first[0]]
    sets = [(first, *[each for each in choice if each is not None]) for choice in product(*choices)]
    return sorted(sets, key=len)


def _bordered(runner: _Runner, dimensions: tuple[Dimension, ...]) -> Rule | None:
    """The rule of a function that reads a border around each element.  Its width is the difference of the
    extents or, where the function pads, the smallest that holds.  Where several elements of the operand make
    one of the result, parts and borders are multiples of their number."""
    if len(dimensions) > 1:
        return None
    extent = runner.probes[0][dimensions[0][0]].shape[dimensions[0][1]]
    lengths = {n for whole in runner.wholes[0] for n in whole.shape if 1 < n < extent}
    for n in sorted(lengths, reverse=True):
        if rule := runner.rule(dimensions, (0, extent - n), True):
            return rule
    widths = sorted(((a, b) for a in range(BORDER + 1) for b in range(BORDER + 1)),
                    key=lambda border: (sum(border), abs(border[0] - border[1])))
    for step in (1, *sorted({extent // n for n in lengths if extent % n == 0})):
        for border in widths:
            if (step > 1 or any(border)) and border[0] % step == border[1] % step == 0 and (
                    rule := runner.rule(dimensions, border, step=step)):
                return rule
    return None


def _linear(function: Callable[..., Any], given: Sequence[Any], operand: int) -> bool:
    """Is f(x + y) = f(x) + f(y) in this operand, while the others stay constant?"""
    x = given[operand]
    if x.dtype.kind not in "fc" or not x.size:
        return False
    y = numpy.asarray(numpy.random.default_rng(1).standard_normal(x.shape)).astype(x.dtype)
    try:
        one, two, both = (running.outputs(function, [*given[:operand], each, *given[operand + 1:]])
                          for each in (x, y, x + y))
    except Exception:  # a function that does not accept such numbers is not linear
        return False
    return all(a.dtype.kind in "fc" and a.shape == b.shape == c.shape and running.differing(a + b, c) is None
               for a, b, c in zip(one, two, both, strict=True))


def _spec(rules: Sequence[Rule], given: Sequence[Any], whole: Sequence[Any], linear: frozenset[int]
          ) -> OpSpec:
    """The description made of the rules: a loop for each that folds, or gathers without interleaving."""
    loops: list[Loop] = []
    trims: list[Trim] = []
    reads: list[dict[int, tuple[int, int, tuple[int, int]]]] = [{} for _ in given]
    writes: list[dict[int, int]] = [{} for _ in whole]
    reducer = None
    for rule in rules:
        kinds = {c.kind for c in rule.combines}
        if len(kinds) > 1 or kinds == {"same"} or any(c.block > 1 for c in rule.combines):
            continue
        kind, number = kinds.pop(), len(loops)
        if kind != "gather" and reducer not in (None, kind):
            continue  # a description has one reducer
        operand, axis = rule.dimensions[0]
        extent = given[operand].shape[axis]
        if kind == "gather":
            trim, step = rule.combines[0].trim, rule.step
            length = whole[0].shape[rule.combines[0].dimension]
            if not any(rule.border) and 0 < length < extent and extent % length == 0:
                step = extent // length  # each element of the result is made of so many
            extent = extent // step if step > 1 else extent - sum(rule.border) + sum(trim)
            if any(each.shape[c.dimension] != extent for each, c in zip(whole, rule.combines, strict=True)):
                continue  # other numbers of elements than steps have
            for k, combine in enumerate(rule.combines):
                writes[k][combine.dimension] = number
            if any(trim):
                trims.append(Trim(number, *trim))
        else:
            reducer, step = kind, 1
        loops.append(Loop(f"d{number}", extent, kind != "gather"))
        for operand, d in rule.dimensions:
            reads[operand][d] = number, step, (rule.border[0], rule.border[1] + step - 1)
    made = [Indexing(k, _map(each.ndim, {d: (n, step) for d, (n, step, _) in found.items()}),
                     tuple(found.get(d, (0, 1, (0, 0)))[2] for d in range(each.ndim))
                     if any(any(border) for *_, border in found.values()) else ())
            for k, (each, found) in enumerate(zip(given, reads, strict=True))]
    results = [Indexing(len(given) + k, _map(each.ndim, {d: (n, 1) for d, n in found.items()}))
               for k, (each, found) in enumerate(zip(whole, writes, strict=True))]
    return OpSpec(tuple(loops), tuple(made), tuple(results), reducer, linear, "discovered", tuple(trims))


def _map(rank: int, loops: dict[int, tuple[int, int]]) -> AccessMap:
    return AccessMap(tuple(row(0, loops[d]) if d in loops else row(0) for d in range(rank)),
                     tuple(d for d in range(rank) if d not in loops))

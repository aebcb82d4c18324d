"""Descriptions of Einstein sums, from their subscripts as `numpy.einsum` reads them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from diffuse.ir import Point
from diffuse.spec.opspec import Loop, OpSpec, plain


def einsum(subscripts: str, *shapes: Point) -> OpSpec:
    """Describe `numpy.einsum(subscripts, ...)` on operands of these shapes.

    Loops have the letters for names; dimensions of an ellipsis are called `...0`, `...1` from the left.  An
    Einstein sum is linear in every operand.  Raises ValueError for subscripts that do not fit the shapes, and
    for an extent of 1 beside a longer one, which NumPy would broadcast: such a dimension has no single loop.
    """
    inputs, arrow, output = subscripts.replace(" ", "").partition("->")
    terms = inputs.split(",")
    if len(terms) != len(shapes):
        raise ValueError(f"subscripts {subscripts!r} name {len(terms)} operands, but {len(shapes)} are given")
    labels = [_labels(term, len(shape), subscripts) for term, shape in zip(terms, shapes, strict=True)]
    extents: dict[str, int] = {}
    for term, shape in zip(labels, shapes, strict=True):
        for label, extent in zip(term, shape, strict=True):
            if extents.setdefault(label, extent) != extent:
                raise ValueError(f"subscripts {subscripts!r}: {label!r} has extents {extents[label]} and "
                                 f"{extent}; give all operands the same one")
    result = _result(output, extents, subscripts) if arrow else _implied(labels)
    names = [*result, *[label for label in extents if label not in result]]
    numbers = {name: k for k, name in enumerate(names)}
    loops = tuple(Loop(name, extents[name], name not in result) for name in names)
    reads = tuple(plain(k, [numbers[x] for x in term]) for k, term in enumerate(labels))
    writes = (plain(len(labels), [numbers[x] for x in result]),)
    return OpSpec(loops, reads, writes, "sum" if len(names) > len(result) else None,
                  frozenset(range(len(labels))), "einsum")


def _labels(term: str, rank: int, subscripts: str) -> list[str]:
    """The loop of each dimension of an operand."""
    before, dots, behind = term.partition("...")
    if not (before + behind).isalpha() and before + behind:
        raise ValueError(f"subscripts {subscripts!r}: {term!r} holds something else than letters and '...'")
    covered = rank - len(before) - len(behind)
    if covered < 0 or (covered and not dots):
        raise ValueError(f"subscripts {subscripts!r}: {term!r} names {len(before) + len(behind)} dimensions "
                         f"of an operand that has {rank}")
    return [*before, *[f"...{k}" for k in range(covered)], *behind]


def _result(output: str, extents: dict[str, int], subscripts: str) -> list[str]:
    """The loop of each dimension of the result, if the subscripts name them."""
    dots = [label for label in extents if label.startswith("...")]
    before, found, behind = output.partition("...")
    result = [*before, *(dots if found else []), *behind]
    unknown = [label for label in result if label not in extents]
    if unknown or len(set(result)) != len(result):
        raise ValueError(f"subscripts {subscripts!r}: the result {output!r} may name each letter of the "
                         "operands once, and no others")
    return result


def _implied(labels: Sequence[Sequence[str]]) -> list[str]:
    """The dimensions of the result if subscripts do not name them: the ellipsis, then all letters that occur
    once, in alphabetical order."""
    counts = Counter(label for term in labels for label in term)
    dots = sorted({label for label in counts if label.startswith("...")})
    return dots + sorted(label for label, times in counts.items() if times == 1 and label not in dots)

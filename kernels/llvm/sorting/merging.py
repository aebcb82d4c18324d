"""Merges two sorted runs into one, from both ends at once and without data-dependent branches."""

from __future__ import annotations

from diffuse.kernels.llvm.code import Code, carrying
from diffuse.kernels.llvm.sorting.keys import BITS, raw_type
from diffuse.kernels.llvm.sorting.words import load, place, pointer, store, word

ROUNDS = 64
"""The rounds in which both ends advance.  In each, both advance by half as many elements as the shorter of
the two remaining runs has, so that neither run can end within it; the rest is merged element by element."""


def merge(code: Code, dtype: str) -> None:
    """Merge two sorted runs into one.

    Words: the elements of the first run, their count, those of the second, their count, target.  Equal
    elements keep their order, those of the first run before those of the second.  Elements must be
    comparable: runs contain no NaN, and no zeros of both signs.
    """
    first, second, target = (pointer(code, k) for k in (0, 2, 4))
    counts = [word(code, k) for k in (1, 3)]
    begin = [("i64", value) for value in ("0", "0", *counts)]
    with carrying(code, "0", str(ROUNDS), 1, begin) as (_, ends):
        left = [code.let(f"sub i64 {ends[2 + k]}, {ends[k]}") for k in range(2)]
        fewer = code.let(f"icmp slt i64 {left[0]}, {left[1]}")
        least = code.let(f"select i1 {fewer}, i64 {left[0]}, i64 {left[1]}")
        steps = code.let(f"lshr i64 {least}, 1")
        with carrying(code, "0", steps, 1, [("i64", end) for end in ends]) as (_, state):
            state[:2] = _forward(code, dtype, first, second, target, state[0], state[1])
            state[2:] = _backward(code, dtype, first, second, target, state[2], state[3])
        ends[:] = state
    _rest(code, dtype, first, second, target, ends)


def _less(code: Code, dtype: str, one: str, other: str) -> str:
    """Is an element, given by its bits, less than another?  An i1.  Integers in the order of floats are
    compared in less time than floats."""
    kind = code.type(raw_type(dtype))
    if not dtype.startswith("float"):
        return code.let(f"icmp {'slt' if dtype.startswith('int') else 'ult'} {kind} {one}, {other}")
    keys = []
    for value in (one, other):
        sign = code.let(f"ashr {kind} {value}, {BITS[dtype] - 1}")
        keys.append(code.let(f"xor {kind} {value}, {code.let(f'lshr {kind} {sign}, 1')}"))
    return code.let(f"icmp slt {kind} {keys[0]}, {keys[1]}")


def _chosen(code: Code, dtype: str, flag: str, one: str, other: str, target: str, to: str) -> None:
    """Store one of two elements at a position of the target."""
    raw = raw_type(dtype)
    value = code.let(f"select i1 {flag}, {code.type(raw)} {one}, {code.type(raw)} {other}")
    store(code, raw, value, place(code, raw, target, to))


def _pair(code: Code, dtype: str, first: str, second: str, i: str, j: str) -> tuple[str, str]:
    """The bits of an element of each run."""
    raw = raw_type(dtype)
    return load(code, raw, place(code, raw, first, i)), load(code, raw, place(code, raw, second, j))


def _moved(code: Code, operation: str, here: str, flag: str) -> str:
    """A position that moves if an i1 is set: arithmetic, of which LLVM makes no branch."""
    return code.let(f"{operation} i64 {here}, {code.let(f'zext i1 {flag} to i64')}")


def _forward(code: Code, dtype: str, first: str, second: str, target: str, i: str, j: str) -> tuple[str, str]:
    """Append the smaller of the next elements; returns the positions of those after it."""
    to = code.let(f"add i64 {i}, {j}")
    one, other = _pair(code, dtype, first, second, i, j)
    less = _less(code, dtype, other, one)
    _chosen(code, dtype, less, other, one, target, to)
    after = _moved(code, "add", j, less)
    return code.let(f"sub i64 {code.let(f'add i64 {to}, 1')}, {after}"), after


def _backward(code: Code, dtype: str, first: str, second: str, target: str, i: str, j: str
              ) -> tuple[str, str]:
    """Prepend the larger of the last elements before `i` and `j`; returns the positions without it."""
    to = code.let(f"sub i64 {code.let(f'add i64 {i}, {j}')}, 1")
    one, other = _pair(code, dtype, first, second, *[code.let(f"sub i64 {end}, 1") for end in (i, j)])
    less = _less(code, dtype, other, one)
    _chosen(code, dtype, less, one, other, target, to)
    before = _moved(code, "sub", i, less)
    return before, code.let(f"sub i64 {to}, {before}")


def _rest(code: Code, dtype: str, first: str, second: str, target: str, ends: list[str]) -> None:
    """Merge what is between the ends.  If a run has ended, both elements are read from the other."""
    raw = raw_type(dtype)
    low, high = (code.let(f"add i64 {ends[k]}, {ends[k + 1]}") for k in (0, 2))
    with carrying(code, low, high, 1, [("i64", ends[0]), ("i64", ends[1])]) as (to, state):
        i, j = state
        more, also = (code.let(f"icmp slt i64 {at}, {end}") for at, end in ((i, ends[2]), (j, ends[3])))
        places = [place(code, raw, *pair) for pair in ((first, i), (second, j))]
        one, other = (load(code, raw, code.let(f"select i1 {here}, ptr {near}, ptr {far}"))
                      for here, near, far in ((more, *places), (also, *reversed(places))))
        ended = code.let(f"xor i1 {more}, true")
        taken = code.let(f"or i1 {_less(code, dtype, other, one)}, {ended}")
        _chosen(code, dtype, taken, other, one, target, to)
        state[1] = _moved(code, "add", j, taken)
        state[0] = code.let(f"sub i64 {code.let(f'add i64 {to}, 1')}, {state[1]}")

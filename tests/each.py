"""Grids of small cases in one test: pytest takes 3 ms for each test of its own, and a loop nothing."""

from __future__ import annotations

import functools
import gc
import inspect
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pytest

Test = Callable[..., None]
T = TypeVar("T")
THOROUGH = bool(os.environ.get("THOROUGH"))
"""`make test THOROUGH=1` runs all rounds of random programs, on all numbers of ranks."""


def rounds(usual: T, thorough: T) -> T:
    """Return how much of a long test runs: `usual`, or `thorough` if that was asked for."""
    return thorough if THOROUGH else usual


def fresh() -> None:
    """The engine decides as in a new process what to do at once, whatever ran before."""
    module = sys.modules.get("diffuse.stream.engine")
    if module is None:
        return
    engine = module.current()
    if engine.stores.lost:
        gc.collect()  # frames of an earlier test may hold a lost array, beside which groups run alone
    # Tests wait for short chains again and again, and look at what is recorded (but test_soon.py).
    engine.brevity.forget()  # which ends the trial of the beginning, too
    engine.brevity.listener = None
    for template in engine.templates.known.values():
        template.alone = 0  # nothing is done at once because other tests waited for it alone
    walk = engine.walk  # no test goes on with the loops over slices of another
    walk.begun = False
    walk.counts.clear()
    walk.after.clear()
    moving = sys.modules.get("diffuse.numpy.ops.moving")
    if moving is not None:  # nor with those whose views are new every turn
        for ufunc in moving.arithmetic.MOVING:
            moving.UFUNCS[ufunc.__name__].moving = False
        moving.arithmetic.MOVING.clear()
        moving.arithmetic.GRANTS.clear()
        moving._places.clear()


def for_each(names: str, values: Iterable[Any]) -> Callable[[Test], Test]:
    """Run a test with every value, as `pytest.mark.parametrize` does, but as one test.

    `names` are one or several parameters, divided by commas; several take their values from tuples.  All
    cases run, and notes on the exceptions say which have failed; the test is skipped if every case is.  A
    fixture is made once for the whole test.  Several such decorators run every combination.
    """
    words = [word.strip() for word in names.split(",")]
    cases = [tuple(case) if len(words) > 1 else (case,) for case in values]
    assert cases, f"no values for {names}"

    def decorate(test: Test) -> Test:
        signature = inspect.signature(test)
        assert set(words) <= set(signature.parameters), names

        @functools.wraps(test)
        def run(**others: Any) -> None:
            failures: list[BaseException] = []
            skipped: list[BaseException] = []
            for case in cases:
                given = dict(zip(words, case, strict=True))
                fresh()
                try:
                    test(**others, **given)
                except pytest.skip.Exception as reason:
                    skipped.append(reason)
                except (Exception, pytest.fail.Exception, BaseExceptionGroup) as problem:
                    found = problem.exceptions if isinstance(problem, BaseExceptionGroup) else (problem,)
                    for one in found:
                        one.add_note(", ".join(f"{name} = {value!r}" for name, value in given.items()))
                    failures += found
            if len(skipped) == len(cases):
                raise skipped[0]
            if len(failures) == 1:
                raise failures[0]
            if failures:
                raise BaseExceptionGroup(f"{len(failures)} cases of {test.__name__}", failures)

        left = [parameter for name, parameter in signature.parameters.items() if name not in words]
        vars(run)["__signature__"] = signature.replace(parameters=left)
        return run

    return decorate

"""Floating-point errors belong to the filters and error modes under which their operation was called."""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import numpy
import pytest

import diffuse.numpy
from diffuse import settings
from diffuse.numpy.ops import elementwise
from diffuse.stream import engine
from tests.outcomes import warned

pytestmark = pytest.mark.not_device("no floating-point flags are kept")

ours: Any = diffuse.numpy
SQRT, LOG = "invalid value encountered in sqrt", "invalid value encountered in log"


@pytest.fixture(autouse=True)
def recorded() -> Iterator[None]:
    engine.fence()
    with settings.using(small=4):
        yield
        kept.clear()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            engine.fence()


kept: list[Any] = []
"""Results: what nobody holds is not computed, and raises no errors."""


@pytest.fixture
def negative() -> Any:
    return ours.full(64, -1.0)


def said(caught: list[warnings.WarningMessage]) -> list[str]:
    return [str(w.message) for w in caught]


@pytest.fixture
def caught() -> Iterator[list[warnings.WarningMessage]]:
    """What is said inside the test, outside of its own blocks."""
    with warned() as found:
        yield found


def test_what_a_block_computes_is_recorded_in_the_block(negative: Any) -> None:
    with warned() as inside:
        kept.append(ours.sqrt(negative))
    assert said(inside) == [SQRT]


def test_what_came_before_a_block_is_said_outside(negative: Any, caught: Any) -> None:
    kept.append(ours.log(negative))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        engine.fence()
    assert said(caught) == [LOG]


@pytest.mark.parametrize("change", [
    lambda: warnings.simplefilter("ignore"),
    lambda: warnings.filterwarnings("ignore", category=RuntimeWarning),
    lambda: warnings.simplefilter("error"),
    lambda: warnings.resetwarnings(),
], ids=["simplefilter", "filterwarnings", "error", "resetwarnings"])
def test_what_came_before_another_filter_goes_by_the_old_one(change: Any, negative: Any, caught: Any) -> None:
    kept.append(ours.sqrt(negative))
    change()
    engine.fence()
    assert said(caught) == [SQRT]


def test_pytest_sees_the_warnings_of_its_block(negative: Any) -> None:
    with pytest.warns(RuntimeWarning, match=SQRT):
        kept.append(ours.sqrt(negative))


@pytest.mark.parametrize("change", [
    lambda: warnings.simplefilter("error"),
    lambda: warnings.filterwarnings("error", category=RuntimeWarning),
    lambda: warnings.filterwarnings("error", "invalid value"),
])
def test_a_filter_that_raises_raises_at_the_call(change: Any, negative: Any) -> None:
    before = list(warnings.filters)
    with warnings.catch_warnings():
        change()
        with pytest.raises(RuntimeWarning, match=SQRT):
            kept.append(ours.sqrt(negative))
    assert list(warnings.filters) == before
    assert not elementwise.eager_errors


@pytest.mark.parametrize("change", [
    lambda: warnings.simplefilter("error", DeprecationWarning),
    lambda: [warnings.simplefilter(action, category)  # type: ignore[func-returns-value, arg-type]
             for action, category in (("error", Warning), ("ignore", RuntimeWarning))],
    lambda: warnings.simplefilter("always"),
])
def test_filters_that_raise_other_warnings_leave_operations_recorded(change: Any, negative: Any) -> None:
    with warnings.catch_warnings():
        change()
        assert not elementwise.eager_errors


def test_a_filter_that_raises_masks_no_exception(negative: Any) -> None:
    before = list(warnings.filters)
    with pytest.raises(KeyError, match="of the program"), warnings.catch_warnings():
        warnings.filters.insert(0, ("error", None, RuntimeWarning, None, 0))  # type: ignore[attr-defined]
        kept.append(ours.sqrt(negative))
        raise KeyError("of the program")
    assert list(warnings.filters) == before


def test_nothing_waits_where_nothing_is_recorded(negative: Any) -> None:
    engine.fence()
    epoch = engine.current().epoch
    with warnings.catch_warnings(record=True), numpy.errstate(all="ignore"):
        warnings.simplefilter("always")
    assert engine.current().epoch == epoch


ERRSTATES = pytest.mark.parametrize("np", [numpy, ours], ids=["numpy", "diffuse"])


@ERRSTATES
def test_what_is_computed_while_errors_are_ignored_is_never_reported(np: Any, negative: Any, caught: Any
                                                                     ) -> None:
    with np.errstate(all="ignore"):
        kept.append(ours.sqrt(negative))
    kept.append(ours.add(negative, 1))
    engine.fence()
    assert said(caught) == []
    assert numpy.isnan(numpy.asarray(kept[0])).all()


@ERRSTATES
def test_what_was_computed_before_errors_are_ignored_is_reported(np: Any, negative: Any, caught: Any) -> None:
    kept.append(ours.sqrt(negative))
    with np.errstate(all="ignore"):
        kept.append(ours.log(negative))
        engine.fence()
    kept.append(ours.sqrt(negative))
    old = np.seterr(all="ignore")
    engine.fence()
    np.seterr(**old)
    assert said(caught) == [SQRT, SQRT]


@ERRSTATES
def test_a_function_that_ignores_errors(np: Any, negative: Any, caught: Any) -> None:
    @np.errstate(all="ignore")  # type: ignore[untyped-decorator]
    def quiet() -> Any:
        return ours.log(negative)

    kept.append(ours.sqrt(negative))
    kept.append(quiet())
    engine.fence()
    assert said(caught) == [SQRT]


@ERRSTATES
def test_errors_that_raise_and_errors_before_them(np: Any, negative: Any, caught: Any) -> None:
    kept.append(ours.sqrt(negative))
    with pytest.raises(FloatingPointError, match=LOG), np.errstate(all="raise"):
        kept.append(ours.log(negative))
    engine.fence()
    assert said(caught) == [SQRT]


def test_error_modes_within_others(negative: Any, caught: Any) -> None:
    with numpy.errstate(invalid="ignore"):
        kept.append(ours.sqrt(negative))
        with numpy.errstate(invalid="warn"):
            kept.append(ours.log(negative))
            with numpy.errstate(all="ignore"):
                kept.append(ours.arcsin(negative - 1))
        kept.append(ours.sqrt(negative))
    engine.fence()
    assert said(caught) == [LOG]


def test_numpy_functions_that_change_the_modes_for_themselves_wait_for_nothing(negative: Any) -> None:
    matrix = numpy.eye(2)
    kept.append(ours.add(negative, 1))
    held = engine.current().window.held
    numpy.linalg.inv(matrix)
    kept.append(ours.add(negative, 2))
    assert engine.current().window.held == held + 1


def test_errors_raise_at_the_call_in_a_coroutine_that_others_interrupt(negative: Any) -> None:
    raised: list[str] = []

    async def wanting() -> None:
        with ours.errstate(invalid="raise"):
            await asyncio.sleep(0)
            try:
                ours.sqrt(negative)
            except FloatingPointError as error:
                raised.append(str(error))

    async def ignoring() -> None:
        with ours.errstate(all="ignore"):
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    async def together() -> None:
        await asyncio.gather(ignoring(), wanting(), ignoring())

    asyncio.run(together())
    assert raised == [SQRT]
    assert not elementwise.eager_errors


def test_a_thread_that_wants_errors_at_once_leaves_others_alone(negative: Any) -> None:
    begun, done = threading.Event(), threading.Event()

    def other() -> None:
        with numpy.errstate(all="raise"):
            begun.set()
            done.wait()

    thread = threading.Thread(target=other)
    thread.start()
    begun.wait()
    with numpy.errstate(all="ignore"):
        pass
    done.set()
    thread.join()
    with pytest.warns(RuntimeWarning, match=SQRT):
        kept.append(ours.sqrt(negative))


@pytest.mark.parametrize("small", [0, 16384], ids=["recorded", "small"])
def test_each_line_of_the_program_warns_once(small: int, negative: Any) -> None:
    """The filter of a fresh interpreter: what was said at one line is still said at another one."""
    namespace: dict[str, Any] = {}
    with settings.using(small=small), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            kept.append(ours.sqrt(negative))
            engine.fence()
        kept.append(ours.sqrt(negative))
        engine.fence()
        exec(compile("def quotient(a): return a / 0", "elsewhere.py", "exec"), namespace)
        kept.append(namespace["quotient"](negative))
        engine.fence()
    lines = [w.lineno for w in caught]
    assert [w.filename for w in caught] == [__file__, __file__, "elsewhere.py"]
    assert said(caught)[:2] == [SQRT, SQRT] and lines[1] == lines[0] + 2


@pytest.mark.parametrize("small", [0, 16384], ids=["recorded", "small"])
def test_filters_for_a_module_know_the_programs(small: int, negative: Any, caught: Any) -> None:
    with settings.using(small=small), warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=__name__.replace(".", r"\."))
        kept.append(ours.sqrt(negative))
        engine.fence()
    assert said(caught) == []


@pytest.mark.parametrize("action", ["once", "module"])
@pytest.mark.parametrize("small", [0, 16384], ids=["recorded", "small"])
def test_filters_that_warn_once(action: Any, small: int, negative: Any) -> None:
    with settings.using(small=small), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter(action)
        warnings.onceregistry.clear()  # type: ignore[attr-defined]
        for _ in range(2):
            kept.append(ours.log(negative))
            engine.fence()
        kept.append(ours.log(negative))
        engine.fence()
    assert said(caught) == [LOG]


def test_what_numpys_functions_warn_about_is_at_the_programs_line(caught: Any) -> None:
    ours.nanmean(ours.full(4, ours.nan))
    assert [w.filename for w in caught if "Mean of empty slice" in str(w.message)] == [__file__]


def test_a_cast_that_drops_imaginary_parts_warns_at_the_line_of_the_assignment(threshold: None) -> None:
    def assign(target: Any, values: Any) -> int:
        target[1:] = values[1:]
        return assign.__code__.co_firstlineno + 1

    with warned() as caught:
        line = assign(diffuse.numpy.zeros(40), diffuse.numpy.zeros(40, dtype=complex))
    assert [(w.category, w.lineno) for w in caught] == [(numpy.exceptions.ComplexWarning, line)]


def test_cross_products_of_integers_report_no_overflow() -> None:
    first, second = [1, 2, 3], [3, 2, 1]
    expected = numpy.cross(numpy.array(first, "u4"), numpy.array(second, "u4"))
    with settings.using(small=0), warnings.catch_warnings():
        warnings.simplefilter("error")
        unaligned = ours.zeros(13, "u1")[1:].view("u4")
        unaligned[...] = second
        assert ours.cross(ours.array(first, "u4"), unaligned).tolist() == expected.tolist()


IMAGINARY: dict[str, Any] = {
    "number": lambda np: numpy.complex128(1), "sum": lambda np: np.ones(40, complex).sum(),
    "array": lambda np: np.ones((), complex),
}


@pytest.mark.parametrize("value", IMAGINARY.values(), ids=IMAGINARY)
@pytest.mark.parametrize("index", [False, True, [], [1, 1], (None, [2]), numpy.zeros(40, bool),
                                   numpy.ones(40, bool), slice(3), slice(0)], ids=str)
@pytest.mark.parametrize("dtype", ["i4", "f8"])
def test_assignments_that_drop_imaginary_parts_warn_as_often_as_numpys(
        index: Any, value: Any, dtype: str, caught: list[warnings.WarningMessage]) -> None:
    for np in numpy, ours:
        for _ in range(3):
            target = np.zeros(40, dtype)
            target[index] = value(np)
        kept.append(target.sum())
        engine.fence()
        if np is numpy:
            expected, kept[:] = len(caught), []
            caught.clear()
    assert len(caught) == expected


def test_an_index_that_does_not_fit_is_an_error_before_the_cast() -> None:
    for value in 1j, numpy.complex128(1), ours.ones(40, complex).sum():
        with warnings.catch_warnings(), pytest.raises(IndexError):
            warnings.simplefilter("error")
            ours.zeros(40)[[True]] = value


def test_a_copy_that_copies_nothing_does_not_warn_of_its_cast() -> None:
    target = ours.zeros(40)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for nowhere in False, numpy.False_, ours.array(False):
            ours.copyto(target, ours.ones(40, complex), casting="unsafe", where=nowhere)
    assert not target.any()

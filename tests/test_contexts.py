"""Errors of floating-point operations go by NumPy's error modes in the context of the call: those of a
coroutine, of a generator, of a thread, or of a copied context."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import warnings
from collections.abc import Callable, Generator, Iterator
from typing import Any

import numpy
import pytest

import diffuse.numpy
from diffuse import settings
from diffuse.stream import engine
from tests import audit_compare
from tests.each import for_each
from tests.outcomes import warned

pytestmark = pytest.mark.not_device("no floating-point flags are kept")

MODES = ("ignore", "warn", "raise", "call", "print", "log")


class Notes(list[Any]):
    """What a program notices: exceptions, and what its handler is called with."""

    def __call__(self, what: str, flag: int) -> None:
        self.append((what, flag))

    def write(self, text: str) -> None:
        self.append(text)

    def attempt(self, operation: Callable[[], Any]) -> Any:
        try:
            return operation()
        except FloatingPointError as error:
            self.append(str(error))
        return None


Program = Callable[[Any, Any, Notes, str, str], Any]
"""A program: with a library, an array of zeros, and the modes of two contexts; returns what it computed."""


def of_generators(np: Any, zeros: Any, notes: Notes, one: str, other: str) -> Any:
    def within(mode: str) -> Generator[Any, None, None]:
        with np.errstate(divide=mode, call=notes):
            yield notes.attempt(lambda: 1 / zeros)
            yield notes.attempt(lambda: 2 / zeros)

    first, second = within(one), within(other)
    found = [next(first), notes.attempt(lambda: np.sqrt(np.full(40, -1.0)))]
    found += [next(second), notes.attempt(lambda: np.log(zeros))]
    return found, *second, *first, notes.attempt(lambda: 3 / zeros)


def of_coroutines(np: Any, zeros: Any, notes: Notes, one: str, other: str) -> Any:
    async def within(mode: str) -> Any:
        found = []
        for k in range(3):
            with np.errstate(divide=mode, invalid=mode, call=notes):
                found.append(notes.attempt(lambda k=k: (k + 1.0) / zeros))  # type: ignore[misc]
                await asyncio.sleep(0)
                found.append(notes.attempt(lambda: np.sqrt(np.full(40, -1.0))))
            await asyncio.sleep(0)
            found.append(notes.attempt(lambda: np.exp(np.full(40, 1e3))))
        return found

    async def both() -> Any:
        return await asyncio.gather(within(one), within(other))

    return asyncio.run(both())


def of_copies(np: Any, zeros: Any, notes: Notes, one: str, other: str) -> Any:
    copies = []
    for mode in one, other:
        with np.errstate(divide=mode, call=notes):
            copies.append(contextvars.copy_context())
    found = []
    for k in range(2):
        for copy in copies:
            found.append(notes.attempt(lambda: copy.run(lambda: (k + 1.0) / zeros)))  # noqa: B023
        found.append(notes.attempt(lambda: np.log(zeros)))
    return found


def of_inner_copies(np: Any, zeros: Any, notes: Notes, one: str, other: str) -> Any:
    outside = contextvars.copy_context()
    with np.errstate(divide=one, call=notes):
        found = [notes.attempt(lambda: 1 / zeros)]
        found.append(notes.attempt(lambda: outside.run(lambda: 2 / zeros)))
        outside.run(lambda: np.seterr(divide=other))
        outside.run(lambda: np.seterrcall(notes))
        found.append(notes.attempt(lambda: outside.run(lambda: 3 / zeros)))
        found.append(notes.attempt(lambda: np.log(zeros)))
    return found


def of_threads(np: Any, zeros: Any, notes: Notes, one: str, other: str) -> Any:
    found: list[Any] = []
    turns = threading.Semaphore(0), threading.Semaphore(0)

    def within(mode: str, mine: threading.Semaphore, theirs: threading.Semaphore) -> None:
        with np.errstate(divide=mode, call=notes):
            for k in range(2):
                mine.acquire()
                found.append(notes.attempt(lambda: (k + 1.0) / zeros))  # noqa: B023
                theirs.release()

    threads = [threading.Thread(target=within, args=(one, *turns)),
               threading.Thread(target=within, args=(other, *turns[::-1]))]
    for thread in threads:
        thread.start()
    turns[0].release()
    for thread in threads:
        thread.join()
    return found, notes.attempt(lambda: np.log(zeros))


PROGRAMS: list[Program] = [of_generators, of_coroutines, of_copies, of_inner_copies, of_threads]


@pytest.fixture(autouse=True)
def after() -> Iterator[None]:
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        engine.fence()


def noticed(np: Any, program: Program, one: str, other: str) -> tuple[list[tuple[str, str]], list[Any]]:
    """The warnings of a program, whenever they came, and what else it noticed in its order."""
    notes = Notes()
    with warned() as caught:
        kept = contextvars.copy_context().run(program, np, np.zeros(40), notes, one, other)
        engine.fence()
        del kept
    return [(w.category.__name__, str(w.message)) for w in caught], notes


@pytest.mark.parametrize("small", [0, 16384], ids=["recorded", "small"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@for_each("other", MODES)
@for_each("one", MODES)
def test_errors_go_by_the_modes_of_the_call(program: Program, one: str, other: str, small: int,
                                            capfd: pytest.CaptureFixture[str]) -> None:
    with settings.using(small=small):
        expected, noted = noticed(numpy, program, one, other)
        said = sorted(capfd.readouterr().err.splitlines())
        found, notes = noticed(diffuse.numpy, program, one, other)
    assert audit_compare.warned_alike(found, expected), (found, expected)
    assert notes == noted
    assert sorted(capfd.readouterr().err.splitlines()) == said

"""Finds how the functions of NumPy's namespace run, by calling each and observing the dispatch.

A function is first called with NumPy's arrays, until a list of arguments is accepted; candidates follow from
the names of its parameters.  Then Diffuse's function of that name is called with Diffuse's arrays: was a task
recorded, or was NumPy called, and for what reason?
"""

from __future__ import annotations

import contextlib
import inspect
import io
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

import numpy

import diffuse
import diffuse.numpy as ours
from diffuse import settings
from diffuse.library import trace
from diffuse.numpy.arrays.forms import NATIVE
from diffuse.numpy.bridge import fallback, namespace
from diffuse.numpy.ops import single
from diffuse.stream import engine

SIDE = 16
"""Arrays have SIDE * SIDE elements; the threshold of small arrays is lowered for the calls."""

RECORDED, AT_ONCE, NUMPY, GATHERS, OBJECT = "recorded", "at once", "numpy", "gathers", "object"
WAYS = {
    RECORDED: "recorded as tasks, which fuse and run in parallel",
    AT_ONCE: "done by Diffuse without a task: views, descriptions, what is at hand",
    NUMPY: "run when called, by NumPy or as the reason below says, without a warning",
    GATHERS: "run by NumPy: waits for pending work, with a warning for each line",
    OBJECT: "constants, classes, modules and functions that take none of Diffuse's arrays",
}
"""Descriptions of the ways in which a name runs."""

NO_KERNEL = "NumPy's own loops, in order with the rest: no kernel computes it"
UNCALLED = "no arguments were found"
UNTRIED = frozenset(fallback.SILENT[reason] for reason in ("text", "source"))
"""The reasons of functions that write files, or take no array."""


class Verdict(NamedTuple):
    """The way in which one name runs on arrays that are not small."""

    name: str
    way: str
    reason: str = ""
    small: str = ""
    """The way in which it runs on small arrays."""
    types: tuple[str, ...] = ()
    """For a ufunc, the element types for which it is recorded."""


Make = Callable[[Any], Any]
"""Converts an array of elements to an argument."""


class SampleCall(NamedTuple):
    """Arguments that a function may accept, made anew for each call."""

    make: Callable[[Make], tuple[Any, ...]]

    @property
    def arrays(self) -> bool:
        """Do they contain arrays?"""
        seen: list[Any] = []
        self.make(seen.append)
        return bool(seen)


def _floats(*shape: int) -> Any:
    return (numpy.arange(float(SIDE * SIDE)) % 7 + 1.25).reshape(*shape or (-1,))


def _symmetric() -> Any:
    found = _floats(SIDE, SIDE)
    return found + found.T + 200 * numpy.eye(SIDE)


def _positions() -> Any:
    return numpy.arange(SIDE * SIDE) % SIDE


FORMS: dict[str, Callable[[], Any]] = {
    "floats": lambda: _floats(), "square": lambda: _symmetric(),
    "integers": lambda: numpy.arange(SIDE * SIDE) % 2, "booleans": lambda: numpy.arange(SIDE * SIDE) % 3 == 0,
    "bytes": lambda: (numpy.arange(SIDE * SIDE) % 5).astype(numpy.uint8),
    "cube": lambda: _floats(4, 4, SIDE), "triples": lambda: _floats()[:255].reshape(-1, 3),
}
"""Makers of the elements of array arguments."""

INDEX = frozenset("indices ind".split())
LISTS = frozenset("tup arrays seq choicelist choices keys condlist multi_index".split())
MASKS = frozenset("condlist condition mask".split())
RISING = frozenset("bins xp".split())
OTHERS: dict[str, Any] = {
    "shape": (SIDE, SIDE), "newshape": (-1,), "axis": 0, "axis1": 0, "axis2": 1, "source": 0,
    "destination": 1, "stop": 9.0, "num": SIDE * SIDE, "N": SIDE, "M": SIDE, "k": 1, "kth": 5,
    "dtype": numpy.float64, "reps": 2, "repeats": 2, "indices_or_sections": 2, "shift": 3, "pad_width": 2,
    "q": 0.3, "func": numpy.sum, "func1d": numpy.sum, "axes": (0, 1), "n": SIDE, "fill_value": 2.0,
    "values": 1.0, "min": 1.0, "max": 2.0, "a_min": 1.0, "a_max": 2.0, "decimals": 1, "start": 1, "obj": 1,
    "new_order": "C", "order": "C", "deg": 1, "new_shape": (8, 40), "subscripts": "i,i", "dims": (SIDE, SIDE),
    "newdtype": numpy.float32, "object": [1.0] * SIDE * SIDE, "start_or_stop": SIDE * SIDE,
    "dimensions": (SIDE, SIDE), "function": lambda i, j: i + j, "funclist": [0.0, 1.0], "device": "cpu",
    "offset": 0, "size": SIDE, "value": 1.0,
}
"""Other arguments, by the names of parameters."""
GIVEN = frozenset("num a_min a_max min max".split())
"""Optional parameters that a probe passes as well: a call without them (a `clip` without bounds) would do
nothing."""
EITHER = frozenset("values v n size offset".split())
"""Parameters that may be arrays, too."""


def calls(real: Callable[..., Any]) -> Iterator[SampleCall]:
    """Arguments that a function might accept, the most likely first."""
    names, variadic = parameters(real)
    if isinstance(real, numpy.ufunc):
        names, variadic = ["x"] * real.nin, False
    for form in FORMS:
        first = names is not None and "condition" not in names
        if first:
            yield from by_names(names, form)
        if variadic:
            yield from by_number(form)
        if not first:
            yield from by_names(names, form)


def by_number(form: str) -> Iterator[SampleCall]:
    """Arguments for a function that does not name its parameters."""
    def call(*words: str) -> SampleCall:
        def arguments(make: Make) -> tuple[Any, ...]:
            known: dict[str, Callable[[], Any]] = {
                "array": lambda: make(FORMS[form]()), "positions": lambda: make(_positions()),
                "list": lambda: [make(FORMS[form]()), make(FORMS[form]())], "subscripts": lambda: "i,i",
                "number": lambda: 3, "shape": lambda: (-1,)}
            return tuple([known[word]() for word in words])

        return SampleCall(arguments)

    for words in ("array array array", "array array", "array", "list", "subscripts array array",
                  "array positions", "array positions array", "array number", "array shape"):
        yield call(*words.split())


def by_names(names: Sequence[str] | None, form: str) -> Iterator[SampleCall]:
    """Arguments for the parameters with these names, with arrays of one form."""
    def call(plenty: bool) -> SampleCall:
        return SampleCall(lambda make: tuple([argument(name, make, form, plenty) for name in names or ()]))

    if names is not None:
        yield call(False)
        yield call(True)


def parameters(real: Callable[..., Any]) -> tuple[list[str] | None, bool]:
    """The names of the required parameters (None if unknown), and whether there may be more."""
    try:
        found = [*inspect.signature(real).parameters.values()]
    except (ValueError, TypeError):
        return None, True
    if [x.kind for x in found] == [inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD]:
        return None, False  # it does not declare its parameters
    needed = [x.name for x in found if x.kind in (x.POSITIONAL_ONLY, x.POSITIONAL_OR_KEYWORD)
              and (x.default is x.empty or x.name in GIVEN)]
    return needed, any(x.kind is x.VAR_POSITIONAL for x in found) or "condition" in needed


def argument(name: str, make: Callable[[Any], Any], form: str, plenty: bool) -> Any:
    """The argument for a parameter; with `plenty` an array where it might be one."""
    def one() -> Any:
        return make(FORMS["booleans" if name in MASKS else form]())

    if name in LISTS:
        return [one(), one()]
    if name in INDEX:
        return make(_positions())
    if name in RISING:
        return make(numpy.arange(float(SIDE * SIDE)))
    return OTHERS[name] if name in OTHERS and not (plenty and name in EITHER) else one()


def accepted(real: Callable[..., Any], own: bool) -> SampleCall | None:
    """The first arguments with which NumPy's function returns.  Calls without an array are tried only for
    functions that Diffuse implements: others may have any effect."""
    for call in calls(real):
        if call.arrays or own:
            with contextlib.suppress(Exception), quietly():
                real(*call.make(lambda values: values))
                return call
    return None


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Suppress output and warnings."""
    with (warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()),
          numpy.errstate(all="ignore")):
        warnings.simplefilter("ignore")
        yield


def pending(values: Any) -> Any:
    """A Diffuse array with these elements that is not computed yet, because short operations on computed
    arrays may run at once."""
    found = ours.array(values)
    return found ^ ours.zeros(found.shape, bool) if found.dtype == bool else found * found.dtype.type(1)


def forget() -> None:
    """Reset the heuristics that run a call at once because earlier calls from its line were waited for."""
    fallback.forget_warnings()
    single.places.clear()
    for template in engine.current().templates.known.values():
        template.alone = 0
    engine.current().brevity.forget()


def observed(function: Callable[..., Any], call: SampleCall) -> tuple[str, str]:
    """The way that a call takes, and the reason if NumPy computes it."""
    asked: list[str | None] = []

    def told(_: str, reason: str | None, elements: int) -> None:
        asked.append(reason or (None if elements else "test"))

    forget()
    try:
        with quietly():  # changing filters and error modes waits for pending tasks
            arguments = call.make(pending)
            fallback.listener = told
            begun = trace.counters["recorded"]
            function(*arguments)
            recorded = trace.counters["recorded"] > begun
    finally:
        fallback.listener = None
    diffuse.fence()
    if None in asked:
        return GATHERS, ""
    if recorded:
        return RECORDED, ""
    if asked:
        return NUMPY, fallback.SILENT[str(asked[0])]
    return (NUMPY, NO_KERNEL) if isinstance(function, numpy.ufunc) else (AT_ONCE, "")


def _times(values: Any, n: int, make: Make) -> tuple[Any, ...]:
    return tuple([make(values) for _ in range(n)])


def recorded_types(function: Any) -> tuple[str, ...]:
    """The element types for which a ufunc is recorded."""
    found = []
    for dtype in NATIVE:
        ones = numpy.ones(SIDE * SIDE, dtype)
        call = SampleCall(partial(_times, ones, function.nin))
        with contextlib.suppress(TypeError, ValueError):
            if observed(function, call)[0] == RECORDED:
                found.append(dtype.name)
    return tuple(found)


def by_table(path: str, function: Any, own: bool) -> tuple[str, str]:
    """The way that the dispatch tables give for a function for which no arguments were found."""
    reason = namespace.SILENT.get(path) or namespace.SILENT_MODULES.get(path.rpartition(".")[0])
    if reason:
        return NUMPY, fallback.SILENT[reason]
    if isinstance(function, numpy.ufunc):
        return NUMPY, NO_KERNEL
    return (AT_ONCE, UNCALLED) if own else (OBJECT, UNCALLED)


def probe(path: str, real: Any, function: Any, own: bool, types: bool) -> Verdict:
    """Find how one name runs."""
    if not callable(real) or isinstance(real, (type, ModuleType)):
        return Verdict(path, OBJECT)
    table = by_table(path, function, own)
    call = accepted(real, own) if own or table[1] not in UNTRIED else None
    if call is None:
        return Verdict(path, *table)
    try:
        with settings.using(small=SIDE * SIDE // 2):
            way, why = observed(function, call)
            known = recorded_types(function) if types and isinstance(function, numpy.ufunc) else ()
        small, _ = observed(function, call)
    except Exception as error:  # a fault of the function or of Diffuse, which has to be reported
        return Verdict(path, table[0], f"raised {type(error).__name__}: {error}")
    return Verdict(path, way, why, small, known)


def namespaces() -> Iterator[tuple[str, Any, Any, Sequence[str]]]:
    """The parts of NumPy to examine: a path, NumPy's object, Diffuse's, and the public names."""
    parts = [(f"numpy.{name}", getattr(numpy, name), getattr(ours, name))
             for name in ("linalg", "fft", "random")]
    for path, real, module in (("numpy", numpy, ours), *parts):
        yield path, real, module, [name for name in namespace.public(real) if not name.startswith("__")]
    methods = [name for name, kind in vars(numpy.ndarray).items()
               if callable(kind) and not name.startswith("_")]
    yield "numpy.ndarray", numpy.ndarray, ours.ndarray, methods
    yield "numpy.maximum", numpy.maximum, ours.maximum, ["accumulate", "at", "outer", "reduce", "reduceat"]


def owns(path: str, name: str, function: Any) -> bool:
    """Does Diffuse have a function of its own for a name?"""
    if path == "numpy":
        return namespace.native(name) is not None
    return path != "numpy.random" and getattr(function, "__wrapped__", None) is not None and not hasattr(
        function, "fallback")


def findings(names: Sequence[str] = (), types: bool = False) -> list[Verdict]:
    """How public names of NumPy run, in this process: all, or these (`numpy.sort`, `numpy.ndarray.sort`).

    With `types` for ufuncs also which element types are recorded.  Raises KeyError for an unknown name.
    """
    known = {f"{path}.{name}": (path, name, real, module) for path, real, module, public in namespaces()
             for name in sorted(public)}
    engine.current().brevity.listener = None  # values are read after every call
    found = []
    with settings.using(compile="off", fallback="silent", window=64):
        for whole in names or known:
            path, name, real, module = known[whole]
            function = getattr(module, name)
            found.append(probe(whole, getattr(real, name), function, owns(path, name, function), types))
    return found

"""`numpy.random`: NumPy's generators, with the same numbers for the same seed, returning Diffuse arrays."""

from __future__ import annotations

import ctypes as _ctypes
from collections.abc import Callable
from functools import update_wrapper as _update_wrapper
from inspect import signature as _signature
from typing import Any

import numpy as _numpy
import numpy.random as _real
from numpy.random import _generator as _compiled
from numpy.random import _pickle

from diffuse import library as _library
from diffuse.library import Span as _Span
from diffuse.numpy.arrays import core as _core
from diffuse.numpy.arrays.core import Array as _Array
from diffuse.numpy.arrays.lending import owned as _owned
from diffuse.numpy.arrays.lending import root as _root
from diffuse.numpy.bridge import fallback as _fallback
from diffuse.numpy.bridge import jumping as _jumping
from diffuse.numpy.bridge.namespace import STAND_INS as _STAND_INS
from diffuse.numpy.bridge.namespace import fill as _fill
from diffuse.numpy.ops.lowering import OPTIONS as _OPTIONS
from diffuse.numpy.ops.native_gates import DRAWING as _DRAWING
from diffuse.numpy.ops.operands import lowered as _lowered
from diffuse.numpy.ops.operands import shared as _shared
from diffuse.numpy.ops.operands import wrap as _wrap
from diffuse.numpy.small import native as _native
from diffuse.settings import config as _config

_DRAWN = {"standard_normal": 1, "normal": 1, "standard_exponential": 2, "exponential": 2, "random": 3,
          "uniform": 3, "integers": 4}
"""Methods whose numbers the extension draws itself, with the kind of these (small/gate.h)."""
_KEPT = ("spawn", "get_state", "set_state")
"""Methods that return generators or states, not arrays for the program to compute with."""


_IN_PARTS: Any = ()
"""Functions whose arrays may be distributed, if there may be several ranks."""
if _config.runtime in ("mpi", "legate"):
    from diffuse.numpy.bridge.ranks import draws as _draws

    _IN_PARTS = _draws.NAMES


def _call(function: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call NumPy's function on Diffuse arrays; a list that it shuffles stays the program's own, whatever it
    contains."""
    if name == "shuffle" and not isinstance(args[0] if args else kwargs.get("x"), _Array):
        return function(*args, **kwargs)
    return _fallback.call(function, args, kwargs, f"numpy.random.{name}", "source")


class _Kind(type):
    """The class of our generators: NumPy's own, which pickles and libraries hold, are instances, too."""

    def __instancecheck__(cls, value: Any) -> bool:
        return super().__instancecheck__(value) or isinstance(value, vars(cls).get("_real", ()))


def _plain(values: Any) -> bool:
    """Are these arguments of types that NumPy accepts unconverted, such as numbers, names and shapes?"""
    for value in values:
        kind = type(value)
        if kind not in _OPTIONS and not (kind is tuple and _plain(value)):
            return False
    return True


def _method(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    ours = _whole(name, function)
    return ours if name not in _IN_PARTS else _on_ranks(name, function, ours)


def _on_ranks(name: str, function: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
    """A method for several ranks: first tries to draw the array in parts."""
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        found = _draws.in_parts(function, name, self._plain, args, kwargs)
        return ours(self, *args, **kwargs) if found is None else found[0]

    return _update_wrapper(run, function)


def _whole(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    threaded = name in _jumping.FEWEST

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        if _plain(args) and (not kwargs or _plain(kwargs.values())):
            found = _jumping.drawn(function, name, self._plain, args, kwargs) if threaded else None
            return _drawn(function(self._plain, *args, **kwargs)) if found is None else _wrap(found)
        return _call(function.__get__(self._plain), name, args, kwargs)

    _update_wrapper(run, function)
    if _native is None:
        return run
    gate: Any = _gate(_native.Gate, function, run)
    if threaded:
        gate.sized, gate.most = _jumping.SIZES[name] + 1, _jumping.FEWEST[name]
        gate.draws = _DRAWN.get(name, 0) if function is getattr(_real.Generator, name, None) else 0
    found: Callable[..., Any] = gate
    return found


def _gate(kind: Any, function: Callable[..., Any], run: Callable[..., Any]) -> Any:
    """A gate of the extension: NumPy's function if it accepts all arguments unconverted, and else `run`."""
    return _update_wrapper(kind(function, run, _DRAWING, 0, _drawn), run)


def _one(choice: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `RandomState.choice`, which gives a number where no size is asked for: NumPy's code takes it out
    of the array that it draws, if that is NumPy's."""
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        found: Any = choice(self, *args, **kwargs)
        size = args[1] if len(args) > 1 else kwargs.get("size")
        one = size is None and isinstance(found, _Array) and not found.form.ndim
        return _lowered(found).item() if one else found

    return _update_wrapper(run, choice)


def _drawn(found: Any) -> Any:
    """Convert what NumPy drew for the program."""
    if type(found) is not _numpy.ndarray or found.size < _core.TINY:
        return found
    return _wrap(found) if _owned(found) or type(_root(found)) is _Span else _shared(found)


def _subclass(real: type, **members: Any) -> Any:
    found = _Kind(real.__name__, (real,), {"__module__": __name__, "__doc__": real.__doc__, "_real": real,
                                           "__signature__": _signature(real), **members})
    _STAND_INS[real] = found
    return found


def _generator(real: Any, restored: Callable[..., Any]) -> Any:
    """A subclass of one of NumPy's generators whose methods accept and return Diffuse arrays."""
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        real.__init__(self, *[x if x is None else _lowered(x) for x in args], **kwargs)
        # NumPy's methods call each other and expect NumPy's arrays; all of a Generator's state is in its
        # bit generator, while a RandomState has some of its own
        self._plain = real(self.bit_generator) if real is _real.Generator else self

    def reduce(self: Any) -> Any:
        return restored, *real.__reduce__(self)[1:]

    methods = {name: _method(name, getattr(real, name)) for name in dir(real)
               if not name.startswith("_") and name not in _KEPT and callable(getattr(real, name))}
    if real is _real.RandomState:
        methods["choice"] = _one(methods["choice"])
    return _subclass(real, __init__=init, __reduce__=reduce, **methods)


def _seeded(real: Any) -> Any:
    """A subclass of NumPy's class whose seed may be a Diffuse array."""
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        real.__init__(self, *map(_lowered, args), **{key: _lowered(v) for key, v in kwargs.items()})

    return _subclass(real, __init__=init)


def _stored_generator(*args: Any) -> Any:
    """Make a generator from a pickle, of this or an older version."""
    return Generator(getattr(_pickle, "__generator_ctor")(*args).bit_generator)


def _stored_state(*args: Any) -> Any:
    """Make a RandomState from a pickle, of this or an older version."""
    return RandomState(getattr(_pickle, "__randomstate_ctor")(*args)._bit_generator)


def _connect_reals() -> None:
    """Give the extension the functions by which NumPy's generators draw numbers with a normal, an exponential
    and an even distribution, if NumPy exports them, as its documentation says."""
    try:
        library = _ctypes.CDLL(_compiled.__file__)
        found = [getattr(library, f"random_standard_{name}") for name in ("normal", "exponential", "uniform")]
    except (AttributeError, OSError):
        return
    _native.connect_reals(*[_ctypes.cast(one, _ctypes.c_void_p).value for one in found], _real.Generator)


def _together(draw: Callable[[], None]) -> None:
    """Call a function in all threads that compute, at the same time."""
    from diffuse.numpy.order import team

    one = _library.current().runtime.ranks > 1
    team.together([draw] * (1 if one else team.threads()))


def _room(count: int, kind: str) -> Any:
    """An array of so many arbitrary numbers, in memory that the runtime has kept."""
    from diffuse.numpy.order import memory

    return memory.empty(count, kind)


def _agree() -> bool:
    """Does the extension draw the integers that NumPy draws, and leave NumPy's state?"""
    for high in (3, 1000, 3 << 30):
        ours, plain = _real.default_rng(high), _real.default_rng(high)
        found = _native.integers(ours, 0, high, 1001)
        if found is None or found.tobytes() != plain.integers(0, high, 1001).tobytes():
            return False
        if ours.bit_generator.state != plain.bit_generator.state:
            return False
    return True


if _native is not None:
    _connect_reals()
    _native.connect_integers(_real.PCG64, _agree, _together, _room)
Generator: Any = _generator(_real.Generator, _stored_generator)
RandomState: Any = _generator(_real.RandomState, _stored_state)
SeedSequence: Any = _seeded(_real.SeedSequence)
MT19937, PCG64, PCG64DXSM, Philox, SFC64 = map(_seeded, (
    _real.MT19937, _real.PCG64, _real.PCG64DXSM, _real.Philox, _real.SFC64))


def default_rng(seed: Any = None) -> Any:
    """NumPy's `default_rng`; the arrays that the generator makes are Diffuse's."""
    if isinstance(type(seed), _Kind) and isinstance(seed, _real.Generator):
        return seed
    seed = seed if seed is None or type(seed) is int else _lowered(seed)
    made = _real.default_rng(seed)
    found = Generator.__new__(Generator)
    _real.Generator.__init__(found, made.bit_generator)
    found._plain = made
    return found


def _numpys(given: Any) -> Any:
    """Replace a Generator, for code that draws NumPy's arrays from it, by NumPy's with the same state."""
    return given._plain if type(given) is Generator else given


_fallback.LOWERED[_Kind] = _numpys


def shuffle(*args: Any, **kwargs: Any) -> None:
    _call(_real.shuffle, "shuffle", args, kwargs)


_fallback.dressed(shuffle, _real.shuffle, __name__)


_fill(globals(), _real)

_converted: Callable[[str], Any] = globals()["__getattr__"]


def _static_on_ranks(name: str, real: Any, ours: Any) -> Any:
    """Wrap a function that draws from NumPy's global generator, as `_on_ranks` wraps a method of one."""
    def run(*args: Any, **kwargs: Any) -> Any:
        function = getattr(_real.RandomState, name)
        found = _draws.in_parts(function, name, real.__self__, args, kwargs)
        return ours(*args, **kwargs) if found is None else found[0]

    return _update_wrapper(run, real)


def _gated(name: str, ours: Any) -> Any:
    """Put a gate in front of a function that draws from NumPy's global generator; others stay as they are."""
    real = getattr(_real, name)
    if _native is None or name in _KEPT or getattr(real, "__self__", None) is not _real.mtrand._rand:
        return ours
    if name in _IN_PARTS:
        found = _static_on_ranks(name, real, ours)
    else:
        found = _gate(_native.StaticGate, real, ours)
        found.told = real.__self__
    globals()[name] = found
    return found


def __getattr__(name: str) -> Any:
    return _gated(name, _converted(name))


_gated("shuffle", shuffle)

"""Floating-point flags of finished kernels, reported as NumPy reports them: a warning at the user's line.

NumPy asks for the flags after every operation.  A fused task asks once, so that a flag has one culprit only
where a single operation of the task could have raised it; else the warning names every candidate.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from typing import Any, NamedTuple

from diffuse.ir import IndexTask, Where

DIVIDE, OVERFLOW, UNDERFLOW, INVALID = 1, 2, 4, 8
"""Floating-point exceptions, with the bits that `numpy.seterrcall` uses."""


class Kind(NamedTuple):
    """One IEEE flag: NumPy's name of its mode, its words, and who can raise it: on floats, on integers."""

    mode: str
    words: str
    operations: frozenset[str]
    integer: frozenset[str] = frozenset()


_DIVIDES = frozenset("divide floor_divide remainder fmod reciprocal power log log2 log10 log1p arctanh "
                     "logaddexp logaddexp2".split())
_INVALID = _DIVIDES | frozenset("sqrt sin cos tan arcsin arccos arccosh add subtract multiply copy sum dot "
                                "prod exp square absolute hypot cumsum cumprod ldexp sinh cosh tanh expm1 "
                                "exp2 reduceat".split())
_OVERFLOWS = frozenset("multiply add subtract divide exp exp2 expm1 sinh cosh power square copy sum dot prod "
                       "tan logaddexp logaddexp2 nextafter reciprocal cumsum cumprod ldexp hypot absolute "
                       "reduceat".split())

KINDS = {
    DIVIDE: Kind("divide", "divide by zero", _DIVIDES,
                 frozenset(("floor_divide", "remainder", "fmod", "reciprocal"))),
    UNDERFLOW: Kind("under", "underflow", _OVERFLOWS),
    OVERFLOW: Kind("over", "overflow", _OVERFLOWS, frozenset(("floor_divide",))),
    INVALID: Kind("invalid", "invalid value", _INVALID, frozenset(("reciprocal",))),
}

FLOATS = ("float", "complex")

WORDS = {"copy": "cast", "cumsum": "accumulate", "cumprod": "accumulate"} | dict.fromkeys(
    ("sum", "prod", "min", "max"), "reduce")
"""What NumPy calls operations of ours in its warnings."""

_registries: dict[str, dict[Any, Any]] = {}
"""What was said already, per file without a module, in the form that Python's warning filters keep it."""


def suspects(tasks: Iterable[IndexTask]) -> dict[int, tuple[tuple[str, Where], ...]]:
    """For each flag, the operations of a fused task that could have raised it."""
    found = {}
    listed = [("power" if t.operation.startswith("power") else t.operation.partition(":")[0], t.where,
               any(dtype.startswith(FLOATS) for dtype in t.signature))
              for t in tasks if t.operation != "copy" or len(set(t.signature)) > 1]
    for bit, kind in KINDS.items():
        found[bit] = tuple(dict.fromkeys((name, where) for name, where, float_ in listed
                                         if name in (kind.operations if float_ else kind.integer)))
    return found


def geterr() -> dict[str, Any]:
    """NumPy's error modes of now."""
    import numpy

    return {**numpy.geterr()}


def report(flags: int, candidates: Iterable[dict[int, tuple[tuple[str, Where], ...]]],
           modes: dict[str, Any]) -> None:
    """Warn about each flag that is set, as NumPy's error modes say."""
    blamed = list(candidates)
    for bit, kind in KINDS.items():
        if not flags & bit or modes[kind.mode] == "ignore":
            continue
        who = list(dict.fromkeys(pair for table in blamed for pair in table[bit]))
        if not who:
            continue
        names = list(dict.fromkeys(WORDS.get(name, name) for name, _ in who))
        text = f"{kind.words} encountered in {' or '.join(names)}"
        if len(who) > 1:
            text += " (one of the operations at " + ", ".join(dict.fromkeys(str(w) for _, w in who)) + ")"
        warn(text, RuntimeWarning, who[0][1])


def warn(message: Warning | str, category: type[Warning], where: Where) -> None:
    """Warn as if the program's line had done it: filters and `__warningregistry__` of its module count."""
    for name, module in list(sys.modules.items()):
        if getattr(module, "__dict__", {}).get("__file__") == where.file:  # some import when asked for a name
            registry = vars(module).setdefault("__warningregistry__", {})
            warnings.warn_explicit(message, category, where.file, where.line, name, registry)
            return
    warnings.warn_explicit(message, category, where.file, where.line,
                           registry=_registries.setdefault(where.file, {}))

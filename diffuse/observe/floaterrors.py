"""Floating-point flags of finished kernels, reported as NumPy reports them: a warning at the user's line.

NumPy asks for the flags after every operation.  A fused task asks once, so that a flag has one culprit only
where a single operation of the task could have raised it; else the warning names every candidate.
"""

from __future__ import annotations

import platform
import sys
import warnings
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from types import ModuleType
from typing import Any, NamedTuple

from diffuse.ir import ITEMSIZE, IndexTask, Privilege, Where

DIVIDE, OVERFLOW, UNDERFLOW, INVALID = 1, 2, 4, 8
"""Floating-point exceptions, with the bits that `numpy.seterrcall` uses."""

STATUS = ({INVALID: 1, DIVIDE: 4, OVERFLOW: 8, UNDERFLOW: 16}
          if platform.machine() in ("x86_64", "AMD64", "i686") else
          {INVALID: 1, DIVIDE: 2, OVERFLOW: 4, UNDERFLOW: 8})
"""The bit of each in this processor's floating-point status, as C's <fenv.h> reads it."""


class FloatError(NamedTuple):
    """One IEEE flag: NumPy's name of its mode, and NumPy's words for it."""

    mode: str
    words: str


KINDS = {
    DIVIDE: FloatError("divide", "divide by zero"),
    UNDERFLOW: FloatError("under", "underflow"),
    OVERFLOW: FloatError("over", "overflow"),
    INVALID: FloatError("invalid", "invalid value"),
}

Suspects = dict[int, tuple[tuple[str, Where], ...]]
"""For each flag, the operations that could have raised it: their names in NumPy's warnings, and their
lines."""

_registries: dict[str, dict[Any, Any]] = {}
"""Warnings given so far, for files without a module, in the form that Python's warning filters use."""


def raised(status: int) -> int:
    """The exceptions set in a floating-point status."""
    return sum(flag for flag, bit in STATUS.items() if status & bit)


def suspects(tasks: Iterable[IndexTask], errors: Callable[[str, tuple[str, ...]], tuple[str, int]]
             ) -> Suspects:
    """For each flag, the operations of a fused task that could have raised it.

    `errors` returns the name and the flags of an operation on these element types; conversions to and from
    the types of its stores may raise others.
    """
    listed = [(*errors(t.operation, t.signature), _converting(t), t.where) for t in tasks]
    return {bit: tuple(dict.fromkeys((name, where) for name, flags, more, where in listed
                                     if (flags | more) & bit))
            for bit in KINDS}


def _converting(task: IndexTask) -> int:
    """The flags that a task may raise where it converts what it reads and writes."""
    given = {scalar.position for scalar in task.scalars}
    types = [name for k, name in enumerate(task.signature) if k not in given]
    flags = 0
    for access, computed in zip(task.accesses, types, strict=False):
        stored = access.store.dtype
        if stored != computed:
            reads = access.privilege is Privilege.READ
            flags |= _conversion(stored, computed) if reads else _conversion(computed, stored)
    return flags


def _conversion(source: str, target: str) -> int:
    """The flags that a conversion between two element types may raise."""
    if target[0] in "iu":
        return INVALID if source[0] in "fc" else 0
    if target[0] not in "fc" or source == "bool":
        return 0
    if source[0] in "iu":
        return OVERFLOW if target == "float16" and ITEMSIZE[source] > 1 else 0
    parts = [ITEMSIZE[name] // (2 if name[0] == "c" else 1) for name in (source, target)]
    return OVERFLOW | UNDERFLOW if parts[1] < parts[0] else 0


AT_ONCE = frozenset(("raise", "call", "print", "log"))
"""Error modes under which errors have to show at the call."""


def modes_variable() -> ContextVar[Any]:
    """The context variable in which NumPy keeps its error modes: another value of it is another setting."""
    from numpy._core import umath

    found: ContextVar[Any] = vars(umath)["_extobj_contextvar"]
    return found


def geterr() -> dict[str, Any]:
    """NumPy's current error modes."""
    import numpy

    return {**numpy.geterr()}


def report(flags: int, candidates: Iterable[Suspects], modes: dict[str, Any]) -> None:
    """Warn about each flag that is set, or do what else NumPy's error modes say."""
    blamed = list(candidates)
    for bit, kind in KINDS.items():
        if not flags & bit or modes[kind.mode] == "ignore":
            continue
        who = list(dict.fromkeys(pair for table in blamed for pair in table[bit]))
        if not who:
            continue
        names = list(dict.fromkeys(name for name, _ in who))
        text = f"{kind.words} encountered in {' or '.join(names)}"
        if len(who) > 1:
            text += " (one of the operations at " + ", ".join(dict.fromkeys(str(w) for _, w in who)) + ")"
        if modes[kind.mode] == "warn":
            warn(text, RuntimeWarning, who[0][1])
        else:
            _show(modes[kind.mode], kind, text, flags)


def _show(mode: str, kind: FloatError, text: str, flags: int) -> None:
    """Show an error as NumPy does under one of the modes `AT_ONCE`, in the context of the call."""
    import numpy

    if mode == "raise":
        raise FloatingPointError(text)
    if mode == "print":
        print(f"Warning: {text}", file=sys.stderr)
        return
    handler: Any = numpy.geterrcall()
    if handler is None:
        raise NameError(f"python callback specified for {kind.words} (in {text.rpartition(' ')[2]}) but no "
                        "function found.")
    if mode == "call":
        handler(kind.words, flags)
    else:
        handler.write(f"Warning: {text}\n")


_namespace = vars(ModuleType)["__dict__"].__get__
"""The namespace of a module as it is."""


def warn(message: Warning | str, category: type[Warning], where: Where) -> None:
    """Warn as if the program's line had done it: filters and `__warningregistry__` of its module count."""
    for name, module in list(sys.modules.items()):
        if not isinstance(module, ModuleType):
            continue
        names = _namespace(module)  # some modules import when asked for a name, others for all of them
        if names.get("__file__") == where.file:
            registry = names.setdefault("__warningregistry__", {})
            warnings.warn_explicit(message, category, where.file, where.line, name, registry)
            return
    warnings.warn_explicit(message, category, where.file, where.line,
                           registry=_registries.setdefault(where.file, {}))

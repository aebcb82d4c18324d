"""Diffuse: unmodified NumPy programs, recorded as index tasks, fused, compiled and run.

::

     array code      IndexTask       window         prefix          plan            kernel         point tasks
     ──────────> ir ──────────> engine ──────> fusion ──────> temporaries ──────> kernels ──────> runtime
                                   │                              ▲
                                   └── canonical ──> memo ────────┘  seen before: replay

`import diffuse.numpy as np` in place of `import numpy as np`, or `diffuse run program.py` with the program as
it is.  This module is the public face: `config` (every setting), `explain` (what fused and what did not),
`flush` (forward what is pending), `fence` (and wait for it), `to_numpy` (NumPy's arrays for code that needs
these), `vectorize` (compile a function of your own), `grad` and `value_and_grad` (gradients of a function),
`schedule` (name the grid of ranks by hand), `plan` and `jit` (let a search choose the grids).
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if "OPENBLAS_THREAD_TIMEOUT" not in os.environ:
    # OpenBLAS's threads poll for 2**26 ticks of the processor's clock after each call, some 26 ms in which
    # the runtime's threads have fewer processors; 2**20 still bridge the gap between two products of a loop.
    # Not by os.environ, from which programs pass variables on.
    os.putenv("OPENBLAS_THREAD_TIMEOUT", "20")

if TYPE_CHECKING:
    from diffuse.gradients.backward import grad, value_and_grad
    from diffuse.numpy.ops.vectorize import vectorize
    from diffuse.observe.explanation import Explanation
    from diffuse.planning.regions import jit, plan
    from diffuse.settings import config
    from diffuse.stream.schedule import schedule

__version__ = "0.1.0"
__all__ = ["config", "explain", "fence", "flush", "grad", "jit", "plan", "schedule", "to_numpy",
           "value_and_grad", "vectorize"]
LIBRARIES = "numpy", "scipy"
"""The array libraries, which `import diffuse` alone does not import."""


def flush() -> None:
    """Forward every recorded operation to the runtime, without waiting for it."""
    from diffuse.stream import engine

    engine.flush()


def fence() -> None:
    """Forward every recorded operation and wait until all of them are done."""
    from diffuse.stream import engine

    engine.fence()


def __getattr__(name: str) -> Any:
    # Importing a part of Diffuse runs this file first: what needs NumPy or LLVM is imported on demand.
    if name == "config":
        from diffuse.settings import config

        return config
    if name == "vectorize":
        import diffuse.numpy  # noqa: F401 (gives arrays their class)
        from diffuse.numpy.ops.vectorize import vectorize

        return vectorize
    if name == "schedule":
        from diffuse.stream.schedule import schedule

        return schedule
    if name in ("jit", "plan"):
        from diffuse.planning import regions

        return getattr(regions, name)
    if name in ("grad", "value_and_grad"):
        from diffuse import gradients

        return getattr(gradients, name)
    if name in LIBRARIES:
        try:
            return import_module(f"diffuse.{name}")
        except ModuleNotFoundError as error:  # without SciPy
            raise AttributeError(str(error)) from error
    raise AttributeError(f"module 'diffuse' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *LIBRARIES})


def to_numpy(x: Any, *, copy: bool = False) -> Any:
    """NumPy's array for an array of Diffuse's, for code that takes no other.

    The result is a `numpy.ndarray` with the shape, strides, type and WRITEABLE flag of `x`, over the same
    memory: each sees what the other writes.  What is pending on `x` is computed first.  As long as somebody
    holds the result or a view of it, operations on `x` and its views run one at a time and are not fused;
    with `copy=True` the result has memory of its own, and `x` stays as it was.

    Lists, tuples and dicts, also those inside of others, come back as new ones of their type with such arrays
    in place of Diffuse's, or as themselves if there are none.  0-d results become NumPy's scalars, sparse
    arrays of `diffuse.scipy` copies of SciPy's classes.  Everything else comes back as it is, NumPy's arrays
    too (with `copy=True`, as copies); numbers become no arrays: `numpy.asarray` makes those.

    Under Legate the memory of an array that another of its libraries holds cannot be shared: its result is a
    copy that is read-only.  Raises TypeError if `copy` is not True or False.
    """
    from diffuse.numpy.bridge import plain

    return plain.to_numpy(x, copy)


def explain(*given: Any) -> Explanation:
    """Explain what was fused so far: each plan with its tasks, the reason why it ended there, and how often
    it ran; then the counters.  The result prints as text (docs/programs.md says how to read it).

    Raises TypeError for an argument: it is about all that the program recorded.
    """
    if given:
        raise TypeError(f"explain: {given[0]!r} is given, but it takes nothing and explains all that was "
                        "recorded so far; run the operations first, then print(diffuse.explain())")
    from diffuse.observe.explanation import explanation
    from diffuse.stream import engine

    return explanation(engine.current().plans)

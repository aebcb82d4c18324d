"""Diffuse: unmodified NumPy programs, recorded as index tasks, fused, compiled and run.

::

     array code      IndexTask       window         prefix          plan            kernel         point tasks
     ──────────> ir ──────────> engine ──────> fusion ──────> temporaries ──────> kernels ──────> runtime
                                   │                              ▲
                                   └── canonical ──> memo ────────┘  seen before: replay

`import diffuse.numpy as np` in place of `import numpy as np`, or `diffuse run program.py` with the program as
it is.  This module is the public face: `config` (every setting), `explain` (what fused and what did not),
`flush` (forward what is pending), `fence` (and wait for it) and `vectorize` (compile a function of your own).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from diffuse.numpy.ops.vectorize import vectorize
    from diffuse.observe.explanation import Explanation
    from diffuse.settings import config

__version__ = "0.1.0"
__all__ = ["config", "explain", "fence", "flush", "vectorize"]


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
    raise AttributeError(f"module 'diffuse' has no attribute {name!r}")


def explain() -> Explanation:
    """What became of the program: each plan with its tasks, why it ended there, and how often it ran."""
    from diffuse.observe.explanation import explanation
    from diffuse.stream import engine

    return explanation(engine.current().plans)

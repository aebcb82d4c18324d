"""The C extension for small arrays, and for calls that were recorded before.

It implements in C what `arrays/` and `ops/gates.py` do for small arrays, and what `ops/known.py` and the
engine's `again` do to record a call again.  `small.h` has what all files share; `module.c` connects them.

    array, hand, elements, slices, operators      arrays/core.py, access.py, elements.py and arithmetic.py
    gate, arguments, permission, ways, results    ops/gates.py: a call goes to NumPy, or is done otherwise
    record, roll, constants, place, stream        ops/known.py, observe/provenance.py and stream/engine.py
    sketch                                        stream/sketch.py: the rows of tasks at ever new views
    live                                          stream/liveness.py: which stores of a group are live
    soon, moving, products, folds, draws, team    what is done at once on larger arrays: arrays/soon.py, ops/
    shares, parted, direct                        on the runtime's threads: loops of ufuncs, machine code
    stacks, tridiagonal                           many small matrices, or one with many right-hand sides
    loops, reductions, copies, parts, views,      shorter ways to what NumPy computes, with its results
    looks, temporaries
    numbers, protocol, taught                     NumPy's own numbers and arrays beside Diffuse's
    memory, lock, collector, capsule              the memory of NumPy's arrays; the engine's lock; garbage;
                                                  DLPack

Installing the package builds it where there is a C compiler (setup.py); without it the Python code runs, with
the same behaviour.  `DIFFUSE_COMPILED=0` takes the Python code; so does a change of a C source in a checkout,
until the package is installed anew.
"""

from __future__ import annotations

import os
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES
from typing import Any

from diffuse.settings import config

FOLDER = os.path.dirname(__file__)
SOURCES = sorted(name for name in os.listdir(FOLDER) if name.endswith((".c", ".h")))


def extension() -> str | None:
    """The compiled file for this interpreter, if there is one."""
    stem = os.path.join(FOLDER, "_small")
    return next((stem + suffix for suffix in EXTENSION_SUFFIXES if os.path.exists(stem + suffix)), None)


def stale(compiled: str) -> bool:
    """Was a source changed since the file was compiled?  Never, where there is no checkout."""
    if not os.path.exists(os.path.join(FOLDER, "..", "..", "..", "pyproject.toml")):
        return False
    made = os.path.getmtime(compiled)
    return any(os.path.getmtime(os.path.join(FOLDER, name)) > made for name in SOURCES)


def state() -> str:
    """Describe which code runs."""
    if not config.compiled:
        return "not used: DIFFUSE_COMPILED=0"
    compiled = extension()
    if compiled is None:
        return "not compiled: pip install -e . compiles it where there is a C compiler"
    return "changed since it was compiled: pip install -e . compiles it" if stale(compiled) else "used"


native: Any = import_module("diffuse.numpy.small._small") if state() == "used" else None
"""The extension, or None where Python's code runs."""

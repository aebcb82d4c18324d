"""Modules of the hot path that are compiled where a C compiler is at hand, and are Python where it is not.

Installing the package compiles them with Cython (setup.py): the sources are Python, and a file `.pxd` beside
one gives C types.  Both mean the same.  `DIFFUSE_COMPILED=0` takes the Python sources; so does a change of a
source in a checkout, until the package is installed anew.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from importlib.util import spec_from_file_location

from diffuse.settings import config

FOLDER = os.path.dirname(__file__)
MODULES = ("diffuse.numpy.arrays.core", "diffuse.numpy.ops.elementwise", "diffuse.numpy.ops.gates",
           "diffuse.numpy.ops.ufuncs")


def source(module: str) -> str:
    """The Python source of a module."""
    return os.path.join(FOLDER, *module.split(".")[1:]) + ".py"


def extension(module: str) -> str | None:
    """The compiled file of a module, if there is one for this interpreter."""
    stem = source(module).removesuffix(".py")
    return next((stem + suffix for suffix in EXTENSION_SUFFIXES if os.path.exists(stem + suffix)), None)


def current(module: str) -> bool:
    """Is there a compiled file that was made of the source as it is?  What is installed is."""
    compiled, stem = extension(module), source(module).removesuffix(".py")
    if compiled is None or not os.path.exists(os.path.join(FOLDER, "..", "pyproject.toml")):
        return compiled is not None
    sources = [path for path in (stem + ".py", stem + ".pxd") if os.path.exists(path)]
    return os.path.getmtime(compiled) >= max(map(os.path.getmtime, sources))


def state() -> str:
    """Which modules run compiled, in words."""
    if not config.compiled:
        return "not used: DIFFUSE_COMPILED=0"
    missing = [module for module in MODULES if not current(module)]
    if not missing:
        return "used"
    stale = any(extension(module) is not None for module in missing)
    return ("changed since they were compiled: pip install -e . compiles them" if stale else
            "not compiled: no C compiler was there when the package was installed")


class Sources:
    """Finds the Python source of a module whose compiled file is not to be taken."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name not in MODULES or config.compiled and current(name):
            return None
        return spec_from_file_location(name, source(name))


def install() -> None:
    """Let imports of the modules of the hot path follow the setting."""
    if Sources not in sys.meta_path:
        sys.meta_path.insert(0, Sources)

"""Compiles the modules of the hot path where there is a C compiler; without one the package is Python."""

import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

sys.path.insert(0, str(Path(__file__).parent))

from diffuse.compiled import MODULES  # noqa: E402 (found by the line before)

extensions = [Extension(name, [name.replace(".", "/") + ".py"], optional=True) for name in MODULES]

setup(ext_modules=cythonize(extensions, compiler_directives={"annotation_typing": False, "language_level": 3},
                            build_dir="build", quiet=True))

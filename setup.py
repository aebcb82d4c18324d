"""Builds the extension for small arrays where there is a C compiler; without one the package is Python."""

import numpy
from setuptools import Extension, setup

FOLDER = "diffuse/numpy/small"
SOURCES = ("array", "elements", "gate", "hand", "lock", "module", "moving", "numbers", "operators", "place",
           "record", "slices", "soon", "stream")

setup(ext_modules=[Extension(
    "diffuse.numpy.small._small", [f"{FOLDER}/{name}.c" for name in SOURCES],
    depends=[f"{FOLDER}/small.h", f"{FOLDER}/operators.h"], include_dirs=[numpy.get_include()],
    extra_compile_args=["-O2"], optional=True)])

"""Builds the extension for small arrays where there is a C compiler; without one the package is Python."""

from glob import glob

import numpy
from setuptools import Extension, setup

FOLDER = "diffuse/numpy/small"

setup(ext_modules=[Extension(
    "diffuse.numpy.small._small", sorted(glob(f"{FOLDER}/*.c")),
    depends=sorted(glob(f"{FOLDER}/*.h")), include_dirs=[numpy.get_include()],
    extra_compile_args=["-O2", "-fvisibility=hidden"], optional=True)])

"""Builds the extension for small arrays where there is a C compiler; without one the package is Python."""

from glob import glob

import numpy
from setuptools import Extension, setup

FOLDER = "diffuse/numpy/small"

setup(ext_modules=[Extension(
    "diffuse.numpy.small._small", sorted(glob(f"{FOLDER}/*.c")),
    depends=sorted(glob(f"{FOLDER}/*.h")), include_dirs=[numpy.get_include()],
    # calls of Python's and NumPy's functions through the linkage table cost each view some 20 ns more
    extra_compile_args=["-O2", "-fvisibility=hidden", "-fno-plt"], optional=True)])

"""Builds the extension for small arrays where there is a C compiler; without one the package is Python."""

import os
from concurrent.futures import ThreadPoolExecutor
from glob import glob
from typing import Any

import numpy
from setuptools import Extension, setup
from setuptools.command import build_ext as usual

FOLDER = "diffuse/numpy/small"


class build_ext(usual.build_ext):
    """Compiles the extension's files at the same time, on all processors."""

    def build_extensions(self) -> None:
        one_by_one = self.compiler.compile

        def compile(sources: list[str], *words: Any, **options: Any) -> list[str]:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                found = pool.map(lambda source: one_by_one([source], *words, **options), sources)
                return [file for files in found for file in files]

        self.compiler.compile = compile
        super().build_extensions()


setup(cmdclass={"build_ext": build_ext}, ext_modules=[Extension(
    "diffuse.numpy.small._small", sorted(glob(f"{FOLDER}/*.c")),
    depends=sorted(glob(f"{FOLDER}/*.h")), include_dirs=[numpy.get_include()],
    # calls of Python's and NumPy's functions through the linkage table cost each view some 20 ns more
    extra_compile_args=["-O2", "-fvisibility=hidden", "-fno-plt"], optional=True)])

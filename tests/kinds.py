"""What kind of array a test was given."""

from __future__ import annotations

from typing import Any

import numpy

from diffuse.numpy.arrays import core


def is_ours(value: Any) -> bool:
    """Is it an array as a program gets them: Diffuse's, or NumPy's of few elements (or a view of one)?"""
    return type(value) is core.array_class or (
        type(value) is numpy.ndarray and (value.size < core.TINY or value.base is not None))

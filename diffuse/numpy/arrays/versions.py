"""What differs between the versions of NumPy that Diffuse supports, as the installed one has it."""

from __future__ import annotations

import numpy
from numpy.lib import NumpyVersion

_INSTALLED = NumpyVersion(numpy.__version__)

MASKED = "" if _INSTALLED < "2.4.0" else (
    f"'where' used without 'out', expect {'un' if _INSTALLED < '2.5.0' else 'unin'}itialized memory in "
    "output. If this is intentional, use out=None.")
"""The warning of a ufunc's `where` without an `out`; empty where NumPy gives none."""
CHECKS_PARTS = _INSTALLED >= "2.5.0"
"""Does NumPy refuse numbers that the type of a real or imaginary part cannot hold?"""

"""`numpy.fft` on Diffuse arrays: whole-array transforms, run by NumPy's pocketfft."""

from __future__ import annotations

import numpy.fft as _real

from diffuse.numpy.bridge.namespace import fill as _fill

_fill(globals(), _real)

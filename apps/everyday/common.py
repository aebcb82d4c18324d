"""What the programs share: a size named on the command line, checks, digits to compare, a clock."""

import sys
import time

# NumPy would load these at their first use, which is no work of the program
import numpy.fft  # noqa: F401
import numpy.random  # noqa: F401

_started = time.perf_counter()


def chosen(**sizes):
    """The size that the command line names (small if none); the program's work begins here."""
    global _started
    name = sys.argv[1] if len(sys.argv) > 1 else "small"
    if name not in sizes:
        sys.exit(f"size {name!r}: expected one of {', '.join(sizes)}")
    _started = time.perf_counter()
    return sizes[name]


def check(holds, said):
    """End the program with an error unless the result has the property it must have."""
    if not holds:
        raise AssertionError("check failed: " + said)


def show(name, value, within):
    """Print a result, and the relative difference that another correct run may have; 0 means none."""
    print(f"{name} {float(value):.12g} within {within:g}")


def finish():
    """Print the time of the work, without that of starting Python and of imports."""
    print(f"{time.perf_counter() - _started:.6f} seconds")

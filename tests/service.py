"""Programs of their own that compile, for the tests of the compile server."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
CONSTANTS = itertools.count(1000.0)
"""Each makes a body that nobody has compiled."""

PROGRAM = """
import gc, os, signal, sys, time, warnings
from diffuse import settings
from diffuse.service import client as client_module
from diffuse.service.client import client

def patch(text):
    "Have the compile server run this before it begins."
    boot = client_module.BOOT
    lines = "".join("    " + line + chr(10) for line in text.splitlines())
    client_module.BOOT = boot.replace("    server.main()", lines + "    server.main()")
    assert boot != client_module.BOOT

warned = []
warnings.showwarning = lambda message, *_, **__: warned.append(str(message))
warnings.simplefilter("always")

def results(lengths):
    "Run a kernel of so many additions for each of these lengths; which of all kernels are native?"
    import numpy
    import diffuse.numpy as np
    from diffuse.kernels.build.compiler import compiler
    x = np.arange(40000.0)
    for length in lengths:
        y = x
        for _ in range(length):
            y = y + x
        numpy.testing.assert_array_equal(numpy.array(y), numpy.arange(40000.0) * (length + 1))
    compiler.wait()
    return {kernel.body: kernel.native is not None for kernel in list(compiler._all)}

def signal_server(number):
    "Send the compile server a signal.  As process 0 would get it all processes of the tests."
    assert client.process > 0, "the compile server does not run"
    os.kill(client.process, number)
"""


def run(program: str, folder: Path | str, **environment: str) -> str:
    """What a program of its own prints; it says nothing else, and ends well."""
    done = subprocess.run([sys.executable, "-c", PROGRAM + textwrap.dedent(program)], capture_output=True,
                          text=True, timeout=300, cwd=ROOT,
                          env={**os.environ, "DIFFUSE_SMALL": "0", "DIFFUSE_MIN_CHUNK": "1000",
                               "DIFFUSE_NUM_THREADS": "2", "DIFFUSE_COMPILE": "wait",
                               "DIFFUSE_CACHE_DIR": str(folder), **environment})
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout


def gone(process: int) -> bool:
    """Does a process end, with all of its threads?"""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        try:
            with open(f"/proc/{process}/stat") as stat:
                state = stat.read().rpartition(")")[2].split()
                if state[0] in "ZX" and int(state[17]) <= 1:
                    return True
        except (FileNotFoundError, ProcessLookupError):  # the latter if it ends between open and read
            return True
        time.sleep(0.01)
    return False

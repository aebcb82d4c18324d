"""Interrupts at any moment: no lock stays held, no array is lost, and LLVM never hears of them."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parent.parent


def run(program: str, folder: Path, **environment: str) -> str:
    """What a program of its own prints."""
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True,
                          timeout=240, cwd=ROOT,
                          env={**os.environ, "DIFFUSE_SMALL": "0", "DIFFUSE_MIN_CHUNK": "1000",
                               "DIFFUSE_NUM_THREADS": "2", "DIFFUSE_CACHE_DIR": str(folder), **environment})
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout


def test_one_thread_calls_llvm(tmp_path: Path) -> None:
    """Compiling, loading, freeing, a kernel that fails, a fork, and the program's end."""
    program = """
        import gc, os, threading, warnings
        from llvmlite.binding import ffi

        class Watched(ffi._lib_fn_wrapper):
            __slots__ = ()
            def __call__(self, *args):
                callers.add(threading.get_ident())
                if threading.get_ident() == threading.main_thread().ident:
                    os.write(2, b"called by the main thread\\n")
                return super().__call__(*args)

        callers = set()
        ffi._lib_fn_wrapper = Watched
        for function in ffi.lib._fntab.values():
            function.__class__ = Watched
        import numpy
        import diffuse.numpy as np
        from diffuse import engine, settings, worker
        from diffuse.kernels import abi, jit
        from diffuse.kernels.compiler import compiler

        def compute(k):
            a = np.arange(20000.0) + k
            b = a.copy()
            b[1:-1] = a[2:] * 0.5 + a[:-2]
            assert float(np.sqrt(a).sum()) == float(np.sqrt(a + 0).sum())
            return numpy.array(b * 2 - np.cumsum(a))

        first = compute(1)
        engine.fence()
        with settings.using(small=16384):
            np.exp(np.arange(10.0))
        bodies = list(compiler.kernels)
        assert len(jit.assembly(bodies[0])) > 100
        compiler.forget()
        engine.current().window.forget()
        gc.collect()
        natives = [jit.compile(body) for body in bodies]
        del natives
        gc.collect()
        plain = next(body for body in bodies if not abi.finishes(body))
        try:
            worker.call(jit._link, jit.object_code(plain), True)
        except RuntimeError as error:
            assert "lacks" in str(error)
            gc.collect()
        numpy.testing.assert_array_equal(compute(1), first)
        child = os.fork()
        if not child:
            numpy.testing.assert_array_equal(compute(1), first)
            compute(2)[::2].sum()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        a = np.arange(20000.0)
        pending = (a * a - 1) / (a + 2) * (a - 3)
        engine.flush()
        assert len(callers) == 1, callers
        """
    for compile in ("wait", "background"):
        run(program, tmp_path, DIFFUSE_COMPILE=compile)

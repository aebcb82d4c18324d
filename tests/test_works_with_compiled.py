"""Compiled code that asks for NumPy's arrays, and processes (the table of docs/libraries.md)."""

from __future__ import annotations

import ctypes
import ctypes.util
import multiprocessing
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy
import pytest

import diffuse
import diffuse.numpy as np
from diffuse import settings
from diffuse.numpy.arrays import core
from tests.kinds import is_ours


@pytest.fixture(params=[500, 100_000])
def x(request: pytest.FixtureRequest) -> Any:
    """A small array, and one whose last operation is still to be done."""
    return np.arange(float(request.param)) * 2


# -- Numba -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def jitted() -> Any:
    """Functions that Numba compiles: by need, and for types that were given."""
    numba = pytest.importorskip("numba")

    def same(a: Any) -> Any:
        return a

    def add(a: Any, b: Any) -> Any:
        for i in range(a.shape[0]):
            a[i] += b
        return a.sum()

    def total(a: Any) -> Any:
        return a.sum()

    return SimpleNamespace(same=numba.njit(same), add=numba.njit(add), total=numba.njit("f8(f8[:])")(total))


def test_numba(x: Any, jitted: Any) -> None:
    before = float(x.sum())
    assert jitted.add(x, 1.0) == before + x.size and x[1] == 3
    x *= 2
    assert x[1] == 6 and jitted.total(x) == float(x.sum()) and jitted.total(x[::2]) == float(x[::2].sum())
    found = jitted.same(x)
    assert type(found) is numpy.ndarray
    found[0] = 99
    assert x[0] == 99
    assert jitted.add(numpy.ones(3), x.max() - x.max()) == 3    # a 0-d result is a number
    assert len(jitted.add.signatures) == 1                       # the code for NumPy's arrays
    assert jitted.same((x, 1))[0] is not None


def test_numba_sees_layout_and_flags(x: Any, jitted: Any) -> None:
    import numba

    for part in (x, x[::2], x.reshape(2, -1), x.reshape(2, -1).T, x.astype(np.int16), x > 1, x + 1j):
        assert numba.typeof(part) == numba.typeof(diffuse.to_numpy(part))
        assert numpy.array_equal(jitted.same(part), numpy.asarray(part))
    x.flags.writeable = False
    assert numba.typeof(x) == numba.typeof(diffuse.to_numpy(x))
    with pytest.raises(numba.TypingError, match="readonly"):
        jitted.add(x, 1.0)


def test_numbas_errors_are_the_callers(x: Any, jitted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TypeError, match="No matching definition"):
        jitted.total(x.astype(np.float32))

    def fails(self: Any, *_: Any, **__: Any) -> Any:
        raise MemoryError("nothing is left")

    jitted.total(x)
    monkeypatch.setattr(core.array_class, "__array__", fails)
    with pytest.raises(MemoryError, match="nothing is left"):
        jitted.total(x)


def test_numbas_vectorized_functions(x: Any) -> None:
    numba = pytest.importorskip("numba")

    doubled = numba.vectorize(lambda a: a * 2)
    with settings.using(fallback="silent"):  # as for any function that NumPy calls
        found = doubled(x)
    assert is_ours(found) and found[3] == 12


def test_numba_that_was_there_first_and_keeps_code_on_disk(tmp_path: Path) -> None:
    """What a run without Diffuse left in Numba's cache does not know these arrays, and is not taken."""
    pytest.importorskip("numba")
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent("""
        import sys
        import numba
        import numpy
        if sys.argv[1] == "diffuse":
            import diffuse.numpy as numpy
        @numba.njit(cache=True)
        def total(a):
            return a[0] + a[1]
        print(total(numpy.ones(500)), sum(total.stats.cache_hits.values()))
        """))
    for word, hits in (("numpy", 0), ("diffuse", 0)):
        found = subprocess.run([sys.executable, str(path), word], capture_output=True, text=True, timeout=300)
        assert found.stdout == f"2.0 {hits}\n", found.stderr


# -- others -------------------------------------------------------------------------------------------------


def test_torch(x: Any) -> None:
    torch = pytest.importorskip("torch")
    shared = torch.from_numpy(x)
    shared[1] = -1
    assert x[1] == -1
    x[2] = -2
    assert shared[2] == -2 and shared.sum() == float(x.sum())
    assert torch.as_tensor(x).sum() == torch.tensor(x).sum() == torch.from_dlpack(x).sum() == float(x.sum())
    assert float((np.asarray(torch.ones(x.size)) * x).sum()) == float(x.sum())
    with pytest.raises(TypeError, match="expected np.ndarray"):
        torch.from_numpy([1.0])


def test_ctypeslib(x: Any) -> None:
    libc = ctypes.CDLL(ctypes.util.find_library("c"))
    libc.memset.argtypes = [np.ctypeslib.ndpointer(np.float64, ndim=1, flags="C_CONTIGUOUS"), ctypes.c_int,
                            ctypes.c_size_t]
    libc.memset.restype = None
    x += 1
    libc.memset(x, 0, 16)
    assert x[0] == x[1] == 0 and x[2] == 5
    with pytest.raises(ctypes.ArgumentError, match="C_CONTIGUOUS"):
        libc.memset(x[::2], 0, 16)
    with pytest.raises(ctypes.ArgumentError, match="array must have data type"):
        libc.memset(x.astype(np.int32), 0, 16)
    np.ctypeslib.as_ctypes(x)[2] = 7.0
    assert x[2] == 7
    address = x.ctypes.data_as(ctypes.POINTER(ctypes.c_double))
    assert address[2] == 7


def test_cffi(x: Any) -> None:
    FFI = pytest.importorskip("cffi").FFI
    ffi = FFI()
    memory = ffi.from_buffer("double[]", diffuse.to_numpy(x))
    memory[1] = 9
    assert x[1] == 9 and len(memory) == x.size


CYTHON = """
cimport numpy as cnp
cnp.import_array()

def strict(cnp.ndarray[double, ndim=1] a):
    a[0] = 5
    return a.sum()

def view(double[:] a):
    a[1] = 6
    return a[1]
"""

PROGRAM = """
import numpy as np
import coded
x = np.arange(100000.0) * 2
print(coded.strict(x) == float(x.sum()), coded.view(x), float(x[0]), float(x[1]))
"""


def test_cython(tmp_path: Path) -> None:
    """Arguments that are declared as `ndarray`: through `to_numpy`, or with `--real`."""
    pytest.importorskip("Cython")
    (tmp_path / "coded.pyx").write_text(CYTHON)
    code = ("from Cython.Build import cythonize; import numpy; from setuptools import Extension, setup; "
            "setup(script_args=['-q', 'build_ext', '--inplace'], ext_modules=cythonize(Extension('coded', "
            "['coded.pyx'], include_dirs=[numpy.get_include()], extra_compile_args=['-O0', '-w']), "
            "quiet=True))")
    built = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    if built.returncode:
        pytest.skip(f"Cython's code cannot be built here: {built.stderr[-200:]}")
    (tmp_path / "program.py").write_text(PROGRAM)
    plain_run = [sys.executable, "-m", "diffuse", "run"]
    refused = subprocess.run([*plain_run, "program.py"], cwd=tmp_path, capture_output=True, text=True)
    assert "expected numpy.ndarray" in refused.stderr
    found = subprocess.run([*plain_run, "--real", "coded", "program.py"], cwd=tmp_path, capture_output=True,
                           text=True)
    assert found.stdout == "True 6.0 5.0 6.0\n", found.stderr


def twice(a: Any) -> Any:
    return a * 2


def test_joblib(x: Any, tmp_path: Path) -> None:
    joblib = pytest.importorskip("joblib")
    for backend in ("loky", "threading"):
        found = joblib.Parallel(n_jobs=2, backend=backend)(joblib.delayed(twice)(x + k) for k in range(3))
        assert [float(each[1]) for each in found] == [4, 6, 8]
    memory = joblib.Memory(tmp_path, verbose=0)
    kept = memory.cache(twice)
    assert numpy.array_equal(numpy.asarray(kept(x)), numpy.asarray(kept(x)))
    assert kept.check_call_in_cache(x)
    joblib.dump({"x": x}, tmp_path / "a.joblib")
    assert numpy.array_equal(numpy.asarray(joblib.load(tmp_path / "a.joblib")["x"]), numpy.asarray(x))


def test_multiprocessing(x: Any) -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found, = pool.map(twice, [x])
    assert is_ours(found) and float(found[3]) == 12

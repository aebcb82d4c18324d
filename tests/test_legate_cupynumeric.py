"""Stores that Diffuse shares with other libraries of Legate's: each sees what the other wrote.

The first half needs Legate only, the second cuPyNumeric.  Programs run in processes of their own: with one
processor of Legate, with two, and on two ranks.
"""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from tests.jobs import job, needs_legate

pytestmark = needs_legate

MODES: dict[str, dict[str, Any]] = {"alone": {"DIFFUSE_NUM_THREADS": "2"},
         "two": {"LEGATE_CONFIG": "--cpus 2 --gpus 0 --sysmem 1000", "DIFFUSE_NUM_THREADS": "1"},
         "interpreted": {"DIFFUSE_COMPILE": "off"}}
CUPYNUMERIC = "no cuPyNumeric: pip install 'diffuse[cupynumeric]'"
try:
    version("nvidia-cupynumeric")
except PackageNotFoundError:
    needs_cupynumeric = pytest.mark.skip(reason=CUPYNUMERIC)
else:
    needs_cupynumeric = pytest.mark.skipif(False, reason=CUPYNUMERIC)

START = """
import gc
import diffuse
import diffuse.numpy as np
from diffuse.numpy.arrays.forms import numpy    # NumPy's own, under `diffuse run` too

def same(a, b):
    found, expected = numpy.asarray(a), numpy.asarray(b)
    assert found.shape == expected.shape and found.dtype == expected.dtype, (found.dtype, found.shape)
    assert numpy.array_equal(found, expected), (found, expected)

def raised(kind, function):
    try:
        function()
    except kind as error:
        return str(error)
    raise AssertionError(f"{kind.__name__} expected")

N = 160
grid = numpy.arange(N * N * 1.0).reshape(N, N)
machine = diffuse.stream.engine.current().runtime.placement.legate
import legate.core as core
from legate.core import types
"""
WITH_CUPYNUMERIC = """
import cupynumeric as cn
"""


def child(text: str, mode: str = "alone", **variables: Any) -> None:
    """Run program text; it says nothing on stderr and ends well."""
    done = job(sys.executable, "-c", START + text + "\nprint('done')\n",
               DIFFUSE_RUNTIME="legate", DIFFUSE_LEGATE_MEMORY="1G", DIFFUSE_FALLBACK="silent",
               **(MODES[mode] | variables))
    assert done.returncode == 0 and done.stdout.endswith("done\n"), done.tail


def ranks(folder: Path, text: str, **variables: Any) -> None:
    """The same on two ranks."""
    program = folder / "program.py"
    program.write_text(START + text + "\nprint('done')\n")
    done = job(sys.executable, "-m", "diffuse", "run", "--ranks", "2", "--cpus", "1", str(program),
               DIFFUSE_LEGATE_MEMORY="1G", DIFFUSE_FALLBACK="silent", **variables)
    assert done.returncode == 0 and done.stdout.endswith("done\n"), done.tail


STORES = """
def made(values):
    store = machine.create_store(types.float64, values.shape)
    given = machine.create_store_from_buffer(types.float64, values.shape, values.copy(), True)
    machine.issue_copy(store, given)
    return store

def seen(store):
    return numpy.array(store.get_physical_store())
"""


@pytest.mark.parametrize("mode", MODES)
def test_a_store_of_legates_is_an_array(mode: str) -> None:
    child(STORES + """
store = made(grid)
x = np.asarray(store)
assert x.shape == (N, N) and x.dtype == float
same(x * 2 + 1, grid * 2 + 1)
x += 1
expected = grid + 1
assert np.array_equal(seen(store), expected)
x[3, 4] = -7.0
expected[3, 4] = -7.0
assert numpy.array_equal(seen(store), expected)
x[[5, 6]] = 2.0                     # by the host, from here on
expected[[5, 6]] = 2.0
assert numpy.array_equal(seen(store), expected)
np.put(x, [1, 2], [10, 20])
numpy.put(expected, [1, 2], [10, 20])
assert numpy.array_equal(seen(store), expected)
x.sort(axis=0)
expected.sort(axis=0)
assert numpy.array_equal(seen(store), expected)
for k in range(40):                 # piece by piece
    x[k, 5] = k
    expected[k, 5] = k
assert numpy.array_equal(seen(store), expected)
x.flat = expected[::-1].copy()
expected = expected[::-1].copy()
assert numpy.array_equal(seen(store), expected)
store.fill(4.0)                     # by somebody else
same(x, numpy.full((N, N), 4.0))
assert float(x[7, 7]) == 4.0 and float(x.sum()) == 4.0 * N * N
y = np.array(store)                 # a copy
store.fill(5.0)
same(y + x, numpy.full((N, N), 9.0))
np.matmul(x, y, out=x)
assert numpy.array_equal(seen(store), numpy.full((N, N), 20.0 * N))
with np.errstate(all="raise"):
    x -= 1
assert numpy.array_equal(seen(store), numpy.full((N, N), 20.0 * N - 1))
""", mode)


@pytest.mark.parametrize("mode", MODES)
def test_parts_of_a_store_and_stores_that_overlap(mode: str) -> None:
    child(STORES + """
store, expected = made(grid), grid.copy()
x, turned = np.asarray(store), np.asarray(store.transpose((1, 0)))
assert np.asarray(store).storage is x.storage and turned.storage is not x.storage
assert np.asarray(store[1:, 2:]).storage is np.asarray(store[1:, 2:]).storage
same(turned + 1, expected.T + 1)     # elements that are not side by side where a kernel wants them so
same(turned.reshape(-1) + 1, expected.T.reshape(-1) + 1)
turned *= 2
expected *= 2
same(x, expected)
x[:] = turned
expected[:] = expected.T.copy()
same(x, expected)
x += turned
expected += expected.T.copy()
assert numpy.array_equal(seen(store), expected)
low, high = np.asarray(store[:N - 1]), np.asarray(store[1:])
high[:] = low
expected[1:] = expected[:-1].copy()
same(x, expected)
low -= high * 3
expected[:-1] -= expected[1:] * 3
same(x, expected)
part = np.asarray(store[2:50, 3:60])
row, column = np.asarray(store.project(0, 5)), np.asarray(store.project(1, 7))
same(part.ravel() * 2, expected[2:50, 3:60].ravel() * 2)
same(part.sum(axis=0), expected[2:50, 3:60].sum(axis=0))
same(np.sqrt(abs(row)) + column, numpy.sqrt(abs(expected[5])) + expected[:, 7])
column += row
expected[:, 7] += expected[5].copy()
same(x, expected)
np.divmod(abs(row), 7.0, out=(row, column))
expected[5], quotient = numpy.divmod(abs(expected[5]), 7.0)
expected[:, 7] = quotient
same(x, expected)
wide = np.asarray(store.project(0, 5).promote(0, N))
same(wide + x, expected[5] + expected)
""", mode)


@pytest.mark.parametrize("mode", MODES)
def test_an_array_is_a_store_of_legates(mode: str) -> None:
    child(STORES + """
def store_of(x):
    (array,) = x.__legate_data_interface__["data"].values()
    return array.data

x = np.array(grid) * 2 + 1           # nothing of it is computed yet
assert diffuse.stream.engine.current().window.held
store, expected = store_of(x), grid * 2 + 1
assert numpy.array_equal(seen(store), expected)
x += 1
expected += 1
assert numpy.array_equal(seen(store), expected), "computed before the call returns"
assert np.asarray(store).storage is x.storage and store_of(x).equal_storage(store)
store_of(x[1:, 2:]).fill(3.0)
expected[1:, 2:] = 3
store_of(x[0]).fill(5.0)
expected[0] = 5
store_of(x.T[:, 9]).fill(6.0)
expected[9] = 6
same(x, expected)
same(seen(store_of(x.T)), expected.T)
same(seen(store_of(x[None, 4:9])), expected[None, 4:9])
same(seen(store_of(np.broadcast_to(x[3], (N, N)))), numpy.broadcast_to(expected[3], (N, N)))
for part in (lambda a: a[::2], lambda a: a[:, ::-1], lambda a: a.reshape(-1), lambda a: (a * 1j).imag,
             lambda a: a.diagonal()):
    copied = store_of(part(x))
    same(seen(copied), part(expected))
    copied.fill(0)
    same(x, expected)
for dtype in ("bool", "int8", "uint64", "float16", "float32", "complex64", "complex128"):
    y = np.array(grid).astype(dtype)
    same(np.asarray(store_of(y)), grid.astype(dtype))
    same(seen(store_of(y)), grid.astype(dtype))
z = np.full((N, N), 7.5)[2, 2, ...]
store_of(z).fill(8.5)
same(z + 1, numpy.float64(9.5))
small = np.zeros(200)
store_of(small).fill(2.0)
small[3] = 4
same(seen(store_of(small)), numpy.asarray(small))
assert small.sum() == 402 and float(small[3]) == 4
fortran = np.asarray(np.array(grid), order="F")
same(seen(store_of(fortran)), grid)
fresh = np.empty((N, N))
assert store_of(fresh).extents == (N, N) and float(fresh.sum()) == 0, "never written: Legate must not abort"
lost = np.array(grid) + 1
diffuse.flush()
diffuse.stream.engine.current().stores.lost[lost.storage.store.id] = MemoryError("no room")
raised(MemoryError, lambda: lost.__legate_data_interface__)
""", mode)


def test_what_cannot_be_shared() -> None:
    child(STORES + """
x = np.array(grid) + 0
held = numpy.asarray(x)
assert "x.copy()" in raised(BufferError, lambda: x.__legate_data_interface__)
del held
x.__legate_data_interface__
shown = numpy.asarray(x)             # a copy, now that others write to the store
raised(ValueError, lambda: shown.fill(0))
raised(ValueError, lambda: x.flat.__setitem__(0, 1.0))
assert not hasattr(np.zeros((0, 3)), "__legate_data_interface__")
assert not hasattr(np.zeros((1,) * 7), "__legate_data_interface__")
scalar = machine.create_store_from_scalar(core.Scalar(2.5, types.float64))
same(np.asarray(scalar), numpy.asarray([2.5]) if len(scalar.extents) else numpy.asarray(2.5))
nothing = np.asarray(machine.create_store(types.float64, (0, 4)))
assert nothing.shape == (0, 4)
nullable = machine.create_array(types.float64, (4,), nullable=True)
raised(TypeError, lambda: np.asarray(nullable))
store = made(grid)
same(np.asarray(core.LogicalArray.from_store(store)), grid)
same(np.add(store, store), grid * 2)
same(np.concatenate([np.asarray(store), x]), numpy.concatenate([grid, grid]))
y = np.asarray(store)
diffuse.config.runtime = "local"     # from here on a copy
y += 1
same(y, grid + 1)
assert not hasattr(y, "__legate_data_interface__")
""")


def test_other_runtimes_have_no_stores_of_legates() -> None:
    assert np.array_equal(np.ones(3), numpy.ones(3))
    assert not hasattr(np.ones(100_000) + 1, "__legate_data_interface__")


@pytest.mark.parametrize("mode", ["alone", "two"])
def test_either_side_may_let_go_first(mode: str) -> None:
    child(STORES + """
import resource
used = lambda: diffuse.stream.engine.current().runtime.placement._reuse.bytes_used
def cycle(k):
    x = np.array(grid) + k
    (array,) = x.__legate_data_interface__["data"].values()
    store = array.data
    del array
    if k % 2:
        x = None                     # the store outlives the array
        store.fill(k)
        same(np.asarray(store) + 1, numpy.full((N, N), k + 1.0))
    else:
        store = None
        x += 1
        same(x, grid + k + 1)
    theirs = made(grid)
    y = np.asarray(theirs)
    y += k
    if k % 3:
        theirs = None                # the array outlives the other's handle
        same(y, grid + k)
    else:
        y = None
        assert numpy.array_equal(seen(theirs), grid + k)
for k in range(20):
    cycle(k)
diffuse.fence(); before = used()
most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for k in range(300):
    cycle(k)
    if not k % 50:
        diffuse.fence()
diffuse.fence()
np.zeros(N * N) + 1
diffuse.fence()
assert used() <= before + 8 * N * N, (used(), before)
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - most
assert grown < 60 << 10, grown       # KiB; 300 cycles of four arrays would be 240 MB
assert not [s for s in diffuse.stream.engine.current().stores.instances.values() if s.shared]
""", mode)


# -- cuPyNumeric -------------------------------------------------------------------------------------------

BOTH = WITH_CUPYNUMERIC + """
x, expected = np.array(grid) * 2, grid * 2
c = cn.asarray(x)
c += 1
x *= 3
c[2] = 7
expected = (expected + 1) * 3
expected[2] = 7
same(x, expected); same(c, expected)
cn.asarray(x[1:, 2:])[:, 0] = 4
expected[1:, 2] = 4
same(x, expected)
d, other = cn.ones((N, N)), numpy.ones((N, N))
y = np.asarray(d)
assert y.storage is np.asarray(d).storage and np.asarray(c).storage is x.storage
y += x
d *= 2
other = (other + expected) * 2
same(y, other); same(d, other)
y[1:] = np.asarray(d[:-1])
other[1:] = other[:-1].copy()
same(d, other)
same(np.asarray(d.T) + 1, other.T + 1)
small = cn.arange(5.0)
z = np.asarray(small)
z[2] = 9; small[0] = 4; z += 1
same(small, numpy.array([5.0, 2, 10, 4, 5]))
same(x + d, expected + other); same(np.add(d, x), expected + other); same(np.sqrt(d), numpy.sqrt(other))
same(d + x, expected + other)
assert isinstance(x + d, np.ndarray) and isinstance(d + x, cn.ndarray)
assert abs(float(np.asarray(d.sum())) / other.sum() - 1) < 1e-12 and np.asarray(d.sum()).shape == ()
same(np.where(d > 3, x, d), numpy.where(other > 3, expected, other))
raised(ValueError, lambda: np.asarray(cn.broadcast_to(cn.arange(5.0), (5, 5))).fill(1))
matrix = other @ other.T + numpy.eye(N) * 1e9
m = np.array(matrix)
solved = np.asarray(cn.linalg.solve(cn.asarray(m), cn.asarray(x)))    # LAPACK wants columns side by side
assert numpy.allclose(numpy.asarray(solved + 0), numpy.linalg.solve(matrix, expected))
same(m * 2, matrix * 2)
w, v = numpy.asarray(cn.fft.fft(cn.asarray(x))), numpy.fft.fft(expected)
assert numpy.allclose(w, v)
"""


@needs_cupynumeric
@pytest.mark.parametrize("mode", MODES)
def test_both_see_what_the_other_writes(mode: str) -> None:
    child(BOTH, mode)


@needs_cupynumeric
@pytest.mark.ranks
def test_both_see_what_the_other_writes_on_two_ranks(tmp_path: Path) -> None:
    ranks(tmp_path, BOTH)


FALLBACK = WITH_CUPYNUMERIC + """
from diffuse.numpy.bridge import distributed
find, ran = distributed.find, []
def watched(name):
    function = find(name)
    def run(*args, **kwargs):
        found = function(*args, **kwargs)
        ran.append(name)
        return found
    return run if function is not None else None
distributed.find = watched

rng = numpy.random.default_rng(1)
a = rng.random((N, N)); s = a @ a.T + numpy.eye(N); b = a[0].copy()
x, m, v = np.array(a) + 0, np.array(s) + 0, np.array(b)

def agree(name, function, *more):
    ran.clear()
    found, expected = function(np, x, m, v), function(numpy, a, s, b)
    assert type(found) is type(expected) or isinstance(found, np.ndarray), type(found)
    for one, two in zip(*[p if isinstance(p, tuple) else (p,) for p in (found, expected)], strict=True):
        assert numpy.allclose(numpy.asarray(one), two), name
    assert ran == EXPECTED(name), (name, ran)

agree("numpy.sort", lambda q, x, m, v: q.sort(x))
agree("numpy.sort", lambda q, x, m, v: q.sort(x.T, axis=0))
agree("numpy.sort", lambda q, x, m, v: q.sort(x[::2, 1:]))
agree("numpy.argsort", lambda q, x, m, v: q.argsort(x, axis=0))
agree("numpy.fft.fft", lambda q, x, m, v: q.fft.fft(x))
agree("numpy.fft.fft2", lambda q, x, m, v: q.fft.fft2(x) * 2)
agree("numpy.linalg.solve", lambda q, x, m, v: q.linalg.solve(m, v))
agree("numpy.linalg.solve", lambda q, x, m, v: q.linalg.solve(m, x) + x)
agree("numpy.linalg.cholesky", lambda q, x, m, v: q.linalg.cholesky(m) + x)
agree("numpy.linalg.eigh", lambda q, x, m, v: q.linalg.eigh(m).eigenvalues)
agree("numpy.median", lambda q, x, m, v: q.median(x))
agree("numpy.percentile", lambda q, x, m, v: q.percentile(x, [10, 50]))
agree("numpy.nonzero", lambda q, x, m, v: q.nonzero(x > 0.5))
agree("numpy.einsum", lambda q, x, m, v: q.einsum("ij,kj->ik", x, m))
refused = np.convolve(x.ravel(), v)
assert numpy.allclose(numpy.asarray(refused), numpy.convolve(a.ravel(), b)), "NumPy's, then"
out = np.zeros((N, N)) + 1
np.cumsum(x, axis=0, out=out)
ran.clear()
np.put(out, [1, 2], [3, 4])
assert not ran and float(out[0, 1]) == 3
shared = [s for s in diffuse.stream.engine.current().stores.instances.values() if s.shared]
assert not shared, "all is Diffuse's again"
held = diffuse.stream.engine.current().window.held
y = x + 1
assert diffuse.stream.engine.current().window.held > held, "operations fuse as before"
same(y, a + 1)
"""


@needs_cupynumeric
@pytest.mark.ranks
@pytest.mark.parametrize("gather, expected", [("0", "lambda name: [name]"), ("1G", "lambda name: []")])
def test_several_ranks_compute_by_cupynumeric_what_is_too_large(tmp_path: Path, gather: str, expected: str
                                                                ) -> None:
    ranks(tmp_path, f"EXPECTED = {expected}\n{FALLBACK}", DIFFUSE_GATHER=gather)


@needs_cupynumeric
def test_one_rank_computes_by_numpy() -> None:
    child(f"EXPECTED = lambda name: []\n{FALLBACK}", DIFFUSE_GATHER="0")

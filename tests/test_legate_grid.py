"""Legate's task for GPUs, run by its processors: the local runtime's bits, from programs down to messages.

What is simulated is the driver's launch function, and that a GPU has memory of its own.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.each import rounds
from tests.jobs import DISTRIBUTED, ROOT, TINY, found_in, job, needs_legate, python, run
from tests.legate_grid import INSTALLED
from tests.test_legate_trampoline import EVERYTHING, RECORDED, START, on_threads

pytestmark = needs_legate

MODES: dict[str, dict[str, Any]] = {
    "one": {"LEGATE_INLINE_TASK_LAUNCH": "0"},
    "two": {"LEGATE_CONFIG": "--cpus 2 --gpus 0"},
    "three": {"LEGATE_CONFIG": "--cpus 3 --gpus 0"},
}
HERE = "from tests import legate_grid\nlegate_grid.install()\n" + START
COUNT = """
from diffuse.observe import trace
print(trace.counters["interpreted"], runtime.placement.devices.launched() > 200)
"""


def child(text: str, mode: str, **variables: str) -> list[str]:
    """Lines of a program's output."""
    done = python(HERE + text, **{**RECORDED, **MODES[mode], **variables})
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def expected() -> list[str]:
    return on_threads()


@pytest.mark.parametrize("mode", rounds(["one", "three"], [*MODES]))
def test_the_same_bits_as_on_processors(mode: str, expected: list[str]) -> None:
    *found, counted = child(EVERYTHING + COUNT, mode)
    assert len(found) > 60 and counted == "0 True"
    flags = "['divide by zero', 'invalid value']"  # a GPU keeps none
    assert [line for line in found if line != "[]"] == [line for line in expected if line != flags]


def test_applications_have_the_local_runtimes_bits(tmp_path: Path) -> None:
    """And all calculations of distributed.py; test_legate_distributed.py has several ranks."""
    found = {}
    for name, variables in {"local": {"DIFFUSE_RUNTIME": "local"},
                            "grid": {"DIFFUSE_RUNTIME": "legate", INSTALLED: "1", **MODES["two"]}}.items():
        (tmp_path / name).mkdir()
        done = job(*run(DISTRIBUTED, str(tmp_path / name)), **{**TINY, **variables})
        assert done.returncode == 0, done.tail
        (found[name],) = found_in(tmp_path / name)
    grid = found["grid"]
    assert grid.pop("launches") > 500 and 2 in grid.pop("pieces")
    for one in found.values():
        for key in ("pid", "ranks", "rank"):
            one.pop(key, None)
    assert found["local"] == grid


def test_random_programs_agree_with_numpy() -> None:
    """Of small arrays, cut into tiles of one or two elements."""
    done = job(sys.executable, str(ROOT / "tests" / "fuzz_ranks.py"), "0", "60", "15", cwd=ROOT,
               DIFFUSE_RUNTIME="legate", DIFFUSE_NUM_THREADS="1",
               **{**TINY, **MODES["two"], "DIFFUSE_MIN_CHUNK": "1", INSTALLED: "1"})
    assert done.returncode == 0 and "60 programs on 1 ranks" in done.stdout, done.tail


LOOK = """
from diffuse.runtime.legate import message
place = runtime.placement
send, seen = place.send, []
def sent(task, words):
    seen.append(message.HEADER.unpack_from(words))
    send(task, words)
place.send = sent
"""


def test_gpus_are_given_no_memory_of_the_host() -> None:
    """What the host has is copied to Legate's store once; what somebody may write to, at each launch."""
    lines = child(LOOK + """
x = np.array(numpy.arange(1000.0))
for k in range(3):
    y = x * 2 + k
    runtime.fence(); diffuse.flush()
print([head[0] for head in seen], {head[6] for head in seen if head[0] == message.RUN})
mine = numpy.asarray(x)
seen.clear()
for k in range(3):
    mine[5] = 10.0 * k
    assert float((x + 1.0)[5]) == 10.0 * k + 1.0
print([head[0] for head in seen].count(message.PUT))
del mine
""", "two")
    assert lines == ["[3, 0, 0, 0] {0}", "3"]


def test_what_no_gpu_can_run_stays_on_processors() -> None:
    """The compiler refuses such a body for GPUs (test_cuda.py); here it is told to."""
    lines = child(LOOK + """
from diffuse.kernels.build import grids
compile = grids.Compilation.compile
def refusing(self):
    if self._host is None and "tanh" in repr(self._body):
        self._refuse("its parameters take too many bytes")
    return compile(self)
grids.Compilation.compile = refusing
x = np.array(numpy.linspace(0.1, 1, 1000) * (1 + 1j))
y = np.tanh(x) + 1.0
z = y * 2.0
show = numpy.asarray(z)
print(numpy.allclose(show, (numpy.tanh(numpy.asarray(x)) + 1.0) * 2.0, rtol=1e-14))
print({head[1] == place.devices.launcher for head in seen if head[0] == message.RUN})
from diffuse.observe import trace
print(*[trace.counters[name] for name in ("on the host", "uploads", "downloads")])
q = numpy.asarray(np.sort(y.real)[::-1] * 2.0)
print(q.shape, {head[1] == place.devices.launcher for head in seen[-2:] if head[0] == message.RUN})
""", "two", DIFFUSE_FALLBACK="silent")
    assert lines == ["True", "{False}", "1 0 1", "(1000,) {True}"]


def test_a_launch_that_fails_reaches_the_program() -> None:
    lines = child("""
x = np.array(numpy.arange(1000.0))
runtime.placement.devices.library.fail_from(runtime.placement.devices.launched() + 1)
try:
    print(numpy.asarray(x + 1.0))
except RuntimeError as error:
    print(error)
""", "two")
    assert lines == ["a task of Legate's failed: a kernel could not be launched on a GPU: error 719 of "
                     "NVIDIA's driver"]


def test_what_the_host_wrote_is_kept_beside_what_a_launch_writes() -> None:
    lines = child("""
x = np.array(numpy.arange(1000.0))
mine = numpy.asarray(x)
y = x + 1.0
diffuse.flush()
mine[0] = 50.0
x[10:20] = 7.0
print(float((x + 0.0)[0]), float((x + 0.0)[10]), mine[0], mine[10])
x = np.array(numpy.arange(1000.0))
mine, plain = numpy.asarray(x), numpy.arange(1000.0)
for k in range(4):
    x[1:-1] = x[:-2] * 0.5 + x[2:] * 0.25 + x.sum() * 1e-3
    plain[1:-1] = plain[:-2] * 0.5 + plain[2:] * 0.25 + float(np.array(plain).sum()) * 1e-3
    mine[k] = plain[k] = -k
print(numpy.array_equal(numpy.asarray(x), plain), numpy.array_equal(mine, plain))
x *= x[::-1]
plain *= plain[::-1].copy()
print(numpy.array_equal(numpy.asarray(x), plain))
""", "two")
    assert lines == ["50.0 7.0 50.0 7.0", "True True", "True"]


@pytest.mark.parametrize("variables", [{}, MODES["one"], MODES["two"]])
def test_without_a_gpu_its_task_is_not_loaded(variables: dict[str, str]) -> None:
    done = python(START + """
print(float((np.arange(1000.0) + 1.0).sum()), runtime.target, runtime.placement.devices)
print("trampoline_gpu" in open("/proc/self/maps").read())
""", **{**RECORDED, **variables})
    assert done.stdout == "500500.0 host None\nFalse\n", done.stderr

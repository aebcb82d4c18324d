"""The task that Legate runs for Diffuse: the same bits as without Legate, and no way to end the process."""

from __future__ import annotations

import pytest

from diffuse.runtime.legate.trampoline import COMPLAINTS
from tests.jobs import needs_legate, python

pytestmark = needs_legate

MODES = {
    "alone": {"DIFFUSE_NUM_THREADS": "3"},
    "one processor": {"DIFFUSE_NUM_THREADS": "3", "LEGATE_INLINE_TASK_LAUNCH": "0"},
    "two processors": {"DIFFUSE_NUM_THREADS": "1", "LEGATE_CONFIG": "--cpus 2"},
    "two, threads": {"DIFFUSE_NUM_THREADS": "2", "LEGATE_CONFIG": "--cpus 2"},
}
RECORDED = {"DIFFUSE_RUNTIME": "legate", "DIFFUSE_SMALL": "0", "DIFFUSE_COMPILE": "wait",
            "DIFFUSE_MIN_CHUNK": "64", "DIFFUSE_LEGATE_MEMORY": "1G", "DIFFUSE_FALLBACK": "error"}

START = """
import gc, signal, sys, hashlib, time, warnings
import diffuse, numpy
import diffuse.numpy as np
from diffuse.stream.engine import current
runtime = current().runtime
"""
WHERE = START + "print(runtime.alone, runtime.processors, runtime.threads)\n"
EVERYTHING = """
def show(name, array):
    array = numpy.asarray(array)
    print(name, array.dtype, array.shape, hashlib.sha256(array.tobytes()).hexdigest()[:16])

warnings.simplefilter("always")
pick = numpy.random.default_rng(1)
for dtype in ("float64", "float16", "int16", "bool", "complex64"):
    n = numpy.asarray(pick.integers(0, 2 if dtype == "bool" else 9, (43, 31)), dtype)
    a = np.array(n)
    b = a[::-1, ::2].copy()
    show("reversed, strided", b)
    show("sum", b + a[:, :16])
    show("all", a.sum()), show("rows", a.sum(axis=0)), show("columns", a.sum(axis=1))
    if dtype != "complex64":
        show("where", np.where(a > 3, a[::-1], a[:, ::-1]))
        show("least", a.argmin(axis=0)), show("least", a.argmin(axis=1)), show("least", a.argmin())
        show("most", a.max(axis=1)), show("most", a.max(axis=0))
    a[3:-3, 1::3] = a[2:-4, 1::3]
    a[:] = a + a[0]
    a[5] = a[7]
    show("in place", a)
    show("flat", a.reshape(31, 43)[1:, 1:] + a.reshape(31, 43)[:-1, :-1])
x = np.array(pick.random((64, 48)))
for i in range(20):
    x[1:-1, 1:-1] = 0.25 * (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:])
    x[0] = x[:, 5].sum() / (i + 1)
show("halos", x)
show("transcendental", np.exp(-x) * np.sin(x) + np.sqrt(np.abs(x.T[:48, :48])).sum())
show("mean", x.mean(axis=0)), show("var", x.var(axis=1)), show("product", (x + 0.5).prod(axis=0))
show("running", np.cumsum(x[:, 3]))
deep = np.array(pick.random((2, 3, 2, 3, 2, 3, 5)))
show("seven dimensions", deep + deep[::-1]), show("seven dimensions", deep.sum(axis=(0, 3, 6)))
show("empty", np.zeros((0, 4)) + 1), show("empty", np.zeros((3, 0)).sum(axis=1))
with warnings.catch_warnings(record=True) as caught:
    show("flags", x / (x - x)), show("flags", np.sqrt(-1 - x))
print(sorted({str(w.message).split(" encountered")[0] for w in caught}))
big = np.zeros(300_000)
with diffuse.settings.using(window=1):
    for i in range(700):  # more than a queue holds
        big += i
show("queue", big)
assert numpy.asarray(big)[12345] == 700 * 699 / 2
"""


def child(text: str, mode: str, **variables: str) -> list[str]:
    """Lines of a program's output, its first line aside: where it ran."""
    done = python(text, **RECORDED, **MODES[mode], **variables)
    assert done.returncode == 0, (done.stdout + done.stderr)[-2000:]
    first, *lines = done.stdout.splitlines()
    assert first == (f"{mode == 'alone'} {2 if mode.startswith('two') else 1} "
                     f"{MODES[mode]['DIFFUSE_NUM_THREADS']}")
    return lines


def on_threads() -> list[str]:
    """What the same program prints on this machine's threads."""
    done = python(START + EVERYTHING, **{**RECORDED, "DIFFUSE_RUNTIME": "local"}, DIFFUSE_NUM_THREADS="2")
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def expected() -> list[str]:
    return on_threads()


@pytest.mark.parametrize("mode", MODES)
def test_the_same_bits_as_without_legate(mode: str, expected: list[str]) -> None:
    found = child(WHERE + EVERYTHING, mode)
    assert len(found) > 60
    assert found == expected
    assert "['divide by zero', 'invalid value']" in found


def test_a_signal_may_come_at_any_time() -> None:
    lines = child(WHERE + """
from diffuse.runtime.legate import message
def handler(*_):
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, handler)
caught = 0
legate = runtime.placement.legate
store = legate.create_store(runtime.placement.core.types.int64, (1,))
word = numpy.zeros(1, numpy.int64)
said = message.moving(message.PUT, 1, (1,), 8, (0,), word.__array_interface__["data"][0])
for i in range(300):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0005 + i * 1e-6)
        while True:
            task = runtime.placement.task((1,))
            task.add_output(store)
            runtime.placement.send(task, said)
    except KeyboardInterrupt:
        caught += 1
print(caught, gc.isenabled())
runtime.fence()
""", "alone")
    assert lines == ["300 True"]


WRONG = """
from diffuse.runtime.legate import message
place = runtime.placement
store = place.legate.create_store(place.core.types.float64, (4, 6))
store.fill(0.0)
# one argument, of another frame than the store's: it wants all of the store in one piece, row after row
tail = message.words([message.INPUT, 0, 2, 8, 0, 0, 4, 6, 0, 1, 0, 0])
said = message.Message(message.RUN, 2, 1, 0, 1, 1, 0, tail)
"""


def test_what_goes_wrong_in_a_task_reaches_the_program() -> None:
    """A kernel that wants a store in one piece is given a part of it: it does not run, and the next does."""
    lines = child(WHERE + WRONG + """
task = place.task((2,))
task.add_input(store.partition_by_tiling((2, 6)))
place.send(task, said.pack(0, 0, False, (), message.words([0])))
try:
    runtime.fence()
except RuntimeError as error:
    print(error)
print(numpy.asarray(np.zeros(1000) + 5).sum())
""", "two processors")
    assert lines == [f"a task of Legate's failed: {COMPLAINTS[1]}", "5000.0"]


def test_a_program_may_end_with_tasks_to_do() -> None:
    for mode in ("alone", "two, threads"):
        assert child(WHERE + """
x = np.zeros(100_000)
for i in range(100):
    x = np.sin(x) + i
diffuse.stream.engine.current().flush()
""", mode) == []

"""The task in Python does what the compiled one does: the same bits, and no way to end the process."""

from __future__ import annotations

import ctypes
import gc
import os
import shutil
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from diffuse.observe.floaterrors import DIVIDE
from diffuse.runtime.legate import message, variant
from diffuse.runtime.legate.task import COMPLAINTS
from diffuse.runtime.local.pool import Pool
from tests.jobs import needs_legate, python

MODES = {
    "alone": {"DIFFUSE_NUM_THREADS": "3"},
    "one processor": {"DIFFUSE_NUM_THREADS": "3", "LEGATE_INLINE_TASK_LAUNCH": "0"},
    "two processors": {"DIFFUSE_NUM_THREADS": "1", "LEGATE_CONFIG": "--cpus 2"},
    "two, threads": {"DIFFUSE_NUM_THREADS": "2", "LEGATE_CONFIG": "--cpus 2"},
}
RECORDED = {"DIFFUSE_RUNTIME": "legate", "DIFFUSE_SMALL": "0", "DIFFUSE_COMPILE": "wait",
            "DIFFUSE_MIN_CHUNK": "64", "DIFFUSE_LEGATE_MEMORY": "1G", "DIFFUSE_FALLBACK": "error"}
compiles = os.environ.get("CXX", "g++") and shutil.which(os.environ.get("CXX", "g++").split()[0])

START = """
import gc, signal, sys, hashlib, time, warnings
import diffuse, numpy
import diffuse.numpy as np
from diffuse.stream.engine import current
runtime = current().runtime
code = runtime.placement.code
print(type(code).__name__, runtime.alone, runtime.processors, runtime.threads)
"""

EVERYTHING = START + """
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
    """Lines of a program's output, its first line aside: what code ran, where."""
    done = python(text, **RECORDED, **MODES[mode], **variables)
    assert done.returncode == 0, (done.stdout + done.stderr)[-2000:]
    first, *lines = done.stdout.splitlines()
    name, alone, processors, threads = first.split()
    assert name == ("Native" if "CXX" not in variables else "Interpreted")
    assert (alone, threads) == (str(mode == "alone"), MODES[mode]["DIFFUSE_NUM_THREADS"])
    assert processors == ("2" if mode.startswith("two") else "1")
    return lines


@needs_legate
@pytest.mark.skipif(not compiles, reason="no C++ compiler to compare with")
@pytest.mark.parametrize("mode", MODES)
def test_the_same_bits_as_the_compiled_task(mode: str) -> None:
    mine, theirs = child(EVERYTHING, mode, CXX=""), child(EVERYTHING, mode)
    assert len(mine) > 60
    assert mine == theirs
    assert "['divide by zero', 'invalid value']" in mine


@needs_legate
def test_cycles_that_hold_stores_of_legate_are_collected_on_the_main_thread() -> None:
    lines = child(START + """
from diffuse.runtime.legate import variant
legate, types = runtime.placement.legate, runtime.placement.core.types
found = []
class Cycle:
    def __init__(self):
        self.me, self.store = self, legate.create_store(types.float64, (100,))
        self.store.fill(0.0)
    def __del__(self):
        found.append(1)
whole, seen = variant._locate, []
def locate(*arguments):
    time.sleep(0.0005)  # the other processor's task begins or ends
    seen.append(gc.isenabled())
    return whole(*arguments)
variant._locate = locate
x = np.zeros(5000)
with diffuse.settings.using(window=1):
    for i in range(100):
        x += 1
        assert i < 50 or not gc.isenabled()
        if i < 50:
            numpy.asarray(x)
            assert gc.isenabled()
    numpy.asarray(x)
    print(len(seen) >= 200, any(seen), "while tasks ran")
    variant._locate = whole
    gc.set_threshold(1)
    before = len(found)
    for _ in range(200):
        Cycle()
        x += 1
        diffuse.stream.engine.current().flush()
    print(len(found) - before > 150, "without a fence")
print(numpy.asarray(x)[0], gc.isenabled())
""", "two processors", CXX="")
    assert lines == ["True False while tasks ran", "True without a fence", "300.0 True"]


@needs_legate
def test_a_signal_may_come_at_any_time() -> None:
    lines = child(START + """
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
            task = runtime.placement.task(1)
            task.add_output(store)
            runtime.placement.send(task, said)
    except KeyboardInterrupt:
        caught += 1
print(caught, gc.isenabled())
runtime.fence()
""", "alone", CXX="")
    assert lines == ["300 True"]


@needs_legate
@pytest.mark.parametrize("mode", ["alone", "two processors"])
def test_what_a_task_raises_reaches_the_program(mode: str) -> None:
    lines = child(START + """
from diffuse.runtime.legate import variant
x = np.zeros(1000) + 1
numpy.asarray(x)
whole, variant._locate = variant._locate, lambda *_: 1 / 0
try:
    numpy.asarray(x + 1)
except (RuntimeError, ZeroDivisionError) as error:
    print("ZeroDivisionError" in repr(error))
variant._locate = whole
print(numpy.asarray(np.zeros(1000) + 5).sum())
""", mode, CXX="")
    assert lines == ["True", "5000.0"]


@needs_legate
def test_a_program_may_end_with_tasks_to_do() -> None:
    for mode in ("alone", "two, threads"):
        assert child(START + """
x = np.zeros(100_000)
for i in range(100):
    x = np.sin(x) + i
diffuse.stream.engine.current().flush()
""", mode, CXX="") == []


# -- without Legate ----------------------------------------------------------------------------------------

KERNEL = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_int64), ctypes.c_int64)
FINISH = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_int64))


class Store:
    """A physical store of Legate's, over an array: a part of some whole that begins at `low`."""

    def __init__(self, array: Any, low: tuple[int, ...]) -> None:
        self.array, self.domain = array, SimpleNamespace(lo=low)

    def data(self) -> Store:
        return self

    def get_inline_allocation(self) -> Any:
        return SimpleNamespace(ptr=self.array.__array_interface__["data"][0], shape=self.array.shape,
                               strides=self.array.strides)


def context(words: bytes, point: int | None, inputs: Any = (), outputs: Any = ()) -> Any:
    return SimpleNamespace(scalars=[SimpleNamespace(value=lambda: memoryview(words))], inputs=inputs,
                           outputs=outputs, task_index=() if point is None else (point,),
                           is_single_task=lambda: point is None)


@pytest.fixture(params=[0, 3])
def task(request: pytest.FixtureRequest) -> Iterator[variant.Interpreted]:
    made = variant.Interpreted(False)
    if request.param:
        made.pool(Pool(request.param))
    yield made
    gc.enable()


def run(task: variant.Interpreted, words: bytes, point: int | None, *stores: Any) -> None:
    task._body(context(words, point, *stores))


def test_points_of_a_kernel_and_its_finish(task: variant.Interpreted) -> None:
    seen: list[int] = []
    finished: list[int] = []
    kernel = KERNEL(lambda block, p: seen.append(p * block[0]))
    finish = FINISH(lambda block: finished.append(block[0]))
    address, last = (ctypes.cast(f, ctypes.c_void_p).value or 0 for f in (kernel, finish))
    said = message.Message(message.RUN, 10, 4, 0, 0, 0, 0, b"")
    for point in range(3):
        run(task, said.pack(address, last, False, (), message.words([7])), point)
    assert sorted(seen) == [7 * p for p in range(10)] and finished == [7] * 3
    said = message.Message(message.FOLD, 10, 10, 0, 0, 0, 0, b"")
    run(task, said.pack(0, last, False, (), message.words([5])), None)
    assert len(seen) == 10 and finished == [7, 7, 7, 5]
    assert task.complaint() is None


def test_scratch_is_shared_through_stores(task: variant.Interpreted) -> None:
    def fill(block: Any, p: int) -> None:
        ctypes.cast(block[1] + 16 + p, ctypes.POINTER(ctypes.c_uint8))[0] = p + 1

    def total(block: Any) -> None:
        ctypes.cast(block[0], ctypes.POINTER(ctypes.c_int64))[0] = sum(ctypes.string_at(block[1] + 16, 6))

    kernel, finish = KERNEL(fill), FINISH(total)
    address, last = (ctypes.cast(f, ctypes.c_void_p).value or 0 for f in (kernel, finish))
    plane = [3, 1, 0, 0, 0, 1, 6, 1]
    share = message.words([message.OUTPUT, 0, *plane, 1, 32, 1, 16, 0])
    parts = np.zeros((1, 6, 1), np.uint8)
    for point in range(2):
        said = message.Message(message.RUN, 6, 3, 0, 1, 0, 1, share)
        part = Store(parts[:, 3 * point:3 * point + 3], (0, 3 * point, 0))
        run(task, said.pack(address, 0, False, (), message.words([0, 0])), point, (), [part])
    assert parts.ravel().tolist() == [1, 2, 3, 4, 5, 6]
    result = np.zeros(1, np.int64)
    fold = message.words([message.OUTPUT, 0, 1, 8, 0, 1, message.INPUT, 0, *plane,
                          0, 0, 0, 1, 0, 1, 32, 1, 16, 1])
    said = message.Message(message.FOLD, 6, 6, 0, 2, 1, 1, fold)
    stores = [Store(parts, (0, 0, 0))], [Store(result, (0,))]
    run(task, said.pack(0, last, False, (), message.words([0, 0])), None, *stores)
    assert task.complaint() is None and result[0] == 21


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "float64", "complex128"])
def test_whole_stores_to_and_from_the_host(task: variant.Interpreted, dtype: str) -> None:
    whole = np.arange(24).reshape(4, 6).astype(dtype)
    there = np.full((6, 9), 99, dtype).T[:4, :6]  # in another order, with gaps
    address, item = whole.__array_interface__["data"][0], whole.itemsize
    said = message.moving(message.PUT, 1, whole.shape, item, (0, 0), address)
    for point in range(2):
        part = there[2 * point:2 * point + 2]
        run(task, said, point, (), [Store(part, (2 * point, 0))])
    assert np.array_equal(there, whole)
    there += np.ones((), dtype)
    said = message.moving(message.GET, 2, whole.shape, item, (0, 0), address)
    run(task, said, 1, [Store(there, (0, 0))])
    assert not np.array_equal(there, whole), "another point's to do"
    run(task, said, 2, [Store(there, (0, 0))])
    assert np.array_equal(there, whole) and task.complaint() is None


def test_another_frame_needs_memory_in_one_piece(task: variant.Interpreted) -> None:
    tail = message.words([message.INPUT, 0, 2, 8, 0, 0, 4, 6, 0, 1, 0, 0])
    said = message.Message(message.RUN, 1, 1, 0, 1, 1, 0, tail)
    seen: list[int] = []
    kernel = KERNEL(lambda block, p: seen.append(block[0]))
    words = said.pack(ctypes.cast(kernel, ctypes.c_void_p).value or 0, 0, False, (), message.words([16]))
    whole = np.zeros((4, 6))
    run(task, words, None, [Store(whole, (0, 0))])
    assert seen == [whole.__array_interface__["data"][0] + 16]
    run(task, words, None, [Store(whole[:0], (0, 0))])
    assert seen[1:] == [0], "no elements, no address"
    run(task, words, 0, [Store(whole[1:], (1, 0))])
    assert len(seen) == 2 and task.complaint() == COMPLAINTS[1] and task.complaint() is None
    run(task, words, None, [Store(np.zeros((6, 4)).T, (0, 0))])
    assert len(seen) == 3 and seen[2] != 0 and task.complaint() is None, "a copy is in one piece"


def test_elements_that_lie_otherwise_than_a_kernel_takes_them_to_are_copied(task: variant.Interpreted
                                                                            ) -> None:
    """A matrix whose columns are in one piece, for a kernel that was compiled for rows in one piece."""
    def doubling(block: Any, p: int) -> None:
        seen.append(block[1:3])
        elements = np.ctypeslib.as_array((ctypes.c_double * 24).from_address(block[0]))
        elements *= 2

    seen: list[list[int]] = []
    tail = message.words([message.OUTPUT, 0, 2, 8, 0, 0, 4, 6, 0, 2, 0, 1, 0, 0, 1, 0, 0, 1])
    said = message.Message(message.RUN, 1, 1, 0, 1, 1, 0, tail)
    kernel = KERNEL(doubling)
    words = said.pack(ctypes.cast(kernel, ctypes.c_void_p).value or 0, 0, False, (),
                      message.words([0, 48, 8]))
    columns = np.arange(24.0).reshape(6, 4).T
    run(task, words, None, (), [Store(columns, (0, 0))])
    assert seen == [[48, 8]] and task.complaint() is None
    assert np.array_equal(columns, np.arange(24.0).reshape(6, 4).T * 2)


def test_floating_point_exceptions_of_kernels_alone(task: variant.Interpreted) -> None:
    raises: Callable[[int], int] = ctypes.CDLL(None).feraiseexcept
    divide = 4 if os.uname().machine == "x86_64" else 2
    kernel = KERNEL(lambda block, p: None if raises(divide) else None)
    address = ctypes.cast(kernel, ctypes.c_void_p).value or 0
    said = message.Message(message.RUN, 2, 2, 0, 0, 0, 0, b"")
    ctypes.CDLL(None).feclearexcept(31)
    run(task, said.pack(address, 0, False, (), message.words([0])), None)
    assert task.flags() == DIVIDE and task.flags() == 0
    assert not ctypes.CDLL(None).fetestexcept(divide), "the thread's own are as they were"


def test_collections_wait_until_everything_is_done(task: variant.Interpreted) -> None:
    done: list[int] = []
    task.execute(SimpleNamespace(execute=lambda: done.append(gc.isenabled())))
    assert done == [False] and not gc.isenabled()
    task.settled()
    assert gc.isenabled()
    gc.disable()
    task.execute(SimpleNamespace(execute=lambda: None))
    task.settled()
    assert not gc.isenabled(), "as the program wants it"

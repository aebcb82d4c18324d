"""NumPy arrays whose memory Diffuse shares: at once while somebody else holds them, recorded afterwards."""

from __future__ import annotations

import array as plain_arrays
import ctypes
import pickle
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest

import diffuse
import diffuse.numpy as np
from diffuse.numpy.bridge import fallback
from diffuse.numpy.ops import known
from diffuse.numpy.small import native
from diffuse.settings import using
from diffuse.stream import engine

SIZE = 40_000

pytestmark = pytest.mark.not_legate("lent arrays are always up to date: ranks must not differ in that")


def values() -> Any:
    return numpy.arange(float(SIZE))


def waits(x: Any) -> bool:
    """Is an operation on the array recorded, and left to be run later, if nobody waited for it before?"""
    engine.fence()
    for template in engine.current().templates.known.values():
        template.alone = 0
    y = x + 1.0
    return engine.busy(y.storage)


@pytest.fixture(autouse=True)
def recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operations that the program waits for again and again are recorded all the same (ops/single.py)."""
    monkeypatch.setattr(known, "OFTEN", 1 << 60)


class Holding:
    """A class of the program that hands out its own memory."""

    def __init__(self) -> None:
        self.data = values()

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.data


def read_only() -> Any:
    a = values()
    a.flags.writeable = False
    return a


UNHELD: dict[str, Callable[[], Any]] = {
    "temporary": values,
    "view": lambda: values()[::-2],
    "view of a view": lambda: values()[5:].reshape(-1, 5)[:, 1:],
    "transposed": lambda: values().reshape(200, 200).T,
    "read-only": read_only,
    "broadcast": lambda: numpy.broadcast_to(values(), (2, SIZE))[0],
    "bytes": lambda: numpy.frombuffer(values().tobytes()),
    "result": lambda: numpy.linalg.inv(numpy.eye(200)),
}


@pytest.mark.parametrize("make", UNHELD.values(), ids=UNHELD.keys())
@pytest.mark.parametrize("share", [np.asarray, np.asanyarray, lambda a: np.array(a, copy=False),
                                   lambda a: np.array(a, copy=None)])
def test_memory_that_nobody_else_holds_is_diffuses_own(make: Any, share: Any) -> None:
    x = share(make())
    assert waits(x) and waits(x[3:])
    assert numpy.array_equal(numpy.asarray(x + 1.0), make() + 1.0)


@pytest.mark.not_device("what the program has seen once is copied")
def test_memory_is_diffuses_own_when_the_program_lets_go_of_it() -> None:
    a = values()
    x = np.asarray(a)
    assert not waits(x)
    del a
    assert waits(x)
    x += 1.0
    assert float(x[-1]) == SIZE


def test_bytes_never_change() -> None:
    data = values().tobytes()
    a = numpy.frombuffer(data)
    assert waits(np.asarray(a)) and waits(np.frombuffer(data))


def mapped(folder: Path) -> tuple[Any, Any]:
    numpy.save(folder / "a.npy", values())
    a = numpy.load(folder / "a.npy", mmap_mode="r+")
    return a, a


def locked(_: Path) -> tuple[Any, Any]:
    """A read-only array that an earlier view writes to."""
    a = values()
    view = a[:]
    a.flags.writeable = False
    return a, view


def locked_view(_: Path) -> tuple[Any, Any]:
    a = values()
    view = a[:]
    view.flags.writeable = False
    return view, a


def weakly(_: Path) -> tuple[Any, Any]:
    a = values()
    held = weakref.ref(a)

    class Late:
        def __setitem__(self, index: Any, value: Any) -> None:
            found = held()
            assert found is not None
            found[index] = value

    return a, Late()


def buffer(_: Path) -> tuple[Any, Any]:
    a = values()
    return a, memoryview(a)


def other_buffer(_: Path) -> tuple[Any, Any]:
    found = plain_arrays.array("d", values())
    return found, found


def foreign_memory(_: Path) -> tuple[Any, Any]:
    memory = (ctypes.c_double * SIZE)(*values())
    return numpy.ctypeslib.as_array(memory), memory


def holding(_: Path) -> tuple[Any, Any]:
    found = Holding()
    return found, found.data


def view_of(_: Path) -> tuple[Any, Any]:
    a = values()
    return a[:], a


def sibling(_: Path) -> tuple[Any, Any]:
    a = values()
    return a[:], a[:]


HELD: list[Callable[[Path], tuple[Any, Any]]] = [
    lambda _: (a := values(), a), view_of, sibling, locked, locked_view, weakly, buffer, other_buffer,
    foreign_memory, holding, mapped, lambda _: (numpy.broadcast_to(a := values(), (SIZE,)), a)]


@pytest.mark.parametrize("make", HELD)
@pytest.mark.parametrize("share", [np.asarray, lambda a: np.array(a, copy=None)])
def test_what_others_write_comes_after_what_was_recorded(make: Any, share: Any, tmp_path: Path) -> None:
    theirs, writer = make(tmp_path)
    x = share(theirs)
    del theirs
    for step in range(3):
        y = x + 1.0
        writer[0] = 5.0 + step
        assert float(y[0]) == (1.0 if step == 0 else 5.0 + step)
        assert float(x[0]) == 5.0 + step


def test_what_is_written_is_seen_by_those_who_hold_the_memory() -> None:
    for a, x in [(a := values(), np.asarray(a)), (a := values()[::2], np.asarray(a)),
                 (a := values(), np.asarray(a[::-1])[::-1]),
                 (a := values(), np.asarray(a.reshape(200, 200)).ravel())]:
        for step in range(3):
            x += 1.0
            assert a[0] == step + 1.0 and a[-1] == x[-1]
            x[-1] = 0.0
            assert a[-1] == 0.0


def test_two_arrays_of_one_memory_see_each_other() -> None:
    a = values()
    x, y = np.asarray(a[1:]), np.asarray(a[:-1])
    plain = values()
    first, second = plain[1:], plain[:-1]
    del a
    for _ in range(3):
        x += y
        y[1:] = x[:-1]
        first += second
        second[1:] = first[:-1]
    assert numpy.array_equal(x, first) and numpy.array_equal(y, second)
    del y
    z = x * 2.0
    x += 1.0
    assert numpy.array_equal(z, first * 2.0) and numpy.array_equal(x, first + 1.0)


def test_an_array_that_goes_out_again_is_seen() -> None:
    x = np.asarray(values())
    x += 1.0
    out = numpy.asarray(x)
    for step in range(3):
        y = x + 1.0
        out[0] = 10.0 + step
        assert float(y[0]) == (2.0 if step == 0 else 10.0 + step)
        x += 0.0
        assert out[0] == 10.0 + step
    del out
    assert waits(x)


def test_what_was_lent_comes_back() -> None:
    a = values()
    x = np.asarray(a)
    assert x.__array__() is a
    x[1] = 7.0
    assert numpy.asarray(x)[1:][0] == 7.0 and a[1] == 7.0


def test_results_of_fallbacks_over_foreign_memory_are_shared() -> None:
    memory = (ctypes.c_double * SIZE)(*values())
    x = fallback.call(numpy.ctypeslib.as_array, (memory,), {}, silent="library")
    y = x + 1.0
    memory[0] = 5.0
    assert float(y[0]) == 1.0 and float(x[0]) == 5.0
    x += 1.0
    assert memory[0] == 6.0


def test_arrays_that_were_borrowed_end_with_their_last_user() -> None:
    a = values()
    gone = weakref.ref(a)
    x = np.asarray(a)
    y = x * 2.0
    del a, x
    engine.fence()
    assert gone() is None and float(y[1]) == 2.0


@pytest.mark.parametrize("step", [1, 2])
def test_flags_are_those_of_the_array(step: int) -> None:
    a = values()[::step]
    x = np.asarray(a)
    x.flags.writeable = False
    assert not a.flags.writeable and not numpy.asarray(x).flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        x += 1.0
    x.flags.writeable = True
    x += 1.0
    assert a[0] == 1.0
    fixed = np.asarray(numpy.frombuffer(values().tobytes())[::step])
    with pytest.raises(ValueError, match="cannot set WRITEABLE"):
        fixed.flags.writeable = True


def test_an_array_that_numpy_unpickled_is_written() -> None:
    ours = np.zeros(20_000) + 1
    theirs = pickle.loads(pickle.dumps(numpy.zeros(20_000)))  # writeable, in the memory of `bytes`
    assert type(theirs.base) is bytes
    np.add(ours, ours, out=theirs)
    assert theirs[7] == 2
    np.cumsum(ours, out=theirs[::-1])
    assert theirs[0] == 20_000


@pytest.mark.parametrize("convert", [
    lambda x: np.array(x.flat), lambda x: np.asarray(x.flat, copy=True), lambda x: np.copy(x.flat),
    lambda x: np.array(x.flat, ndmin=2), lambda x: np.array(x.flat, subok=True)])
def test_numpys_copy_of_an_iterator_has_its_arrays_memory(convert: Callable[[Any], Any]) -> None:
    """NumPy's iterators return their array, whether a copy is asked for or not."""
    x = values()
    found, theirs = convert(x), numpy.array(x.flat)
    assert numpy.shares_memory(theirs, x)
    for template in engine.current().templates.known.values():
        template.alone = 0
    np.negative(found, out=found)
    assert x[3] == -3.0


def test_new_memory_is_lent_when_no_launch_uses_it_any_more() -> None:
    """The memory that an array left to launches that are still queued goes to the next one of its size."""
    with using(compile="wait"):
        x = np.linspace(0, 1, 600_000)
        for turn in range(2):
            y = np.sin(x)
            for _ in range(12):
                y = np.sin(y) + np.tan(y * 0.1)
            if not turn:
                float(y.max())  # compiles
        diffuse.flush()
        del y
        fresh = np.empty(600_000)
        numpy.asarray(fresh)[...] = 7.0
        diffuse.fence()
        assert bool((numpy.array(fresh) == 7.0).all())


@pytest.mark.skipif(native is None, reason="only C code can give buffers on Python 3.11")
def test_a_view_of_lent_memory_becomes_writeable_again_where_its_array_is() -> None:
    """SciPy sets the flag so for arrays of indices."""
    for kind in ("numpys", "ours", "read-only", "bytes"):
        real = numpy.frombuffer(bytes(240_000)) if kind == "bytes" else numpy.arange(30_000.0)
        real.flags.writeable = kind == "numpys"
        x = np.arange(30_000.0) * 2 if kind == "ours" else np.asarray(real)
        view = x.__array__()[3:]
        if kind in ("bytes", "read-only"):
            with pytest.raises(ValueError, match="cannot set WRITEABLE flag to True"):
                view.flags.writeable = True
            continue
        view.flags.writeable = False
        view.flags.writeable = True
        view[0] = -1.0
        assert x[3] == -1


@pytest.mark.skipif(native is None, reason="only C code can give buffers on Python 3.11")
def test_lent_arrays_index_sparse_ones() -> None:
    sp, n = pytest.importorskip("diffuse.scipy.sparse"), 20_000
    diagonal = sp.csr_array((np.arange(1.0, n + 1), (np.arange(n), np.arange(n))), shape=(n, n))
    i, j = np.asarray(numpy.arange(n)), np.asarray(numpy.arange(n)[::-1])
    assert diagonal[i, i].sum() == n * (n + 1) / 2 and diagonal[i, j].sum() == 0

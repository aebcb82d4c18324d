"""Simulated ranks: the local runtime's bits on any number of them, from their own memory alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from itertools import product
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import diffuse.numpy as dnp
import diffuse.scipy.sparse
from diffuse import settings
from diffuse.fusion import verify
from diffuse.numpy.ops import blocks
from diffuse.observe import trace
from diffuse.planning import regions
from diffuse.runtime.mpi import traffic
from diffuse.runtime.mpi.virtual.lockstep import Line, Lockstep, Post, Stuck
from diffuse.stream import engine
from tests.applications import application, results
from tests.each import rounds

RANKS = (1, 2, 3, 4, 6, 8, 12, 16)
SOME = rounds((1, 3, 4, 12), RANKS)


@contextmanager
def simulated(ranks: int, simulate: bool = True) -> Iterator[traffic.Traffic]:
    """So many ranks in this process; what three ranks do not write or receive is poisoned."""
    kept = traffic.count(ranks, simulate)
    try:
        with (settings.using(runtime="mpi", small=0, min_chunk=64, check=ranks == 3, fallback="silent"),
              patch.object(verify, "AFFORDABLE", 1 << 12)):  # what is fused is the subject of test_verify.py
            yield kept
    finally:
        traffic.kept, traffic.virtual, traffic.simulated = None, None, False


@pytest.mark.parametrize("ranks", RANKS)
def test_stencils_have_the_bits_of_one_process(ranks: int) -> None:
    expected = results("stencil", "local", 24)
    with simulated(ranks):
        found = results("stencil", "mpi", 24)
    assert all(found[name].tobytes() == value.tobytes() for name, value in expected.items())


@pytest.mark.parametrize("ranks, most", [(4, 32), (11, 44), (16, 64)])
def test_a_sum_takes_few_messages_of_each_of_many_ranks(ranks: int, most: int) -> None:
    """Few ranks send each other the roots of their subtrees; of many each sends one message in a round."""
    x = np.cos(np.arange(40000.0))
    with settings.using(small=0, min_chunk=64):
        expected = float(dnp.asarray(x).sum())
    for simulate in (True, False):
        with simulated(ranks, simulate) as kept:
            assert float(dnp.asarray(x).sum()) == expected
            over: Any = getattr(engine.current().runtime, "over_ranks", int)
            found = kept.summed(over)
            messages, = [row.messages for title, row in found.items() if "sum" in title]
            assert 0 < messages <= most


def test_a_vector_that_all_ranks_read_takes_few_messages_of_each() -> None:
    """Of 16 ranks each sends a message in each of four rounds before a product.  The matrix itself, whose
    parts are large, goes to each rank directly before a product that is computed whole."""
    expected = results("jacobi", "local", 768)
    for simulate, matrices in ((True, 1), (False, 0)):
        with simulated(16, simulate) as kept:
            found = results("jacobi", "mpi", 768)
            over: Any = getattr(engine.current().runtime, "over_ranks", int)
            messages, = [row.messages for title, row in kept.summed(over).items() if "matmul" in title]
        assert found["x"].tobytes() == expected["x"].tobytes()
        assert 0 < messages <= 16 * 15 * matrices + 3 * 16 * 4


def program(np: Any) -> list[Any]:
    """Folds, products, host functions, parts that the host writes, values that it reads."""
    a = np.asarray((np.arange(60 * 40.0).reshape(60, 40) % 13) - 6)
    b = a.copy()
    b[7] = np.sort(b[7])
    b[b > 5] = 0.5
    b[1:] += b[:-1] * 0.5
    total = float(b.sum())
    for _ in range(2):
        c = (a @ b.T) * (1 / 16)
    a += total  # an array that came from the host is written by ranks, after others read it
    a[3, 4] = 2.0
    table = np.asarray([3.0, 1.0] * 30)
    lookup = table[:, None] * b
    np.asarray(table)[5] = 9.0
    return [a, b, c, lookup, table[:, None] - b, np.cumsum(b, axis=0), np.sort(b, axis=0), b.argmax(axis=0),
            a[[5, 1, 40]], b.std(axis=1), np.fft.fft(b, axis=1).real, b.mean()]


@pytest.mark.parametrize("ranks", (3, 7))
def test_what_the_host_writes_reaches_every_rank(ranks: int) -> None:
    with settings.using(runtime="local", small=0, min_chunk=64, fallback="silent"):
        expected = [np.array(value) for value in program(dnp)]
    with simulated(ranks) as kept:
        found = [np.array(value) for value in program(dnp)]
        each: Any = engine.current().runtime
        counts = each.counted()
    assert [x.tobytes() for x in found] == [x.tobytes() for x in expected]
    assert sum(one.sent for one in counts) == sum(one.received for one in counts) == kept.total(int).bytes > 0
    assert all(one.peak > 0 for one in counts)


STACKS = (((8, 6, 5), (5, 7)), ((8, 6, 5), (8, 5, 7)), ((1, 4, 6, 5), (9, 1, 5, 7)), ((6, 5), (12, 5, 7)),
          ((9, 4, 6, 5), (4, 5, 7)), ((5,), (12, 5, 7)), ((12, 6, 5), (5,)), ((3, 4, 6, 5), (3, 4, 5, 1)))
"""The shapes of the operands of products of stacks, which may lack dimensions."""


def sweeps(np: Any, before: int, after: int, far: bool) -> list[Any]:
    """A stencil that reads rows before and after its own, and is written back; `far`: not in its own rows."""
    u = np.asarray((np.arange(97 * 30.0).reshape(97, 30) * 7) % 31)
    rows, n = slice(before, 97 - after), 97 - before - after
    for _ in range(3):
        new = u[rows, 1:-1] * 0.5
        for k in range(before + after + 1):
            new = new + u[k:k + n, :-2] * 0.25 + u[k:k + n, 2:]
        if far:
            u[before + 1:97 - after - 1, 1:-1] = new[:-2] - new[2:]
        else:
            u[rows, 1:-1] = new * 0.125
    del new
    return [u]


@pytest.mark.parametrize("far", (False, True))
@pytest.mark.parametrize("ranks, threads", [(1, 2), (2, 1), (2, 3), (3, 2), (4, 1), (6, 1)])
def test_a_stencil_and_its_write_back_are_one_pass_on_each_rank(ranks: int, threads: int, far: bool) -> None:
    for before, after in ((1, 1), (1, 0), (0, 2), (2, 1)):
        with settings.using(runtime="local", small=0, min_chunk=64):
            expected = [np.array(value) for value in sweeps(dnp, before, after, far)]
        with settings.using(threads=threads, compile="wait"), simulated(ranks) as kept:
            passes = trace.counters["pipelined"]
            found = [np.array(value) for value in sweeps(dnp, before, after, far)]
            passes = trace.counters["pipelined"] - passes
            bytes_sent = kept.total(int).bytes
        with settings.using(threads=threads, compile="wait"), simulated(ranks, False) as foreseen:
            assert np.array(sweeps(dnp, before, after, far)[0]).tobytes() == expected[0].tobytes()
            assert foreseen.total(int).bytes == bytes_sent
        assert [x.tobytes() for x in found] == [x.tobytes() for x in expected]
        assert passes > 0, (before, after)


def products(planned: bool) -> list[bytes]:
    """The products, twice, each with something before and behind it."""
    found = []
    for one, other in STACKS:
        for _ in range(2):
            x = dnp.arange(float(np.prod(one))).reshape(one) % 7.0 + 0.1
            y = dnp.sqrt(dnp.arange(float(np.prod(other))).reshape(other))
            with regions.plan() if planned else nullcontext():
                z = (x * 0.5) @ (y + 0.25) + 1.0
            found.append(np.array(z).tobytes())
    return found


@pytest.mark.parametrize("planned", (False, True))
@pytest.mark.parametrize("ranks", (2, 3, 5))
def test_products_of_stacks(ranks: int, planned: bool) -> None:
    with settings.using(runtime="local", small=0, min_chunk=16, fallback="silent"):
        expected = products(False)
    with simulated(ranks), settings.using(min_chunk=16):
        assert products(planned) == expected


def test_a_stack_is_multiplied_where_it_lies() -> None:
    """A matrix that all share comes to each rank; nothing else moves."""
    with simulated(4) as kept:
        x, w = dnp.zeros((64, 8, 8)) + 1.0, dnp.zeros((8, 8)) + 2.0
        engine.fence()
        for _ in range(3):
            x = (x @ w) * 0.125
        engine.fence()
        assert kept.total(int).bytes <= 3 * w.nbytes


PROGRAMS = {"matmul": 40, "spmv": 600, "softmax": 12, "attention": 8, "cg": 24}
"""Those of papers/000 and conjugate gradients, and their sizes here."""


def after(name: str, planned: bool = False) -> tuple[dict[str, bytes], Any]:
    """The results of a program after four steps, with Diffuse in the place of NumPy and SciPy."""
    app = import_module(f"apps.{name}")
    blocks._known.clear()  # the first product of its shapes is computed whole, in each run
    with patch.object(app, "np", dnp), patch.object(app, "sp", diffuse.scipy.sparse, create=True):
        _, state = application(name, PROGRAMS[name])
        for _ in range(4):
            with regions.plan(_site=name) if planned else nullcontext():
                app.step(state)
        _, error, bound = app.check(state)
        assert error <= bound or name == "cg"
        return {key: np.array(value).tobytes() for key, value in app.results(state).items()}, engine.current()


@pytest.mark.parametrize("ranks", SOME)
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_the_thesis(name: str, ranks: int) -> None:
    """One process' bits, planned or not, by as many bytes and messages as are predicted."""
    with settings.using(runtime="local", small=0, min_chunk=64, fallback="silent"):
        expected, _ = after(name)
    with simulated(ranks, simulate=False) as kept:
        predicted, running = after(name)
        foreseen = kept.summed(running.runtime.over_ranks)
    with simulated(ranks) as kept:
        found, running = after(name)
        rows = kept.summed(running.runtime.over_ranks)
    with simulated(ranks):
        planned, _ = after(name, planned=True)
    assert found == predicted == planned == expected
    assert rows == foreseen and (sum(row.bytes for row in rows.values()) > 0) == (ranks > 1)


def turns(name: str, count: int, memory: int | None = None) -> int:
    """The most memory of a rank in the last turn of a program whose turns are planned, with its results."""
    app = import_module(f"apps.{name}")
    with patch.object(app, "np", dnp):
        _, state = application(name, PROGRAMS.get(name, 40))
        for turn in range(count):
            each: Any = engine.current().runtime
            for rank in each._each if turn == count - 1 else ():
                rank._peak = rank._touched[rank.rank]
            with regions.plan(memory=memory, _site=name):
                app.step(state)
            engine.fence()
        found = max([rank.peak for rank in each.counted()])
        _, error, bound = app.check(state)
        assert error <= bound
    return int(found)


@pytest.mark.parametrize("name, ranks", [
    *product(("matmul", "softmax", "stencil"), rounds((3, 8), RANKS[1:-2])),
    ("matmul", 12), ("matmul", 16), ("stencil", 12)])
def test_no_rank_takes_more_memory_than_its_plan_says(name: str, ranks: int) -> None:
    """Nor more than a limit: the least one that errors name, of the first turn and those after it."""
    with simulated(ranks), patch.dict(regions._regions, clear=True):
        found = turns(name, 6)
        (planned,) = regions._regions.values()
        assert 0 < found <= max([each.peak for each in planned.answers_last])
    memory = 1
    for _ in range(4):
        with simulated(ranks), patch.dict(regions._regions, clear=True):
            try:
                found = turns(name, 6, memory)
            except MemoryError as refused:
                assert "the least that would do is" in str(refused)
                memory = int(str(refused).splitlines()[0].split()[-1])
            else:
                assert 1 < found <= memory
                return
    raise AssertionError(f"{memory} bytes do not do")


def test_ranks_that_wait_for_each_other_are_named() -> None:
    lockstep = Lockstep(3)
    post = Post(lockstep)
    lines = [Line(rank, post) for rank in range(3)]
    memory = np.zeros(8, np.uint8)
    with pytest.raises(Stuck, match="rank 0 for messages of rank 1; rank 2 for all others to meet it"):
        lockstep.run(lambda rank: lines[0].exchange([], [(1, memory)], 5) if rank == 0 else
                     lines[2].gather(1) if rank == 2 else None)
    with pytest.raises(ZeroDivisionError):
        lockstep.run(lambda rank: lines[rank].gather(1 // rank))
    assert lockstep.run(lambda rank: rank * rank) == [0, 1, 4]


def test_messages_arrive_in_the_order_in_which_they_were_sent() -> None:
    lockstep = Lockstep(2)
    post = Post(lockstep)
    lines = [Line(rank, post) for rank in range(2)]
    got = np.zeros((2, 4), np.uint8)

    def talk(rank: int) -> list[int]:
        words = lines[rank].swap([10 * rank, 10 * rank + 1])
        if rank:
            lines[1].exchange([(0, np.full(4, 1, np.uint8)), (0, np.full(4, 2, np.uint8))], [], 7)
        else:
            lines[0].exchange([], [(1, got[0]), (1, got[1])], 7)
        return words + lines[rank].gather(rank + 5)

    assert lockstep.run(talk) == [[0, 10, 5, 6], [1, 11, 5, 6]]
    assert got.tolist() == [[1] * 4, [2] * 4]
    assert (lines[1].sent, lines[1].messages, lines[0].received) == (8, 2, 8)
    with pytest.raises(RuntimeError, match="rank 1 sent 3 bytes to rank 0, which expects 4"):
        lockstep.run(lambda rank: lines[0].exchange([], [(1, got[0])], 9) if rank == 0 else
                     lines[1].exchange([(0, got[0][:3])], [], 9))

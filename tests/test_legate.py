"""The suite once more under Legate, in processes of its own: one rank alone, and two processors of Legate.

With two processors each launch is cut in two, whatever its size (DIFFUSE_MIN_CHUNK=1), so that every view
crosses tiles.  A process of pytest runs one group of files; what it said is shown where it fails.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.jobs import DISTRIBUTED, ROOT, TINY, found_in, job, needs_legate, python, run

pytestmark = needs_legate

SECONDS = 400
RECORDED = "-k", "not [small and not -small]"  # small arrays are computed at once, without a runtime
GROUPS = {
    "programs": ["test_programs.py"],  # the applications run in test_legate_grid.py
    "sparse": ["test_sparse_kernels.py", "test_streaming.py", "test_epilogue.py"],
    "arrays": ["test_numpy_array.py", "test_numpy_views.py", "test_floaterrors.py", *RECORDED],
    "reductions": ["test_fuzz_reductions.py", "test_numpy_reductions.py",
                   "-k", f"({RECORDED[1]}) and (not every_axis or float64)"],
    # of the tests with many random programs one, of test_fuzz_stream.py
    "fuzz": ["test_fuzz_numpy.py", "test_fuzz_stream.py", "-k", "not settings[ or settings[20"],
    "stream": ["test_engine.py", "test_runtime.py"],
    # Legate's task is built in the kernels' folder of the test that starts Legate: that of all tests for the
    # first one here.  Two that are left out start processes with folders of their own.
    "failures": ["test_engine.py::test_what_the_program_holds_is_kept", "test_failures.py",
                 "-k", "not share_a_cache and not multiprocessing and not any_line"],
}
ONE = "failures",
"""What one rank alone runs, whose launches are those of the local runtime's pool."""
ALONE: dict[str, Any] = {"DIFFUSE_NUM_THREADS": "2"}
TWO: dict[str, Any] = {"LEGATE_CONFIG": "--cpus 2 --gpus 0", "DIFFUSE_NUM_THREADS": "1",
                       "DIFFUSE_MIN_CHUNK": "1", "DIFFUSE_SMALL": "0"}


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    """The task of Legate's is built once, before several processes want it."""
    done = job(sys.executable, "-c", "import diffuse.numpy as np; print(float(np.ones(100_000).sum()))",
               seconds=SECONDS, DIFFUSE_RUNTIME="legate", DIFFUSE_LEGATE_MEMORY="512M")
    assert done.stdout == "100000.0\n", done.tail


@pytest.mark.parametrize(("how", "group"), [
    *(("alone", group) for group in ONE), *(("two", group) for group in GROUPS if group != "failures")])
def test_the_suite_under_legate(how: str, group: str) -> None:
    files = [str(ROOT / "tests" / word) if word.startswith("test_") else word for word in GROUPS[group]]
    done = job(sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider", "-rfE", *files,
               seconds=SECONDS, cwd=ROOT, DIFFUSE_RUNTIME="legate", DIFFUSE_LEGATE_MEMORY="1G",
               **(ALONE if how == "alone" else TWO))
    assert done.returncode == 0 and " passed" in done.stdout, done.tail


def test_every_runtime_gives_the_same_found_in(tmp_path: Path) -> None:
    """Of small calculations and of the applications; test_legate_distributed.py has several ranks."""
    found = {}
    for name, variables in {
        "local": {"DIFFUSE_RUNTIME": "local"},
        "reference": {"DIFFUSE_RUNTIME": "reference", "DIFFUSE_NUM_THREADS": "3"},
        "alone": {"DIFFUSE_RUNTIME": "legate", **ALONE},
        "two": {"DIFFUSE_RUNTIME": "legate", **TWO},
    }.items():
        (tmp_path / name).mkdir()
        done = job(*run(DISTRIBUTED, str(tmp_path / name)), seconds=SECONDS, **{**TINY, **variables})
        assert done.returncode == 0, done.tail
        (found[name],) = found_in(tmp_path / name)
    pieces = {name: found[name].pop("pieces") for name in ("alone", "two")}
    assert set(pieces["alone"]) == {1} and 2 in pieces["two"]
    for one in found.values():
        for key in ("pid", "ranks", "rank"):
            one.pop(key, None)
    assert found["local"] == found["reference"] == found["alone"] == found["two"]


# -- what is not as it is without Legate -------------------------------------------------------------------


def legate(text: str, **variables: str) -> str:
    done = python(text, DIFFUSE_RUNTIME="legate", DIFFUSE_LEGATE_MEMORY="512M",
                  **{"DIFFUSE_SMALL": "0", **variables})
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_what_every_point_reads_whole_is_as_it_was_written() -> None:
    """While it also reads its own tile; always stores that Legate has not seen, and at once."""
    assert legate("""
        import diffuse
        import diffuse.numpy as np
        import numpy
        a, found, wrong = np.arange(3600.0), [], 0
        for k in range(300):
            p = a * 0.5 + k
            if k % 2:
                diffuse.flush()
            found.append((p, p[::-1] - p))
            if k % 2:
                diffuse.flush()
            a = a + 1.0
        for k, (_, difference) in enumerate(found):
            p = (numpy.arange(3600.0) + k) * 0.5 + k
            wrong += not (numpy.asarray(difference) == p[::-1] - p).all()
        print(wrong)
        """, **TWO) == "0\n"


def test_another_thread_is_told_to_leave_it_to_the_main_one() -> None:
    said = legate("""
        import threading
        import diffuse.numpy as np
        a = np.ones(5000)
        print(float(a.sum()))
        def work():
            try:
                print(float((a * 2).sum()))
            except RuntimeError as error:
                print(error)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        print(float((a * 3).sum()))
        """)
    first, second, third = said.splitlines()
    assert (first, third) == ("5000.0", "15000.0") and "from the main thread only" in second


def test_a_forked_process_is_told_that_it_has_no_legate() -> None:
    said = legate("""
        import os
        import diffuse.numpy as np
        a = np.ones(5000)
        print(float(a.sum()), flush=True)
        child = os.fork()
        if not child:
            try:
                print(float((a * 2).sum()), flush=True)
            except RuntimeError as error:
                print(error, flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        print(float((a * 3).sum()))
        """)
    first, second, third = said.splitlines()
    assert (first, third) == ("5000.0", "15000.0") and "spawn" in second


@pytest.mark.parametrize("variables", [ALONE, TWO], ids=["alone", "two"])
def test_writing_part_of_what_the_host_gave_keeps_the_rest(variables: dict[str, str]) -> None:
    said = legate("""
        import numpy, diffuse.numpy as np
        plain = numpy.arange(3 * 40 * 50.0).reshape(3, 40, 50)
        a = np.array(plain)
        a[-1:] = 300
        plain[-1:] = 300
        print(numpy.array_equal(numpy.array(a), plain))
        """, **variables)
    assert said == "True\n"


@pytest.mark.parametrize("variables", [ALONE, TWO], ids=["alone", "two"])
def test_a_program_leaves_legate_and_comes_back(variables: dict[str, str]) -> None:
    said = legate("""
        import numpy, diffuse.numpy as np
        from diffuse import config
        a = np.arange(50_000.0)
        for runtime in ("legate", "local", "legate", "reference", "legate"):
            config.runtime = runtime
            a = a * 2.0 - 1.0
            a[1:] += a[:-1]
            print(float(a.sum()))
        config.runtime = "local"
        b = np.arange(50_000.0)
        for _ in range(5):
            b = b * 2.0 - 1.0
            b[1:] += b[:-1]
        print(numpy.array_equal(numpy.array(a), numpy.array(b)))
        """, **variables)
    assert said.endswith("True\n") and said.count("\n") == 6


def test_floating_point_errors_are_seen_compiled_and_interpreted() -> None:
    for compile in ("off", "wait"):
        said = legate("""
            import warnings, numpy, diffuse.numpy as np
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                numpy.array(1 / np.zeros(5000))
            print([str(w.message) for w in said])
            """, DIFFUSE_COMPILE=compile)
        assert said == "['divide by zero encountered in divide']\n"


@pytest.mark.parametrize("threads", ["1", "2"])
def test_launches_in_tasks_of_legate_join_a_full_queue(threads: str) -> None:
    """A store that another library holds is asked for in a task; the pool takes no more than 256 launches."""
    said = legate("""
        import numpy, diffuse.numpy as np
        from diffuse.stream import engine
        stream = engine.current()
        a, b = np.zeros(5000), np.zeros(5000)
        a += 1
        engine.fence()
        stream.sharing.share(stream.stores.instance(a.storage.id))
        tasks = 0
        create = stream.runtime.placement.task
        def counted(spread):
            global tasks
            tasks += 1
            return create(spread)
        stream.runtime.placement.task = counted
        for _ in range(700):
            b += 1
        engine.flush()
        print(tasks)
        for _ in range(700):
            b += 1
            a += b
        print(float(a.sum()) / 5000, float(b.sum()) / 5000, tasks >= 700)
        """, DIFFUSE_NUM_THREADS=threads, DIFFUSE_WINDOW_SIZE="1", DIFFUSE_COMPILE="wait")
    assert said == f"0\n{1 + sum(range(701, 1401))}.0 1400.0 True\n"

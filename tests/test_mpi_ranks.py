"""Several ranks over MPI: one rank's bits, half the memory, an end together when ranks fail or diverge."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.jobs import DISTRIBUTED, ROOT, TINY, diffuse, found_in, job, network, over_mpi, run, script

pytestmark = pytest.mark.ranks("mpi")


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the local runtime finds."""
    folder = tmp_path_factory.mktemp("one")
    done = job(*run(DISTRIBUTED, str(folder)), **TINY)
    assert done.returncode == 0, done.tail
    (found,) = found_in(folder)
    return results(found)


def results(found: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in found.items() if key not in ("pid", "ranks", "rank", "pieces")}


@pytest.mark.parametrize("ranks, chosen", [
    (2, ()), (3, ("halos", "stencil_in_place", "shifted_in_place", "folds", "decisions")),
    (4, ("halos", "folds"))])
def test_all_ranks_find_what_one_does(ranks: int, chosen: tuple[str, ...], tmp_path: Path,
                                      expected: dict[str, Any]) -> None:
    done = over_mpi(ranks, DISTRIBUTED, str(tmp_path), *chosen, **TINY)
    assert done.returncode == 0, done.tail
    found = found_in(tmp_path)
    assert {(one["ranks"], one["rank"]) for one in found} == {(ranks, k) for k in range(ranks)}
    for one in found:
        assert results(one) == {name: expected[name] for name in chosen or expected}
        assert sum(n == ranks for n in one["pieces"]) > len(one["pieces"]) // 3


def test_two_machines(tmp_path: Path, expected: dict[str, Any]) -> None:
    """Over TCP, between two network namespaces."""
    chosen = "elementwise", "halos", "folds"
    with network(tmp_path) as net:
        agent = (f"--prtemca plm_ssh_agent {net.agent} --prtemca prte_if_include {net.addresses[0]}/30 "
                 "--bind-to none")
        command = run("--runtime", "mpi", "--ranks", "1", "--cpus", "1", "--hosts", ",".join(net.addresses),
                      "--launcher-extra", agent, DISTRIBUTED, str(tmp_path), *chosen)
        done = job(*net.within(0, *command), **TINY)
        assert done.returncode == 0, done.tail
        assert min(net.sent()) > 1 << 20  # halves of arrays travelled, both ways
    assert [results(one) for one in found_in(tmp_path)] == [{name: expected[name] for name in chosen}] * 2


def test_random_programs_agree_with_numpy(tmp_path: Path) -> None:
    text = f"""
        import runpy, sys
        sys.argv = ["fuzz_ranks.py", "0", "20", "10"]
        runpy.run_path({str(ROOT / "tests" / "fuzz_ranks.py")!r}, run_name="__main__")
    """
    done = over_mpi(2, "--real", "tests", script(tmp_path, text), **{**TINY, "DIFFUSE_MIN_CHUNK": "1"})
    assert done.returncode == 0 and "20 programs on 2 ranks" in done.stdout, done.tail
    assert int(done.stdout.rpartition(" in several")[0].rpartition(" ")[2]) > 50


@pytest.mark.parametrize("ranks, first, last", [(2, 0, 12), (3, 12, 20)])
def test_random_passes_agree_with_numpy(ranks: int, first: int, last: int) -> None:
    """Sweeps that run with their copies or write-backs as one pass, whose ranks read rows of each other."""
    done = over_mpi(ranks, "--real", "tests", str(ROOT / "tests" / "fuzz_passes.py"), str(first), str(last),
                    **{**TINY, "DIFFUSE_COMPILE": "wait"})
    assert done.returncode == 0 and f"{last - first} programs on {ranks} ranks" in done.stdout, done.tail
    assert int(done.stdout.split(" passes")[0].split()[-1]) > 5 * (last - first)


REST = """
    import numpy as np
    from diffuse.scipy import sparse
    from diffuse.scipy.sparse.linalg import cg
    import hashlib

    def say(name, value):
        value = np.asarray(value)
        print(name, value.shape, value.dtype, hashlib.sha256(value.tobytes()).hexdigest()[:16])

    n = 40
    line = sparse.diags([-np.ones(n - 1), 2 * np.ones(n), -np.ones(n - 1)], [-1, 0, 1])
    A = sparse.csr_array(sparse.kron(line, sparse.identity(n)) + sparse.kron(sparse.identity(n), line))
    b = np.arange(n * n) % 7.0
    x, status = cg(A, b, maxiter=20)
    say("cg", x)
    say("csr", A @ b)
    a = np.random.default_rng(3).random((60, 50))
    say("random", a)
    say("matmul", (a @ a.T)[::2] * 2)
    say("scans", np.cumsum(a, axis=0) + np.cumprod(a, axis=1))
    say("sort", np.sort(a, axis=0)[1:] - a[:-1])
    say("take", a[[3, 1, 4, 1, 5]] * 2)
    a[a > 0.5] = 0.25
    a.reshape(-1)[100:2000:7] += 1.0
    a.T[3] = a[:, 7]
    say("in place", a)
    z = a + 1j * a[::-1]
    z.real[1:] += z.imag[:-1]
    say("complex", z)
    say("roll", np.roll(a, 5, axis=0) + np.roll(a, -3, axis=1))
    say("where", np.where(a > a.mean(axis=0), a, -a).min(axis=1))
    say("arg", a.argmax(axis=0) + a.argmin(axis=0))
    say("bits", np.packbits(a > 0.3))
    say("fft", np.fft.fft(a, axis=1).imag)
    say("empty", a[:0].sum(axis=0) + 1)
    say("0-d", np.float64(a[3, 4]) + a.sum() / a.size)
    print(a[::20, ::25], a[7, 7], np.median(a))
    print(np.random.default_rng().random() >= 0)
    with np.errstate(all="raise"):
        try:
            (a[40:] / 0.0).sum()
        except FloatingPointError as error:
            print(error)
"""


def test_the_rest_of_a_library(tmp_path: Path) -> None:
    path = script(tmp_path, REST)
    plain = diffuse("run", path, **TINY, DIFFUSE_FALLBACK="silent")
    assert plain.returncode == 0, plain.tail
    done = over_mpi(2, path, **TINY, DIFFUSE_FALLBACK="silent")
    assert (done.returncode, done.stdout) == (0, plain.stdout), done.tail


HALF = """
    import diffuse, numpy as np
    from diffuse.stream import engine

    def resident():
        with open("/proc/self/status") as lines:
            return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1024

    np.ones((500, 500)).sum()
    diffuse.fence()
    before = resident()
    x = np.ones((2000, 4000))  # 61 MB
    x += 1.0
    y = x[1:-1, 1:-1] + x[:-2, 1:-1]
    diffuse.fence()
    print("took", resident() - before)
    print(x[1500, 3000], y[0, 0], x.sum())
    print("goes on", (x + y[0, 0]).sum())
"""


def test_an_array_takes_half_of_its_memory_on_each_of_two_ranks(tmp_path: Path) -> None:
    path = script(tmp_path, HALF)
    done = over_mpi(2, "--output", "all", path)
    assert done.returncode == 0, done.tail
    took = [float(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("took")]
    assert len(took) == 2 and all(55 < megabytes < 75 for megabytes in took), took  # of 122 for two arrays
    assert done.stdout.count("2.0 4.0 16000000.0") == 2 and done.stdout.count("goes on 48000000.0") == 2


def test_too_much_memory_is_an_error_on_all_ranks_and_the_session_goes_on(tmp_path: Path) -> None:
    path = script(tmp_path, """
        import numpy as np
        x = np.ones((2000, 4000))
        x += 1.0
        print(x.sum())
        try:
            str(np.convolve(x.reshape(-1), x.reshape(-1)))
        except MemoryError as error:
            print("no:", str(error).partition(" for ")[0], error.__traceback__.tb_lineno)
        print(x[:10, :10].sum())
    """)
    done = over_mpi(2, "--output", "all", "--memory", "50M", path, DIFFUSE_FALLBACK="silent")
    assert done.returncode == 0, done.tail
    said = ("no: numpy.convolve runs by NumPy, which needs whole arrays on every rank: "
            "31232000 bytes more on rank 0 7")
    assert done.stdout.count(said) == 2, done.tail
    assert done.stdout.count("16000000.0") == 2 and done.stdout.count("200.0") == 2


ENDS = {
    "raises": ("raise ValueError('enough')", 1, ("rank 1 of 2: Traceback", "line 7", "ValueError: enough")),
    "exits": ("sys.exit(3)", 3, ("rank 1 of 2 ended the program with status 3",)),
    "is killed": ("os.kill(os.getpid(), signal.SIGKILL)", 137, ("signal 9",)),
    "leaves": ("sys.exit(0)", 1, ("rank 0: the ranks went different ways", "the end of the program")),
    "computes more": ("x = x[::-1] + x; print(x[0, 0])", 1,
                      ("rank 1: the ranks went different ways", "add [", "x.py:7", "x.py:8")),
    "has other numbers": ("x = x * 1.5", 1, ("the ranks went different ways", "x.py:7")),
}


@pytest.mark.parametrize("how", ENDS)
def test_all_ranks_end_together_and_say_why(how: str, tmp_path: Path) -> None:
    text, status, said = ENDS[how]
    path = script(tmp_path, f"""
        import os, signal, sys, time
        import numpy as np
        x = np.arange(60000.0).reshape(300, 200)
        print((x[::-1] + x).sum())
        if os.environ["OMPI_COMM_WORLD_RANK"] == "1":
            {text}
        y = x[1:] - x[:-1]
        print(y.sum())
        print(time.monotonic())
    """)
    done = over_mpi(2, path, **TINY)
    assert done.returncode == status, done.tail
    assert all(words in done.stderr for words in said), done.tail


def test_one_process_without_a_launcher_is_one_rank() -> None:
    text = "import numpy as np; x = np.arange(1e5).reshape(100, -1); print((x[1:] + x[:-1]).sum(), x[5, 7])"
    done = diffuse("run", "--runtime", "mpi", "-c", text, **TINY)
    assert (done.returncode, done.stdout) == (0, "9899901000.0 5007.0\n"), done.tail


def test_without_mpi4py_the_error_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(textwrap.dedent("""
        import importlib.util
        before = importlib.util.find_spec
        importlib.util.find_spec = lambda name, *rest: None if name == "mpi4py" else before(name, *rest)
    """))
    path = f"{tmp_path}:{ROOT}"
    done = diffuse("run", "--runtime", "mpi", "--ranks", "2", "-c", "pass", PYTHONPATH=path)
    assert done.returncode == 1 and "pip install 'diffuse[mpi]'" in done.stderr, done.tail
    done = job(sys.executable, "-m", "diffuse", "run", "--runtime", "mpi", "-c",
               "import numpy as np; np.ones(100000).sum()", PYTHONPATH=path)
    assert done.returncode == 1 and "needs mpi4py" in done.stderr, done.tail

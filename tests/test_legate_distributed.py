"""Several ranks: one program gives one rank's bits on all of them, and a rank that fails ends the job.

Ranks run on this host, and as on two machines: in two network namespaces with a cable between them, over TCP.
"""

from __future__ import annotations

import shlex
import shutil
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.jobs import (
    DISTRIBUTED,
    ROOT,
    TINY,
    Job,
    Network,
    diffuse,
    found_in,
    job,
    network,
    run,
    script,
)
from tests.legate_grid import INSTALLED
from tests.service import gone
from tests.test_watchdog import ends

pytestmark = pytest.mark.ranks

ONE: dict[str, Any] = {**TINY, "DIFFUSE_RUNTIME": "legate", "DIFFUSE_NUM_THREADS": "2"}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What one rank finds; the task of Legate's and most kernels are built on the way."""
    folder = tmp_path_factory.mktemp("one")
    done = job(*run(DISTRIBUTED, str(folder)), seconds=300, **ONE)
    assert done.returncode == 0, done.tail
    (found,) = found_in(folder)
    assert found["ranks"] == 1 and set(found["pieces"]) == {1}
    return results(found)


@pytest.fixture(scope="module")
def two_machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    with network(tmp_path_factory.mktemp("network")) as made:
        yield made


def results(found: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in found.items() if key not in ("pid", "ranks", "rank", "pieces",
                                                                         "launches")}


def on_this_host(*words: str, ranks: int = 2) -> Job:
    return job(*run("--ranks", str(ranks), "--cpus", "1", *words), **TINY)


def on_two_machines(net: Network, *words: str, ranks: int = 1) -> Job:
    agent = (f"--prtemca plm_ssh_agent {net.agent} --prtemca prte_if_include {net.addresses[0]}/30 "
             "--bind-to none")
    command = run("--ranks", str(ranks), "--cpus", "1", "--hosts", ",".join(net.addresses),
                  "--launcher-extra", agent, *words)
    return job(*net.within(0, *command), **TINY, UCX_TLS="tcp,self")


def distributed(folder: Path, ranks: int, expected: dict[str, Any], *chosen: str) -> None:
    """Did so many processes share the work, and find what one does?"""
    expected = {name: expected[name] for name in chosen or expected}
    found = found_in(folder)
    assert len({one["pid"] for one in found}) == ranks
    assert {(one["ranks"], one["rank"]) for one in found} == {(ranks, k) for k in range(ranks)}
    for one in found:
        assert results(one) == expected
        assert sum(n == ranks for n in one["pieces"]) > len(one["pieces"]) // 2


def test_two_ranks_on_one_host(tmp_path: Path, expected: dict[str, Any]) -> None:
    done = on_this_host(DISTRIBUTED, str(tmp_path))
    assert done.returncode == 0, done.tail
    distributed(tmp_path, 2, expected)


def test_two_ranks_with_grid_kernels(tmp_path: Path, expected: dict[str, Any]) -> None:
    """Each rank has one of the GPUs of legate_grid.py."""
    done = job(*run("--ranks", "2", "--cpus", "1", DISTRIBUTED, str(tmp_path)),
               **{**TINY, INSTALLED: "1"})
    assert done.returncode == 0, done.tail
    distributed(tmp_path, 2, expected)
    assert all(one["launches"] > 100 for one in found_in(tmp_path))


def test_tasks_of_grid_kernels_are_mapped_one_after_another(tmp_path: Path) -> None:
    """Of two that are mapped at a time each rank may give one the memory that the other one waits for."""
    path = script(tmp_path, """
        from tests import legate_grid
        import numpy as np
        from diffuse.stream import engine
        legate_grid.install()

        a = np.arange(60000.0).reshape(300, 200)
        place = engine.current().runtime.placement
        legate, calls = place.legate, []

        class Watched:
            def __getattr__(self, name):
                def call(*given, **named):
                    calls.append((name, *given[1:2]))
                    return getattr(legate, name)(*given, **named)
                return call

        place.legate = Watched()
        for _ in range(3):
            a = a[:, ::-1] * 2 + a.mean()
        print(float(a.sum()) > 0)
        made = [calls[k - 1][0] for k, call in enumerate(calls)
                if call == ("create_manual_task", place._grid_number)]
        print(len(made) > 3, set(made))
        """)
    done = job(*run("--ranks", "2", "--cpus", "1", path), **{**TINY, "PYTHONPATH": str(ROOT)})
    assert done.returncode == 0, done.tail
    assert done.stdout.splitlines() == ["True", "True {'issue_mapping_fence'}"], done.tail


def test_two_machines(tmp_path: Path, expected: dict[str, Any], two_machines: Network) -> None:
    chosen = "elementwise", "halos", "stencil_in_place", "folds", "products", "decisions"
    before = two_machines.sent()
    done = on_two_machines(two_machines, DISTRIBUTED, str(tmp_path), *chosen)
    assert done.returncode == 0, done.tail
    distributed(tmp_path, 2, expected, *chosen)
    sent = [after - start for start, after in zip(before, two_machines.sent(), strict=True)]
    assert min(sent) > 1 << 20, sent  # halves of arrays travelled, both ways


def test_two_ranks_in_a_container_with_little_shared_memory(tmp_path: Path) -> None:
    alone = "unshare", "-m"
    if not shutil.which(alone[0]) or job(*alone, "mount", "-t", "tmpfs", "none", "/dev/shm").returncode:
        pytest.skip("a /dev/shm of its own needs the rights to mount")
    path = script(tmp_path, "import numpy as np; print(np.ones(100000).sum())")
    words = shlex.join(run("--ranks", "2", "--cpus", "1", path))
    done = job(*alone, "sh", "-c", f"mount -t tmpfs -o size=16M none /dev/shm && exec {words}", **TINY)
    assert (done.returncode, done.stdout) == (0, "100000.0\n"), done.tail


def test_four_ranks_on_one_host(tmp_path: Path, expected: dict[str, Any]) -> None:
    chosen = "elementwise", "halos", "shifted_in_place"
    done = on_this_host(DISTRIBUTED, str(tmp_path), *chosen, ranks=4)
    assert done.returncode == 0, done.tail
    distributed(tmp_path, 4, expected, *chosen)


FAILURES = {"raise": "ValueError: rank 1 has had enough", "exit": "", "kill": ""}


@pytest.mark.parametrize("how", FAILURES)
@pytest.mark.parametrize("where", ["one host", "two machines"])
def test_a_rank_that_fails_ends_all(where: str, how: str, tmp_path: Path, expected: dict[str, Any],
                                    request: pytest.FixtureRequest) -> None:
    if where == "one host":
        done = on_this_host(DISTRIBUTED, str(tmp_path), how)
    else:
        done = on_two_machines(request.getfixturevalue("two_machines"), DISTRIBUTED, str(tmp_path), how)
    assert done.returncode != 0, done.tail
    assert FAILURES[how] in done.stderr, done.tail
    found = found_in(tmp_path)
    assert len(found) == 2 and all("pieces" not in one for one in found)  # both began, none came to its end
    assert all(gone(one["pid"]) for one in found)  # the launcher may end a moment before those that it ends


@pytest.mark.parametrize("how", ["sleep", "differ"])
def test_a_rank_that_is_stuck_or_differs_ends_all(how: str, tmp_path: Path, expected: dict[str, Any]) -> None:
    ends("legate", how, tmp_path)


BORDERS = """
    import hashlib
    import numpy
    import diffuse.numpy as np
    from diffuse.stream import engine

    def walls(a):
        a[:, 0], a[:, -1] = a[:, 1], a[:, -2]
        a[0], a[-1] = -a[1], a[-2]

    n = 1500
    a = np.array(numpy.sin(numpy.arange(n * n)).reshape(n, n))
    for _ in range(6):
        a[1:-1, 1:-1] = 0.25 * (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:])
        walls(a)
    print(hashlib.sha256(numpy.asarray(a).tobytes()).hexdigest())
    found = [prepared.cut for plan in engine.current().plans for layout in plan.layouts.values()
             for prepared in layout.derived.values() if hasattr(prepared, "cut")]
    print(sum(len(cut.assembled) for cut in found))
"""


def test_borders_of_an_array_move_without_all_that_is_between_them(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text(textwrap.dedent(BORDERS))
    one = diffuse("run", "x.py", cwd=tmp_path, DIFFUSE_RUNTIME="local", DIFFUSE_COMPILE="wait")
    two = diffuse("run", "--ranks", "2", "--cpus", "1", "x.py", cwd=tmp_path, DIFFUSE_LEGATE_MEMORY="1G")
    assert one.returncode == two.returncode == 0, one.tail + two.tail
    (bits, none), (found, assembled) = one.stdout.split(), two.stdout.split()
    assert found == bits and none == "0" and int(assembled) > 0


def test_random_programs_agree_with_numpy_on_two_ranks() -> None:
    mpirun = str(Path(sys.prefix, "bin", "mpirun"))
    done = job(mpirun, "-n", "2", "--oversubscribe", "--bind-to", "none", sys.executable,
               str(ROOT / "tests" / "fuzz_ranks.py"), "0", "60", "15", cwd=ROOT,
               DIFFUSE_RUNTIME="legate", DIFFUSE_NUM_THREADS="1", PYTHONHASHSEED="0",
               OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
               **{**TINY, "DIFFUSE_MIN_CHUNK": "1"})
    assert done.returncode == 0 and "60 programs on 2 ranks" in done.stdout, done.tail
    assert int(done.stdout.rpartition(" in several")[0].rpartition(" ")[2]) > 50


def test_random_programs_agree_with_numpy_on_two_processors() -> None:
    done = job(sys.executable, str(ROOT / "tests" / "fuzz_ranks.py"), "100", "225", "25",
               cwd=ROOT, DIFFUSE_RUNTIME="legate", DIFFUSE_NUM_THREADS="1",
               LEGATE_CONFIG="--cpus 2 --gpus 0", **{**TINY, "DIFFUSE_MIN_CHUNK": "1"})
    assert done.returncode == 0 and "125 programs on 1 ranks" in done.stdout, done.tail

"""Fixtures shared by all tests."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.each import fresh

# Tests, and the processes that they start, keep their kernels to themselves.
if "DIFFUSE_CACHE_DIR" not in os.environ:
    os.environ["DIFFUSE_CACHE_DIR"] = tempfile.mkdtemp(prefix="diffuse-tests-")
    atexit.register(shutil.rmtree, os.environ["DIFFUSE_CACHE_DIR"], ignore_errors=True)
elif Path(os.environ["DIFFUSE_CACHE_DIR"], "machine.json").exists():
    # Partitions depend on the machine that was measured; tests are about the one that `Machine()` describes.
    os.environ["DIFFUSE_CACHE_DIR"] = str(Path(os.environ["DIFFUSE_CACHE_DIR"], "tests"))

# Jobs of Open MPI keep their files in a folder named by a process's number. In one that outlives containers a
# killed job may have left files under a number that comes again, and then mpirun refuses to start.
if "PRTE_MCA_prte_tmpdir_base" not in os.environ:
    os.environ["PRTE_MCA_prte_tmpdir_base"] = tempfile.mkdtemp(prefix="diffuse-jobs-")
    atexit.register(shutil.rmtree, os.environ["PRTE_MCA_prte_tmpdir_base"], ignore_errors=True)

# Matplotlib looks through this machine's fonts once, not once for every program that draws.
os.environ.setdefault("MPLCONFIGDIR", str(Path(os.environ["DIFFUSE_CACHE_DIR"], "matplotlib")))

# Results that CuPy computes on a GPU have its bits; test_gpu_library.py, which is about them, asks for it.
os.environ.setdefault("DIFFUSE_CUPY", "0")

# Tests that run on a device stay there, however small their operations are; test_sides.py is about changes.
os.environ.setdefault("DIFFUSE_SIDES", "0")

# A job that a shell runs in the background ignores interrupts, and its children do; some tests send them.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

GOLDEN = Path(__file__).parent / "golden"
ROOT = GOLDEN.parent.parent
AT_FIRST = frozenset(os.listdir(ROOT))
"""The files and folders of the checkout before the tests."""

MANY = 8
"""The requests to compile that a test may leave behind."""

ELSEWHERE = {
    "local_only": (("legate", "mpi", "simt", "cuda"), "what a runtime promises whose memory the host shares"),
    "not_legate": (("legate", "mpi"), "what a runtime promises that runs in one process"),
    "not_device": (("simt", "cuda"), "what a runtime promises whose kernels run on the host's threads"),
    "not_gpu": (("cuda",), "what a runtime promises whose memory forked processes and NumPy can use"),
}
"""Markers of tests that are skipped where DIFFUSE_RUNTIME names some runtimes, and what such tests ask for.
The argument of a marker says what these runtimes do instead."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite tests/golden")


def pytest_configure(config: pytest.Config) -> None:
    from diffuse.service import client  # its server ends with it, whatever was requested

    client.BOOT = client.BOOT.replace("server.main()", "server.GRACE = 0.0; server.main()")
    for name, (runtimes, promise) in ELSEWHERE.items():
        config.addinivalue_line("markers", f"{name}(instead): {promise}; skipped on {', '.join(runtimes)}")
    config.addinivalue_line("markers", "ranks: runs several ranks, which want the machine for themselves")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Thousands of tests are objects that stay: the garbage collector looks at them neither now nor later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_runtest_setup(item: pytest.Item) -> None:
    runtime = os.environ.get("DIFFUSE_RUNTIME")
    for name, (runtimes, _) in ELSEWHERE.items():
        marker = item.get_closest_marker(name)
        if marker is not None and runtime in runtimes:
            pytest.skip(f"under {runtime} {marker.args[0]}")
    if (marker := item.get_closest_marker("ranks")) is not None:
        from tests.jobs import OVER_MPI, SEVERAL

        refusal = OVER_MPI if marker.args == ("mpi",) else SEVERAL
        if refusal is not None:
            pytest.skip(refusal)
    fresh()


def drop_requests() -> None:
    """Give up kernels that tests requested in the background, if these are many: few of them run again.  One
    that does is requested anew, as after a fork."""
    service, build = map(sys.modules.get, ("diffuse.service.client", "diffuse.kernels.build.compiler"))
    if service is None or build is None or len(service.client._asked) <= MANY:
        return
    client = service.client
    client.poll()
    if len(client._asked) > MANY and not client._starter:
        client.reset()
        build.compiler.after_fork()


_started = "legate.core" in sys.modules


@pytest.hookimpl(trylast=True)  # else what the test set up would stay
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """No test leaves a file in the checkout or holds the engine's lock, for which later tests would wait for
    ever.  Nor does one start Legate in the process of all tests, where it cannot be ended and later tests
    suppose that it has not started."""
    global _started
    added = [name for name in os.listdir(ROOT) if name not in AT_FIRST and not name.startswith(".")]
    assert not added, f"while this test ran, {added} came into {ROOT}: tests write to tmp_path"
    drop_requests()
    engine = sys.modules.get("diffuse.stream.engine")
    if engine is not None:
        assert not engine.current().entered(), "this thread still holds the engine's lock"
    before, _started = _started, "legate.core" in sys.modules
    assert before or not _started or os.environ.get("DIFFUSE_RUNTIME") == "legate", (
        "this test started Legate in the process of all tests: start it in one of its own (jobs.py)")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Compare a text with tests/golden/<test file>/<test>.txt."""

    def compare(text: str) -> None:
        name = "".join(c if c.isalnum() or c in "-_." else "_" for c in request.node.name)
        path = GOLDEN / request.path.stem / f"{name}.txt"
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n", encoding="utf-8")
        assert path.exists(), f"no {path}: look at the text, then run pytest --update-golden\n{text}"
        assert text + "\n" == path.read_text(encoding="utf-8")

    return compare


@pytest.fixture(autouse=True)
def room_in_tables() -> None:
    """No table is emptied or swept in the middle of a test because other tests have filled it: what it
    remembered is then found anew, as tests of waits and analyses would count.  Nor is anything done at once
    because of operations on new views in a test before."""
    stream, soon = sys.modules.get("diffuse.stream.engine"), sys.modules.get("diffuse.numpy.arrays.soon")
    if stream is None:
        return
    if soon is not None:
        soon.looked()
    from tests import tables

    tables.make_room()


@pytest.fixture
def nothing_alone() -> None:
    """No operation is done at once because the program waited for it alone in other tests."""
    from diffuse.stream import engine

    engine.fence()
    for template in engine.current().templates.known.values():
        template.alone = 0


@pytest.fixture
def planned_anew() -> Iterator[None]:
    """Every operation is recorded and runs by machine code, and no plan is one of another test."""
    from diffuse import settings
    from diffuse.stream import engine

    engine.fence()
    engine.current().window.forget()
    with settings.using(compile="wait", small=0, min_chunk=1000):
        yield
        engine.fence()


@pytest.fixture
def recorded_in_points() -> Iterator[None]:
    """Every operation is recorded and runs by machine code, as several point tasks from 500 elements on."""
    from diffuse import settings
    from diffuse.stream import engine

    engine.fence()
    with settings.using(compile="wait", small=0, min_chunk=500):
        yield
        engine.fence()


@pytest.fixture(params=[0, 8192], ids=["recorded", "small"])
def threshold(request: pytest.FixtureRequest) -> Iterator[None]:
    """Small arrays both ways: recorded as tasks, and computed at once."""
    from diffuse.settings import config

    before = config.small
    config.small = request.param
    yield
    config.small = before


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The device of the runtime cuda, on which arrays of any size are: a driver that interprets PTX."""
    if os.environ.get("DIFFUSE_RUNTIME") == "cuda":
        pytest.skip("a GPU is in the place of the driver that interprets kernels")
    from diffuse import settings
    from diffuse.runtime.device import driver
    from diffuse.stream import engine
    from tests.interpreted_gpu import Interpreted

    monkeypatch.setattr(driver, "Driver", Interpreted)
    with settings.using(runtime="cuda", small=0):
        runtime: Any = engine.current().runtime
        yield runtime.gpu

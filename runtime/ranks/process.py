"""Keeps the processes of several ranks deterministic, and ends them together.

Every rank records the same launches, so everything that the program depends on has to be equal on all of
them: random numbers without a seed (`seed`), and the moment at which the garbage collector frees stores
(`tick`).  Shutting Legate or MPI down waits for all ranks.  So a rank that fails ends its process at once,
and the launcher ends the others.
"""

from __future__ import annotations

import atexit
import faulthandler
import gc
import io
import os
import random
import stat
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from types import TracebackType
from typing import Any, NoReturn

from diffuse.runtime.ranks import launcher
from diffuse.service import code
from diffuse.settings import config

GRACE = 2.0
"""Seconds that other ranks wait for rank 0 to fail first, so that a common failure is reported once."""
OUTLIVES = 1.0
"""Seconds that a rank outlives the process that started it."""
YOUNG, MIDDLE, OLD = 1 << 9, 1 << 13, 1 << 16
"""Launches between garbage collections of each generation."""

_rank, _ranks = 0, 1
_settled = False
_seeded = False
_launches = 0
_farewells: list[Callable[[], None]] = []
_leaving = False


def settle_in(rank: int, ranks: int) -> None:
    """Set this process up as one of several ranks; later calls, and calls with one rank, do nothing."""
    global _rank, _ranks, _settled
    if ranks == 1 or _settled:
        return
    _rank, _ranks, _settled = rank, ranks, True
    if rank % launcher.local_ranks():
        code.follow()  # one rank of each node compiles kernels for all
    sys.excepthook = _uncaught
    threading.excepthook = _uncaught_in_thread
    sys.exit = _exit
    if not faulthandler.is_enabled():
        faulthandler.enable(file=2, all_threads=False)  # a crash in C code shows the program's line
    threading.Thread(target=_outlive, args=(os.getppid(),), daemon=True, name="diffuse launcher").start()
    gc.disable()
    gc.collect()
    gc.freeze()  # objects that live by now stay, and need not be scanned again
    if rank and config.output == "rank0":
        _silence()
    elif not rank and sys.flags.hash_randomization and os.environ.get("PYTHONHASHSEED", "random") == "random":
        warnings.warn("sets of strings iterate in another order on each rank: start with "
                      "`diffuse run --ranks`, or set PYTHONHASHSEED=0 for all", RuntimeWarning, stacklevel=2)


def _outlive(parent: int) -> None:
    """End this process soon after the one that started it: nobody else ends ranks of a launcher that was
    killed."""
    while os.getppid() == parent:
        time.sleep(OUTLIVES)
    end(1, f"rank {_rank} of {_ranks} ends, because the process that started it has ended\n")


def settle_in_early() -> None:
    """Set this process up before there is a runtime, if it is one of several ranks."""
    if launcher.ranks() > 1:
        settle_in(launcher.rank(), launcher.ranks())
        seed(launcher.job() or b"")


def _silence() -> None:
    """Discard standard output, of C code and child processes too, and Python's standard error.

    The descriptor of standard error stays open for tracebacks and for a library's last words.
    """
    sys.stdout.flush()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    sys.stderr = open(os.devnull, "w", encoding="utf-8")


def before_the_end(function: Callable[[], None]) -> None:
    """Call a function when this process ends in good order, or with an error message of its own; at once if
    it is ending already."""
    if _leaving:
        function()
        return
    _farewells.append(function)
    atexit.register(_say_farewell)


def _say_farewell() -> None:
    global _leaving
    _leaving = True
    while _farewells:
        _farewells.pop()()


def _flush_files() -> None:
    """Write what the program has put into files and left open, as the interpreter would when it ends."""
    gc.unfreeze()  # files from before this process was set up are looked for, too
    for each in gc.get_objects():
        if issubclass(type(each), (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)):
            try:
                if stat.S_ISREG(os.fstat(each.fileno()).st_mode):  # who reads others may wait for us
                    each.flush()
            except (OSError, ValueError, RuntimeError):  # closed, no file, or in the middle of writing
                pass


def leave(status: int, report: str | None = None) -> NoReturn:
    """End this process without waiting for other ranks, which the launcher then ends."""
    _say_farewell()
    _flush_files()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):  # closed, or replaced by the program
            pass
    if _rank:
        time.sleep(GRACE)  # most often rank 0 ends with the same words meanwhile, and this process with it
    if report is None:
        report = f"rank {_rank} of {_ranks} ended the program with status {status}\n" if _rank else ""
    try:
        os.write(2, report.encode("utf-8", "backslashreplace"))
    finally:
        os._exit(status)


def end(status: int, report: str) -> NoReturn:
    """End this process from a thread other than the program's, which may hold the locks of its streams."""
    os.write(2, report.encode("utf-8", "backslashreplace"))
    flushing = threading.Thread(target=sys.stdout.flush, daemon=True)
    flushing.start()
    flushing.join(0.5)
    os._exit(status)


def _uncaught(kind: type[BaseException], error: BaseException, where: TracebackType | None) -> None:
    """`sys.excepthook`: print the traceback with the rank's number and end the process."""
    said = "".join(traceback.format_exception(kind, error, where))
    leave(130 if issubclass(kind, KeyboardInterrupt) else 1, f"rank {_rank} of {_ranks}: {said}")


def _uncaught_in_thread(args: Any) -> None:
    """`threading.excepthook`: end the process, as a thread that failed on one rank makes ranks diverge."""
    if args.exc_type is not SystemExit and not isinstance(args.exc_value, SystemExit):
        _uncaught(args.exc_type, args.exc_value, args.exc_traceback)


class UncaughtExit(SystemExit):
    """A SystemExit that detects that it is not caught.

    The interpreter has no hook before it shuts down, which would wait for all ranks.  But it reads `code`,
    and is the only reader outside of any Python function.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._code: Any = args[0] if args else None

    @property
    def code(self) -> Any:
        if _outside() and self._code not in (None, 0):
            if isinstance(self._code, int):
                leave(self._code & 255)
            leave(1, f"{self._code}\n")
        return self._code

    @code.setter
    def code(self, value: Any) -> None:
        self._code = value


def _outside() -> bool:
    """Does the interpreter itself call the caller, with no Python function in between?"""
    try:
        sys._getframe(2)
    except ValueError:
        return True
    return False


def _exit(status: Any = None, /) -> NoReturn:
    """`sys.exit`, by an exception that detects that it is not caught."""
    raise UncaughtExit(status)


def tick() -> None:
    """Count a launch, and collect garbage every so many: the same launch is the same moment on all ranks."""
    global _launches
    _launches += 1
    if not _launches & (YOUNG - 1) and _settled:
        gc.collect(2 if not _launches & (OLD - 1) else 1 if not _launches & (MIDDLE - 1) else 0)


def seed(entropy: bytes) -> None:
    """Make random numbers without a seed equal on all ranks; only the first call has an effect.

    The global generators of `random` and `numpy.random` start from `entropy`, which all ranks share.
    Wherever NumPy wants entropy (`default_rng()`, `SeedSequence()`, `PCG64()`, `RandomState()`) it calls
    `randbits` of its module `bit_generator`; that becomes a stream that begins with `entropy`: each call
    gives other numbers, the same on all ranks.  What the system is asked for stays different: `os.urandom`,
    `secrets`, `uuid`, `random.Random()`.
    """
    global _seeded
    if _ranks == 1 or _seeded:
        return
    _seeded = True
    import numpy.random
    from numpy.random import bit_generator

    stream = random.Random(entropy)
    random.seed(stream.getrandbits(128))
    numpy.random.seed([stream.getrandbits(32) for _ in range(4)])
    setattr(bit_generator, "randbits", stream.getrandbits)

"""Runs programs as they are: `numpy` in the user's files means `diffuse.numpy`, and `scipy` `diffuse.scipy`.

`imports.py` redirects import statements; `real.py` leaves modules of the user's choice with NumPy itself;
`legate.py` has the parts of Legate that programs for cuPyNumeric use.  A program runs as Python would run it:
same `sys.argv`, `__main__`, `sys.path[0]`, tracebacks and exit status.
"""

from __future__ import annotations

import builtins
import importlib
import os
import runpy
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import SourceFileLoader
from types import ModuleType, TracebackType
from typing import Any

from diffuse import runtime
from diffuse.intercept import imports
from diffuse.service import early
from diffuse.settings import config

__all__ = ["numpy_replaced", "run", "run_code", "run_file", "run_module"]

HERE = os.path.dirname(os.path.abspath(__file__))


@contextmanager
def numpy_replaced() -> Iterator[None]:
    """While this context lasts, `import numpy` in the user's files means `diffuse.numpy`, and `scipy`
    `diffuse.scipy`."""
    before = builtins.__import__
    if isinstance(getattr(before, "__self__", None), imports.Answers):
        yield
        return
    realm = None
    if config.real:
        from diffuse.intercept.real import Realm

        realm = Realm(config.real.split(","))
    answers = imports.Answers(before, realm)
    builtins.__import__, importlib.import_module = answers.import_, answers.import_module
    try:
        yield
    finally:
        builtins.__import__, importlib.import_module = before, imports.python_import_module


def run(words: Sequence[str]) -> int:
    """Run what Python's command line would run for these arguments: a file, `-m module` or `-c code`."""
    if early.start(words[0]):
        runtime.foresee(config.runtime)
        importlib.import_module("diffuse.numpy")
        importlib.import_module("diffuse.intercept.placing").spread_threads()
    if words[0] == "-m":
        return run_module(words[1], words[2:])
    if words[0] == "-c":
        return run_code(words[1], words[2:])
    return run_file(words[0], words[1:])


def run_file(path: str, arguments: Sequence[str] = ()) -> int:
    """Run a program as `python path arguments...`; its exit status."""
    def body() -> None:
        with open(path, "rb") as source:
            code = compile(source.read(), path, "exec")
        main = _main(path)
        exec(code, main.__dict__)

    if not os.path.exists(path):
        print(f"diffuse: can't open file {os.path.abspath(path)!r}: [Errno 2] No such file or directory",
              file=sys.stderr)
        return 2
    if os.path.isdir(path) or path.endswith((".zip", ".pyz")):
        return _as_program([path, *arguments], path, lambda: runpy.run_path(path, run_name="__main__"))
    return _as_program([path, *arguments], os.path.dirname(os.path.realpath(path)), body)


def run_module(name: str, arguments: Sequence[str] = ()) -> int:
    """Run a program as `python -m name arguments...`."""
    return _as_program([name, *arguments], os.getcwd(),
                       lambda: runpy.run_module(name, run_name="__main__", alter_sys=True))


def run_code(text: str, arguments: Sequence[str] = ()) -> int:
    """Run a program as `python -c text arguments...`."""
    def body() -> None:
        exec(compile(text, "<string>", "exec"), _main(None).__dict__)

    return _as_program(["-c", *arguments], "", body)


def _main(path: str | None) -> ModuleType:
    """Make a fresh `__main__`, as Python sets it up for a program."""
    main = ModuleType("__main__")
    main.__dict__.update(__builtins__=builtins, __annotations__={}, __spec__=None)
    if path is not None:
        main.__dict__.update(__file__=path, __cached__=None, __loader__=SourceFileLoader("__main__", path))
    sys.modules["__main__"] = main
    return main


def _as_program(argv: list[str], folder: str, body: Callable[[], Any]) -> int:
    importlib.import_module("diffuse.numpy")
    sys.argv[:] = argv
    # console scripts and `python -m` leave their own first entry, which the program's folder replaces
    sys.path[:] = [folder, *(sys.path[1:] if _has_first_entry() else sys.path)]
    imports.chosen()  # raises ValueError for a wrong name
    if config.real:
        importlib.import_module("diffuse.intercept.real").check(config.real.split(","))
    try:
        with numpy_replaced():
            body()
            _finish()
        return 0
    except SystemExit as error:
        return _exit_status(error)
    except KeyboardInterrupt as error:
        _show(error)
        sys.stdout.flush()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
        return 130
    except BaseException as error:
        _show(error)
        return 1


def _has_first_entry() -> bool:
    return not getattr(sys.flags, "safe_path", False) and bool(sys.path)


def _finish() -> None:
    """Forward pending tasks and wait for them, so that their errors are reported."""
    engine = sys.modules.get("diffuse.stream.engine")
    if engine is not None:
        engine.fence()


def _exit_status(error: SystemExit) -> int:
    if error.code is None or isinstance(error.code, int):
        return error.code or 0
    print(error.code, file=sys.stderr)
    return 1


def _show(error: BaseException) -> None:
    """Print a traceback that begins in the user's program; of a module that is not found only the message."""
    first = error.__traceback__
    while first is not None and (_ours(first) or first.tb_frame.f_code.co_filename.startswith("<frozen")):
        first = first.tb_next
    if first is None and isinstance(error, ImportError):
        print(f"diffuse: {error}", file=sys.stderr)
        return
    if first is not None or isinstance(error, SyntaxError):
        error.__traceback__ = _without_imports(first)
    sys.excepthook(type(error), error, error.__traceback__)


def _ours(traceback: TracebackType) -> bool:
    return os.path.realpath(traceback.tb_frame.f_code.co_filename).startswith(imports.OWN + os.sep)


def _without_imports(traceback: TracebackType | None) -> TracebackType | None:
    """The traceback without the frames of our `__import__` and of calls to real modules."""
    kept = []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if os.path.dirname(code.co_filename) != HERE:
            kept.append(traceback)
        traceback = traceback.tb_next
    found: TracebackType | None = None
    for one in reversed(kept):
        found = TracebackType(found, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return found

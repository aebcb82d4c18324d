"""A worker thread for all calls of Numba, of its LLVM, and of native threads, where no interrupt can be
raised.

An interrupt may be raised in the main thread between any two steps of Python, so also inside llvmlite's lock,
which is then held for ever, or between the making of an object of LLVM's and the note of who owns it.  None
is raised in another thread.  So every call into llvmlite that the program needs is made in one thread of its
own, and every object of llvmlite's lives and ends there: what `call` returns are numbers, bytes and text.
(Kernels are compiled by a process of their own, see service/.)

Whoever waits here waits for a plain lock, which an interrupt leaves as it is: Python's conditions, events,
futures and thread pools hold locks of their own while Python code runs, and have the same fault.
"""

from __future__ import annotations

import _thread
import atexit
import gc
import os
import sys
import threading
from _queue import SimpleQueue
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class Job:
    """A function to run in the worker, and what came of it."""

    __slots__ = ("finished", "wanted", "error", "result", "_function", "_arguments", "_waiting")

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self.finished = False
        self.wanted = True
        """If nobody waits for it any more before it begins, it is not run."""
        self.error: BaseException | None = None
        self.result: Any = None
        self._function, self._arguments = function, arguments
        self._waiting: list[Any] = []

    def run(self) -> None:
        try:
            if self.wanted:
                self.result = self._function(*self._arguments)
        except BaseException as error:
            _strip(error)
            self.error = error
        del self._function, self._arguments
        self.finished = True
        for lock in self._waiting:
            lock.release()

    def wait(self) -> None:
        """Wait until the job is done."""
        lock = _thread.allocate_lock()
        lock.acquire()
        self._waiting.append(lock)
        if not self.finished:  # or it might have looked at `_waiting` before
            lock.acquire()


def _strip(error: BaseException) -> None:
    """Keep the lines of an error and let go of the variables there, which may be objects of LLVM's."""
    import traceback

    chain: BaseException | None = error
    while chain is not None:
        traceback.clear_frames(chain.__traceback__)
        chain = chain.__context__


class Worker:
    """A thread and its queue of jobs."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start without a thread and without jobs, as a forked child has to, in which the thread does not
        exist."""
        self._jobs: deque[Job] = deque()
        self._nudges: SimpleQueue[None] = SimpleQueue()
        """One for each job, or more: a nudge has the worker look at the queue until it is empty."""
        self._alive = _thread.allocate_lock()
        """Held by the thread: a second one ends at once."""
        self._working: Any = threading.RLock()
        """Held while a job runs.  It knows who holds it, wherever an interrupt came."""
        self._busy = False
        self._thread = 0

    def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Run a function in the worker and return its result.  An interrupt ends the waiting: a function that
        has not begun is then not run, and one that has begun runs to its end."""
        if _thread.get_ident() == self._thread:
            return function(*arguments)
        if sys.is_finalizing():
            raise RuntimeError("the program has ended: nothing is translated any more")
        job = Job(function, arguments)
        try:
            self._jobs.append(job)
            self._nudge()
            job.wait()
        except BaseException:
            job.wanted = False
            raise
        if job.error is not None:
            try:
                raise job.error
            finally:  # the worker may hold the job a moment longer, and the error has the caller's frames now
                job.error = None
        result: T = job.result
        return result

    def _nudge(self) -> None:
        if not self._alive.locked():
            _thread.start_new_thread(self._run, ())
        self._nudges.put(None)

    def _run(self) -> None:
        """The body of the thread, which lives as long as the process."""
        if not self._alive.acquire(blocking=False):
            return
        self._thread = _thread.get_ident()
        while True:
            self._busy = False
            self._nudges.get()
            self._busy = True
            while self._jobs:
                with self._working:
                    _undisturbed(self._jobs.popleft())

    def settle(self) -> None:
        """Wait, at the program's end and before LLVM's own destructors run, for the jobs that are queued or
        running."""
        interrupt: BaseException | None = None
        while self._alive.locked() and (self._jobs or self._busy):
            job = Job(_nothing, ())
            self._jobs.append(job)
            self._nudges.put(None)
            try:
                job.wait()
                break
            except BaseException as error:  # of the handler of a signal
                interrupt = error
        if interrupt is not None:
            raise interrupt

    def pause(self) -> None:
        """Wait, before a fork, until the running job has ended, and begin no other one before `resume`, so
        that LLVM's locks are free."""
        interrupt: BaseException | None = None
        while self._thread != _thread.get_ident() and not self._working._is_owned():
            try:
                self._working.acquire()
            except BaseException as error:  # of the handler of a signal
                interrupt = error
        if interrupt is not None:
            raise interrupt

    def resume(self) -> None:
        """Let jobs begin again, in the parent after a fork."""
        while self._thread != _thread.get_ident() and self._working._is_owned():
            self._working.release()


def _undisturbed(job: Job) -> None:
    """Run a job without Python's collector: who waits for it may hold a lock that a finalizer asks for."""
    collects = gc.isenabled()
    gc.disable()
    try:
        job.run()
    finally:
        if collects:
            gc.enable()


def _nothing() -> None:
    pass


worker = Worker()
call = worker.call


def shielded(function: Callable[[], None]) -> None:
    """Run a function in the worker, to its end or not at all, whatever interrupts the thread that waits for
    it."""
    if sys.is_finalizing():
        function()
    else:
        worker.call(function)


atexit.register(worker.settle)
os.register_at_fork(before=worker.pause, after_in_parent=worker.resume, after_in_child=worker.reset)

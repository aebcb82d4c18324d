"""Adds tasks to the window, forwards groups when it is full, and waits for tasks.

Any step may end by an exception: an interrupt, a failing task, no memory left.  The next step then first
restores consistency.
"""

from __future__ import annotations

import threading
from functools import cache
from typing import Any

from diffuse.ir.template import Recorded
from diffuse.observe import notices, trace
from diffuse.observe.floaterrors import AT_ONCE, geterr, modes_variable
from diffuse.runtime.base import Runtime
from diffuse.settings import config
from diffuse.stream.brevity import Brevity
from diffuse.stream.early import next_look, ready
from diffuse.stream.execute import Forwarder
from diffuse.stream.group import opaque
from diffuse.stream.losses import Losses
from diffuse.stream.plan import Plan
from diffuse.stream.stores import Stores
from diffuse.stream.templates import Templates
from diffuse.stream.waits import Waits
from diffuse.stream.walk import Walk
from diffuse.stream.window import CHAIN, LARGEST_SIZE, Window
from diffuse.stream.zeros import Zeros


class Queue:
    """The tasks of one program, from their recording to the end of their launch."""

    __slots__ = ("stores", "window", "forwarder", "zeros", "losses", "epoch", "walk", "waits", "brevity",
                 "templates", "_lock", "_torn", "_modes", "_seen", "_variable", "_checks", "_small", "_size")

    def __init__(self) -> None:
        self.stores = Stores()
        self.window = Window(self.stores)
        self.forwarder = Forwarder(self.stores, self.window)
        self.zeros = Zeros(self.stores, self.window)
        self.losses = Losses(self.stores)
        self.epoch = 0
        """How often the program has waited for all tasks."""
        self.walk = Walk(self.window)
        self.waits = Waits()
        self.brevity = Brevity()
        self._lock = threading.RLock()
        self._torn = False
        """Did an exception end a call that may have left the window or the stores inconsistent?"""
        self.templates = Templates()
        self._variable = modes_variable()
        self._seen: Any = None
        """The value of that context variable when the last task was recorded; None if errors had to show at
        the call."""
        self._modes: dict[str, Any] | None = None
        """NumPy's error modes of this value, under which unreported errors are reported."""
        self._adapt()

    @property
    def runtime(self) -> Runtime:
        return self.stores.runtime

    @property
    def host_sees(self) -> bool:
        return self.stores.host_sees

    @property
    def points(self) -> int:
        """The number of point tasks that run in parallel.  Reading it starts no threads."""
        known = not self.stores.made and config.runtime == "local"
        return _threads(config.threads) if known else self.runtime.points

    @property
    def plans(self) -> list[Plan]:
        return self.forwarder.plans

    def _add(self, task: Recorded, shows: bool) -> None:
        """Add a task to the window, and forward groups if the window is full, or all tasks if errors of this
        one have to show at the call."""
        trace.counters["recorded"] += 1
        made = task[0]
        if made.elements >= self._small:
            if self.walk.counts or self.walk.after or self.walk.begun:
                self.walk.end(task)
        elif made.reach >= self._small:
            self.walk.add(task)
        elif not made.cut and made.signature:
            self.walk.meet(task)
        if self._checks and not opaque(task[0]):
            from diffuse.ir.check import check

            check(task[0].task(task))
        if self._torn:
            self._mend()
        window = self.window
        if window.asks is not None:
            window.asks(task)
        try:
            held = self.zeros.held
            if not ((task[0].fills or (held and not held.keys().isdisjoint(task[1])))
                    and self.zeros.hold(task)):
                snapshots = window.snapshots
                if snapshots is not None and (task[0].operation, task[3]) in snapshots.lines:
                    task, _copies = snapshots.lifted(task, window)
                window.add(task)
                if self._size is not None:
                    if window.held >= self._size:
                        self.flush("the window is full")
                elif window.held >= window.size:
                    self._forward()
        except BaseException:  # an interrupt at any moment, or no stack or memory left
            self._torn = True
            raise
        if shows:
            self.fence()
        if self.stores.sides is not None and self.stores.sides.asks:
            self.stores.sides.consider(self)

    def on_device(self) -> None:
        """Go on on the device if the program has one, as another library asks for memory there."""
        with self._lock:
            if self.stores.sides is not None and self.runtime is not self.stores.sides.device:
                self.stores.sides.change(self)

    def _forward(self) -> None:
        """Forward the oldest groups, or let the window grow."""
        window = self.window
        while window.full() or window.closed and window.region is None and ready(window):
            self.forwarder.forward()
        if window.held >= window.limit:
            if window.limit < LARGEST_SIZE and not window.heavy:
                window.limit *= 2
            else:
                self.flush("the window is full")
        window.size = next_look(window)

    def _adapt(self) -> None:
        """Cache the settings that are needed for each recorded task, as looking them up takes time."""
        self._checks = config.check
        self._small = config.small
        self._size = None if config.window == "auto" else int(config.window)

    def _mend(self) -> None:
        """Restore consistency after an exception: recount window, stores and zeros.

        Not while a group is forwarded whose host function records, which has to finish first.
        """
        if not self.forwarder.busy:
            self.forwarder.mend()
            self.window.mend()
            self.stores.mend([(group.number, group.slots) for group in self.window.closed])
            self.zeros.mend()
            self._torn = False

    def turn_to(self, region: Any) -> Any:
        """Let a region of the program decide how its tasks are cut from now on (regions.py), or None again;
        returns what did before."""
        with self._lock:
            if self._torn:
                self._mend()
            if region is not None:
                self.brevity.forget()  # it sees only what is recorded
            try:
                return self.window.turn_to(region)
            except BaseException:
                self._torn = True
                raise

    def flush(self, reason: str = "the program waits") -> None:
        """Forward every task that is held."""
        with self._lock:
            if self._torn:
                self._mend()
            try:
                if self.zeros.held:
                    self.zeros.release()
                self.window.close(reason)
                if self.forwarder.thorough:
                    from diffuse.stream.singly import divide_overwritten

                    divide_overwritten(self.window)
                while self.window.closed:
                    self.forwarder.forward()
            except BaseException:
                self._torn = True
                raise
            if notices.waiting and not self.forwarder.busy:
                notices.report()

    def fence(self, reason: str = "the program waits") -> None:
        """Forward everything and wait until it is done."""
        with self._lock:
            if not (self.stores.made or self.unreported):
                return  # making a runtime takes 2 ms
            if self.window.region is not None:
                self.window.region.settle()
            idle = not self.forwarder.unreported and self.host_sees
            if self.waits.calls or self.window.held <= CHAIN:
                self.waits.note(self.window, idle)
            self.brevity.note(self.window, idle, self.runtime.points <= 1)
            if self.walk.counts and not self.walk.begun:
                self.walk.wait()
            self.flush(reason)
            self.runtime.fence()
            if self.host_sees:
                self._begin_epoch()
            self._report()

    def _begin_epoch(self) -> None:
        """Count what was recorded so far as done: nothing is pending or running."""
        if self.stores.lost:
            self.losses.begin_epoch(self)
        else:
            self.epoch += 1

    def fence_thoroughly(self) -> None:
        """Fence, and report also the errors of results that nobody sees any more."""
        with self._lock:
            self.forwarder.thorough = True
            try:
                self.fence()
            finally:
                self.forwarder.thorough = False

    @property
    def idle(self) -> bool:
        """Is nothing recorded or running, and does the host own the memory of stores?"""
        return not self.window.held and not self.forwarder.unreported and self.host_sees

    def _report(self) -> None:
        self.forwarder.report_flags(self._modes)

    @property
    def unreported(self) -> bool:
        """Are there floating-point errors that have not been reported yet?"""
        return bool(self.window.held or self._torn or self.forwarder.unreported)

    def entered(self) -> bool:
        """Is this thread inside the engine: recording, running a host function, reporting?"""
        lock: Any = self._lock
        return bool(lock._is_owned())

    def _shows(self) -> bool:
        """Before a task is recorded where NumPy's error modes were set anew, or in another context: report
        the errors of tasks that were recorded under other modes.  Do errors of this task have to show at
        the call?"""
        if self.forwarder.busy:  # a host function records, in the context of whoever waits for it
            return False
        given, modes = self._variable.get(), geterr()
        if modes != self._modes and self.unreported:
            self.fence()
        shows = not AT_ONCE.isdisjoint(modes.values())
        self._modes, self._seen = modes, None if shows else given
        return shows


@cache
def _threads(setting: Any) -> int:
    """The number of threads of a runtime that is made under this setting."""
    from diffuse.runtime import machine

    return machine.threads()

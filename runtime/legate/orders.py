"""Derives from a layout what all of its launches share: how they are cut, and the messages of their tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from diffuse.ir import ITEMSIZE
from diffuse.runtime.base import Launch, Layout
from diffuse.runtime.legate import message
from diffuse.runtime.legate.gpus import Devices
from diffuse.runtime.legate.instances import normal
from diffuse.runtime.legate.passes import Border, passed
from diffuse.runtime.legate.requirements import Cut, Need, cut
from diffuse.runtime.ranks.agreement import form


class Orders(NamedTuple):
    """The messages of a launch's tasks."""

    running: message.Message
    folding: message.Message | None
    """The message of the `finish` task, if that is a launch of its own."""
    launcher: int = 0
    """The address of the function that launches grid kernels; 0 if the kernel runs on processors."""

    def pack(self, words: message.Message, native: Any, finish: bool, pointers: Sequence[int], block: bytes,
             turn: int = 0) -> bytes:
        """The message of one task.  With `finish` it also runs the kernel's epilogue."""
        if self.launcher:
            return words.pack(self.launcher, words.listed, False, pointers, block)
        return words.pack(native.address, native.finish if finish else 0, False, pointers, block, turn)


class Prepared(NamedTuple):
    """Data derived from a layout once, for all of its launches."""

    cut: Cut
    slots: tuple[int, ...]
    """For each need, the index of its store among the launch's instances."""
    results: tuple[int, ...]
    layout: Layout
    """The layout in the shapes of Legate's stores."""
    direct: tuple[tuple[int, Need, bool, tuple[int, ...]], ...]
    """For each need: the index of its store among the launch's instances, the need, whether it writes, and
    the words of the block with its arguments' addresses."""
    messages: dict[object, Orders]
    """Messages, keyed by which needs are read from host memory, and by the operands that are received."""
    form: bytes
    """A digest of the layout, for the comparison of ranks."""
    border: Border | None = None
    """The rows that points exchange in a pass over two fused tasks."""
    replicated: int = 0
    """The bytes that each Legate point gets whole."""


def prepared(layout: Layout, span: int, whole: bool, assembles: bool = False) -> Prepared:
    """Cut the launches of a layout into Legate points of `span` points each (see `requirements.cut`)."""
    layout = _normal(layout)
    return _prepared(layout, cut(layout, span, whole, assembles))


def derived(layout: Layout, span: int, alone: bool, several: bool) -> Prepared | None:
    """What all launches of a layout share, on one Legate point (`alone`), on points of one rank, or on
    `several` ranks; None for a pass that cannot be cut into points."""
    if layout.header and several:
        return prepared_pass(layout, span)
    return prepared(layout, span, alone, several)


def prepared_pass(layout: Layout, span: int) -> Prepared | None:
    """Cut the passes of a layout into Legate points; None if that is impossible (see `passes.passed`)."""
    layout = _normal(layout)
    found = passed(layout, span)
    return None if found is None else _prepared(layout, *found)


def _normal(layout: Layout) -> Layout:
    """The layout in the shapes of Legate's stores."""
    arguments = tuple(a._replace(storage=normal(*a.storage)) for a in layout.arguments)
    return Layout(arguments, layout.scratch, layout.title, layout.domain)


def _prepared(layout: Layout, found: Cut, border: Border | None = None) -> Prepared:
    arguments = layout.arguments
    places: dict[int, int] = {}
    for k, a in enumerate(arguments):
        places.setdefault(a.slot, k)
    return Prepared(found, tuple(places[n.slot] for n in found.needs),
                    tuple(places[n.slot] for n in found.results), layout,
                    tuple((places[need.slot], need, need.writes,
                           tuple(a.word for a, k in zip(arguments, found.of, strict=True) if k == n))
                          for n, need in enumerate(found.needs)), {},
                    form(layout.title, found if border is None else (found, border)), border,
                    found.replicated({a.slot: ITEMSIZE[a.storage[1]] for a in arguments}))


def orders(launch: Launch, found: Prepared, hosted: Sequence[bool], inside: bool, devices: Devices | None,
           received: Sequence[message.Received] = ()) -> Orders:
    """The messages of all launches of a layout with one kernel."""
    layout, cut = found.layout, found.cut
    native: Any = launch.kernel.native
    words = message.running(layout, cut, hosted, inside, received, found.border)
    last = message.folding(layout, cut) if cut.results else None
    if devices is None or not on_grid(native):
        return Orders(words, last)
    functions = devices.functions(native)
    steps, rest = [[(functions[name], groups, argument) for name, groups, argument in part]
                   for part in native.parts(launch.values)]
    copying, rank = devices.copying, len(layout.domain)
    return Orders(words.launching(copying, rank, steps, () if cut.several else rest),
                  None if last is None else last.launching(copying, rank, (), rest), devices.launcher)


def on_grid(native: Any) -> bool:
    """Whether the code consists of grid kernels."""
    return hasattr(native, "parts")

"""Operations that the program waits for one by one, launched without the stream.

Recording a task, finding the replay of its group and waiting for the launch takes some 25 us of Python, about
as long as `exp` of 50,000 elements.  Where a library knows that the program waits for an operation alone, and
the memory of its operands is at hand, this can be skipped: a `Direct` is the launch of that one task, laid
out except for addresses and numbers.  It runs the task's own machine code, so the results have the same bits
either way.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy

from diffuse.ir.loops import SEGMENT
from diffuse.ir.template import Template
from diffuse.kernels.body import abi
from diffuse.kernels.body.compose import compose
from diffuse.kernels.build.compiler import compiler
from diffuse.memory import address
from diffuse.observe.floaterrors import KINDS, geterr, raised
from diffuse.runtime.base import CodeUse, Launch
from diffuse.settings import config
from diffuse.stream.decompose import decompose
from diffuse.stream.plan import Plan
from diffuse.stream.queue import Queue
from diffuse.stream.replay import Replay

Array = numpy.ndarray[Any, numpy.dtype[Any]]

CASTS: dict[str, Any] = {"float64": float, "complex128": complex}
"""The conversions of numbers to the most frequent types of computation.  Others use NumPy's."""

NUMBERS = {"float64": "d", "float32": "f", "int64": "q"}
"""How the C extension names the types of numbers that it puts into a block."""


class Direct:
    """The launch of an elementwise operation on operands of known layouts, with a new array as its result."""

    __slots__ = ("made", "out", "_engine", "_runtime", "_kernel", "_replay", "_kinds", "_casts", "_offsets",
                 "_last")

    def __init__(self, engine: Queue, made: Template, operands: Sequence[Any], out: Array) -> None:
        """Lay out the launch of a template's task for operands like these and results like `out`."""
        self.made, self.out, self._engine, self._runtime = made, out, engine, engine.runtime
        count = len(made.uses)
        chosen = decompose(made, None, engine.runtime.points, config.min_chunk)
        task = chosen.task((chosen, tuple(range(count)), (0,) * len(made.numbers), None))
        composition = compose((task,), ())
        self._kernel = compiler.kernel(composition.body)
        plan = Plan(composition, self._kernel, (task,), range(count), "", str)
        self._replay = Replay(plan, (task,), {slot: slot for slot in range(count)})
        self._kinds = [_kind(x) for x in operands]
        """For each array its element type, extents and strides; for each number None."""
        self._casts = tuple([CASTS.get(name) or numpy.dtype(name).type for _, name in made.numbers])
        offsets = [use.map.offset for use in made.uses]
        *self._offsets, self._last = offsets

    def ready(self) -> bool:
        """Has the machine code arrived?"""
        compiler.request(self._kernel)
        return self._kernel.native is not None

    def laid_out(self, operands: Sequence[Any]) -> tuple[Any, ...] | None:
        """Lay out the launch for the C extension (numpy/small/direct.c), for operands like these; None if its
        block has another form than one space that is cut along one dimension.

        Returns whether floating-point exceptions are to be reported, the object that keeps the code, its
        address, an array like the results, the block of one point, the extent that is cut, the elements of
        each of its indices, the indices of which points get a multiple, for each operand the type of a
        number in the block, and for each operand and the result the word of the block and what is added to
        the address there.
        """
        body, replay = self._kernel.body, self._replay
        numbers = ((self.made, (), (0,) * len(self._casts), None),)
        division = abi.whole(body, replay.values(numbers, [0] * len(replay.used), ()))
        if division is None or body.launch_rank != 1 or len(body.spaces) != 1 or body.split:
            return None
        (rank, (axis, *_), *_), values = body.spaces[0], division.values
        begin = abi.words(body).spaces[0] + 1
        extents, places, types = values[begin:begin + rank], replay.places(), replay.numbers()
        if axis < 0 or len(places) != len(self.made.uses) or not set(types.values()) <= NUMBERS.keys():
            return None
        arrays = iter([(word, values[word] - offset) for word, offset in
                       zip(places, (*self._offsets, self._last), strict=True)])
        given, kinds = iter(types.items()), [kind is None for kind in self._kinds]
        named = [next(given) if number else None for number in kinds]
        found = [next(arrays) if number is None else (number[0], 0) for number in named]
        return (_reports, self._kernel.native, self._kernel.native.address, self.out,
                self._kernel.pack(values), extents[axis], prod(extents) // extents[axis],
                SEGMENT if axis == rank - 1 else 1, tuple(operands),
                "".join(["p" if number is None else NUMBERS[number[1]] for number in named]),
                (*found, next(arrays)))

    def __call__(self, *operands: Any) -> Array | None:
        """Compute the result; None if a task has to be recorded: the operands have other layouts, something
        else is pending, or a floating-point error has to be reported."""
        addresses, numbers, offsets, casts = [], [], iter(self._offsets), iter(self._casts)
        for x, kind in zip(operands, self._kinds, strict=True):
            if kind is None:
                try:
                    numbers.append(next(casts)(x))
                except OverflowError:  # the number overflows the computing type
                    return None
            elif (x.dtype, x.shape, x.strides) == kind and x.flags.aligned:
                addresses.append(address(x) - next(offsets))
            else:
                return None
        out = numpy.empty_like(self.out)
        addresses.append(address(out) - self._last)
        replay = self._replay
        values = replay.values(((self.made, (), tuple(numbers), None),),
                               [addresses[slot] for slot in replay.used], ())
        flags = self._run(Launch(self._kernel, values, replay.points, (out, operands), work=replay.work))
        if flags and (flags < 0 or reported(flags)):
            self.made.alone = 0
            return None
        return out

    def _run(self, launch: Launch) -> int:
        """Run the launch, and return the floating-point errors that it raised; -1 if other work is pending,
        for which it would have to wait."""
        engine = self._engine
        with engine._lock:
            runtime = self._runtime
            if not engine.idle or runtime is not engine.runtime:
                return -1
            runtime.launch(launch)
            runtime.fence()
            return runtime.flags()


def reported(flags: int) -> bool:
    """Are floating-point errors of one of these kinds reported?"""
    modes = geterr()
    return any(flags & bit and modes[kind.mode] != "ignore" for bit, kind in KINDS.items())


def _reports(status: int) -> bool:
    """Are floating-point errors in a processor's status reported?"""
    return reported(raised(status))


def _kind(x: Any) -> tuple[Any, ...] | None:
    return (x.dtype, x.shape, x.strides) if isinstance(x, numpy.ndarray) else None


def direct(engine: Queue, made: Template, operands: Sequence[Any], out: Array) -> Direct | None:
    """Lay out the launch of a template's task on operands like these; None if the runtime places memory
    itself, or there is no machine code yet."""
    runtime = engine.runtime
    if not (runtime.addressed and runtime.host_sees and runtime.code is CodeUse.PREFERRED):
        return None
    found = Direct(engine, made, operands, out)
    return found if found.ready() else None

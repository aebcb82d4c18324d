"""Random bodies on the simulated device: compiled as grid kernels, run in one of the orders of threads."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

from diffuse.kernels.body import abi
from diffuse.kernels.build import codegen
from diffuse.kernels.grid import emit, schedule
from diffuse.kernels.meaning import interpret
from diffuse.kernels.targets.host import host
from diffuse.kernels.targets.simt import simt
from diffuse.service import loader
from tests.bodies import Array, Case, differences

ORDERS = {"forwards": 0, "backwards": 1, "mixed": 2}


def compiled(source: str, names: Sequence[str]) -> loader.Loaded:
    here = host()
    machine = codegen._machine(here.triple, here.cpu, here.features, 0)
    if machine is None:
        compiler = codegen.machine()
        return loader.load(bytes(compiler.emit_object(codegen._module(source, compiler))), names)
    return loader.load(machine.object_code(source, verify=True), names)


def expected(case: Case) -> list[Array]:
    """What the interpreter writes to the case's memory, which is restored afterwards."""
    before, partials = case.save(), case.partials()
    interpret.point(case.body, case.values(1, partials), 0)
    found = case.save()
    case.restore(before)
    return found


def disagreement(case: Case, change: Callable[[str], str] = str) -> tuple[set[str], list[str]]:
    """The forms of kernels that ran, and where their results differ from the interpreter's in a bit, in any
    order of threads.  `change` alters the module's text."""
    planned = schedule.kernels(case.body)
    loaded = compiled(change(emit.for_host(case.body, simt())), schedule.names(case.body))
    meant, before, found, forms = expected(case), case.save(), [], set()
    for order, number in ORDERS.items():
        partials = case.partials()
        block = ctypes.create_string_buffer(abi.layout(case.body).pack(*case.values(1, partials)))
        for kernel, groups, argument in schedule.launches(case.body, planned, [case.extents]):
            forms.add(kernel.form.rstrip("0123456789"))
            entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 3)
            entry(loaded.addresses[kernel.name])(ctypes.addressof(block), groups, argument, number)
        found += [f"{order}: {line}" for line in differences(case.memory, meant)]
        found += [f"{order}: wrote behind its partials" for word in partials if (word[-16:] != 0xAB).any()]
        case.restore(before)
    return forms, found

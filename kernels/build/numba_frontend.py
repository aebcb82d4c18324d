"""Translates a scalar Python function to a `UserFunction`, through Numba's compiler.

Numba infers types and writes LLVM IR; its machine code is not used.  Everything that the function calls is
inlined.  No pass may execute conditionally what was conditional before: a guarded division raises no flag.

Numba is imported when the first function is translated, and with it LLVM, which a program that has none never
loads.  Both are called by one thread (worker.py), where all their objects stay.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import FunctionType
from typing import Any

from diffuse import worker
from diffuse.interrupts import of_handler
from diffuse.kernels.body.user import UserFunction, declare
from diffuse.kernels.build import scalar_ir
from diffuse.kernels.build.routines import Routine
from diffuse.kernels.build.scalar_ir import RAISES, RESULT, Refused
from diffuse.kernels.llvm.code import COMPONENT, ELEMENT, MEMORY

__all__ = ["Refused", "translate"]

ENTRY = "diffuse.user"

_kept: list[Any] = []
"""Numba's compilation results, whose objects must not be freed in another thread."""


def translate(function: FunctionType, dtypes: Sequence[str]) -> tuple[UserFunction, Routine]:
    """Translate a function to an operation on these element types; returns it and its routine, or raises
    `Refused`."""
    found = worker.call(_translate, function, tuple(dtypes))
    declare(found)
    try:
        return found, Routine(found.name, found.parameters, found.result)
    except Exception as error:
        if of_handler(error):
            raise
        raise Refused(f"it does not compile ({type(error).__name__}: {error})") from None


def _translate(function: FunctionType, dtypes: tuple[str, ...]) -> UserFunction:
    try:
        native, result, text = _compile(function, dtypes)
        count = sum(2 if d in COMPONENT else 1 for d in dtypes)
        definition = _inlined(text + _wrapper(native, dtypes, result))
        return UserFunction(function.__name__, dtypes, result, scalar_ir.blocks(definition, count))
    except Refused:
        raise
    except Exception as error:
        raise Refused(f"Numba cannot compile it ({_reason(error)})") from None


def _reason(error: Exception) -> str:
    """The first line of a Numba error that concerns the user's function."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].startswith("Failed in"):
        lines = lines[1:]
    return f"{type(error).__name__}: {lines[0].rstrip('.') if lines else ''}"


def _compile(function: FunctionType, dtypes: tuple[str, ...]) -> tuple[str, str, str]:
    """Compile with Numba; returns the name of the compiled function, the element type of its result, and the
    LLVM module."""
    from numba import types
    from numba.core import compiler, config
    from numba.core.compiler_lock import global_compiler_lock
    from numba.core.registry import cpu_target

    signature = tuple([types.boolean if d == "bool" else getattr(types, d) for d in dtypes])
    flags = compiler.Flags()
    flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = flags.nrt = True
    flags.error_model = "numpy"
    with global_compiler_lock:
        cpu_target.target_context.codegen()  # reads the optimisation level, once for the process
        level = config.OPT
        config.OPT = type(level)(0)
        try:
            found = compiler.compile_extra(cpu_target.typing_context, cpu_target.target_context,
                                           function, signature, None, flags, {})
            found.library.finalize()
            _kept.append(found)
        finally:
            config.OPT = level
    result = types.unliteral(found.signature.return_type)
    name = "bool" if result == types.boolean else str(result)
    if name not in ELEMENT or name == "float16":
        raise Refused(f"it returns {result}, which is no number that kernels compute with")
    return found.fndesc.llvm_func_name, name, found.library.get_llvm_str()


def _wrapper(native: str, dtypes: tuple[str, ...], result: str) -> str:
    """An LLVM function that wraps Numba's and has the parameters and result of a `UserFunction`.

    Numba's function takes the addresses of its result and of an exception, returns 0 if there is no
    exception, and represents a bool as a byte.
    """
    parameters, lines, given = [], [], ["ptr %result", "ptr %exception"]
    for k, dtype in enumerate(dtypes):
        names = [f"%p{k}.0", f"%p{k}.1"] if dtype in COMPONENT else [f"%p{k}"]
        parameters += [f"{ELEMENT[dtype]} {name}" for name in names]
        if dtype == "bool":
            lines.append(f"  %q{k} = zext i1 %p{k} to i8")
            given.append(f"i8 %q{k}")
        else:
            given += [f"{ELEMENT[dtype]} {name}" for name in names]
    part = ELEMENT[result]
    loads = [f"  %r{n}.at = getelementptr {MEMORY[result]}, ptr %result, i64 {n}\n"
             f"  %r{n}{'.byte' if result == 'bool' else ''} = load {MEMORY[result]}, ptr %r{n}.at"
             for n in range(2 if result in COMPONENT else 1)]
    if result == "bool":
        loads.append("  %r0 = trunc i8 %r0.byte to i1")
    values = ", ".join(f"{part} %r{n}" for n in range(2 if result in COMPONENT else 1))
    return "\n".join([
        "", f"declare void @{RESULT}({', '.join(part for _ in values.split(', '))})",
        f"declare void @{RAISES}()",
        f"define void @{ENTRY}({', '.join(parameters)}) {{", "entry:", *lines,
        "  %result = alloca [2 x i64], align 16", "  %exception = alloca ptr, align 8",
        f'  %status = call i32 @"{native}"({", ".join(given)})',
        "  %failed = icmp ne i32 %status, 0", "  br i1 %failed, label %raised, label %returned",
        "raised:", f"  call void @{RAISES}()", "  ret void",
        "returned:", *loads, f"  call void @{RESULT}({values})", "  ret void", "}", ""])


def _inlined(text: str) -> str:
    """The definition of `ENTRY` with everything that it calls inlined."""
    import llvmlite.binding as llvm

    from diffuse.kernels.build import codegen

    machine = codegen.machine()
    text = re.sub(r"^attributes (#\d+) = \{[^}]*\}", r"attributes \1 = { alwaysinline }", text, flags=re.M)
    text = re.sub(r"\bn[su]w ", "", text)  # integers wrap around, while Numba promises LLVM that they do not
    module = llvm.parse_assembly(_powers(text))
    for function in module.functions:
        if not function.is_declaration and function.name != ENTRY:
            function.linkage = "internal"
            function.add_function_attribute("alwaysinline")
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=1))
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    for _ in range(2):
        passes.add_sroa_pass()
        passes.add_sccp_pass()
        passes.add_instruction_combine_pass()
        passes.add_loop_rotate_pass()
        passes.add_sccp_pass()
        passes.add_instruction_combine_pass()
        passes.add_aggressive_dce_pass()
    passes.add_lower_switch_pass()
    passes.add_loop_simplify_pass()
    passes.add_lcssa_pass()
    passes.run(module, builder)
    return str(module.get_function(ENTRY)).partition("define ")[2]


def _powers(text: str) -> str:
    """Numba's own functions, with the caller's rule for division: 0.0 to a negative power raises no
    exception."""
    def patched(found: re.Match[str]) -> str:
        return re.sub(r"fcmp oeq (double|float) (\S+), 0.0+e\+00", r"fcmp false \1 \2, 0.0", found[0])

    return re.sub(r'^define [^\n]*@"?_ZN5numba7cpython7numbers[^\n]*(?:int_power|invert_impl).*?^}', patched,
                  text, flags=re.M | re.S)

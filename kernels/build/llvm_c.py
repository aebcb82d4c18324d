"""Calls LLVM through the C functions of llvmlite's library, without llvmlite's package.

A program's first kernels wait for the server to start, and importing the package takes 25 ms, as long as
everything else that the server imports.  The functions below have had these signatures since the oldest
version of llvmlite that Diffuse takes; for versions that are not in `VERSIONS`, callers use the package.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from diffuse.service import fingerprint

VERSIONS = ("0.48.", "0.49.", "0.50.")
"""Versions of llvmlite whose library is known to have the functions below."""

KERNEL_OPTIONS = ("disable-lsr",)
"""Options of LLVM's code generator that are set for kernels and not for GPUs.  Without the pass that rewrites
the addresses in loops, which the emitter has hoisted already, compiling takes a third less time, and kernels
are as fast."""

POINTER, TEXT, NUMBER = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
OUT = ctypes.POINTER(ctypes.c_char_p)
"""The type of an output parameter for a string."""

SIGNATURES: dict[str, tuple[Any, ...]] = {
    "SetCommandLine": (None, TEXT, TEXT),
    "InitializeNativeTarget": (None,),
    "InitializeNativeAsmPrinter": (None,),
    "GetProcessTriple": (None, OUT),
    "GetDefaultTargetTriple": (None, OUT),
    "GetHostCPUName": (None, OUT),
    "GetHostCPUFeatures": (NUMBER, OUT),
    "GetTargetFromTriple": (POINTER, TEXT, OUT),
    "CreateTargetMachine": (POINTER, POINTER, TEXT, TEXT, TEXT, NUMBER, TEXT, TEXT, NUMBER, NUMBER, TEXT),
    "GetTargetMachineTriple": (None, POINTER, OUT),
    "CreateTargetMachineData": (POINTER, POINTER),
    "CopyStringRepOfTargetData": (None, POINTER, OUT),
    "ContextCreate": (POINTER,),
    "ParseAssembly": (POINTER, POINTER, TEXT, OUT),
    "DisposeModule": (None, POINTER),
    "SetTarget": (None, POINTER, TEXT),
    "SetDataLayout": (None, POINTER, TEXT),
    "VerifyModule": (ctypes.c_bool, POINTER, OUT),
    "CreatePipelineTuningOptions": (POINTER,),
    "CreatePassBuilder": (POINTER, POINTER, POINTER),
    "CreateNewModulePassManager": (POINTER,),
    "module_AddSROAPass": (None, POINTER),
    "RunNewModulePassManager": (None, POINTER, POINTER, POINTER),
    "TargetMachineEmitToMemory": (POINTER, POINTER, POINTER, NUMBER, OUT),
    "GetBufferStart": (POINTER, POINTER),
    "GetBufferSize": (ctypes.c_size_t, POINTER),
    "DisposeMemoryBuffer": (None, POINTER),
    "DisposeString": (None, POINTER),
}
"""The result and parameter types of each function used, by its name without LLVMPY_."""


class Library:
    """The functions of `SIGNATURES`, with LLVM ready to compile for this processor."""

    def __init__(self, path: str) -> None:
        library = ctypes.CDLL(path)  # which gives up Python's lock, so that threads compile at once
        self._functions = {}
        for name, (result, *parameters) in SIGNATURES.items():
            function = library[f"LLVMPY_{name}"]
            function.restype, function.argtypes = result, parameters
            self._functions[name] = function
        self.set_kernel_options(True)
        self.call("InitializeNativeTarget")
        self.call("InitializeNativeAsmPrinter")

    def set_kernel_options(self, on: bool) -> None:
        """Set the options `KERNEL_OPTIONS` of the process, or take them back."""
        for option in KERNEL_OPTIONS:
            self.call("SetCommandLine", b"diffuse", f"-{option}={int(on)}".encode())

    def call(self, name: str, *arguments: Any) -> Any:
        return self._functions[name](*arguments)

    def string(self, name: str, *arguments: Any) -> bytes:
        """Call a function whose only result is a string."""
        out = ctypes.c_char_p()
        self.call(name, *arguments, ctypes.byref(out))
        return self._taken(out)

    def checked(self, name: str, *arguments: Any) -> int:
        """Call a function that returns a pointer, or a null pointer and a message; raises RuntimeError with
        the message."""
        out = ctypes.c_char_p()
        found: int | None = self.call(name, *arguments, ctypes.byref(out))
        said = self._taken(out)
        if not found:
            raise RuntimeError(said.decode(errors="replace") or f"{name} failed")
        return found

    def _taken(self, out: ctypes.c_char_p) -> bytes:
        """Copy a string that the library allocated, and free it."""
        found = out.value or b""
        if out:
            self.call("DisposeString", out)
        return found


@cache
def library() -> Library | None:
    """Load the library of the installed llvmlite; None if its version is unknown or its functions differ."""
    folder = fingerprint.llvmlite()
    if folder is None:
        return None
    try:
        import llvmlite

        if not llvmlite.__version__.startswith(VERSIONS):
            return None
        return Library(str(folder / "binding" / "libllvmlite.so"))
    except (ImportError, OSError, AttributeError):
        return None


def features(llvm: Library) -> dict[str, bool]:
    """The processor's features by LLVM's names."""
    said = llvm.string("GetHostCPUFeatures").decode()
    return {feature[1:]: feature[0] == "+" for feature in said.split(",") if feature}


class TargetMachine:
    """A target machine of LLVM's with a context of its own, both of which live as long as the process.  One
    thread at a time may use it."""

    def __init__(self, llvm: Library, triple: str, cpu: str = "", features: str = "", speed: int = 2) -> None:
        self._llvm = llvm
        target = llvm.checked("GetTargetFromTriple", triple.encode())
        self._machine = llvm.call("CreateTargetMachine", target, triple.encode(), cpu.encode(),
                                  features.encode(), speed, b"default", b"jitdefault", 0, 1, b"")
        if not self._machine:
            raise RuntimeError(f"LLVM has no target machine for {cpu} ({triple})")
        self._context = llvm.call("ContextCreate")
        self._triple = llvm.string("GetTargetMachineTriple", self._machine)
        data = llvm.call("CreateTargetMachineData", self._machine)
        self._layout = llvm.string("CopyStringRepOfTargetData", data)
        self._promotion: tuple[int, int] | None = None
        """The pass manager that promotes memory to registers and its pass builder, made when they are first
        needed."""

    def object_code(self, source: str, verify: bool = False, promote: bool = False) -> bytes:
        """Compile LLVM IR to relocatable object code; `promote` keeps local variables in registers."""
        llvm = self._llvm
        module = llvm.checked("ParseAssembly", self._context, source.encode())
        try:
            llvm.call("SetTarget", module, self._triple)
            llvm.call("SetDataLayout", module, self._layout)
            if verify:
                self._verify(module)
            if promote:
                self._promote(module)
            buffer = llvm.checked("TargetMachineEmitToMemory", self._machine, module, 1)
        finally:
            llvm.call("DisposeModule", module)
        try:
            return ctypes.string_at(llvm.call("GetBufferStart", buffer), llvm.call("GetBufferSize", buffer))
        finally:
            llvm.call("DisposeMemoryBuffer", buffer)

    def _verify(self, module: int) -> None:
        out = ctypes.c_char_p()
        if self._llvm.call("VerifyModule", module, ctypes.byref(out)):
            raise RuntimeError((out.value or b"").decode(errors="replace"))

    def _promote(self, module: int) -> None:
        llvm = self._llvm
        if self._promotion is None:
            options = llvm.call("CreatePipelineTuningOptions")
            passes = llvm.call("CreateNewModulePassManager")
            llvm.call("module_AddSROAPass", passes)
            self._promotion = passes, llvm.call("CreatePassBuilder", self._machine, options)
        passes, builder = self._promotion
        llvm.call("RunNewModulePassManager", passes, module, builder)

"""From a `Body` to machine code that can be called: emitted, compiled and linked, or taken from the cache.

LLVM is started on the first call.  What calls it runs in the thread that owns it (worker.py), in which it
releases Python's lock for nearly all of its time.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from diffuse import settings, worker
from diffuse.ir.loops import ROWS, SEGMENT
from diffuse.kernels.body import abi
from diffuse.kernels.body.expr import Body
from diffuse.kernels.build.cache import Cache
from diffuse.kernels.targets import vectormath
from diffuse.kernels.targets.host import host
from diffuse.observe import trace
from diffuse.service import loader

SPEED = 2
"""LLVM's level for instruction selection and scheduling.  No other passes run, but for bodies with scans."""

EMITTERS = ("body", "llvm", "targets", "build")
"""The folders of `kernels` whose sources decide a kernel's machine code."""


class Native(NamedTuple):
    """A compiled body, for as long as `keep` lives."""

    address: int
    """Of `void k(ptr block, i64 point)`."""
    finish: int
    """Of `void k_finish(ptr block)`; 0 if the body has no reductions."""
    keep: loader.Loaded


def compile(body: Body) -> Native:
    """Machine code for a body, from the disk if it is there."""
    return worker.call(_compile, body)


def _compile(body: Body) -> Native:
    kept, key = disk(), key_of(body)
    image = kept.get(key)
    if image is not None:
        try:
            found = link(body, image)
            trace.count("cache hits")
            return found
        except loader.LoadError:  # whole, and yet not the kernel's
            pass
    image = object_code(body)
    trace.count("compilations")
    native = link(body, image)
    kept.put(key, image)
    return native


def cached(body: Body) -> bool:
    """Is there an entry for this body on the disk?  Then `compile` takes about a millisecond."""
    return disk().path(key_of(body)).is_file()


def target_name() -> str:
    """The processor compiled for, in a few words."""
    machine = host()
    vectors = {"e": "AVX-512", "d": "AVX2"}[machine.sets[0]] if machine.sets else "no AVX2"
    return f"{machine.cpu} ({machine.triple}, {vectors})"


def disk() -> Cache:
    """The cache in the folder that the settings name now."""
    return _cache(settings.config.cache_dir, settings.config.cache_size)


@cache
def _cache(folder: str, limit: int | None) -> Cache:
    return Cache(folder, limit)


def key_of(body: Body) -> str:
    """Everything that the machine code of a body depends on."""
    return sha256(f"{body!r}\n{_circumstances()}".encode()).hexdigest()


@cache
def _circumstances() -> str:
    """Target, versions, and the text of the emitter itself."""
    sources = sha256()
    for folder in EMITTERS:
        for path in sorted((Path(__file__).parent.parent / folder).rglob("*.py")):
            sources.update(path.read_bytes())
    sources.update(f"{SEGMENT} {ROWS}".encode())
    return f"{host()!r}\n{worker.call(_version)}\n{sources.hexdigest()}"


def _version() -> str:
    import llvmlite
    import llvmlite.binding as llvm

    return f"{llvmlite.__version__} {llvm.llvm_version_info}"


@cache
def _start() -> None:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    if host().symbols:
        llvm.load_library_permanently(vectormath.LIBRARY)


def prepare() -> None:
    """Start LLVM and look at the machine and the cache, before the first kernel asks for it."""
    worker.call(machine)
    _circumstances()
    disk()


def machine() -> Any:
    """A target machine, for the worker."""
    import llvmlite.binding as llvm

    _start()
    here = host()
    return llvm.Target.from_triple(here.triple).create_target_machine(
        cpu=here.cpu, features=here.features, opt=SPEED, jit=True)


def text(body: Body) -> str:
    """The LLVM module of a body, as written for this machine."""
    from diffuse.kernels.llvm import nest as emitter

    return emitter.emit(body, host())


def object_code(body: Body) -> bytes:
    """Compile, to relocatable code in memory."""
    if not host().halves and "float16" in repr(body):
        raise NotImplementedError("this processor has no conversions between float16 and float32")
    return worker.call(_object_code, body)


def _object_code(body: Body) -> bytes:
    compiler = machine()
    module = _module(text(body), compiler)
    if any(op.kind == "scan" for loop in body.loops for op in loop.ops):
        _promote(module, compiler)
    return bytes(compiler.emit_object(module))


def assembly(body: Body) -> str:
    """The machine code of a body, as assembly text."""
    return worker.call(_assembly, body)


def _assembly(body: Body) -> str:
    compiler = machine()
    return str(compiler.emit_assembly(_module(text(body), compiler)))


def _module(source: str, machine: Any) -> Any:
    import llvmlite.binding as llvm

    module = llvm.parse_assembly(source)
    module.triple, module.data_layout = host().triple, str(machine.target_data)
    return module


def _promote(module: Any, machine: Any) -> None:
    """Keep the running values of scans in registers."""
    import llvmlite.binding as llvm

    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=1))
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.run(module, builder)


def link(body: Body, image: bytes) -> Native:
    """Load object code into this process."""
    loaded = loader.load(image, ("k", "k_finish") if abi.finishes(body) else ("k",))
    return Native(loaded.addresses["k"], loaded.addresses.get("k_finish", 0), loaded)

"""`diffuse info`: the machine, the threads and why so many, the settings, the cache, Legate, MPI, the GPU,
the versions."""

from __future__ import annotations

import json
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import click

from diffuse import settings

if TYPE_CHECKING:
    from diffuse.service.cache import Cache


def gathered() -> dict[str, Any]:
    """Everything that `diffuse info` shows, as plain data."""
    from diffuse.numpy import small
    from diffuse.runtime import machine

    settings.check_environment()
    described = machine.describe()
    entries, size = stored().entries()
    return {
        "machine": described,
        "threads": {"number": described["threads"], "source": threads_source()},
        "settings": {name: {"value": getattr(settings.config, name), "source": settings.source(name),
                            "variable": setting.variable, "default": settings.default(name),
                            "sentence": setting.sentence}
                     for name, setting in settings.SETTINGS.items()},
        "cache": {"folder": settings.config.cache_dir, "kernels": entries, "bytes": size},
        "legate": legate(),
        "mpi": mpi(),
        "cuda": cuda(),
        "plans": plans(),
        "small arrays": {"extension": small.state()},
        "versions": versions(),
    }


def legate() -> dict[str, str]:
    """What the legate runtime would find, in words."""
    from diffuse.runtime.legate import prepare

    found = prepare.find()
    if found.version is None:
        return {"legate": f"not installed: {prepare.INSTALL}"}
    return {
        "legate": f"{found.version} ({found.site})",
        "cupynumeric": found.cupynumeric or "not installed",
        "cuda runtime": found.cudart or "not installed",
        "driver": found.driver or "none: a stand-in takes its place",
        "GPUs": prepare.gpus(found),
        "C++ compiler": found.compiler or "none: needed once, to build libraries",
        "libucx": found.libucx or "not installed",
        "openmpi": found.openmpi or "not installed",
        "one rank": _can(found.refusal()),
        "several ranks": _can(found.refusal(several=True)),
        **{f"library {library.source.stem}": f"{'built' if library.path.exists() else 'not built yet'}: "
                                             f"{library.path}" for library in found.built(several=True)},
    }


def mpi() -> dict[str, str]:
    """What the mpi runtime would find, in words."""
    from diffuse.runtime.mpi import prepare

    return {**prepare.found(), "several ranks": _can(prepare.refusal())}


def cuda() -> dict[str, str]:
    """What the cuda runtime would find, in words."""
    from diffuse.runtime.device.driver import Driver

    try:
        driver = Driver()
    except RuntimeError as error:
        return {"device": f"none: {error}"}
    free, total = driver.memory()
    return {"device": f"{driver.name()} ({driver.architecture()})",
            "driver": f"CUDA {driver.version // 1000}.{driver.version % 1000 // 10}",
            "memory": f"{sized(free)} of {sized(total)} available",
            "cupy": cupy()}


def plans() -> dict[str, str]:
    """Describe the model of the machine by which `diffuse.plan` predicts times."""
    from diffuse.movement.machine import FILE, Machine, measured

    found = measured(settings.config.cache_dir)
    model = found or Machine()
    said = (f"measured, {settings.config.cache_dir}/{FILE}" if found else
            "not measured (diffuse machine does that): a cluster with a fast network is assumed")
    return {"machine": said,
            "a message": f"{1e6 * model.latency:.1f} us and {model.bandwidth / 1e9:.2f} GB/s",
            "work": f"fused {model.compute / 1e9:.2f} GB/s of results, memory {model.memory / 1e9:.2f} GB/s, "
                    f"products {model.products / 1e9:.2f} GFLOP/s"}


def cupy() -> str:
    """The version of CuPy if it is installed; it is not imported."""
    from importlib import metadata
    from importlib.util import find_spec

    if find_spec("cupy") is None:
        return "not installed: pip install 'diffuse[cuda]'"
    found = metadata.packages_distributions().get("cupy")
    return metadata.version(found[0]) if found else "installed"


def _can(refusal: str | None) -> str:
    return "no: " + refusal if refusal else "yes"


def stored() -> Cache:
    """The cache that programs use."""
    from diffuse.service.cache import Cache

    return Cache(settings.config.cache_dir, settings.config.cache_size)


def threads_source() -> str:
    """The origin of the number of threads, in words."""
    from diffuse.runtime import machine

    if settings.config.threads != "auto":
        return f"the setting threads ({settings.source('threads')})"
    quota = machine.cpu_quota()
    return "processors this process may run on" + (f", cgroup quota {quota:g}" if quota is not None else "")


def versions() -> dict[str, str]:
    found = {"python": f"{platform.python_version()} ({sys.executable})"}
    for package in ("diffuse", "numpy", "llvmlite", "numba"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    if found["diffuse"] == "not installed":  # run from a checkout
        import diffuse

        found["diffuse"] = diffuse.__version__
    return found


def text(found: dict[str, Any]) -> str:
    """The same information as text."""
    lines = ["machine"]
    for name, value in found["machine"].items():
        if isinstance(value, dict):
            value = ", ".join(f"{k} {sized(v)}" for k, v in value.items())
        lines.append(f"  {name:18} {sized(value) if name.startswith('memory') else value}")
    threads = found["threads"]
    lines += ["", "threads", f"  {threads['number']}, from {threads['source']}", "", "settings"]
    for name, one in found["settings"].items():
        lines.append(f"  {one['variable']:22} {settings.shown(one['value']):24} {one['source']}")
    cache = found["cache"]
    lines += ["", "cache", f"  {cache['folder']}: {cache['kernels']} kernels, {sized(cache['bytes'])}"]
    for part in ("legate", "mpi", "cuda", "plans", "small arrays", "versions"):
        lines += ["", part, *(f"  {name:18} {value}" for name, value in found[part].items())]
    return "\n".join(lines)


def sized(count: Any) -> str:
    """Format a number of bytes with a unit."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


@click.command(name="info")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--markdown", is_flag=True, help="Print the table of docs/settings.md.")
def command(as_json: bool, markdown: bool) -> int:
    """Show the machine, the threads, the settings, the cache, Legate, MPI, the GPU and the versions."""
    if markdown:
        print(settings.table())
        return 0
    found = gathered()
    print(json.dumps(found, indent=2) if as_json else text(found))
    return 0

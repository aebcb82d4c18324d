"""Every setting of Diffuse, declared once: environment variable and Python value to a checked value.

A setting is read from its environment variable when it is first used, and may be set in code at any time::

    diffuse.config.window = 1
    with settings.using(window=1, compile="wait"):
        ...

After the first use a setting is a plain attribute of `config`, so reading one costs what an attribute costs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple


class Rule(NamedTuple):
    """What values a setting takes: a sentence for people, and a function that raises ValueError."""

    text: str
    parse: Callable[[Any], Any]
    words: tuple[str, ...] = ()
    """Words that it allows, for suggestions."""


class Setting(NamedTuple):
    """One declared setting."""

    name: str
    variable: str
    default: Any
    rule: Rule
    sentence: str


def one_of(*words: str) -> Rule:
    def parse(value: Any) -> str:
        if not isinstance(value, str) or value not in words:
            raise ValueError(value)
        return value

    return Rule("one of " + ", ".join(words), parse, words)


def integer(least: int, *words: str) -> Rule:
    """A whole number of at least `least`, or one of `words`."""

    def parse(value: Any) -> int | str:
        if isinstance(value, str):
            value = value.strip()
            if value in words:
                return str(value)
        if isinstance(value, (bool, float)) or int(value) < least:
            raise ValueError(value)
        return int(value)

    return Rule("".join(f"{word} or " for word in words) + f"a whole number >= {least}", parse, words)


UNITS = {"": 1, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def _bytes(value: Any) -> int | None:
    if value is None or value == "none":
        return None
    if isinstance(value, str):
        text = value.strip().upper()
        digits = text.rstrip("BIKMGT")
        unit = text[len(digits):].removesuffix("B").removesuffix("I")
        value = int(digits) * UNITS[unit] if unit in UNITS else int(text)
    if isinstance(value, (bool, float)) or int(value) < 0:
        raise ValueError(value)
    return int(value)


SIZE = Rule("none or a number of bytes, such as 1073741824, 512M or 4G", _bytes, ("none",))


def _flag(value: Any) -> bool:
    if value in (True, "1", "true", "on", "yes"):
        return True
    if value in (False, "0", "false", "off", "no", ""):
        return False
    raise ValueError(value)


def _names(value: Any) -> str:
    words = [word.strip() for word in (value.split(",") if isinstance(value, str) else value)]
    for word in filter(None, words):
        if not all(part.isidentifier() for name in word.split("=") for part in name.split(".")):
            raise ValueError(word)
    return ",".join(filter(None, words))


FLAG = Rule("0 or 1", _flag)
NAMES = Rule("names of modules, with commas between them", _names)
FOLDER = Rule("a folder", lambda value: os.path.expanduser(os.fspath(value)))


def _cache_folder() -> str:
    home = os.path.expanduser("~")
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(home, ".cache")
    if not os.path.isabs(base):  # this user has no home: a folder that is the user's alone
        return os.path.join(os.environ.get("TMPDIR") or "/tmp", f"diffuse-{os.getuid()}")
    return os.path.join(base, "diffuse")


SETTINGS: dict[str, Setting] = {
    name: Setting(name, variable, default, rule, sentence)
    for name, variable, default, rule, sentence in (
        ("runtime", "DIFFUSE_RUNTIME", "local", one_of("local", "reference", "legate", "mpi", "cuda", "simt"),
         "Where tasks run: on threads of this machine; one after another over NumPy arrays; on Legate; on "
         "ranks over MPI; on an NVIDIA GPU; or on the host as a simulated GPU."),
        ("threads", "DIFFUSE_NUM_THREADS", "auto", integer(1, "auto"),
         "Threads of each process; auto is what affinity and the cgroup quota leave to it."),
        ("window", "DIFFUSE_WINDOW_SIZE", "auto", integer(1, "auto"),
         "Tasks held before they are forwarded; auto grows while whole windows fuse, 1 fuses nothing."),
        ("compile", "DIFFUSE_COMPILE", "background", one_of("background", "wait", "off"),
         "background: compile beside the program, which waits for a kernel no longer than interpreting "
         "takes; wait: wait for each kernel; off: interpret."),
        ("fallback", "DIFFUSE_FALLBACK", "warn", one_of("warn", "silent", "error"),
         "What a call of a function does that Diffuse lacks: warn once for each call site and run by NumPy, "
         "run by NumPy silently, or raise an error."),
        ("trace", "DIFFUSE_TRACE", False, FLAG,
         "Print each plan once, replays as counts, and each refusal to fuse with its reason, to stderr."),
        ("cache_dir", "DIFFUSE_CACHE_DIR", _cache_folder, FOLDER,
         "Where compiled kernels are kept between processes."),
        ("cache_size", "DIFFUSE_CACHE_SIZE", 512 << 20, SIZE,
         "Bytes of compiled kernels kept on disk; the least recently read go first; 0 keeps none."),
        # bench/crossover.py, 2 cores, float64, ten operations and a read: recorded, 170 to 270 us at all of
        # the sizes; at once, 15 to 20 at 8192, 28 to 280 at 16384 (as the system takes the memory of
        # temporaries back each time, or not), 560 to 790 at 32768
        ("small", "DIFFUSE_SMALL", 16384, integer(0),
         "Number of elements below which NumPy computes an operation at once."),
        ("compiled", "DIFFUSE_COMPILED", True, FLAG,
         "Use the C extension for small arrays if the package was installed with it; read at import."),
        ("min_chunk", "DIFFUSE_MIN_CHUNK", 16384, integer(1),
         "Elements per launch point below which a task keeps to one point."),
        ("memory", "DIFFUSE_MEMORY", None, SIZE,
         "Most bytes that arrays may hold together; none leaves it to the machine."),
        ("check", "DIFFUSE_CHECK", False, FLAG,
         "Check every task as it is recorded, analyse every fused group anew before it runs (small ones by "
         "the definition of fusion, too), and type-check each kernel body after each pass."),
        ("legate_memory", "DIFFUSE_LEGATE_MEMORY", None, SIZE,
         "Bytes that Legate may give to arrays in each process, the same on all ranks; none takes 70 % "
         "of what there is."),
        ("mpi_memory", "DIFFUSE_MPI_MEMORY", None, SIZE,
         "Bytes that arrays may take in each process of the runtime mpi; none takes 70 % of what is there at "
         "the start, shared among the ranks of a node; the smallest of all ranks counts."),
        ("cupy", "DIFFUSE_CUPY", True, FLAG,
         "On a GPU, let CuPy, if it is installed, compute matrix products, linalg.solve and inv, transforms "
         "and sorts there, with its bits; 0: NumPy computes them on the host, with NumPy's."),
        ("sides", "DIFFUSE_SIDES", True, FLAG,
         "On a GPU, go on on the host while the program's operations are so small that it is faster there; "
         "0: stay on the GPU."),
        ("gather", "DIFFUSE_GATHER", None, SIZE,
         "Bytes of arrays above which a function that Diffuse lacks runs on several ranks by cuPyNumeric, if "
         "that is installed, rather than by NumPy on every rank; none: half of a node's memory."),
        ("output", "DIFFUSE_OUTPUT", "rank0", one_of("rank0", "all"),
         "With several ranks, whose output and warnings are shown; uncaught errors always are."),
        ("digest", "DIFFUSE_DIGEST", False, FLAG,
         "Several ranks compare what they submit wherever they wait for each other, and end at the first "
         "difference; 1: they do so before each launch, and compare the contents of what the host gives it."),
        ("watchdog", "DIFFUSE_WATCHDOG", 8, integer(1, "none"),
         "Seconds for which ranks wait for one that does nothing before all end with its line, and ten times "
         "as long for one that computes; none: for ever."),
        ("real", "DIFFUSE_REAL", "", NAMES,
         "Modules that use NumPy itself under `diffuse run`; arrays are converted at the program's calls."),
        ("aliases", "DIFFUSE_ALIASES", "", NAMES,
         "More modules that mean Diffuse's NumPy under `diffuse run`; NAME=scipy.sparse means another."),
    )
}
BY_VARIABLE = {setting.variable: setting for setting in SETTINGS.values()}


class Config:
    """The settings as attributes.  Setting one checks it; `version` counts the changes made in code."""

    runtime: str
    threads: int | str
    window: int | str
    compile: str
    fallback: str
    trace: bool
    cache_dir: str
    cache_size: int
    small: int
    compiled: bool
    min_chunk: int
    memory: int | None
    check: bool
    legate_memory: int | None
    mpi_memory: int | None
    cupy: bool
    gather: int | None
    output: str
    digest: bool
    watchdog: int | str
    real: str
    aliases: str
    version: int

    def __init__(self) -> None:
        self.__dict__["version"] = 0
        self.__dict__["_code"] = set()

    def __getattr__(self, name: str) -> Any:  # reached on the first use only: afterwards the instance has it
        value = _initial(_declared(name))
        self.__dict__[name] = value
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        setting = _declared(name)
        self.__dict__[name] = _checked(setting, value, f"diffuse.config.{name}")
        self.__dict__["_code"].add(name)
        _changed(name)

    def __delattr__(self, name: str) -> None:
        """Forget what code said: the next use reads the environment again."""
        self.__dict__.pop(_declared(name).name, None)
        self.__dict__["_code"].discard(name)
        _changed(name)

    def __dir__(self) -> list[str]:
        return [*SETTINGS, "version"]

    def __repr__(self) -> str:
        return "\n".join(f"{name} = {getattr(self, name)!r}  ({source(name)})" for name in SETTINGS)


def _declared(name: str) -> Setting:
    if name not in SETTINGS:
        raise AttributeError(f"diffuse has no setting {name!r}: expected one of {', '.join(SETTINGS)}"
                             + nearest(name, SETTINGS))
    return SETTINGS[name]


def nearest(word: str, words: Iterable[str]) -> str:
    """Return the end of an error message, which proposes the word closest to a misspelt one; "" if no word is
    near."""
    from difflib import get_close_matches  # errors only: a program that has none does not wait for it

    found = get_close_matches(word, words, 1)
    return f"; did you mean {found[0]}?" if found else ""


def _checked(setting: Setting, value: Any, said: str) -> Any:
    try:
        return setting.rule.parse(value)
    except (ValueError, TypeError, KeyError):
        meant = nearest(value.lower(), setting.rule.words) if isinstance(value, str) else ""
        raise ValueError(f"{said}={value!r}: expected {setting.rule.text}{meant}") from None


def _initial(setting: Setting) -> Any:
    text = os.environ.get(setting.variable)
    if text is not None:
        return _checked(setting, text, setting.variable)
    return default(setting.name)


def default(name: str) -> Any:
    value = _declared(name).default
    return value() if callable(value) else value


def source(name: str) -> str:
    """Where a setting's value comes from: "code", "environment" or "default"."""
    if name in config.__dict__["_code"]:
        return "code"
    return "environment" if _declared(name).variable in os.environ else "default"


config = Config()
_watchers: list[tuple[str, Callable[[Any], None]]] = []


def watch(name: str, function: Callable[[Any], None]) -> None:
    """Call `function` with the value of a setting whenever code changes it."""
    _watchers.append((_declared(name).name, function))


def _changed(name: str) -> None:
    config.__dict__["version"] += 1
    announce(name)


def announce(name: str) -> None:
    """Call the functions that watch a setting: its value changed, or what it stands for."""
    for watched, function in _watchers:
        if watched == name:
            function(getattr(config, name))


@contextmanager
def using(**values: Any) -> Iterator[Config]:
    """Settings for the length of a `with` block."""
    for name in values:
        _declared(name)
    before = {name: (config.__dict__.get(name), name in config.__dict__, name in config.__dict__["_code"])
              for name in values}
    try:
        for name, value in values.items():
            setattr(config, name, value)
        yield config
    finally:
        for name, (value, known, by_code) in before.items():
            config.__dict__.pop(name, None)
            if known:
                config.__dict__[name] = value
            if not by_code:
                config.__dict__["_code"].discard(name)
            _changed(name)


def check_environment() -> None:
    """Raise for a `DIFFUSE_` variable that is not a setting or has a wrong value."""
    for variable, text in os.environ.items():
        if variable.startswith("DIFFUSE_"):
            if variable not in BY_VARIABLE:
                raise ValueError(f"{variable}={text!r}: there is no such setting; expected one of "
                                 f"{', '.join(BY_VARIABLE)}{nearest(variable, BY_VARIABLE)}")
            _checked(BY_VARIABLE[variable], text, variable)


def table() -> str:
    """The settings as a Markdown table."""
    rows = ["| variable | in code | default | values | what it does |", "| --- | --- | --- | --- | --- |"]
    for setting in SETTINGS.values():
        default = "$XDG_CACHE_HOME/diffuse" if callable(setting.default) else shown(setting.default)
        rows.append(f"| `{setting.variable}` | `{setting.name}` | `{default}` | {setting.rule.text} "
                    f"| {setting.sentence} |")
    return "\n".join(rows)


def shown(value: Any) -> str:
    """Return a setting's value as its environment variable would say it."""
    if isinstance(value, bool):
        return str(int(value))
    return "none" if value in (None, "") else str(value)

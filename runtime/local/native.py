"""The machine code of the thread pool: the layout of its memory, and its LLVM IR text for this machine.

What differs between machines is here (the system call, the floating-point state, the pause instruction);
the functions themselves are in `driver` and `calls`.
"""

from __future__ import annotations

import platform

from diffuse.runtime.local import calls, driver

LINE = 128
"""Bytes between words that different threads write: two cache lines, which are prefetched together."""
POINT_BITS = 20
MOST_POINTS = (1 << POINT_BITS) - 1
BAD_POINTS, NO_MEMORY = -1, -2
BIG_BLOCK = 1 << 16
"""A parameter block longer than this is freed when its slot in the ring is used again."""

COMPANY = 4
"""Launches of one point that are queued before a sleeping worker is woken for them."""

FIELDS = {
    "ticket": 0 * LINE,        # launch running << POINT_BITS | next point to claim
    "submitted": 1 * LINE,     # launches submitted
    "avoided": 1 * LINE + 8,   # processor that workers keep off, as the program submits there; -1: none
    "kept": 1 * LINE + 12,     # workers that do
    "wanted": 2 * LINE,        # smallest number of launches some waiting thread wants done
    "work": 3 * LINE,          # event: there may be points to claim, or a wanted launch is done
    "sleepers": 3 * LINE + 4,  # threads registered as sleeping on it
    "flags": 4 * LINE,         # floating-point exceptions seen
    "stopping": 5 * LINE,      # workers have to end
    "spin": 5 * LINE + 8,      # polls before sleeping
    "mask": 5 * LINE + 16,     # ring size - 1
    "apart": 5 * LINE + 24,    # are there enough processors for workers to keep off that of the submitter?
    "named": 5 * LINE + 28,    # workers that have entered the numbers of their threads
    "everywhere": 6 * LINE,    # the processors on which workers may run
    "narrowed": 7 * LINE,      # these without the one that is avoided
    "threads": 8 * LINE,       # the numbers of the workers' threads, four bytes each
    "ring": 10 * LINE,
}
SLOT = {"kernel": 0, "finish": 8, "points": 16, "block": 24, "capacity": 32, "done": 40, "light": 48,
        "first": 56}
SLOT_BYTES = 64

NAMED = 64
"""The number of workers, at most, that keep off the submitter's processor; the others run anywhere."""
MASK = LINE
"""The number of bytes of a set of processors."""

FUTEX = {"x86_64": 202, "aarch64": 98}
THREAD = {"x86_64": 186, "aarch64": 178}
"""The system call that gives the number of the calling thread."""
AFFINITY = {"x86_64": (203, 204), "aarch64": (122, 123)}
"""The system calls that set the processors on which a thread may run, and get them."""
WAIT, WAKE = 128, 129  # FUTEX_WAIT, FUTEX_WAKE | FUTEX_PRIVATE_FLAG


def size(depth: int) -> int:
    """Bytes of a pool whose ring holds `depth` launches."""
    return FIELDS["ring"] + depth * SLOT_BYTES


def text(portable: bool = False) -> str:
    """The whole module.  `portable` keeps to the C library's floating-point environment."""
    x86 = platform.machine() == "x86_64"
    number = FUTEX.get(platform.machine())
    if number is None:
        raise RuntimeError(f"no native thread pool for {platform.machine()}: "
                           f"expected one of {', '.join(FUTEX)}; use DIFFUSE_RUNTIME=reference")
    parts = [_DECLARE, _FLOAT_X86 if x86 and not portable else _FLOAT_PORTABLE,
             _PAUSE_X86 if x86 else _PAUSE_OTHER,
             driver.SYSTEM, driver.CLAIM, driver.RUN, driver.FINISH, driver.WORKER,
             calls.APART, calls.SUBMIT, calls.WAIT, calls.STOP]
    setting, getting = AFFINITY[platform.machine()]
    numbers = {"@FUTEX": number, "@SETTING": setting, "@GETTING": getting, "@MASK": MASK, "@NAMED": NAMED,
               "@THREADS": 4 * NAMED, "@THREAD": THREAD[platform.machine()], "@BITS": POINT_BITS,
               "@MOST": MOST_POINTS, "@WAIT": WAIT, "@WAKE": WAKE, "@BIG": BIG_BLOCK, "@COMPANY": COMPANY,
               "@SLOT_BYTES": SLOT_BYTES}
    names = {name: str(value) for name, value in numbers.items()}
    return "\n".join(_expand(part, names) for part in parts)


def _expand(source: str, names: dict[str, str]) -> str:
    """Replace `FIELD a b` and `OF %slot a b` lines by address computations, and @NAMES by numbers."""
    lines = []
    for line in source.splitlines():
        words = line.split()
        if words[:1] == ["FIELD"]:
            lines += [f"  %{name} = getelementptr i8, ptr %pool, i64 {FIELDS[name]}" for name in words[1:]]
        elif words[:1] == ["OF"]:
            lines += [f"  {words[1]}.{name} = getelementptr i8, ptr {words[1]}, i64 {SLOT[name]}"
                      for name in words[2:]]
        else:
            if "@" in line:
                for name, value in names.items():
                    line = line.replace(name, value)
            lines.append(line)
    return "\n".join(lines)


_DECLARE = """
declare i64 @syscall(i64, ...)
declare i32 @sched_getcpu()
declare i32 @memcmp(ptr, ptr, i64)
declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare i32 @llvm.umin.i32(i32, i32)
"""

# Kernels run in the default environment (round to nearest, no flush to zero, nothing trapped) whatever
# the thread that runs them had set; that thread's own environment comes back afterwards.
_FLOAT_X86 = """
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)

define internal void @enter(ptr %saved) alwaysinline {
  %default = alloca i32
  store i32 8064, ptr %default
  call void @llvm.x86.sse.stmxcsr(ptr %saved)
  call void @llvm.x86.sse.ldmxcsr(ptr %default)
  ret void
}

define internal i32 @leave(ptr %saved) alwaysinline {
  %now = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %now)
  %word = load i32, ptr %now
  %seen = and i32 %word, 63
  call void @llvm.x86.sse.ldmxcsr(ptr %saved)
  ret i32 %seen
}
"""

_FLOAT_PORTABLE = """
declare i32 @fegetenv(ptr)
declare i32 @fesetenv(ptr)
declare i32 @fetestexcept(i32)

define internal void @enter(ptr %saved) {
  call i32 @fegetenv(ptr %saved)
  call i32 @fesetenv(ptr inttoptr (i64 -1 to ptr))
  ret void
}

define internal i32 @leave(ptr %saved) {
  %seen = call i32 @fetestexcept(i32 31)
  call i32 @fesetenv(ptr %saved)
  ret i32 %seen
}
"""

_PAUSE_X86 = """
declare void @llvm.x86.sse2.pause()
define internal void @pause() alwaysinline {
  call void @llvm.x86.sse2.pause()
  ret void
}
"""

_PAUSE_OTHER = """
define internal void @pause() alwaysinline {
  fence seq_cst
  ret void
}
"""

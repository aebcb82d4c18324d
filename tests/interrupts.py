"""Programs that are interrupted at random moments, many times: how many end, and with every array whole.

    python tests/interrupts.py                         300 loops six at a time, 50 programs that load kernels
    python tests/interrupts.py --loops 12 --loads 4    fewer
    python tests/interrupts.py --raises TimeoutError   by SIGALRM, whose handler raises TimeoutError
    python tests/interrupts.py --empty                 each loop with an empty cache, and a server of its own
    python tests/interrupts.py --busy 12               beside so many processes that only take time
    python tests/interrupts.py --loops 334 --loads 0 --empty --busy 12      2,000 interrupts

Each loop is interrupted six times, each program that loads kernels every two milliseconds.  Each run is a
process of its own with a time limit.  Counts are printed, and what a run that failed said; the exit status is
1 if one did.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).parent.parent
LIMIT = 120
"""Seconds after which a run counts as hanging."""

SIGNALS = {"KeyboardInterrupt": signal.SIGINT, "TimeoutError": signal.SIGALRM, "Exception": signal.SIGUSR1,
           "SystemExit": signal.SIGTERM}
"""Exceptions that a program's handlers raise, and the signals for which they do."""

LOOP = '''
import _queue, _thread, builtins, os, signal, sys, time
import numpy
import diffuse.numpy as np
from diffuse.stream import engine

def send():
    while True:
        time.sleep(requests.get())
        os.kill(os.getpid(), number)

def interrupt(number, frame):
    raise wanted(f"signal {number}")

wanted, number = getattr(builtins, sys.argv[2]), int(sys.argv[3])
signal.signal(number, signal.default_int_handler if wanted is KeyboardInterrupt else interrupt)
requests = _queue.SimpleQueue()
_thread.start_new_thread(send, ())
dropped = []                                # an interrupt in a finalizer is reported, and then forgotten
sys.unraisablehook = lambda what: dropped.append((what.exc_type, str(what.exc_value), repr(what.object)))

a = np.ones((300, 300))
engine.fence()
for turn in range(int(sys.argv[1])):
    b, x, n = a.copy(), np.zeros((300, 300)), 0
    try:
        requests.put(0.02 * (turn + 1))
        while not dropped:
            b = a.copy()
            for _ in range(30):
                b[1:-1] = (b[2:] + b[:-2]) * 0.5 + a[1:-1]
            x += 1
            x = x * 2 - x
            n += 1
            if n % 2:
                float(np.exp(-b).sum())
    except wanted as error:
        assert type(error) is wanted, error
    assert all(kind is wanted for kind, *_ in dropped), dropped
    dropped.clear()
    found = numpy.array(x)                  # as many steps as the program took, in every element
    assert found.min() == found.max() and found[0, 0] in (n, n + 1), (found, n)
    assert numpy.isfinite(numpy.array(b)).all()
    c = np.arange(5000.0) + turn
    numpy.testing.assert_array_equal(numpy.array(c * 2), (numpy.arange(5000.0) + turn) * 2)
    numpy.testing.assert_array_equal(numpy.array(a), 1.0)
print("whole")
'''

LOADS = '''
import builtins, os, signal, sys, time
import numpy
import diffuse.numpy as np
from diffuse.observe import trace
from diffuse.stream import engine
from diffuse.kernels.build import jit
from diffuse.kernels.build.compiler import compiler

def interrupt(number, frame):
    global armed
    if armed:
        armed = False
        raise wanted

def again(what):
    """Arm the handler again after an interrupt in a finalizer, which Python drops."""
    global armed
    armed = True

def more():
    """Until the time is over, and on a busy machine until there was something to see."""
    passed = time.monotonic() - start
    return passed < float(sys.argv[1]) or (passed < 60 and (count < 6 or trace.snapshot()["cache hits"] < 6))

armed, count, loads, n = False, 0, 0, 0
wanted, number = getattr(builtins, sys.argv[2]), int(sys.argv[3])
signal.signal(number, interrupt)
sys.unraisablehook = again
x, y = np.ones((200, 200)), np.arange(40000.0)
for work in (lambda: x * 0.5 + 1, lambda: y.sum(), lambda: np.sqrt(y) - y, lambda: y[2:] * y[:-2] + 1):
    work()
    engine.fence()
compiler.wait()
bodies = [body for body, _ in compiler.kernels]
print("ready", flush=True)
start = time.monotonic()
while more():
    try:
        armed = True
        while more():
            jit.compile(bodies[loads % len(bodies)])
            loads += 1
            x = x * 0.5 + 1
            n += 1
        armed = False
    except wanted:
        count += 1
signal.signal(number, signal.SIG_IGN)
print("done", flush=True)
value, values = 1.0, []
for _ in range(n + count + 1):
    values.append(value)
    value = value * 0.5 + 1
found = numpy.array(x)
assert found.min() == found.max() and found[0, 0] in values[n:], (found, n, count)
numpy.testing.assert_array_equal(numpy.array(y * 2), numpy.arange(40000.0) * 2)
done = trace.snapshot()["cache hits"]       # many a load ended when nobody waited for it any more
assert done > 5 and count > 5, (loads, done, count)
print("whole")
'''


def printed(program: str, folder: Path, **environment: str) -> str:
    """What a program in a process of its own prints, which must not complain; `folder` is its cache."""
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True,
                          timeout=240, cwd=ROOT,
                          env={**os.environ, "DIFFUSE_SMALL": "0", "DIFFUSE_MIN_CHUNK": "1000",
                               "DIFFUSE_NUM_THREADS": "2", "DIFFUSE_CACHE_DIR": str(folder), **environment})
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout


def environment(folder: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "DIFFUSE_SMALL": "0", "DIFFUSE_MIN_CHUNK": "1000",
            "DIFFUSE_NUM_THREADS": "2", "DIFFUSE_COMPILE": "background", "DIFFUSE_CACHE_DIR": folder}


def started(program: str, argument: float, folder: str, raises: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-X", "faulthandler", "-c", program, str(argument), raises,
                             str(int(SIGNALS[raises]))],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
                            env=environment(folder), preexec_fn=_hears)


def _hears() -> None:
    """A job that a shell runs in the background ignores interrupts, and so would its children."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def verdict(process: subprocess.Popen[str]) -> str:
    """"whole", or what went wrong."""
    try:
        said, complaints = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)     # so that faulthandler says where it hangs
        return "hangs\n" + process.communicate()[1][-3000:]
    if process.returncode == 0 and said.endswith("whole\n"):
        return "whole"
    return f"status {process.returncode}\n{complaints[-3000:]}"


def loop(folder: str, turns: int = 6, raises: str = "KeyboardInterrupt") -> str:
    """A program that interrupts itself so many times while it records, runs and compiles."""
    return verdict(started(LOOP, turns, folder, raises))


def loads(folder: str, seconds: float = 2.0, raises: str = "KeyboardInterrupt") -> str:
    """A program that loads kernels from the cache, with an interrupt every 2 ms."""
    process = started(LOADS, seconds, folder, raises)
    assert process.stdout is not None
    output = process.stdout.fileno()
    if line(output) == "ready\n":
        end = time.monotonic() + seconds + LIMIT
        os.set_blocking(output, False)
        said = b""
        while not said and process.poll() is None and time.monotonic() < end:
            process.send_signal(SIGNALS[raises])
            time.sleep(0.002)
            with suppress(BlockingIOError):
                said = os.read(output, 1)
        os.set_blocking(output, True)
    return verdict(process)


def line(output: int) -> str:
    """Read a line from a file descriptor, and nothing of what follows: `communicate`, which reads the rest,
    does not look into the buffer of a file of Python's."""
    said = b""
    while not said.endswith(b"\n") and (read := os.read(output, 1)):
        said += read
    return said.decode()


@contextmanager
def company(count: int) -> Iterator[None]:
    """Keep the processors busy with so many processes."""
    busy = [subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--loops", type=int, default=300)
    parser.add_argument("--loads", type=int, default=50)
    parser.add_argument("--together", type=int, default=6, help="loops that run at the same time")
    parser.add_argument("--empty", action="store_true", help="an empty cache for each loop")
    parser.add_argument("--busy", type=int, default=0, help="processes that keep the machine busy meanwhile")
    parser.add_argument("--raises", choices=SIGNALS, default="KeyboardInterrupt",
                        help="the exception that the handler of a signal raises")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="diffuse-interrupts-") as room, company(options.busy):
        def one(number: int) -> str:
            return loop(f"{room}/{number if options.empty else 0}", raises=options.raises)

        with ThreadPoolExecutor(options.together) as several:
            loops = list(several.map(one, range(options.loops)))
        loading = [loads(f"{room}/loads", raises=options.raises) for _ in range(options.loads)]
    for name, found in (("loops", loops), ("loads", loading)):
        counts = Counter(text.partition("\n")[0] for text in found)
        print(f"{name}: {len(found)} runs", *(f"{n} {what}" for what, n in counts.most_common()), sep=", ")
        for text in set(found) - {"whole"}:
            print(text)
    return int({*loops, *loading} != {"whole"})


if __name__ == "__main__":
    sys.exit(main())

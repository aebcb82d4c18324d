"""Measurements in child processes: one answer of a script that starts itself, or an answer to each command.

Commands and answers are JSON objects, one a line, through the child's standard input and output.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from case import ROOT

Measures = dict[str, Any]
PATIENCE = 600
"""Seconds after which a process that does not answer a command is given up."""


def ask(script: str, contender: str, options: Measures, environment: dict[str, str]) -> Measures:
    """Start `script` as the child of itself; what it measured, or why it did not."""
    command = [sys.executable, script, "--child", contender, json.dumps(options)]
    done = subprocess.run(command, env=environment, text=True, stdout=subprocess.PIPE, timeout=1800)
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        return {"absent": f"failed (status {done.returncode})"}
    return dict(json.loads(lines[-1]))


def measures(script: str, contender: str, options: Measures, environment: dict[str, str], seconds: float
             ) -> tuple[list[Measures], str]:
    """Start `script` as the child of itself, for at most so many seconds: the objects that it printed until
    it ended or was ended, and why it did not finish; an empty text if it did."""
    command = [sys.executable, script, "--child", contender, json.dumps(options)]
    with tempfile.TemporaryFile("w+") as printed:
        process = subprocess.Popen(command, env=environment, stdout=printed, start_new_session=True)
        try:
            status, why = process.wait(seconds), ""
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            status, why = process.wait(), f"was ended after {seconds:.0f} s"
        printed.seek(0)
        found = []
        for line in printed:
            with contextlib.suppress(ValueError):  # other libraries print, too
                found += [one] if isinstance(one := json.loads(line), dict) else []
    return found, why or (f"failed (status {status})" if status else "")


def scratch() -> tempfile.TemporaryDirectory[str]:
    """A folder for the files of a measurement, for a `with` statement.  It is removed even while a compile
    server still writes kernels into it."""
    return tempfile.TemporaryDirectory(prefix="diffuse-bench-", ignore_cleanup_errors=True)


def written(command: Sequence[str], environment: Mapping[str, str], seconds: float) -> Measures:
    """Run a command with one more argument, the file to which it writes what it measured, for at most so many
    seconds: what it wrote, or why it did not."""
    with scratch() as folder:
        target = Path(folder, "found.json")
        done = subprocess.run([*command, str(target)], env=environment, cwd=ROOT, capture_output=True,
                              text=True, timeout=seconds)
        if done.returncode or not target.exists():
            return {"absent": ended(done.returncode, done.stderr)}
        return dict(json.loads(target.read_text()))


def ended(status: int, said: str) -> str:
    """How a process failed: its status, and the last line that it wrote to the standard error output."""
    return f"status {status}: {(said.splitlines() or ['no message'])[-1]}"


def with_checkout(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment with this checkout first on the path of Python's modules."""
    paths = [str(ROOT), environment.get("PYTHONPATH")]
    return {**environment, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def answer(contenders: Mapping[str, Callable[[Measures], Measures]]) -> bool:
    """In the child: measure, print, and say that this was a child."""
    if sys.argv[1:2] != ["--child"]:
        return False
    sys.path.append(str(ROOT))
    try:
        result = contenders[sys.argv[2]](json.loads(sys.argv[3]))
    except ImportError as error:
        result = {"absent": f"not installed ({error})"}
    except Exception as error:
        traceback.print_exc()
        result = {"absent": f"failed ({type(error).__name__}: {error})"}
    print(json.dumps(result))
    return True


class Child:
    """The parent's end of a process that answers commands."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=environment)

    def answer(self) -> Measures:
        """The next answer; {"failed": why} of a process that gives none."""
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], PATIENCE)[0]:
            self.process.kill()
            return {"failed": f"gave no answer in {PATIENCE} s"}
        line = self.process.stdout.readline()
        return dict(json.loads(line)) if line else {"failed": f"ended with status {self.process.wait()}"}

    def ask(self, **command: Any) -> Measures:
        """The answer to a command."""
        assert self.process.stdin is not None
        try:
            print(json.dumps(command), file=self.process.stdin, flush=True)
        except BrokenPipeError:
            return {"failed": f"ended with status {self.process.wait()}"}
        return self.answer()

    def close(self) -> None:
        """End the process, which ends itself where no more commands can come."""
        if self.process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def answers() -> TextIO:
    """In the child: the stream for answers.  What libraries print goes to the standard error output."""
    stream = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return stream


def say(answer: Measures, stream: TextIO) -> None:
    """In the child: send the parent an answer."""
    print(json.dumps(answer), file=stream, flush=True)


def serve(answer: Callable[[Measures], Measures], stream: TextIO) -> None:
    """In the child: answer commands until the parent closes its end."""
    for line in sys.stdin:
        say(answer(json.loads(line)), stream)

"""Calls of every public function of NumPy with generated arguments: does Diffuse do what NumPy does?

    python tests/audit.py --calls 200000           some minutes on two processors; exit status 1 if any differs
    python tests/audit.py --only where,clip        calls of some functions alone
    python tests/audit.py --repeat large 4711      one call again, as text and with all that differs

A call is made in one of three modes: on small arrays, on small ones that are recorded all the same
(DIFFUSE_SMALL=0), and on ones of more than 16,384 elements.  What a line prints, mode and number, makes the
call again.  A call that ends its process is reported like any other.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

MODES = {"small": 40, "recorded": 45, "large": 15}
"""The modes, and how many of a hundred calls each has."""
SHARE = 2000
"""Calls that a process makes before the next one takes over."""


def settle(mode: str) -> None:
    """Prepare the process for the calls of a mode."""
    from diffuse.settings import config

    config.small = 0 if mode == "recorded" else 16384


def checked(mode: str, seed: int) -> tuple[str, list[str]]:
    """One call: its text, and what differs."""
    from tests import audit_calls, audit_compare

    call = audit_calls.generate(seed, mode)
    settle(mode)
    try:
        return str(call), audit_compare.differences(call)
    except Exception:
        return str(call), [f"cannot be compared: {traceback.format_exc(limit=-3)}"]


def work(jobs: Any, found: Any, only: set[str]) -> None:
    """Make calls until there are none; tell each before it begins, and what was found behind it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    from tests import audit_calls

    for mode, first, last in iter(jobs.get, None):
        made, wrong = Counter[str](), []
        for seed in range(first, last):
            if only and audit_calls.generate(seed, mode).name not in only:
                continue
            found.put(("now", mode, seed))
            text, differences = checked(mode, seed)
            made[mode] += 1
            if differences:
                wrong.append((text, differences))
        found.put(("done", made, wrong))


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=20_000, help="how many calls")
    parser.add_argument("--first", type=int, default=0, help="the number of the first one")
    parser.add_argument("--modes", default=",".join(MODES), help="which of " + ", ".join(MODES))
    parser.add_argument("--only", default="", help="names of functions")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--show", type=int, default=100, help="how many differences are printed")
    parser.add_argument("--repeat", nargs=2, metavar=("MODE", "NUMBER"))
    given = parser.parse_args(arguments)
    os.environ.update(DIFFUSE_FALLBACK="silent", DIFFUSE_COMPILE=os.environ.get("DIFFUSE_COMPILE", "off"))
    if given.repeat:
        text, differences = checked(given.repeat[0], int(given.repeat[1]))
        print(text, *differences, sep="\n    ")
        return bool(differences)
    made, wrong = everything(given)
    for text, differences in wrong[:given.show]:
        print(text, *differences, sep="\n    ")
    print(", ".join(f"{n} {mode}" for mode, n in made.items()), f"calls; {len(wrong)} differ")
    for name, n in Counter(text.partition(" ")[0] for text, _ in wrong).items():
        print(f"    {n} {name}")
    return bool(wrong)


def everything(given: argparse.Namespace) -> tuple[Counter[str], list[tuple[str, list[str]]]]:
    """Share the calls out among processes; one that ends counts against the call that it was at."""
    context = multiprocessing.get_context("spawn")
    modes = given.modes.split(",")
    whole = sum(MODES[mode] for mode in modes)
    shares = [(mode, k, min(k + SHARE, given.first + given.calls * MODES[mode] // whole)) for mode in modes
              for k in range(given.first, given.first + given.calls * MODES[mode] // whole, SHARE)]
    made, wrong = Counter[str](), list[tuple[str, list[str]]]()
    only = set(filter(None, given.only.split(",")))
    running = [Worker(context, only) for _ in range(given.processes)]
    while running:
        for worker in [*running]:
            if worker.share is None:
                if not shares:
                    worker.end()
                    running.remove(worker)
                    continue
                worker.begin(shares.pop(0))
            if (news := worker.news()) is None:
                continue
            if news[0] == "done":
                made += news[1]
                wrong += news[2]
            else:
                mode, seed, last = news[1:]
                wrong.append((f"{mode} {seed}:", ["the process ended"]))
                shares.insert(0, (mode, seed + 1, last))
                running[running.index(worker)] = Worker(context, only)
    return made, wrong


class Worker:
    """A process that makes calls, and what is known of it."""

    def __init__(self, context: Any, only: set[str]) -> None:
        self.jobs, self.found = context.SimpleQueue(), context.SimpleQueue()
        self.process = context.Process(target=work, args=(self.jobs, self.found, only), daemon=True)
        self.process.start()
        self.share: Any = None
        self.now: Any = None

    def begin(self, share: Any) -> None:
        self.share, self.now = share, share[:2]
        self.jobs.put(share)

    def news(self) -> Any:
        """What the process says when it has done its share, or the call at which it ended."""
        while self.found._reader.poll(0.05):
            told = self.found.get()
            if told[0] == "done":
                self.share = None
                return told
            self.now = told[1:]
        return None if self.process.is_alive() else ("ended", *self.now, self.share[2])

    def end(self) -> None:
        self.jobs.put(None)
        self.process.join()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

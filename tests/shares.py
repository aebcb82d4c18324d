"""Many small checks shared out among processes; a process that a check ends is reported, and replaced.

A check is named by a mode and a number, and gives its text and what differed.  `audit.py` and `stateful.py`
are the commands, with the options that `options` reads.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
from collections import Counter
from collections.abc import Callable
from typing import Any

Check = Callable[[str, int], tuple[str, list[str]]]
LOOK = 0.05
"""Seconds that a look for news of a process waits."""
PATIENCE = 400
"""How many looks in a row may find nothing, 20 seconds and many times what any check takes: then its process
is ended.  They are counted because a clock goes on while all processes are stopped."""
Share = tuple[str, int, int]
"""A mode, the first number, and the one behind the last."""


def work(check: Check, jobs: Any, found: Any) -> None:
    """Check until there is nothing left; tell each number before, and what was found behind it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    for mode, first, last in iter(jobs.get, None):
        for number in range(first, last):
            found.put(("now", mode, number))
            text, differences = check(mode, number)
            if differences:
                found.put(("wrong", text, differences))
        found.put(("done", mode, last - first))


class Worker:
    """A process that checks, and what is known of it."""

    def __init__(self, check: Check) -> None:
        context = multiprocessing.get_context("spawn")
        self.jobs, self.found = context.SimpleQueue(), context.SimpleQueue()
        self.process = context.Process(target=work, args=(check, self.jobs, self.found), daemon=True)
        self.process.start()
        self.share: Share | None = None
        self.now: tuple[str, int] = "", 0
        self.looks = 0

    def begin(self, share: Share) -> None:
        self.share, self.now, self.looks = share, share[:2], 0
        self.jobs.put(share)

    def news(self) -> Any:
        """What the process found, that it has done its share, or the check at which it ended."""
        while self.found._reader.poll(LOOK):  # type: ignore[attr-defined]
            told = self.found.get()
            self.looks = 0
            if told[0] == "now":
                self.now = told[1:]
                continue
            if told[0] == "done":
                self.share = None
            return told
        self.looks += 1
        if self.looks > PATIENCE:
            self.process.kill()
            self.process.join()
        return None if self.process.is_alive() else ("ended", *self.now)

    def end(self) -> None:
        self.jobs.put(None)
        self.process.join()


def run(check: Check, shares: list[Share], processes: int, most: int
        ) -> tuple[Counter[str], Counter[str], int]:
    """Do all shares and print the first `most` checks that find a difference, as they find it; how many
    checks there were by mode, how many found each known difference, and how many another one."""
    made: Counter[str] = Counter()
    known: Counter[str] = Counter()
    wrong = 0
    running = [Worker(check) for _ in range(processes)]
    while running:
        for worker in [*running]:
            if worker.share is None:
                if not shares:
                    worker.end()
                    running.remove(worker)
                    continue
                worker.begin(shares.pop(0))
            news = worker.news()
            if news is None:
                continue
            if news[0] == "wrong" and news[2][0].startswith("["):
                known[news[2][0]] += 1
            elif news[0] == "wrong":
                wrong += 1
                show(news[1], news[2], wrong <= most)
            elif news[0] == "done":
                made[news[1]] += news[2]
            else:
                assert worker.share is not None
                mode, number = news[1:]
                made[mode] += number + 1 - worker.share[1]
                wrong += 1
                show(f"{mode} {number}:", [f"the process ended: {worker.process.exitcode}"], wrong <= most)
                shares.insert(0, (mode, number + 1, worker.share[2]))
                running[running.index(worker)] = Worker(check)
    return made, known, wrong


def shares(modes: dict[str, int], count: int, first: int, most: int) -> list[Share]:
    """Share out `count` checks, so many of a hundred to each mode, in shares of at most `most`."""
    whole = sum(modes.values())
    found = []
    for mode, part in modes.items():
        last = first + count * part // whole
        found += [(mode, k, min(k + most, last)) for k in range(first, last, most)]
    return found


def options(documentation: str | None, modes: dict[str, int], what: str, count: int) -> argparse.Namespace:
    """Read the command line of a program that makes so many checks, `--calls` or what it calls them; the
    processes that check compile nothing and keep silent about what runs by NumPy."""
    parser = argparse.ArgumentParser(description=documentation,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(f"--{what}", dest="count", type=int, default=count, help=f"how many {what}")
    parser.add_argument("--first", type=int, default=0, help="the number that the first check has")
    parser.add_argument("--modes", default=",".join(modes), help="which of " + ", ".join(modes))
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--show", type=int, default=100, help="how many differences are printed")
    parser.add_argument("--repeat", nargs=2, metavar=("MODE", "NUMBER"), help="one check again")
    given = parser.parse_args()
    given.modes = {mode: modes[mode] for mode in given.modes.split(",")}
    os.environ.update(DIFFUSE_FALLBACK="silent", DIFFUSE_COMPILE=os.environ.get("DIFFUSE_COMPILE", "off"))
    return given


def seeds(documentation: str | None) -> argparse.ArgumentParser:
    """Make the parser of a program that runs seeds."""
    parser = argparse.ArgumentParser(description=documentation,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", metavar="FIRST", type=int, help="the first seed")
    parser.add_argument("last", metavar="LAST", type=int, help="the seed behind the last one")
    return parser


def repeated(check: Check, mode: str, number: str) -> int:
    """Make one check again and print what it found; the exit status."""
    text, differences = check(mode, int(number))
    show(text, differences)
    return bool(differences)


def show(text: str, differences: list[str], shown: bool = True) -> None:
    """Print a check that found a difference, if it is to be shown."""
    if shown:
        print(text, *differences, sep="\n    ", flush=True)

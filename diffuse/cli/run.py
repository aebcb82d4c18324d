"""`diffuse run`: runs a NumPy program with Diffuse in NumPy's place."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from types import ModuleType
from typing import Any

import click

import diffuse
from diffuse import settings
from diffuse.cli import job
from diffuse.cli import launch as launching
from diffuse.cli import traffic as counting
from diffuse.runtime.ranks import launcher


class Program(click.Command):
    """Options up to the program, `-m module` or `-c code`; what follows belongs to the program."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        options = [p for p in self.params if isinstance(p, click.Option) and not p.is_flag]
        takes = {name for option in options for name in option.opts}
        position = 0
        while position < len(args) and args[position].startswith("-") and args[position] != "--":
            if args[position] in ("-m", "-c"):
                args = [*args[:position + 2], "--", *args[position + 2:]]
                break
            position += 2 if args[position] in takes else 1
        return super().parse_args(ctx, args)


def settings_options(function: Any) -> Any:
    """Add the options that override a setting for one run."""
    for option in (
        click.option("--trace", is_flag=True, help="Print plans and refusals as they are made."),
        click.option("--runtime", metavar="NAME",
                     help="Where tasks run: local, reference, legate, mpi, cuda or simt."),
        click.option("--threads", metavar="N", help="Threads of each process."),
        click.option("--window", metavar="N", help="Tasks held before they are forwarded; 1 fuses nothing."),
        click.option("--compile", metavar="MODE", help="How kernels are compiled: background, wait or off."),
        click.option("--fallback", metavar="MODE",
                     help="For functions that only NumPy has: warn, silent or error."),
        click.option("--real", metavar="MODULE", multiple=True,
                     help="A module that uses NumPy itself, arrays converted at its calls; may be repeated."),
        click.option("--as", "aliases", metavar="NAME", multiple=True,
                     help="A module that means Diffuse's NumPy, as cupynumeric does; may be repeated."),
    ):
        function = option(function)
    return function


def apply(trace: bool, **values: str | tuple[str, ...] | None) -> None:
    """Set the settings that options name."""
    settings.check_environment()
    for name, value in values.items():
        if value is not None and value != ():
            job.override("--as" if name == "aliases" else f"--{name}", name, value)
    if trace:
        settings.config.trace = True


def check_runtime(besides: str = "") -> None:
    """Raise an error if the runtime lacks something that is not installed; `besides` ends the message."""
    if refusal := launching.refusal(launcher.ranks() > 1):
        raise click.ClickException(refusal + besides)


def program_of(module: str | None, code: str | None, program: tuple[str, ...]) -> list[str]:
    """The words that name what to run, as in Python's own command line."""
    if module is not None:
        return ["-m", module, *program]
    if code is not None:
        return ["-c", code, *program]
    if not program:
        raise click.UsageError("expected a program: diffuse run program.py, -m module or -c code")
    return list(program)


def execute(words: list[str]) -> int:
    """Run a program in this process; returns its exit status."""
    from diffuse import intercept

    return intercept.run(words)


def report(as_json: bool) -> str:
    """The report of `diffuse.explain()` for this process."""
    said = diffuse.explain()
    return json.dumps(asdict(said), indent=2) if as_json else str(said)


@click.command(cls=Program, name="run", context_settings={"allow_interspersed_args": False})
@settings_options
@job.options
@counting.options
@click.option("--explain", is_flag=True, help="Print at the end what was fused and what was not.")
@click.option("--compare", is_flag=True, help="Run under NumPy and under Diffuse; "
              "exit status 1 if what is printed or saved differs.")
@click.option("--json", "as_json", is_flag=True, help="With --compare, --explain or --traffic: print JSON.")
@click.option("-m", "module", metavar="MODULE", help="Run a module, as python -m does.")
@click.option("-c", "code", metavar="CODE", help="Run program text, as python -c does.")
@click.argument("program", nargs=-1, type=click.UNPROCESSED)
def command(explain: bool, compare: bool, as_json: bool, module: str | None, code: str | None,
            program: tuple[str, ...], **options: Any) -> int:
    """Run a NumPy program with Diffuse in NumPy's place."""
    launch, count = job.taken(options), counting.taken(options)
    words = program_of(module, code, program)
    apply(**options)
    counting.apply(count, launch)
    launching.apply(launch)
    if not launch.outer and count.virtual is None:
        check_runtime("; --simulate N and --predict N count without it" * count.wanted)
    if compare:
        if launch.outer:
            raise click.UsageError(f"--compare runs one process, without {launch.named[0]}")
        if explain or count.wanted:
            raise click.UsageError("--compare prints no report: leave out --compare, or "
                                   f"{'--explain' if explain else '--traffic'}")
        if not words[0].startswith("-") and not os.path.exists(words[0]):
            raise click.ClickException(f"can't open file {words[0]!r}: No such file or directory")
        from diffuse.cli import compare as comparison

        return comparison.show(words, as_json, launching.chosen())
    if launch.outer:
        return launching.become(launch, [*["--explain"] * explain, *["--traffic"] * count.wanted,
                                         *["--json"] * as_json, *words])
    ranks = one_of_several()
    status = execute(words)
    if explain:
        sys.stdout.flush()
        print(report(as_json), file=sys.stderr)
    if count.wanted and not status:
        counting.show(as_json)
    if status and ranks is not None:
        ranks.leave(status)
    return status


def one_of_several() -> ModuleType | None:
    """Set this process up as one of several ranks, before the program begins; returns None if it is not
    one."""
    if settings.config.runtime not in ("legate", "mpi"):
        return None
    from diffuse.runtime import machine
    from diffuse.runtime.ranks import launcher, process

    if launcher.ranks() == 1:
        return None
    if "PYTHONHASHSEED" not in os.environ:  # another launcher started us; sets iterate alike from here on
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    if settings.config.threads == "auto":
        settings.config.threads = max(1, machine.processors() // launcher.local_ranks())
    process.settle_in(launcher.rank(), launcher.ranks())
    return process

"""`diffuse explain`: runs a program, and reports what was fused and what stopped the rest."""

from __future__ import annotations

import sys
from typing import Any

import click

from diffuse.cli.run import Program, apply, check_runtime, execute, program_of, report, settings_options


@click.command(cls=Program, name="explain", context_settings={"allow_interspersed_args": False})
@settings_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("-m", "module", metavar="MODULE", help="Run a module, as python -m does.")
@click.option("-c", "code", metavar="CODE", help="Run program text, as python -c does.")
@click.argument("program", nargs=-1, type=click.UNPROCESSED)
def command(as_json: bool, module: str | None, code: str | None, program: tuple[str, ...],
            **options: Any) -> int:
    """Run a program and say what was fused, and what stopped the rest."""
    words = program_of(module, code, program)
    apply(**options)
    check_runtime()
    status = execute(words)
    sys.stdout.flush()
    print(report(as_json))
    return status

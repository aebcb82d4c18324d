"""Runs the commands, each imported when it is called, and turns their errors into exit statuses."""

from __future__ import annotations

from importlib import import_module

import click

from diffuse import __version__
from diffuse.cli.table import COMMANDS


class Commands(click.Group):
    """The commands by name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"diffuse.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=Commands, name="diffuse", context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version=__version__, message="%(version)s")
def group() -> None:
    """NumPy programs, recorded, fused and run on all cores.

    `diffuse program.py` is short for `diffuse run program.py`.
    """


def call(words: list[str]) -> int:
    """Run the command that these words name, with its options; returns its exit status."""
    try:
        status = group.main(args=words, prog_name="diffuse", standalone_mode=False)
    except click.exceptions.Abort:
        return 130
    except click.ClickException as error:
        error.show()
        return error.exit_code
    return int(status or 0)

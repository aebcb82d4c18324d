"""The command `diffuse`: one small file a command.

`diffuse program.py` is short for `diffuse run program.py`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module

import click

from diffuse import __version__

COMMANDS = {
    "run": "Run a NumPy program with Diffuse in NumPy's place.",
    "info": "Show the machine, the threads, the settings, the cache, Legate and the versions.",
    "explain": "Run a program and say what was fused, and what stopped the rest.",
    "cache": "List, measure or clear the compiled kernels kept on disk.",
}


class Commands(click.Group):
    """The commands by name, each imported when it is called."""

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


@click.group(cls=Commands, name="diffuse")
@click.version_option(version=__version__, message="%(version)s")
def group() -> None:
    """NumPy programs, recorded, fused and run on all cores."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; its exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words and words[0] not in COMMANDS and (not words[0].startswith("-") or words[0] in ("-m", "-c")):
        meant = get_close_matches(words[0], COMMANDS, 1)
        if meant and "." not in words[0] and not os.path.exists(words[0]):
            print(f"diffuse: there is no command and no program {words[0]!r}; did you mean {meant[0]}?",
                  file=sys.stderr)
            return 2
        words.insert(0, "run")
    try:
        status = group.main(args=words, prog_name="diffuse", standalone_mode=False)
    except click.exceptions.Abort:
        return 130
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except ValueError as error:  # a wrong setting
        print(f"diffuse: {error}", file=sys.stderr)
        return 2
    return int(status or 0)

"""The command `diffuse`: one small file per command.

`diffuse program.py` is short for `diffuse run program.py`.  Where neither has options, `click` is not
imported: that takes half as long as importing all of Diffuse.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from diffuse import settings
from diffuse.cli.table import COMMANDS


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns its exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words and words[0] not in COMMANDS and (not words[0].startswith("-") or words[0] in ("-m", "-c")):
        meant = _misspelt(words[0])
        if meant:
            print(f"diffuse: there is no command and no program {words[0]!r}; did you mean {meant}?",
                  file=sys.stderr)
            return 2
        words.insert(0, "run")
    try:
        if len(words) > 1 and words[0] == "run" and not words[1].startswith("-"):
            settings.check_environment()
            if settings.config.runtime not in ("legate", "mpi", "cuda"):  # for which something may be missing
                from diffuse.service import early

                early.start(words[1])  # while the rest is imported
                from diffuse import intercept

                return intercept.run(words[1:])
        from diffuse.cli import commands

        return commands.call(words)
    except ValueError as error:  # a wrong setting
        print(f"diffuse: {error}", file=sys.stderr)
        return 2


def _misspelt(word: str) -> str:
    """Return the command whose name is closest to a word that is neither a command nor a program, or ''."""
    if "." in word or os.path.exists(word):
        return ""
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, COMMANDS, 1)), "")

"""`python -m diffuse`: the command line; `python -m diffuse program.py` runs a program."""

from __future__ import annotations

import sys

from diffuse.cli import main

if __name__ == "__main__":
    sys.exit(main())

"""To import this starts the compiling process if the program will need it: where nothing is kept on disk yet.

Python, the emitter and LLVM take a tenth of a second to start, which goes on while the rest of Diffuse is
imported.
"""

from __future__ import annotations

from diffuse.service.client import client
from diffuse.service.code import disk
from diffuse.settings import config

if config.runtime == "local" and config.compile != "off" and disk().empty():
    client.start()

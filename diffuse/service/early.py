"""Importing this module starts the compile server if the cache is empty.

The server takes a tenth of a second to import the emitter and LLVM, and does so while the program imports the
rest of Diffuse.
"""

from __future__ import annotations

from contextlib import suppress

from diffuse.service.client import client
from diffuse.service.code import disk
from diffuse.settings import config

if config.runtime == "local" and config.compile != "off" and disk().empty():
    with suppress(RuntimeWarning):  # where warnings are errors: an import does not fail for want of a server
        client.start()
